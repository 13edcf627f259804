// Package spool keeps what is too large for memory in files that go with the process.
package spool

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/tidemarkdb/tidemark"
)

// A File is written at its end, and read as often as is wanted.
type File struct {
	file   *os.File
	size   int64
	option string
}

// New makes a file in dir, which is made if it is not there; "" is the system's folder for
// temporary files. option is the one with which fewer transactions would go to files, for errors; "": what
// goes there are lists. Errors are of Kind Denied, or Full.
func New(dir, option string) (*File, error) {
	f := &File{option: option}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, f.failed(dir, err)
		}
	}
	var err error
	if f.file, err = os.CreateTemp(dir, "tidemark-spool-*"); err != nil {
		return nil, f.failed(dir, err)
	}
	// Where the system allows it, the file goes with the process, however that ends.
	_ = os.Remove(f.file.Name())
	return f, nil
}

func (f *File) failed(object string, err error) error {
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	e := &tidemark.Error{Op: "spool a large transaction", Object: object, Kind: tidemark.Denied, Err: err, Hint: "Make the folder writable, or raise " + f.option + "."}
	switch {
	case f.option == "":
		e.Op, e.Hint = "spool a list", "Make the folder writable, or name another one with the variable TMPDIR."
		if full {
			e.Kind, e.Hint = tidemark.Full, "Make room on that disk, or name another folder with the variable TMPDIR."
		}
	case full:
		e.Kind, e.Hint = tidemark.Full, "Make room on that disk for the whole transaction, or raise "+f.option+"."
	}
	return e
}

// Append writes pieces behind what is there.
func (f *File) Append(pieces ...[]byte) error {
	for _, b := range pieces {
		n, err := f.file.WriteAt(b, f.size)
		if f.size += int64(n); err != nil {
			return f.failed(f.file.Name(), err)
		}
	}
	return nil
}

// Reader reads from the beginning what is there now.
func (f *File) Reader() io.Reader { return f.section(0, f.size) }

func (f *File) section(from, to int64) io.Reader {
	return &reader{f, io.NewSectionReader(f.file, from, to-from)}
}

type reader struct {
	f  *File
	in *io.SectionReader
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	if err != nil && err != io.EOF {
		err = r.f.failed(r.f.file.Name(), err)
	}
	return n, err
}

// Close removes the file.
func (f *File) Close() {
	f.file.Close()               // nobody will read it
	_ = os.Remove(f.file.Name()) // it is gone already, but where open files stay
}
