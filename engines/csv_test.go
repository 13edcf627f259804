package engines_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/engines"
)

// This file is the example of doc/adding-an-engine.md: a whole engine, source and target of copies,
// and a side of diff. A database is a folder of CSV files (csv:///path), a table each. The first
// line of a file is #, and the description of the table; the others are rows, with values as in
// COPY text, so that no value has a line break. Rows of a run are followed by its mark:
// #run range rows.

// All that the program learns of it: a row of traits, and a value in the list.
func init() {
	csvServer.live, csvServer.claims = map[string]bool{}, map[string][]csvClaim{}
	engine.Add(engine.Traits{Name: "csv", Family: "csv", Title: "CSV", Schemes: []string{"csv"}, Example: "csv:///folder", Names: engine.Names{Quote: `"`, DefaultSchema: "files"}})
	engines.Add(&engines.Engine{Name: "csv", Open: openCSV})
}

// A csvDB is an open folder.
type csvDB struct {
	dir    string
	frozen map[string][]byte // the files, as Freeze has found them
}

// csvServer stands for a server: it has the locks, the claims, and knows which runs live.
var csvServer struct {
	sync.Mutex
	live   map[string]bool
	claims map[string][]csvClaim // by folder
}

func openCSV(_ context.Context, text string, _ engines.Options) (engines.Database, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open", Object: tidemark.MaskURL(text), Err: err, Hint: "Write csv:///folder."}
	}
	return &csvDB{dir: u.Path}, nil
}

func (d *csvDB) Name() string    { return "csv" }
func (d *csvDB) Default() string { return "files" }
func (d *csvDB) Close() error    { return nil }

func (d *csvDB) path(id tidemark.TableID) string { return filepath.Join(d.dir, id.Name+".csv") }

// file returns the lines of a table's file.
func (d *csvDB) file(id tidemark.TableID) ([]string, error) {
	data := d.frozen[d.path(id)]
	if d.frozen == nil {
		var err error
		if data, err = os.ReadFile(d.path(id)); err != nil {
			return nil, err
		}
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), nil
}

func (d *csvDB) names() (ids []tidemark.TableID) {
	files, _ := filepath.Glob(filepath.Join(d.dir, "*.csv")) // it can fail for its pattern only
	for _, f := range files {
		ids = append(ids, tidemark.TableID{Schema: "files", Name: strings.TrimSuffix(filepath.Base(f), ".csv")})
	}
	return ids
}

func (d *csvDB) Describe(_ context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error) {
	db := &tidemark.Database{Engine: "csv", Version: "1", Name: d.dir}
	for _, id := range d.names() {
		if want != nil && !want(id) {
			continue
		}
		lines, err := d.file(id)
		if err != nil {
			return db, err
		}
		t := &tidemark.Table{}
		if err := json.Unmarshal([]byte(lines[0][1:]), t); err != nil {
			return db, &tidemark.Error{Kind: tidemark.Invalid, Op: "describe", Object: d.path(id), Err: err}
		}
		t.Rows, t.Bytes = int64(len(lines)-1), int64(len(strings.Join(lines, "\n")))
		db.Tables = append(db.Tables, t)
	}
	return db, nil
}

func (d *csvDB) Freeze(context.Context, int) (tidemark.Position, error) {
	frozen := map[string][]byte{}
	var err error
	for _, id := range d.names() {
		data, failed := os.ReadFile(d.path(id))
		frozen[d.path(id)], err = data, errors.Join(err, failed)
	}
	d.frozen = frozen
	return tidemark.Position{Engine: "csv", Text: "now"}, err
}

// Split counts lines.
func (d *csvDB) Split(_ context.Context, m *tidemark.Move) (ranges []tidemark.Range, err error) {
	lines, err := d.file(m.From.TableID)
	size := len(lines)
	if m.Split.Max > 0 {
		size = size/m.Split.Max + 1
	}
	for from := 0; from < len(lines); from += size {
		ranges = append(ranges, tidemark.Range{Kind: tidemark.Blocks, FromBlock: int64(from), ToBlock: int64(from + size)})
	}
	return ranges, err
}

func (d *csvDB) Read(ctx context.Context, _ int, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	lines, err := d.file(r.Move.From.TableID)
	if err != nil {
		return err
	}
	b := tidemark.NewBatch(r.Range, tidemark.CopyText)
	var at []int
	for _, name := range r.Move.Source {
		at = append(at, slices.IndexFunc(r.Move.From.Columns, func(c tidemark.Column) bool { return c.Name == name }))
	}
	for n, line := range lines {
		outside := r.Range != nil && r.Range.Kind == tidemark.Blocks && (int64(n) < r.Range.FromBlock || int64(n) >= r.Range.ToBlock)
		if outside || strings.HasPrefix(line, "#") {
			continue
		}
		cells, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil || len(cells) != len(r.Move.From.Columns) {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "read", Object: r.Move.From.String(), Err: fmt.Errorf("line %d is not a row", n+1)}
		}
		row := make([]string, len(at))
		for i, from := range at {
			row[i] = cells[from]
		}
		b.Data, b.Rows = append(append(b.Data, strings.Join(row, "\t")...), '\n'), b.Rows+1
		if len(b.Data) > tidemark.BatchSize {
			if err := emit(b); err != nil {
				return err
			}
			b = tidemark.NewBatch(r.Range, tidemark.CopyText)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	b.Last = true
	return emit(b)
}

// Render can describe every table: each type is kept, since values are canonical text.
func (d *csvDB) Render(_ *tidemark.Database, moves []tidemark.Move) (objects []tidemark.Object, _ []tidemark.Finding) {
	for i := range moves {
		t := *moves[i].To
		t.Columns = t.Stored()
		text, _ := json.Marshal(t) // every description can be written
		objects = append(objects, tidemark.Object{ID: "table " + t.String(), Kind: "table", Table: t.TableID, SQL: []string{t.Name + "\n#" + string(text) + "\n"}})
	}
	return objects, nil
}

// record writes a line.
func record(cells []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.WriteAll([][]string{cells}) // it cannot fail in memory
	return b.String()
}

func (d *csvDB) Inspect(_ context.Context, tables []tidemark.TableID) (states []tidemark.TableState, _ error) {
	for _, id := range tables {
		lines, err := d.file(id)
		states = append(states, tidemark.TableState{Table: id, Exists: err == nil, Rows: len(lines) > 1})
	}
	return states, nil
}

// Exec runs the one statement that there is: a name, and the first line of its file.
func (d *csvDB) Exec(_ context.Context, _ int, sql []string) error {
	name, header, _ := strings.Cut(sql[0], "\n")
	path := d.path(tidemark.TableID{Name: name})
	if _, err := os.Stat(path); err == nil {
		return &tidemark.Error{Kind: tidemark.Exists, Op: "create", Object: name, Err: os.ErrExist}
	}
	return os.WriteFile(path, []byte(header), 0o600)
}

// Write replaces the file by one with the rows and their mark: the rename is the commit.
func (d *csvDB) Write(_ context.Context, _ int, w tidemark.Write, take func() (*tidemark.Batch, error)) (done tidemark.Written, err error) {
	done.Method = "rename"
	var text strings.Builder
	for last := false; !last; {
		b, err := take()
		if err != nil {
			return tidemark.Written{}, err
		}
		for line := range bytes.Lines(b.Data) {
			cells := strings.Split(strings.TrimSuffix(string(line), "\n"), "\t")
			if why := refused(w.Move.To.Stored(), cells); why != "" {
				if w.Reject == nil {
					return tidemark.Written{}, &tidemark.Error{Kind: tidemark.BadRow, Op: "write", Object: w.Move.To.String(), Err: errors.New(why)}
				}
				if err := w.Reject(line, why); err != nil {
					return tidemark.Written{}, err
				}
				done.Rejected++
				continue
			}
			text.WriteString(record(cells))
			done.Rows++
		}
		last, done.Bytes = b.Last, done.Bytes+int64(len(b.Data))
		b.Release()
	}
	if w.Run != "" {
		fmt.Fprintf(&text, "#%s %d %d\n", w.Run, w.Range.ID, done.Rows)
	}
	return done, d.change(w.Move.To.TableID, func(lines []string) string { return strings.Join(lines, "\n") + "\n" + text.String() })
}

// refused returns why a row does not fit; "" if it does.
func refused(columns []tidemark.Column, cells []string) string {
	for i, c := range columns {
		var err error
		switch cell := cells[i]; {
		case cell == `\N` && c.NotNull:
			return c.Name + " is NULL"
		case cell == `\N`:
		case c.Type.Kind == tidemark.Int:
			_, err = strconv.ParseInt(cell, 10, 64)
		case c.Type.Kind == tidemark.Decimal:
			_, err = strconv.ParseFloat(cell, 64)
		}
		if err != nil {
			return c.Name + ": " + err.Error()
		}
	}
	return ""
}

// change replaces a table's file.
func (d *csvDB) change(id tidemark.TableID, of func(lines []string) string) error {
	csvServer.Lock()
	defer csvServer.Unlock()
	data, err := os.ReadFile(d.path(id))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if err := os.WriteFile(d.path(id)+".new", []byte(of(lines)), 0o600); err != nil {
		return err
	}
	return os.Rename(d.path(id)+".new", d.path(id))
}

func (d *csvDB) Tables(ctx context.Context, names []tidemark.TableID) ([]*tidemark.Table, error) {
	db, err := d.Describe(ctx, func(id tidemark.TableID) bool { return slices.Contains(names, id) })
	return db.Tables, err
}

func (d *csvDB) Defined(ctx context.Context, names []tidemark.TableID) (*tidemark.Database, error) {
	return d.Describe(ctx, func(id tidemark.TableID) bool { return slices.Contains(names, id) })
}

func (d *csvDB) Access(_ context.Context, _, _, _ []tidemark.TableID) (f []tidemark.Finding, _ error) {
	return f, nil
}

func (d *csvDB) Preflight(context.Context, string, *tidemark.Database) (f []tidemark.Finding, _ error) {
	return f, nil
}

func (d *csvDB) Look(context.Context, engines.Lock) (s engines.Sight, _ error) { return s, nil }

// The ledger: marks are in the files of the tables.

func (d *csvDB) Begin(context.Context, string) error { return nil }

// mark parses a line; ok: it is a mark of the run.
func mark(line, run string) (m tidemark.Mark, ok bool) {
	n, _ := fmt.Sscanf(line, "#"+run+" %d %d", &m.Range, &m.Rows)
	return m, n == 2
}

func (d *csvDB) Marks(_ context.Context, run string) (marks []tidemark.Mark, _ error) {
	for _, id := range d.names() {
		lines, err := d.file(id)
		for _, line := range lines {
			if m, ok := mark(line, run); ok {
				marks = append(marks, m)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return marks, nil
}

func (d *csvDB) Forget(_ context.Context, run string, ranges []int) error {
	for _, id := range d.names() {
		err := d.change(id, func(lines []string) string {
			return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
				m, ok := mark(line, run)
				return ok && (ranges == nil || slices.Contains(ranges, m.Range))
			}), "\n") + "\n"
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *csvDB) Clear(_ context.Context, tables []tidemark.TableID, drop bool) error {
	for _, id := range tables {
		err := d.change(id, func(lines []string) string { return lines[0] + "\n" })
		if drop {
			err = os.Remove(d.path(id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A csvClaim is the claim of a run to one table, or of no table yet.
type csvClaim struct {
	d     *csvDB
	run   string
	table tidemark.TableID
}

func (d *csvDB) Claim(_ context.Context, run string) (tidemark.Claim, error) {
	csvServer.Lock()
	defer csvServer.Unlock()
	csvServer.live[run] = true
	return csvClaim{d: d, run: run}, nil
}

func (c csvClaim) Take(_ context.Context, tables []tidemark.TableID) (others []tidemark.Claimant, renewed int, _ error) {
	csvServer.Lock()
	defer csvServer.Unlock()
	for _, id := range tables {
		mine := false
		for _, x := range csvServer.claims[c.d.dir] {
			switch {
			case x.table == id && x.run == c.run:
				mine, renewed = true, renewed+1
			case x.table == id:
				others = append(others, tidemark.Claimant{Run: x.run, Table: id, Live: csvServer.live[x.run]})
			}
		}
		if !mine {
			csvServer.claims[c.d.dir] = append(csvServer.claims[c.d.dir], csvClaim{run: c.run, table: id})
		}
	}
	return others, renewed, nil
}

// release removes claims.
func (d *csvDB) release(which func(csvClaim) bool) error {
	csvServer.Lock()
	defer csvServer.Unlock()
	csvServer.claims[d.dir] = slices.DeleteFunc(csvServer.claims[d.dir], which)
	return nil
}

func (c csvClaim) Release(_ context.Context, run string, tables []tidemark.TableID) error {
	return c.d.release(func(x csvClaim) bool { return x.run == run && slices.Contains(tables, x.table) })
}

func (d *csvDB) DropClaim(_ context.Context, run string) error {
	return d.release(func(x csvClaim) bool { return x.run == run })
}

func (c csvClaim) Drop(ctx context.Context) error { c.Close(); return c.d.DropClaim(ctx, c.run) }

func (c csvClaim) Close() {
	csvServer.Lock()
	defer csvServer.Unlock()
	delete(csvServer.live, c.run)
}
