package main

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestPrepDropWithViews: a copy with --prep drop can be repeated where views of it depend on its
// tables. A view of somebody else keeps it from dropping anything.
func TestPrepDropWithViews(t *testing.T) {
	t.Parallel()
	src, dst := pg15(t).NewDatabase(t, "views"), pg15(t).NewDatabase(t, "views")
	testdb.Query(t, src, `CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int REFERENCES a); CREATE TABLE c (id int);
		INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); INSERT INTO c VALUES (1);
		CREATE VIEW v1 AS SELECT a.id FROM a JOIN c USING (id);
		CREATE MATERIALIZED VIEW m2 AS SELECT * FROM v1;
		CREATE VIEW "A v3" AS SELECT m2.id FROM m2 JOIN b USING (id)`)
	all := `SELECT count(*) FROM "A v3" JOIN m2 USING (id) JOIN v1 USING (id)`
	must(t, "copy", src, dst)
	if o := must(t, "copy", src, dst, "--prep", "drop", "--plan"); !strings.Contains(o.out, "Dropped first:\n  public.a\n  public.b\n  public.c\n  public.v1\n  public.m2\n  public.A v3\n") {
		t.Errorf("the plan: %s", o.out)
	}
	for range 2 {
		testdb.Query(t, dst, "DELETE FROM c")
		must(t, "copy", src, dst, "--prep", "drop")
		if got := testdb.Query(t, dst, all); got != "1" {
			t.Errorf("%s rows through the views", got)
		}
	}
	testdb.Query(t, dst, "CREATE VIEW stranger AS SELECT * FROM m2")
	if o := cli(t, "copy", src, dst, "--prep", "drop"); o.code != 8 || !strings.Contains(o.out+o.errOut, "stranger") {
		t.Errorf("beside a stranger's view: %d %s%s", o.code, o.out, o.errOut)
	}
	if got := testdb.Query(t, dst, all+" JOIN stranger USING (id)"); got != "1" {
		t.Errorf("%s rows through the views that were to stay", got)
	}
	testdb.Query(t, dst, "DROP VIEW stranger")
	must(t, "copy", src, dst, "--prep", "drop")
}
