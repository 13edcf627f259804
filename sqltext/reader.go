package sqltext

import (
	"bytes"
	"strings"
)

// message is the version of comments for client programs, which no server runs.
const message = 999999

// A Server decides which versioned comments are run: /*!50705 x */ is x on MySQL 5.7.5 and later,
// and nothing on any MariaDB. The zero Server runs all of them.
type Server struct {
	MariaDB bool
	Version int // 80033, 101114; 0: newer than any
}

// Runs reports whether the server runs the content of a comment with this opening: "/*!80023",
// "/*M!100301".
func (v Server) Runs(open string) bool {
	maria, version, _ := Condition([]byte(open), 0)
	switch {
	case version == message:
		return false
	case v.Version == 0:
		return true
	case maria && !v.MariaDB:
		return false
	case v.MariaDB && !maria && version >= 50700 && version <= 99999:
		return false // MariaDB leaves these to MySQL, which has other features
	}
	return version <= v.Version
}

// A Reader reads the tokens of a text. It skips blanks, comments and the marks of comments that its
// Server runs.
type Reader struct {
	Text []byte
	At   int // offset of the unread text
	Dialect
	Server Server
	// Attributes reads attributes such as INVISIBLE also from comments that Server does not run.
	Attributes bool

	last     Token // the last result of Next: read from offset from, followed by offset to
	from, to int
}

// Next reads the next token; after the end of the text, each call returns one of Kind End.
func (r *Reader) Next() Token {
	if r.At == r.from && r.to > r.from { // peeked at
		r.At = r.to
		return r.last
	}
	r.from, r.to = r.At, 0
	r.Skip()
	if r.At >= len(r.Text) {
		return Token{Kind: End, At: len(r.Text)}
	}
	at := r.At
	kind, end, whole := r.Dialect.Next(r.Text, at)
	if !whole {
		kind = Bad
	}
	r.At, r.to = end, end
	r.last = Token{kind, string(r.Text[at:end]), at}
	return r.last
}

// Skip skips to the next token.
func (r *Reader) Skip() {
	for r.At < len(r.Text) {
		kind, end, _ := r.blank(r.Text, r.At)
		if end == r.At {
			return
		}
		if kind == Open && !r.Server.Runs(string(r.Text[r.At:end])) {
			if after, _ := blockEnd(r.Text, end); !r.Attributes || !attribute.Match(r.Text[end:after]) {
				end = after
			}
		}
		r.At = end
	}
}

// Peek returns the next token without consuming it.
func (r *Reader) Peek() Token {
	at := r.At
	t := r.Next()
	r.At = at
	return t
}

// Accept consumes the next tokens if they are these words, and reports whether they are.
func (r *Reader) Accept(words ...string) bool {
	at := r.At
	for _, w := range words {
		if !r.Next().Is(w) {
			r.At = at
			return false
		}
	}
	return true
}

// Ident returns the name in t, without its quotes; some versions quote aliases and column names as
// strings.
func (r *Reader) Ident(t Token) (string, bool) {
	switch t.Kind {
	case Word, Name:
		return t.Name(), true
	case String:
		return r.Value(t), true
	}
	return "", false
}

// Value returns the value of a string.
func (r *Reader) Value(t Token) string { return Unquote(t.Text, !r.NoBackslash && !r.Postgres) }

// Close reads the rest of a group whose ( was read, and returns the offset of its ).
func (r *Reader) Close() (int, bool) {
	for depth := 1; ; {
		switch t := r.Next(); {
		case t.Kind == End || t.Kind == Bad:
			return 0, false
		case t.Punct('('):
			depth++
		case t.Punct(')'):
			if depth--; depth == 0 {
				return t.At, true
			}
		}
	}
}

// Squeeze returns the text between two offsets with its comments resolved, and each run of blanks
// and comments outside quotes replaced by one blank.
func (r *Reader) Squeeze(from, to int) string {
	in := &Reader{Text: r.Text[from:to], Dialect: r.Dialect, Server: r.Server}
	var b bytes.Buffer
	for last := 0; ; {
		t := in.Next()
		if t.Kind == End || t.Kind == Bad {
			return b.String()
		}
		if b.Len() > 0 && t.At > last {
			b.WriteByte(' ')
		}
		b.WriteString(t.Text)
		last = t.After()
	}
}

// Unquote returns the value of a quoted MySQL string; esc reports whether backslashes escape.
func Unquote(s string, esc bool) string {
	if len(s) < 2 {
		return ""
	}
	q, s := s[0], s[1:len(s)-1]
	if strings.IndexByte(s, q) < 0 && strings.IndexByte(s, '\\') < 0 {
		return s
	}
	return string(AppendUnquoted(make([]byte, 0, len(s)), []byte(s), q, esc))
}

// AppendUnquoted appends the value of a string's content; q is its closing quote.
func AppendUnquoted(dst, inside []byte, q byte, esc bool) []byte {
	for i := 0; i < len(inside); i++ {
		c := inside[i]
		switch {
		case c == q:
			i++
		case c == '\\' && esc && i+1 < len(inside):
			i++
			dst = AppendEscaped(dst, inside[i])
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
