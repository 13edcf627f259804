package define

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/sqltext"
)

// The functions below parse SQL as this package and the server's pg_get_ functions write it, not
// SQL in general.

func scan(s string) []sqltext.Token { return sqltext.Dialect{Postgres: true}.Scan(s) }

// splitList splits a list at its commas.
func splitList(s string) []string {
	var out []string
	for _, list := range sqltext.SplitList(scan(s)) {
		out = append(out, sqltext.Join(list))
	}
	return out
}

// clauses splits s before each of the words outside of parentheses and of CASE ... END. The text
// before the first word is the first clause.
func clauses(s string, words ...string) []string {
	var out []string
	from, depth, cases := 0, 0, 0
	last := ""
	for _, t := range scan(s) {
		switch {
		case t.Punct('('), t.Punct('['):
			depth++
		case t.Punct(')'), t.Punct(']'):
			depth--
		case t.Kind != sqltext.Word || depth > 0:
			continue
		case t.Text == "CASE":
			cases++
		case t.Text == "END" && cases > 0:
			cases--
		case cases == 0 && slices.Contains(words, t.Text) && last != "BY":
			out = append(out, strings.TrimSpace(s[from:t.At]))
			from = t.At
		}
		last = t.Text
	}
	return append(out, strings.TrimSpace(s[from:]))
}

// identEnd returns the index after the name, qualified or not, that begins at tokens[i].
func identEnd(tokens []sqltext.Token, i int) int {
	for k := sqltext.At(tokens, i).Kind; k == sqltext.Word || k == sqltext.Name; k = sqltext.At(tokens, i).Kind {
		if i++; !sqltext.At(tokens, i).Punct('.') {
			break
		}
		i++
	}
	return i
}

// cutIdent splits s after the name, qualified or not, that it begins with.
func cutIdent(s string) (name, rest string) {
	tokens := scan(s)
	name = sqltext.Join(tokens[:identEnd(tokens, 0)])
	return name, strings.TrimSpace(s[len(name):])
}

// inner returns the content of the parentheses that s begins with, and the text after them.
func inner(s string) (in, rest string) {
	if !strings.HasPrefix(s, "(") {
		return "", s
	}
	tokens := scan(s)
	end := sqltext.Closing(tokens, 0)
	if end == len(tokens) {
		return s[1:], ""
	}
	return s[1:tokens[end].At], strings.TrimSpace(s[tokens[end].After():])
}

// indexed splits a statement that creates an index around the list of what it orders.
func indexed(sql string) (before, after string, parts []string) {
	at := strings.Index(sql, " (")
	if at < 0 {
		return sql, "", nil
	}
	list, after := inner(sql[at+1:])
	return sql[:at], after, splitList(list)
}

// renameIn replaces a name by another one, wherever it is a token of its own.
func renameIn(s, from, to string) string {
	tokens := scan(s)
	for i := range tokens {
		if tokens[i].Text == from {
			tokens[i].Text = to
		}
	}
	return sqltext.Join(tokens)
}

// behindType are words that can follow the first word of a type's name.
var behindType = []string{"varying", "precision", "with", "without", "time", "zone"}

// loosely returns a text without what versions and engines write differently with the same meaning:
// parentheses, casts, column qualifiers, blanks, quotes of names, case.
func loosely(s string) string {
	var b strings.Builder
	tokens := sqltext.Said(scan(s))
	for i := 0; i < len(tokens); i++ {
		switch t := tokens[i]; {
		case t.Is("::"):
			i = identEnd(tokens, i+1)
			for slices.Contains(behindType, sqltext.At(tokens, i).Text) {
				i++
			}
			if sqltext.At(tokens, i).Punct('(') {
				i = sqltext.Closing(tokens, i) + 1
			}
			i--
		case t.Punct('('), t.Punct(')'), t.Punct('`'):
		case t.Kind != sqltext.Word && t.Kind != sqltext.Name:
			b.WriteString(t.Text)
		case sqltext.At(tokens, i+1).Punct('.') && (t.Text[0] < '0' || t.Text[0] > '9'): // a qualifier
			i++
		default:
			b.WriteString(strings.ToLower(t.Name()) + " ")
		}
	}
	return b.String()
}
