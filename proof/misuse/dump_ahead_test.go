package misuse

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// dumpOfTables writes a dump file of tables t0, t1 and so on, with the rows 1 and 2 each.
func dumpOfTables(t *testing.T, tables int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("-- MySQL dump 10.19  Distrib 10.11.6-MariaDB\n")
	for n := range tables {
		fmt.Fprintf(&text, "CREATE TABLE `t%d` (`id` int NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;\nINSERT INTO `t%[1]d` VALUES (1),(2);\n", n)
	}
	return testdb.Written(t, "dump.sql", text.String()+"-- Dump completed on 2026-11-28 10:00:00\n")
}

// TestTablesOfADumpCostNoTurns copies dumps with few tables and with many. Were a table looked for
// and created on its own, each would cost several answers that the next one waits for.
func TestTablesOfADumpCostNoTurns(t *testing.T) {
	t.Parallel()
	const few, many = 5, 85
	files := map[string][2]string{}
	for i, tables := range []int{few, many} {
		src := testdb.MariaDB(t).NewDatabase(t, "src")
		var script strings.Builder
		for n := range tables {
			fmt.Fprintf(&script, "CREATE TABLE t%d (id int, a varchar(20));\n", n)
		}
		testdb.Load(t, src, strings.NewReader(script.String()))
		for name, file := range map[string]string{"mysqldump": testdb.MySQLDump(t, src), "mydumper": testdb.Mydumper(t, src)} {
			pair := files[name]
			pair[i] = file
			files[name] = pair
		}
	}
	for name, pair := range files {
		for _, to := range engines() {
			t.Run(name+" into "+to.name, func(t *testing.T) {
				t.Parallel()
				var turns [2]int64
				for i, file := range pair {
					dst, w := testdb.Through(t, to.server(t).NewDatabase(t, "dst"), 0)
					if o := run(t, "copy", file, dst); o.Code != 0 {
						t.Fatalf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
					}
					turns[i] = w.Turns()
				}
				// PostgreSQL takes one for the statistics of each table, beside the others.
				if more := turns[1] - turns[0]; more > (many-few)*3/2 {
					t.Errorf("%d tables more cost %d turns more", many-few, more)
				}
			})
		}
	}
}

// TestLanesOfAFarDump copies a dump of small tables to a server with a round trip of 10 ms: as
// between databases, all lanes are used, and each writes some of the tables.
func TestLanesOfAFarDump(t *testing.T) {
	t.Parallel()
	file := dumpOfTables(t, 120)
	for _, to := range engines() {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			dst := to.server(t).NewDatabase(t, "dst")
			far, _ := testdb.Through(t, dst, 5*time.Millisecond)
			o := run(t, "copy", file, far, "--json")
			if o.Code != 0 {
				t.Fatalf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
			var end struct {
				Report struct{ Workers flow.Report }
			}
			for line := range strings.Lines(o.Out) {
				if strings.Contains(line, `"event":"report"`) {
					if err := json.Unmarshal([]byte(line), &end); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, role := range end.Report.Workers.Roles {
				if role.Name != "Writer" {
					continue
				}
				if len(role.Workers) != 8 {
					t.Errorf("%d lanes", len(role.Workers))
				}
				for _, w := range role.Workers {
					if w.Batches == 0 || w.Batches > 60 {
						t.Errorf("a lane wrote %d of 120 tables", w.Batches)
					}
				}
			}
			if got := testdb.Query(t, dst, "SELECT sum(id) FROM t119"); got != "3" {
				t.Errorf("the last table has %q", got)
			}
		})
	}
}

// TestDumpThatIsReadAhead copies files in which something in the middle keeps what follows from
// being created ahead. What the server itself makes of the file is what the copy has to make of it.
func TestDumpThatIsReadAhead(t *testing.T) {
	t.Parallel()
	const saved = "/*!40101 SET @saved_cs_client     = @@character_set_client */;\n/*!40101 SET character_set_client = utf8mb4 */;\n"
	const back = "/*!40101 SET character_set_client = @saved_cs_client */;\n"
	table := func(name, more string) string {
		return saved + "CREATE TABLE `" + name + "` (`id` int NOT NULL, `v` mediumtext" + more + ", PRIMARY KEY (`id`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n" + back
	}
	rows := func(name, v string) string {
		return "INSERT INTO `" + name + "` VALUES (1,'" + v + "'),(2,NULL);\n"
	}
	latin := func(s string) string { // é in the file's own bytes
		return strings.ReplaceAll(s, "é", "\xe9")
	}
	long := strings.Repeat("long ", 9<<20/5)
	for name, file := range map[string]string{
		"a long row": table("a", "") + rows("a", "x") + table("b", "") + rows("b", long) + rows("a", "y")[:len("INSERT INTO `a` VALUES (")] + "3,'z');\n" + table("c", "") + rows("c", "x"),
		"a comment of another character set": "/*!40101 SET NAMES latin1 */;\n" + table("a", "") + rows("a", "x") +
			latin(strings.Replace(table("b", " COMMENT 'é'"), "utf8mb4", "latin1", 1)) + table("c", " COMMENT 'é'") + table("d", "") + latin(rows("d", "é")),
		"another mode":     table("a", "") + "SET sql_mode = 'ANSI_QUOTES';\nCREATE TABLE \"b\" (\"id\" int NOT NULL, \"v\" text);\nSET sql_mode = '';\n" + table("c", "") + rows("c", "x"),
		"a computed table": table("a", "") + rows("a", "x") + "CREATE TABLE `b` (PRIMARY KEY (`id`)) SELECT * FROM `a`;\n" + table("c", "") + rows("c", "x"),
		"a trigger":        table("a", "") + table("b", "") + "CREATE TRIGGER tr BEFORE INSERT ON `a` FOR EACH ROW SET NEW.v = upper(NEW.v);\n" + table("c", "") + rows("a", "x") + rows("c", "x"),
	} {
		file = "-- MySQL dump 10.19  Distrib 10.11.6-MariaDB\n" + file + "-- Dump completed on 2026-11-28 10:00:00\n"
		for _, s := range []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)} {
			t.Run(name+" "+s.Engine, func(t *testing.T) {
				t.Parallel()
				want, dst := s.NewDatabase(t, "want"), s.NewDatabase(t, "dst")
				testdb.Load(t, want, strings.NewReader(file))
				if o := run(t, "copy", testdb.Written(t, "dump.sql", file), dst); o.Code != 0 {
					t.Fatalf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
				}
				for _, sql := range []string{
					"SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, HEX(COLUMN_COMMENT), CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME NOT LIKE 'tidemark%' ORDER BY 1, 2",
					"SELECT id, MD5(v), LENGTH(v) FROM a UNION ALL SELECT id, MD5(v), LENGTH(v) FROM c ORDER BY 1, 2, 3",
				} {
					if got, want := testdb.Query(t, dst, sql), testdb.Query(t, want, sql); got != want {
						t.Errorf("the copy has\n%s\nthe server\n%s", got, want)
					}
				}
			})
		}
	}
}

// TestDumpBesideATableThatIsThere copies a dump one of whose tables in the middle the target has
// already: what comes before it is whole, it stays as it was, and of what comes after there is no
// trace. Once the table is gone, a resumed copy loads the rest.
func TestDumpBesideATableThatIsThere(t *testing.T) {
	t.Parallel()
	file := dumpOfTables(t, 9)
	for _, to := range engines() {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			dst := to.server(t).NewDatabase(t, "dst")
			testdb.Query(t, dst, "CREATE TABLE t5 (id int)")
			testdb.Query(t, dst, "INSERT INTO t5 VALUES (77)")
			if o := run(t, "copy", file, dst); o.Code != 8 || !strings.Contains(o.ErrOut, "t5") {
				t.Fatalf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
			if got := testdb.Query(t, dst, "SELECT id FROM t5"); got != "77" {
				t.Errorf("t5 has %q", got)
			}
			if got, err := testdb.TryQuery(dst, "SELECT count(*) FROM t6"); err == nil {
				t.Errorf("t6 is there, with %s rows", got)
			}
			testdb.Query(t, dst, "DROP TABLE t5")
			made := map[bool]string{true: "public.t7", false: "t7"}[to.name == "postgres"] // the user has a schema of its name now
			testdb.Query(t, dst, "CREATE TABLE "+made+" (id int)")
			testdb.Query(t, dst, "INSERT INTO "+made+" VALUES (77)")
			if o := run(t, "copy", file, dst, "--resume", "last"); o.Code != 8 || !strings.Contains(o.ErrOut, "t7") {
				t.Fatalf("resumed beside a table made since: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
			if got := testdb.Query(t, dst, "SELECT id FROM "+made); got != "77" {
				t.Errorf("t7 has %q", got)
			}
			testdb.Query(t, dst, "DROP TABLE "+made)
			if o := run(t, "copy", file, dst, "--resume", "last"); o.Code != 0 {
				t.Fatalf("resumed: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
			for n := range 9 {
				if got := testdb.Query(t, dst, fmt.Sprintf("SELECT count(*), sum(id) FROM t%d", n)); got != "2\t3" {
					t.Errorf("t%d has %q", n, got)
				}
			}
		})
	}
}

// TestDumpOfTwins copies tables whose names differ by capitals only, into servers that tell them
// apart and into one that does not: there the second is refused, and its rows are not mixed with
// those of the first.
func TestDumpOfTwins(t *testing.T) {
	t.Parallel()
	file := testdb.Written(t, "dump.sql", "-- MySQL dump\nCREATE TABLE `Ab` (`id` int NOT NULL, PRIMARY KEY (`id`));\nINSERT INTO `Ab` VALUES (1),(2);\nCREATE TABLE `aB` (`id` int NOT NULL, PRIMARY KEY (`id`));\nINSERT INTO `aB` VALUES (3),(4);\n-- Dump completed\n")
	for _, to := range engines() {
		dst := to.server(t).NewDatabase(t, "dst")
		for _, verb := range []string{"check", "copy"} {
			if o := run(t, verb, file, dst); o.Code != 0 {
				t.Errorf("%s to %s: exit %d\n%s%s", verb, to.name, o.Code, o.Out, o.ErrOut)
			}
		}
		quote := map[bool]string{true: `"`, false: "`"}[to.name == "postgres"]
		if got := testdb.Query(t, dst, strings.ReplaceAll("SELECT sum(id) FROM `Ab` UNION ALL SELECT sum(id) FROM `aB`", "`", quote)); got != "3\n7" {
			t.Errorf("%s has %q", to.name, got)
		}
	}
	dst := testdb.OwnMariaDB(t, "--lower-case-table-names=1").NewDatabase(t, "dst")
	for verb, code := range map[string]int{"check": 1, "copy": 13} {
		if o := run(t, verb, file, dst); o.Code != code || !strings.Contains(o.Out+o.ErrOut, "does not distinguish") {
			t.Errorf("%s: exit %d, not %d\n%s%s", verb, o.Code, code, o.Out, o.ErrOut)
		}
	}
	if got := testdb.Query(t, dst, "SELECT COALESCE(SUM(id), 0) IN (0, 3) FROM ab"); got != "1" {
		t.Error("rows of both are in one table")
	}
}
