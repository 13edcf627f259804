package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTouched: a stream writes into columns that are ON UPDATE CURRENT_TIMESTAMP what the source
// has there, though the target would have taken the time, and so does repair; also where foreign
// keys act, so that triggers fire. Afterwards updates on the target take the time.
func TestTouched(t *testing.T) {
	const made = `CREATE TABLE p (id int PRIMARY KEY, n int, at timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP, fine datetime(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6));
CREATE TABLE c (id int PRIMARY KEY, p int, q int, n int, at timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP, KEY (p), KEY (q),
	CONSTRAINT c_p FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET NULL ON UPDATE CASCADE, CONSTRAINT c_q FOREIGN KEY (q) REFERENCES p (id) ON DELETE CASCADE);
INSERT INTO p VALUES (1, 1, '2001-01-01 00:00:00', '2001-01-01 00:00:00.5'), (2, 2, NULL, NULL), (3, 3, '2001-01-01 00:00:00', NULL), (4, 4, NULL, NULL), (5, 5, '2001-01-01 00:00:00', '2001-01-01 00:00:00');
INSERT INTO c VALUES (1, 1, 2, 1, '2001-01-01 00:00:00'), (2, 2, NULL, 2, '2001-01-01 00:00:00'), (3, 3, 1, 3, NULL), (4, 4, 4, 4, NULL);`
	changes := []string{
		"UPDATE p SET n = n + 1, at = at, fine = fine WHERE id < 5",
		"UPDATE p SET n = n + 1",
		"UPDATE p SET id = 33 WHERE id = 3",
		"DELETE FROM p WHERE id = 2",
		"UPDATE c SET n = n + 1, at = at",
		"UPDATE p SET at = '2002-02-02 02:02:02' WHERE id = 1",
	}
	for _, from := range []string{"mysql", "mariadb"} {
		for _, image := range []string{"FULL", "MINIMAL"} {
			src := testdb.ServerOf(t, from).NewDatabase(t, "src")
			testdb.Query(t, src, made)
			targets := map[string]string{}
			stream := func(to string) []string {
				return []string{"replicate", src, targets[to], "--name", "touched_" + strings.ToLower(from+to+image), "--until", "now"}
			}
			for _, to := range []string{"postgres", "mysql", "mariadb"} {
				targets[to] = testdb.ServerOf(t, to).NewDatabase(t, "dst")
				testdb.Must(t, stream(to)...)
			}
			for _, sql := range changes {
				testdb.Query(t, src, "SET SESSION binlog_row_image = '"+image+"', time_zone = '+00:00'; "+sql)
			}
			for to, dst := range targets {
				if out := testdb.Must(t, stream(to)...); strings.Contains(out, "stopped") || strings.Contains(out, "triggers fire") {
					t.Errorf("%s to %s:\n%s", from, to, out)
				}
				testdb.Must(t, append(stream(to), "--remove")...)
				same := func(what string) {
					t.Helper()
					if o := testdb.Run(t, "diff", src, dst); o.Code != 0 {
						t.Errorf("%s to %s, %s, %s: diff ends with %d:\n%s%s", from, to, image, what, o.Code, o.Out, o.ErrOut)
					}
				}
				same("stream")
				testdb.Query(t, dst, "UPDATE p SET n = 76, at = at, fine = fine WHERE id = 5; UPDATE p SET n = 77 WHERE id IN (1, 4); UPDATE c SET at = '2003-03-03 03:03:03' WHERE id < 4")
				if out := testdb.Query(t, dst, "SELECT count(*) FROM p WHERE at > '2026-01-01' AND n = 77"); out != "2" {
					t.Errorf("%s to %s: %s rows of two take the time of an update", from, to, out)
				}
				testdb.Must(t, "repair", src, dst, "--execute")
				same("repair")
			}
		}
	}
}
