package bulk

import (
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// typed returns a literal of a column's own type, so that it is compared as the column is. Native
// is PostgreSQL's spelling.
func typed(value string, c *tidemark.Column) string {
	if c.Type.Native == "" {
		return server.QuoteLiteral(value)
	}
	return "(" + strings.TrimSpace(server.QuoteLiteral(value)) + ")::" + c.Type.Native
}

// FilterSQL returns the condition of a move's filters; "" if it has none.
func FilterSQL(m *tidemark.Move) (string, error) {
	var all []string
	for _, f := range m.Filter {
		sql, err := oneFilter(m, f)
		if err != nil {
			return "", err
		}
		if sql != "" {
			all = append(all, "("+sql+")")
		}
	}
	return strings.Join(all, " AND "), nil
}

func oneFilter(m *tidemark.Move, f tidemark.Filter) (string, error) {
	if f.SQL != "" {
		// On its own line, so that a comment at its end does not swallow our text.
		return f.SQL + "\n", nil
	}
	c := m.From.Column(f.Column)
	if c == nil {
		return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "filter", Object: server.QuoteTable(m.From.TableID), Err: fmt.Errorf("there is no column %s", server.QuoteIdent(f.Column)), Hint: "Name a column of the source table; names are case sensitive."}
	}
	col := server.QuoteIdent(c.Name)
	var any []string
	for _, cond := range f.Conditions {
		sql := ""
		switch cond.Op {
		case "eq":
			sql = col + " = " + typed(cond.Value, c)
		case "noteq":
			sql = col + " <> " + typed(cond.Value, c)
		case "gte":
			sql = col + " >= " + typed(cond.Value, c)
		case "ste", "lte":
			sql = col + " <= " + typed(cond.Value, c)
		case "between":
			sql = col + " >= " + typed(cond.Start, c) + " AND " + col + " <= " + typed(cond.End, c)
		case "notbetween":
			sql = "(" + col + " < " + typed(cond.Start, c) + " OR " + col + " > " + typed(cond.End, c) + ")"
		case "null":
			sql = col + " IS NULL"
		case "notnull":
			sql = col + " IS NOT NULL"
		default:
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "filter", Object: server.QuoteTable(m.From.TableID), Err: fmt.Errorf("the operator %q is not known", cond.Op), Hint: "The operators are eq, noteq, gte, ste, between, notbetween, null and notnull."}
		}
		any = append(any, sql)
	}
	return strings.Join(any, " OR "), nil
}
