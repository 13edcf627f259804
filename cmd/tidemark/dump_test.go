package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// dumpOf writes a dump of a MariaDB server with these arguments.
func dumpOf(t *testing.T, srv *testdb.Server, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.sql")
	cmd := exec.Command("mariadb-dump", append([]string{"--no-defaults", "--host=" + srv.Host, fmt.Sprint("--port=", srv.Port), "--user=" + srv.User, "--result-file=" + path}, args...)...)
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+srv.Password)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-dump: %v\n%s", err, out)
	}
	return path
}

// nameOf returns the database name of a URL.
func nameOf(url string) string {
	name, _, _ := strings.Cut(url[strings.LastIndex(url, "/")+1:], "?")
	return name
}

// programs are the objects of a database besides tables.
const programs = `
CREATE VIEW prices AS SELECT id, price FROM item;
CREATE TRIGGER item_price BEFORE INSERT ON item FOR EACH ROW SET NEW.price = coalesce(NEW.price, 0);
CREATE FUNCTION twice(n int) RETURNS int DETERMINISTIC RETURN 2 * n;
`

// TestDumpPlan requests the plan for a dump: it shows the tables with their rows and types, and the
// other statements, and nothing is written.
func TestDumpPlan(t *testing.T) {
	t.Parallel()
	src := sqlOn(t, maria(t), shop+programs)
	plain := dumpOf(t, maria(t), "--routines", nameOf(src))
	text, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{plain, testdb.Written(t, "shop.sql.gz", gzipped(string(text)))} {
		for _, c := range []struct {
			srv  *testdb.Server
			want []string
		}{
			{pg15(t), []string{"dump of mariadb 10.11", "to postgres: 2 tables in 2 ranges", "public.item ", "~3 ", "COPY text", "price numeric(10,2)",
				"other statements: are in the file besides tables and rows, and are not copied: 1 routine, 1 trigger, 1 view", "is not copied: it is written in MySQL's SQL", "item_customer"}},
			{mysql8(t), []string{"to mysql: 2 tables in 2 ranges", "~2 ", "LOAD DATA", "decimal(10,2)", "After all rows:", "FUNCTION `twice`", "TRIGGER item_price", "SET"}},
		} {
			dst := c.srv.NewDatabase(t, "dst")
			before := fingerprint(t, dst)
			o := must(t, "copy", "file:"+file, dst, "--plan")
			for _, want := range c.want {
				if !strings.Contains(o.out, want) {
					t.Errorf("%s: the plan lacks %q:\n%s", c.srv.Engine, want, o.out)
				}
			}
			var p load.Plan
			if err := json.Unmarshal([]byte(must(t, "copy", "file:"+file, dst, "--plan", "--json").out), &p); err != nil {
				t.Fatal(err)
			}
			rows := map[string]int64{}
			for i, m := range p.Moves {
				rows[m.From.Name] = m.From.Rows
				if m.From.Bytes == 0 || len(p.Formats) <= i {
					t.Errorf("%+v", m.From.TableID)
				}
			}
			if len(rows) != 2 || rows["customer"] != 2 || rows["item"] != 3 || len(p.Ranges) != 2 {
				t.Errorf("rows %v, ranges %+v", rows, p.Ranges)
			}
			if now := fingerprint(t, dst); now != before {
				t.Errorf("the target has changed:\n%s", now)
			}
			must(t, "copy", "file:"+file, dst)
			must(t, "diff", src, dst, "--exclude", "*.prices")
		}
	}
}

// TestDumpPlanRefused: the plan refuses what the copy would refuse, in the same words.
func TestDumpPlanRefused(t *testing.T) {
	t.Parallel()
	src := shopOn(t, maria(t))
	file := "file:" + dumpOf(t, maria(t), nameOf(src))
	for _, srv := range []*testdb.Server{pg15(t), maria(t)} {
		dst := shopOn(t, srv)
		before := fingerprint(t, dst)
		if o := cli(t, "copy", file, dst, "--plan"); o.code != 8 || !strings.Contains(o.errOut, "tables hold rows already") {
			t.Errorf("exit %d\n%s", o.code, o.errOut)
		}
		o := cli(t, "check", file, dst)
		if o.code != 1 || !strings.Contains(o.out, "tables hold rows already") {
			t.Errorf("exit %d\n%s", o.code, o.out)
		}
		if now := fingerprint(t, dst); now != before {
			t.Errorf("the target has changed:\n%s", now)
		}
	}
}

// TestCheckOfADump reports what would go wrong with a dump.
func TestCheckOfADump(t *testing.T) {
	t.Parallel()
	src := sqlOn(t, maria(t), shop+programs)
	file := dumpOf(t, maria(t), nameOf(src))
	var found job.Checked
	if err := json.Unmarshal([]byte(must(t, "check", "file:"+file, pg15(t).NewDatabase(t, "dst"), "--json").out), &found); err != nil {
		t.Fatal(err)
	}
	if found.Tables != 2 || found.Rows != 5 || found.Bytes == 0 || !strings.HasPrefix(found.Source, "dump of mariadb 10.11") || found.Target != "postgres" {
		t.Errorf("%+v", found)
	}
	warned := false
	for _, f := range found.Findings {
		warned = warned || f.Severity == tidemark.Warning && strings.Contains(f.Object, "trigger")
	}
	if !warned {
		t.Errorf("no word of the trigger: %+v", found.Findings)
	}
	now := testdb.Written(t, "now.sql", "CREATE TABLE t (a int, b datetime);\nINSERT INTO t SELECT 1, NOW();\n")
	if o := cli(t, "check", now, pg15(t).NewDatabase(t, "dst")); o.code != 1 || !strings.Contains(o.out, "blocker: t: the statement at line 2 computes its rows") {
		t.Errorf("exit %d\n%s", o.code, o.out)
	}
	must(t, "check", now, maria(t).NewDatabase(t, "dst"))
}

// twoShops creates two databases on one server, with tables of the same names.
func twoShops(t *testing.T, srv *testdb.Server) (a, b string) {
	t.Helper()
	a, b = srv.NewDatabase(t, "east"), srv.NewDatabase(t, "west")
	testdb.Query(t, srv.URL(""), "ALTER DATABASE "+nameOf(b)+" CHARACTER SET latin1")
	testdb.Load(t, a, strings.NewReader(shop+programs))
	testdb.Load(t, b, strings.NewReader(shop+programs+"INSERT INTO customer VALUES (3, 'Jean'); CREATE TABLE town (id int PRIMARY KEY, name varchar(20));"+
		"CREATE VIEW both_sides AS SELECT id FROM item UNION ALL SELECT id FROM "+nameOf(a)+".item;"))
	return a, b
}

// onServer returns the URL of a database of the same name on another server; it is dropped when the
// test ends.
func onServer(t *testing.T, srv *testdb.Server, url string) string {
	t.Helper()
	t.Cleanup(func() { testdb.Query(t, srv.URL(""), "DROP DATABASE IF EXISTS "+nameOf(url)) })
	return srv.URL(nameOf(url))
}

// TestDumpOfSeveralDatabases loads all databases of a file in one run.
func TestDumpOfSeveralDatabases(t *testing.T) {
	a, b := twoShops(t, maria(t))
	file := "file:" + dumpOf(t, maria(t), "--routines", "--databases", nameOf(a), nameOf(b), "mysql")
	// into MySQL: under their own names, whether the URL names one or not
	for _, name := range []string{"", nameOf(mysql8(t).NewDatabase(t, "other"))} {
		toA, toB := onServer(t, mysql8(t), a), onServer(t, mysql8(t), b)
		plan := must(t, "copy", file, mysql8(t).URL(name), "--plan")
		for _, want := range []string{nameOf(a) + ".item", nameOf(b) + ".town", "database mysql: belongs to the server"} {
			if !strings.Contains(plan.out, want) {
				t.Errorf("the plan lacks %q:\n%s", want, plan.out)
			}
		}
		o := must(t, "copy", file, mysql8(t).URL(name))
		if n := strings.Count(o.out, "database mysql: belongs to the server"); n != 1 {
			t.Errorf("mysql is named %d times:\n%s", n, o.out)
		}
		must(t, "diff", a, toA)
		must(t, "diff", b, toB)
		if got := testdb.Query(t, toB, "SELECT count(*) FROM both_sides"); got != "6" {
			t.Errorf("the view over both has %s rows", got)
		}
		for _, url := range []string{toA, toB} {
			if got := testdb.Query(t, url, "SELECT twice(2), (SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = database())"); got != "4\t1" {
				t.Errorf("programs: %s", got)
			}
			nothingOfOurs(t, url)
		}
		if got := testdb.Query(t, toB, "SELECT default_character_set_name FROM information_schema.schemata WHERE schema_name = database()"); got != "latin1" {
			t.Errorf("the database is in %s", got)
		}
		if name != "" && testdb.Query(t, mysql8(t).URL(name), "SHOW TABLES") != "" {
			t.Error("something went into the database of the URL")
		}
		testdb.Query(t, mysql8(t).URL(""), "DROP DATABASE "+nameOf(a)+"; DROP DATABASE "+nameOf(b))
	}
	// into PostgreSQL: each into a schema
	dst := pg15(t).NewDatabase(t, "dst")
	must(t, "copy", file, dst)
	if got := testdb.Query(t, dst, fmt.Sprintf("SELECT (SELECT count(*) FROM %s.customer), (SELECT count(*) FROM %s.customer), to_regclass('public.customer') IS NULL, to_regclass('%[2]s.town') IS NOT NULL", nameOf(a), nameOf(b))); got != "2\t3\tt\tt" {
		t.Errorf("PostgreSQL has %s", got)
	}
	// one of the two goes where the URL says
	for _, srv := range []*testdb.Server{pg15(t), maria(t)} {
		dst := srv.NewDatabase(t, "dst")
		must(t, "copy", file, dst, "--include", nameOf(b)+".*")
		must(t, "diff", b, dst)
		if srv.Engine == "mariadb" {
			if got := testdb.Query(t, dst, "SELECT count(*) FROM both_sides"); got != "6" {
				t.Errorf("the view has %s rows", got)
			}
		}
	}
	// rules name the databases as schemas
	dst = pg15(t).NewDatabase(t, "dst")
	must(t, "copy", file, dst, "--config", taskFile(t, fmt.Sprintf("rename: {schemas: {%s: ost}, tables: {%s.item: thing}}", nameOf(a), nameOf(b))))
	if got := testdb.Query(t, dst, fmt.Sprintf("SELECT (SELECT count(*) FROM ost.item), (SELECT count(*) FROM %s.thing)", nameOf(b))); got != "3\t3" {
		t.Errorf("with rules: %s", got)
	}
}

// TestDumpOfAllDatabases loads the users' own databases of a whole server.
func TestDumpOfAllDatabases(t *testing.T) {
	a, b := twoShops(t, maria(t))
	for _, file := range []string{dumpOf(t, maria(t), "--all-databases", "--events", "--routines")} {
		args := []string{"copy", "file:" + file, mysql8(t).URL(""), "--include", nameOf(a) + ".*", "--include", nameOf(b) + ".*"}
		toA, toB := onServer(t, mysql8(t), a), onServer(t, mysql8(t), b)
		must(t, args...)
		must(t, "diff", a, toA)
		must(t, "diff", b, toB)
	}
}

// TestOneDatabaseOfAFile: it is loaded into the URL's database although the file names another.
func TestOneDatabaseOfAFile(t *testing.T) {
	t.Parallel()
	src := sqlOn(t, maria(t), shop+programs)
	file := "file:" + dumpOf(t, maria(t), "--databases", nameOf(src))
	for _, srv := range []*testdb.Server{pg15(t), mysql8(t)} {
		dst := srv.NewDatabase(t, "dst")
		if o := must(t, "copy", file, dst, "--plan"); !strings.Contains(o.out, nameOf(src)+".item") {
			t.Errorf("%s", o.out)
		}
		must(t, "copy", file, dst)
		must(t, "diff", src, dst)
	}
	// neither the file nor the URL names a database
	o := cli(t, "copy", testdb.Written(t, "t.sql", "CREATE TABLE t (a int);\n"), maria(t).URL(""))
	if o.code != 2 || !strings.Contains(o.errOut, "neither the file nor the target's URL names a database") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
}
