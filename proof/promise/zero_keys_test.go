package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestRepairOfDatesThatOnlyMySQLHas: diff and repair compare and write them as they are, in keys
// too, where both sides store them.
func TestRepairOfDatesThatOnlyMySQLHas(t *testing.T) {
	const any = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'; "
	servers := []string{"mysql", "mariadb"}
	for _, from := range servers {
		for _, to := range servers {
			src, dst := testdb.ServerOf(t, from).NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
			for _, url := range []string{src, dst} {
				testdb.Query(t, url, any+`CREATE TABLE d (k date PRIMARY KEY, v int, w datetime); CREATE TABLE t (k datetime(3) PRIMARY KEY, v int, w date); CREATE TABLE s (k timestamp PRIMARY KEY, v int, w date);
					INSERT INTO d VALUES ('2024-01-01', 1, '2024-02-30'), ('0000-00-00', 1, '0000-00-00'), ('2024-00-00', 1, NULL), ('2024-02-30', 1, '2024-00-00');
					INSERT INTO t VALUES ('2024-01-01', 1, '2024-02-30'), ('0000-00-00', 1, '0000-00-00'), ('2024-00-00', 1, NULL), ('2024-02-30 12:00:00.5', 1, '2024-00-00');
					INSERT INTO s VALUES ('2024-01-01', 1, '2024-02-30'), ('0000-00-00', 1, '0000-00-00')`)
			}
			// The types of x differ, so that its rows are read as text.
			testdb.Query(t, src, any+"CREATE TABLE x (v date); INSERT INTO x VALUES ('2024-01-01'), ('0000-00-00'), ('2024-02-30')")
			testdb.Query(t, dst, any+"CREATE TABLE x (v datetime); INSERT INTO x VALUES ('2024-01-01'), ('0000-00-00'), ('2024-02-30')")
			testdb.Query(t, dst, any+`UPDATE d SET v = 2, w = '2024-02-31'; UPDATE t SET w = NULL WHERE v = 1; UPDATE s SET v = 2; DELETE FROM d WHERE k = '2024-00-00';
				INSERT INTO d VALUES ('2023-02-30', 1, NULL), ('2023-00-00', 2, NULL); INSERT INTO t VALUES ('2023-02-30', 1, NULL), ('2023-00-00', 2, NULL)`)
			for _, how := range []string{"--lanes=2", "--read-rows", "--live"} {
				if o := testdb.Run(t, "diff", src, dst, how); o.Code != 1 || !strings.Contains(o.Out, "4 tables compared, 1 equal, 3 not") {
					t.Errorf("%s to %s: diff %s: exit %d\n%s%s", from, to, how, o.Code, o.Out, o.ErrOut)
				}
			}
			if o := testdb.Run(t, "repair", src, dst, "--execute"); o.Code != 0 || !strings.Contains(o.Out, "inserted 1, updated 8, deleted 4") {
				t.Errorf("%s to %s: repair: exit %d\n%s%s", from, to, o.Code, o.Out, o.ErrOut)
			}
			for _, table := range []string{"d", "t", "s"} {
				all := "SELECT concat(k), v, concat(w) FROM " + table + " ORDER BY k"
				if a, b := testdb.Query(t, src, all), testdb.Query(t, dst, all); a != b {
					t.Errorf("%s to %s, %s:\n%s\nat the source\n%s", from, to, table, b, a)
				}
			}
		}
	}
}
