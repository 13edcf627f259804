package ddl_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A random is a source whose tables are changed at random.
type random struct {
	rnd *rand.Rand
	of  server
	url string
	n   int
}

// randomTables are changed in turn.
var randomTables = []string{"a", "b", "c"}

// names are few, so that columns are recreated under the names of others.
var names = []string{"x", "y", "z"}

// ops each return one statement for a table and its columns besides the key; "" if there is nothing
// to change. Every engine accepts those that name no engine.
var ops = []struct {
	of string // engines; "": any
	do func(r *random, table string, columns []string) string
}{
	{"", func(r *random, table string, columns []string) string {
		name := r.pick(names)
		if slices.Contains(columns, name) {
			return ""
		}
		return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s%s", table, name, r.pick([]string{"int", "bigint", "varchar(20)"}), r.pick([]string{"", "", " DEFAULT 7"}))
	}},
	{"", func(r *random, table string, columns []string) string {
		if len(columns) == 0 {
			return ""
		}
		return fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", table, r.pick(columns))
	}},
	{"", func(r *random, table string, columns []string) string {
		name := r.pick(names)
		if len(columns) == 0 || slices.Contains(columns, name) {
			return ""
		}
		return fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s", table, r.pick(columns), name)
	}},
	{"postgres", func(r *random, table string, columns []string) string {
		if len(columns) == 0 {
			return ""
		}
		return fmt.Sprintf("ALTER TABLE %s ALTER %s TYPE varchar(30)", table, r.pick(columns))
	}},
	{"mysql mariadb", func(r *random, table string, columns []string) string {
		if len(columns) == 0 {
			return ""
		}
		return fmt.Sprintf("ALTER TABLE %s MODIFY %s %s", table, r.pick(columns), r.pick([]string{"varchar(30)", "text", "varchar(30) NOT NULL DEFAULT '7' FIRST"}))
	}},
	{"mysql mariadb", func(r *random, table string, columns []string) string {
		name := r.pick(names)
		if len(columns) < 2 || slices.Contains(columns, name) {
			return ""
		}
		return fmt.Sprintf("ALTER TABLE %s DROP %s, ADD %s int AFTER id", table, r.pick(columns), name)
	}},
}

func (r *random) pick(from []string) string { return from[r.rnd.IntN(len(from))] }

// step changes rows, or now and then a definition.
func (r *random) step(t testing.TB, ddl bool) {
	table := r.pick(randomTables)
	columns := slices.DeleteFunc(columns(t, r.of, r.url, table), func(c string) bool { return c == "id" })
	if ddl {
		op := ops[r.rnd.IntN(len(ops))]
		if op.of == "" || strings.Contains(op.of, r.of.name) {
			if sql := op.do(r, table, columns); sql != "" {
				if _, err := testdb.TryQuery(r.url, sql); err == nil {
					t.Log(sql)
				}
			}
		}
		return
	}
	r.n++
	set := ""
	for _, c := range columns {
		set += fmt.Sprintf(", %s = '%d'", c, r.rnd.IntN(1000))
	}
	insert, values := "id", fmt.Sprint(r.n)
	for _, c := range columns {
		insert, values = insert+", "+c, values+fmt.Sprintf(", '%d'", r.rnd.IntN(1000))
	}
	testdb.Query(t, r.url, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, insert, values))
	if set != "" {
		testdb.Query(t, r.url, fmt.Sprintf("UPDATE %s SET id = id%s WHERE id = %d", table, set, r.rnd.IntN(r.n)+1))
	}
}

// TestRandom changes definitions and rows at random, and runs the stream now and then: in the end
// each table either equals the source's, or has stopped.
func TestRandom(t *testing.T) {
	runs, steps := 1, 20
	if testdb.Long() {
		runs, steps = 12, 80
	}
	for seed := range runs {
		t.Run(fmt.Sprintf("logged/%d", seed), func(t *testing.T) {
			t.Parallel()
			for table, st := range randomly(t, postgres, postgres, seed, 2*steps, "--follow-ddl") {
				if st.State != "active" {
					t.Errorf("%s is %+v", table, st)
				}
			}
		})
	}
	for _, src := range randomSources {
		for at, tgt := range []server{postgres, mysql, mariadb} {
			if !testdb.Long() && at > 0 {
				continue
			}
			for seed := range runs {
				t.Run(fmt.Sprintf("%s-%s/%d", src.name, tgt.name, seed), func(t *testing.T) {
					t.Parallel()
					for table, st := range randomly(t, src, tgt, seed, steps) {
						t.Logf("%s: %+v", table, st)
						if !src.isPostgres() && !tgt.isPostgres() && st.State != "active" {
							t.Errorf("%s is %+v", table, st)
						}
					}
				})
			}
		}
	}
}

// randomly does one run, and returns what became of the tables.
func randomly(t *testing.T, src, tgt server, seed, steps int, more ...string) map[string]state {
	var setup []string
	for _, table := range randomTables {
		setup = append(setup, "CREATE TABLE "+table+" (id int PRIMARY KEY, x int, y int)")
	}
	s := newStreamWith(t, src, tgt, more, setup...)
	r := &random{rnd: rand.New(rand.NewPCG(uint64(seed), 7)), of: src, url: s.from}
	for range steps {
		r.step(t, r.rnd.IntN(8) == 0)
		if r.rnd.IntN(steps/2) == 0 {
			t.Log("the stream runs")
			s.flow()
		}
	}
	s.flow()
	out := map[string]state{}
	for _, table := range randomTables {
		out[table] = s.whole(table)
	}
	return out
}

// randomSources are the source engines of TestRandom.
var randomSources = []server{postgres, mysql, mariadb}
