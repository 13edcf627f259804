package lookahead

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestDatabasesThatAreNotThere copies schemas to a server whose URL names no database: each becomes
// a database. A key that the server does not accept as primary becomes a unique key.
func TestDatabasesThatAreNotThere(t *testing.T) {
	t.Parallel()
	for _, server := range []*testdb.Server{testdb.OwnMySQL(t), testdb.OwnMariaDB(t)} {
		src := testdb.Postgres(t, 17).NewDatabase(t, "many")
		first := schema(server.NewDatabase(t, "many")) + "_one"
		second := strings.TrimSuffix(first, "_one") + "_two"
		t.Cleanup(func() {
			testdb.Query(t, server.URL(""), "DROP DATABASE IF EXISTS "+first+"; DROP DATABASE IF EXISTS "+second)
		})
		testdb.Load(t, src, strings.NewReader("CREATE SCHEMA "+first+" CREATE TABLE t (id int PRIMARY KEY); INSERT INTO "+first+".t VALUES (1); "+
			"CREATE SCHEMA "+second+" CREATE TABLE u (a int, b int GENERATED ALWAYS AS (a * 2) STORED PRIMARY KEY); INSERT INTO "+second+".u VALUES (3)"))
		testdb.Must(t, "copy", src, server.URL(""))
		if got := testdb.Query(t, server.URL(""), "SELECT id, a, b FROM "+first+".t, "+second+".u"); got != "1\t3\t6" {
			t.Errorf("%s has %q", server.Engine, got)
		}
		if got := testdb.Query(t, server.URL(""), "SELECT count(*) FROM information_schema.statistics WHERE table_schema = '"+second+"' AND column_name = 'b' AND non_unique = 0"); got != "1" {
			t.Errorf("%s has %q unique keys", server.Engine, got)
		}
		if got := testdb.Query(t, server.URL(""), "SELECT count(*) FROM information_schema.tables WHERE table_name = 'tidemark_claims' AND table_schema IN ('"+first+"', '"+second+"')"); got != "0" {
			t.Errorf("%s has kept claims", server.Engine)
		}
	}
}
