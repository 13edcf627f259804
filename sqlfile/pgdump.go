package sqlfile

import (
	"bytes"

	"github.com/tidemarkdb/tidemark"
)

// isPostgres reports whether a file begins as pg_dump's plain files do.
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
	st := &Statement{Session: s.session}
	st.Offset, st.Line = s.where(0)
	st.Text = bytes.TrimRight(bytes.Clone(s.window()[:n]), " \t\r\n")
	s.advance(n + 1)
	l := &lexer{d: st.Text, ansi: true}
	switch t := l.next(); {
	case l.is(t, "COPY"):
		return s.copyBlock(st, l)
	case l.is(t, "SET"):
		st.Kind = Set
	case l.is(t, "CREATE") && l.accept("TABLE"):
		st.Kind = CreateTable
		l.acceptAll("IF", "NOT", "EXISTS")
		s.name(st, l)
	case l.is(t, "ALTER") && l.accept("TABLE"):
		st.Kind = AlterTable
		l.accept("ONLY")
		s.name(st, l)
	case l.is(t, "INSERT"):
		st.Kind = Insert
		l.accept("INTO")
		s.name(st, l)
	}
	return s.give(st), nil
}

// meta reads a command to psql, which is a line.
func (s *Scanner) meta() (*Statement, error) {
	d := s.window()
	n, ok := line(d, 0)
	for !ok {
		var more bool
		if d, more = s.more(); !more {
			if s.fail != nil {
				return nil, s.fail
			}
			n = len(d)
			break
		}
		n, ok = line(d, 0)
	}
	st := &Statement{Kind: Meta, Text: bytes.TrimSpace(bytes.Clone(d[:n])), Session: s.session}
	st.Offset, st.Line = s.where(0)
	s.advance(n)
	return s.give(st), nil
}

// postgresEnd gives the index of the semicolon that ends the statement: one
// outside 'strings', E'strings', "names", $tag$ strings $tag$ and comments.
func (s *Scanner) postgresEnd() (int, error) {
	d := s.window()
	for {
		if n, ok := postgresWalk(d); ok {
			return n, nil
		}
		if len(d) > s.opt.MaxOther {
			return 0, s.bad(0, "a statement of more than "+size(s.opt.MaxOther), hintBroke)
		}
		// Look again at all of it, but only once it has grown by half.
		for want := len(d) + len(d)/2 + 1; len(d) < want; {
			var more bool
			if d, more = s.more(); !more {
				if n, ok := postgresWalk(d); ok && s.fail == nil {
					return n, nil
				}
				return 0, s.bad(0, "the file ends inside this statement, before its ;", hintCut)
			}
		}
	}
}

func postgresWalk(d []byte) (int, bool) {
	begin := 0 // BEGIN ATOMIC bodies hold semicolons
	for i := 0; i < len(d); i++ {
		switch c := d[i]; c {
		case '\'', '"':
			esc := c == '\'' && i > 0 && d[i-1]|0x20 == 'e' && (i < 2 || !word[d[i-2]])
			j, ok := stringEnd(d, i+1, c, esc)
			if !ok {
				return 0, false
			}
			i = j - 1
		case '$':
			j, found, ok := dollarEnd(d, i)
			if !ok {
				return 0, false
			}
			if found {
				i = j - 1
			}
		case '-':
			if i+1 < len(d) && d[i+1] == '-' {
				j, ok := line(d, i)
				if !ok {
					return 0, false
				}
				i = j - 1
			}
		case '/':
			if i+1 < len(d) && d[i+1] == '*' {
				if i = skipCondition(d, i+2) - 1; i >= len(d)-1 {
					return 0, false
				}
			}
		case 'B', 'b':
			if i+12 < len(d) && fold(d[i:i+12], "BEGIN ATOMIC") {
				begin++
			}
		case 'E', 'e':
			if begin > 0 && i+3 < len(d) && fold(d[i:i+3], "END") && !word[d[i-1]] && !word[d[i+3]] {
				begin--
			}
		case 'C', 'c':
			if begin > 0 && i+4 < len(d) && fold(d[i:i+4], "CASE") && !word[d[i-1]] && !word[d[i+4]] {
				begin++
			}
		case ';':
			if begin == 0 {
				return i, true
			}
		}
	}
	return 0, false
}

// dollarEnd gives the index after a dollar-quoted string that begins at d[i].
// found is false if none does; ok is false if d ends first.
func dollarEnd(d []byte, i int) (end int, found, ok bool) {
	if i > 0 && word[d[i-1]] {
		return i, false, true
	}
	j := i + 1
	for j < len(d) && d[j] != '$' && word[d[j]] {
		j++
	}
	switch {
	case j >= len(d):
		return i, false, false
	case d[j] != '$' || j > i+1 && d[i+1] >= '0' && d[i+1] <= '9':
		return i, false, true
	}
	tag := d[i : j+1]
	n := bytes.Index(d[j+1:], tag)
	if n < 0 {
		return i, false, false
	}
	return j + 1 + n + len(tag), true, true
}

// copyBlock begins COPY t (columns) FROM stdin; whose rows are the lines that follow.
func (s *Scanner) copyBlock(st *Statement, l *lexer) (*Statement, error) {
	ok := s.name(st, l)
	h := &head{table: tidemark.TableID{Schema: st.Database, Name: st.Table}, verb: "COPY"}
	if ok && l.accept("(") {
		h.columns, ok = columnList(l)
	}
	if !ok || !l.acceptAll("FROM", "STDIN") || l.next().kind != tEnd {
		if bytes.Contains(bytes.ToUpper(st.Text), []byte("STDIN")) {
			return nil, tidemark.Errorf(tidemark.Unsupported, "read", s.opt.Name,
				at(st.Offset, st.Line, "a COPY block in another form than pg_dump's"), "Make the dump with pg_dump --format=plain.")
		}
		return s.give(st), nil
	}
	h.text = append(bytes.Clone(st.Text), ';', '\n')
	d := s.window()
	n, found := line(d, 0)
	for !found {
		var more bool
		if d, more = s.more(); !more {
			return nil, s.bad(0, "the file ends before the rows of a COPY", hintCut)
		}
		n, found = line(d, 0)
	}
	s.advance(n)
	s.rows = rows{head: h}
	s.copying = true
	return nil, nil
}

// copyRows gives the next piece of a COPY block: whole lines, or a part of a line
// that is longer than a piece may be.
func (s *Scanner) copyRows() (*Statement, error) {
	in := &s.rows
	d := s.window()
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
		n, _ := line(d, 0)
		s.advance(n)
		s.copying, in.head = false, nil
		return nil, nil
	}
	for i := 0; ; {
		n, ok := line(d, i)
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

// cutLine gives an index near Longest at which a long line may be cut: not after
// an odd number of backslashes.
func (s *Scanner) cutLine(d []byte) int {
	i := s.opt.Longest
	n := 0
	for n < i && d[i-1-n] == '\\' {
		n++
	}
	return i - n%2
}

// lines takes n bytes of COPY rows.
func (s *Scanner) lines(n int, more bool) *Statement {
	st := s.take(n, more)
	if s.rows.n = 0; more {
		s.rows.part++
	} else {
		s.rows.part = 0
	}
	return st
}
