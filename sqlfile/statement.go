package sqlfile

import (
	"bytes"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// plain reads a whole statement that is not rows.
func (s *Scanner) plain() (*Statement, error) {
	n, err := s.statementEnd(0)
	if err != nil {
		return nil, err
	}
	st := s.text(n)
	s.advance(min(len(s.delim), len(s.unread())))
	s.classify(st)
	if tidemark.KindOf(st.DefErr) == tidemark.BadInput {
		return nil, bad(s.opt.Name, st.Offset, st.Line, st.DefErr.Error(), hintBroke)
	}
	s.number(st)
	return s.unlessSkipped(st), nil
}

// text consumes n bytes as a statement.
func (s *Scanner) text(n int) *Statement {
	st := &Statement{Session: s.session}
	st.Offset, st.Line = s.where(0)
	st.Text = bytes.TrimRight(bytes.Clone(s.unread()[:n]), " \t\r\n")
	s.advance(n)
	return st
}

// number numbers an INSERT that is not rows as a piece, so that a marker row can record it too.
func (s *Scanner) number(st *Statement) {
	if st.Kind == Insert {
		s.index++
		st.Index = s.index
	}
}

// unlessSkipped returns st, or nil if it ends at or before the skip offset.
func (s *Scanner) unlessSkipped(st *Statement) *Statement {
	if s.Offset() <= s.skip {
		return nil
	}
	return st
}

// statementEnd returns the index of the delimiter that ends the statement whose text continues at
// i.
func (s *Scanner) statementEnd(i int) (int, error) {
	table := stops
	if first := s.delim[0]; table[first] == plain || table[first] == semi {
		table[first] = other
	}
	d := s.unread()
	q, from := byte(0), 0 // in a quoted text, and where that began
	for {
		i, q, from = s.walk(d, i, q, from, &table)
		if i < len(d) && q == 0 && bytes.HasPrefix(d[i:], s.delim) {
			return i, nil
		}
		if len(d) > s.opt.MaxOther {
			return 0, s.bad(0, "a statement of more than "+size(s.opt.MaxOther), hintBroke)
		}
		var more bool
		if d, more = s.more(); more {
			continue
		}
		switch {
		case s.fail != nil:
			return 0, s.fail
		case q != 0:
			return 0, s.cut(from, "an unterminated "+quoteName(q))
		case i < len(d) && d[i] == '/':
			return 0, s.bad(i, "an unterminated comment", hintCut)
		}
		return 0, s.cut(0, "the file ends inside this statement, before its "+string(s.delim))
	}
}

// walk scans the text of a statement from d[i] on, and stops at the delimiter or when it needs more
// bytes.
func (s *Scanner) walk(d []byte, i int, q byte, from int, table *[256]uint8) (int, byte, int) {
	for {
		if q != 0 {
			j, ok := sqltext.QuoteEnd(d, i, q, s.session.escIn(q))
			if !ok {
				return j, q, from
			}
			i, q = j, 0
		}
		for i < len(d) && table[d[i]] == plain {
			i++
		}
		if i >= len(d) {
			return i, 0, 0
		}
		switch table[d[i]] {
		case quote, tick:
			if bytes.HasPrefix(d[i:], s.delim) {
				return i, 0, 0
			}
			q, from = d[i], i
			i++
			continue
		case slash, dash, hash:
			if bytes.HasPrefix(d[i:], s.delim) {
				return i, 0, 0
			}
			j, ok := sqltext.CommentEnd(d, i)
			if !ok {
				return i, 0, 0
			}
			i = max(j, i+1)
			continue
		case other:
			if len(d)-i < len(s.delim) && !s.eof || bytes.HasPrefix(d[i:], s.delim) {
				return i, 0, 0
			}
		}
		i++
	}
}

func quoteName(q byte) string {
	switch q {
	case '`':
		return "name in backticks"
	case '"':
		return "double-quoted text"
	}
	return "string"
}
