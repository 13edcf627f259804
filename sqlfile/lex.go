package sqlfile

import "github.com/tidemarkdb/tidemark/sqltext"

// Classes of bytes outside strings.
const (
	plain  uint8 = iota
	quote        // ' "
	tick         // `
	open         // (
	closed       // )
	slash        // / may begin a comment
	dash         // - may begin a comment
	hash         // # begins a comment
	semi         // ;
	dollar       // $ may begin a PostgreSQL string
	other        // first byte of the current delimiter
)

// stops marks the bytes at which a walk over rows must look closer.
var stops = [256]uint8{'\'': quote, '"': quote, '`': tick, '(': open, ')': closed, '/': slash, '-': dash, '#': hash, ';': semi}

// word marks the bytes of unquoted names, keywords and numbers, and of variables.
var word = func() (w [256]bool) {
	for c := range w {
		w[c] = sqltext.IsWord(byte(c)) || c == '@'
	}
	return w
}()

// blank skips spaces and comments from d[i] on. ok is false if d ends before anything else.
func blank(d []byte, i int) (int, bool) {
	for i < len(d) {
		if sqltext.IsSpace(d[i]) {
			i++
			continue
		}
		j, ok := sqltext.CommentEnd(d, i)
		if !ok || j == i {
			return i, ok
		}
		i = j
	}
	return i, false
}
