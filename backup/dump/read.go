package dump

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

// A Dump is a logical backup, as its description has it.
type Dump struct {
	Database *tidemark.Database // as the source described it: the tables that were asked for, and all native objects
	Position tidemark.Position  // in the source's log, of the view that the rows are of
	Format   tidemark.Format    // of all rows
	// Moves say of each table which columns its rows have, in their order: Source. To is From.
	Moves []tidemark.Move
	Rows  []Rows // by their ranges' IDs, which begin at 1

	r     *repo.Repo
	m     *repo.Manifest
	files map[string]repo.File // plain objects, by path without .age
}

// Open reads the description of a logical backup. Kind Unsupported: it is no logical one, or of a
// newer form; Corrupt.
func Open(ctx context.Context, r *repo.Repo, m *repo.Manifest) (*Dump, error) {
	if m.Form != repo.Logical {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "read backup", Object: m.ID, Err: errors.New("it has the files of a server, and no rows"), Hint: "restore it into a folder"}
	}
	d := &Dump{Database: new(tidemark.Database), r: r, m: m, files: map[string]repo.File{}}
	for f, err := range r.Files(ctx, m) {
		if err != nil {
			return nil, err
		}
		d.files[f.PlainPath()] = f
	}
	in, err := d.open(ctx, descriptionPath)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := d.parse(in); err != nil {
		return nil, d.damaged(descriptionPath, err)
	}
	return d, nil
}

// parse reads the lines of the description.
func (d *Dump) parse(in io.Reader) error {
	tables := map[tidemark.TableID]*tidemark.Table{}
	dec := json.NewDecoder(in)
	for n := 0; ; n++ {
		var l line
		err := dec.Decode(&l)
		switch {
		case err == io.EOF && n > 0:
			return nil
		case err == io.EOF:
			return errors.New("it is empty")
		case err != nil:
			return err
		case n == 0 && l.Head == nil:
			return errors.New("it does not begin as descriptions do")
		}
		switch {
		case l.Head != nil:
			h := l.Head
			if h.Form != form {
				return &tidemark.Error{Op: "read backup", Object: d.m.ID, Kind: tidemark.Unsupported, Err: errors.New("it was written in a newer form"), Hint: "read it with the version of tidemark that wrote it, or a newer one"}
			}
			d.Database.Engine, d.Database.Version, d.Database.Major = h.Engine, h.Version, h.Major
			d.Database.Name, d.Database.Charset, d.Database.Collate = h.Name, h.Charset, h.Collate
			d.Position, d.Format = h.Position, FormatOf(h.Engine)
		case l.Table != nil:
			d.Database.Tables = append(d.Database.Tables, l.Table)
			tables[l.Table.TableID] = l.Table
		case l.Native != nil:
			d.Database.Objects = append(d.Database.Objects, *l.Native)
		case l.Finding != nil:
			d.Database.Findings = append(d.Database.Findings, *l.Finding)
		case l.Move != nil:
			t := tables[l.Move.Table]
			if t == nil {
				return fmt.Errorf("it has rows of %s, and not the table", l.Move.Table)
			}
			d.Moves = append(d.Moves, tidemark.Move{From: t, To: t, Source: l.Move.Columns, Filter: l.Move.Filter, Direct: true})
		case l.Rows != nil:
			if l.Rows.Move < 0 || l.Rows.Move >= len(d.Moves) {
				return fmt.Errorf("%s is of table %d of %d", l.Rows.Path, l.Rows.Move, len(d.Moves))
			}
			d.Rows = append(d.Rows, *l.Rows)
		}
	}
}

// Read gives the text of rows. It ends with an error of Kind Corrupt instead of io.EOF where
// the object is not what was written.
func (d *Dump) Read(ctx context.Context, rows *Rows) (io.ReadCloser, error) {
	return d.open(ctx, rows.Path)
}

// openStored reads an object as it is, but decrypted.
func (d *Dump) openStored(ctx context.Context, path string) (io.ReadCloser, error) {
	f, ok := d.files[path]
	if !ok {
		return nil, d.damaged(path, errors.New("the backup does not list it"))
	}
	return d.r.OpenPlain(ctx, d.m, f)
}

func (d *Dump) open(ctx context.Context, path string) (io.ReadCloser, error) {
	from, err := d.openStored(ctx, path)
	if err != nil {
		return nil, err
	}
	dec := decoders.Get().(*zstd.Decoder)
	if err := dec.Reset(from); err != nil {
		_ = from.Close() // the first error counts
		return nil, d.damaged(path, err)
	}
	return &text{d: d, path: path, from: from, dec: dec}, nil
}

// decoders hold those that nobody uses.
var decoders = sync.Pool{New: func() any {
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(frameLimit), zstd.WithDecoderLowmem(true)) // valid options
	return d
}}

// text is what an object holds, unpacked.
type text struct {
	d    *Dump
	path string
	from io.ReadCloser
	dec  *zstd.Decoder
}

func (t *text) Read(b []byte) (int, error) {
	n, err := t.dec.Read(b)
	if err != nil && err != io.EOF {
		err = t.d.damaged(t.path, err)
	}
	return n, err
}

func (t *text) Close() error {
	if t.dec != nil {
		_ = t.dec.Reset(nil) // it lets go of what it reads
		decoders.Put(t.dec)
		t.dec = nil
	}
	return t.from.Close()
}

// damaged words what is wrong with an object. What the repository says stays as it is.
func (d *Dump) damaged(path string, err error) error {
	var own *tidemark.Error
	if err == nil || errors.As(err, &own) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	name := repo.Path(path)
	if f, ok := d.files[path]; ok {
		name = f.Path
	}
	return &tidemark.Error{Op: "read", Object: repo.PlainName(d.m.ID, name), Kind: tidemark.Corrupt, Err: err,
		Hint: "tidemark verify says what else is damaged, and which backups need it"}
}
