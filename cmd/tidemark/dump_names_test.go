package main

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestDumpNamesOfSeveralTables: MySQL's names of keys are unique in a table, PostgreSQL's in a
// schema, and a dump file's tables come one after the other. Each key and each enum type is there,
// with its labels, also after a copy that is continued.
func TestDumpNamesOfSeveralTables(t *testing.T) {
	t.Parallel()
	file := writtenFile(t, "names.sql", `CREATE TABLE u1 (id int NOT NULL, x int NOT NULL, PRIMARY KEY (id), UNIQUE KEY uk (x), KEY k (x, id));
INSERT INTO u1 VALUES (1, 1), (2, 2);
CREATE TABLE u2 (id int NOT NULL, x int NOT NULL, PRIMARY KEY (id), UNIQUE KEY uk (x), KEY k (x, id));
INSERT INTO u2 VALUES (1, 1), (2, 2);
CREATE TABLE u3 (id int NOT NULL, x int NOT NULL, PRIMARY KEY (id), UNIQUE KEY uk (x), CONSTRAINT f FOREIGN KEY (x) REFERENCES u2 (x));
INSERT INTO u3 VALUES (1, 1);
CREATE TABLE a (b_c enum('x','y'));
INSERT INTO a VALUES ('x');
CREATE TABLE a_b (c enum('p','q'));
INSERT INTO a_b VALUES ('p'), ('q');
`)
	dst := pg15(t).NewDatabase(t, "names")
	testdb.Query(t, dst, "CREATE TABLE a_b (c int); INSERT INTO a_b VALUES (1)")
	if o := cli(t, "copy", file, dst); o.code == 0 {
		t.Error("a table with rows was copied into")
	}
	testdb.Query(t, dst, "DROP TABLE a_b")
	must(t, "copy", file, dst, "--resume", "last")
	const keys = "SELECT indrelid::regclass, indisunique, pg_get_indexdef(indexrelid, 1, true), indnatts FROM pg_index WHERE indrelid::regclass::text IN ('u1', 'u2', 'u3') ORDER BY 1, 4, 3"
	want := strings.Join([]string{"u1\tt\tid\t1", "u1\tt\tx\t1", "u1\tf\tx\t2", "u2\tt\tid\t1", "u2\tt\tx\t1", "u2\tf\tx\t2", "u3\tt\tid\t1", "u3\tt\tx\t1"}, "\n")
	if got := testdb.Query(t, dst, keys); got != want {
		t.Errorf("keys:\n%s", got)
	}
	if got := testdb.Query(t, dst, "SELECT confrelid::regclass FROM pg_constraint WHERE contype = 'f'"); got != "u2" {
		t.Errorf("foreign key to %q", got)
	}
	if got := testdb.Query(t, dst, "SELECT string_agg(c::text, ',' ORDER BY c) FROM a_b"); got != "p,q" {
		t.Errorf("labels %q", got)
	}
}
