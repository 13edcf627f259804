package mysql

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// The client program splits a script into the statements that it was made of, including details
// that are easily lost.
func TestScriptIsReadByTheClient(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		src, dst := srv.NewDatabase(t, "script_src"), srv.NewDatabase(t, "script_dst")
		testdb.Load(t, src, strings.NewReader(hard(srv)))
		db := describe(t, src)
		e := open(t, dst, server.Options{})
		objects, _ := e.Render(db, movesOf(db, mysqltest.DatabaseOf(dst)))
		var ordered []tidemark.Object
		for _, phase := range []tidemark.Phase{tidemark.BeforeRows, tidemark.AfterTable, tidemark.AfterRows} {
			for _, o := range objects {
				if o.Phase == phase {
					ordered = append(ordered, o)
				}
			}
		}
		testdb.Load(t, dst, bytes.NewReader(e.Script(ordered)), "--binary-mode", "--comments")
		if diff := cmp.Diff(showAll(t, src), showAll(t, dst)); diff != "" {
			t.Errorf("source and target differ (-source +target):\n%s", diff)
		}
	})
}
