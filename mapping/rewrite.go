package mapping

import (
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// rewrite replaces the column names of t in SQL by their new names. columns maps each column that
// is kept to its new name; gone is a removed one that the SQL mentions, "" if there is none. Only
// names of columns change: words before an opening bracket are functions, words after :: or AS are
// types, and string literals stay unchanged. New names are quoted, in case they are reserved words.
func rewrite(sql string, columns map[string]string, t *tidemark.Table, mysql bool) (out, gone string) {
	var b strings.Builder
	w := words{sql: sql, mysql: mysql}
	for w.next() {
		name, text := w.name, sql[w.start:w.end]
		if name == "" || !w.column() {
			b.WriteString(text)
			continue
		}
		source, ok := findColumn(t, name, mysql)
		if !ok {
			b.WriteString(text)
			continue
		}
		to, kept := columns[source]
		switch {
		case !kept:
			return sql, source
		case to == source:
			b.WriteString(text)
		case mysql:
			b.WriteString("`" + strings.ReplaceAll(to, "`", "``") + "`")
		default:
			b.WriteString(`"` + strings.ReplaceAll(to, `"`, `""`) + `"`)
		}
	}
	return b.String(), ""
}

// findColumn finds a column as SQL names it: MySQL in any case, PostgreSQL exactly.
func findColumn(t *tidemark.Table, name string, mysql bool) (string, bool) {
	for i := range t.Columns {
		if c := t.Columns[i].Name; c == name || mysql && strings.EqualFold(c, name) {
			return c, true
		}
	}
	return "", false
}

// words splits SQL into pieces: names, quoted texts, and other single bytes.
type words struct {
	sql        string
	mysql      bool
	start, end int    // the piece
	name       string // the name without quotes, if the piece is one; otherwise ""
	before     string // the piece before it that is not space, in lower case
	last       string
}

// next advances to the next piece and reports whether there is one.
func (w *words) next() bool {
	w.start = w.end
	if w.start == len(w.sql) {
		return false
	}
	w.before, w.name = w.last, ""
	rest := w.sql[w.start:]
	switch c := rest[0]; {
	case strings.HasPrefix(rest, `\'`): // as information_schema shows texts: _utf8mb4\'x\'
		w.end = w.start + closing(rest[2:], `\'`, false) + 2
	case c == '\'' || c == '"' && w.mysql:
		w.end = w.start + closing(rest[1:], rest[:1], true) + 1
	case c == '"' || c == '`':
		w.end = w.start + closing(rest[1:], rest[:1], false) + 1
		w.name = strings.ReplaceAll(strings.Trim(w.sql[w.start:w.end], rest[:1]), rest[:1]+rest[:1], rest[:1])
	case wordByte(c):
		n := 1
		for n < len(rest) && wordByte(rest[n]) {
			n++
		}
		w.end = w.start + n
		if c < '0' || c > '9' {
			w.name = rest[:n]
			if !w.mysql {
				w.name = strings.ToLower(w.name)
			}
		}
	case strings.HasPrefix(rest, "::"):
		w.end = w.start + 2
	default:
		w.end = w.start + 1
	}
	if text := w.sql[w.start:w.end]; strings.TrimSpace(text) != "" {
		w.last = strings.ToLower(text)
	}
	return true
}

// column reports whether the current name may be that of a column.
func (w *words) column() bool {
	if w.before == "::" || w.before == "as" {
		return false
	}
	quoted := strings.ContainsAny(w.sql[w.start:w.start+1], "\"`")
	return quoted || !strings.HasPrefix(strings.TrimLeft(w.sql[w.end:], " \n\t"), "(")
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// closing returns the length of s up to and including the closing mark; a doubled mark, and with
// escapes one after a backslash, does not close.
func closing(s, mark string, escapes bool) int {
	for i := 0; i < len(s); {
		switch {
		case escapes && s[i] == '\\':
			i += 2
		case strings.HasPrefix(s[i:], mark+mark):
			i += 2 * len(mark)
		case strings.HasPrefix(s[i:], mark):
			return i + len(mark)
		default:
			i++
		}
	}
	return len(s)
}
