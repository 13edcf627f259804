package apps

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestApplicationsAreFollowed follows each application between all engines that it knows, while
// rows of all its tables are inserted, updated and deleted. It runs in make prove only.
func TestApplicationsAreFollowed(t *testing.T) {
	if !testdb.Long() {
		return
	}
	if _, err := installed(); err != nil {
		t.Fatal(err)
	}
	servers := []*testdb.Server{testdb.Postgres(t, 15), testdb.MySQL(t), testdb.MariaDB(t)}
	for i := range apps {
		a := &apps[i]
		if a.memory || !a.there() {
			continue
		}
		for _, from := range servers {
			for _, to := range servers {
				if a.alone == nil || slices.Contains(a.alone, from.Engine) && slices.Contains(a.alone, to.Engine) {
					t.Run(fmt.Sprintf("%s, %s to %s", a.name, from.Engine, to.Engine), func(t *testing.T) { follows(t, a, from, to) })
				}
			}
		}
	}
}

// follows changes an application's database behind a stream, and compares.
func follows(t *testing.T, a *app, from, to *testdb.Server) {
	src, dst := from.NewDatabase(t, "src"), to.NewDatabase(t, "dst")
	a.create(t, src)
	identify(t, src, false)
	fill(t, src, 1, a.keep)
	stream := []string{"replicate", src, dst, "--name", testdb.StreamName("apps"), "--until", "now"}
	testdb.Must(t, stream...)
	changes := change(t, src, a.keep, 1)
	fill(t, src, 2, a.keep)
	changes += change(t, src, a.keep, 2)
	if out := testdb.Must(t, stream...); strings.Contains(out, "stopped") {
		t.Error(out)
	}
	t.Logf("%d statements changed rows", changes)
	if o := testdb.Run(t, "diff", src, dst); o.Code != 0 {
		t.Errorf("diff: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	sameValues(t, src, dst)
	testdb.Must(t, append(stream, "--remove")...)
}

// change updates and deletes some rows of all tables but those to keep, as far as the database's
// own constraints let it, and returns how many statements did: values of columns outside of keys,
// NULLs among them, and in the end one of a key.
func change(t *testing.T, url string, keep []string, seed uint64) (done int) {
	t.Helper()
	s, r := testdb.NewSession(url), rand.New(rand.NewPCG(seed, testdb.Seed(t)))
	defer s.Close()
	columns, keys := shape(t, url)
	for _, table := range slices.Sorted(maps.Keys(columns)) {
		list := columns[table]
		if kept(keep, table) {
			continue
		}
		for round, rows := range []int{4, 4, 4, 1} {
			sql := []string{"DELETE FROM " + quote(url, table) + some(url, table, 1)}
			if one := update(r, url, table, list, keys[table], rows, 1000+round*37+r.IntN(30), rows == 1); one != "" {
				sql = append(sql, one)
			}
			for _, one := range sql[round%2:] {
				if _, err := s.Try(one); err == nil {
					done++
				}
			}
		}
	}
	return done
}

// some is the clause that selects so many rows of a table, any.
func some(url, table string, rows int) string {
	if family(url) == "postgres" {
		return fmt.Sprintf(" WHERE ctid IN (SELECT ctid FROM %s ORDER BY random() LIMIT %d)", quote(url, table), rows)
	}
	return fmt.Sprintf(" ORDER BY rand() LIMIT %d", rows)
}

// update returns an UPDATE of so many rows: of some columns outside of keys, NULLs among them, or
// of all that it can (every). It is empty where there are none.
func update(r *rand.Rand, url, table string, columns []column, keys map[string]string, rows, n int, every bool) string {
	refers := map[string]bool{}
	for key := range keys {
		if here, _, ok := foreign(key); ok {
			for name := range strings.SplitSeq(here, ",") {
				refers[name] = true
			}
		}
	}
	var sets []string
	for i, c := range columns {
		v, ok := c.value(n, i)
		if !c.notNull && r.IntN(5) == 0 {
			v, ok = "NULL", true
		}
		if ok && !c.numbered && !c.computed && !refers[c.name] && (every || !c.unique && r.IntN(3) > 0) {
			sets = append(sets, quote(url, c.name)+" = "+v)
		}
	}
	if len(sets) == 0 {
		return ""
	}
	return "UPDATE " + quote(url, table) + " SET " + strings.Join(sets, ", ") + some(url, table, rows)
}

// identify gives the tables without a key on PostgreSQL all columns as identity, or all tables.
func identify(t *testing.T, url string, all bool) {
	if family(url) == "postgres" {
		testdb.Query(t, url, fmt.Sprintf(`DO $$ DECLARE r regclass; BEGIN
			FOR r IN SELECT oid FROM pg_class c WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND (%v OR NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary))
			LOOP EXECUTE 'ALTER TABLE ' || r || ' REPLICA IDENTITY FULL'; END LOOP; END $$`, all))
	}
}
