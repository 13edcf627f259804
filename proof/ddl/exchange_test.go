package ddl_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestExchangedKeys gives three tables with other keys each other's names. The names of keys are
// unique in a schema of PostgreSQL: each table's new key has the name of another one's there.
func TestExchangedKeys(t *testing.T) {
	type way struct {
		src, tgt server
		running  bool
	}
	var ways []way
	for _, src := range randomSources {
		for _, tgt := range randomSources {
			ways = append(ways, way{src, tgt, false}, way{src, tgt, true})
		}
	}
	for _, i := range testdb.Draw(t, len(ways), 2) {
		w := ways[i]
		t.Run(w.src.name+"-"+w.tgt.name+map[bool]string{false: "/away", true: "/running"}[w.running], func(t *testing.T) {
			t.Parallel()
			s := newStream(t, w.src, w.tgt, "CREATE TABLE a (id int PRIMARY KEY, x int, n int)", "CREATE TABLE b (id int, k varchar(9), n int, PRIMARY KEY (id, k))", "CREATE TABLE c (id int PRIMARY KEY, x int, n int, CONSTRAINT u UNIQUE (x))",
				"INSERT INTO a VALUES (1, 1, 1), (2, 1, 1)", "INSERT INTO b VALUES (1, 'a', 1), (1, 'b', 1)", "INSERT INTO c VALUES (1, 1, 1)")
			exchange := "RENAME TABLE a TO y, b TO a, c TO b, y TO c"
			if w.src.isPostgres() {
				exchange = "BEGIN; ALTER TABLE a RENAME TO y; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b; ALTER TABLE y RENAME TO c; COMMIT"
			}
			all := []string{"a", "b", "c"}
			if w.running {
				s.while(func(until func(func() bool)) {
					s.do(exchange)
					until(func() bool { return s.differs("a")+s.differs("b")+s.differs("c") == "" })
				})
			} else {
				s.do(exchange)
			}
			s.flow()
			for _, table := range all {
				if st := s.whole(table); st.State != "active" {
					t.Errorf("%s is %+v", table, st)
				}
				if want, have := unique(t, w.src, s.from, table), unique(t, w.tgt, s.to, table); want != have {
					t.Errorf("keys of %s: %s, and on the target %s", table, want, have)
				}
			}
			s.do("INSERT INTO a VALUES (2, 'a', 1), (2, 'b', 1)", "INSERT INTO c VALUES (3, 1, 1)", "INSERT INTO b VALUES (3, 3, 1)")
			s.flow()
			for _, table := range all {
				s.whole(table)
			}
		})
	}
}

// unique gives the columns of a table's keys.
func unique(t testing.TB, of server, url, table string) string {
	sql := "SELECT CONCAT(index_name, ' ', GROUP_CONCAT(column_name ORDER BY seq_in_index)) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = '" + table + "' AND non_unique = 0 GROUP BY index_name"
	if of.isPostgres() {
		sql = "SELECT indexrelid::text || ' ' || (SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = indexrelid) FROM pg_index WHERE indrelid = '" + table + "'::regclass AND indisunique"
	}
	out := testdb.Query(t, url, sql)
	var columns []string
	for line := range strings.Lines(out) {
		columns = append(columns, strings.Fields(line)[1])
	}
	slices.Sort(columns)
	return strings.Join(columns, "; ")
}
