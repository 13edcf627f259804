package wal

import (
	"context"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

const (
	testSegment = 1 << 20
	testPage    = 8192
)

// A book is a log as a server writes it, record after record, for tests of changes to its files. It
// begins at the segment with number first.
type book struct {
	magic    uint16
	system   uint64
	timeline uint32
	first    uint64
	prev     uint64
	b        []byte
}

func newBook(first uint64) *book {
	return &book{magic: 0xD110, system: 7710630733039115898, timeline: 1, first: first}
}

func (w *book) at() uint64 { return w.first*testSegment + uint64(len(w.b)) }

// header begins a page that continues the previous one with rest bytes.
func (w *book) header(rest int, flags uint16) {
	at := w.at()
	if rest > 0 {
		flags |= pageContinues
	}
	if at%testSegment == 0 {
		flags |= pageLong
	}
	w.b = le.AppendUint16(w.b, w.magic)
	w.b = le.AppendUint16(w.b, flags)
	w.b = le.AppendUint32(w.b, w.timeline)
	w.b = le.AppendUint64(w.b, at)
	w.b = le.AppendUint64(w.b, uint64(rest))
	if flags&pageLong != 0 {
		w.b = le.AppendUint64(w.b, w.system)
		w.b = le.AppendUint32(w.b, testSegment)
		w.b = le.AppendUint32(w.b, testPage)
	}
}

// record writes a record that has only main data, and returns its position.
func (w *book) record(manager, info byte, xid uint32, main []byte) uint64 {
	body := append([]byte{idMainShort, byte(len(main))}, main...)
	if len(main) > 255 {
		body = append(le.AppendUint32([]byte{idMainLong}, uint32(len(main))), main...)
	}
	return w.raw(manager, info, xid, body)
}

// raw writes a record with any bytes after its header, and returns its position.
func (w *book) raw(manager, info byte, xid uint32, body []byte) uint64 {
	if len(w.b)%testPage == 0 {
		w.header(0, 0)
	}
	at := w.at()
	r := le.AppendUint32(nil, uint32(recordHeader+len(body)))
	r = le.AppendUint32(r, xid)
	r = le.AppendUint64(r, w.prev)
	r = append(r, info, manager, 0, 0)
	crc := crc32.Update(crc32.Update(0, castagnoli, body), castagnoli, r)
	r = append(le.AppendUint32(r, crc), body...)
	for {
		n := min(len(r), testPage-len(w.b)%testPage)
		w.b = append(w.b, r[:n]...)
		if r = r[n:]; len(r) == 0 {
			break
		}
		w.header(len(r), 0)
	}
	w.b = append(w.b, make([]byte, -len(w.b)&7)...)
	w.prev = at
	return at
}

// commit writes the end of a transaction at a time in microseconds of PostgreSQL's clock.
func (w *book) commit(xid uint32, at int64) uint64 {
	return w.record(rmXact, xactCommit, xid, le.AppendUint64(nil, uint64(at)))
}

// fill writes records until about this offset in a segment.
func (w *book) fill(segment uint64, offset int) {
	for i := 0; w.at() < segment*testSegment+uint64(offset); i++ {
		w.record(10, 0, 7, make([]byte, 100+i*37%900))
	}
}

// segments returns the log split into segments; the last is padded with zeros.
func (w *book) segments() [][]byte {
	b := append(slices.Clone(w.b), make([]byte, -len(w.b)&(testSegment-1))...)
	return slices.Collect(slices.Chunk(b, testSegment))
}

// save writes segments to a folder under the server's names, and returns their paths.
func (w *book) save(tb testing.TB, dir string) (paths []string) {
	tb.Helper()
	for i, b := range w.segments() {
		paths = append(paths, write(tb, dir, SegmentName(w.timeline, (w.first+uint64(i))*testSegment, testSegment), b))
	}
	return paths
}

func write(tb testing.TB, dir, name string, b []byte) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// A found is the output of a scan.
type found struct {
	tidemark.LogScan
	places []uint64
	gaps   []string
	files  []string
	last   tidemark.LogRecord
}

func (f *found) take(r *tidemark.LogRecord) error {
	f.places = append(f.places, r.Place)
	if r.Gap != "" {
		f.gaps = append(f.gaps, r.Gap)
	}
	if r.File != "" {
		f.files = append(f.files, filepath.Base(r.File))
	}
	f.last = *r
	f.last.Children, f.last.Open = slices.Clone(r.Children), slices.Clone(r.Open)
	return nil
}

func scanFiles(tb testing.TB, opt Options, paths ...string) (found, error) {
	tb.Helper()
	fs, err := Open(paths, opt)
	if err != nil {
		return found{}, err
	}
	var f found
	f.LogScan, err = fs.Scan(context.Background(), f.take)
	return f, err
}

func mustScan(tb testing.TB, paths ...string) found {
	tb.Helper()
	f, err := scanFiles(tb, Options{}, paths...)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}
