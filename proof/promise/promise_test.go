// Package promise checks that exit code 0 means that the target has what was planned, by means of
// the target's own catalogue: whatever makes a definition come out otherwise, though each statement
// succeeds, is named, and ends with exit code 16.
package promise

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// meddler is an event trigger that does something after each statement with this tag.
func meddler(tag, do string) string {
	return "CREATE FUNCTION meddle() RETURNS event_trigger LANGUAGE plpgsql AS $$ DECLARE o record; BEGIN " +
		"FOR o IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE schema_name = 'public' LOOP " + do + " END LOOP; END $$; " +
		"CREATE EVENT TRIGGER meddler ON ddl_command_end WHEN TAG IN ('" + tag + "') EXECUTE FUNCTION meddle()"
}

// withoutU drops the constraint u of the table a once it is added.
var withoutU = meddler("ALTER TABLE", "IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'public.a'::regclass AND conname = 'u') THEN ALTER TABLE public.a DROP CONSTRAINT u; END IF;")

// A lack is a target on which a copy's statements succeed, and do not have the effect that they had
// on the source.
type lack struct {
	name        string
	from, to    string
	source      string
	target      string // what it has before the copy
	says, leave string // what the report names, and what it does not
	amend       string // removes what was in the way; the copy can be resumed then
}

var lacks = []lack{
	{"a type has other labels", "postgres", "postgres",
		"CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TABLE a (m mood); INSERT INTO a VALUES ('sad')",
		"CREATE TYPE mood AS ENUM ('glad', 'sad')",
		"type public.mood", "table", "ALTER TYPE mood RENAME TO was; CREATE TYPE public.mood AS ENUM ('sad', 'glad'); ALTER TABLE a ALTER m TYPE public.mood USING m::text::public.mood"},
	{"a view shows something else", "postgres", "postgres",
		"CREATE TABLE a (x int); CREATE VIEW v AS SELECT x FROM a; INSERT INTO a VALUES (1)",
		"CREATE VIEW v AS SELECT 7 AS x",
		"view public.v", "table", "DROP VIEW v"},
	{"a sequence counts otherwise", "postgres", "postgres",
		"CREATE TABLE a (x int); CREATE SEQUENCE s INCREMENT 5; INSERT INTO a VALUES (1)",
		"CREATE SEQUENCE s INCREMENT 7",
		"sequence public.s", "table", "DROP SEQUENCE s"},
	{"indexes are dropped as they are created", "postgres", "postgres",
		"CREATE TABLE a (x int, y int); CREATE INDEX a_x ON a (x); INSERT INTO a VALUES (1, 2)",
		meddler("CREATE INDEX", "EXECUTE 'DROP INDEX ' || o.object_identity;"),
		"index public.a_x: is missing", "table", "DROP EVENT TRIGGER meddler"},
	{"a unique key is dropped as it is created", "mysql", "postgres",
		"CREATE TABLE a (x int, y int, UNIQUE KEY u (y)); INSERT INTO a VALUES (1, 2)",
		withoutU, "constraint u ON public.a: is missing", "table", "DROP EVENT TRIGGER meddler"},
	{"columns lose their defaults", "mariadb", "postgres",
		"CREATE TABLE a (x int DEFAULT 5, y int); INSERT INTO a VALUES (1, 2)",
		meddler("CREATE TABLE", "EXECUTE 'ALTER TABLE ' || o.object_identity || ' ALTER x DROP DEFAULT';"),
		"table public.a", "missing", "DROP EVENT TRIGGER meddler; ALTER TABLE a ALTER x SET DEFAULT 5"},
	{"columns become nullable", "postgres", "postgres",
		"CREATE TABLE a (x int NOT NULL, y int); INSERT INTO a VALUES (1, 2)",
		meddler("CREATE TABLE", "EXECUTE 'ALTER TABLE ' || o.object_identity || ' ALTER x DROP NOT NULL';"),
		"table public.a", "missing", "DROP EVENT TRIGGER meddler; ALTER TABLE a ALTER x SET NOT NULL"},
	{"a routine does something else", "mariadb", "mariadb",
		"CREATE TABLE a (x int); CREATE FUNCTION f(n int) RETURNS int RETURN n + 1; INSERT INTO a VALUES (1)",
		"CREATE FUNCTION f(n int) RETURNS int RETURN n + 2",
		"function", "table", "DROP FUNCTION f"},
	{"a view of MySQL shows something else", "mysql", "mysql",
		"CREATE TABLE a (x int); CREATE VIEW v AS SELECT x FROM a; INSERT INTO a VALUES (1)",
		"CREATE VIEW v AS SELECT 7 AS x",
		"view", "table", "DROP VIEW v"},
}

// TestLacking: a copy ends with exit code 16 and names what is not as planned; without what is in
// its way it ends with 0.
func TestLacking(t *testing.T) {
	for _, i := range testdb.Draw(t, len(lacks), 3) {
		l := lacks[i]
		t.Run(l.name, func(t *testing.T) {
			src := testdb.ServerOf(t, l.from).NewDatabase(t, "src")
			testdb.Query(t, src, l.source)
			for _, met := range []bool{true, false} {
				dst := testdb.ServerOf(t, l.to).NewDatabase(t, "dst")
				if met {
					testdb.Query(t, dst, l.target)
				}
				o := testdb.Run(t, "copy", src, dst)
				if !met {
					if o.Code != 0 {
						t.Errorf("an empty target: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
					}
					continue
				}
				text := o.Out + o.ErrOut
				_, list, _ := strings.Cut(text, "though no statement failed:")
				list, _, _ = strings.Cut(list, "\n\n")
				if o.Code != 16 || !strings.Contains(list, l.says) || strings.Contains(list, l.leave) {
					t.Errorf("exit %d, want 16 with %q and no %q\n%s", o.Code, l.says, l.leave, text)
				}
				testdb.Query(t, dst, l.amend)
				if o := testdb.Run(t, "copy", src, dst, "--resume", "last"); o.Code != 0 {
					t.Errorf("resumed: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
				}
			}
		})
	}
}

// TestLackingOfADump: an import is held to the same.
func TestLackingOfADump(t *testing.T) {
	text := "CREATE TABLE `a` (`x` int NOT NULL, `y` int DEFAULT NULL, UNIQUE KEY `u` (`y`)) ENGINE=InnoDB;\nINSERT INTO `a` VALUES (1,2);\n"
	dump := testdb.Written(t, "dump.sql", text)
	dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
	testdb.Query(t, dst, withoutU)
	o := testdb.Run(t, "copy", "file:"+dump, dst)
	if o.Code != 16 || !strings.Contains(o.Out+o.ErrOut, "constraint u ON public.a: is missing") {
		t.Errorf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	testdb.Query(t, dst, "DROP EVENT TRIGGER meddler; DROP TABLE a")
	if o := testdb.Run(t, "copy", "file:"+dump, dst); o.Code != 0 {
		t.Errorf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
}

// TestLackingOfARestore: and so is a logical backup that is restored into a server.
func TestLackingOfARestore(t *testing.T) {
	for _, from := range []string{"postgres", "mysql"} {
		src, repo := testdb.ServerOf(t, from).NewDatabase(t, "src"), filepath.Join(t.TempDir(), "repo")
		testdb.Query(t, src, "CREATE TABLE a (x int NOT NULL, y int, CONSTRAINT u UNIQUE (y)); INSERT INTO a VALUES (1, 2)")
		testdb.Must(t, "backup", src, repo, "--logical")
		dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
		testdb.Query(t, dst, meddler("CREATE TABLE", "EXECUTE 'ALTER TABLE ' || o.object_identity || ' ALTER x DROP NOT NULL';"))
		o := testdb.Run(t, "restore", repo, "latest", dst)
		if o.Code != 16 || !strings.Contains(o.Out+o.ErrOut, "table public.a: ") {
			t.Errorf("%s: exit %d\n%s%s", from, o.Code, o.Out, o.ErrOut)
		}
		testdb.Query(t, dst, "DROP EVENT TRIGGER meddler; DROP TABLE a")
		if o := testdb.Run(t, "restore", repo, "latest", dst); o.Code != 0 {
			t.Errorf("%s: exit %d\n%s%s", from, o.Code, o.Out, o.ErrOut)
		}
	}
}

// TestIndexNamedAsALaterTable: on PostgreSQL an index and a table cannot have one name. Of a file,
// which is read once, check says so where the table comes later.
func TestIndexNamedAsALaterTable(t *testing.T) {
	src := testdb.MariaDB(t).NewDatabase(t, "src")
	testdb.Query(t, src, "CREATE TABLE b (id int PRIMARY KEY, x int, KEY c (x), KEY a (x)); CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY); INSERT INTO a VALUES (1); INSERT INTO b VALUES (1, 1); INSERT INTO c VALUES (1)")
	dump, dst := testdb.MySQLDump(t, src), testdb.Postgres(t, 15).NewDatabase(t, "dst")
	o := testdb.Run(t, "check", dump, dst)
	if o.Code != 1 || !strings.Contains(o.Out, "public.c: an index, type or sequence of public.b") || strings.Contains(o.Out, "public.a: an") {
		t.Errorf("check: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if o := testdb.Run(t, "copy", dump, dst); o.Code != 13 || !strings.Contains(o.ErrOut, "public.c: an index, type or sequence of public.b") {
		t.Errorf("copy: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	for _, verb := range []string{"check", "copy"} { // what comes earlier has its name already
		if o := testdb.Run(t, verb, dump, testdb.Postgres(t, 15).NewDatabase(t, "two"), "--exclude", "*.c"); o.Code != 0 {
			t.Errorf("%s without c: exit %d\n%s%s", verb, o.Code, o.Out, o.ErrOut)
		}
	}
}

// TestTablesNamedAsTypesAndSequences: what a table needs besides has the name of another table.
func TestTablesNamedAsTypesAndSequences(t *testing.T) {
	src := testdb.MySQL(t).NewDatabase(t, "src")
	testdb.Query(t, src, "CREATE TABLE users (id int AUTO_INCREMENT PRIMARY KEY, role enum('a','b')); CREATE TABLE users_id_seq (next int); CREATE TABLE users_role (id int); CREATE TABLE users_pkey (id int); "+
		"INSERT INTO users VALUES (7, 'a'); INSERT INTO users_role VALUES (1); INSERT INTO users_id_seq VALUES (8); INSERT INTO users_pkey VALUES (1)")
	dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
	if o := testdb.Run(t, "copy", src, dst); o.Code != 0 {
		t.Errorf("copy: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if o := testdb.Run(t, "diff", src, dst, "--definitions"); o.Code != 0 {
		t.Errorf("diff: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if got := testdb.Query(t, dst, "INSERT INTO users (role) VALUES ('b') RETURNING id"); got != "8" {
		t.Errorf("the next number is %s", got)
	}
	dump, dst := testdb.MySQLDump(t, src), testdb.Postgres(t, 15).NewDatabase(t, "dst")
	o := testdb.Run(t, "check", dump, dst, "-v")
	for _, table := range []string{"users_role", "users_pkey", "users_id_seq"} {
		if o.Code != 1 || !strings.Contains(o.Out, "table public."+table+": an index, type or sequence of public.users") {
			t.Errorf("check: exit %d, without %s\n%s%s", o.Code, table, o.Out, o.ErrOut)
		}
	}
	if o := testdb.Run(t, "copy", dump, dst); o.Code != 13 {
		t.Errorf("copy: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
}

// TestOnlyGeneratedColumns: rows of a table whose columns are all generated are copied, too.
func TestOnlyGeneratedColumns(t *testing.T) {
	for _, from := range []string{"mysql", "mariadb", "postgres"} {
		src := testdb.ServerOf(t, from).NewDatabase(t, "src")
		sql := "CREATE TABLE t (g int GENERATED ALWAYS AS (1 + 1) STORED, h int GENERATED ALWAYS AS (7) STORED); INSERT INTO t "
		if from == "postgres" {
			testdb.Query(t, src, sql+"DEFAULT VALUES; INSERT INTO t DEFAULT VALUES")
		} else {
			testdb.Query(t, src, sql+"() VALUES (), ()")
		}
		sources := []string{src}
		if from != "postgres" {
			sources = append(sources, testdb.MariaDBDump(t, src))
		}
		for _, to := range []string{"mysql", "mariadb", "postgres"} {
			for i, s := range sources {
				dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
				o := testdb.Run(t, "copy", s, dst)
				if got := testdb.Query(t, dst, "SELECT g, h FROM t"); o.Code != 0 || got != "2\t7\n2\t7" {
					t.Errorf("%s to %s (%d): exit %d, %q\n%s%s", from, to, i, o.Code, got, o.Out, o.ErrOut)
				}
			}
		}
	}
}
