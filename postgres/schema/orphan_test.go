package schema

import (
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestSchemaDroppedMeanwhile: an object whose schema goes while it is described does not end the
// server, as pg_identify_object would. Here the schema's row is taken out of the catalogue.
func TestSchemaDroppedMeanwhile(t *testing.T) {
	s := testdb.OwnPostgres(t, 15, "-c", "allow_system_table_mods=on")
	src := s.NewDatabase(t, "src")
	testdb.Query(t, src, `CREATE SCHEMA gone; CREATE TABLE gone.t (id int PRIMARY KEY, v text DEFAULT 'x'); CREATE TYPE gone.e AS ENUM ('a');
		CREATE FUNCTION gone.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE TEXT SEARCH CONFIGURATION gone.c (COPY = english); CREATE COLLATION gone.l FROM "C";
		CREATE OPERATOR gone.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq); CREATE STATISTICS gone.s ON id, v FROM gone.t; CREATE TABLE stays (id int);
		GRANT SELECT ON gone.t TO pg_monitor; GRANT EXECUTE ON FUNCTION gone.f() TO pg_monitor; GRANT USAGE ON TYPE gone.e TO pg_monitor`)
	checkpointer := testdb.Query(t, src, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
	testdb.Query(t, src, "DELETE FROM pg_namespace WHERE nspname = 'gone'")
	db := describeURL(t, src)
	if len(db.Tables) != 1 || db.Tables[0].Name != "stays" {
		t.Errorf("%d tables", len(db.Tables))
	}
	if now := testdb.Query(t, src, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"); now != checkpointer {
		t.Errorf("the server has started again: checkpointer %s, now %s", checkpointer, now)
	}
}
