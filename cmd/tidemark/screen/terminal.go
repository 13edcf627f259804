package screen

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// A Terminal shows a few lines that change below the text that scrolls. After each drawing the
// cursor is at the beginning of those lines, not behind them: a terminal that wraps them again
// after a resize moves the cursor too, so that the next drawing covers them however many rows they
// take by then.
type Terminal struct {
	out   io.Writer
	size  func() (columns, rows int)
	mu    sync.Mutex
	lines []string
	drawn [2]int // the size for which they were drawn
	torn  bool   // the last text had no newline at its end
	tail  []byte // see whole
}

// Over makes a Terminal of a file that is a terminal. It returns other writers unchanged.
func Over(w io.Writer) io.Writer {
	f, is := w.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) || !understandsEscapes(f) {
		return w
	}
	return &Terminal{out: f, size: func() (int, int) {
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 || rows <= 0 { // a terminal without a size, as in script(1)
			return 80, 24
		}
		return columns, rows
	}}
}

// Write puts text above the lines.
func (t *Terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	given := len(b)
	if len(t.tail) > 0 {
		b = append(t.tail, b...)
	}
	b, tail := whole(b)
	t.tail, b = bytes.Clone(tail), escaped(b)
	if len(t.lines) == 0 {
		t.torn = len(b) > 0 && b[len(b)-1] != '\n'
		if _, err := t.out.Write(b); err != nil {
			return 0, err
		}
		return given, nil
	}
	lines := t.lines
	t.draw(b, nil)
	t.torn = len(b) > 0 && b[len(b)-1] != '\n'
	t.draw(nil, lines)
	return given, nil
}

// Show replaces the lines. Without any, they are removed.
func (t *Terminal) Show(lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(lines)+len(t.lines) > 0 {
		t.draw(nil, lines)
	}
}

// draw writes text where the lines were, and lines below it, at once. t.mu is held.
func (t *Terminal) draw(text []byte, lines []string) {
	var b bytes.Buffer
	if len(t.lines) > 0 {
		b.WriteByte('\r')
	}
	if len(lines) == 0 {
		if len(t.lines) > 0 {
			b.WriteString("\x1b[J")
		}
		b.Write(text)
		t.lines = nil
		t.out.Write(b.Bytes())
		return
	}
	if t.torn {
		b.WriteByte('\n')
		t.torn = false
	}
	columns, rows := t.size()
	lines = lines[max(0, len(lines)-max(1, rows-1)):]
	if t.drawn != [2]int{columns, rows} { // what was wrapped anew goes, and that it was
		b.WriteString("\x1b[J")
		t.drawn = [2]int{columns, rows}
	}
	b.WriteString("\x1b[?7l") // a window that has become narrower cuts, so that lines stay lines
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(clip(l, columns-1) + "\x1b[K")
	}
	b.WriteString("\x1b[J\x1b[?7h\r")
	if n := len(lines) - 1; n > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", n)
	}
	t.lines = lines
	t.out.Write(b.Bytes())
}

// columnsOf is how many columns of a terminal a character takes.
func columnsOf(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case k == width.EastAsianWide || k == width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// columns is how many a text takes.
func columns(s string) (n int) {
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

// clip cuts a text to so many columns. Names of tables may contain anything: characters that act on
// a terminal become question marks.
func clip(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if acts(r) || unicode.IsControl(r) {
			r = '?'
		}
		if n += columnsOf(r); n > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// fit cuts a text, or pads it with spaces, to so many columns.
func fit(s string, to int) string {
	s = clip(s, max(to, 0))
	return s + strings.Repeat(" ", max(0, to-columns(s)))
}
