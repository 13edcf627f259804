package sqlfile

import (
	"bytes"
	"errors"
	"math"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// isPostgres reports whether a file begins like pg_dump's plain files.
func isPostgres(d []byte) bool {
	for _, mark := range []string{"-- PostgreSQL database dump", "-- PostgreSQL database cluster dump", "\nSET standard_conforming_strings", "\n\\restrict "} {
		if bytes.Contains(d, []byte(mark)) {
			return true
		}
	}
	return false
}

// postgres reads a statement of a pg_dump file, or the head of a COPY block.
func (s *Scanner) postgres(d []byte) (*Statement, error) {
	if d[0] == '\\' {
		return s.meta()
	}
	n, err := s.postgresEnd()
	if err != nil {
		return nil, err
	}
	st := s.text(n)
	s.advance(1)
	l := &sqltext.Reader{Text: st.Text, Dialect: sqltext.Dialect{Postgres: true}}
	switch t := l.Next(); {
	case t.Is("COPY"):
		return s.copyBlock(st, l)
	case t.Is("SET"):
		st.Kind = Set
	case t.Is("CREATE") && l.Accept("TABLE"):
		st.Kind = CreateTable
		l.Accept("IF", "NOT", "EXISTS")
		readName(st, l)
	case t.Is("ALTER") && l.Accept("TABLE"):
		st.Kind = AlterTable
		l.Accept("ONLY")
		readName(st, l)
	case t.Is("INSERT"):
		st.Kind = Insert
		l.Accept("INTO")
		readName(st, l)
	}
	return s.unlessSkipped(st), nil
}

// meta reads a psql command, which is one line.
func (s *Scanner) meta() (*Statement, error) {
	n, err := s.wholeLine(math.MaxInt, "")
	if err != nil {
		return nil, err
	}
	st := s.text(n)
	st.Kind = Meta
	return s.unlessSkipped(st), nil
}

// postgresEnd returns the index of the semicolon that ends the statement: one outside 'strings',
// E'strings', "names", $tag$ strings $tag$ and comments.
func (s *Scanner) postgresEnd() (int, error) {
	d := s.unread()
	for {
		if n, ok := postgresWalk(d); ok {
			return n, nil
		}
		if len(d) > s.opt.MaxOther {
			return 0, s.bad(0, "a statement of more than "+size(s.opt.MaxOther), hintBroke)
		}
		// Scan all of it again, but only once it has grown by half.
		for want := len(d) + len(d)/2 + 1; len(d) < want; {
			var more bool
			if d, more = s.more(); !more {
				if n, ok := postgresWalk(d); ok && s.fail == nil {
					return n, nil
				}
				return 0, s.cut(0, "the file ends inside this statement, before its ;")
			}
		}
	}
}

func postgresWalk(d []byte) (int, bool) {
	x := sqltext.Dialect{Postgres: true}
	atomic, begin := 0, false // BEGIN ATOMIC bodies contain semicolons
	for i, end := 0, 0; i < len(d); i = end {
		var kind sqltext.Kind
		var whole bool
		kind, end, whole = x.Next(d, i)
		w := d[i:end]
		switch {
		case !whole:
			return 0, false
		case kind == sqltext.Space || kind == sqltext.Comment:
			continue
		case d[i] == ';' && atomic == 0:
			return i, true
		case begin && sqltext.Fold(w, "ATOMIC"), atomic > 0 && sqltext.Fold(w, "CASE"):
			atomic++
		case atomic > 0 && sqltext.Fold(w, "END"):
			atomic--
		}
		begin = sqltext.Fold(w, "BEGIN")
	}
	return 0, false
}

// copyBlock begins a block COPY t (columns) FROM stdin; its rows are the lines that follow.
func (s *Scanner) copyBlock(st *Statement, l *sqltext.Reader) (*Statement, error) {
	ok := readName(st, l)
	h := &head{table: tidemark.TableID{Schema: st.Database, Name: st.Table}, verb: "COPY"}
	if ok && l.Accept("(") {
		h.columns, ok = columnList(l)
	}
	if !ok || !l.Accept("FROM", "STDIN") || l.Next().Kind != sqltext.End {
		if bytes.Contains(bytes.ToUpper(st.Text), []byte("STDIN")) {
			return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "read", Object: s.opt.Name, Err: errors.New(at(st.Offset, st.Line, "a COPY block in another format than pg_dump's")), Hint: "Make the dump with pg_dump --format=plain."}
		}
		return s.unlessSkipped(st), nil
	}
	h.text = append(bytes.Clone(st.Text), ';', '\n')
	n, err := s.wholeLine(math.MaxInt, "")
	if err == nil && (n == 0 || s.unread()[n-1] != '\n') {
		err = s.bad(0, "the file ends before the rows of a COPY", hintCut)
	}
	if err != nil {
		return nil, err
	}
	s.advance(n)
	s.rows = rows{head: h}
	s.copying = true
	return nil, nil
}

// copyRows returns the next piece of a COPY block: whole lines, or a part of a line that is longer
// than a piece may be.
func (s *Scanner) copyRows() (*Statement, error) {
	in := &s.rows
	d := s.unread()
	for {
		if len(d) < 3 && !s.eof { // "\.\n"
			var more bool
			if d, more = s.more(); more {
				continue
			}
			if s.fail != nil {
				return nil, s.fail
			}
		}
		break
	}
	if in.part == 0 && (bytes.HasPrefix(d, []byte("\\.\n")) || bytes.HasPrefix(d, []byte("\\.\r\n"))) {
		n, _ := sqltext.LineEnd(d, 0)
		s.advance(n)
		s.copying, in.head = false, nil
		return nil, nil
	}
	for i := 0; ; {
		n, ok := sqltext.LineEnd(d, i)
		if ok && i > 0 && bytes.HasPrefix(d[i:], []byte("\\.")) && in.part == 0 {
			return s.lines(i, false), nil
		}
		switch {
		case ok && n > s.opt.Longest && i > 0:
			return s.lines(i, false), nil
		case ok && n <= s.opt.Longest:
			in.n++
			if i = n; in.part > 0 || i >= s.opt.Piece {
				return s.lines(i, false), nil
			}
			continue
		case len(d) > s.opt.Longest:
			if i > 0 {
				return s.lines(i, false), nil
			}
			return s.lines(s.cutLine(d), true), nil
		}
		var more bool
		if d, more = s.more(); !more {
			return nil, s.bad(len(d), "the file ends inside a COPY block, before its \\.", hintCut)
		}
	}
}

// cutLine returns an index near Longest at which a long line may be cut: not after an odd number of
// backslashes.
func (s *Scanner) cutLine(d []byte) int {
	i := s.opt.Longest
	n := 0
	for n < i && d[i-1-n] == '\\' {
		n++
	}
	return i - n%2
}

// lines consumes n bytes of COPY rows.
func (s *Scanner) lines(n int, more bool) *Statement {
	st := s.consume(n, more)
	if s.rows.n = 0; more {
		s.rows.part++
	} else {
		s.rows.part = 0
	}
	return st
}
