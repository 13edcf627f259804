package screen

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark/sqltext"
)

// Plain makes a writer that shows what it gets as text and nothing else: names, values, labels and
// the errors of servers may contain sequences that move the cursor, ring, or reverse the direction
// of what follows. Such characters are written as \u001b, which means the same in JSON, where they
// stand in strings only. Newlines and tabs pass: names that may have some are printed by Printf or
// Line. A Terminal is plain already.
func Plain(w io.Writer) io.Writer {
	if _, is := w.(*Terminal); is {
		return w
	}
	return &plain{out: w}
}

// plain is the writer of Plain.
type plain struct {
	out  io.Writer
	tail []byte // of what was written: a character that is not complete
}

func (p *plain) Write(b []byte) (int, error) {
	text := b
	if len(p.tail) > 0 {
		text = append(p.tail, b...)
	}
	text, tail := whole(text)
	p.tail = bytes.Clone(tail)
	if _, err := p.out.Write(escaped(text)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Fd is the file's below, for those who ask for its width.
func (p *plain) Fd() uintptr {
	if f, is := p.out.(*os.File); is {
		return f.Fd()
	}
	return ^uintptr(0)
}

// whole separates a character at the end of a text that is not complete: the next text has the
// rest. So is a carriage return, since only that before a newline passes.
func whole(text []byte) (_, tail []byte) {
	if n := len(text); n > 0 && text[n-1] == '\r' {
		return text[:n-1], text[n-1:]
	}
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if text[at] >= utf8.RuneSelf && !utf8.FullRune(text[at:]) {
				return text[:at], text[at:]
			}
			break
		}
	}
	return text, nil
}

// acts reports whether a character does something to a terminal, or to the order in which text is
// shown: control characters, and the marks and separators of bidirectional text.
func acts(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0:
		return r != '\n' && r != '\t'
	case r < 0x61c:
		return false
	}
	return r == 0x61c || r >= 0x200e && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x206f || r == 0xfeff || r >= 0xfff9 && r <= 0xfffb || r >= 0xe0000 && r <= 0xe007f
}

// escaped is a text with the characters that act, and bytes that are no text, written out.
func escaped(text []byte) []byte {
	var out []byte // nil: the text as it is
	from := 0
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[i:])
		}
		broken := r == utf8.RuneError && n == 1
		if !broken && !acts(r) || r == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i += n
			continue
		}
		out = append(out, text[from:i]...)
		switch {
		case broken:
			out = fmt.Appendf(out, `\x%02x`, text[i])
		case r > 0xffff: // as JSON has it
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += n
		from = i
	}
	if from == 0 {
		return text
	}
	return append(out, text[from:]...)
}

// Line is a text that stays within its line: a name with a newline cannot begin another one.
func Line(text string) string {
	if strings.ContainsAny(text, "\n\r") {
		text = strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(text)
	}
	return text
}

// Printf prints like fmt.Fprintf, with each text among args as Line has it: only the format begins
// lines.
func Printf(w io.Writer, format string, args ...any) {
	for i, a := range args {
		switch a.(type) {
		case string, error, fmt.Stringer:
			if text := fmt.Sprint(a); strings.ContainsAny(text, "\n\r") {
				args[i] = Line(text)
			}
		}
	}
	fmt.Fprintf(w, format, args...)
}

// sqlNote stands above a statement that is not right as it is shown.
const sqlNote = `-- Characters that are shown as \u and \x below are to be written as they are:` + "\n"

// SQL is a statement as it can be shown and pasted: characters that act, and newlines in names and
// strings, stand in it as its dialect writes them. Where that is impossible (names of MySQL, bodies
// of functions), it says so. Only MySQL has backquotes, and our statements for it always do.
func SQL(sql string) string {
	tokens := sqltext.Dialect{Postgres: true}.Scan(sql)
	mysql := false
	for _, t := range tokens {
		mysql = mysql || t.Kind == sqltext.Punct && strings.Contains(t.Text, "`")
	}
	if mysql {
		tokens = sqltext.Scan(sql)
	}
	rows := false
	if len(tokens) > 0 {
		for _, word := range []string{"INSERT", "UPDATE", "DELETE", "REPLACE"} {
			rows = rows || tokens[0].Is(word)
		}
	}
	var out strings.Builder
	note := ""
	before := ""
	for _, t := range tokens {
		text := t.Text
		plain := string(escaped([]byte(text)))
		lines := (t.Kind == sqltext.Name || t.Kind == sqltext.String && !dollar(text)) && strings.Contains(text, "\n")
		switch {
		case plain == text && !lines:
		case mysql && plain == text && t.Kind == sqltext.String && !strings.Contains(text, "\r"):
			text = strings.ReplaceAll(text, "\n", `\n`)
		case !utf8.ValidString(text), strings.Contains(text, "\x00"):
			text, note = plain, sqlNote
		case mysql && rows && t.Kind == sqltext.String:
			text = "_utf8mb4 X'" + hex.EncodeToString([]byte(sqltext.Unquote(text, true))) + "'"
		case mysql:
			text, note = Line(plain), sqlNote
		case !strings.HasSuffix(before, "&") && (t.Kind == sqltext.Name || t.Kind == sqltext.String && text[0] == '\''):
			text = "U&" + unicodeText(strings.ReplaceAll(text, `\`, `\\`), `\`, `\+0`)
		case t.Kind == sqltext.String && (text[0] == 'E' || text[0] == 'e'):
			text = unicodeText(text, `\u`, `\U000`)
		default:
			text, note = plain, sqlNote
		}
		out.WriteString(text)
		before = t.Text
	}
	return note + out.String()
}

// dollar reports whether a string of PostgreSQL's is a body between dollar signs.
func dollar(text string) bool { return text[0] == '$' }

// unicodeText writes out newlines and the characters that act, with a prefix for four digits, and
// another for five.
func unicodeText(text, four, five string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case !acts(r) && r != '\n':
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, "%s%05x", five, r)
		default:
			fmt.Fprintf(&out, "%s%04x", four, r)
		}
	}
	return out.String()
}
