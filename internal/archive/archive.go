// Package archive reads archived log files: a user's command fetches them before they are opened,
// and they are decompressed while they are read (gzip, zstd, bzip2, lz4).
package archive

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// suffixes are the suffixes of compressed files.
var suffixes = []string{".gz", ".zst", ".bz2", ".lz4"}

// Plain returns a file name without its compression suffix.
func Plain(name string) string {
	if ext := filepath.Ext(name); slices.Contains(suffixes, strings.ToLower(ext)) {
		return name[:len(name)-len(ext)]
	}
	return name
}

// Fetch runs a shell command with a file's name, quoted, as its last argument. The command may
// create the file, or free space. An empty command does nothing.
//
// Errors: Invalid (the command failed; with the last line it wrote to standard error), Cancelled.
func Fetch(ctx context.Context, command, name string) error {
	if command == "" {
		return nil
	}
	c := exec.CommandContext(ctx, "sh", "-c", command+` "$1"`, "sh", name)
	if runtime.GOOS == "windows" {
		c = exec.CommandContext(ctx, "cmd", "/C", command, name)
	}
	var said bytes.Buffer
	c.Stderr = &said
	err := c.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if lines := strings.Split(strings.TrimSpace(said.String()), "\n"); lines[len(lines)-1] != "" {
		err = fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return &tidemark.Error{Op: "retrieve", Object: name, Kind: tidemark.Invalid, Hint: "The command gets the name of the file behind it, and must end with 0.", Err: err}
}

// A File decompresses a file while it is read.
type File struct {
	Name   string
	Packed bool
	in     *os.File
	r      io.Reader
	close  func()
}

// Open opens a file. It detects the compression from the first bytes.
//
// Errors: NotFound, Forbidden, BadInput (the compressed data is damaged, or it is a folder).
func Open(name string) (*File, error) {
	in, err := plainfile.Open(name)
	if err != nil {
		return nil, OpenError(name, err)
	}
	f := &File{Name: name, in: in, r: in, close: func() {}}
	if err := f.detect(); err != nil {
		f.Close()
		return nil, OpenError(name, err)
	}
	return f, nil
}

// OpenError describes why a file could not be opened.
func OpenError(name string, err error) error {
	kind, hint := tidemark.BadInput, ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind, hint = tidemark.NotFound, "Check the path; a relative one is taken from the current folder."
		if !strings.ContainsAny(name, `/\.`) {
			hint = "Check the path; if it is a database, write postgres://user@host/" + name + " or mysql://user@host/" + name + "."
		}
	case errors.Is(err, fs.ErrPermission):
		kind, hint = tidemark.Forbidden, "Give the user who runs this read permission on the file and its folders."
	}
	return &tidemark.Error{Op: "open", Object: name, Kind: kind, Hint: hint, Err: tidemark.Pathless(err)}
}

func (f *File) detect() error {
	var head [5]byte
	n, err := io.ReadFull(f.in, head[:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if _, err := f.in.Seek(0, io.SeekStart); err != nil { // a pipe
		f.r = io.MultiReader(bytes.NewReader(bytes.Clone(head[:n])), f.in)
	}
	if !Packed(head[:n]) {
		return nil
	}
	f.Packed = true
	r, err := Unpack(bufio.NewReaderSize(f.r, 256<<10))
	if err != nil {
		return err
	}
	f.r, f.close = r, func() { _ = r.Close() }
	return nil
}

// Tail returns the last n bytes of an uncompressed file, or all if there are fewer.
func (f *File) Tail(n int) ([]byte, error) {
	st, err := f.in.Stat()
	if err != nil || f.Packed || !st.Mode().IsRegular() {
		return nil, err
	}
	out := make([]byte, min(int64(n), st.Size()))
	_, err = f.in.ReadAt(out, st.Size()-int64(len(out)))
	return out, err
}

// Read reads decompressed bytes. Damage in a compressed file is an Error of Kind BadInput.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		at, _ := f.in.Seek(0, io.SeekCurrent)
		hint := "The packed file is damaged: copy it again and compare its checksum."
		if !f.Packed {
			hint = ""
		}
		err = &tidemark.Error{Op: "read", Object: f.Name, Kind: tidemark.BadInput, Hint: hint, Err: fmt.Errorf("at byte %d of the file: %w", at, err)}
	}
	return n, err
}

// Close closes the file.
func (f *File) Close() {
	f.close()
	_ = f.in.Close()
}

// Packed reports whether a file begins with a format that Unpack supports. Five bytes are enough.
func Packed(head []byte) bool {
	return bytes.HasPrefix(head, magicGzip) || bytes.HasPrefix(head, magicBzip2) || bytes.HasPrefix(head, magicLZ4) || zstandard(head)
}

var (
	magicGzip  = []byte{0x1f, 0x8b}
	magicBzip2 = []byte("BZh")
	magicLZ4   = []byte{0x04, 0x22, 0x4d, 0x18}
	magicZstd  = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// zstandard recognizes frames, and skippable frames, by their first bytes.
func zstandard(head []byte) bool {
	return bytes.HasPrefix(head, magicZstd) || len(head) > 4 && head[0]&0xf0 == 0x50 && bytes.HasPrefix(head[1:], []byte{0x2a, 0x4d, 0x18})
}

// Unpack returns a reader that decompresses br. Close it; br stays open.
func Unpack(br *bufio.Reader) (io.ReadCloser, error) {
	head, err := br.Peek(5)
	switch {
	case bytes.HasPrefix(head, magicGzip):
		return gzip.NewReader(br)
	case bytes.HasPrefix(head, magicBzip2):
		return io.NopCloser(bzip2.NewReader(br)), nil
	case bytes.HasPrefix(head, magicLZ4):
		return io.NopCloser(lz4.NewReader(br)), nil
	case zstandard(head):
		z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(1<<31))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	if err == nil {
		err = errors.New("it is not packed in a way that is known")
	}
	return nil, err
}
