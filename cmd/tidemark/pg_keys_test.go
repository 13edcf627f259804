package main

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestKeysOfPostgresOnMySQL: what PostgreSQL's applications write of keys and numbers and what
// MySQL and MariaDB can do arrives, by SHOW CREATE; what they cannot do is reported.
func TestKeysOfPostgresOnMySQL(t *testing.T) {
	t.Parallel()
	src := pg15(t).NewDatabase(t, "keys")
	testdb.Query(t, src, `CREATE SEQUENCE lone START 5 INCREMENT 3; SELECT nextval('lone');
		CREATE SEQUENCE "Down ""2" INCREMENT -1 CYCLE;
		CREATE SEQUENCE users_seq; SELECT setval('users_seq', 41);
		CREATE TABLE users (id int PRIMARY KEY DEFAULT nextval('users_seq'::text), name text);
		INSERT INTO users (name) VALUES ('a');
		CREATE TABLE f1 (u int CONSTRAINT same REFERENCES users CONSTRAINT positive CHECK (u > 0));
		CREATE TABLE f2 (u int CONSTRAINT same REFERENCES users CONSTRAINT positive CHECK (u > 0));
		CREATE SEQUENCE both_seq;
		CREATE TABLE b1 (id int PRIMARY KEY DEFAULT nextval('both_seq'));
		CREATE TABLE b2 (id int PRIMARY KEY DEFAULT nextval('both_seq'));
		CREATE TABLE k (id int PRIMARY KEY, "Na""me" varchar(90), d date, v int, w int NOT NULL, CONSTRAINT nn UNIQUE NULLS NOT DISTINCT (v), CONSTRAINT nw UNIQUE NULLS NOT DISTINCT (w));
		CREATE UNIQUE INDEX pattern ON k ("Na""me" varchar_pattern_ops);
		CREATE UNIQUE INDEX c ON k ("Na""me" COLLATE "C" text_pattern_ops, d DESC);
		CREATE INDEX plain ON k ("Na""me" text_pattern_ops);
		CREATE UNIQUE INDEX some1 ON k (d, v) WHERE d IS NOT NULL AND v IS NOT NULL;
		CREATE UNIQUE INDEX some2 ON k (d) WHERE v IS NOT NULL;
		CREATE UNIQUE INDEX some3 ON k (d, w) WHERE d IS NOT NULL AND w > 5;
		CREATE TABLE wide (id bigint, a text, b text, c varchar(300), UNIQUE (id, a));
		CREATE INDEX wide_ab ON wide (a, b, c, id);
		CREATE INDEX wide_c ON wide (c)`)
	for name, srv := range mysqlServers(t) {
		dst := srv.NewDatabase(t, "keys")
		o := must(t, "copy", src, dst, "-v")
		said := o.out + o.errOut
		show := func(table string) string { return testdb.Query(t, dst, "SHOW CREATE TABLE "+table) }
		k := show("k")
		for _, key := range []string{"UNIQUE KEY `nn` (`v`)", "UNIQUE KEY `nw` (`w`)", "UNIQUE KEY `pattern` (`Na\"me`)", "UNIQUE KEY `c` (`Na\"me`,`d` DESC)", "  KEY `plain` (`Na\"me`)", "UNIQUE KEY `some1` (`d`,`v`)"} {
			if !strings.Contains(k, key) {
				t.Errorf("%s: %s is missing in %s", name, key, k)
			}
		}
		wide := show("wide")
		for _, key := range []string{"UNIQUE KEY", "KEY `wide_ab`", "KEY `wide_c`"} {
			if !strings.Contains(wide, key) {
				t.Errorf("%s: %s is missing in %s", name, key, wide)
			}
		}
		for _, is := range []string{".k.nn: takes several rows with the same values and NULL", ".k.some2: is left out", ".k.some3: is left out",
			".b1.id: has numbers of its own here; on the source the sequence public.both_seq also numbers"} {
			if !strings.Contains(said, is) {
				t.Errorf("%s: not said: %s", name, is)
			}
		}
		if strings.Contains(said, ".k.nw: takes") || strings.Contains(said, ".users.id: has") {
			t.Errorf("%s: said in vain: %s", name, said)
		}
		if o := cli(t, "diff", "--definitions", src, dst); !strings.Contains(o.out, "objects, all equal") {
			t.Errorf("%s: %s", name, o.out)
		}
		testdb.Query(t, dst, "INSERT INTO users (name) VALUES ('b')")
		if got := testdb.Query(t, dst, "SELECT max(id) FROM users"); got != "43" {
			t.Errorf("%s: the next number was %s", name, got)
		}
		if name == "mysql" {
			if !strings.Contains(said, "sequence public.lone: is not made") || strings.Contains(said, "users_seq: is not made") {
				t.Errorf("%s: sequences: %s", name, said)
			}
			continue
		}
		if got := testdb.Query(t, dst, "SELECT nextval(lone), nextval(lone), nextval(`Down \"2`)"); got != "8\t11\t-1" {
			t.Errorf("%s: sequences return %s", name, got)
		}
		testdb.Query(t, dst, "ALTER SEQUENCE lone RESTART 5")
		if o := cli(t, "diff", "--definitions", src, dst); !strings.Contains(o.out, "lone") || strings.Count(o.out, "--   different") != 1 {
			t.Errorf("%s: a sequence that is behind: %s", name, o.out)
		}
	}
}
