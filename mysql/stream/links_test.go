package stream

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// An update of a link, and a delete, include the old row, as far as its image has it; other updates
// do not.
func TestFollowLinks(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "links")
		e := open(t, url, server.Options{})
		script(t, e, "CREATE TABLE worker (id int PRIMARY KEY, Boss int, note int DEFAULT 5)", "CREATE TABLE other (id int PRIMARY KEY, boss int)",
			"INSERT INTO worker VALUES (1,1,0),(2,NULL,0)", "INSERT INTO other VALUES (1,1)")
		from := endOf(t, e)
		script(t, e, "UPDATE worker SET boss=2 WHERE id=1", "UPDATE worker SET note=7 WHERE id=1", "UPDATE worker SET boss=NULL WHERE id=1", "UPDATE worker SET note=8 WHERE id=1",
			"UPDATE worker SET id=9 WHERE id=1", "UPDATE other SET boss=2", "DELETE FROM worker WHERE id=9", "DELETE FROM other",
			"SET binlog_row_image=MINIMAL", "UPDATE worker SET boss=3 WHERE id=2", "UPDATE worker SET note=1 WHERE id=2", "UPDATE worker SET boss=4,id=3 WHERE id=2", "DELETE FROM worker")
		s := stream(t, e, from)
		s.KeepOldReferences(func(id tidemark.TableID) []string { return map[string][]string{"worker": {"boss"}}[id.Name] })
		txs, err := drain(t, s, from)
		if err != nil {
			t.Fatal(err)
		}
		wantTold(t, txs, []string{`U worker old(key=false)(1,1,0) new(1,2,0)`}, []string{`U worker new(1,2,7)`}, []string{`U worker old(key=false)(1,2,7) new(1,\N,7)`}, []string{`U worker new(1,\N,8)`},
			[]string{`U worker old(key=true)(1,\N,\N) new(9,\N,8)`}, []string{`U other new(1,2)`}, []string{`D worker old(key=false)(9,\N,8)`}, []string{`D other old(key=true)(1,\N)`},
			[]string{`U worker old(key=false)(2,same,same) new(2,3,same)`}, []string{`U worker new(2,same,1)`}, []string{`U worker old(key=false)(2,same,same) new(3,4,same)`}, []string{`D worker old(key=false)(3,same,same)`})
	})
}
