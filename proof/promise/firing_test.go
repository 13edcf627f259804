package promise

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTriggersWaitForTheCutover: no session of MySQL or MariaDB can switch triggers off, so that
// they would do again what is in the stream already, and an event would do its work on both sides.
// The copy of a stream leaves them out, and the cutover makes them.
func TestTriggersWaitForTheCutover(t *testing.T) {
	const made = `CREATE TABLE t (id int PRIMARY KEY, n int, at datetime(6));
CREATE TABLE audit (id int AUTO_INCREMENT PRIMARY KEY, t int, what varchar(20), at datetime(6));
CREATE TRIGGER t_ai AFTER INSERT ON t FOR EACH ROW INSERT INTO audit (t, what, at) VALUES (NEW.id, 'insert', now(6));
CREATE TRIGGER t_second AFTER INSERT ON t FOR EACH ROW INSERT INTO audit (t, what, at) VALUES (NEW.id, 'second', now(6));
CREATE TRIGGER t_bu BEFORE UPDATE ON t FOR EACH ROW SET NEW.at = now(6);
CREATE EVENT tidy ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 00:00:00' DO DELETE FROM audit WHERE id < 0;
INSERT INTO t VALUES (1, 1, NULL), (2, 2, NULL);`
	const programs = "SELECT TRIGGER_NAME, ACTION_ORDER, ACTION_TIMING FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() UNION ALL SELECT EVENT_NAME, 0, STATUS FROM information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE() ORDER BY 1"
	for _, from := range []string{"mysql", "mariadb"} {
		for _, to := range []string{"mysql", "mariadb"} {
			pair := from + " to " + to
			src, dst := testdb.ServerOf(t, from).NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
			testdb.Query(t, src, made)
			stream := []string{"replicate", src, dst, "--name", testdb.StreamName("firing"), "--until", "now", "--new-tables", "follow"}
			o := testdb.Run(t, stream...)
			if o.Code != 0 || !strings.Contains(o.Out+o.ErrOut, "are left for the cutover") || !strings.Contains(o.Out+o.ErrOut, "t_ai") {
				t.Errorf("%s: exit %d, and it does not say what is left:\n%s%s", pair, o.Code, o.Out, o.ErrOut)
			}
			testdb.Query(t, src, "CREATE TABLE later (id int PRIMARY KEY, n int); CREATE TRIGGER later_bi BEFORE INSERT ON later FOR EACH ROW SET NEW.n = NEW.n + 1; INSERT INTO later VALUES (1, 1)")
			testdb.Query(t, src, "INSERT INTO t VALUES (3, 3, NULL); UPDATE t SET n = 5 WHERE id = 1; INSERT INTO t VALUES (4, 3, NULL)")
			if out := testdb.Must(t, stream...); strings.Contains(out, "fire") {
				t.Errorf("%s: the target has triggers:\n%s", pair, out)
			}
			if got := testdb.Query(t, dst, programs); got != "" {
				t.Errorf("%s: before the cutover the target has %s", pair, got)
			}
			testdb.Must(t, "diff", src, dst)
			for range 2 {
				testdb.Must(t, "cutover", src, dst, "--name", stream[4])
				if want, got := testdb.Query(t, src, programs), testdb.Query(t, dst, programs); got != want {
					t.Errorf("%s: after the cutover the target has\n%s\nnot\n%s", pair, got, want)
				}
			}
			testdb.Query(t, dst, "INSERT INTO t VALUES (5, 5, NULL)")
			if got := testdb.Query(t, dst, "SELECT what FROM audit WHERE t = 5 ORDER BY id"); got != "insert\nsecond" {
				t.Errorf("%s: after the cutover an insert on the target leaves %q", pair, got)
			}
			if o := testdb.Run(t, append(stream, "--remove")...); o.Code != 0 || strings.Contains(o.ErrOut, "t_ai") {
				t.Errorf("%s: the stream is removed with %d:\n%s", pair, o.Code, o.ErrOut)
			}
		}
	}
	src, dst := testdb.ServerOf(t, "mariadb").NewDatabase(t, "src"), testdb.ServerOf(t, "mariadb").NewDatabase(t, "dst")
	testdb.Query(t, src, made)
	stream := []string{"replicate", src, dst, "--name", testdb.StreamName("firing"), "--until", "now"}
	testdb.Must(t, stream...)
	if o := testdb.Run(t, append(stream, "--remove")...); o.Code != 0 || !strings.Contains(o.ErrOut, "left for a cutover") || !strings.Contains(o.ErrOut, "t_bu") {
		t.Errorf("a stream without a cutover is removed with %d, and what is left is not named:\n%s", o.Code, o.ErrOut)
	}
}

// TestTriggersOfKeptTables: check and copy warn of a table whose triggers change the rows of a
// copy, or write some of their own.
func TestTriggersOfKeptTables(t *testing.T) {
	const made = "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1), (2, 2)"
	const mysql = "CREATE TRIGGER plus BEFORE INSERT ON t FOR EACH ROW SET NEW.n = NEW.n + 1; CREATE TRIGGER quiet BEFORE UPDATE ON t FOR EACH ROW SET NEW.n = 7"
	const pg = "CREATE FUNCTION plus() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.n := NEW.n + 1; RETURN NEW; END'; CREATE TRIGGER plus BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION plus()"
	src := testdb.ServerOf(t, "mysql").NewDatabase(t, "src")
	testdb.Query(t, src, made)
	dump := "file:" + testdb.MySQLDump(t, src)
	for _, to := range []string{"mysql", "mariadb", "postgres"} {
		server := testdb.ServerOf(t, to)
		for prep, from := range map[string]string{"truncate": src, "keep": dump} {
			dst := server.NewDatabase(t, "dst")
			testdb.Query(t, dst, strings.ReplaceAll(made, "; INSERT INTO t VALUES (1, 1), (2, 2)", ""))
			user := dst
			if to == "postgres" {
				role := testdb.StreamName("plain")
				testdb.Query(t, dst, pg+fmt.Sprintf("; CREATE ROLE %[1]s LOGIN PASSWORD 's3cret-tide'; GRANT ALL ON SCHEMA public TO %[1]s; GRANT ALL ON ALL TABLES IN SCHEMA public TO %[1]s; DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %%I TO %[1]s', current_database()); END $$", role))
				t.Cleanup(func() { testdb.Query(t, dst, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role) })
				user = strings.Replace(dst, "//tidemark:", "//"+role+":", 1)
			} else {
				testdb.Query(t, dst, mysql)
			}
			for _, verb := range []string{"check", "copy"} {
				if o := testdb.Run(t, verb, from, user, "--prep", prep); o.Code != 0 || !strings.Contains(o.Out+o.ErrOut, "plus") || strings.Contains(o.Out+o.ErrOut, "quiet") {
					t.Errorf("%s of %.4s to %s with --prep %s: exit %d\n%s%s", verb, from, to, prep, o.Code, o.Out, o.ErrOut)
				}
			}
			if got := testdb.Query(t, dst, "SELECT sum(n) FROM t"); got == "3" {
				t.Errorf("%.4s to %s: the trigger has not acted", from, to)
			}
			if to != "postgres" { // where a superuser's session switches it off
				testdb.Query(t, dst, "DROP TRIGGER plus")
			}
			if out := testdb.Must(t, "copy", from, dst, "--prep", "truncate"); strings.Contains(out, "triggers") {
				t.Errorf("%.4s to %s: no trigger acts, and the copy says\n%s", from, to, out)
			}
			if got := testdb.Query(t, dst, "SELECT sum(n) FROM t"); got != "3" {
				t.Errorf("%.4s to %s: the sum of t is %s, not 3", from, to, got)
			}
		}
	}
}
