package main

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTargetThatHoldsRows: a copy refuses a target of which a single table holds rows, and changes
// nothing; with --prep truncate these rows go.
func TestTargetThatHoldsRows(t *testing.T) {
	t.Parallel()
	srv := pg15(t)
	src, dst := srv.NewDatabase(t, "src"), srv.NewDatabase(t, "dst")
	const tables = "CREATE TABLE a (id int); CREATE TABLE b (id int); "
	const rows = "SELECT (SELECT string_agg(id::text, ',' ORDER BY id) FROM a), (SELECT string_agg(id::text, ',' ORDER BY id) FROM b)"
	testdb.Query(t, src, tables+"INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (3)")
	testdb.Query(t, dst, tables+"INSERT INTO b VALUES (9)")
	o := cli(t, "copy", src, dst)
	if got := testdb.Query(t, dst, rows); o.code != 8 || !strings.Contains(o.errOut, "1 table holds rows already") || !strings.Contains(o.errOut, "public.b") || got != "NULL\t9" {
		t.Errorf("exit %d, rows %s\n%s%s", o.code, got, o.errOut, o.out)
	}
	must(t, "copy", src, dst, "--prep", "truncate")
	if got := testdb.Query(t, dst, rows); got != "1,2\t3" {
		t.Errorf("rows %s", got)
	}
}
