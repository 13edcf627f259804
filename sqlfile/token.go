package sqlfile

import (
	"bytes"
	"strconv"
	"strings"
)

// A Server says whose conditional comments a file is read with: /*!50705 x */ is
// x on a MySQL of 5.7.5 and later, and nothing on any MariaDB. The zero Server
// executes all of them.
type Server struct {
	MariaDB bool
	Version int // 80033, 101114; 0 is newer than any
}

// executes reports whether the content of a conditional comment is seen.
func (v Server) executes(maria bool, version int) bool {
	switch {
	case version >= 999999:
		return false // a message to the client program
	case v.Version == 0:
		return true
	case maria && !v.MariaDB:
		return false
	case v.MariaDB && !maria && version >= 50700 && version <= 99999:
		return false // MariaDB leaves these to MySQL
	}
	return version <= v.Version
}

type tokenKind uint8

const (
	tEnd    tokenKind = iota
	tWord             // unquoted name, keyword, number
	tName             // `name` or "name"
	tString           // 'text'
	tPunct            // one byte
	tBad              // a quote without its end
)

// A token of a statement that is not an INSERT.
type token struct {
	kind       tokenKind
	start, end int
}

// A lexer cuts a whole statement into tokens.
type lexer struct {
	d      []byte
	i      int
	server Server
	esc    bool // backslash escapes in strings
	ansi   bool // "x" is a name
}

// next gives the next token; comments and the marks of conditional comments that
// are executed are passed over.
func (l *lexer) next() token {
	for l.i < len(l.d) {
		c := l.d[l.i]
		if space[c] {
			l.i++
			continue
		}
		if j, ok := l.pass(); ok {
			l.i = j
			continue
		}
		start := l.i
		switch {
		case c == '\'' || c == '"' || c == '`':
			name := c == '`' || c == '"' && l.ansi
			end, ok := stringEnd(l.d, l.i+1, c, l.esc && !name)
			if !ok && (end != len(l.d)-1 || l.d[end] != c) {
				l.i = len(l.d)
				return token{tBad, start, l.i}
			}
			if !ok {
				end = len(l.d)
			}
			l.i = end
			if name {
				return token{tName, start, end}
			}
			return token{tString, start, end}
		case word[c]:
			for l.i < len(l.d) && word[l.d[l.i]] {
				l.i++
			}
			return token{tWord, start, l.i}
		}
		l.i++
		return token{tPunct, start, l.i}
	}
	return token{tEnd, len(l.d), len(l.d)}
}

// pass passes over a comment, or a mark of a conditional one.
func (l *lexer) pass() (int, bool) {
	d, i := l.d, l.i
	if d[i] == '/' && i+2 < len(d) && d[i+1] == '*' && (d[i+2] == '!' || d[i+2] == 'M') {
		maria, version, j := condition(d, i)
		if j > 0 {
			if l.server.executes(maria, version) {
				return j, true
			}
			return skipCondition(d, j), true
		}
	}
	j, ok := comment(d, i)
	if !ok { // the text ends inside the comment, or right after a byte that might begin one
		if d[i] == '#' || d[i] == '-' && i+1 < len(d) && d[i+1] == '-' || d[i] == '/' && i+1 < len(d) && d[i+1] == '*' {
			return len(d), true
		}
		return i, false
	}
	return j, j > i
}

// condition reads /*!NNNNN or /*M!NNNNNN at d[i]; end is 0 if it is neither.
func condition(d []byte, i int) (maria bool, version, end int) {
	j := i + 2
	if j < len(d) && d[j] == 'M' {
		maria = true
		j++
	}
	if j >= len(d) || d[j] != '!' {
		return false, 0, 0
	}
	j++
	k := j
	for k < len(d) && k < j+6 && d[k] >= '0' && d[k] <= '9' {
		k++
	}
	version, _ = strconv.Atoi(string(d[j:k]))
	return maria, version, k
}

// skipCondition gives the index after the */ that ends a comment that is not
// executed; comments inside it nest.
func skipCondition(d []byte, i int) int {
	for depth := 1; i < len(d); i++ {
		switch {
		case d[i] == '/' && i+1 < len(d) && d[i+1] == '*':
			depth++
			i++
		case d[i] == '*' && i+1 < len(d) && d[i+1] == '/':
			i++
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(d)
}

// text gives the bytes of a token as they stand.
func (l *lexer) text(t token) []byte { return l.d[t.start:t.end] }

// is reports whether t is the keyword w (upper case) or the punctuation w.
func (l *lexer) is(t token, w string) bool {
	return (t.kind == tWord || t.kind == tPunct) && fold(l.text(t), w)
}

// peek gives the next token without taking it.
func (l *lexer) peek() token {
	at := l.i
	t := l.next()
	l.i = at
	return t
}

// accept takes the next token if it is w.
func (l *lexer) accept(w string) bool {
	at := l.i
	if l.is(l.next(), w) {
		return true
	}
	l.i = at
	return false
}

// acceptAll takes the next tokens if they are these words.
func (l *lexer) acceptAll(words ...string) bool {
	at := l.i
	for _, w := range words {
		if !l.is(l.next(), w) {
			l.i = at
			return false
		}
	}
	return true
}

// ident gives the name that t is, without its quotes.
func (l *lexer) ident(t token) (string, bool) {
	b := l.text(t)
	switch t.kind {
	case tWord:
		return string(b), true
	case tName:
		return unquoteName(b), true
	case tString: // some versions quote aliases and names of columns so
		return l.str(t), true
	}
	return "", false
}

// unquoteName takes the quotes off `a“b` or "a""b".
func unquoteName(b []byte) string {
	q := string(b[:1])
	return strings.ReplaceAll(string(b[1:len(b)-1]), q+q, q)
}

// str gives the value of a string token.
func (l *lexer) str(t token) string {
	return string(unquote(nil, l.text(t), l.esc))
}

// unquote appends the value of the string literal lit, quotes included, to dst.
func unquote(dst, lit []byte, esc bool) []byte {
	if len(lit) < 2 {
		return dst
	}
	q := lit[0]
	for i := 1; i < len(lit)-1; i++ {
		c := lit[i]
		switch {
		case c == q:
			i++
		case c == '\\' && esc && i+1 < len(lit)-1:
			i++
			dst = appendEscape(dst, lit[i])
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

// appendEscape appends what a backslash and c stand for in a string.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '0':
		return append(dst, 0)
	case 'b':
		return append(dst, '\b')
	case 'n':
		return append(dst, '\n')
	case 'r':
		return append(dst, '\r')
	case 't':
		return append(dst, '\t')
	case 'Z':
		return append(dst, 0x1a)
	case '%', '_':
		return append(dst, '\\', c)
	}
	return append(dst, c)
}

// parens passes over a group; the ( was taken. It gives the index of its ).
func (l *lexer) parens() (int, bool) {
	for depth := 1; ; {
		switch t := l.next(); {
		case t.kind == tEnd || t.kind == tBad:
			return 0, false
		case l.is(t, "("):
			depth++
		case l.is(t, ")"):
			if depth--; depth == 0 {
				return t.start, true
			}
		}
	}
}

// squeeze gives SQL text with its conditional comments resolved and each run of
// spaces and comments outside quotes as one space.
func squeeze(d []byte, server Server, esc bool) string {
	l := lexer{d: d, server: server, esc: esc}
	var b bytes.Buffer
	last := 0
	for {
		t := l.next()
		if t.kind == tEnd || t.kind == tBad {
			return b.String()
		}
		if b.Len() > 0 && t.start > last {
			b.WriteByte(' ')
		}
		b.Write(l.text(t))
		last = t.end
	}
}
