package schema

import (
	"bytes"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// TestScriptIsReadByPsql: psql recreates the source from a script, including the nasty schema.
func TestScriptIsReadByPsql(t *testing.T) {
	for _, major := range []int{13, 18} {
		src, dst := testdb.Postgres(t, major).NewDatabase(t, "src"), testdb.Postgres(t, major).NewDatabase(t, "dst")
		loadNasty(t, src, major)
		db := describeURL(t, src)
		e := &Schema{&server.Server{Options: server.Options{Grants: true, Owners: true}, Major: major}}
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
