package promise

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestRoundedGeneratedColumns moves and follows tables whose generated columns round what they
// compute, of which MySQL and MariaDB make a note for each row.
func TestRoundedGeneratedColumns(t *testing.T) {
	pairs := [][2]string{{"mysql", "mysql"}, {"mysql", "mariadb"}, {"mariadb", "mysql"}, {"mariadb", "mariadb"}, {"postgres", "mysql"}, {"postgres", "mariadb"}}
	for _, i := range testdb.Draw(t, len(pairs), 1) {
		t.Run(pairs[i][0]+" to "+pairs[i][1], func(t *testing.T) { rounded(t, pairs[i][0], pairs[i][1]) })
	}
}

func rounded(t *testing.T, from, to string) {
	src := testdb.ServerOf(t, from).NewDatabase(t, "src")
	table := "CREATE TABLE t (id int PRIMARY KEY, n decimal(10,2), d double, m datetime, s varchar(9), total decimal(10,2) AS (n * 1.191) STORED, third decimal(10,2) AS (n / 3) VIRTUAL, whole decimal(6,0) AS (d) STORED, day date AS (m) VIRTUAL)"
	if from == "postgres" {
		table = "CREATE TABLE t (id int PRIMARY KEY, n numeric(10,2), d float8, m timestamp(0), s varchar(9), total numeric(10,2) GENERATED ALWAYS AS (n * 1.191) STORED, whole numeric(6,0) GENERATED ALWAYS AS (n) STORED)"
	}
	testdb.Query(t, src, table+"; CREATE TABLE plain (id int PRIMARY KEY, n decimal(10,2))")
	fill := func(first int) {
		var rows []string
		for i := range 300 {
			rows = append(rows, fmt.Sprintf("(%d, %d.%02d, %d.7, '2024-02-29 23:59:59', 'a  ')", first+i, i, i%100, i))
		}
		testdb.Query(t, src, "INSERT INTO t (id, n, d, m, s) VALUES "+strings.Join(rows, ", ")+fmt.Sprintf("; INSERT INTO plain VALUES (%d, 1.5)", first))
	}
	same := func(dst string) {
		t.Helper()
		testdb.Must(t, "diff", src, dst)
		for _, rows := range []string{"SELECT id, n, m, total, whole FROM t ORDER BY id", "SELECT * FROM plain ORDER BY id"} {
			if got, want := testdb.Query(t, dst, rows), testdb.Query(t, src, rows); got != want {
				t.Errorf("%.300s\nwant\n%.300s", got, want)
			}
		}
	}
	fill(1)
	for _, copies := range []string{src, dumped(t, src)} {
		if copies == "" {
			continue
		}
		dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
		testdb.Must(t, "check", copies, dst)
		testdb.Must(t, "copy", copies, dst)
		same(dst)
	}
	dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
	stream := []string{"replicate", src, dst, "--name", testdb.StreamName("rounded"), "--until", "now"}
	testdb.Must(t, stream...)
	for _, mode := range []string{"transactional", "batch"} {
		fill(len(mode) * 1000)
		testdb.Query(t, src, "UPDATE t SET n = n + 0.01 WHERE id % 3 = 0; DELETE FROM t WHERE id % 10 = 7")
		if out := testdb.Must(t, append(stream, "--apply-mode", mode)...); strings.Contains(out, "stopped") {
			t.Error(out)
		}
		same(dst)
	}
	testdb.Query(t, dst, "UPDATE t SET n = n + 1 WHERE id % 5 = 0; DELETE FROM t WHERE id % 11 = 0")
	testdb.Must(t, append(stream, "--remove")...)
	testdb.Must(t, "repair", src, dst, "--execute")
	same(dst)

	// What the server would cut off of a column that is written is refused still.
	testdb.Query(t, dst, "TRUNCATE TABLE t; TRUNCATE TABLE plain; ALTER TABLE t MODIFY n decimal(10,1)")
	if o := testdb.Run(t, "copy", src, dst, "--prep", "keep"); o.Code != 14 {
		t.Errorf("a narrower column: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
}

// dumped is a dump of a database of MySQL or MariaDB; "" of another.
func dumped(t *testing.T, src string) string {
	if strings.HasPrefix(src, "postgres") {
		return ""
	}
	return testdb.MySQLDump(t, src)
}
