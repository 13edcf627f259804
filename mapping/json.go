package mapping

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
)

// maxDepth bounds how deep JSON may be nested.
const maxDepth = 64

// parseJSON reads a JSON text as people write it for DMS. Beyond the standard it accepts, with a
// Warning each, comments, typographic quotation marks around strings and a comma before a closing
// bracket; it ignores a byte order mark. Anything else is an Error of Kind BadInput with line and
// column.
func parseJSON(text []byte, p *problems) (*node, error) {
	j := &jsonReader{s: strings.TrimPrefix(string(text), "\ufeff"), line: 1, p: p}
	n, err := j.value(0)
	if err == nil {
		j.space()
		if j.at < len(j.s) {
			err = j.broken("something follows the end of the JSON text")
		}
	}
	if err != nil {
		return nil, err
	}
	if j.comment > 0 {
		p.warn(fmt.Sprintf("line %d", j.comment), "", "comments are not JSON; they are ignored")
	}
	if j.curly > 0 {
		p.warn(fmt.Sprintf("line %d", j.curly), "", "typographic quotation marks are read as plain ones")
	}
	if j.comma > 0 {
		p.warn(fmt.Sprintf("line %d", j.comma), "", "a comma before a closing bracket is not JSON; it is ignored")
	}
	return n, nil
}

type jsonReader struct {
	s    string
	at   int
	line int // of the present position
	bol  int // offset of the line's first byte
	p    *problems

	comment, curly, comma int // line where each was first seen
}

// place returns only the line: counting the columns of a file that is one long line would take
// quadratic time.
func (j *jsonReader) place() place { return place{line: j.line} }

func (j *jsonReader) broken(format string, args ...any) error {
	column := utf8.RuneCountInString(j.s[j.bol:j.at]) + 1
	return &tidemark.Error{Kind: tidemark.BadInput, Op: j.p.op, Object: fmt.Sprintf("line %d, column %d", j.line, column), Err: fmt.Errorf(format, args...), Hint: "Correct the JSON text at that position."}
}

// space skips white space and comments.
func (j *jsonReader) space() {
	for j.at < len(j.s) {
		rest := j.s[j.at:]
		switch {
		case rest[0] == '\n':
			j.newline()
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			j.at++
		case strings.HasPrefix(rest, "\u00a0"): // pasted along with samples from a web page
			j.at += len("\u00a0")
		case strings.HasPrefix(rest, "//"):
			j.note(&j.comment)
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				j.at += end
			} else {
				j.at = len(j.s)
			}
		case strings.HasPrefix(rest, "/*"):
			j.note(&j.comment)
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return // the caller finds no value at the /
			}
			for stop := j.at + end + 4; j.at < stop; {
				if j.s[j.at] == '\n' {
					j.newline()
				} else {
					j.at++
				}
			}
		default:
			return
		}
	}
}

func (j *jsonReader) newline() {
	j.at++
	j.line, j.bol = j.line+1, j.at
}

func (j *jsonReader) note(first *int) {
	if *first == 0 {
		*first = j.line
	}
}

// next skips space and returns the byte that follows, 0 at the end.
func (j *jsonReader) next() byte {
	j.space()
	if j.at == len(j.s) {
		return 0
	}
	return j.s[j.at]
}

func (j *jsonReader) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, j.broken("nested more than %d deep", maxDepth)
	}
	c := j.next()
	n := &node{place: j.place()}
	switch {
	case c == 0:
		return nil, j.broken("the JSON text ends too early")
	case c == '{':
		n.kind = object
		return n, j.members(n, depth)
	case c == '[':
		n.kind = list
		return n, j.elements(n, depth)
	case c == '"' || j.typographic() > 0:
		var err error
		n.text, err = j.text()
		return n, err
	}
	word := j.word()
	switch {
	case word == "null":
		n.kind = null
	case word != "" && json.Valid([]byte(word)):
		n.kind, n.text = plain, word
	default:
		return nil, j.broken("expected a value, not %s", j.shown(word))
	}
	j.at += len(word)
	return n, nil
}

// word returns the letters, digits and signs at the present position.
func (j *jsonReader) word() string {
	rest := j.s[j.at:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '+' || r == '-' || r == '.' || r == '_')
	})
	if end < 0 {
		return rest
	}
	return rest[:end]
}

func (j *jsonReader) shown(word string) string {
	if word != "" {
		return fmt.Sprintf("%.20q", word)
	}
	r, _ := utf8.DecodeRuneInString(j.s[j.at:])
	return fmt.Sprintf("%q", r)
}

func (j *jsonReader) elements(n *node, depth int) error {
	j.at++
	for {
		if j.next() == ']' {
			break
		}
		it, err := j.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, it)
		if more, err := j.more(']'); err != nil || !more {
			return err
		}
	}
	j.at++
	return nil
}

func (j *jsonReader) members(n *node, depth int) error {
	j.at++
	for {
		c := j.next()
		if c == '}' {
			break
		}
		m := member{place: j.place()}
		if c != '"' && j.typographic() == 0 {
			if c == 0 {
				return j.broken("the JSON text ends inside an object")
			}
			return j.broken("expected a key in quotation marks, not %s", j.shown(j.word()))
		}
		var err error
		if m.key, err = j.text(); err != nil {
			return err
		}
		if j.next() != ':' {
			return j.broken("expected a colon after the key %.40q", m.key)
		}
		j.at++
		if m.value, err = j.value(depth + 1); err != nil {
			return err
		}
		n.members = append(n.members, m)
		if more, err := j.more('}'); err != nil || !more {
			return err
		}
	}
	j.at++
	return nil
}

// more skips the comma after an element, or the closing bracket, and reports whether it was a
// comma. The caller detects a closing bracket after a comma.
func (j *jsonReader) more(closing byte) (bool, error) {
	switch j.next() {
	case ',':
		j.at++
		if j.next() == closing {
			j.note(&j.comma)
		}
		return true, nil
	case closing:
		j.at++
		return false, nil
	case 0:
		return false, j.broken("the JSON text ends before its closing %c", closing)
	}
	return false, j.broken("expected a comma or %c, not %s", closing, j.shown(j.word()))
}

// typographic returns the length of the typographic quotation mark at the present position, 0 if
// there is none.
func (j *jsonReader) typographic() int {
	for _, q := range []string{"\u201c", "\u201d", "\u201e", "\u201f"} {
		if strings.HasPrefix(j.s[j.at:], q) {
			return len(q)
		}
	}
	return 0
}

// text reads a string. One that begins with a typographic mark ends at the next quotation mark of
// any kind; in one that begins with a plain mark, typographic ones are ordinary characters.
func (j *jsonReader) text() (string, error) {
	n := j.typographic()
	curly := n > 0
	if curly {
		j.note(&j.curly)
	} else {
		n = 1
	}
	start := j.at
	j.at += n
	begin := j.at
	for j.at < len(j.s) {
		c := j.s[j.at]
		n = 0
		switch {
		case c == '"':
			n = 1
		case c == '\\':
			j.at += min(2, len(j.s)-j.at)
			continue
		case c < ' ':
			return "", j.broken("a line break or control character inside a string")
		case curly:
			n = j.typographic()
		}
		if n == 0 {
			j.at++
			continue
		}
		var out string
		raw := j.s[begin:j.at]
		if err := json.Unmarshal([]byte(`"`+raw+`"`), &out); err != nil {
			return "", j.broken("an invalid escape in the string %.40q", raw)
		}
		j.at += n
		return out, nil
	}
	j.at = start
	return "", j.broken("a string that is never closed")
}
