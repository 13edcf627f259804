package lookahead

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestFromAnyTransaction begins and ends streams at transactions that change none of their tables,
// as that of FLUSH TABLES does, which mysqldump leaves behind as the last one.
func TestFromAnyTransaction(t *testing.T) {
	t.Parallel()
	for _, server := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
		for kind, sql := range map[string]string{
			"flush":     "FLUSH TABLES",
			"database":  "CREATE DATABASE OTHER_x",
			"user":      "CREATE USER OTHER_u@localhost",
			"elsewhere": "INSERT INTO OTHER.t VALUES (1, 'x')",
			"table":     "CREATE TABLE OTHER.made (i int)",
			"view":      "CREATE VIEW OTHER.seen AS SELECT 1 AS one",
		} {
			src, tgt, other := server.NewDatabase(t, "from"), server.NewDatabase(t, "into"), server.NewDatabase(t, "other")
			t.Run(server.Engine+" "+kind, func(t *testing.T) {
				t.Parallel()
				for _, db := range []string{src, tgt, other} {
					testdb.Query(t, db, "CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
				}
				for _, db := range []string{src, tgt} {
					testdb.Query(t, db, "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
				}
				t.Cleanup(func() {
					s := testdb.NewSession(src)
					defer s.Close()
					for _, undo := range []string{"DROP DATABASE IF EXISTS OTHER_x", "DROP USER IF EXISTS OTHER_u@localhost"} {
						_, _ = s.Try(strings.ReplaceAll(undo, "OTHER", schema(other)))
					}
				})
				testdb.Query(t, src, "UPDATE t SET v = 'before' WHERE id = 2; UPDATE t SET v = 'b' WHERE id = 2")
				gtid := logged(t, src, strings.ReplaceAll(sql, "OTHER", schema(other)))
				testdb.Query(t, src, "INSERT INTO t VALUES (3, 'c'); UPDATE t SET v = 'changed' WHERE id = 2")
				stream := []string{"replicate", src, tgt, "--name", strings.ToLower(server.Engine) + "_from_" + kind}
				testdb.Must(t, append(stream, "--from", gtid, "--until", "now")...)
				same := func(when string) {
					t.Helper()
					const ask = "SELECT * FROM t ORDER BY id"
					if a, b := testdb.Query(t, src, ask), testdb.Query(t, tgt, ask); a != b {
						t.Errorf("%s the source has\n%s\nthe target\n%s", when, a, b)
					}
				}
				same("from " + gtid)

				testdb.Query(t, src, "INSERT INTO t VALUES (4, 'd')")
				gtid = logged(t, src, "FLUSH TABLES")
				testdb.Query(t, src, "INSERT INTO t VALUES (5, 'e')")
				testdb.Must(t, append(stream, "--until", gtid)...)
				if ids := testdb.Query(t, tgt, "SELECT group_concat(id ORDER BY id) FROM t"); ids != "1,2,3,4" {
					t.Errorf("until %s the target has the rows %s", gtid, ids)
				}
				testdb.Must(t, append(stream, "--until", "now")...)
				same("at the end")
			})
		}
	}
}

// logged runs a statement, and returns the GTID that it has in the log.
func logged(t *testing.T, db, sql string) string {
	t.Helper()
	s := testdb.NewSession(db)
	defer s.Close()
	run := func(sql string) string {
		out, err := s.Try(sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return strings.TrimSpace(out)
	}
	if strings.HasPrefix(db, "mariadb") {
		run(sql)
		return run("SELECT @@last_gtid")
	}
	gtid := fmt.Sprintf("11111111-2222-3333-4444-%012x:1", time.Now().UnixNano()&(1<<48-1))
	run("SET gtid_next = '" + gtid + "'")
	run(sql)
	run("SET gtid_next = AUTOMATIC")
	return gtid
}
