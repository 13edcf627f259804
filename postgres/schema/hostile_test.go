package schema

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// No expression of a source makes its translation run for longer than its length asks for.
func TestHostileExpressions(t *testing.T) {
	t.Parallel()
	testdb.Linear(t, tidemark.MaxExpression, func(sql string) {
		newExpr(sql, "mysql", func(string) (exprClass, bool) { return numberClass, true }).parse()
	})
}
