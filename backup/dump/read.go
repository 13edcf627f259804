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

// A Dump is a logical backup as described in its description.
type Dump struct {
	Database *tidemark.Database // as the source described it: the requested tables, and all native objects
	Position tidemark.Position  // in the source's log, of the rows' snapshot
	Format   tidemark.Format    // of all rows
	// Moves list which columns each table's rows have, in their order: Source. To is From.
	Moves []tidemark.Move
	Rows  []Rows // indexed by their ranges' IDs, which begin at 1

	r     *repo.Repo
	m     *repo.Manifest
	files map[string]repo.File // plain objects, by path without .age
}

// Open reads the description of a logical backup. Kind Unsupported: the backup is not logical, or
// of a newer form; Corrupt.
func Open(ctx context.Context, r *repo.Repo, m *repo.Manifest) (*Dump, error) {
	if m.Form != repo.Logical {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "read backup", Object: m.ID, Err: errors.New("it is a physical backup: it has the files of a server, not rows"), Hint: "Restore it into a folder."}
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

// parse parses the lines of the description.
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
			return errors.New("it does not have the header of a description")
		}
		switch {
		case l.Head != nil:
			h := l.Head
			if h.Form != form {
				return &tidemark.Error{Op: "read backup", Object: d.m.ID, Kind: tidemark.Unsupported, Err: errors.New("it was written in a newer format"), Hint: "Use the version of tidemark that wrote it, or a newer one."}
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
				return fmt.Errorf("it has rows of %s, but not the table", l.Move.Table)
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

// Read reads the text of rows. It ends with an error of Kind Corrupt instead of io.EOF if the
// object differs from what was written.
func (d *Dump) Read(ctx context.Context, rows *Rows) (io.ReadCloser, error) {
	return d.open(ctx, rows.Path)
}

// openStored reads an object as stored, but decrypted.
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

// decoders hold the idle ones.
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
		_ = t.dec.Reset(nil) // drops the reference to its input
		decoders.Put(t.dec)
		t.dec = nil
	}
	return t.from.Close()
}

// damaged describes what is wrong with an object. The repository's errors stay unchanged.
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
		Hint: "Run tidemark verify: it lists what else is damaged, and which backups need it."}
}
