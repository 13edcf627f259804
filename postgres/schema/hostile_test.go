package schema

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestHostileExpressions: the time to translate an expression is linear in its length.
func TestHostileExpressions(t *testing.T) {
	t.Parallel()
	testdb.Linear(t, tidemark.MaxExpression, func(sql string) {
		newExpr(sql, "mysql", func(string) (value, error) { return value{sql: "a", class: intClass}, nil }).parse()
	})
}
