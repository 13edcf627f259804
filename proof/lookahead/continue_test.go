package lookahead

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// With --on-table-error continue only the bad table is rejected, whatever is wrong with it, and
// everything else arrives: rows, keys and the foreign keys between the other tables.
func TestOneTableIsRejected(t *testing.T) {
	t.Parallel()
	const good = "CREATE TABLE good (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, g int, CONSTRAINT c FOREIGN KEY (g) REFERENCES good (id)); INSERT INTO good VALUES (1), (2); INSERT INTO child VALUES (7, 2)"
	cases := refusals()
	cases = append(cases,
		refusal{name: "refused by a trigger", source: postgres, target: postgres, make: "CREATE TABLE bad (id serial PRIMARY KEY, e text UNIQUE); INSERT INTO bad VALUES (1, 'x')", there: `
			CREATE FUNCTION no() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
				IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE object_identity = 'public.bad') THEN RAISE EXCEPTION 'not this one'; END IF; END $$;
			CREATE EVENT TRIGGER no ON ddl_command_end EXECUTE FUNCTION no()`, want: "not this one"},
		refusal{name: "bad row", source: testdb.MariaDB, target: postgres, make: "SET sql_mode = ''; CREATE TABLE bad (id int PRIMARY KEY, d date, KEY (d)); INSERT INTO bad VALUES (1, '2020-01-01'), (2, '0000-00-00')", want: "0000-00-00"})
	for _, c := range cases {
		src, tgt := c.source(t).NewDatabase(t, "go"), c.target(t).NewDatabase(t, "go")
		t.Run(c.name+" "+c.target(t).Engine, func(t *testing.T) {
			t.Parallel()
			testdb.Query(t, src, good)
			testdb.Query(t, src, c.make)
			if c.there != "" {
				testdb.Query(t, tgt, c.there)
			}
			out := testdb.Run(t, "copy", src, tgt, "--target-schema", schema(tgt), "--on-table-error", "continue")
			rejected(t, out, c.want)
			whole(t, tgt)
		})
	}
}

// The same for a dump file.
func TestOneTableOfADumpIsRejected(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "d.sql")
	dump := "-- MySQL dump 10.13  Distrib 8.0.36\nCREATE TABLE `good` (`id` int NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;\nINSERT INTO `good` VALUES (1),(2);\n" +
		"CREATE TABLE `bad` (`id` int NOT NULL, `d` date, PRIMARY KEY (`id`), KEY `d` (`d`));\nINSERT INTO `bad` VALUES (1,'2020-01-01');\nINSERT INTO `bad` VALUES (2,'0000-00-00');\nINSERT INTO `bad` VALUES (3,'2020-01-01');\n" +
		"CREATE TABLE `child` (`id` int NOT NULL, `g` int, PRIMARY KEY (`id`), KEY `g` (`g`), CONSTRAINT `c` FOREIGN KEY (`g`) REFERENCES `good` (`id`)) ENGINE=InnoDB;\nINSERT INTO `child` VALUES (7,2);\n-- Dump completed on 2026-11-22 10:00:00\n"
	if err := os.WriteFile(file, []byte(dump), 0o600); err != nil {
		t.Fatal(err)
	}
	tgt := testdb.Postgres(t, 17).NewDatabase(t, "go")
	rejected(t, testdb.Run(t, "copy", "file:"+file, tgt, "--on-table-error", "continue"), "0000-00-00")
	whole(t, tgt)

	// A target that holds rows always stops the run.
	tgt = testdb.Postgres(t, 17).NewDatabase(t, "go")
	testdb.Query(t, tgt, "CREATE TABLE bad (id int, must int NOT NULL); INSERT INTO bad VALUES (1, 2)")
	out := testdb.Run(t, "copy", "file:"+file, tgt, "--on-table-error", "continue", "--zero-dates", "null")
	if out.Code != 8 {
		t.Errorf("a table with rows: code %d, want 8: that is no error of the table\n%s%s", out.Code, out.Out, out.ErrOut)
	}
}

func rejected(t *testing.T, out testdb.Outcome, why string) {
	t.Helper()
	_, list, ok := strings.Cut(out.Out, "Rejected:")
	if out.Code != 16 || !ok || !strings.Contains(list, "bad") || !strings.Contains(list, why) {
		t.Fatalf("code %d, want 16 and table bad rejected with %q:\n%s%s", out.Code, why, out.Out, out.ErrOut)
	}
}

// whole checks that everything except table bad has arrived.
func whole(t *testing.T, url string) {
	t.Helper()
	if got := strings.Fields(testdb.Query(t, url, "SELECT (SELECT count(*) FROM good), (SELECT count(*) FROM child WHERE g = 2)")); strings.Join(got, " ") != "2 1" {
		t.Errorf("good and child have %v rows, want 2 and 1", got)
	}
	if got := strings.Fields(testdb.Query(t, url, "SELECT table_name FROM information_schema.table_constraints WHERE constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY') AND table_schema = '"+schema(url)+"' AND table_name IN ('good', 'child') ORDER BY 1")); len(got) != 3 {
		t.Errorf("keys are of %v, want one of good and two of child", got)
	}
}
