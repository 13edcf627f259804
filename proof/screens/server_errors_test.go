package screens

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const (
	badRow  = 14
	refused = 21
)

// What a trigger of the target raises, in whatever state, is about its row: exit code 14, and the
// row is rejected where that is allowed. 70 would ask the user to report his own trigger to us.
func TestTriggersOfUsers(t *testing.T) {
	t.Parallel()
	source := testdb.Postgres(t, 15).NewDatabase(t, "source")
	testdb.Query(t, source, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 50)")
	pg := func(state string) string {
		return fmt.Sprintf(`CREATE SCHEMA d; CREATE TABLE d.t (id int PRIMARY KEY);
			CREATE FUNCTION d.guard() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
				IF NEW.id = 20 THEN RAISE EXCEPTION 'not this one' USING ERRCODE = '%s'; END IF; RETURN NEW; END$$;
			CREATE TRIGGER guard BEFORE INSERT ON d.t FOR EACH ROW EXECUTE FUNCTION d.guard();
			ALTER TABLE d.t ENABLE ALWAYS TRIGGER guard`, state)
	}
	my := func(signal string) string {
		return `CREATE TABLE t (id int PRIMARY KEY);
			CREATE TRIGGER guard BEFORE INSERT ON t FOR EACH ROW IF NEW.id = 20 THEN SIGNAL SQLSTATE ` + signal + `, MESSAGE_TEXT = 'not this one'; END IF`
	}
	mysql, maria := testdb.MySQL, testdb.MariaDB
	for _, c := range []struct {
		name   string
		server func(testing.TB) *testdb.Server
		setup  string
		code   int
		hint   string
	}{
		{"PostgreSQL, a state of the user's", nil, pg("ZZ009"), badRow, "row 20 of the range"},
		{"PostgreSQL, the standard's state for it", nil, pg("45000"), badRow, "the function d.guard refuses it"},
		{"PostgreSQL, a trigger that no longer fits", nil, pg("42P01"), badRow, "the function d.guard refuses it"},
		{"PostgreSQL, a state of our mistakes", nil, pg("25P02"), badRow, "the function d.guard refuses it"},
		{"PostgreSQL, a foreign server", nil, pg("HV00B"), refused, "The function d.guard of the server raised this (SQLSTATE HV00B)"},
		{"MySQL, a state of the user's", mysql, my("'99999' SET MYSQL_ERRNO = 30001"), badRow, "--reject-limit"},
		{"MySQL, a state of tables", mysql, my("'42S22' SET MYSQL_ERRNO = 1644"), badRow, "--reject-limit"},
		{"MariaDB, a state of connections", maria, my("'08004' SET MYSQL_ERRNO = 1644"), badRow, "--reject-limit"},
		{"MariaDB, the server's own", maria, my("'HY000' SET MYSQL_ERRNO = 1105"), refused, "The server itself reports this"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var target, schema, one string
			if c.server == nil {
				target, schema, one = testdb.Postgres(t, 15).NewDatabase(t, "d"), "d", "SELECT count(*), min(id) FROM d.t"
				testdb.Query(t, target, c.setup)
			} else {
				target, one = c.server(t).NewDatabase(t, "d"), "SELECT count(*), min(id) FROM t"
				schema = target[strings.LastIndex(target, "/")+1:]
				trigger := strings.Index(c.setup, "CREATE TRIGGER")
				testdb.Query(t, target, c.setup[:trigger])
				testdb.Query(t, target, c.setup[trigger:])
			}
			args := []string{"copy", source, target, "--target-schema", schema, "--prep", "keep", "--state", t.TempDir() + "/c.db"}
			o := testdb.Run(t, args...)
			if o.Code != c.code || !strings.Contains(o.ErrOut, "not this one") || !strings.Contains(o.ErrOut, c.hint) {
				t.Errorf("exit %d, not %d, %q and the message\n%s", o.Code, c.code, c.hint, o.ErrOut)
			}
			if c.code != badRow {
				return
			}
			o = testdb.Run(t, append(args, "--resume", "last", "--reject-limit", "1")...)
			if got := testdb.Query(t, target, one); o.Code != 0 || got != "49\t1" {
				t.Errorf("exit %d, rows and the first one %q, not 49 and 1\n%s", o.Code, got, o.ErrOut)
			}
		})
	}
}

// A stream stops the table of such a row, and the others continue; what the server itself
// reports ends it, with a code that is not ours. An event trigger is about no row.
func TestServersErrorsInStreams(t *testing.T) {
	t.Parallel()
	server := testdb.Postgres(t, 15)
	source, target := server.NewDatabase(t, "source"), server.NewDatabase(t, "target")
	testdb.Query(t, source, "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY)")
	testdb.Query(t, target, `CREATE FUNCTION guard() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no tables on Fridays' USING ERRCODE = 'ZZ009'; END$$;
		CREATE EVENT TRIGGER guard ON ddl_command_start EXECUTE FUNCTION guard()`)
	state := t.TempDir() + "/c.db"
	if o := testdb.Run(t, "copy", source, target, "--state", state); o.Code != refused || !strings.Contains(o.ErrOut, "no tables on Fridays") || !strings.Contains(o.ErrOut, "function public.guard") {
		t.Errorf("an event trigger that refuses: exit %d, not %d\n%s", o.Code, refused, o.ErrOut)
	}
	testdb.Query(t, target, "DROP EVENT TRIGGER guard")
	args := []string{"replicate", source, target, "--name", testdb.StreamName("screens"), "--state", state, "--until", "now"}
	testdb.Must(t, args...)
	defer testdb.Run(t, append(args[:len(args)-2:len(args)-2], "--remove")...)
	raise := func(state string) string {
		return fmt.Sprintf(`CREATE OR REPLACE FUNCTION public.of_row() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'not here' USING ERRCODE = '%s'; END$$`, state)
	}
	testdb.Query(t, target, raise("XX000")+"; CREATE TRIGGER of_row BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION public.of_row(); ALTER TABLE t ENABLE ALWAYS TRIGGER of_row")
	testdb.Query(t, source, "INSERT INTO t VALUES (1); INSERT INTO other VALUES (1)")
	if o := testdb.Run(t, args...); o.Code != refused || !strings.Contains(o.ErrOut, "The function public.of_row of the server raised this") {
		t.Errorf("the server's own error: exit %d, not %d\n%s", o.Code, refused, o.ErrOut)
	}
	testdb.Query(t, target, raise("ZZ009"))
	o := testdb.Run(t, args...)
	if got := testdb.Query(t, target, "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM other)"); o.Code != 0 || got != "0\t1" || !strings.Contains(o.ErrOut, "stopped: public.t") {
		t.Errorf("exit %d, rows %q, not 0 and 1, with t stopped\n%s", o.Code, got, o.ErrOut)
	}
}
