package store

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/tidemarkdb/tidemark"
)

// cloud is what the stores of clouds have besides being a Store.
type cloud interface {
	Store
	// fail words an error of the server, or of the way there.
	fail(op, name string, err error) error
}

// vacant refuses a name that has to be new, and is there.
func vacant(ctx context.Context, s Store, name string, mode Mode) error {
	if mode == Replace {
		return nil
	}
	_, err := s.Stat(ctx, name)
	if err == nil {
		return &tidemark.Error{Kind: tidemark.Exists, Op: "write", Object: s.String() + "/" + name, Err: errors.New("there is one already")}
	}
	if tidemark.KindOf(err) == tidemark.NotFound {
		return nil
	}
	return err
}

// readCloud is Read of a cloud's store. get asks for the bytes; beyond says of its error that all of
// them would be behind the object's end.
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

// cloudReader words errors.
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
