package misuse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestNewTableBesideExistingParent copies a new table whose foreign key is to a table that the
// target has already, and whose rows arrive later than its own, and a view of that table. The
// foreign key is made when the rows are there, and the proof at the end finds both.
func TestNewTableBesideExistingParent(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	rows.WriteString("INSERT INTO parent VALUES (0, 'x')")
	for i := range 5000 {
		fmt.Fprintf(&rows, ", (%d, 'x')", i+1)
	}
	for _, from := range engines() {
		for _, to := range engines() {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				t.Parallel()
				src, dst := from.server(t).NewDatabase(t, "src"), to.server(t).NewDatabase(t, "dst")
				const parent = "CREATE TABLE parent (id int PRIMARY KEY, v varchar(50))"
				testdb.Query(t, src, parent)
				testdb.Query(t, dst, parent)
				testdb.Query(t, src, "CREATE TABLE child (id int PRIMARY KEY, p int, CONSTRAINT child_p FOREIGN KEY (p) REFERENCES parent (id))")
				testdb.Query(t, src, "CREATE VIEW seen AS SELECT id FROM parent")
				testdb.Query(t, src, rows.String())
				testdb.Query(t, src, "INSERT INTO child VALUES (1, 5000)")
				for _, prep := range []string{"truncate", "empty", "keep"} {
					if prep != "truncate" {
						testdb.Query(t, dst, "DROP TABLE child")
						testdb.Query(t, dst, "DELETE FROM parent")
						testdb.Query(t, dst, "DROP VIEW IF EXISTS seen")
					}
					o := run(t, "copy", src, dst, "--prep", prep)
					if o.Code != 0 {
						t.Errorf("--prep %s: exit %d\n%s%s", prep, o.Code, o.Out, o.ErrOut)
					}
					if _, err := testdb.TryQuery(dst, "INSERT INTO child VALUES (2, -1)"); err == nil {
						t.Errorf("--prep %s: the target has no foreign key", prep)
						testdb.Query(t, dst, "DELETE FROM child WHERE id = 2")
					}
					if from.name == to.name {
						testdb.Query(t, dst, "SELECT id FROM seen")
					}
				}
			})
		}
	}
}

// TestDumpBesideExistingParent does the same with a dump file.
func TestDumpBesideExistingParent(t *testing.T) {
	t.Parallel()
	var dump strings.Builder
	dump.WriteString("-- MySQL dump\nCREATE TABLE `child` (`id` int NOT NULL, `p` int DEFAULT NULL, PRIMARY KEY (`id`), KEY `child_p` (`p`), CONSTRAINT `child_p` FOREIGN KEY (`p`) REFERENCES `parent` (`id`)) ENGINE=InnoDB;\nINSERT INTO `child` VALUES (1,5000);\n" +
		"CREATE TABLE `parent` (`id` int NOT NULL, `v` varchar(50) DEFAULT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;\nINSERT INTO `parent` VALUES (0,'x')")
	for i := range 5000 {
		fmt.Fprintf(&dump, ",(%d,'x')", i+1)
	}
	dump.WriteString(";\n-- Dump completed\n")
	file := testdb.Written(t, "dump.sql", dump.String())
	for _, to := range engines() {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			dst := to.server(t).NewDatabase(t, "dst")
			testdb.Query(t, dst, "CREATE TABLE parent (id int PRIMARY KEY, v varchar(50))")
			for _, prep := range []string{"truncate", "keep"} {
				if prep == "keep" {
					testdb.Query(t, dst, "DROP TABLE child")
					testdb.Query(t, dst, "DELETE FROM parent")
				}
				o := run(t, "copy", file, dst, "--prep", prep)
				if o.Code != 0 {
					t.Errorf("--prep %s: exit %d\n%s%s", prep, o.Code, o.Out, o.ErrOut)
				}
				if _, err := testdb.TryQuery(dst, "INSERT INTO child VALUES (2, -1)"); err == nil {
					t.Errorf("--prep %s: the target has no foreign key", prep)
				}
			}
		})
	}
}

// TestEnumOfAParent copies a table with an enum that refers to one of a table that the target has
// already, as a copy made it, or with text instead. The type is there or is made, and all rows are
// copied; only a foreign key between two types cannot be made.
func TestEnumOfAParent(t *testing.T) {
	t.Parallel()
	src := testdb.MySQL(t).NewDatabase(t, "src")
	testdb.Query(t, src, "CREATE TABLE parent (e enum('a','b') PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, e enum('a','b'), FOREIGN KEY (e) REFERENCES parent (e)); INSERT INTO parent VALUES ('b'); INSERT INTO child VALUES (1, 'b')")
	for parent, code := range map[string]int{
		"CREATE TYPE parent_e AS ENUM ('a', 'b'); CREATE TABLE parent (e parent_e PRIMARY KEY)": 0,
		"CREATE TABLE parent (e text PRIMARY KEY)":                                              16,
		"CREATE TYPE parent_e AS ENUM ('a'); CREATE TABLE parent (e text PRIMARY KEY)":          16,
	} {
		dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
		testdb.Query(t, dst, parent)
		o := run(t, "copy", src, dst, "--prep", "truncate")
		if got := testdb.Query(t, dst, "SELECT c.id, c.e FROM child c JOIN parent p ON p.e::text = c.e::text"); o.Code != code || got != "1\tb" {
			t.Errorf("%s: exit %d, want %d; %s\n%s%s", parent, o.Code, code, got, o.Out, o.ErrOut)
		}
	}
}
