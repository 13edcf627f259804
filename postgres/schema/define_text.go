package schema

import (
	"slices"
	"strings"
)

// What follows reads SQL as this package and the server's pg_get_ functions write it, not
// SQL in general.

// quotedEnd gives the index behind the quoted text that begins at i; i where none does.
func quotedEnd(s string, i int) int {
	switch s[i] {
	case '\'', '"':
		for j := i + 1; j < len(s); j++ {
			if s[j] == s[i] {
				if j+1 < len(s) && s[j+1] == s[i] {
					j++
					continue
				}
				return j + 1
			}
		}
		return len(s)
	case '$':
		end := strings.IndexByte(s[i+1:], '$')
		if end < 0 || strings.ContainsAny(s[i+1:i+1+end], " \n(),;") {
			return i
		}
		tag := s[i : i+end+2]
		if close := strings.Index(s[i+len(tag):], tag); close >= 0 {
			return i + len(tag) + close + len(tag)
		}
	}
	return i
}

// outside calls f at each byte that is in no quotes, with the depth of parentheses and
// brackets before it. f gives the index to go on at, or -1 to stop.
func outside(s string, f func(i, depth int) int) {
	depth := 0
	for i := 0; i < len(s); {
		if end := quotedEnd(s, i); end > i {
			next := f(i, depth)
			if next < 0 {
				return
			}
			i = max(end, next)
			continue
		}
		next := f(i, depth)
		if next < 0 {
			return
		}
		switch s[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		i = max(i+1, next)
	}
}

// splitList parts a list at its commas.
func splitList(s string) []string {
	var out []string
	from := 0
	outside(s, func(i, depth int) int {
		if depth == 0 && s[i] == ',' {
			out = append(out, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
		return i
	})
	if rest := strings.TrimSpace(s[from:]); rest != "" {
		out = append(out, rest)
	}
	return out
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 || c == '$'
}

// wordAt gives the word that begins at i and does not continue one.
func wordAt(s string, i int) string {
	if !wordByte(s[i]) || i > 0 && wordByte(s[i-1]) {
		return ""
	}
	j := i
	for j < len(s) && wordByte(s[j]) {
		j++
	}
	return s[i:j]
}

// clauses parts s before each of the words, where they stand outside of parentheses and of
// CASE ... END. What is before the first one is the first clause.
func clauses(s string, words ...string) []string {
	var out []string
	from, cases := 0, 0
	last := ""
	outside(s, func(i, depth int) int {
		w := wordAt(s, i)
		if w == "" || depth > 0 {
			return i
		}
		switch {
		case w == "CASE":
			cases++
		case w == "END" && cases > 0:
			cases--
		case cases == 0 && slices.Contains(words, w) && last != "BY":
			out = append(out, strings.TrimSpace(s[from:i]))
			from = i
		}
		last = w
		return i + len(w)
	})
	return append(out, strings.TrimSpace(s[from:]))
}

// cutIdent parts s behind the name, qualified or not, that it begins with.
func cutIdent(s string) (name, rest string) {
	i := 0
	for i < len(s) {
		if s[i] == '"' {
			i = quotedEnd(s, i)
		} else {
			for i < len(s) && wordByte(s[i]) {
				i++
			}
		}
		if i >= len(s) || s[i] != '.' {
			break
		}
		i++
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// inner gives what is in the parentheses that s begins with, and what is behind them.
func inner(s string) (in, rest string) {
	if s == "" || s[0] != '(' {
		return "", s
	}
	end := len(s)
	outside(s, func(i, depth int) int {
		if depth == 1 && s[i] == ')' {
			end = i
			return -1
		}
		return i
	})
	if end == len(s) {
		return s[1:], ""
	}
	return s[1:end], strings.TrimSpace(s[end+1:])
}

// renameIn puts a name in the place of another one, wherever that stands alone.
func renameIn(s, from, to string) string {
	var b strings.Builder
	at := 0
	outside(s, func(i, _ int) int {
		var name string
		if s[i] == '"' {
			name = s[i:quotedEnd(s, i)]
		} else {
			name = wordAt(s, i)
		}
		if name == from {
			b.WriteString(s[at:i])
			b.WriteString(to)
			at = i + len(name)
		}
		return i + len(name)
	})
	b.WriteString(s[at:])
	return b.String()
}

// loosely gives a text without what versions and engines write differently and mean alike:
// parentheses, casts, qualified columns, blanks, quotes of names, case.
func loosely(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\'':
			end := quotedEnd(s, i)
			b.WriteString(s[i:end])
			i = end
		case strings.HasPrefix(s[i:], "::"):
			_, rest := cutIdent(s[i+2:])
			for _, word := range []string{"varying", "precision", "with time zone", "without time zone"} {
				rest = strings.TrimPrefix(rest, word)
			}
			i = len(s) - len(rest)
			if i < len(s) && s[i] == '(' {
				_, rest = inner(s[i:])
				i = len(s) - len(rest)
			}
		case c == '"' || c == '`' || c == '(' || c == ')' || c == ' ' || c == '\n' || c == '\t':
			i++
		case wordByte(c):
			w := wordAt(s, i)
			if w == "" {
				w = s[i : i+1]
			}
			if i += len(w); i < len(s) && s[i] == '.' {
				i++ // a qualifier
				continue
			}
			b.WriteString(strings.ToLower(w) + " ")
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}
