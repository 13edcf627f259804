package mapping

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// For any expression, renaming its columns takes no longer than its length justifies.
func TestHostileExpressions(t *testing.T) {
	t.Parallel()
	table := &tidemark.Table{Columns: []tidemark.Column{{Name: "a"}, {Name: "b"}}}
	for _, mysql := range []bool{true, false} {
		testdb.Linear(t, 1<<18, func(sql string) { rewrite(sql, map[string]string{"a": "x", "b": "b"}, table, mysql) })
	}
}
