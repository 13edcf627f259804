package sqlfile

import (
	"bytes"

	"github.com/tidemarkdb/tidemark"
)

// A Loaded converts LOAD DATA text, as a logical backup has it, to COPY text. It writes the rows
// like the tuples of an INSERT in a dump whose bytes are in each column's own character set, and a
// Converter does the rest: so a value is converted exactly as from a dump file.
type Loaded struct {
	c      *Converter
	rng    *tidemark.Range
	emit   func(*tidemark.Batch) error
	t      Tuples
	ranks  []bool // columns in which "0" is a number and not a label
	sql    []byte // tuples
	held   []byte // the beginning of a value that needs more bytes
	col    int
	inside bool // a string is open
	out    *tidemark.Batch
}

// NewLoaded creates a Loaded for one range of a move, whose columns are the text's. emit receives
// batches of COPY text.
func NewLoaded(m *tidemark.Move, r *tidemark.Range, opt ConvertOptions, emit func(*tidemark.Batch) error) *Loaded {
	l := &Loaded{c: NewConverter(m, tidemark.CopyText, opt), rng: r, emit: emit}
	l.t = Tuples{Table: m.From.TableID, Columns: m.Source, Verb: "INSERT", File: "backup", Session: &Session{Charset: "binary", TimeZone: "+00:00"}}
	for _, c := range m.Columns() {
		l.ranks = append(l.ranks, c.Type.Kind == tidemark.Enum && !hasLabel(c.Type.Labels, "0"))
	}
	return l
}

// Put converts the next batch, and releases it.
func (l *Loaded) Put(b *tidemark.Batch) error {
	l.sql = l.sql[:0]
	l.rows(b.Data)
	l.t.Data, l.t.Rows, l.t.More = l.sql, b.Rows, b.More
	last := b.Last
	b.Release()
	err := l.c.Convert(&l.t, l.rng, func(b *tidemark.Batch) error {
		if l.out != nil {
			if err := l.emit(l.out); err != nil {
				b.Release()
				return err
			}
		}
		b.Last, l.out = false, b
		return nil
	})
	if l.t.Part++; !l.t.More {
		l.t.Part = 0
	}
	if err != nil || l.out == nil {
		return err
	}
	out := l.out
	if l.out = nil; !last && len(out.Data) == 0 {
		out.Release()
		return nil
	}
	out.Last = last
	return l.emit(out)
}

// rows writes the text of rows, or the available part of a long one, as tuples.
func (l *Loaded) rows(data []byte) {
	if len(l.held) > 0 {
		data = append(l.held, data...)
		l.held = nil
	}
	for len(data) > 0 {
		n := bytes.IndexAny(data, "\t\n")
		if n < 0 {
			l.part(data)
			return
		}
		l.value(data[:n])
		if l.col++; data[n] == '\n' {
			l.sql = append(l.sql, ')')
			l.col = 0
		}
		data = data[n+1:]
	}
}

// begin writes what precedes a value.
func (l *Loaded) begin() {
	if l.col == 0 {
		l.sql = append(l.sql, '(')
	} else {
		l.sql = append(l.sql, ',')
	}
}

// value writes a value, or its rest.
func (l *Loaded) value(v []byte) {
	if !l.inside {
		l.begin()
		switch {
		case string(v) == `\N`:
			l.sql = append(l.sql, "NULL"...)
			return
		case string(v) == "0" && l.col < len(l.ranks) && l.ranks[l.col]:
			l.sql = append(l.sql, '0')
			return
		}
		l.sql = append(l.sql, '\'')
	}
	l.quoted(v)
	l.sql = append(l.sql, '\'')
	l.inside = false
}

// part writes the beginning of a value, or more of it. An escape is never split.
func (l *Loaded) part(v []byte) {
	slashes := 0
	for slashes < len(v) && v[len(v)-1-slashes] == '\\' {
		slashes++
	}
	if slashes%2 == 1 || !l.inside && len(v) < 3 {
		keep := len(v) - 1
		if !l.inside && len(v) < 3 {
			keep = 0
		}
		l.held = bytes.Clone(v[keep:])
		v = v[:keep]
	}
	if len(v) == 0 {
		return
	}
	if !l.inside {
		l.begin()
		l.sql = append(l.sql, '\'')
		l.inside = true
	}
	l.quoted(v)
}

// quoted writes the content of a string: LOAD DATA's escapes are those of strings.
func (l *Loaded) quoted(v []byte) {
	for {
		n := bytes.IndexByte(v, '\'')
		if n < 0 {
			l.sql = append(l.sql, v...)
			return
		}
		l.sql = append(append(l.sql, v[:n]...), `\'`...)
		v = v[n+1:]
	}
}
