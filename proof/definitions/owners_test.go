package definitions

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestOwners copies, with owners, objects that pg_dump transfers and a copy once did not: pg_dump
// of both sides is equal, and the report says that nothing is left out.
func TestOwners(t *testing.T) {
	t.Parallel()
	server := testdb.Postgres(t, 15)
	src, dst := server.NewDatabase(t, "src"), server.NewDatabase(t, "dst")
	testdb.Load(t, src, strings.NewReader(`
		CREATE EXTENSION earthdistance CASCADE;
		CREATE PROCEDURE p(INOUT a integer) LANGUAGE plpgsql AS $$BEGIN a := 1; END$$;
		CREATE PROCEDURE q(IN a integer, OUT b integer) LANGUAGE plpgsql AS $$BEGIN b := 1; END$$;
		CREATE PROCEDURE q(IN a integer, IN b integer) LANGUAGE plpgsql AS $$BEGIN NULL; END$$;
		COMMENT ON PROCEDURE q(IN integer, OUT integer) IS 'one';
		CREATE TABLE parent (a integer, b integer GENERATED ALWAYS AS (a * 2) STORED);
		CREATE TABLE child (a integer, b integer GENERATED ALWAYS AS (a * 2) STORED, c text);
		ALTER TABLE child INHERIT parent;
		INSERT INTO parent VALUES (1);
		INSERT INTO child (a, c) VALUES (2, 'x');`))
	o := testdb.Run(t, "copy", src, dst, "--owners")
	if o.Code != 0 || strings.Contains(o.Out+o.ErrOut, "left out") {
		t.Fatalf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if a, b := testdb.PgDump(t, src), testdb.PgDump(t, dst); a != b {
		t.Error(unlike(a, b))
	}
	if got := testdb.Query(t, dst, "SELECT a, b FROM child"); got != "2\t4" {
		t.Errorf("child has %q", got)
	}
}
