// Package spool keeps data that is too large for memory in files that vanish with the process.
package spool

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/tidemarkdb/tidemark"
)

// A File is appended to, and can be read any number of times.
type File struct {
	file   *os.File
	size   int64
	option string
}

// New creates a file in dir, which is created if missing; "" is the system's folder for temporary
// files. For errors, option names the option that sends fewer transactions to files; "": the files
// hold lists. Errors are of Kind Denied or Full.
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
	// Where the system allows it, the file vanishes with the process, however that ends.
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

// Append writes pieces at the end.
func (f *File) Append(pieces ...[]byte) error {
	for _, b := range pieces {
		n, err := f.file.WriteAt(b, f.size)
		if f.size += int64(n); err != nil {
			return f.failed(f.file.Name(), err)
		}
	}
	return nil
}

// Reader reads the current content from the beginning.
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
	f.file.Close()               // the content is no longer needed
	_ = os.Remove(f.file.Name()) // already gone, unless the system keeps open files
}
