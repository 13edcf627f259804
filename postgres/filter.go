package postgres

import (
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// reserved are the words that cannot be a name without quotes
// (https://www.postgresql.org/docs/current/sql-keywords-appendix.html).
var reserved = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both
		case cast char character check coalesce collate collation column concurrently constraint create cross current_catalog current_date
		current_role current_schema current_time current_timestamp current_user dec decimal default deferrable desc distinct do else end
		except exists extract false fetch float for foreign freeze from full grant greatest group grouping having ilike in initially inner
		inout int integer intersect interval into is isnull join json_array json_arrayagg json_object json_objectagg lateral leading least
		left like limit localtime localtimestamp merge_action national natural nchar none normalize not notnull null nullif numeric
		offset on only or order out outer overlaps overlay placing position precision primary real references returning right row select
		session_user setof similar smallint some substring symmetric system_user table tablesample then time timestamp to trailing treat
		trim true union unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement
		xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable`) {
		m[w] = true
	}
	return m
}()

// quoteIdent quotes a name where it must be, so that messages stay readable.
func quoteIdent(s string) string {
	simple := s != "" && !reserved[s] && (s[0] == '_' || s[0] >= 'a' && s[0] <= 'z')
	for i := 0; simple && i < len(s); i++ {
		c := s[i]
		simple = c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
	}
	if simple {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// quoteTable gives schema.name, quoted.
func quoteTable(t tidemark.TableID) string {
	if t.Schema == "" {
		return quoteIdent(t.Name)
	}
	return quoteIdent(t.Schema) + "." + quoteIdent(t.Name)
}

// quoteLiteral gives an SQL string that means s whatever the server's settings.
func quoteLiteral(s string) string {
	s = strings.ReplaceAll(s, "'", "''")
	if strings.Contains(s, `\`) {
		return " E'" + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return "'" + s + "'"
}

// quoteIdents joins names by commas.
func quoteIdents(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quoteIdent(n)
	}
	return strings.Join(out, ", ")
}

// typed gives a literal of a column's own type, so that it is compared as the
// column is. Native is PostgreSQL's spelling.
func typed(value string, c *tidemark.Column) string {
	if c.Type.Native == "" {
		return quoteLiteral(value)
	}
	return "(" + strings.TrimSpace(quoteLiteral(value)) + ")::" + c.Type.Native
}

// filterSQL gives the condition of a move's filters; "" if it has none.
func filterSQL(m *tidemark.Move) (string, error) {
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
		// On a line of its own, so that a comment at its end swallows nothing of ours.
		return f.SQL + "\n", nil
	}
	c := m.From.Column(f.Column)
	if c == nil {
		return "", tidemark.Errorf(tidemark.Invalid, "filter", quoteTable(m.From.TableID),
			fmt.Sprintf("there is no column %s", quoteIdent(f.Column)), "Name a column of the source table; names are case sensitive.")
	}
	col := quoteIdent(c.Name)
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
			return "", tidemark.Errorf(tidemark.Invalid, "filter", quoteTable(m.From.TableID),
				fmt.Sprintf("the operator %q is not known", cond.Op),
				"The operators are eq, noteq, gte, ste, between, notbetween, null and notnull.")
		}
		any = append(any, sql)
	}
	return strings.Join(any, " OR "), nil
}
