package ddl_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// gone are the kinds after which the source has no such table: only somebody who knows what became
// of it can help.
var gone = []string{"drop table", "rename table"}

// TestReloaded changes definitions in each way between engines, and partitions between PostgreSQL
// servers, with --on-ddl reload: each table is active and equal once the stream has caught up, and
// nobody has to do anything.
func TestReloaded(t *testing.T) {
	type way struct {
		kind
		tgt    server
		behind bool
	}
	var ways []way
	for _, k := range kinds {
		for _, tgt := range []server{postgres, mysql, mariadb} {
			if k.src.isPostgres() != tgt.isPostgres() || k.table == "p" && tgt.isPostgres() {
				ways = append(ways, way{k, tgt, false}, way{k, tgt, true})
			}
		}
	}
	for _, i := range testdb.Draw(t, len(ways), 6) {
		w := ways[i]
		t.Run(strings.ReplaceAll(w.name, " ", "-")+"/"+w.src.name+"-"+w.tgt.name+map[bool]string{true: "/behind", false: "/ahead"}[w.behind], func(t *testing.T) {
			t.Parallel()
			table := w.table
			if table == "" {
				table = "t"
			}
			s := newStreamWith(t, w.src, w.tgt, []string{"--on-ddl", "reload"}, "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE other (id int PRIMARY KEY)", w.setup, "INSERT INTO t (id) VALUES (1)")
			s.lacks = w.lacks[w.tgt.name]
			for _, sql := range w.do {
				if s.do(sql); !w.behind {
					s.flow()
				}
			}
			s.flow()
			want := "active"
			if slices.Contains(gone, w.name) || w.name == "labels that go with rows" { // its '' is no label, and PostgreSQL has none
				want = "stopped"
			}
			if st := s.whole(table); st.State != want {
				t.Errorf("it is %+v", st)
			}
		})
	}
}

// TestReloadedBesideChanges changes definitions and rows at random while the stream runs: whatever
// comes while a table is loaded again is in it too.
func TestReloadedBesideChanges(t *testing.T) {
	var pairs [][2]server
	for _, src := range randomSources {
		for _, tgt := range randomSources {
			pairs = append(pairs, [2]server{src, tgt})
		}
	}
	for _, i := range testdb.Draw(t, len(pairs), 1) {
		src, tgt := pairs[i][0], pairs[i][1]
		t.Run(src.name+"-"+tgt.name, func(t *testing.T) {
			t.Parallel()
			var setup []string
			for _, table := range randomTables {
				setup = append(setup, "CREATE TABLE "+table+" (id int PRIMARY KEY, x int, y int)")
			}
			s := newStreamWith(t, src, tgt, []string{"--on-ddl", "reload"}, setup...)
			r := &random{rnd: rand.New(rand.NewPCG(testdb.Seed(t), 7)), of: src, url: s.from}
			s.while(func(until func(func() bool)) {
				for range 200 {
					r.step(t, r.rnd.IntN(8) == 0)
				}
				until(func() bool {
					all := s.states()
					return !slices.ContainsFunc(randomTables, func(table string) bool { return all[table].State != "active" || s.differs(table) != "" })
				})
			})
			s.flow()
			for _, table := range randomTables {
				if st := s.whole(table); st.State != "active" {
					t.Errorf("%s is %+v", table, st)
				}
			}
		})
	}
}
