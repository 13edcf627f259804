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
	if from.Engine == "postgres" {
		testdb.Query(t, src, `DO $$ DECLARE r regclass; BEGIN
			FOR r IN SELECT oid FROM pg_class c WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary)
			LOOP EXECUTE 'ALTER TABLE ' || r || ' REPLICA IDENTITY FULL'; END LOOP; END $$`)
	}
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
	some := func(table string, rows int) string {
		if family(url) == "postgres" {
			return fmt.Sprintf(" WHERE ctid IN (SELECT ctid FROM %s ORDER BY random() LIMIT %d)", quote(url, table), rows)
		}
		return fmt.Sprintf(" ORDER BY rand() LIMIT %d", rows)
	}
	for _, table := range slices.Sorted(maps.Keys(columns)) {
		list := columns[table]
		if kept(keep, table) {
			continue
		}
		refers := func(column string) bool {
			for key := range keys[table] {
				if here, _, ok := foreign(key); ok && slices.Contains(strings.Split(here, ","), column) {
					return true
				}
			}
			return false
		}
		for round, rows := range []int{4, 4, 4, 1} {
			last := rows == 1
			var sets []string
			for i, c := range list {
				v, ok := c.value(1000+round*37+r.IntN(30), i)
				if !c.notNull && r.IntN(5) == 0 {
					v, ok = "NULL", true
				}
				if ok && !c.numbered && !c.computed && !refers(c.name) && (last || !c.unique && r.IntN(3) > 0) {
					sets = append(sets, quote(url, c.name)+" = "+v)
				}
			}
			sql := []string{"DELETE FROM " + quote(url, table) + some(table, 1)}
			if len(sets) > 0 {
				sql = append(sql, "UPDATE "+quote(url, table)+" SET "+strings.Join(sets, ", ")+some(table, rows))
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
