package mysql

import "strings"

// A tokenKind says what a piece of SQL text is.
type tokenKind uint8

const (
	spaceToken   tokenKind = iota // blanks and line ends
	wordToken                     // keyword, unquoted name or number
	nameToken                     // `quoted` name
	stringToken                   // 'text' or "text"
	punctToken                    // one character
	commentToken                  // a comment that no server runs
	openToken                     // "/*!80023", "/*M!100301" or "/*!": what follows is run by servers of that version
	closeToken                    // the "*/" that ends it
)

// A token is a piece of SQL as it stands in the text: the tokens of a text,
// put together, are the text.
type token struct {
	kind tokenKind
	text string
}

// scanSQL parts the text of statements as SHOW CREATE gives them, and of the
// bodies of stored programs. Backslashes are escapes in strings, as they are in
// SHOW CREATE whatever the sql_mode.
func scanSQL(s string) []token {
	out := make([]token, 0, len(s)/4+4)
	open := 0 // versioned comments that are open
	for i := 0; i < len(s); {
		kind, n := scanToken(s[i:], open > 0)
		switch kind {
		case openToken:
			open++
		case closeToken:
			open--
		}
		out = append(out, token{kind, s[i : i+n]})
		i += n
	}
	return out
}

// scanToken gives the kind and length of the token that s begins with.
func scanToken(s string, versioned bool) (tokenKind, int) {
	c := s[0]
	switch {
	case c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
		n := 1
		for n < len(s) && strings.IndexByte(" \n\t\r\f\v", s[n]) >= 0 {
			n++
		}
		return spaceToken, n
	case c == '`':
		return nameToken, quotedLen(s, false)
	case c == '\'' || c == '"':
		return stringToken, quotedLen(s, true)
	case c == '#':
		return commentToken, lineLen(s)
	case c == '-' && strings.HasPrefix(s, "--") && (len(s) == 2 || s[2] <= ' '):
		return commentToken, lineLen(s)
	case c == '*' && versioned && strings.HasPrefix(s, "*/"):
		return closeToken, 2
	case c == '/' && strings.HasPrefix(s, "/*"):
		if n := openLen(s); n > 0 {
			return openToken, n
		}
		if end := strings.Index(s[2:], "*/"); end >= 0 {
			return commentToken, end + 4
		}
		return commentToken, len(s)
	case isWordByte(c):
		n := 1
		for n < len(s) && isWordByte(s[n]) {
			n++
		}
		return wordToken, n
	}
	return punctToken, 1
}

func isWordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c >= 0x80
}

// openLen gives the length of "/*!", "/*!NNNNN" or "/*M!NNNNNN"; 0 if s begins
// with an ordinary comment.
func openLen(s string) int {
	n := 2
	if n < len(s) && s[n] == 'M' {
		n++
	}
	if n >= len(s) || s[n] != '!' {
		return 0
	}
	for n++; n < len(s) && s[n] >= '0' && s[n] <= '9'; n++ {
	}
	return n
}

func lineLen(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n + 1
	}
	return len(s)
}

// quotedLen gives the length of the quoted thing that s begins with; the quote
// is doubled inside, or escaped where that is possible.
func quotedLen(s string, escapes bool) int {
	q := s[0]
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && escapes:
			i++
		case s[i] != q:
		case i+1 < len(s) && s[i+1] == q:
			i++
		default:
			return i + 1
		}
	}
	return len(s)
}

// join puts tokens together again.
func join(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(t.text)
	}
	return b.String()
}

// name gives the name that a token spells, quoted or not.
func (t token) name() string {
	if t.kind == nameToken && len(t.text) >= 2 {
		return strings.ReplaceAll(t.text[1:len(t.text)-1], "``", "`")
	}
	return t.text
}

// is reports whether a token is this keyword.
func (t token) is(word string) bool { return t.kind == wordToken && strings.EqualFold(t.text, word) }

// punct reports whether a token is this character.
func (t token) punct(c byte) bool { return t.kind == punctToken && t.text[0] == c }

// skip gives the index of the first token from i on that says something.
func skip(tokens []token, i int) int {
	for i < len(tokens) && (tokens[i].kind == spaceToken || tokens[i].kind == commentToken) {
		i++
	}
	return i
}

// at gives the token at index i, or an empty one beyond the end.
func at(tokens []token, i int) token {
	if i >= 0 && i < len(tokens) {
		return tokens[i]
	}
	return token{}
}

// closing gives the index of the ")" that belongs to the "(" at index open, or
// the number of tokens if there is none.
func closing(tokens []token, open int) int {
	depth := 0
	for i := open; i < len(tokens); i++ {
		if tokens[i].punct('(') {
			depth++
		} else if tokens[i].punct(')') {
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(tokens)
}

// splitList parts tokens at the commas outside of parentheses.
func splitList(tokens []token) [][]token {
	var out [][]token
	depth, from := 0, 0
	for i, t := range tokens {
		switch {
		case t.punct('('):
			depth++
		case t.punct(')'):
			depth--
		case t.punct(',') && depth == 0:
			out = append(out, trimTokens(tokens[from:i]))
			from = i + 1
		}
	}
	if rest := trimTokens(tokens[from:]); len(rest) > 0 || len(out) > 0 {
		out = append(out, rest)
	}
	return out
}

// trimTokens cuts blanks at both ends.
func trimTokens(tokens []token) []token {
	for len(tokens) > 0 && tokens[0].kind == spaceToken {
		tokens = tokens[1:]
	}
	for len(tokens) > 0 && tokens[len(tokens)-1].kind == spaceToken {
		tokens = tokens[:len(tokens)-1]
	}
	return tokens
}

// unquoteString gives the value of a string constant, quotes and all.
func unquoteString(s string) string {
	if len(s) < 2 {
		return s
	}
	q, s := s[0], s[1:len(s)-1]
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == q && i+1 < len(s):
			i++
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'r':
				c = '\r'
			case 'b':
				c = '\b'
			case '0':
				c = 0
			case 'Z':
				c = 26
			default:
				c = s[i]
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}
