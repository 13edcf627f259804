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

// TestTransactionThatIsNotThere: a stream that is to begin or to end at a transaction that its
// source has not committed, or that it has passed, says so, and applies nothing beyond it.
func TestTransactionThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, server := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
		t.Run(server.Engine, func(t *testing.T) {
			t.Parallel()
			src, tgt := server.NewDatabase(t, "from"), server.NewDatabase(t, "into")
			for _, db := range []string{src, tgt} {
				testdb.Query(t, db, "CREATE TABLE t (id int PRIMARY KEY)")
			}
			ids := func(want string) {
				t.Helper()
				if got := testdb.Query(t, tgt, "SELECT group_concat(id ORDER BY id) FROM t"); got != want {
					t.Errorf("the target has the rows %s, want %s", got, want)
				}
			}
			refused := func(code int, says string, args ...string) {
				t.Helper()
				o := testdb.Run(t, args...)
				if o.Code != code || !strings.Contains(o.ErrOut, says) {
					t.Errorf("exit %d, want %d with %q\n%s", o.Code, code, says, o.ErrOut)
				}
			}
			stream := []string{"replicate", src, tgt, "--name", "there_" + server.Engine}
			one := logged(t, src, "INSERT INTO t VALUES (1)")
			random := time.Now().UnixNano() & (1<<31 - 1)
			unknown, next := fmt.Sprintf("11111111-2222-3333-6666-%012x:1", random), fmt.Sprintf("11111111-2222-3333-6666-%012x:2", random)
			named := "SET gtid_next = '" + next + "'"
			if server.Engine == "mariadb" {
				id := testdb.Query(t, src, "SELECT @@server_id")
				unknown, next = fmt.Sprintf("%d-%s-1", random, id), fmt.Sprintf("%d-%s-1", random+1, id)
				named = fmt.Sprintf("SET SESSION gtid_domain_id = %d", random+1)
			}
			refused(6, "transaction "+unknown+": is not in the source's log", append(stream, "--from", unknown, "--until", "now")...)
			if server.Engine == "mariadb" { // another server used the number
				other := "SET SESSION server_id = 4711; INSERT INTO t VALUES (2)"
				s := testdb.NewSession(src)
				if _, err := s.Try(other); err != nil {
					t.Fatal(err)
				}
				at, err := s.Try("SELECT @@last_gtid")
				if err != nil {
					t.Fatal(err)
				}
				s.Close()
				testdb.Query(t, src, "INSERT INTO t VALUES (3)")
				n := strings.Split(strings.TrimSpace(at), "-")
				refused(6, "is not in the source's log", append(stream, "--from", n[0]+"-"+strings.Split(one, "-")[1]+"-"+n[2], "--until", "now")...)
				testdb.Query(t, src, "DELETE FROM t WHERE id IN (2, 3)")
			}
			testdb.Must(t, append(stream, "--from", one, "--until", "now")...)
			two := logged(t, src, "INSERT INTO t VALUES (2)")
			logged(t, src, "INSERT INTO t VALUES (3)")
			for range 2 { // the second time it is there already
				testdb.Must(t, append(stream, "--until", two)...)
				ids("2")
			}
			testdb.Must(t, append(stream, "--until", "now")...)
			testdb.Must(t, append(stream, "--until", two)...)
			ids("2,3")

			p := testdb.Start(t, append(stream, "--until", next)...)
			testdb.Query(t, src, "INSERT INTO t VALUES (4)")
			for end := time.Now().Add(time.Minute); testdb.Query(t, tgt, "SELECT count(*) FROM t WHERE id = 4") != "1"; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("what comes before it is not applied")
				}
			}
			s := testdb.NewSession(src)
			defer s.Close()
			for _, sql := range []string{named, "INSERT INTO t VALUES (5)"} {
				if out, err := s.Try(sql); err != nil {
					t.Fatal(out, err)
				}
			}
			select {
			case <-p.Ended:
			case <-time.After(time.Minute):
				t.Fatalf("it continues beyond %s\n%s", next, p.Text())
			}
			if text := p.Text(); p.Cmd.ProcessState.ExitCode() != 0 || !strings.Contains(text, next+": is not in the source's log yet") {
				t.Errorf("exit %d\n%s", p.Cmd.ProcessState.ExitCode(), text)
			}
			ids("2,3,4,5")
		})
	}
}

// TestTransactionThatIsPurged: nor does a stream begin at one whose file is gone.
func TestTransactionThatIsPurged(t *testing.T) {
	t.Parallel()
	server := testdb.OwnMariaDB(t, "--log-bin")
	src := server.NewDatabase(t, "from")
	testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY)")
	gtid := logged(t, src, "INSERT INTO t VALUES (1)")
	testdb.Query(t, src, "FLUSH BINARY LOGS")
	file := strings.Fields(testdb.Query(t, src, "SHOW MASTER STATUS"))[0]
	next := logged(t, src, "INSERT INTO t VALUES (2)")
	for end := time.Now().Add(time.Minute); !strings.HasPrefix(testdb.Query(t, src, "SHOW BINARY LOGS"), file); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server keeps the first file of its log")
		}
		testdb.Query(t, src, "FLUSH BINARY LOGS; PURGE BINARY LOGS TO '"+file+"'")
	}
	dst := server.NewDatabase(t, "into")
	testdb.Query(t, dst, "CREATE TABLE t (id int PRIMARY KEY)")
	stream := []string{"replicate", src, dst, "--until", "now", "--name", "purged", "--from"}
	if o := testdb.Run(t, append(stream, gtid)...); o.Code != 11 || !strings.Contains(o.ErrOut, "transaction "+gtid+": is no longer in the source's log") {
		t.Errorf("exit %d\n%s", o.Code, o.ErrOut)
	}
	testdb.Must(t, append(stream, next)...)
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
