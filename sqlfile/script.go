package sqlfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// ScriptOptions are the options of a Script. The zero value is valid.
type ScriptOptions struct {
	Convert ConvertOptions
	Piece   int  // see Options
	Partial bool // see Options
	All     bool // see Options; only for a server that runs the file's SQL
}

// A Script is a dump file, or several, in the form that an import needs: tables, pieces of rows,
// and statements, in the order of the file.
type Script struct {
	opt    ScriptOptions
	parts  *parts
	at     int // the part being read
	server sqltext.Server
	scan   *Scanner
	long   *longRow // the row whose parts are still being read
	set    tidemark.Settings
	last   map[string]string // by variable: the SET that set it, if its value is a constant

	mu   sync.Mutex // guards what Offset reads concurrently
	file *File
	read int64 // bytes of the earlier parts
}

// A longRow is a row that is too long for one piece, handed part by part to its Convert call.
type longRow struct {
	index int64
	first *Tuples
	ch    chan *Tuples
	quit  chan struct{}
	once  sync.Once
	taken bool
}

// OpenScript opens a dump file, see Open; or several, one after the other: files separated by
// commas, or a folder, of mydumper or with SQL files, in the order of their names. Later files may
// fill the tables that earlier ones define; each file has its own SETs and USEs. A folder whose
// rows are not SQL is of Kind Unsupported.
func OpenScript(path string, opt ScriptOptions) (*Script, error) {
	p, err := partsOf(path)
	if err != nil {
		return nil, err
	}
	s := &Script{opt: opt, parts: p}
	return s, s.open()
}

// open opens the next part.
func (s *Script) open() error {
	it := &s.parts.list[s.at]
	f, err := Open(it.path)
	if err != nil {
		return err
	}
	if s.parts.name == "-" {
		s.parts.name = f.Name
	}
	s.mu.Lock()
	s.file = f
	s.mu.Unlock()
	next := NewScanner(f, Options{Name: f.Name, Piece: s.opt.Piece, Partial: s.opt.Partial, All: s.opt.All && s.server != sqltext.Server{}, Server: s.server, Database: it.database, Delimiter: it.ends})
	if s.scan != nil {
		next.after(s.scan)
	} else {
		next.position, next.header.Server = s.parts.position, s.parts.server
	}
	s.scan, s.set = next, tidemark.Settings{Version: s.set.Version + 1}
	return nil
}

// advance moves to the next part; false after the last.
func (s *Script) advance() (bool, error) {
	if s.at+1 == len(s.parts.list) {
		return false, nil
	}
	size := s.file.Offset()
	if err := s.file.Close(); err != nil {
		return false, err
	}
	s.mu.Lock()
	s.at, s.read = s.at+1, s.read+size
	s.mu.Unlock()
	return true, s.open()
}

// Name returns the file's name, for messages.
func (s *Script) Name() string { return s.parts.name }

// Defined reports whether no later part defines a table, as far as the file names tell.
func (s *Script) Defined() bool { return s.at >= s.parts.defined }

// Server returns the version of the dumped server, as far as the dump has named it by now:
// "10.11.14-MariaDB".
func (s *Script) Server() string { return s.scan.Header().Server }

// For sets the server that the file is for, whose conditional comments count: "mysql" or "mariadb",
// and the version that it reports. Call it before Next.
func (s *Script) For(engine, version string) {
	var major, minor, patch int
	fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	s.server = sqltext.Server{MariaDB: engine == "mariadb", Version: major*10000 + minor*100 + patch}
	s.scan.opt.Server, s.scan.session.Server, s.scan.opt.All = s.server, s.server, s.opt.All
}

// Compare says that rows are compared instead of loaded: values stay as they are that a target may
// refuse, and with dates also dates that only MySQL and MariaDB have. Call it before Next.
func (s *Script) Compare(dates bool) {
	s.opt.Convert.KeepNUL, s.opt.Convert.KeepDates = true, dates
}

// Close closes the file.
func (s *Script) Close() error { return s.file.Close() }

// Offset returns how many bytes of the file, as stored on disk, were read; size is 0 for a pipe.
// Any goroutine may call it.
func (s *Script) Offset() (at, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parts.list) == 1 {
		return s.file.Offset(), s.file.Size()
	}
	return s.read + s.file.Offset(), s.parts.size()
}

// Stamp changes when the file does, or one of several; it is empty for a pipe, which cannot be read
// again.
func (s *Script) Stamp() string { return s.parts.stamp() }

// Findings lists the oddities of the file, complete after io.EOF.
func (s *Script) Findings() []tidemark.Finding {
	return slices.Concat(s.parts.findings, s.scan.Findings())
}

// Next returns the next piece that matters to an import; io.EOF after the last.
func (s *Script) Next(ctx context.Context) (*tidemark.Piece, error) {
	for {
		st, err := s.scan.Next(ctx)
		if errors.Is(err, io.EOF) {
			more, failed := s.advance()
			switch {
			case failed != nil:
				err = failed
			case more:
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		if st.Session != nil && st.Session.Postgres {
			return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "read", Object: s.file.Name, Err: errors.New("is a dump of PostgreSQL"), Hint: "Load it with psql; to copy between servers give tidemark copy both URLs."}
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

// rows creates a piece of tuples; nil for a further part of a long row.
func (s *Script) rows(ctx context.Context, t *Tuples) (*tidemark.Piece, error) {
	if s.long != nil && s.long.index == t.Index {
		return nil, s.further(ctx, t)
	}
	p := &tidemark.Piece{Kind: tidemark.Rows, ID: int(t.Index), Table: t.Table, Def: t.Def, Columns: t.Columns,
		Offset: t.Offset, Line: t.Line, Bytes: int64(len(t.Data)), Rows: int64(t.Rows), Set: s.set, Text: t}
	p.AsSQL = t.Verb != "INSERT" && t.Verb != "COPY" && !t.More // INSERT IGNORE and REPLACE mean something to a server
	if t.More {
		s.long = &longRow{index: t.Index, first: t, ch: make(chan *Tuples, 1), quit: make(chan struct{})}
		p.Text, p.Rows, p.Long = s.long, 1, true
	}
	return p, nil
}

// further hands over a part, unless the row is no longer wanted.
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

// statement creates a piece of any other statement; nil for what an import does in its own way,
// such as locks and transactions.
func (s *Script) statement(st *Statement) *tidemark.Piece {
	id := tidemark.TableID{Schema: st.Database, Name: st.Table}
	p := &tidemark.Piece{Kind: tidemark.Execute, Table: id, SQL: string(st.SQL), Refuse: st.Refuse, Remedy: st.Remedy, Offset: st.Offset, Line: st.Line, Bytes: int64(len(st.Text))}
	if st.Beyond != "" {
		p.Kind, p.What, p.Refuse = tidemark.Beyond, fmt.Sprintf("%s (%s)", st.Beyond, s.line(st)), st.Unread
		return p
	}
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
			return nil // DROP would remove what else is there, ALTER affects only later objects
		}
		p.Kind = tidemark.Schema
	case Set:
		s.remember(p, st.Text)
		p.Idle = s.idle(st)
		if s.parts.list[s.at].rows {
			return nil // it applies to these rows and tables, which are known by now
		}
	case Trigger:
		p.Kind, p.What = tidemark.OnRows, fmt.Sprintf("%s %s", st.Kind, s.title(st))
	case AlterTable, View, Routine, Event, Sequence:
		p.Def, p.What = st.Altered, fmt.Sprintf("%s %s", st.Kind, s.title(st))
	case Other:
		p.What = "statement at " + s.line(st)
	default:
		return nil
	}
	return p
}

// title names a statement's object together with its line, because one object may have several
// statements.
func (s *Script) title(st *Statement) string {
	if st.Table != "" {
		return fmt.Sprintf("%s (%s)", st.Table, s.line(st))
	}
	text := strings.Join(strings.Fields(string(st.Text[:min(len(st.Text), 200)])), " ")
	return fmt.Sprintf("%.60s (%s)", text, s.line(st))
}

// line names a statement's line, and for several files also its file.
func (s *Script) line(st *Statement) string {
	if len(s.parts.list) == 1 {
		return fmt.Sprintf("line %d", st.Line)
	}
	return fmt.Sprintf("line %d of %s", st.Line, filepath.Base(s.file.Name))
}

// Narrow returns m with only the columns that the rows of this piece have.
func (s *Script) Narrow(p *tidemark.Piece, m *tidemark.Move) *tidemark.Move {
	return Narrow(m, p.Columns)
}

// Convert turns a piece of rows into batches. A row in parts can be converted only once.
func (s *Script) Convert(ctx context.Context, p *tidemark.Piece, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	c := NewConverter(r.Move, r.Format, s.opt.Convert)
	l, ok := p.Text.(*longRow)
	if !ok {
		return c.Convert(p.Text.(*Tuples), r.Range, emit)
	}
	if l.taken {
		return &tidemark.Error{Kind: tidemark.Incomplete, Op: "import", Object: r.Move.To.String(), Err: fmt.Errorf("the long row at line %d cannot be sent a second time", p.Line), Hint: "Resume with --resume."}
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

// drop lets the scanner continue without handing over the rest.
func (l *longRow) drop() { l.once.Do(func() { close(l.quit) }) }

// Done frees a piece's memory.
func (s *Script) Done(p *tidemark.Piece) {
	switch t := p.Text.(type) {
	case *Tuples:
		t.Release()
	case *longRow:
		t.drop()
	}
	p.Text = nil
}
