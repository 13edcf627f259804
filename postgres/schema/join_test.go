package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// TestJoin: small keys take one statement, others keep two, and nothing waits for an object that is
// gone, nor for itself.
func TestJoin(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "src")
	testdb.Load(t, url, strings.NewReader(`
		CREATE TABLE two (id int PRIMARY KEY, a int UNIQUE DEFERRABLE INITIALLY DEFERRED, b int);
		CREATE INDEX ON two (b);
		CREATE TABLE "A (b)" ("x, y" int, "say ""(hi)""" int, PRIMARY KEY ("x, y", "say ""(hi)"""));
		CREATE TABLE child (id int PRIMARY KEY REFERENCES two);
		CREATE TABLE filled (id int, PRIMARY KEY (id) WITH (fillfactor = 70));
		CREATE TABLE covering (id int, a int, PRIMARY KEY (id) INCLUDE (a));
		CREATE TABLE mixed (id int PRIMARY KEY, a int UNIQUE, b int, c int UNIQUE, UNIQUE (b) WITH (fillfactor = 70));
		CREATE TABLE nulls (id int, UNIQUE NULLS NOT DISTINCT (id));
		CREATE TABLE large (id int PRIMARY KEY);
		COMMENT ON CONSTRAINT two_pkey ON two IS 'a';
		COMMENT ON INDEX two_pkey IS 'b';
		INSERT INTO large SELECT generate_series(1, 100000);`))
	db := describeURL(t, url)
	e := &Schema{Server: &server.Server{Major: 15}}
	objects, _ := e.Render(db, all(db))
	objects = e.Join(objects)
	known := map[string]int{}
	for i, o := range objects {
		known[o.ID] = i
	}
	sql := func(id string) string {
		i, ok := known[id]
		if !ok {
			return ""
		}
		return strings.Join(objects[i].SQL, "; ")
	}
	for id, want := range map[string]string{
		"constraint two_pkey ON public.two":           `ALTER TABLE ONLY public.two ADD CONSTRAINT two_pkey PRIMARY KEY (id); COMMENT ON INDEX public.two_pkey IS 'b'; COMMENT ON CONSTRAINT two_pkey ON public.two IS 'a'`,
		"index public.two_pkey":                       "",
		"constraint two_a_key ON public.two":          "ALTER TABLE ONLY public.two ADD CONSTRAINT two_a_key UNIQUE (a) DEFERRABLE INITIALLY DEFERRED",
		"index public.two_b_idx":                      "CREATE INDEX two_b_idx ON public.two USING btree (b)",
		`constraint "A (b)_pkey" ON public."A (b)"`:   `ALTER TABLE ONLY public."A (b)" ADD CONSTRAINT "A (b)_pkey" PRIMARY KEY ("x, y", "say ""(hi)""")`,
		"constraint filled_pkey ON public.filled":     "ALTER TABLE ONLY public.filled ADD CONSTRAINT filled_pkey PRIMARY KEY USING INDEX filled_pkey",
		"index public.filled_pkey":                    "CREATE UNIQUE INDEX filled_pkey ON public.filled USING btree (id) WITH (fillfactor='70')",
		"constraint covering_pkey ON public.covering": "ALTER TABLE ONLY public.covering ADD CONSTRAINT covering_pkey PRIMARY KEY USING INDEX covering_pkey",
		"constraint nulls_id_key ON public.nulls":     "ALTER TABLE ONLY public.nulls ADD CONSTRAINT nulls_id_key UNIQUE USING INDEX nulls_id_key",
		"constraint large_pkey ON public.large":       "ALTER TABLE ONLY public.large ADD CONSTRAINT large_pkey PRIMARY KEY USING INDEX large_pkey",
		"index public.large_pkey":                     "CREATE UNIQUE INDEX large_pkey ON public.large USING btree (id)",
		"constraint child_pkey ON public.child":       "ALTER TABLE ONLY public.child ADD CONSTRAINT child_pkey PRIMARY KEY (id)",
	} {
		if got := sql(id); got != want {
			t.Errorf("%s is made by\n%s\nnot\n%s", id, got, want)
		}
	}
	waits := func(id string) []string {
		o := objects[known[id]]
		return slices.Concat(o.Depends, o.After)
	}
	for id, want := range map[string][]string{
		"constraint two_pkey ON public.two":           {"index public.two_b_idx"},
		"statistics public.two":                       {"constraint two_pkey ON public.two", "constraint two_a_key ON public.two"},
		"foreign key child_id_fkey ON public.child":   {"constraint two_pkey ON public.two"},
		"constraint filled_pkey ON public.filled":     {"index public.filled_pkey"},
		"constraint covering_pkey ON public.covering": {"index public.covering_pkey"},
	} {
		for _, w := range want {
			if !slices.Contains(waits(id), w) {
				t.Errorf("%s does not wait for %s, only for %q", id, w, waits(id))
			}
		}
	}
	for _, o := range objects {
		for _, id := range slices.Concat(o.Depends, o.After) {
			at, ok := known[id]
			if !ok {
				t.Errorf("%s waits for %s, which nothing makes", o.ID, id)
			} else if back := slices.Concat(objects[at].Depends, objects[at].After); id == o.ID || slices.Contains(back, o.ID) {
				t.Errorf("%s and %s wait for each other", o.ID, id)
			}
		}
	}
}
