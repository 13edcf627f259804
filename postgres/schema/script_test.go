package schema

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// TestScriptIsReadByPsql: psql recreates the source from a script, including the nasty schema.
func TestScriptIsReadByPsql(t *testing.T) {
	for _, major := range []int{13, 18} {
		src, dst := testdb.Postgres(t, major).NewDatabase(t, "src"), testdb.Postgres(t, major).NewDatabase(t, "dst")
		loadNasty(t, src, major)
		db := describeURL(t, src)
		e := &Schema{Server: &server.Server{Options: server.Options{Grants: true, Owners: true}, Major: major}}
		objects, _ := e.Render(db, all(db))
		if lobs := testdb.Query(t, src, "SELECT coalesce(string_agg(format('SELECT lo_create(%s)', oid), ';'), '') FROM pg_largeobject_metadata"); lobs != "" {
			testdb.Query(t, dst, lobs)
		}
		testdb.Load(t, dst, bytes.NewReader(e.Script(objects)))
		if diff := diffLines(t, testdb.PgDump(t, src), testdb.PgDump(t, dst)); diff != "" {
			t.Errorf("%d: pg_dump differs (-source +target):\n%s", major, diff)
		}
	}
}

// TestRenderTakesOver: a description that is handed over gives the same objects as one that stays.
func TestRenderTakesOver(t *testing.T) {
	src := testdb.Postgres(t, 18).NewDatabase(t, "src")
	loadNasty(t, src, 18)
	db := describeURL(t, src)
	for skip := range 4 {
		for _, major := range []int{13, 18} {
			var moves []tidemark.Move
			for i, m := range all(db) {
				if skip == 0 || i%4 != skip {
					m.Direct = skip < 2 || i%3 != skip
					moves = append(moves, m)
				}
			}
			e := &Schema{Server: &server.Server{Options: server.Options{Grants: true, Owners: true}, Major: major}}
			want, found := e.Render(db, moves)
			handed := *db
			handed.Objects, handed.Handed = slices.Clone(db.Objects), true
			got, said := e.Render(&handed, moves)
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(said, found) || handed.Objects != nil {
				t.Errorf("skip %d, version %d: %d objects with %d findings, and %d with %d", skip, major, len(want), len(found), len(got), len(said))
			}
		}
	}
}
