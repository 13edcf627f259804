package store

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/tidemarkdb/tidemark"
)

// cloud is what cloud stores have besides being a Store.
type cloud interface {
	Store
	// fail describes an error of the server or of the connection.
	fail(op, name string, err error) error
}

// vacant rejects a name that must be new but exists.
func vacant(ctx context.Context, s Store, name string, mode Mode) error {
	if mode == Replace {
		return nil
	}
	_, err := s.Stat(ctx, name)
	if err == nil {
		return &tidemark.Error{Kind: tidemark.Exists, Op: "write", Object: s.String() + "/" + name, Err: errors.New("the object already exists")}
	}
	if tidemark.KindOf(err) == tidemark.NotFound {
		return nil
	}
	return err
}

// readCloud is Read of a cloud store. get requests the bytes; beyond reports whether its error
// means that the range is beyond the object's end.
func readCloud(ctx context.Context, s cloud, name string, length int64, get func() (body io.ReadCloser, beyond bool, err error)) (io.ReadCloser, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if length == 0 {
		_, err := s.Stat(ctx, name)
		return io.NopCloser(bytes.NewReader(nil)), err
	}
	body, beyond, err := get()
	if beyond {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	if err != nil {
		return nil, s.fail("read", name, err)
	}
	return &cloudReader{body, s.fail, name}, nil
}

// cloudReader describes errors.
type cloudReader struct {
	io.ReadCloser
	fail func(op, name string, err error) error
	name string
}

func (r *cloudReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = r.fail("read", r.name, err)
	}
	return n, err
}
