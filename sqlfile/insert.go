package sqlfile

import (
	"bytes"
	"cmp"
	"errors"
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// A Tuples is a piece of rows: the text of one or more INSERT statements between VALUES and the
// delimiter, cut at the end of a row. Neighbouring INSERTs with the same table and columns may be
// joined: the text between their rows is then blank, so that byte i of Data is always byte Offset+i
// of the file.
//
// A row longer than Options.Longest comes in parts: Tuples with the same Index that must go to the
// same Converter in order; all but the last have More set.
type Tuples struct {
	Table   tidemark.TableID // Schema is empty if the file names no database
	Def     *tidemark.Table  // from the file's CREATE TABLE; nil if it has none
	Columns []string         // of the rows; nil: all columns of the table except invisible ones
	Verb    string           // "INSERT", "INSERT IGNORE", "REPLACE" or "COPY"
	Head    string           // the text before the rows: "INSERT INTO `t` VALUES "
	Data    []byte           // "(1,'a'),(2,NULL)"; of a COPY: lines
	Offset  int64            // of Data in the unpacked text
	Line    int64            // where Data begins, from 1
	Index   int64            // number of the piece in the file, from 1
	Part    int              // of a long row, from 0
	More    bool             // the row continues in the next Tuples
	Rows    int              // completed in this piece
	Session *Session
	File    string // its name, for messages

	owner []byte // the buffer to return
}

// SQL returns the piece as one statement. Not for a part of a long row, nor for a piece of a COPY.
func (t *Tuples) SQL() []byte {
	return append([]byte(t.Head), t.Data...)
}

// Release frees the memory of Data.
func (t *Tuples) Release() {
	if t.owner != nil {
		putBuffer(t.owner)
		t.owner, t.Data = nil, nil
	}
}

// buffers holds windows for reuse. They have few sizes: a window grows by doubling up to the size
// of a piece, and then as needed.
var buffers sync.Pool

// buffer returns memory for a window of at least n bytes.
func (s *window) buffer(n int) []byte {
	if full := s.opt.Piece + 4*readBlock; n > readBlock*4 && n < full {
		n = full
	}
	if b, ok := buffers.Get().(*[]byte); ok {
		if len(*b) >= n && len(*b) <= 2*n {
			return *b
		}
	}
	return make([]byte, n)
}

func putBuffer(b []byte) {
	b = b[:cap(b)]
	buffers.Put(&b)
}

// A head is the text before the rows of an INSERT.
type head struct {
	text    []byte // up to the first (
	table   tidemark.TableID
	columns []string
	verb    string
}

// A rows is the state of an INSERT between two pieces, and inside one.
type rows struct {
	head  *head
	after bool // the window begins after a row, not before one
	fresh bool // no piece of the statement was emitted yet
	part  int  // of a long row: number of parts already emitted
	depth int  // of parentheses
	quote byte // of the string that the window begins in
	hex   bool // the window begins inside a 0x literal
	n     int  // rows completed in this piece
	done  int  // index after the last of them
}

// insert reads the head of an INSERT or REPLACE. It returns false if no rows follow; the statement
// is then read like any other.
func (s *Scanner) insert() (bool, error) {
	for {
		h, n, ok := parseHead(s.unread(), s.session)
		if ok {
			if h == nil {
				return false, nil
			}
			if s.commaAfter(n) {
				return false, nil
			}
			h.text = bytes.Clone(s.unread()[:n])
			s.advance(n)
			s.rows = rows{head: h, fresh: true}
			s.filled[foldedID(&Statement{Database: cmp.Or(h.table.Schema, s.session.Database), Table: h.table.Name})] = true
			return true, nil
		}
		if len(s.unread()) > s.opt.MaxOther {
			return false, s.bad(0, "an INSERT of more than "+size(s.opt.MaxOther)+" before its rows", hintBroke)
		}
		if _, more := s.more(); !more {
			return false, s.fail // plain reports it if the file is truncated
		}
	}
}

// parseHead parses INSERT [IGNORE] [INTO] t [(columns)] VALUES. ok is false if d ends too early to
// tell; h is nil if it is something else. n is the index of the first row's parenthesis.
func parseHead(d []byte, ses *Session) (h *head, n int, ok bool) {
	l := ses.reader(d)
	cut := func() bool { return l.At >= len(d) }
	h = &head{verb: "INSERT"}
	if l.Next().Is("REPLACE") {
		h.verb = "REPLACE"
	}
	for {
		switch {
		case l.Accept("LOW_PRIORITY"), l.Accept("HIGH_PRIORITY"), l.Accept("DELAYED"):
			continue
		case l.Accept("IGNORE"):
			h.verb = "INSERT IGNORE"
			continue
		}
		break
	}
	l.Accept("INTO")
	name, good := l.Ident(l.Next())
	h.table.Name = name
	if good && l.Accept(".") {
		h.table.Schema = name
		h.table.Name, good = l.Ident(l.Next())
	}
	if cut() {
		return nil, 0, false
	}
	if good && l.Accept("(") {
		h.columns, good = columnList(l)
	}
	t := l.Next()
	if cut() {
		return nil, 0, false
	}
	if !good || !t.Is("VALUES") && !t.Is("VALUE") {
		return nil, 0, true
	}
	t = l.Next()
	if cut() && !t.Is("(") {
		return nil, 0, false
	}
	if !t.Is("(") {
		return nil, 0, true
	}
	return h, t.At, true
}

// commaAfter reports whether a comma follows d[i], and not a value.
func (s *window) commaAfter(i int) bool {
	for {
		d := s.unread()
		j, ok := blank(d, i+1)
		if ok {
			return d[j] == ','
		}
		if _, more := s.more(); !more {
			return false
		}
	}
}

// lacksBeginning reports whether an INSERT has a comma or ) where its first row should begin, or a
// comma where its first value should.
func (s *Session) lacksBeginning(d []byte) bool {
	l := s.reader(d)
	l.Next()
	for oneOf(l, "LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE") {
	}
	l.Accept("INTO")
	if !readName(&Statement{}, l) {
		return false
	}
	if l.Accept("(") {
		if _, ok := columnList(l); !ok {
			return false
		}
	}
	if !oneOf(l, "VALUES", "VALUE") {
		return false
	}
	if l.Peek().Is(")") {
		return true
	}
	l.Accept("(")
	return l.Peek().Is(",")
}

// columnList reads names up to the ). The ( was already read.
func columnList(l *sqltext.Reader) ([]string, bool) {
	names := []string{}
	for {
		t := l.Next()
		if t.Is(")") && len(names) == 0 {
			return names, true
		}
		name, ok := l.Ident(t)
		if !ok {
			return nil, false
		}
		for l.Accept(".") { // t.column
			if name, ok = l.Ident(l.Next()); !ok {
				return nil, false
			}
		}
		names = append(names, name)
		if t = l.Next(); !t.Is(",") {
			return names, t.Is(")")
		}
	}
}

// A verdict is why a walk over rows stopped.
type verdict uint8

const (
	short  verdict = iota // d ends; continue with more
	ended                 // a row has ended
	long                  // the row is longer than a piece may be
	broken                // a delimiter inside a row
)

// row walks from d[i] to the end of the row, or of the last of several directly adjacent rows, as
// long as they end before enough. In a row longer than longest it stops in the first string or 0x
// literal that reaches beyond it, because only there can the rest be recognized from its own bytes.
func (in *rows) row(d []byte, i, enough, longest int, ses *Session) (int, verdict) {
	for {
		if in.quote != 0 {
			lim := min(len(d), max(longest, i))
			j, ok := sqltext.QuoteEnd(d[:lim], i, in.quote, ses.escIn(in.quote))
			if i = j; !ok {
				if lim >= longest {
					return i, long
				}
				return i, short
			}
			in.quote = 0
		}
		for i < len(d) && stops[d[i]] == plain {
			i++
		}
		if i >= longest {
			if j, v := in.beyond(d, i, longest); v != ended {
				return j, v
			}
		}
		if i >= len(d) {
			return i, short
		}
		switch stops[d[i]] {
		case quote, tick:
			in.quote = d[i]
		case open:
			in.depth++
		case closed:
			if in.depth--; in.depth > 0 {
				break
			}
			in.n++
			in.done = i + 1
			if i+2 < len(d) && d[i+1] == ',' && d[i+2] == '(' && in.done < enough && in.part == 0 {
				in.depth = 1
				i += 3
				continue
			}
			return i + 1, ended
		case semi:
			return i, broken
		default:
			j, ok := sqltext.CommentEnd(d, i)
			if !ok {
				return i, short
			}
			i = max(j-1, i)
		}
		i++
	}
}

// beyond searches the plain text before d[i], some of which lies beyond longest, for a 0x literal
// to cut: long with the index to cut at, short if it needs more bytes to tell, ended if there is
// none.
func (in *rows) beyond(d []byte, i, longest int) (int, verdict) {
	at := longest
	for at > 0 && stops[d[at-1]] == plain && word[d[at-1]] {
		at--
	}
	if at == 0 && in.hex && longest < i {
		return longest, long
	}
	for at < i {
		switch {
		case !word[d[at]]:
			at++
			continue
		case at+2 > len(d):
			return i, short
		case d[at] == '0' && at+2 <= i && d[at+1]|0x20 == 'x':
			if cut := max(longest, at+2); cut <= i {
				return cut, long
			}
		}
		for at < i && word[d[at]] {
			at++
		}
	}
	return i, ended
}

// piece returns the next piece of the rows being read.
func (s *Scanner) piece() (*Statement, error) {
	in := &s.rows
	if in.after {
		if ended, err := s.afterRow(); ended || err != nil || in.after {
			return nil, err
		}
	}
	in.n, in.done = 0, 0
	return s.gather()
}

// afterRow consumes what follows the last row of a piece: a comma, or the end of the statement,
// which it reports.
func (s *Scanner) afterRow() (bool, error) {
	i, next, err := s.separator(0)
	if err != nil {
		return false, err
	}
	in := &s.rows
	switch next {
	case ',':
		s.advance(i)
		in.after = false
		return false, nil
	case ';':
		s.advance(i)
		in.head = nil
		return true, nil
	}
	return false, s.suffix(i)
}

// suffix makes the error for text after rows some of which were already emitted.
func (s *Scanner) suffix(i int) error {
	d := s.unread()
	offset, line := s.where(i)
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "read", Object: s.opt.Name, Err: errors.New(at(offset, line, "an INSERT of more than "+size(s.opt.Piece)+" continues after its rows with "+snippet(d[i:]))), Hint: "Make the dump with shorter statements (mysqldump's own have at most --net-buffer-length bytes)."}
}

// separator parses what follows a row. It returns , and the index of the next row's parenthesis; or
// ; and the index after the delimiter; or 0 and the index of anything else.
func (s *Scanner) separator(i int) (int, byte, error) {
	d := s.unread()
	for {
		j, ok := blank(d, i)
		switch {
		case !ok || len(d)-j < len(s.delim):
		case bytes.HasPrefix(d[j:], s.delim):
			return j + len(s.delim), ';', nil
		case d[j] == ',':
			k, ok := blank(d, j+1)
			if ok && d[k] == '(' {
				return k, ',', nil
			}
			if ok {
				return 0, 0, s.bad(k, "expected another row, found "+snippet(d[k:]), hintBroke)
			}
		default:
			return j, 0, nil
		}
		if len(d)-i > s.opt.MaxOther {
			return 0, 0, s.bad(i, "more than "+size(s.opt.MaxOther)+" between two rows", hintBroke)
		}
		var more bool
		if d, more = s.more(); !more {
			return 0, 0, s.bad(len(d), "the file ends inside an INSERT, after a row", hintCut)
		}
	}
}

// gather reads rows until they fill a piece, and returns it. The window begins at a row, or inside
// one whose first parts were already emitted.
func (s *Scanner) gather() (*Statement, error) {
	in := &s.rows
	d := s.unread()
	i := 0                   // where to continue
	whole, wholeRows := 0, 0 // end of the last row of the statement before this one, rows up to there
	begin := 0               // of this statement's first row
	for {
		var v verdict
		i, v = in.row(d, i, s.opt.Piece, s.opt.Longest, s.session)
		switch v {
		case short:
			var more bool
			if d, more = s.more(); !more {
				return nil, s.insideRow(i)
			}
			continue
		case broken:
			return nil, s.bad(i, "the statement ends inside a row", hintBroke)
		case long:
			return s.long(i), nil
		}
		if in.part > 0 || in.done >= s.opt.Piece {
			st := s.consume(in.done, false)
			in.after, in.part, in.hex = true, 0, false
			return st, nil
		}
		j, next, err := s.separator(i)
		if err != nil {
			return nil, err
		}
		d = s.unread()
		switch next {
		case ',':
			i = j
		case ';':
			k, same, err := s.sameHead(j)
			if err != nil {
				return nil, err
			}
			if !same {
				st := s.consume(i, false)
				s.advance(j - i)
				in.head = nil
				return st, nil
			}
			d = s.unread()
			erase(d[i:k])
			whole, wholeRows, begin, i, in.fresh = i, in.n, k, k, true
		default:
			if !in.fresh {
				return nil, s.suffix(j)
			}
			if begin == 0 {
				return s.withSuffix(j)
			}
			in.n = wholeRows
			st := s.consume(whole, false)
			s.advance(begin - whole)
			s.rows = rows{head: in.head, fresh: true}
			return st, nil
		}
	}
}

// insideRow makes the error for a file that ends inside a row.
func (s *Scanner) insideRow(i int) error {
	what := "the file ends inside a row"
	if s.rows.quote != 0 {
		what = "the file ends inside a " + quoteName(s.rows.quote) + " of a row"
	}
	return s.bad(i, what, hintCut)
}

// sameHead reports whether the statement that follows d[i] has the same head as the current one,
// and returns the index of its first row.
func (s *Scanner) sameHead(i int) (int, bool, error) {
	d, text := s.unread(), s.rows.head.text
	for {
		j := i
		for j < len(d) && sqltext.IsSpace(d[j]) {
			j++
		}
		if n := min(len(text), len(d)-j); !bytes.Equal(d[j:j+n], text[:n]) {
			return 0, false, nil
		} else if n == len(text) && len(d) > j+n {
			return j + n, d[j+n] == '(', nil
		}
		var more bool
		if d, more = s.more(); !more {
			return 0, false, s.fail
		}
	}
}

// erase replaces the text between the rows of two statements by a comma and blanks; line ends stay,
// so that lines can be counted.
func erase(b []byte) {
	next := byte(',')
	for i, c := range b {
		if c != '\n' {
			b[i], next = next, ' '
		}
	}
}

// withSuffix reads an INSERT that continues after its rows (ON DUPLICATE KEY UPDATE, RETURNING) as
// a statement to run unchanged.
func (s *Scanner) withSuffix(i int) (*Statement, error) {
	n, err := s.statementEnd(i)
	if err != nil {
		return nil, err
	}
	h := s.rows.head
	st := s.rowStatement()
	st.Offset -= int64(len(h.text))
	st.Line -= int64(bytes.Count(h.text, []byte{'\n'}))
	st.Text = append(bytes.Clone(h.text), s.unread()[:n]...)
	s.advance(n)
	s.advance(min(len(s.delim), len(s.unread())))
	s.rows = rows{}
	s.allow(st)
	s.number(st)
	return s.unlessSkipped(st), nil
}

// long handles a row that was stopped at i: rows before it become a piece of their own, else its
// first bytes become a part.
func (s *Scanner) long(i int) *Statement {
	in := &s.rows
	if in.done > 0 {
		st := s.consume(in.done, false)
		s.rows = rows{head: in.head, after: true}
		return st
	}
	st := s.consume(i, true)
	in.part++
	in.hex = in.quote == 0
	return st
}

// rowStatement makes the statement for rows at the window's start.
func (s *Scanner) rowStatement() *Statement {
	h := s.rows.head
	st := &Statement{Kind: Insert, Table: h.table.Name, Database: h.table.Schema, Session: s.session}
	if st.Database == "" {
		st.Database = s.session.Database
	}
	st.Offset, st.Line = s.where(0)
	return st
}

// consume consumes n bytes of rows and returns them as a piece; nil if they end at or before the
// skip offset. A large piece takes the buffer with it.
func (s *Scanner) consume(n int, more bool) *Statement {
	in := &s.rows
	st := s.rowStatement()
	if in.part == 0 {
		s.index++
	}
	in.fresh = false
	if s.Offset()+int64(n) <= s.skip {
		s.advance(n)
		return nil
	}
	id := tidemark.TableID{Schema: st.Database, Name: st.Table}
	t := &Tuples{Table: id, Def: s.tables[id], Columns: in.head.columns, Verb: in.head.verb, Head: string(in.head.text),
		Offset: st.Offset, Line: st.Line, Index: s.index, Part: in.part, More: more, Rows: in.n, Session: s.session, File: s.opt.Name}
	in.n = 0
	d := s.unread()
	s.advance(n)
	if n < len(s.buf)/4 {
		t.Data = bytes.Clone(d[:n])
	} else {
		t.Data, t.owner = d[:n:n], s.buf
		s.move(s.buffer(max(readBlock, min(len(s.buf), s.opt.Piece+4*readBlock), len(d)-n+readBlock)), d[n:])
	}
	st.Tuples = t
	return st
}
