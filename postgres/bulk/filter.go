package bulk

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

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

// equals compares a column with a value that may come from another type, elsewhere. What the
// column's type does not take equals none of its values, and would be an error: it is compared as
// text, without an index. The literal gets the column's type without its limits, which the value
// may exceed: those of numeric(5,2), and a domain's CHECK.
func equals(c *tidemark.Column, value string) string {
	name := server.QuoteIdent(c.Name)
	if !takes(&c.Type, value) {
		name += "::text"
	}
	return name + " = " + server.QuoteLiteral(value)
}

var (
	number = regexp.MustCompile(`^-?[0-9]+(?:\.[0-9]+)?$`)
	uuid   = regexp.MustCompile(`^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// takes reports whether a type surely takes a value.
func takes(t *tidemark.Type, value string) bool {
	switch t.Kind {
	case tidemark.Int:
		_, err := strconv.ParseInt(value, 10, t.Bits)
		return err == nil
	case tidemark.Float:
		_, err := strconv.ParseFloat(value, t.Bits)
		return err == nil
	case tidemark.Decimal:
		return value == "NaN" || number.MatchString(value)
	case tidemark.Date, tidemark.DateTime, tidemark.Timestamp:
		return strings.TrimPrefix(value, "-") == "infinity" || isTime(value, time.DateOnly, time.DateTime, time.DateTime+"-07")
	case tidemark.Time:
		_, err := time.Parse(time.TimeOnly, value)
		return err == nil
	case tidemark.UUID:
		return uuid.MatchString(value)
	case tidemark.Enum:
		return slices.Contains(t.Labels, value)
	}
	return true
}

// isTime reports whether a value is a time after the year 0 in one of these layouts.
func isTime(value string, layouts ...string) bool {
	return slices.ContainsFunc(layouts, func(layout string) bool {
		at, err := time.Parse(layout, value)
		return err == nil && at.Year() > 0
	})
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
