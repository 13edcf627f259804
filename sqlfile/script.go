package sqlfile

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/tidemarkdb/tidemark"
)

// ScriptOptions of a Script. The zero value is good.
type ScriptOptions struct {
	Convert ConvertOptions
	Piece   int  // see Options
	Partial bool // see Options
}

// A Script is a dump file as an import wants it: tables, pieces of rows, and
// statements, in the order of the file.
type Script struct {
	opt  ScriptOptions
	file *File
	scan *Scanner
	long *parts // the row whose parts are still being read
	set  tidemark.Settings
}

// parts is a row that is too long for one piece, handed over part by part to the
// one who converts it.
type parts struct {
	index int64
	first *Tuples
	ch    chan *Tuples
	quit  chan struct{}
	once  sync.Once
	taken bool
}

// OpenScript opens a dump file; see Open.
func OpenScript(path string, opt ScriptOptions) (*Script, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	return &Script{opt: opt, file: f, scan: NewScanner(f, Options{Name: f.Name, Piece: opt.Piece, Partial: opt.Partial})}, nil
}

// Name is the file's name, for messages.
func (s *Script) Name() string { return s.file.Name }

// Server is the version of the server that the dump was made of, as far as it has
// said by now: "10.11.14-MariaDB".
func (s *Script) Server() string { return s.scan.Header().Server }

// For says which server the file is for, whose conditional comments count:
// "mysql" or "mariadb", and its version as it says it. It comes before Next.
func (s *Script) For(engine, version string) {
	var major, minor, patch int
	fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	server := Server{MariaDB: engine == "mariadb", Version: major*10000 + minor*100 + patch}
	s.scan.opt.Server, s.scan.session.Server = server, server
}

// Close closes the file.
func (s *Script) Close() error { return s.file.Close() }

// Offset says how much of the file, as it lies on disk, has been read; size is 0
// for a pipe.
func (s *Script) Offset() (at, size int64) { return s.file.Offset(), s.file.Size() }

// Stamp changes when the file does; empty for a pipe, which cannot be read again.
func (s *Script) Stamp() string {
	st, err := os.Stat(s.file.Name)
	if err != nil || !st.Mode().IsRegular() {
		return ""
	}
	return fmt.Sprintf("%d bytes of %s", st.Size(), st.ModTime().UTC().Format("2006-01-02T15:04:05.000000000Z"))
}

// Findings lists what is odd about the file, complete after io.EOF.
func (s *Script) Findings() []tidemark.Finding { return s.scan.Findings() }

// Next gives the next piece that matters to an import; io.EOF after the last.
func (s *Script) Next(ctx context.Context) (*tidemark.Piece, error) {
	for {
		st, err := s.scan.Next(ctx)
		if err != nil {
			return nil, err
		}
		if st.Session != nil && st.Session.Postgres {
			return nil, tidemark.Errorf(tidemark.Unsupported, "read", s.file.Name, "is a dump of PostgreSQL", "load it with psql; to copy between servers give tidemark copy both URLs")
		}
		if st.Tuples != nil {
			p, err := s.rows(ctx, st.Tuples)
			if p != nil || err != nil {
				return p, err
			}
			continue
		}
		if p := s.statement(st); p != nil {
			return p, nil
		}
	}
}

// rows makes a piece of tuples; nil for a further part of a long row.
func (s *Script) rows(ctx context.Context, t *Tuples) (*tidemark.Piece, error) {
	if s.long != nil && s.long.index == t.Index {
		return nil, s.further(ctx, t)
	}
	p := &tidemark.Piece{Kind: tidemark.Rows, ID: int(t.Index), Table: t.Table, Def: t.Def, Columns: t.Columns,
		Offset: t.Offset, Line: t.Line, Bytes: int64(len(t.Data)), Rows: int64(t.Rows), Set: s.set, Text: t}
	p.AsSQL = t.Verb != "INSERT" && t.Verb != "COPY" && !t.More // INSERT IGNORE and REPLACE mean something to a server
	if t.More {
		s.long = &parts{index: t.Index, first: t, ch: make(chan *Tuples, 1), quit: make(chan struct{})}
		p.Text, p.Rows = s.long, 1
	}
	return p, nil
}

// further hands a part over, unless nobody wants the row.
func (s *Script) further(ctx context.Context, t *Tuples) error {
	l := s.long
	if !t.More {
		s.long = nil
		defer close(l.ch)
	}
	select {
	case l.ch <- t:
	case <-l.quit:
		t.Release()
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// statement makes a piece of anything else; nil for what an import does in its
// own way, such as locks and transactions.
func (s *Script) statement(st *Statement) *tidemark.Piece {
	id := tidemark.TableID{Schema: st.Database, Name: st.Table}
	p := &tidemark.Piece{Kind: tidemark.Execute, Table: id, SQL: string(st.Text), Offset: st.Offset, Line: st.Line, Bytes: int64(len(st.Text))}
	switch st.Kind {
	case CreateTable:
		if st.Def == nil {
			p.Kind, p.What = tidemark.ExecuteAt, "table "+id.String()
			return p
		}
		p.Kind, p.Def, p.Table = tidemark.Define, st.Def, st.Def.TableID
		p.Objects = []tidemark.Object{{ID: "table " + st.Def.TableID.String(), Kind: "table", Phase: tidemark.BeforeRows, Table: st.Def.TableID, SQL: []string{p.SQL}}}
	case Insert:
		p.Kind, p.ID, p.Set = tidemark.ExecuteAt, int(st.Index), s.set
	case CreateDatabase:
		if !strings.EqualFold(p.SQL[:min(len(p.SQL), 6)], "CREATE") {
			return nil // DROP would take what else is there, ALTER is about what comes later
		}
		p.Kind = tidemark.Schema
	case Set:
		s.remember(p)
	case Trigger:
		p.Kind, p.What = tidemark.OnRows, fmt.Sprintf("%s %s", st.Kind, title(st))
	case AlterTable, View, Routine, Event, Sequence:
		p.What = fmt.Sprintf("%s %s", st.Kind, title(st))
	case Other:
		p.What = fmt.Sprintf("statement at line %d", st.Line)
	default:
		return nil
	}
	return p
}

// title names what a statement is about by its place, because one object may
// have several.
func title(st *Statement) string {
	if st.Table != "" {
		return fmt.Sprintf("%s (line %d)", st.Table, st.Line)
	}
	text := strings.Join(strings.Fields(string(st.Text[:min(len(st.Text), 200)])), " ")
	return fmt.Sprintf("%.60s (line %d)", text, st.Line)
}

// Narrow gives m with only the columns that the rows of this piece have.
func (s *Script) Narrow(p *tidemark.Piece, m *tidemark.Move) *tidemark.Move {
	return Narrow(m, p.Columns)
}

// Convert turns a piece of rows into batches. A row in parts can be converted once.
func (s *Script) Convert(ctx context.Context, p *tidemark.Piece, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	c := NewConverter(r.Move, r.Format, s.opt.Convert)
	l, ok := p.Text.(*parts)
	if !ok {
		return c.Convert(p.Text.(*Tuples), r.Range, emit)
	}
	if l.taken {
		return tidemark.Errorf(tidemark.Incomplete, "import", r.Move.To.String(), fmt.Sprintf("the long row at line %d cannot be sent a second time", p.Line), "go on with --resume")
	}
	l.taken = true
	defer l.drop()
	for t := l.first; ; {
		err := c.Convert(t, r.Range, emit)
		t.Release()
		if err != nil {
			return err
		}
		var ok bool
		select {
		case t, ok = <-l.ch:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !ok {
			return nil
		}
	}
}

// drop lets the scanner go on without handing over what is left.
func (l *parts) drop() { l.once.Do(func() { close(l.quit) }) }

// Done gives a piece's memory back.
func (s *Script) Done(p *tidemark.Piece) {
	switch t := p.Text.(type) {
	case *Tuples:
		t.Release()
	case *parts:
		t.drop()
	}
	p.Text = nil
}
