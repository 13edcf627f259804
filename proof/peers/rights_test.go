package peers

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// traps are ways in which a table's owner can have a function of their own called when somebody
// else writes to the table. Each function exploits its caller's role: it grants itself what only a
// superuser may.
var traps = map[string]string{
	"trigger":    "CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON evil.t FOR EACH ROW EXECUTE FUNCTION evil.grab_row(); ALTER TABLE evil.t ENABLE ALWAYS TRIGGER trap",
	"check":      "ALTER TABLE evil.t ADD CHECK (evil.grab(v))",
	"default":    "ALTER TABLE evil.t ADD d boolean DEFAULT evil.grab('x')",
	"index":      "CREATE INDEX ON evil.t (evil.grab(v))",
	"domain":     "CREATE DOMAIN evil.trapped AS text CHECK (evil.grab(VALUE)); ALTER TABLE evil.t ALTER v TYPE evil.trapped",
	"generated":  "ALTER TABLE evil.t ADD g boolean GENERATED ALWAYS AS (evil.grab(v)) STORED",
	"on a child": "CREATE TABLE evil.p (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id); DROP TABLE evil.t; CREATE TABLE evil.t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE evil.c PARTITION OF evil.t DEFAULT; ALTER TABLE evil.c ADD CHECK (evil.grab(v))",
}

// layTrap creates a database with a role whose only privilege is to own a table with a trap.
func layTrap(t *testing.T, srv *testdb.Server, trap string) (url, role string) {
	t.Helper()
	url = srv.NewDatabase(t, "trap")
	role = "low_" + testdb.Query(t, url, "SELECT current_database()")
	testdb.Query(t, url, "CREATE ROLE "+role)
	t.Cleanup(func() { testdb.Query(t, url, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role) })
	body := "IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN EXECUTE 'ALTER ROLE " + role + " CREATEDB'; END IF;"
	testdb.Query(t, url, "CREATE SCHEMA evil AUTHORIZATION "+role+"; SET ROLE "+role+"; CREATE TABLE evil.t (id int PRIMARY KEY, v text); "+
		"CREATE FUNCTION evil.take() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN "+body+" RETURN true; END$$; "+
		"CREATE FUNCTION evil.grab(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN evil.take(); END$$; "+
		"CREATE FUNCTION evil.grab_row() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "+body+" RETURN new; END$$; "+trap+"; RESET ROLE")
	return url, role
}

func gained(t *testing.T, url, role string) bool {
	t.Helper()
	return testdb.Query(t, url, "SELECT rolcreatedb FROM pg_roles WHERE rolname = '"+role+"'") != "f"
}

// Nobody who owns a table, or a function that it calls, gains the privileges of a superuser who
// writes to it: the job refuses, and says what to do.
func TestNoRightsForOthersCode(t *testing.T) {
	t.Parallel()
	srv := testdb.Postgres(t, 15)
	from := srv.NewDatabase(t, "plain")
	testdb.Query(t, from, "CREATE SCHEMA evil; CREATE TABLE evil.t (id int PRIMARY KEY, v text); INSERT INTO evil.t VALUES (1, 'x'), (2, 'y')")
	for name, trap := range traps {
		if !testdb.Long() && name != "trigger" && name != "check" && name != "on a child" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for verb, args := range map[string][]string{
				"copy":   {"copy", "--include", "evil.t", "--prep", "keep"},
				"repair": {"repair", "--include", "evil.t", "--execute"},
			} {
				to, role := layTrap(t, srv, trap)
				line := append([]string{args[0], from, to}, args[1:]...)
				o := testdb.Run(t, line...)
				if o.Code == 0 || !strings.Contains(o.ErrOut, "--run-as-me") || !strings.Contains(o.ErrOut, "evil.grab") {
					t.Errorf("%s: exit %d\n%s%s", verb, o.Code, o.Out, o.ErrOut)
				}
				if gained(t, to, role) {
					t.Errorf("%s: the table's owner has gained rights", verb)
				}
				if o := testdb.Run(t, append(line, "--run-as-me")...); o.Code != 0 || !gained(t, to, role) {
					t.Errorf("%s --run-as-me: exit %d, and the trap does nothing: this test neither\n%s%s", verb, o.Code, o.Out, o.ErrOut)
				}
			}
		})
	}
}

// The trap is laid while the stream exists.
func TestNoRightsForOthersCodeInAStream(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgres(t, 15, "-c", "wal_level=logical")
	from := srv.NewDatabase(t, "plain")
	testdb.Query(t, from, "CREATE SCHEMA evil; CREATE TABLE evil.t (id int PRIMARY KEY, v text); INSERT INTO evil.t VALUES (1, 'x')")
	to, role := layTrap(t, srv, traps["trigger"])
	out := testdb.Run(t, "replicate", from, to, "--include", "evil.t", "--prep", "keep", "--name", "trapped")
	if out.Code == 0 || !strings.Contains(out.ErrOut, "--run-as-me") {
		t.Errorf("exit %d\n%s%s", out.Code, out.Out, out.ErrOut)
	}
	testdb.Query(t, to, "ALTER TABLE evil.t DISABLE TRIGGER trap")
	cmd := testdb.Command(t, "replicate", from, to, "--include", "evil.t", "--prep", "keep", "--name", "later")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(4*time.Minute, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }) // prints its stacks
	defer late.Stop()
	testdb.Within(t, "the copied row", func() bool { return testdb.Query(t, to, "SELECT count(*) FROM evil.t") == "1" })
	testdb.Query(t, to, "ALTER TABLE evil.t ENABLE ALWAYS TRIGGER trap")
	testdb.Query(t, from, "INSERT INTO evil.t VALUES (2, 'y')")
	err := cmd.Wait()
	if !late.Stop() {
		testdb.OnClock(t)
	}
	if err == nil || !strings.Contains(said.String(), "--run-as-me") {
		t.Errorf("%v\n%s", err, said.String())
	}
	if gained(t, to, role) {
		t.Error("the table's owner has gained rights")
	}
}
