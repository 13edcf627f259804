package bulk

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// TestOneKeyDoesNotStopTheOthers: keys go in one ALTER TABLE. If one of them cannot be built, the
// others are, also when it is tried again.
func TestOneKeyDoesNotStopTheOthers(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "keys")
		testdb.Query(t, url, "CREATE TABLE t (a int, b int, `k, ADD KEY` int)")
		testdb.Query(t, url, "INSERT INTO t VALUES (1, 1, 1), (2, 1, 2)")
		e := open(t, url, server.Options{})
		db := mysqltest.DatabaseOf(url)
		alter := []string{"ALTER TABLE `" + db + "`.`t` ADD UNIQUE KEY `a` (`a`), ADD UNIQUE KEY `b` (`b`), ADD KEY `c` (`k, ADD KEY`)"}
		for range 2 {
			if err := e.Exec(t.Context(), 0, alter); tidemark.KindOf(err) != tidemark.BadRow {
				t.Errorf("%v", err)
			}
			if got := testdb.Query(t, url, "SELECT GROUP_CONCAT(DISTINCT index_name ORDER BY index_name) FROM information_schema.statistics WHERE table_schema = DATABASE()"); got != "a,c" {
				t.Errorf("keys: %s", got)
			}
		}
		testdb.Query(t, url, "DELETE FROM t WHERE a = 2")
		if err := e.Exec(t.Context(), 0, alter); err != nil {
			t.Error(err)
		}
	})
}
