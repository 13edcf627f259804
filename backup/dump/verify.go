package dump

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark/backup/repo"
)

// Text returns the content check of a logical backup's objects, for repo.VerifyOptions: everything
// is unpacked, and rows are counted.
func Text(r *repo.Repo) func(ctx context.Context, m *repo.Manifest) (func(f repo.File, in io.Reader) error, error) {
	return func(ctx context.Context, m *repo.Manifest) (func(repo.File, io.Reader) error, error) {
		d, err := Open(ctx, r, m)
		if err != nil {
			return nil, err
		}
		rows := map[string]*Rows{}
		for i := range d.Rows {
			if rows[d.Rows[i].Path] = &d.Rows[i]; d.files[d.Rows[i].Path].Object == nil {
				return nil, d.damaged(d.Rows[i].Path, errors.New("the backup does not list it"))
			}
		}
		return func(f repo.File, in io.Reader) error { return d.checkFile(f, rows[f.PlainPath()], in) }, nil
	}
}

func (d *Dump) checkFile(f repo.File, rows *Rows, in io.Reader) error {
	path := f.PlainPath()
	switch {
	case rows != nil:
		return d.count(path, rows, in)
	case strings.HasSuffix(path, ".zst"):
		dec := decoders.Get().(*zstd.Decoder)
		defer decoders.Put(dec)
		err := dec.Reset(in)
		if err == nil {
			_, err = io.Copy(io.Discard, dec)
		}
		_ = dec.Reset(nil) // drops the reference to its input
		return d.damaged(path, err)
	}
	return nil
}

// count compares the number of rows with the number written.
func (d *Dump) count(path string, rows *Rows, in io.Reader) error {
	f := &frames{d: d, path: path, from: io.NopCloser(in), in: bufio.NewReaderSize(in, 256<<10), dec: decoders.Get().(*zstd.Decoder)}
	defer f.close()
	var n, size int64
	var text []byte
	for {
		var err error
		if text, err = f.next(text); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		n, size = n+int64(bytes.Count(text, newline)), size+int64(len(text))
	}
	if n != rows.Rows || size != rows.Bytes {
		return d.damaged(path, fmt.Errorf("it has %d rows and %d bytes of text instead of %d and %d", n, size, rows.Rows, rows.Bytes))
	}
	return nil
}
