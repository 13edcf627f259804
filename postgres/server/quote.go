package server

import (
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

// QuoteIdent quotes a name only if it must, so that messages stay readable.
func QuoteIdent(s string) string {
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

// QuoteTable returns schema.name, quoted.
func QuoteTable(t tidemark.TableID) string {
	if t.Schema == "" {
		return QuoteIdent(t.Name)
	}
	return QuoteIdent(t.Schema) + "." + QuoteIdent(t.Name)
}

// QuoteLiteral returns an SQL string literal that means s under any server settings.
func QuoteLiteral(s string) string {
	s = strings.ReplaceAll(s, "'", "''")
	if strings.Contains(s, `\`) {
		return " E'" + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return "'" + s + "'"
}

// QuoteIdents quotes names and joins them with commas.
func QuoteIdents(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = QuoteIdent(n)
	}
	return strings.Join(out, ", ")
}

// FirstWords shortens a statement for a message.
func FirstWords(sql string) string {
	s := strings.Join(strings.Fields(sql), " ")
	if r := []rune(s); len(r) > 80 {
		s = string(r[:80]) + "..."
	}
	return tidemark.MaskText(s)
}

// MaxName is how many bytes of a name the server keeps (NAMEDATALEN - 1).
const MaxName = 63

// Clip truncates a name as the server does: at most MaxName bytes of whole characters.
func Clip(s string) string {
	if len(s) <= MaxName {
		return s
	}
	n := MaxName
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
