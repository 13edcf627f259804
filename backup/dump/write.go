package dump

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/flow"
)

// A Writer writes the objects of a logical backup. A load.Run writes the rows; then Finish writes
// everything else.
type Writer struct {
	w        *repo.Writer
	level    int
	open     bool // names may be visible
	encoders sync.Pool

	mu    sync.Mutex
	rows  []Rows
	sums  []repo.File
	bytes int64
}

// NewWriter makes a Writer for a backup that was begun. level is zstd's, 1 to 22; 0: frames are not
// compressed.
func NewWriter(w *repo.Writer, encrypted bool, level int) *Writer {
	return &Writer{w: w, level: level, open: !encrypted, encoders: sync.Pool{New: func() any { return newEncoder(level) }}}
}

// Write writes the rows of a range as one object.
func (d *Writer) Write(ctx context.Context, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error) {
	return d.WriteBy(ctx, flow.NewClock(), lane, w, take)
}

// WriteBy is Write by a worker with a clock: compressing counts as its own work, the rest as IO.
func (d *Writer) WriteBy(ctx context.Context, c *flow.Clock, _ int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error) {
	x := &writing{d: d, w: w}
	defer x.abort()
	out := tidemark.Written{Method: "objects"}
	var packed []byte
	for last := false; !last; {
		b, err := take()
		if err != nil {
			return tidemark.Written{}, err
		}
		rows, bytes, more := int64(b.Rows), int64(len(b.Data)), b.More
		last, packed = b.Last, packed[:0]
		if bytes > 0 {
			was := c.Enter(flow.Working)
			packed = d.pack(packed, b.Data)
			c.Enter(was)
		}
		b.Release()
		if err := x.put(ctx, packed, rows, bytes, more); err != nil {
			return tidemark.Written{}, err
		}
		out.Rows, out.Bytes = out.Rows+rows, out.Bytes+bytes
	}
	if err := x.end(); err != nil {
		return tidemark.Written{}, err
	}
	return out, d.add(x)
}

// pack appends text as a frame.
func (d *Writer) pack(dst, text []byte) []byte {
	if d.level == 0 {
		return storedFrame(dst, text)
	}
	enc := d.encoders.Get().(*zstd.Encoder)
	defer d.encoders.Put(enc)
	return enc.EncodeAll(text, dst)
}

// objectSize is the text size of an object, so that several can be read at once; it ends with the
// batch that reaches this size.
const objectSize = 64 << 20

// A writing is one range being written.
type writing struct {
	d    *Writer
	w    tidemark.Write
	to   *repo.PlainWriter // nil: none is open
	now  Rows
	rows []Rows
	made []repo.File
}

// put appends a frame.
func (x *writing) put(ctx context.Context, packed []byte, rows, bytes int64, more bool) (err error) {
	if len(packed) == 0 {
		return nil
	}
	if x.to == nil {
		x.now = Rows{Path: rowsPath(x.w.Range, x.w.Move, len(x.rows), x.d.open), Move: x.w.Range.Move, Range: *x.w.Range}
		if x.to, err = x.d.w.CreatePlain(ctx, x.now.Path); err != nil {
			return err
		}
	}
	if _, err := x.to.Write(packed); err != nil {
		return err
	}
	x.now.Rows, x.now.Bytes, x.now.Packed = x.now.Rows+rows, x.now.Bytes+bytes, x.now.Packed+int64(len(packed))
	if x.now.Bytes >= objectSize && !more {
		return x.end()
	}
	return nil
}

// end ends the open object, if any.
func (x *writing) end() error {
	if x.to == nil {
		return nil
	}
	f, err := x.to.Commit()
	if err != nil {
		return err
	}
	x.to, x.rows, x.made = nil, append(x.rows, x.now), append(x.made, f)
	return nil
}

func (x *writing) abort() {
	if x.to != nil {
		x.to.Abort()
	}
}

// add accepts a range that is completely written. A failed range is not accepted, and is written
// again under the same names.
func (d *Writer) add(x *writing) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rows, d.sums = append(d.rows, x.rows...), append(d.sums, x.made...)
	for i := range x.made {
		d.bytes += x.rows[i].Bytes
		if err := d.w.AddFile(x.made[i]); err != nil {
			return err
		}
	}
	return nil
}

// Exec refuses: statements are in scripts.
func (*Writer) Exec(context.Context, int, []string) error {
	return &tidemark.Error{Kind: tidemark.Bug, Op: "run", Err: errors.New("a logical backup cannot run statements")}
}

// Bytes returns the size of all rows' text so far.
func (d *Writer) Bytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bytes
}

// Count returns the number of rows so far.
func (d *Writer) Count() (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rows {
		n += r.Rows
	}
	return n
}

// Content is what is backed up, besides the rows.
type Content struct {
	Database *tidemark.Database
	Position tidemark.Position
	Moves    []tidemark.Move
	Objects  []tidemark.Object // as the engine renders them for a server of the source's kind
	Script   Scripter
	Identity string // see repo.WrappedIdentity
}

// A Scripter is an engine that can write statements for its own client program.
type Scripter interface {
	// Script returns the statements of objects in a form that the client program reads from a file.
	Script(objects []tidemark.Object) []byte
	// LoadStatements load a range's rows from the client's standard input, in one session.
	LoadStatements(m *tidemark.Move, r *tidemark.Range) []string
}

// Finish writes the scripts and the description.
func (d *Writer) Finish(ctx context.Context, c Content) error {
	slices.SortStableFunc(d.rows, func(a, b Rows) int { return a.Range.ID - b.Range.ID })
	var before, after []tidemark.Object
	for _, phase := range []tidemark.Phase{tidemark.BeforeRows, tidemark.AfterTable, tidemark.AfterRows} {
		for _, o := range c.Objects {
			switch {
			case o.Phase != phase:
			case phase == tidemark.BeforeRows:
				before = append(before, o)
			default:
				after = append(after, o)
			}
		}
	}
	description, err := d.describe(c)
	if err != nil {
		return err
	}
	for _, o := range []struct {
		path string
		text []byte
	}{{beforePath, c.Script.Script(before)}, {afterPath, c.Script.Script(after)}, {descriptionPath, description}} {
		if err := d.put(ctx, o.path, o.text, d.w.CreatePlain, true); err != nil {
			return err
		}
	}
	if err := d.put(ctx, shellPath, d.shell(c), d.w.CreatePlain, false); err != nil {
		return err
	}
	if c.Identity != "" {
		if err := d.put(ctx, identityPath, []byte(c.Identity), d.w.CreateOpen, false); err != nil {
			return err
		}
	}
	if err := d.put(ctx, readmePath, d.readme(c), d.w.CreateOpen, false); err != nil {
		return err
	}
	return d.put(ctx, sumsPath, d.checksums(), d.w.CreateOpen, false)
}

// checksums lists them as sha256sum writes them.
func (d *Writer) checksums() []byte {
	var b bytes.Buffer
	for _, f := range d.sums {
		fmt.Fprintf(&b, "%s  %s\n", f.Object.SHA256, f.Path)
	}
	return b.Bytes()
}

// put writes a small object in one call.
func (d *Writer) put(ctx context.Context, path string, text []byte, create func(context.Context, string) (*repo.PlainWriter, error), pack bool) error {
	to, err := create(ctx, path)
	if err != nil {
		return err
	}
	defer to.Abort()
	if pack {
		text = d.pack(nil, text)
	}
	if _, err := to.Write(text); err != nil {
		return err
	}
	f, err := to.Commit()
	if err != nil {
		return err
	}
	d.sums = append(d.sums, f)
	return d.w.AddFile(f)
}

// describe writes the description.
func (d *Writer) describe(c Content) ([]byte, error) {
	db := c.Database
	lines := []line{{Head: &head{Form: form, Engine: db.Engine, Version: db.Version, Major: db.Major, Name: db.Name, Charset: db.Charset, Collate: db.Collate,
		Position: c.Position, Text: FormatOf(db.Engine).String()}}}
	for _, t := range db.Tables {
		lines = append(lines, line{Table: t})
	}
	for i := range db.Objects {
		lines = append(lines, line{Native: &db.Objects[i]})
	}
	for i := range db.Findings {
		lines = append(lines, line{Finding: &db.Findings[i]})
	}
	for i := range c.Moves {
		m := &c.Moves[i]
		lines = append(lines, line{Move: &moved{Table: m.From.TableID, Columns: m.Source, Filter: m.Filter}})
	}
	for i := range d.rows {
		lines = append(lines, line{Rows: &d.rows[i]})
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for i := range lines {
		if err := enc.Encode(&lines[i]); err != nil {
			return nil, &tidemark.Error{Op: "back up", Kind: tidemark.Bug, Err: err}
		}
	}
	return out.Bytes(), nil
}
