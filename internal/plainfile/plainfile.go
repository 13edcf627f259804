// Package plainfile opens the files that users name: regular files only. A named pipe whose other
// end nobody opens, or a device, would hang a command or never end. Errors are *fs.PathError.
package plainfile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Sizes of files that are read whole.
const (
	Small = 1 << 20  // keys, certificates, passwords
	Large = 64 << 20 // rules, forecasts, profiles
)

// kinds are what else there may be.
var kinds = []struct {
	mode fs.FileMode
	text string
}{
	{fs.ModeDir, "it is a folder"}, {fs.ModeNamedPipe, "it is a named pipe, not a regular file"}, {fs.ModeSocket, "it is a socket, not a regular file"},
	{fs.ModeDevice, "it is a device, not a regular file"}, {fs.ModeIrregular, "it is not a regular file"},
}

// Open opens a regular file.
func Open(path string) (*os.File, error) {
	st, err := os.Stat(path) // before it is opened: a device may act on that
	if err != nil {
		var failed *fs.PathError
		if errors.As(err, &failed) {
			failed.Op = "open" // what was asked for
		}
		return nil, err
	}
	if err := regular(path, st); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	if st, err = f.Stat(); err == nil {
		err = regular(path, st)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func regular(path string, st fs.FileInfo) error {
	if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(st, null) {
		return nil // people link files of options and passwords to it
	}
	for _, k := range kinds {
		if st.Mode()&k.mode != 0 {
			return &fs.PathError{Op: "open", Path: path, Err: errors.New(k.text)}
		}
	}
	return nil
}

// Read reads a regular file of up to most bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, path, most)
}

func read(f *os.File, path string, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d MB", most>>20)}
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// ErrOpen is in the chain of the error of a secret that others can read.
var ErrOpen = errors.New("its group or others can read it: chmod 600 it, or 640 if root owns it")

// ReadSecret reads a file with a key or a password. If others can read it then it is refused, as
// libpq refuses keys: 0600 at most, or 0640 if root owns it.
func ReadSecret(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Mode().IsRegular() && exposed(st) { // not the null device
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrOpen}
	}
	return read(f, path, Small)
}

// Check returns an error if a file exists and is not a regular one.
func Check(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return regular(path, st)
}

// Exposed reports whether a file exists that others than its owner can read.
func Exposed(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && exposed(st)
}

// KeyPair reads a certificate and its key, in PEM.
func KeyPair(cert, key string) (tls.Certificate, error) {
	c, err := Read(cert, Small)
	if err != nil {
		return tls.Certificate{}, err
	}
	k, err := ReadSecret(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(c, k)
}
