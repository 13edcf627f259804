// Package byhand carries out by hand what a report leaves to do: statements that the target refused
// are refused again, for the printed reason, and statements that were not tried succeed once what
// they need exists.
package byhand

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

const noError = "it was taken"

// A way brings src to a new database of a server, and returns it with the output.
type way struct {
	name string
	go_  func(t *testing.T, src string, target *testdb.Server) (dst string, o testdb.Outcome)
}

var ways = []way{
	{"copy", func(t *testing.T, src string, target *testdb.Server) (string, testdb.Outcome) {
		dst := target.NewDatabase(t, "dst")
		return dst, testdb.Run(t, "copy", src, dst)
	}},
	{"dump", func(t *testing.T, src string, target *testdb.Server) (string, testdb.Outcome) {
		dst := target.NewDatabase(t, "dst")
		return dst, testdb.Run(t, "copy", "file:"+testdb.MySQLDump(t, src), dst)
	}},
	{"restore", func(t *testing.T, src string, target *testdb.Server) (string, testdb.Outcome) {
		dst, place := target.NewDatabase(t, "dst"), t.TempDir()
		testdb.Must(t, "backup", "--logical", src, place)
		return dst, testdb.Run(t, "restore", place, "latest", dst)
	}},
}

// acting creates tables whose foreign keys change a column that a computed column or a check reads:
// one table for each such key that the source accepts, and two that refer to each other.
func acting(t *testing.T, src string) (tables []string) {
	testdb.Query(t, src, "CREATE TABLE p (id int PRIMARY KEY); INSERT INTO p VALUES (1), (2)")
	bodies := []string{"pid int, g int AS (pid + 1) STORED", "pid int, g int AS (pid + 1) VIRTUAL", "pid int, g int AS (pid + 1) VIRTUAL, h int AS (g + 1) STORED", "pid int, CHECK (pid > 0)", "pid int"}
	actions := []string{"", " ON DELETE CASCADE", " ON DELETE SET NULL", " ON UPDATE CASCADE"}
	for _, body := range bodies {
		for _, action := range actions {
			name := "c" + strconv.Itoa(len(tables))
			_, err := testdb.TryQuery(src, "CREATE TABLE "+name+" (id int PRIMARY KEY, "+body+", KEY k_"+name+" (pid), CONSTRAINT f_"+name+" FOREIGN KEY (pid) REFERENCES p (id)"+action+")")
			if err == nil {
				tables = append(tables, name)
				testdb.Query(t, src, "INSERT INTO "+name+" (id, pid) VALUES (1, 1), (2, NULL)")
			}
		}
	}
	if strings.HasPrefix(src, "mariadb") {
		testdb.Query(t, src, `SET foreign_key_checks = 0;
			CREATE TABLE x (id int PRIMARY KEY, y int, g int AS (y + 1) STORED, KEY (y), CONSTRAINT f_x FOREIGN KEY (y) REFERENCES y (id) ON DELETE CASCADE);
			CREATE TABLE y (id int PRIMARY KEY, x int, g int AS (x + 1) STORED, KEY (x), CONSTRAINT f_y FOREIGN KEY (x) REFERENCES x (id) ON DELETE CASCADE)`)
		tables = append(tables, "x", "y")
	}
	testdb.Query(t, src, "CREATE VIEW v AS SELECT id FROM c0; CREATE TRIGGER tr BEFORE INSERT ON c0 FOR EACH ROW SET NEW.pid = NEW.pid")
	return append(tables, "v")
}

func shown(t *testing.T, db string, tables []string) string {
	t.Helper()
	var out []string
	for _, name := range tables {
		out = append(out, testdb.Query(t, db, "SHOW CREATE TABLE "+name))
	}
	return strings.ReplaceAll(strings.Join(out, "\n"), db[strings.LastIndex(db, "/")+1:], "DB") + testdb.Query(t, db, "SHOW TRIGGERS")
}

// Between servers of one kind, every foreign key that the source accepts arrives on the target, by
// every way.
func TestActingKeysArrive(t *testing.T) {
	for _, server := range []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)} {
		t.Run(server.Engine, func(t *testing.T) {
			t.Parallel()
			src := server.NewDatabase(t, "src")
			tables := acting(t, src)
			want := withoutTimes(shown(t, src, tables))
			for _, w := range ways {
				dst, o := w.go_(t, src, server)
				if o.Code != 0 {
					t.Errorf("%s: exit %d\n%s%s", w.name, o.Code, o.ErrOut, o.Out)
				}
				if got := withoutTimes(shown(t, dst, tables)); got != want {
					t.Errorf("%s: the target has\n%s\nand the source\n%s", w.name, got, want)
				}
			}
			if got := withoutTimes(shown(t, scripted(t, src), tables)); got != want {
				t.Errorf("restore.sh: the target has\n%s\nand the source\n%s", got, want)
			}
		})
	}
}

// withoutTimes removes the creation times of triggers.
func withoutTimes(s string) string {
	var out []string
	for _, line := range strings.Fields(s) {
		if !strings.HasPrefix(line, "2") && !strings.Contains(line, ":") {
			out = append(out, line)
		}
	}
	return strings.Join(out, " ")
}

// Between engines, what the target does not accept is reported before anything is written, and
// nothing is refused later.
func TestActingKeysAreForeseen(t *testing.T) {
	maria, my, pg := testdb.MariaDB(t), testdb.MySQL(t), testdb.Postgres(t, 15)
	for _, pair := range [][2]*testdb.Server{{maria, my}, {my, maria}, {pg, my}, {pg, maria}} {
		t.Run(pair[0].Engine+" to "+pair[1].Engine, func(t *testing.T) {
			t.Parallel()
			src := pair[0].NewDatabase(t, "src")
			if pair[0].Engine == "postgres" {
				testdb.Query(t, src, `CREATE TABLE p (id int PRIMARY KEY);
					CREATE TABLE c0 (id int PRIMARY KEY, pid int REFERENCES p ON DELETE CASCADE, g int GENERATED ALWAYS AS (pid + 1) STORED);
					CREATE TABLE c1 (id int PRIMARY KEY, pid int REFERENCES p ON DELETE SET NULL CHECK (pid > 0));
					CREATE TABLE c2 (id int PRIMARY KEY, pid int REFERENCES p ON UPDATE CASCADE, g int GENERATED ALWAYS AS (pid + 1) STORED);
					CREATE TABLE c3 (id int PRIMARY KEY, pid int REFERENCES p ON UPDATE CASCADE ON DELETE SET NULL)`)
			} else {
				acting(t, src)
			}
			_, o := ways[0].go_(t, src, pair[1])
			if o.Code != 0 || strings.Contains(o.Out, "Rejected by the target") {
				t.Errorf("exit %d\n%s%s", o.Code, o.ErrOut, o.Out)
			}
			if pair[0].Engine != "mysql" && !strings.Contains(o.Out+o.ErrOut, " takes no ON ") { // MariaDB accepts what MySQL accepts
				t.Errorf("nothing is said of a foreign key that is left out:\n%s%s", o.ErrOut, o.Out)
			}
		})
	}
}

// Run the statements that the report prints: a refused one is refused for the reason printed above
// it, and the others succeed once what they need exists.
func TestPrintedStatements(t *testing.T) {
	t.Parallel()
	my, maria := testdb.MySQL(t), testdb.MariaDB(t)
	src := my.NewDatabase(t, "src")
	testdb.Query(t, src, "CREATE TABLE c (id int PRIMARY KEY, name varchar(20)); INSERT INTO c VALUES (1, 'a')")
	testdb.Query(t, src, "CREATE VIEW v1 AS SELECT c.id FROM c JOIN LATERAL (SELECT c.id AS x) l") // MariaDB has no LATERAL
	testdb.Query(t, src, "CREATE VIEW v2 AS SELECT id FROM v1")
	testdb.Query(t, src, "CREATE VIEW w AS SELECT name FROM c")
	testdb.Query(t, src, "CREATE TRIGGER tr BEFORE INSERT ON c FOR EACH ROW BEGIN SET NEW.name = upper(NEW.name); SET @x = 1; END")
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			dst, o := w.go_(t, src, maria)
			if o.Code != 16 {
				t.Fatalf("exit %d\n%s%s", o.Code, o.ErrOut, o.Out)
			}
			if got := testdb.Query(t, dst, "SELECT count(*) FROM w; INSERT INTO c VALUES (2, 'b'); SELECT name FROM c WHERE id = 2"); !strings.Contains(got, "B") {
				t.Errorf("what stands behind the refused view is not there: %q", got)
			}
			refused, skipped := part(o.Out, "Rejected by the target"), part(o.Out, "Not tried")
			reason, sql, _ := strings.Cut(refused, "\n")
			if err := client(t, dst, sql); !strings.Contains(err, "SQL syntax") || !strings.Contains(reason, "SQL syntax") {
				t.Errorf("by hand the server says %s, and the report %s for\n%s", err, reason, sql)
			}
			if w.name == "dump" { // a dump's statements are all tried
				return
			}
			if err := client(t, dst, skipped); err == noError {
				t.Errorf("without v1 this is taken:\n%s", skipped)
			}
			testdb.Query(t, dst, "CREATE VIEW v1 AS SELECT id FROM c WHERE id = 1")
			if err := client(t, dst, skipped); err != noError {
				t.Errorf("with v1 by hand the server says %s for\n%s", err, skipped)
			}
			if got := testdb.Query(t, dst, "SELECT id FROM v2"); got != "1" {
				t.Errorf("v2 has %q", got)
			}
		})
	}
}

// part returns the first list of the report under a title: its comment and its statements.
func part(out, title string) string {
	_, rest, _ := strings.Cut(out, "\n"+title)
	_, rest, _ = strings.Cut(rest, "\n")
	rest, _, _ = strings.Cut(rest, "\n\n")
	return strings.TrimSpace(rest)
}

// If a statement is refused, restore.sh runs the rest, names that statement, and ends with the exit
// code of tidemark restore.
func TestScriptMakesTheRest(t *testing.T) {
	for _, server := range []*testdb.Server{testdb.MariaDB(t), testdb.Postgres(t, 15)} {
		t.Run(server.Engine, func(t *testing.T) {
			t.Parallel()
			src, place := server.NewDatabase(t, "src"), t.TempDir()
			testdb.Query(t, src, "CREATE TABLE c (id int PRIMARY KEY); INSERT INTO c VALUES (1)")
			last, there := "VIEW %s AS SELECT id FROM c", "SELECT id FROM z"
			if server.Engine == "postgres" { // creates views before the rows
				last, there = "INDEX %s ON c (id)", "SELECT count(*) FROM pg_indexes WHERE indexname = 'z'"
			}
			for _, name := range []string{"a", "z"} {
				testdb.Query(t, src, "CREATE "+fmt.Sprintf(last, name))
			}
			testdb.Must(t, "backup", "--logical", src, place)
			folders, _ := filepath.Glob(filepath.Join(place, "dumps", "*"))
			// A statement that no server accepts simulates one that this server refuses.
			sh := exec.Command("sh", "-c", "zstd -dcq after.sql.zst | sed 's/INDEX a ON public[.]c/INDEX a ON nosuch.c/; s/VIEW `a`/VIEW `nosuch`.`a`/; s/VIEW `[^`]*`[.]`a`/VIEW `nosuch`.`a`/' | zstd -cq > x && mv x after.sql.zst")
			sh.Dir = folders[0]
			if out, err := sh.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			dst := src
			if server.Engine == "postgres" {
				dst = server.NewDatabase(t, "dst")
			} else {
				name := src[strings.LastIndex(src, "/")+1:]
				testdb.Query(t, src, "DROP DATABASE "+name+"; CREATE DATABASE "+name)
			}
			_, err := testdb.Shell(t, folders[0], "restore.sh", dst)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 16 || !strings.Contains(err.Error(), "nosuch") {
				t.Errorf("restore.sh: %v", err)
			}
			if got := testdb.Query(t, dst, there); got != "1" {
				t.Errorf("z is %q", got)
			}
		})
	}
}

// scripted rebuilds a database with the script of its backup.
func scripted(t *testing.T, src string) string {
	t.Helper()
	place := t.TempDir()
	testdb.Must(t, "backup", "--logical", src, place)
	name := src[strings.LastIndex(src, "/")+1:]
	testdb.Query(t, src, "DROP DATABASE "+name+"; CREATE DATABASE "+name)
	folders, _ := filepath.Glob(filepath.Join(place, "dumps", "*"))
	if out, err := testdb.Shell(t, folders[0], "restore.sh", src); err != nil {
		t.Fatalf("restore.sh: %v\n%s", err, out)
	}
	return src
}

// client feeds sql to the server's client program, and returns its output.
func client(t *testing.T, db, sql string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"by-hand.sql": sql, "by-hand.sh": "exec $CLIENT < by-hand.sql\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := testdb.Shell(t, dir, "by-hand.sh", db)
	if err == nil {
		return noError
	}
	return out + err.Error()
}
