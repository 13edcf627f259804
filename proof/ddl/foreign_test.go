package ddl_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// foreignTables are tables around t that foreign keys connect with it and with itself.
var foreignTables = []string{"CREATE TABLE p (id int PRIMARY KEY)",
	"CREATE TABLE t (id int PRIMARY KEY, pid int, up int, CONSTRAINT t_p FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE, CONSTRAINT t_up FOREIGN KEY (up) REFERENCES t (id))",
	"CREATE TABLE c (id int PRIMARY KEY, tid int, CONSTRAINT c_t FOREIGN KEY (tid) REFERENCES t (id) ON DELETE RESTRICT)",
	"INSERT INTO p VALUES (1), (2)", "INSERT INTO t VALUES (1, 1, NULL), (2, 2, 1)", "INSERT INTO c VALUES (1, 1), (2, 2)"}

const foreignNew = "CREATE TABLE t_new (id int PRIMARY KEY, pid int, up int, x varchar(9) NOT NULL, CONSTRAINT t_p2 FOREIGN KEY (pid) REFERENCES p (id) ON DELETE SET NULL, CONSTRAINT t_up2 FOREIGN KEY (up) REFERENCES t_new (id))"

// foreignSwap are the steps in which a tool replaces t by a table with a column more: on PostgreSQL
// (true), and on MySQL and MariaDB (pt-online-schema-change with rebuild_constraints).
var foreignSwap = map[bool][]string{
	true: {foreignNew, "INSERT INTO t_new SELECT id, pid, up, 'x' FROM t", "BEGIN; ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t; COMMIT",
		"ALTER TABLE c DROP CONSTRAINT c_t, ADD CONSTRAINT c_t FOREIGN KEY (tid) REFERENCES t (id) ON DELETE RESTRICT", "DROP TABLE t_old", "INSERT INTO t VALUES (3, 1, 2, 'y')"},
	false: {foreignNew, "INSERT INTO t_new SELECT id, pid, up, 'x' FROM t ORDER BY id", "RENAME TABLE t TO t_old, t_new TO t",
		"ALTER TABLE c DROP FOREIGN KEY c_t, ADD CONSTRAINT _c_t FOREIGN KEY (tid) REFERENCES t (id) ON DELETE RESTRICT", "DROP TABLE t_old", "INSERT INTO t VALUES (3, 1, 2, 'y')"},
}

var referenceText = regexp.MustCompile("FOREIGN KEY .*")

// references returns the foreign keys of a table as its server shows them, without their names.
func references(t testing.TB, of server, url, table string) []string {
	t.Helper()
	var all []string
	if of.isPostgres() {
		all = strings.Split(testdb.Query(t, url, "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' AND conrelid = '"+table+"'::regclass"), "\n")
	} else {
		all = referenceText.FindAllString(testdb.Query(t, url, "SHOW CREATE TABLE "+table), -1)
	}
	for i, text := range all {
		text = strings.NewReplacer("`", "", " (", "(", ", ", ",", " ON DELETE RESTRICT", "", " ON DELETE NO ACTION", "").Replace(strings.TrimSuffix(text, ","))
		all[i] = text
	}
	slices.Sort(all)
	return all
}

// drawPairs runs a test between some pairs of engines.
func drawPairs(t *testing.T, some int, test func(t *testing.T, src, tgt server)) {
	drawPairsFrom(t, randomSources, some, test)
}

// drawPairsFrom is drawPairs with one of these for the source.
func drawPairsFrom(t *testing.T, sources []server, some int, test func(t *testing.T, src, tgt server)) {
	n := len(randomSources)
	for _, i := range testdb.Draw(t, len(sources)*n, some) {
		src, tgt := sources[i/n], randomSources[i%n]
		t.Run(src.name+"-"+tgt.name, func(t *testing.T) {
			t.Parallel()
			test(t, src, tgt)
		})
	}
}

// TestSwappedWithForeignKeys replaces a table that references others and itself, and that others
// reference: the target has its foreign keys again.
func TestSwappedWithForeignKeys(t *testing.T) {
	drawPairs(t, 3, func(t *testing.T, src, tgt server) {
		s := newStreamWith(t, src, tgt, nil, foreignTables...)
		check := func(when string) {
			for _, table := range []string{"t", "c"} {
				if want, have := references(t, src, s.from, table), references(t, tgt, s.to, table); !slices.Equal(want, have) {
					t.Errorf("%s, %s: the source has\n%s\nthe target has\n%s", when, table, strings.Join(want, "\n"), strings.Join(have, "\n"))
				}
			}
		}
		check("before")
		s.do(foreignSwap[src.isPostgres()]...)
		if said := s.flow(); strings.Contains(said, " is left out: ") {
			t.Errorf("it says that a key is left out:\n%s", said)
		}
		s.do("INSERT INTO c VALUES (3, 3)", "UPDATE c SET tid = 2 WHERE id = 1", "DELETE FROM t WHERE id = 3 AND id NOT IN (SELECT tid FROM c)", "DELETE FROM p WHERE id = 1")
		s.flow()
		for _, table := range []string{"p", "t", "c"} {
			if st := s.whole(table); st.State != "active" {
				t.Errorf("%s is %+v", table, st)
			}
		}
		check("after")
	})
}

// TestSwappedBesideMissingParent replaces a table with a foreign key to one that the target lacks:
// the key is left out, and a line says so; the others are there.
func TestSwappedBesideMissingParent(t *testing.T) {
	drawPairs(t, 2, func(t *testing.T, src, tgt server) {
		plain := func(all []string) (out []string) { // what acts stops a table without its parent
			for _, sql := range all {
				out = append(out, strings.NewReplacer("ON DELETE CASCADE", "", "ON DELETE SET NULL", "").Replace(sql))
			}
			return out
		}
		s := newStreamWith(t, src, tgt, []string{"--exclude", "*.p"}, plain(foreignTables)...)
		s.do(plain(foreignSwap[src.isPostgres()])...)
		said := s.flow()
		if st := s.whole("t"); st.State != "active" {
			t.Errorf("t is %+v", st)
		}
		if have := references(t, tgt, s.to, "t"); len(have) != 1 || !strings.Contains(have[0], "REFERENCES t(id)") {
			t.Errorf("the target has %q", have)
		}
		if n := strings.Count(said, " is left out: "); n != 1 || !strings.Contains(said, "foreign key t_p2 is left out: ") {
			t.Errorf("%d lines say what is left out:\n%s", n, said)
		}
	})
}
