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
	file := testdb.Written(t, "names.sql", `CREATE TABLE u1 (id int NOT NULL, x int NOT NULL, PRIMARY KEY (id), UNIQUE KEY uk (x), KEY k (x, id));
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

// TestNamesThatTheTargetHas: "already exists" is no success if what exists is something else. Keys,
// types and functions that a copy names itself get names that are free, also those of tables that
// are copied one at a time; what the same copy left behind is used again.
func TestNamesThatTheTargetHas(t *testing.T) {
	t.Parallel()
	src, dst := mysql8(t).NewDatabase(t, "names"), pg15(t).NewDatabase(t, "names")
	for _, sql := range []string{
		"CREATE TABLE a (x int, UNIQUE KEY uk (x), UNIQUE KEY v (x))",
		"CREATE TABLE b (x int, e enum('p','q'), n bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), UNIQUE KEY uk (x))",
		"INSERT INTO b (x, e, at) VALUES (1, 'q', '2020-01-01')"} {
		testdb.Query(t, src, sql)
	}
	testdb.Query(t, dst, `CREATE VIEW v AS SELECT 1; CREATE TYPE b_e AS ENUM ('z'); CREATE SEQUENCE b_n_seq START 7;
		CREATE FUNCTION b_on_update() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	const keys = "SELECT indrelid::regclass, count(*) FROM pg_index WHERE indisunique AND indrelid::regclass::text IN ('a', 'b') GROUP BY indrelid ORDER BY indrelid::regclass::text"
	right := func(when string) {
		t.Helper()
		if got := testdb.Query(t, dst, keys); got != "a\t2\nb\t2" {
			t.Errorf("%s: unique keys:\n%s", when, got)
		}
		// The trigger does its work, and what was there is as it was.
		if got := testdb.Query(t, dst, "UPDATE b SET x = x + 1 RETURNING e, at > now() - interval '1 hour'"); got != "q\tt" {
			t.Errorf("%s: %s", when, got)
		}
		if got := testdb.Query(t, dst, "SELECT enum_range(NULL::b_e), nextval('b_n_seq') >= 7, prosrc FROM pg_proc WHERE proname = 'b_on_update'"); got != "{z}\tt\tBEGIN RETURN NULL; END" {
			t.Errorf("%s: %s", when, got)
		}
		if o := cli(t, "diff", "--definitions", src, dst); !strings.Contains(o.out, "objects, all equal") {
			t.Errorf("%s: %s", when, o.out)
		}
	}
	must(t, "copy", src, dst, "--include", "*.b")
	must(t, "copy", src, dst, "--include", "*.a")
	right("one at a time")
	must(t, "copy", src, dst, "--prep", "drop")
	right("both again")
	if got := testdb.Query(t, dst, "SELECT string_agg(typname, ' ' ORDER BY typname) FROM pg_type WHERE typtype = 'e'"); got != "b_e b_e_2" {
		t.Errorf("types: %s", got)
	}
}

// TestNamesOfIndexesThatTheTargetHas: those of a PostgreSQL source keep their names.
func TestNamesOfIndexesThatTheTargetHas(t *testing.T) {
	t.Parallel()
	src, dst := pg15(t).NewDatabase(t, "names"), pg15(t).NewDatabase(t, "names")
	testdb.Query(t, src, "CREATE TABLE a (x int UNIQUE, y int PRIMARY KEY)")
	testdb.Query(t, dst, "CREATE TABLE a_x_key (z int)")
	for verb, code := range map[string]int{"check": 1, "copy": 13} {
		if o := cli(t, verb, src, dst); o.code != code || !strings.Contains(o.out+o.errOut, "index public.a_x_key: something else on the target has this name") {
			t.Errorf("%s: %d %s %s", verb, o.code, o.out, o.errOut)
		}
	}
	testdb.Query(t, dst, "DROP TABLE a_x_key")
	must(t, "copy", src, dst)
	must(t, "copy", src, dst, "--prep", "drop")
	if got := testdb.Query(t, dst, "SELECT count(*) FROM pg_index WHERE indrelid = 'a'::regclass"); got != "2" {
		t.Errorf("%s keys", got)
	}
}
