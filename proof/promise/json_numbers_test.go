package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestJSONNumbers: MySQL makes doubles of numbers in JSON text, and not always the nearest ones.
// That is said before the copy, and a repair, which cannot help, says so and does not end with 0.
func TestJSONNumbers(t *testing.T) {
	src, dst := testdb.ServerOf(t, "mysql").NewDatabase(t, "src"), testdb.ServerOf(t, "mysql").NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, j json, k json); INSERT INTO t SELECT 1, JSON_SET('{}', '$.a', 12345678901234567890.50), NULL; INSERT INTO t VALUES (2, '{\"a\": 2}', NULL), (3, '{\"a\": 3}', NULL)")
	const said = "JSON numbers"
	if o := testdb.Run(t, "check", src, dst); !strings.Contains(o.Out, said) || !strings.Contains(o.Out, "2 columns: ") {
		t.Errorf("check does not say it: %s%s", o.Out, o.ErrOut)
	}
	if o := testdb.Run(t, "copy", src, dst); o.Code != 0 {
		t.Fatalf("copy: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if one, other := testdb.Query(t, src, "SELECT j->>'$.a' FROM t WHERE id = 1"), testdb.Query(t, dst, "SELECT j->>'$.a' FROM t WHERE id = 1"); one == other {
		t.Fatalf("the decimal has arrived as it was: %s", other)
	}
	testdb.Query(t, dst, "DELETE FROM t WHERE id = 3; UPDATE t SET j = NULL WHERE id = 2")
	o := testdb.Run(t, "repair", src, dst, "--execute")
	if o.Code != 1 || !strings.Contains(o.Out, "still different: 1 row,") || !strings.Contains(o.Out, "t: 1 different") {
		t.Errorf("repair: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if got := testdb.Query(t, dst, "SELECT id, j FROM t WHERE id > 1 ORDER BY id"); got != testdb.Query(t, src, "SELECT id, j FROM t WHERE id > 1 ORDER BY id") {
		t.Errorf("other rows were not repaired: %s", got)
	}
	if o := testdb.Run(t, "diff", src, dst); o.Code != 1 {
		t.Errorf("diff: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}

	// The same of a trigger, which changes a row that a repair inserts.
	testdb.Query(t, dst, "DELETE FROM t WHERE id > 1; UPDATE t SET j = NULL; CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.k = '[]'")
	if o := testdb.Run(t, "repair", src, dst, "--execute", "--json"); o.Code != 1 || !strings.Contains(o.Out, `"unequal": 3`) {
		t.Errorf("repair of a table with a trigger: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
}
