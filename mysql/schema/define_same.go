package schema

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// same compares an item's texts on source and target.
func (a *altering) same(w, h string) bool {
	if a.d.Across && sqltext.Find(sqltext.Scan(w), "character") < 0 && sqltext.Find(sqltext.Scan(w), "collate") < 0 {
		h = withoutCollation(h) // it equals the table's
	}
	return w == h || a.d.Across && (plainly(w) == plainly(h) || isComputed(w) && isComputed(h))
}

// withoutCollation removes a column's character set and collation.
func withoutCollation(s string) string {
	tokens := sqltext.Scan(s)
	for _, word := range []string{"collate", "character"} {
		i := sqltext.Find(tokens, word)
		if i < 0 {
			continue
		}
		j := sqltext.Skip(tokens, i+1)
		if word == "character" {
			j = sqltext.Skip(tokens, j+1)
		}
		tokens = slices.Concat(tokens[:i], tokens[min(j+1, len(tokens)):])
	}
	return sqltext.Join(tokens)
}

// isComputed reports whether a text has an expression that servers rewrite.
func isComputed(s string) bool {
	tokens := sqltext.Scan(s)
	return sqltext.Find(tokens, "check") >= 0 || sqltext.Find(tokens, "generated") >= 0 || sqltext.Find(tokens, "as") >= 0
}

// plainly returns a text without parts that servers write differently with the same meaning: NULL,
// brackets, the display width of integers, and trailing zeros of a number's default.
func plainly(s string) string {
	var b strings.Builder
	before, number := "", false // the previous word, and whether the column is numeric
	tokens := sqltext.Scan(s)
	for i, t := range tokens {
		text := strings.ToLower(t.Text)
		switch {
		case t.Kind == sqltext.Word && text[0] == '_' && sqltext.At(tokens, i+1).Kind == sqltext.String, // _utf8mb4'text'
			text == "x''", t.Is("x") && sqltext.At(tokens, i+1).Text == "''":
			if text != "x''" {
				continue
			}
			text = "''"
		case t.Kind == sqltext.Space, t.Kind == sqltext.Open, t.Kind == sqltext.Close, t.Punct('('), t.Punct(')'), t.Is("null"):
			continue
		case t.Kind == sqltext.String && text[0] == '\'' && !(number && before == "default"):
			text = server.Literal(sqltext.Unquote(t.Text, true))
		case t.Kind == sqltext.Name:
			text = strings.ToLower(t.Name())
		case t.Kind == sqltext.Word && integerWord(before) && IsDigits(text):
			before = ""
			continue
		case t.Kind == sqltext.String && number && before == "default":
			text = shortNumber(text)
		case t.Is("geomcollection"):
			text = "geometrycollection"
		}
		number = number || t.Kind == sqltext.Word && (integerWord(text) || text == "decimal" || text == "float" || text == "double")
		before = text
		b.WriteString(text + " ")
	}
	// MySQL does not say that an ENUM is binary.
	out := strings.ReplaceAll(b.String(), "character set binary collate binary ", "")
	return strings.ReplaceAll(out, "not default ", "not ")
}

func integerWord(s string) bool {
	switch s {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "year":
		return true
	}
	return false
}

// shortNumber removes trailing zeros after the decimal point of a quoted number.
func shortNumber(s string) string {
	n := strings.Trim(s, "'")
	if plainNumber.MatchString(n) && strings.Contains(n, ".") {
		n = strings.TrimSuffix(strings.TrimRight(n, "0"), ".")
	}
	return "'" + n + "'"
}
