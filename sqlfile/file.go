package sqlfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/archive"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// A File is a dump file that is decompressed as it is read.
type File struct {
	Name   string // for messages
	size   int64
	packed atomic.Int64 // bytes taken from disk
	plain  atomic.Int64 // bytes returned by Read
	r      io.Reader
	close  []func() error
}

// Open opens a dump file: a path, file:PATH, or "-" for standard input. The first bytes determine
// the kind of file: plain text, gzip, zstd or bzip2. Errors are of Kind NotFound (no such file),
// Forbidden (no permission to read), BadInput (not a text file; UTF-16) or Unsupported (archives,
// pg_dump's own formats).
func Open(path string) (*File, error) {
	path = local(path)
	if path == "-" {
		f := &File{Name: "standard input", size: -1}
		return f, f.detect(os.Stdin)
	}
	in, err := plainfile.Open(path)
	if st, serr := os.Stat(path); err != nil && serr == nil && st.IsDir() {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "open", Object: path, Err: tidemark.Pathless(err), Hint: "Name one .sql file."}
	}
	if err != nil {
		return nil, archive.OpenError(path, err)
	}
	f := &File{Name: path, size: -1, close: []func() error{in.Close}}
	st, err := in.Stat()
	if err != nil {
		err = archive.OpenError(path, err)
	} else {
		f.size = st.Size()
		err = f.detect(in)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Size returns the bytes on disk, compressed as they are; -1 if unknown.
func (f *File) Size() int64 { return f.size }

// Offset returns how many bytes of Size were read so far. Any goroutine may call it.
func (f *File) Offset() int64 { return f.packed.Load() }

// Unpacked returns how many bytes of SQL text Read has returned so far.
func (f *File) Unpacked() int64 { return f.plain.Load() }

// Read reads SQL text. Damage in a compressed file is an Error of Kind BadInput.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	f.plain.Add(int64(n))
	if err != nil && err != io.EOF {
		hint := hintCut
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			hint = "The packed file is damaged: copy it again and compare its checksum."
		}
		err = &tidemark.Error{Op: "unpack", Object: f.Name, Kind: tidemark.BadInput, Hint: hint,
			Err: fmt.Errorf("at byte %d of %d: %w", f.packed.Load(), f.size, err)}
	}
	return n, err
}

// Close stops decompression and closes the file.
func (f *File) Close() error {
	var first error
	for i := len(f.close) - 1; i >= 0; i-- {
		if err := f.close[i](); err != nil && first == nil {
			first = err
		}
	}
	f.close = nil
	return first
}

// A counted counts the bytes that are read through it.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// A magic is the beginning of a kind of file that cannot be read.
type magic struct {
	at   int
	is   string
	kind tidemark.Kind
	what string
	hint string
}

var refused = []magic{
	{0, "PGDMP", tidemark.Unsupported, "a pg_dump archive in custom format", "Turn it into SQL first: pg_restore -f dump.sql FILE; or copy straight from the server."},
	{257, "ustar", tidemark.Unsupported, "a tar archive", "Unpack it and name the .sql file in it."},
	{0, "PK\x03\x04", tidemark.Unsupported, "a zip archive", "Unpack it (unzip -p FILE | tidemark ... -), or pack it with gzip or zstd."},
	{0, "\xfd7zXZ\x00", tidemark.Unsupported, "an xz file", "Unpack it on the way: xz -dc FILE | tidemark ... -"},
	{0, "7z\xbc\xaf\x27\x1c", tidemark.Unsupported, "a 7-Zip archive", "Unpack it on the way: 7z x -so FILE | tidemark ... -"},
	{0, "\x04\x22\x4d\x18", tidemark.Unsupported, "an lz4 file", "Unpack it on the way: lz4 -dc FILE | tidemark ... -"},
	{0, "SQLite format 3\x00", tidemark.Unsupported, "an SQLite database", "Name a mysqldump file."},
	{0, "\xfebin", tidemark.Unsupported, "a MySQL binary log", "Name a mysqldump file."},
	{0, "\xff\xfe", tidemark.BadInput, "UTF-16 text", "PowerShell's > did that: make the dump with --result-file=FILE, or convert it (iconv -f UTF-16 -t UTF-8)."},
	{0, "\xfe\xff", tidemark.BadInput, "UTF-16 text", "Convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)."},
	{1, "\x00-\x00", tidemark.BadInput, "UTF-16 text", "Convert it to UTF-8 first (iconv -f UTF-16LE -t UTF-8)."},
}

func refuse(name string, head []byte) error {
	for _, m := range refused {
		if len(head) > m.at && bytes.HasPrefix(head[m.at:], []byte(m.is)) {
			return &tidemark.Error{Kind: m.kind, Op: "open", Object: name, Err: errors.New("it is " + m.what), Hint: m.hint}
		}
	}
	if !archive.Packed(head) && bytes.IndexByte(head[:min(len(head), 64)], 0) >= 0 {
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "open", Object: name, Err: errors.New("it is not text"), Hint: "Name a mysqldump file: plain SQL, or packed with gzip, zstd or bzip2."}
	}
	return nil
}

// detect inspects the first bytes and sets up decompression.
func (f *File) detect(in io.Reader) error {
	in = counted{in, &f.packed}
	br := bufio.NewReaderSize(in, 512)
	head, err := br.Peek(512)
	if err != nil && err != io.EOF {
		return archive.OpenError(f.Name, err)
	}
	if err := refuse(f.Name, head); err != nil {
		return err
	}
	if !archive.Packed(head) {
		f.r = io.MultiReader(bytes.NewReader(bytes.Clone(head[:br.Buffered()])), in)
		return nil
	}
	unpack, err := archive.Unpack(bufio.NewReaderSize(br, 1<<20))
	if err != nil {
		return &tidemark.Error{Op: "unpack", Object: f.Name, Kind: tidemark.BadInput, Hint: hintCut, Err: err}
	}
	a := newAhead(unpack)
	f.close = append(f.close, a.stop)
	inner := bufio.NewReaderSize(a, 512)
	head, _ = inner.Peek(512)
	if err := refuse(f.Name, head); err != nil {
		return err
	}
	f.r = io.MultiReader(bytes.NewReader(bytes.Clone(head[:inner.Buffered()])), a)
	return nil
}

// An ahead decompresses in its own goroutine, a few blocks ahead of the reader.
type ahead struct {
	full  chan chunk
	empty chan []byte
	quit  chan struct{}
	once  sync.Once
	cur   chunk
	at    int
}

// A chunk is decompressed bytes, and the error that followed them.
type chunk struct {
	b   []byte
	err error
}

const (
	aheadBlocks = 4
	aheadBlock  = 512 << 10
)

func newAhead(r io.Reader) *ahead {
	a := &ahead{full: make(chan chunk, aheadBlocks), empty: make(chan []byte, aheadBlocks), quit: make(chan struct{})}
	for range aheadBlocks {
		a.empty <- make([]byte, aheadBlock)
	}
	crash.Go(func() { a.run(r) })
	return a
}

func (a *ahead) run(r io.Reader) {
	if c, ok := r.(io.Closer); ok {
		defer c.Close()
	}
	defer close(a.full)
	for {
		var b []byte
		select {
		case b = <-a.empty:
		case <-a.quit:
			return
		}
		n, err := 0, error(nil)
		for n < len(b) && err == nil {
			var m int
			m, err = r.Read(b[n:])
			n += m
		}
		select {
		case a.full <- chunk{b[:n], err}:
		case <-a.quit:
			return
		}
		if err != nil {
			return
		}
	}
}

func (a *ahead) Read(p []byte) (int, error) {
	for a.at == len(a.cur.b) {
		if a.cur.err != nil {
			return 0, a.cur.err
		}
		if a.cur.b != nil {
			a.empty <- a.cur.b[:cap(a.cur.b)]
		}
		next, ok := <-a.full
		if !ok {
			return 0, io.ErrClosedPipe
		}
		a.cur, a.at = next, 0
	}
	n := copy(p, a.cur.b[a.at:])
	a.at += n
	return n, nil
}

// stop ends the goroutine. It does not wait: a read from a terminal or a pipe may never return, and
// the goroutine touches only its own blocks.
func (a *ahead) stop() error {
	a.once.Do(func() { close(a.quit) })
	return nil
}
