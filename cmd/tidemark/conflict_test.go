package main

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestConflicts meets a target that somebody else has changed: it stops, passes over, or
// makes the target fit, and notes each change once.
func TestConflicts(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		to   func(*testing.T) *testdb.Server
		row  string // as the statement of an exception has it
	}{{"postgres", pg15, "VALUES ('12', '12', '12')"}, {"mysql", mysql8, "VALUES (12,12,12)"}, {"mariadb", maria, "VALUES (12,12,12)"}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := pg15(t).NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), streamName()
			testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, x int, u int UNIQUE); INSERT INTO a VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
			args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
			must(t, args...)
			for _, sql := range []string{"INSERT INTO a VALUES (10, 0, 10)", "DELETE FROM a WHERE id = 2", "DELETE FROM a WHERE id = 3", "INSERT INTO a VALUES (50, 0, 12)"} {
				testdb.Query(t, dst, sql)
			}
			testdb.Query(t, src, "BEGIN; INSERT INTO a VALUES (10, 10, 10), (11, 11, 11); UPDATE a SET x = 22 WHERE id = 2; COMMIT; DELETE FROM a WHERE id = 3; INSERT INTO a VALUES (12, 12, 12); UPDATE a SET x = 7 WHERE id = 1")
			if o := cli(t, args...); o.code != 14 {
				t.Fatalf("exit %d\n%s", o.code, o.errOut)
			}
			if n := testdb.Query(t, dst, "SELECT count(*) FROM a WHERE id = 11"); n != "0" {
				t.Error("half of a transaction is there")
			}
			o := must(t, append(args, "--conflict", "force")...)
			if !strings.Contains(o.out, "4 changes did not fit the target") {
				t.Errorf("the report says\n%s", o.out)
			}
			// 10 was made an update, 2 an insert; 3 was gone; 12 cannot be, because of 50.
			if got := testdb.Query(t, dst, "SELECT id, x FROM a ORDER BY id"); got != "1\t7\n2\t22\n10\t10\n11\t11\n50\t0" {
				t.Errorf("the target has\n%s", got)
			}
			o = must(t, "exceptions", dst, "--name", name)
			for _, want := range []string{"DUPLICATE: INSERT of", "NOTFOUND: UPDATE of", "NOTFOUND: DELETE of", "made to fit", "passed over", x.row} {
				if !strings.Contains(o.out, want) {
					t.Errorf("no %q in\n%s", want, o.out)
				}
			}
			if n := strings.Count(o.out, "(transaction at"); n != 4 {
				t.Errorf("%d exceptions\n%s", n, o.out)
			}
			testdb.Query(t, dst, "DELETE FROM a WHERE id = 1")
			testdb.Query(t, src, "UPDATE a SET x = 8 WHERE id = 1; UPDATE a SET x = 9 WHERE id = 2")
			must(t, append(args, "--conflict", "ignore")...)
			if got := testdb.Query(t, dst, "SELECT id, x FROM a WHERE id < 10 ORDER BY id"); got != "2\t9" {
				t.Errorf("the target has\n%s", got)
			}
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}
