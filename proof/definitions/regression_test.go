package definitions

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestRegressionDatabase transfers PostgreSQL's own regression database (some 430 tables and 2,000
// other objects) by copy, backup and script. For each, pg_dump, rows included, writes the same as
// for a database that pg_dump itself has transferred.
func TestRegressionDatabase(t *testing.T) {
	if !testdb.Long() {
		return // make test does not fetch it
	}
	t.Parallel()
	server := testdb.OwnPostgres(t, 15)
	src := server.NewDatabase(t, "regression")
	if out, err := server.Regress(t, src).CombinedOutput(); err != nil && !strings.Contains(string(out), "tests failed") {
		t.Fatalf("pg_regress: %v\n%s", err, out)
	}
	testdb.Query(t, src, "CREATE ROLE clerk; GRANT EXECUTE ON FUNCTION pg_read_file(text) TO clerk; REVOKE EXECUTE ON FUNCTION pg_sleep(float8) FROM PUBLIC")
	there := server.NewDatabase(t, "dumped")
	testdb.Load(t, there, strings.NewReader(dumped(t, src)))
	want := lines(dumped(t, there))
	if len(want) < 300_000 {
		t.Fatalf("the regression database has %d lines", len(want))
	}

	copied, restored, scripted, place := server.NewDatabase(t, "copied"), server.NewDatabase(t, "restored"), server.NewDatabase(t, "scripted"), t.TempDir()
	testdb.Must(t, "copy", src, copied, "--owners", "--grants")
	testdb.Must(t, "diff", src, copied, "--definitions")
	testdb.Must(t, "backup", "--logical", src, place, "--owners", "--grants")
	testdb.Must(t, "restore", place, restored, "--owners", "--grants")
	scripts, err := filepath.Glob(filepath.Join(place, "dumps", "*", "restore.sh"))
	if err != nil || len(scripts) != 1 {
		t.Fatalf("scripts %v, %v", scripts, err)
	}
	sh := exec.Command("sh", "restore.sh")
	sh.Dir, sh.Env = filepath.Dir(scripts[0]), append(os.Environ(), "CLIENT=psql -d "+scripted)
	if out, err := sh.CombinedOutput(); err != nil {
		t.Errorf("restore.sh: %v\n%s", err, out)
	}
	for by, url := range map[string]string{"copy": copied, "backup": restored, "script": scripted} {
		got := lines(dumped(t, url))
		if lost, more := without(want, got), without(got, want); len(lost)+len(more) > 0 {
			t.Errorf("%s: pg_dump has lost %d lines and has %d more:\n- %s\n+ %s", by, len(lost), len(more),
				strings.Join(lost[:min(len(lost), 40)], "\n- "), strings.Join(more[:min(len(more), 40)], "\n+ "))
		}
	}
}

// TestRegressionTestsInAStream runs PostgreSQL's own regression tests in the source of a stream,
// with all the tables that they create, alter and drop: whatever happens to those, the stream
// continues.
func TestRegressionTestsInAStream(t *testing.T) {
	if !testdb.Long() {
		return
	}
	t.Parallel()
	for _, kind := range []string{"announce", "follow"} {
		server := testdb.OwnPostgres(t, 15)
		src, dst := server.NewDatabase(t, "src"), server.NewDatabase(t, "dst")
		testdb.Query(t, src, "CREATE TABLE ours (id int PRIMARY KEY); INSERT INTO ours VALUES (0)")
		stream := testdb.Command(t, "replicate", src, dst, "--name", kind, "--new-tables", kind)
		var said bytes.Buffer
		stream.Stdout, stream.Stderr = &said, &said
		if err := stream.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- stream.Wait() }()
		comes := func(id int) {
			for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
				select {
				case err := <-ended:
					t.Fatalf("%s: the stream ended: %v\n%s", kind, err, tail(said.String()))
				default:
				}
				if got, err := testdb.TryQuery(dst, fmt.Sprintf("SELECT 1 FROM ours WHERE id = %d", id)); err == nil && got == "1" {
					return
				}
				if time.Since(begun) > 10*time.Minute {
					_ = stream.Process.Kill()
					<-ended
					t.Fatalf("%s: row %d has not come\n%s", kind, id, tail(said.String()))
				}
			}
		}
		comes(0)
		testdb.Query(t, src, "INSERT INTO ours VALUES (1)")
		comes(1) // it is following now
		if out, err := server.Regress(t, src).CombinedOutput(); err != nil && !strings.Contains(string(out), "tests failed") {
			t.Fatalf("pg_regress: %v\n%s", err, out)
		}
		testdb.Query(t, src, "INSERT INTO ours VALUES (2)")
		comes(2)
		_ = stream.Process.Signal(os.Interrupt)
		if err := testdb.From(t, "the end of the stream", ended); stream.ProcessState.ExitCode() != 130 {
			t.Errorf("%s: %v\n%s", kind, err, tail(said.String()))
		}
		testdb.Must(t, "replicate", src, dst, "--name", kind, "--remove")
	}
}

func tail(text string) string { return text[max(0, len(text)-3000):] }

// dumped returns all of a database, as pg_dump of its version writes it.
func dumped(t *testing.T, url string) string {
	t.Helper()
	out, err := exec.Command("/usr/lib/postgresql/15/bin/pg_dump", "--restrict-key=tidemark", url).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// lines returns the lines of a dump, sorted. It omits those that only order objects, and what a
// superuser grants to itself.
func lines(dump string) []string {
	all := slices.DeleteFunc(strings.Split(dump, "\n"), func(l string) bool {
		return l == "" || strings.HasPrefix(l, "--") || strings.HasPrefix(l, "GRANT SELECT(") && strings.Contains(l, "ON TABLE pg_catalog.") && strings.HasSuffix(l, " TO tidemark;")
	})
	slices.Sort(all)
	return all
}

// without returns what a has beyond b; both are sorted.
func without(a, b []string) (more []string) {
	for _, l := range a {
		for len(b) > 0 && b[0] < l {
			b = b[1:]
		}
		if len(b) > 0 && b[0] == l {
			b = b[1:]
			continue
		}
		more = append(more, l)
	}
	return more
}

// TestStatesAndGrants copies what depends on the order of statements and on the server's built-in
// objects: partitions whose triggers differ from their parents', and grants on built-in objects.
func TestStatesAndGrants(t *testing.T) {
	t.Parallel()
	server := testdb.Postgres(t, 15)
	src, dst := server.NewDatabase(t, "src"), server.NewDatabase(t, "dst")
	name, _, _ := strings.Cut(filepath.Base(src), "?")
	role := "clerk_" + name
	testdb.Query(t, src, "CREATE ROLE "+role)
	t.Cleanup(func() {
		testdb.Query(t, src, "DROP OWNED BY "+role)
		testdb.Query(t, dst, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	})
	var sql strings.Builder
	sql.WriteString(`
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;
		CREATE TABLE top (a int, b int) PARTITION BY LIST (a);
		CREATE TRIGGER tr AFTER INSERT ON top FOR EACH ROW EXECUTE FUNCTION f();`)
	for i := range 20 {
		fmt.Fprintf(&sql, `
		CREATE TABLE mid%[1]d PARTITION OF top FOR VALUES IN (%[1]d) PARTITION BY LIST (b);
		CREATE TABLE leaf%[1]d PARTITION OF mid%[1]d FOR VALUES IN (1);
		ALTER TABLE ONLY mid%[1]d DISABLE TRIGGER tr;
		ALTER TABLE leaf%[1]d ENABLE %[2]s TRIGGER tr;`, i, []string{"ALWAYS", "REPLICA"}[i%2])
	}
	fmt.Fprintf(&sql, `
		CREATE TABLE parent (z int, y int); CREATE TABLE child (x int, y int, z int); ALTER TABLE child INHERIT parent;
		GRANT EXECUTE ON FUNCTION pg_read_file(text) TO %[1]s; REVOKE EXECUTE ON FUNCTION pg_sleep(float8) FROM PUBLIC;
		GRANT SELECT (rolpassword) ON pg_authid TO %[1]s; GRANT SELECT ON pg_shadow TO %[1]s WITH GRANT OPTION;
		GRANT USAGE ON TYPE int4 TO %[1]s; GRANT USAGE ON LANGUAGE sql TO %[1]s; GRANT SELECT ON information_schema.tables TO %[1]s;`, role)
	testdb.Load(t, src, strings.NewReader(sql.String()))
	testdb.Must(t, "copy", src, dst, "--grants")
	want, got := lines(testdb.PgDump(t, src)), lines(testdb.PgDump(t, dst))
	if lost, more := without(want, got), without(got, want); len(lost)+len(more) > 0 && strings.Join(lost, "")+strings.Join(more, "") != "    x integer,    z integer    x integer    z integer," {
		t.Errorf("pg_dump has lost\n- %s\nand has\n+ %s", strings.Join(lost, "\n- "), strings.Join(more, "\n+ "))
	}
	testdb.Must(t, "diff", src, dst, "--definitions=only")
}
