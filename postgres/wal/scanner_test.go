package wal

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// TestOverwrittenRecord: a server that crashed within a record starts over on the next page, and
// says so in the page's header.
func TestOverwrittenRecord(t *testing.T) {
	w := newBook(1)
	w.fill(1, 3*testPage-5000)
	before := w.prev
	w.record(10, 0, 7, make([]byte, 20000))
	w.b = w.b[:4*testPage] // its last page was never written
	w.header(0, pageOverwritten)
	w.prev = before
	first := w.record(rmXLOG, 0xD0, 0, make([]byte, 16))
	w.commit(700, 5)
	got := mustScan(t, w.save(t, t.TempDir())...)
	if got.To != w.at() || got.End != "" || len(got.gaps) > 0 {
		t.Errorf("end %q at %X of %X, gaps %q", got.End, got.To, w.at(), got.gaps)
	}
	if n := len(got.places); got.places[n-2] != first || got.places[n-3] != before {
		t.Errorf("records %X", got.places)
	}
	if len(got.Findings) != 1 || !strings.HasPrefix(got.Findings[0], "1 records were begun and never ended") {
		t.Errorf("findings %q", got.Findings)
	}
}

// TestSwitch: after a switch the rest of the segment is empty, and may be missing from the file.
func TestSwitch(t *testing.T) {
	w := newBook(1)
	w.fill(1, 3*testPage)
	last := w.raw(rmXLOG, xlogSwitch, 0, nil)
	end := len(w.b)
	w.b = append(w.b, make([]byte, testSegment-len(w.b))...)
	w.fill(2, testPage)
	paths := w.save(t, t.TempDir())
	got := mustScan(t, paths...)
	if got.To != w.at() || got.End != "" || len(got.gaps) > 0 {
		t.Errorf("end %q at %X of %X, gaps %q", got.End, got.To, w.at(), got.gaps)
	}
	i := slices.Index(got.places, last)
	if i < 0 || got.places[i+1] != 2*testSegment+longHeader {
		t.Errorf("behind the switch at %X: %X", last, got.places[i+1])
	}
	short := mustScan(t, write(t, t.TempDir(), "short", w.b[:end]), paths[1])
	if short.To != w.at() || short.End != "" || len(short.gaps) > 0 || !slices.Equal(short.places, got.places) {
		t.Errorf("of a short file: end %q at %X, gaps %q", short.End, short.To, short.gaps)
	}
}

// TestEndOfTransaction: commits and aborts have optional parts in a fixed order; the parts used
// here follow others.
func TestEndOfTransaction(t *testing.T) {
	parts := func(major int, prepared bool) []byte {
		b := le.AppendUint64(nil, 1_000_000)
		more := uint32(moreDatabase | moreChildren | moreFiles | moreInvalidations)
		if major >= 15 {
			more |= moreStatistics
		}
		if prepared {
			more |= morePrepared
		}
		b = le.AppendUint32(b, more)
		b = append(b, make([]byte, 8)...)
		b = append(b, 2, 0, 0, 0, 11, 0, 0, 0, 12, 0, 0, 0)
		b = append(append(b, 1, 0, 0, 0), make([]byte, 12)...)
		switch {
		case major >= 18:
			b = append(append(b, 1, 0, 0, 0), make([]byte, 16)...)
		case major >= 15:
			b = append(append(b, 1, 0, 0, 0), make([]byte, 12)...)
		}
		b = append(append(b, 3, 0, 0, 0), make([]byte, 48)...)
		if prepared {
			b = append(b, 10, 0, 0, 0)
		}
		return b
	}
	for magic, major := range versions {
		for _, c := range []struct {
			kind  byte
			ended tidemark.LogEnd
		}{{xactCommit, tidemark.Committed}, {xactAbort, tidemark.RolledBack}, {xactCommitPrepared, tidemark.Committed}, {xactAbortPrepared, tidemark.RolledBack}} {
			w := newBook(1)
			w.magic = magic
			xid, prepared := uint32(10), false
			if c.kind >= xactCommitPrepared {
				xid, prepared = 99, true
			}
			w.record(rmXact, c.kind|xactHasMore, xid, parts(major, prepared))
			got := mustScan(t, w.save(t, t.TempDir())...).last
			if got.Tx != 10 || got.Ended != c.ended || !slices.Equal(got.Children, []uint64{11, 12}) || got.Time != 946_684_801_000_000 || !got.Exact {
				t.Errorf("%d, %02X: %+v", major, c.kind, got)
			}
		}
	}
}

// TestShortRecords: records shorter than their contents require are damage, even with a correct
// checksum.
func TestShortRecords(t *testing.T) {
	many := append(le.AppendUint32(make([]byte, 8), moreChildren), 0xff, 0xff, 0xff, 0xff)
	for what, put := range map[string]func(*book){
		"commit without time":  func(w *book) { w.record(rmXact, xactCommit, 1, make([]byte, 7)) },
		"no flags":             func(w *book) { w.record(rmXact, xactCommit|xactHasMore, 1, make([]byte, 8)) },
		"too many children":    func(w *book) { w.record(rmXact, xactCommit|xactHasMore, 1, many) },
		"short prepare":        func(w *book) { w.record(rmXact, xactPrepare, 1, make([]byte, 71)) },
		"short assignment":     func(w *book) { w.record(rmXact, xactAssignment, 1, make([]byte, 7)) },
		"short list":           func(w *book) { w.record(rmStandby, standbyRunning, 0, append([]byte{1}, make([]byte, 23)...)) },
		"short checkpoint":     func(w *book) { w.record(rmXLOG, xlogOnline, 0, make([]byte, 71)) },
		"short parameters":     func(w *book) { w.record(rmXLOG, xlogParameters, 0, make([]byte, 23)) },
		"unknown part":         func(w *book) { w.raw(10, 0, 1, []byte{77, 0, 0}) },
		"main data too long":   func(w *book) { w.raw(10, 0, 1, []byte{idMainShort, 200, 1}) },
		"main data too short":  func(w *book) { w.raw(10, 0, 1, []byte{idMainShort, 1, 1, 1}) },
		"long main data":       func(w *book) { w.raw(10, 0, 1, []byte{idMainLong, 0xff, 0xff, 0xff, 0xff, 1}) },
		"block without number": func(w *book) { w.raw(10, 0, 1, []byte{0, 0, 0, 0, 1, 2, 3}) },
		"image without header": func(w *book) { w.raw(10, 0, 1, []byte{0, blockImage | blockSameRel, 0, 0, 1, 1, 1, 1}) },
		"unknown manager":      func(w *book) { w.record(22, 0, 1, nil) },
	} {
		w := newBook(1)
		w.commit(1, 1)
		at := w.at()
		put(w)
		w.commit(2, 2)
		got := mustScan(t, w.save(t, t.TempDir())...)
		if len(got.places) != 1 || got.To != at || !strings.HasPrefix(got.End, "the record at 0/1000") {
			t.Errorf("%s: %d records, end %q", what, len(got.places), got.End)
		}
	}
}

func TestMinimalAndExtensions(t *testing.T) {
	w := newBook(1)
	w.record(rmXLOG, xlogParameters, 0, make([]byte, 28))
	w.record(200, 0, 5, make([]byte, 300))
	got := mustScan(t, w.save(t, t.TempDir())...)
	if len(got.Findings) != 1 || !strings.HasPrefix(got.Findings[0], "wal_level was minimal for a time") {
		t.Errorf("findings %q, end %q", got.Findings, got.End)
	}
	if got.last.Class != 200 || len(got.Classes) != 256 || got.Classes[200] != "custom200" || got.Classes[10] != "Heap" {
		t.Errorf("class %d of %d", got.last.Class, len(got.Classes))
	}
}

// TestStreamIsTheFiles: a stream that arrives in pieces of any size is read like the files.
func TestStreamIsTheFiles(t *testing.T) {
	w := five()
	want := mustScan(t, w.save(t, t.TempDir())...)
	for _, piece := range []int{1 << 20, 131072, 8192, 8191, 100, 7} {
		var got found
		s := NewStream(0, 0, testPage, got.take)
		for b := w.b; len(b) > 0; b = b[min(piece, len(b)):] {
			if _, err := s.Write(b[:min(piece, len(b))]); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if got.LogScan, err = s.Finish(); err != nil || !slices.Equal(got.places, want.places) || got.To != want.To || got.End != "" {
			t.Errorf("pieces of %d: %d records of %d to %X of %X, %q, %v", piece, len(got.places), len(want.places), got.To, want.To, got.End, err)
		}
	}
	var got found
	from, until := want.places[100], want.places[900]
	s := NewStream(from, until, testPage, got.take)
	if _, err := s.Write(w.b); err != nil {
		t.Fatal(err)
	}
	if scan, err := s.Finish(); err != nil || !s.Over() || scan.From != from || scan.To != until || !slices.Equal(got.places, want.places[100:900]) {
		t.Errorf("%d records, %v, %+v", len(got.places), err, scan)
	}
	if _, err := NewStream(0, 0, testPage, got.take).Write(make([]byte, testPage)); tidemark.KindOf(err) != tidemark.BadInput {
		t.Error(err)
	}
}

// TestNoAllocationPerRecord: reading a record allocates no memory.
func TestNoAllocationPerRecord(t *testing.T) {
	w := five()
	page := w.b[:testSegment]
	s := NewStream(0, 0, testPage, func(*tidemark.LogRecord) error { return nil })
	if _, err := s.Write(page); err != nil {
		t.Fatal(err)
	}
	next := w.b[testSegment:]
	n := 0
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := s.Write(next[n*testPage : (n+1)*testPage]); err != nil {
			t.Fatal(err)
		}
		n++
	})
	if allocs > 0 || s.Over() {
		t.Errorf("%.2f allocations a page of records", allocs)
	}
}

// FuzzScan: a scan of any bytes ends, and the records that it emitted are within the log, in order.
func FuzzScan(f *testing.F) {
	w := newBook(1)
	w.fill(1, testPage)
	w.record(10, 0, 7, make([]byte, 9000))
	w.commit(7, 1)
	f.Add(w.b)
	w.header(0, pageOverwritten)
	f.Add(w.b)
	f.Add(w.b[:testPage+10])
	f.Fuzz(func(t *testing.T, b []byte) {
		var got found
		s := NewStream(0, 0, testPage, got.take)
		_, _ = s.Write(b)
		scan, _ := s.Finish()
		check(t, got, scan, len(b))
	})
}

// FuzzRecord: the same for records with a correct checksum and any contents.
func FuzzRecord(f *testing.F) {
	f.Add(uint8(rmXact), uint8(xactCommit|xactHasMore), []byte{idMainShort, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0})
	f.Add(uint8(10), uint8(0), []byte{0, blockImage, 0, 0, 0, 0, 0, 0, imageHole | 4, 9, 9, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4})
	f.Add(uint8(rmStandby), uint8(standbyRunning), []byte{idMainShort, 28, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0})
	f.Add(uint8(rmXLOG), uint8(xlogSwitch), []byte{})
	f.Add(uint8(rmStorage), uint8(storageTruncate), append([]byte{idMainShort, 20}, make([]byte, 20)...))
	f.Add(uint8(rmDatabase), uint8(databaseDrop), append([]byte{idMainShort, 12, 5, 0, 0, 0, 2, 0, 0, 0}, make([]byte, 4)...))
	f.Fuzz(func(t *testing.T, manager, info uint8, body []byte) {
		if len(body) > 1<<17 {
			return
		}
		for magic := range versions {
			w := newBook(1)
			w.magic = magic
			w.raw(manager, info, 3, body)
			w.commit(3, 1)
			var got found
			s := NewStream(0, 0, testPage, got.take)
			_, _ = s.Write(w.b)
			scan, _ := s.Finish()
			check(t, got, scan, len(w.b))
			s = NewStream(0, 0, testPage, got.take)
			s.s.changes = NewChanges()
			_, _ = s.Write(w.b)
			_, _ = s.Finish()
			for fork := range s.s.changes.forks {
				if pages := s.s.changes.Pages(fork, 0, NoLimit, 1<<20); fork.Number == FreeSpaceFork && len(pages) > 0 {
					t.Errorf("%+v: pages %v", fork, pages)
				}
			}
		}
	})
}

func check(t *testing.T, got found, scan tidemark.LogScan, size int) {
	if !slices.IsSorted(got.places) || len(got.places) > size/recordHeader || scan.Bytes > int64(size) || scan.To < scan.From || scan.To-scan.From > uint64(size) {
		t.Errorf("%d records of %d bytes, %+v", len(got.places), size, scan)
	}
	if len(got.places) > 0 && (got.places[0] != scan.From || got.last.Place >= scan.To) {
		t.Errorf("records from %X to %X, %+v", got.places[0], got.last.Place, scan)
	}
}
