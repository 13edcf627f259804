package ddl_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// gone are the kinds after which the source has no such table: only somebody who knows what became
// of it can help.
var gone = []string{"drop table", "rename table"}

// byHand are the kinds after which PostgreSQL cannot have the rows (it has no empty label), or
// after which a load could not know which rows it has written (without a key).
var byHand = []string{"labels that go with rows", "drop the key"}

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
			if slices.Contains(gone, w.name) || slices.Contains(byHand, w.name) {
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
				for _, table := range randomTables { // a new column comes with the first row that has it
					r.n++
					s.do(fmt.Sprintf("INSERT INTO %s (id) VALUES (%d)", table, r.n))
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

// TestReloadedWhileItWaits changes a table while another one is loaded, after the target's has got
// the definition that it is to be loaded with: that is then the one that it has by the time its
// turn comes.
func TestReloadedWhileItWaits(t *testing.T) {
	for _, src := range randomSources {
		t.Run(src.name, func(t *testing.T) {
			t.Parallel()
			s := newStreamWith(t, src, mysql, []string{"--on-ddl", "reload"}, "CREATE TABLE a (id int PRIMARY KEY, n varchar(9), m int)", "INSERT INTO a VALUES (1, '1', 1)",
				"CREATE TABLE b (id int PRIMARY KEY, x varchar(9), y int NOT NULL)", "INSERT INTO b VALUES (1, '1', 1)")
			numbers := "ALTER TABLE %s DROP COLUMN %s, MODIFY %s int" // servers do not convert texts alike
			if src.isPostgres() {
				numbers = "ALTER TABLE %s DROP COLUMN %s, ALTER %[3]s TYPE int USING %[3]s::int"
			}
			hold := testdb.NewSession(s.to)
			defer hold.Close()
			held := "'" + s.name + "'"
			testdb.Query(t, s.to, "CREATE TRIGGER held BEFORE INSERT ON a FOR EACH ROW SET @held = GET_LOCK("+held+", 120) + RELEASE_LOCK("+held+")")
			if _, err := hold.Try("DO GET_LOCK(" + held + ", 0)"); err != nil {
				t.Fatal(err)
			}
			s.while(func(until func(func() bool)) {
				s.do(fmt.Sprintf(numbers, "a", "m", "n"), "UPDATE a SET n = n + 1")
				waiting := func() []string {
					return strings.Fields(testdb.Query(t, s.to, "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND state = 'User lock'"))
				}
				until(func() bool { return len(waiting()) > 0 })
				s.do(fmt.Sprintf(numbers, "b", "y", "x"), "UPDATE b SET x = x + 1")
				until(func() bool {
					if !slices.Contains(columns(t, mysql, s.to, "b"), "y") {
						return true
					}
					if s.states()["b"].State != "loading" {
						return false
					}
					for _, id := range waiting() { // what is left of the session before would hold up the next one
						_, _ = testdb.TryQuery(s.to, "KILL "+id) // it may have ended by itself
					}
					return false
				})
				s.do("ALTER TABLE b RENAME COLUMN x TO z", "INSERT INTO b VALUES (2, 2)", "ALTER TABLE b RENAME COLUMN z TO w", "INSERT INTO b VALUES (3, 3)")
				if _, err := hold.Try("DO RELEASE_LOCK(" + held + ")"); err != nil {
					t.Fatal(err)
				}
				until(func() bool {
					all := s.states()
					return all["a"].State == "active" && all["b"].State == "active" && s.differs("a")+s.differs("b") == ""
				})
			})
			if is := columns(t, mysql, s.to, "b"); !slices.Equal(is, []string{"id", "w"}) {
				t.Errorf("the target's b has the columns %v", is)
			}
			s.do("UPDATE b SET w = w + 1")
			s.flow()
			if st := s.whole("b"); st.State != "active" {
				t.Errorf("b is %+v", st)
			}
		})
	}
}
