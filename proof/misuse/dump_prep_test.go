package misuse

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// circle are tables that refer to each other and to themselves, a parent after its child, and a
// table that is bound to none.
const circle = `CREATE TABLE a (id int PRIMARY KEY, b int, up int);
CREATE TABLE b (id int PRIMARY KEY, a int, z int);
CREATE TABLE free (id int PRIMARY KEY);
CREATE TABLE z (id int PRIMARY KEY);
INSERT INTO z VALUES (1), (2); INSERT INTO free VALUES (1); INSERT INTO a VALUES (1, 1, 2), (2, NULL, 1); INSERT INTO b VALUES (1, 2, 2);
ALTER TABLE a ADD CONSTRAINT a_b FOREIGN KEY (b) REFERENCES b (id), ADD CONSTRAINT a_up FOREIGN KEY (up) REFERENCES a (id);
ALTER TABLE b ADD CONSTRAINT b_a FOREIGN KEY (a) REFERENCES a (id), ADD CONSTRAINT b_z FOREIGN KEY (z) REFERENCES z (id);`

// inCircle lists the rows of circle.
const inCircle = "SELECT 'a', id, b, up FROM a UNION ALL SELECT 'b', id, a, z FROM b UNION ALL SELECT 'free', id, id, id FROM free UNION ALL SELECT 'z', id, id, id FROM z ORDER BY 1, 2"

// TestDumpOverTablesThatReferToEachOther copies a dump again over the tables that it has made,
// which refer to each other. While a table that the file does not have refers to one of them, all
// stay.
func TestDumpOverTablesThatReferToEachOther(t *testing.T) {
	t.Parallel()
	src := testdb.MariaDB(t).NewDatabase(t, "src")
	testdb.Load(t, src, strings.NewReader(circle))
	want := testdb.Query(t, src, inCircle)
	for name, file := range map[string]string{"mysqldump": testdb.MySQLDump(t, src), "mydumper": testdb.Mydumper(t, src)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
			testdb.Must(t, "copy", file, dst)
			keys := "SELECT conname FROM pg_constraint WHERE contype = 'f' AND convalidated ORDER BY 1"
			had := testdb.Query(t, dst, keys)
			for _, prep := range []string{"truncate", "drop"} {
				testdb.Query(t, dst, "INSERT INTO z VALUES (77); INSERT INTO free VALUES (77); INSERT INTO a VALUES (77, 1, 77); INSERT INTO b VALUES (77, 77, 77)")
				before := testdb.Query(t, dst, inCircle)
				testdb.Query(t, dst, "CREATE TABLE public.outside (z int REFERENCES z (id)); INSERT INTO outside VALUES (77)")
				for _, verb := range []string{"check", "copy"} {
					code := map[string]int{"check": 1, "copy": 8}[verb]
					if o := run(t, verb, file, dst, "--prep", prep); o.Code != code || !strings.Contains(o.Out+o.ErrOut, "public.outside") {
						t.Errorf("%s --prep %s beside a table that refers to one: exit %d\n%s%s", verb, prep, o.Code, o.Out, o.ErrOut)
					}
				}
				if got := testdb.Query(t, dst, inCircle); got != before || testdb.Query(t, dst, "SELECT z FROM outside") != "77" {
					t.Errorf("--prep %s, refused, has changed the rows:\n%s", prep, got)
				}
				testdb.Query(t, dst, "DROP TABLE outside")
				if o := run(t, "check", file, dst, "--prep", prep); o.Code != 0 {
					t.Errorf("check --prep %s: exit %d\n%s%s", prep, o.Code, o.Out, o.ErrOut)
				}
				if o := run(t, "copy", file, dst, "--prep", prep); o.Code != 0 {
					t.Errorf("copy --prep %s: exit %d\n%s%s", prep, o.Code, o.Out, o.ErrOut)
				}
				if got := testdb.Query(t, dst, inCircle); got != want {
					t.Errorf("--prep %s: the target has\n%s\nand the source\n%s", prep, got, want)
				}
				if got := testdb.Query(t, dst, keys); got != had {
					t.Errorf("--prep %s: the foreign keys are\n%s\nand were\n%s", prep, got, had)
				}
			}
		})
	}
}

// TestDumpKilledBesideOldRows kills the copy of a dump between two tables that the target has
// already, and resumes it. The one is full and stays so; what the other held goes, unless it was to
// be kept.
func TestDumpKilledBesideOldRows(t *testing.T) {
	t.Parallel()
	file := testdb.Written(t, "dump.sql", "-- MySQL dump\nCREATE TABLE `a` (`id` int NOT NULL, `v` int, PRIMARY KEY (`id`), KEY `a_v` (`v`)) ENGINE=InnoDB;\nINSERT INTO `a` VALUES (1,1),(2,2);\n"+
		"CREATE TABLE `b` (`id` int NOT NULL, `v` int, PRIMARY KEY (`id`), KEY `b_v` (`v`)) ENGINE=InnoDB;\nINSERT INTO `b` VALUES (1,1),(2,2);\n-- Dump completed\n")
	for _, to := range engines() {
		for _, prep := range []string{"truncate", "keep", "drop"} {
			t.Run(to.name+" "+prep, func(t *testing.T) {
				t.Parallel()
				dst := to.server(t).NewDatabase(t, "dst")
				testdb.Query(t, dst, "CREATE TABLE a (id int PRIMARY KEY, v int)")
				testdb.Query(t, dst, "CREATE TABLE b (id int PRIMARY KEY, v int)")
				testdb.Query(t, dst, "INSERT INTO b VALUES (77, 77)")
				s := testdb.NewSession(dst)
				defer s.Close()
				// The copy stops at b: before it is dropped, or at its first row.
				lock, unlock, waits := "BEGIN; LOCK TABLE b IN SHARE MODE", "COMMIT", "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
				if to.name != "postgres" {
					lock, unlock, waits = "LOCK TABLES b READ", "UNLOCK TABLES", "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND (STATE LIKE 'Waiting for table%' OR STATE = 'User lock')"
				}
				switch {
				case prep == "drop":
				case to.name == "postgres":
					lock, unlock = "SELECT pg_advisory_lock(5)", "SELECT pg_advisory_unlock(5)"
					testdb.Query(t, dst, "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(5); RETURN new; END'; CREATE TRIGGER wait BEFORE INSERT ON b FOR EACH ROW EXECUTE FUNCTION wait(); ALTER TABLE b ENABLE ALWAYS TRIGGER wait")
				default:
					lock, unlock = "SELECT GET_LOCK(DATABASE(), 600)", "SELECT RELEASE_LOCK(DATABASE())"
					testdb.Query(t, dst, "CREATE TRIGGER wait BEFORE INSERT ON b FOR EACH ROW SET @x = GET_LOCK(DATABASE(), 600)")
				}
				do := func(sql string) {
					if _, err := s.Try(sql); err != nil {
						t.Fatal(err)
					}
				}
				do(lock)
				p := testdb.Start(t, "copy", file, dst, "--prep", prep)
				soon(t, "it waits at b", func() bool { return p.Over() || testdb.Query(t, dst, waits) != "0" })
				if p.Over() {
					t.Fatal(p.Text())
				}
				reloads := to.name == "postgres" && prep == "drop" // both are dropped together, before all rows
				if !reloads {
					soon(t, "a is full", func() bool {
						n, err := testdb.TryQuery(dst, "SELECT count(*) FROM a") // b is looked at ahead, before a is made anew
						return err == nil && n == "2"
					})
				}
				p.Kill()
				do(unlock)
				if prep != "drop" {
					testdb.Query(t, dst, map[bool]string{true: "DROP TRIGGER wait ON b", false: "DROP TRIGGER wait"}[to.name == "postgres"])
				}
				if !reloads {
					testdb.Query(t, dst, "UPDATE a SET v = 5")
				}
				if o := run(t, "copy", file, dst, "--prep", prep, "--resume", "last"); o.Code != 0 {
					t.Fatalf("resumed: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
				}
				a, b := "1\t5\n2\t5", "1\t1\n2\t2"
				if reloads {
					a = b
				}
				if prep == "keep" {
					b += "\n77\t77"
				}
				for table, want := range map[string]string{"a": a, "b": b} {
					if got := testdb.Query(t, dst, "SELECT id, v FROM "+table+" ORDER BY id"); got != want {
						t.Errorf("%s has\n%s\nnot\n%s", table, got, want)
					}
				}
				for _, index := range []string{"a_v", "b_v"} { // tables that stay get no indexes, those that are created do
					n := testdb.Query(t, dst, map[bool]string{true: "SELECT count(*) FROM pg_indexes WHERE indexname = '" + index + "'",
						false: "SELECT count(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND INDEX_NAME = '" + index + "'"}[to.name == "postgres"])
					if want := map[bool]string{true: "1", false: "0"}[prep == "drop"]; n != want {
						t.Errorf("%s: %s indexes, not %s", index, n, want)
					}
				}
			})
		}
	}
}
