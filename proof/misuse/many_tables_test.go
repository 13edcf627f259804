package misuse

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// manyTables fills a database with small tables: every fifth is empty, every tenth refers to the
// one before it.
func manyTables(t *testing.T, db string, n int) {
	const some = 200 // a transaction locks the tables that it creates
	for first := 1; first <= n; first += some {
		testdb.Query(t, db, fmt.Sprintf(`DO $$ BEGIN FOR i IN %d..%d LOOP
			EXECUTE format('CREATE TABLE t%%s (id int PRIMARY KEY, a text DEFAULT ''é'', b int CHECK (b < 99))', i);
			IF mod(i, 5) > 0 THEN EXECUTE format('INSERT INTO t%%s SELECT g, ''text '' || g, mod(g, 7) FROM generate_series(1, 20) g', i); END IF;
			EXECUTE format('CREATE INDEX ON t%%s (b)', i);
			IF mod(i, 10) = 2 THEN EXECUTE format('ALTER TABLE t%%s ADD FOREIGN KEY (id) REFERENCES t%%s', i, i-1); END IF;
		END LOOP; END $$`, first, min(first+some-1, n)))
	}
}

// TestManyTablesKilled kills a copy of 2,000 tables in each of its phases and resumes it: what the
// target has in the end is what the source has, by pg_dump.
func TestManyTablesKilled(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 17)
	src, dst := s.NewDatabase(t, "src"), s.NewDatabase(t, "dst")
	tables := 2000
	manyTables(t, src, tables)
	args := []string{"copy", src, dst, "--progress", "lines"}
	built := func(what string) func() bool {
		return func() bool { return testdb.Query(t, dst, what) == "t" }
	}
	kills := 0
	marked := func(n int) string { // in the middle of a transaction of several small tables
		return fmt.Sprintf("SELECT CASE WHEN to_regclass('tidemark.copied') IS NULL THEN false ELSE (xpath('/row/c/text()', query_to_xml('SELECT count(*) AS c FROM tidemark.copied WHERE range > 0', false, true, '')))[1]::text::int > %d END", n)
	}
	for _, moment := range []string{
		"SELECT count(*) > 300 FROM pg_class WHERE relkind = 'r' AND relname ~ '^t[0-9]'",
		"SELECT count(*) > 1900 FROM pg_class WHERE relkind = 'r' AND relname ~ '^t[0-9]'",
		marked(500),
		marked(1200),
		"SELECT count(*) > 600 FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relname ~ '^t[0-9]'",
		"SELECT count(*) > 50 FROM pg_constraint WHERE contype = 'f'",
	} {
		p := testdb.Start(t, args...)
		there := built(moment)
		soon(t, moment, func() bool { return p.Over() || there() })
		if !p.Over() {
			p.Kill()
			kills++
		}
		if kills > 0 {
			args = []string{"copy", src, dst, "--progress", "lines", "--resume", "last"}
		}
	}
	if kills < 2 {
		t.Fatalf("the copy was killed %d times", kills)
	}
	began := time.Now()
	if out := testdb.Run(t, args...); out.Code != 0 && !strings.Contains(out.ErrOut, "has already finished") {
		t.Fatalf("the last copy ended with %d:\n%s\n%s", out.Code, out.ErrOut, out.Out)
	}
	t.Logf("killed %d times; the rest took %s", kills, time.Since(began).Round(time.Second))
	if want, got := testdb.PgDump(t, src), testdb.PgDump(t, dst); want != got {
		t.Fatalf("the target differs: %s", firstDifference(want, got))
	}
	const rows = `SELECT string_agg(relname || (xpath('/row/c/text()', query_to_xml(format('SELECT count(*) || md5(string_agg(x::text, '','' ORDER BY id)) AS c FROM %I x', relname),
		false, true, '')))[1]::text, E'\n' ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND relname ~ '^t[0-9]'`
	if want, got := testdb.Query(t, src, rows), testdb.Query(t, dst, rows); want != got {
		t.Fatalf("the target's rows differ: %s", firstDifference(want, got))
	}
	report := testdb.Must(t, "report", "last")
	if lines := strings.Count(report, "\n"); lines > 100 || !strings.Contains(report, "tables more") {
		t.Errorf("a report of %d lines for %d tables", lines, tables)
	}
}

// TestManyTablesKilledMySQL kills a copy whose small tables share transactions while their rows
// move, twice, and resumes it: the servers' own dumps of both sides are equal.
func TestManyTablesKilledMySQL(t *testing.T) {
	t.Parallel()
	s := testdb.MariaDB(t)
	if testdb.Draw(t, 2, 1)[0] == 1 {
		s = testdb.MySQL(t)
	}
	src, dst := s.NewDatabase(t, "src"), s.NewDatabase(t, "dst")
	const tables = 300
	for first := 0; first < tables; first += 50 {
		var sql strings.Builder
		for i := first; i < first+50; i++ {
			fmt.Fprintf(&sql, "CREATE TABLE t%d (id int PRIMARY KEY, a varchar(20) DEFAULT 'é', b int, KEY (b));", i)
			if i%5 > 0 {
				fmt.Fprintf(&sql, "INSERT INTO t%d VALUES (1, 'a', %d), (2, 'é''\\\n', NULL), (3, '', -1);", i, i)
			}
		}
		testdb.Query(t, src, sql.String())
	}
	args := []string{"copy", src, dst, "--progress", "lines"}
	kills := 0
	for _, n := range []int{40, 150} {
		p := testdb.Start(t, args...)
		soon(t, fmt.Sprint(n, " ranges"), func() bool {
			got, err := testdb.TryQuery(dst, fmt.Sprintf("SELECT COUNT(*) > %d FROM tidemark_copied WHERE range_id > 0", n))
			return p.Over() || err == nil && got == "1"
		})
		if !p.Over() {
			p.Kill()
			kills++
		}
		if kills > 0 {
			args = []string{"copy", src, dst, "--progress", "lines", "--resume", "last"}
		}
	}
	if kills == 0 {
		t.Fatal("the copy was never killed")
	}
	if out := testdb.Run(t, args...); out.Code != 0 && !strings.Contains(out.ErrOut, "has already finished") {
		t.Fatalf("the last copy ended with %d:\n%s\n%s", out.Code, out.ErrOut, out.Out)
	}
	args = []string{"--compact", "--order-by-primary"}
	if s.Engine == "mysql" {
		args = append(args, "--set-gtid-purged=OFF")
	}
	dump := func(db string) string {
		text, err := os.ReadFile(testdb.MySQLDump(t, db, args...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if want, got := dump(src), dump(dst); want != got {
		t.Fatalf("the target differs: %s", firstDifference(want, got))
	}
}

// TestManyTablesInAStream: the first changes of many tables in a stream do not make it describe the
// source for each of them. pg_ts_dict is read only where everything is described.
func TestManyTablesInAStream(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 17)
	src, dst := s.NewDatabase(t, "src"), s.NewDatabase(t, "dst")
	const tables = 50
	manyTables(t, src, tables)
	stream := []string{"replicate", src, dst, "--name", "many", "--until", "now", "--progress", "none"}
	testdb.Must(t, stream...)
	testdb.Query(t, src, fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP EXECUTE format('INSERT INTO t%%s SELECT g, NULL, 1 FROM generate_series(100, 110) g', i); COMMIT; END LOOP; END $$", tables))
	const described = "SELECT pg_stat_clear_snapshot(); SELECT seq_scan FROM pg_stat_sys_tables WHERE relname = 'pg_ts_dict'"
	count := func() (n int) {
		time.Sleep(1100 * time.Millisecond) // sessions report once a second
		if _, err := fmt.Sscan(testdb.Query(t, src, described), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	testdb.Must(t, stream...)
	if n := count() - before; n == 0 || n > 10 {
		t.Errorf("the source was described %d times for %d tables", n, tables)
	}
	for _, i := range []int{1, 25, tables} {
		if got := testdb.Query(t, dst, fmt.Sprintf("SELECT count(*) FROM t%d WHERE id >= 100", i)); got != "11" {
			t.Errorf("t%d has %s of its 11 rows", i, got)
		}
	}
	testdb.Must(t, "replicate", src, dst, "--name", "many", "--remove")
}
