// Package sqltext reads SQL text of MySQL, MariaDB and PostgreSQL.
//
//	Dialect     the lexical rules of a text: Next returns one token, Scan all of them
//	Token       a piece of a text; all tokens concatenated are the text. Join, Find, Skip, Closing, SplitList, Said, Trim work on lists of them
//	Terms       the tokens of an expression: numbers and operators whole, strings and names as values
//	Reader      reads the tokens of a text other than blanks and comments, and resolves comments that only some servers run
//	Server      decides which of these comments a server runs
//	SpreadCasts a text as PostgreSQL shows it once it has read its own
//	Definition  the kind of an element in the list of a MySQL CREATE TABLE
//
// bytes.go has functions on the bytes of incomplete texts, for readers of files of any size.
package sqltext

import (
	"bytes"
	"strings"
)

// A Kind is the kind of a piece of SQL text.
type Kind uint8

const (
	Space   Kind = iota // blanks and line ends
	Word                // keyword, unquoted name or number
	Name                // quoted name
	String              // 'text', "text", E'text' or $$text$$
	Punct               // one character; a PostgreSQL operator has all of its characters
	Comment             // a comment that no server runs
	Open                // "/*!80023", "/*M!100301" or "/*!": servers of that version run what follows
	Close               // the "*/" that ends an Open
	End                 // of a Reader: the end of the text
	Bad                 // of a Reader and of Terms: an unclosed quote
	Number              // of Terms: 1.5e-3
)

// A Token is a piece of SQL exactly as in the text: the concatenated tokens of a text are the text.
type Token struct {
	Kind Kind
	Text string
	At   int // its offset in the text
}

// After returns the offset after the token in its text.
func (t Token) After() int { return t.At + len(t.Text) }

// A Dialect is the lexical rules of a text. The zero Dialect is that of MySQL and MariaDB by
// default, and of the output of SHOW CREATE under any sql_mode.
type Dialect struct {
	Postgres    bool // PostgreSQL; all other fields are ignored
	NoBackslash bool // a backslash in a string is an ordinary character
	AnsiQuotes  bool // "x" is a name
	Variables   bool // @ belongs to words
}

// Scan splits a text into its tokens, in the zero Dialect.
func Scan(s string) []Token { return Dialect{}.Scan(s) }

// Scan splits a text into its tokens.
func (x Dialect) Scan(s string) []Token {
	d := []byte(s)
	out := make([]Token, 0, len(s)/4+4)
	open := 0 // open versioned comments
	for i := 0; i < len(d); {
		kind, end, _ := x.Next(d, i)
		switch {
		case kind == Open:
			open++
		case kind == Close && open > 0:
			open--
		case kind == Close:
			kind, end = Punct, i+1
		}
		out = append(out, Token{kind, s[i:end], i})
		i = end
	}
	return out
}

// Next returns the kind of the token at d[i], and the index after it. whole is false if d ends
// inside a quote or comment. The "*/" that ends a comment that servers run is always a Close.
func (x Dialect) Next(d []byte, i int) (kind Kind, end int, whole bool) {
	if kind, end, whole = x.blank(d, i); end > i {
		return kind, end, whole
	}
	c := d[i]
	switch {
	case c == '\'' || c == '"' || c == '`' && !x.Postgres:
		if c == '`' || c == '"' && (x.AnsiQuotes || x.Postgres) {
			return quoted(d, i, Name, false)
		}
		return quoted(d, i, String, !x.NoBackslash && !x.Postgres)
	case x.Postgres && c == '$':
		if end, whole = dollarEnd(d, i); end > i {
			return String, end, whole
		}
		fallthrough
	case words[c], c == '@' && x.Variables:
		for end = i + 1; end < len(d) && (words[d[end]] || d[end] == '@' && x.Variables); end++ {
		}
		if x.Postgres && end == i+1 && c|0x20 == 'e' && end < len(d) && d[end] == '\'' {
			return quoted(d, end, String, true)
		}
		return Word, end, true
	case x.Postgres:
		return Punct, operatorEnd(d, i), true
	}
	return Punct, i + 1, true
}

// blank returns the kind and end of the blank or comment at d[i]; end is i if there is none.
func (x Dialect) blank(d []byte, i int) (kind Kind, end int, whole bool) {
	c, next := d[i], byte(0)
	if i+1 < len(d) {
		next = d[i+1]
	}
	switch {
	case spaces[c]:
		for end = i + 1; end < len(d) && spaces[d[end]]; end++ {
		}
		return Space, end, true
	case c == '#' && !x.Postgres, c == '-' && next == '-' && (x.Postgres || i+2 >= len(d) || d[i+2] <= ' '):
		end, _ = LineEnd(d, i)
		return Comment, end, true
	case c == '*' && next == '/' && !x.Postgres:
		return Close, i + 2, true
	case c != '/' || next != '*':
		return Space, i, true
	case x.Postgres:
		end, whole = blockEnd(d, i+2)
		return Comment, end, whole
	}
	if _, _, end = Condition(d, i); end > 0 {
		return Open, end, true
	}
	if end, whole = BlockEnd(d, i); !whole {
		end = len(d)
	}
	return Comment, end, whole
}

// quoted returns the end of the quoted text that opens at d[i].
func quoted(d []byte, i int, kind Kind, esc bool) (Kind, int, bool) {
	end, whole := QuoteEnd(d, i+1, d[i], esc)
	switch {
	case whole:
	case end == len(d)-1 && d[end] == d[i]: // the last byte closes it
		end, whole = len(d), true
	default:
		end = len(d)
	}
	return kind, end, whole
}

// dollarEnd returns the index after the $tag$text$tag$ at d[i]; i if none begins there.
func dollarEnd(d []byte, i int) (end int, whole bool) {
	j := i + 1
	for j < len(d) && d[j] != '$' && words[d[j]] {
		j++
	}
	if j == len(d) || d[j] != '$' || d[i+1] >= '0' && d[i+1] <= '9' {
		return i, true
	}
	tag := d[i : j+1]
	n := bytes.Index(d[j+1:], tag)
	if n < 0 {
		return len(d), false
	}
	return j + 1 + n + len(tag), true
}

// operatorEnd returns the index after the PostgreSQL operator at d[i]; i+1 if there is none. A
// comment ends it.
func operatorEnd(d []byte, i int) int {
	end := i
	for end < len(d) && strings.IndexByte("+-*/<>=~!@#%^&|?:", d[end]) >= 0 && !(end > i && end+1 < len(d) && (d[end] == '-' && d[end+1] == '-' || d[end] == '/' && d[end+1] == '*')) {
		end++
	}
	return max(end, i+1)
}

// Join concatenates tokens.
func Join(tokens []Token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(t.Text)
	}
	return b.String()
}

// Name returns the name in a token, quoted or not.
func (t Token) Name() string {
	if t.Kind == Name && len(t.Text) >= 2 {
		q := t.Text[:1]
		return strings.ReplaceAll(t.Text[1:len(t.Text)-1], q+q, q)
	}
	return t.Text
}

// Is reports whether a token is this keyword or punctuation.
func (t Token) Is(word string) bool {
	return (t.Kind == Word || t.Kind == Punct) && strings.EqualFold(t.Text, word)
}

// Punct reports whether a token is this character.
func (t Token) Punct(c byte) bool { return t.Kind == Punct && t.Text[0] == c }

// Skip returns the index of the first token from i on that is not a blank or comment.
func Skip(tokens []Token, i int) int {
	for i < len(tokens) && (tokens[i].Kind == Space || tokens[i].Kind == Comment) {
		i++
	}
	return i
}

// At returns the token at index i, or an empty one beyond the end.
func At(tokens []Token, i int) Token {
	if i >= 0 && i < len(tokens) {
		return tokens[i]
	}
	return Token{}
}

// Closing returns the index of the ")" that belongs to the "(" at index open, or the number of
// tokens if there is none.
func Closing(tokens []Token, open int) int {
	depth := 0
	for i := open; i < len(tokens); i++ {
		if tokens[i].Punct('(') {
			depth++
		} else if tokens[i].Punct(')') {
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(tokens)
}

// Find returns the index of a keyword outside parentheses, or -1.
func Find(tokens []Token, word string) int {
	depth := 0
	for i, t := range tokens {
		switch {
		case t.Punct('('):
			depth++
		case t.Punct(')'):
			depth--
		case depth == 0 && t.Is(word):
			return i
		}
	}
	return -1
}

// SplitList splits tokens at commas outside parentheses and brackets.
func SplitList(tokens []Token) [][]Token {
	var out [][]Token
	depth, from := 0, 0
	for i, t := range tokens {
		switch {
		case t.Punct('('), t.Punct('['):
			depth++
		case t.Punct(')'), t.Punct(']'):
			depth--
		case t.Punct(',') && depth == 0:
			out = append(out, Trim(tokens[from:i]))
			from = i + 1
		}
	}
	if rest := Trim(tokens[from:]); len(rest) > 0 || len(out) > 0 {
		out = append(out, rest)
	}
	return out
}

// Said returns all tokens except blanks, comments and the marks of comments that servers run.
func Said(tokens []Token) []Token {
	out := make([]Token, 0, len(tokens))
	for _, t := range tokens {
		switch t.Kind {
		case Space, Comment, Open, Close:
		default:
			out = append(out, t)
		}
	}
	return out
}

// Trim removes blanks at both ends.
func Trim(tokens []Token) []Token {
	for len(tokens) > 0 && tokens[0].Kind == Space {
		tokens = tokens[1:]
	}
	for len(tokens) > 0 && tokens[len(tokens)-1].Kind == Space {
		tokens = tokens[:len(tokens)-1]
	}
	return tokens
}

// BareString returns the value of an expression of MySQL or MariaDB that is nothing but a string,
// such as (_utf8mb4'it\'s'); false if it is something else.
func BareString(expr string) (value string, is bool) {
	for _, t := range Scan(expr) {
		switch {
		case t.Kind == Space, t.Punct('('), t.Punct(')'), !is && t.Kind == Word && t.Text[0] == '_':
		case !is && t.Kind == String && t.Text[0] == '\'':
			value, is = Unquote(t.Text, true), true
		default:
			return "", false
		}
	}
	return value, is
}
