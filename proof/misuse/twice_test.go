package misuse

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// otherState returns a catalogue that knows nothing of the test's other ones, as on another host.
func otherState(t *testing.T, args ...string) []string {
	return append(args, "--state", filepath.Join(t.TempDir(), "catalog.db"))
}

// many creates rows in a table without a key, so that duplicates stay.
func many(tb testing.TB, s *testdb.Server, rows int) string {
	db := s.NewDatabase(tb, "many")
	numbers := "SELECT g, repeat('x', 100) FROM generate_series(1, %d) g"
	if s.Engine != "postgres" {
		numbers = "WITH RECURSIVE g(g) AS (SELECT 1 UNION ALL SELECT g+1 FROM g WHERE g < %d) SELECT g, repeat('x', 100) FROM g"
		testdb.Query(tb, db, "CREATE TABLE loose (a int, b varchar(100)); CREATE TABLE keyed (a int PRIMARY KEY, b varchar(100))")
		limit := "SET SESSION cte_max_recursion_depth = 10000000; "
		if s.Engine == "mariadb" {
			limit = "SET SESSION max_recursive_iterations = 10000000; "
		}
		testdb.Query(tb, db, limit+fmt.Sprintf("INSERT INTO loose "+numbers, rows)+"; INSERT INTO keyed SELECT * FROM loose")
		return db
	}
	testdb.Query(tb, db, "CREATE TABLE loose (a int, b varchar(100)); CREATE TABLE keyed (a int PRIMARY KEY, b varchar(100))")
	testdb.Query(tb, db, "ALTER TABLE loose REPLICA IDENTITY FULL")
	testdb.Query(tb, db, fmt.Sprintf("INSERT INTO loose "+numbers, rows))
	testdb.Query(tb, db, "INSERT INTO keyed SELECT * FROM loose")
	return db
}

const keys = "SELECT count(*) FROM information_schema.table_constraints WHERE table_name = 'keyed' AND constraint_type = 'PRIMARY KEY' AND table_schema = "

func keysOf(t *testing.T, db string) string {
	schema := "database()"
	if strings.HasPrefix(db, "postgres") {
		schema = "'public'"
	}
	return testdb.Query(t, db, keys+schema)
}

// TestTwiceAtOnce runs two copies into one target that know nothing of each other: one succeeds,
// the other is refused, and everything is there once with its keys.
func TestTwiceAtOnce(t *testing.T) {
	t.Parallel()
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s, n := e.server(t), 20000
			if testdb.Long() {
				n = 300000
			}
			src := many(t, s, n)
			file := dumpOf(t, n/10)
			for what, args := range map[string][]string{"copy": {"copy", src}, "import": {"copy", "file:" + file}, "replicate": {"replicate", src, "--until", "now"}} {
				t.Run(what, func(t *testing.T) {
					dst, want := s.NewDatabase(t, "dst"), fmt.Sprint(n)
					if what == "import" {
						want = fmt.Sprint(n / 10)
					}
					var both []*testdb.Process
					forget := filepath.Join(t.TempDir(), "catalog.db")
					for range 2 {
						line := append([]string{args[0], args[1], dst}, args[2:]...)
						if what == "replicate" {
							name := streamName()
							line = append(line, "--name", name)
							t.Cleanup(func() { testdb.Run(t, "replicate", src, dst, "--name", name, "--remove", "--state", forget) })
						}
						both = append(both, testdb.Start(t, otherState(t, line...)...))
					}
					codes := []int{both[0].Wait(), both[1].Wait()}
					if codes[0] != 0 {
						codes[0], codes[1] = codes[1], codes[0]
					}
					if codes[0] != 0 || codes[1] != 8 {
						t.Errorf("exit %d, want 0 and 8\n%s\n%s", codes, both[0].Text(), both[1].Text())
					}
					for _, table := range []string{"loose", "keyed"} {
						if got := testdb.Query(t, dst, "SELECT count(*) FROM "+table); got != want {
							t.Errorf("%s has %s rows, want %s", table, got, want)
						}
					}
					if got := keysOf(t, dst); got != "1" {
						t.Errorf("keyed has %s keys", got)
					}
					if got := strings.Fields(tables(t, dst)); what == "copy" && fmt.Sprint(got) != "[keyed loose]" {
						t.Errorf("there is %s", got)
					}
				})
			}
		})
	}
}

// dumpOf writes a dump file with the same tables.
func dumpOf(t *testing.T, rows int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("CREATE TABLE `loose` (`a` int, `b` varchar(100));\nCREATE TABLE `keyed` (`a` int NOT NULL, `b` varchar(100), PRIMARY KEY (`a`));\n")
	for i := range rows {
		fmt.Fprintf(&b, "INSERT INTO `loose` VALUES (%d,'x');\nINSERT INTO `keyed` VALUES (%d,'x');\n", i, i)
	}
	return testdb.Written(t, "dump.sql", b.String())
}

// TestAfterAKilledRun: tables of a killed run belong to it until they are dropped, even for a
// catalogue that does not know the run; after that, the run cannot be resumed into the tables that
// replaced them.
func TestAfterAKilledRun(t *testing.T) {
	t.Parallel()
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e.server(t)
			src, dst := many(t, s, 50000), s.NewDatabase(t, "dst")
			p := testdb.Start(t, "copy", src, dst)
			soon(t, "a table is there", func() bool {
				return p.Over() || strings.Contains(tables(t, dst), "keyed")
			})
			p.Kill()
			for _, prep := range []string{"empty", "keep", "truncate"} {
				o := run(t, otherState(t, "copy", src, dst, "--prep", prep)...)
				if o.Code != 8 {
					t.Errorf("--prep %s: exit %d, want 8\n%s%s", prep, o.Code, o.ErrOut, o.Out)
				}
			}
			if o := run(t, otherState(t, "copy", src, dst, "--prep", "drop")...); o.Code != 0 {
				t.Fatalf("exit %d\n%s", o.Code, o.ErrOut)
			}
			if o := run(t, "copy", src, dst, "--resume", "last"); o.Code != 11 && o.Code != 2 { // 2: the run ended before the kill
				t.Errorf("a resume of what was replaced: exit %d, want 11\n%s", o.Code, o.ErrOut)
			}
			testdb.Must(t, "diff", src, dst)
			if got := keysOf(t, dst); got != "1" {
				t.Errorf("keyed has %s keys", got)
			}
			if got := strings.Fields(tables(t, dst)); fmt.Sprint(got) != "[keyed loose]" {
				t.Errorf("there is %s", got)
			}
		})
	}
}

// TestDropBesideAStream: a copy with another catalogue does not empty or drop the tables that a
// stream feeds; it does so with other tables of the same database.
func TestDropBesideAStream(t *testing.T) {
	t.Parallel()
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e.server(t)
			src, dst, name := full(t, s), s.NewDatabase(t, "dst"), streamName()
			other := s.NewDatabase(t, "other")
			testdb.Query(t, other, "CREATE TABLE aside (id int PRIMARY KEY)")
			testdb.Must(t, "copy", other, dst)
			testdb.Must(t, "replicate", src, dst, "--name", name, "--until", "now", "--prep", "keep")
			for _, prep := range []string{"drop", "truncate"} {
				o := run(t, otherState(t, "copy", src, dst, "--prep", prep)...)
				if o.Code != 8 || !strings.Contains(o.ErrOut, "stream "+name) {
					t.Errorf("--prep %s: exit %d, want 8\n%s%s", prep, o.Code, o.ErrOut, o.Out)
				}
			}
			if got := testdb.Query(t, dst, allOrders); got != "1\tone\n2\ttwo\n3\tthree" {
				t.Errorf("the target has\n%s", got)
			}
			testdb.Must(t, otherState(t, "copy", other, dst, "--prep", "drop")...)
			testdb.Must(t, "replicate", src, dst, "--name", name, "--remove")
			testdb.Must(t, otherState(t, "copy", src, dst, "--prep", "drop")...)
			if got := strings.Fields(tables(t, dst)); fmt.Sprint(got) != "[aside orders]" {
				t.Errorf("there is %s", got)
			}
		})
	}
}
