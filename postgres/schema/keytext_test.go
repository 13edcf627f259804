package schema

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestKeyIndexAsTheServerWritesIt compares the statement of each index with pg_get_indexdef.
func TestKeyIndexAsTheServerWritesIt(t *testing.T) {
	for _, major := range []int{13, 15, 18} {
		url := testdb.Postgres(t, major).NewDatabase(t, "src")
		testdb.Load(t, url, strings.NewReader(`
			CREATE SCHEMA "a.b ""c"; CREATE SCHEMA plain;
			CREATE TABLE "a.b ""c"."T x" ("Id" int, "select" bigint, n text, PRIMARY KEY ("Id", "select"), UNIQUE (n));
			CREATE TABLE plain."order" (id int PRIMARY KEY, a int, b uuid UNIQUE DEFERRABLE, UNIQUE (b, a));
			CREATE UNIQUE INDEX "user" ON plain."order" (a); ALTER TABLE plain."order" ADD CONSTRAINT "user" UNIQUE USING INDEX "user";
			CREATE UNIQUE INDEX ON plain."order" (id DESC);
			CREATE TABLE filled (id int, a int, PRIMARY KEY (id) INCLUDE (a), UNIQUE (a) WITH (fillfactor = 70));
			CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1);`))
		if major >= 15 {
			testdb.Load(t, url, strings.NewReader("CREATE TABLE alone (id int UNIQUE NULLS NOT DISTINCT)"))
		}
		built := 0
		for _, o := range describeURL(t, url).Objects {
			name, is := strings.CutPrefix(o.ID, "index ")
			if !is {
				continue
			}
			built++
			if want := testdb.Query(t, url, "SELECT pg_get_indexdef('"+strings.ReplaceAll(name, "'", "''")+"'::regclass)"); o.SQL[0] != want {
				t.Errorf("%d: %s is made by\n%s\nnot\n%s", major, o.ID, o.SQL[0], want)
			}
		}
		if built < 9 {
			t.Errorf("%d: only %d indexes", major, built)
		}
	}
}

// TestUsingIndex: a key is as deferrable as on the source.
func TestUsingIndex(t *testing.T) {
	for _, c := range []struct {
		terms terms
		want  string
	}{
		{terms{Kind: "p"}, "ALTER TABLE ONLY s.t ADD CONSTRAINT k PRIMARY KEY USING INDEX i"},
		{terms{Kind: "u", Deferrable: true}, "ALTER TABLE ONLY s.t ADD CONSTRAINT k UNIQUE USING INDEX i DEFERRABLE"},
		{terms{Kind: "u", Deferrable: true, Deferred: true}, "ALTER TABLE ONLY s.t ADD CONSTRAINT k UNIQUE USING INDEX i DEFERRABLE INITIALLY DEFERRED"},
	} {
		r, x := new(relation), &index{constraint: &constraint{SQL: "k", terms: &c.terms}}
		r.SQL, x.Name = "s.t", "i"
		if got := usingIndex(r, x); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
