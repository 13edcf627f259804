package wal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/tidemarkdb/tidemark"
)

// five returns a log of five segments, which ends in the middle of the last.
func five() *book {
	w := newBook(3)
	w.fill(7, testSegment/2)
	return w
}

func same(t *testing.T, got, want found) {
	t.Helper()
	if !slices.Equal(got.places, want.places) {
		t.Errorf("%d records, and %d were to be", len(got.places), len(want.places))
	}
	if got.To != want.To || got.Bytes != want.Bytes || got.Headers != want.Headers {
		t.Errorf("to %X with %d bytes and %d of headers, and not %X, %d, %d", got.To, got.Bytes, got.Headers, want.To, want.Bytes, want.Headers)
	}
	if len(got.gaps) > 0 || got.End != "" {
		t.Errorf("gaps %q, end %q", got.gaps, got.End)
	}
}

func TestOrderIsThePagesAndNotTheNames(t *testing.T) {
	w := five()
	want := mustScan(t, w.save(t, t.TempDir())...)
	if len(want.places) < 5000 || want.To != w.at() || want.End != "" || want.Files != 5 || want.Version != "15" || want.System != "7710630733039115898" {
		t.Fatalf("%d records to %X of %X, %q, %+v", len(want.places), want.To, w.at(), want.End, want.Files)
	}
	dir := t.TempDir()
	var paths []string
	for i, name := range []string{"z", "b.log", "a", "c", "000000010000000000000001"} {
		paths = append(paths, write(t, dir, name, w.segments()[i]))
	}
	slices.Reverse(paths)
	got := mustScan(t, paths...)
	same(t, got, want)
	if !slices.Equal(got.files, []string{"z", "b.log", "a", "c", "000000010000000000000001"}) {
		t.Errorf("the files came as %q", got.files)
	}
}

func pack(t *testing.T, b []byte, with func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var out bytes.Buffer
	w := with(&out)
	_, err := w.Write(b)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func toGzip(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
func toLZ4(w io.Writer) io.WriteCloser  { return lz4.NewWriter(w) }
func toZstd(w io.Writer) io.WriteCloser {
	z, err := zstd.NewWriter(w)
	if err != nil {
		panic(err)
	}
	return z
}

// TestScanOfAnArchive: an archive has segments packed in different ways, in subfolders, with
// checksums in their names, and other files beside them.
func TestScanOfAnArchive(t *testing.T) {
	w := five()
	want := mustScan(t, w.save(t, t.TempDir())...)
	dir := t.TempDir()
	below := filepath.Join(dir, "15-1", "0000000100000000")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	name := func(i uint64) string { return SegmentName(1, (3+i)*testSegment, testSegment) }
	seg := w.segments()
	write(t, dir, name(0)+".gz", pack(t, seg[0], toGzip))
	write(t, dir, name(1)+".zst", pack(t, seg[1], toZstd))
	write(t, below, name(2)+"-0123456789abcdef0123456789abcdef01234567.lz4", pack(t, seg[2], toLZ4))
	write(t, below, name(3), seg[3])
	write(t, dir, name(4)+".partial.gz", pack(t, seg[4], toGzip))
	write(t, dir, name(4)+".00000028.backup", []byte("START WAL LOCATION"))
	write(t, dir, "00000002.history", []byte("1\t0/3000000\tno recovery target specified\n"))
	same(t, mustScan(t, dir), want)
}

// TestBzip2: testdata/segment.bz2 is the first segment of this book, packed by the program bzip2.
func TestBzip2(t *testing.T) {
	w := newBook(3)
	w.commit(700, 1)
	want := mustScan(t, w.save(t, t.TempDir())...)
	same(t, mustScan(t, filepath.Join("testdata", "segment.bz2")), want)
}

// TestGapBetweenSegments: a gap between segments is reported in the first record after it, the
// first that begins there.
func TestGapBetweenSegments(t *testing.T) {
	w := five()
	paths := w.save(t, t.TempDir())
	all := mustScan(t, paths...)
	got := mustScan(t, paths[0], paths[1], paths[3], paths[4])
	if len(got.gaps) != 1 || !strings.Contains(got.gaps[0], " to 0/600000 is missing: the record at 0/4F") {
		t.Errorf("gaps %q", got.gaps)
	}
	var want []uint64
	for i, at := range all.places { // a record that continues in the next segment is torn
		next := w.at()
		if i+1 < len(all.places) {
			next = all.places[i+1]
		}
		if at/testSegment != 5 && (at/testSegment != 4 || next < 5*testSegment) {
			want = append(want, at)
		}
	}
	if !slices.Equal(got.places, want) {
		t.Errorf("%d records, and %d were to be", len(got.places), len(want))
	}
	if got.End != "" || got.To != all.To || len(got.Findings) != 1 {
		t.Errorf("end %q at %X, %q", got.End, got.To, got.Findings)
	}
}

// TestDamageGoesOnWithTheNextSegment: damage within a segment ends that segment and not the scan.
func TestDamageGoesOnWithTheNextSegment(t *testing.T) {
	w := five()
	seg := w.segments()
	all := mustScan(t, w.save(t, t.TempDir())...)
	for what, c := range map[string]struct {
		damage func(b []byte) []byte
		says   string
	}{
		"a byte":      {func(b []byte) []byte { b[testSegment/2+1000] ^= 1; return b }, "has the checksum"},
		"a header":    {func(b []byte) []byte { b[testSegment/2+8] ^= 1; return b }, "says that it is the one at"},
		"a magic":     {func(b []byte) []byte { b[testSegment/2] ^= 1; return b }, "begins with D111 and not with D110"},
		"cut":         {func(b []byte) []byte { return b[:testSegment/2+100] }, "has only 524388 of its 1048576 bytes"},
		"cut page":    {func(b []byte) []byte { return b[:testSegment/2+10] }, "is cut after 10 bytes"},
		"zeros":       {func(b []byte) []byte { clear(b[testSegment/2:]); return b }, "was never written"},
		"timeline":    {func(b []byte) []byte { b[testSegment/2+4] = 0; return b }, "is of timeline 0, behind one of timeline 1"},
		"packed":      {func(b []byte) []byte { b = pack(t, b, toGzip); return b[:len(b)*3/4] }, "of its 1048576 bytes"},
		"packed byte": {func(b []byte) []byte { b = pack(t, b, toLZ4); b[len(b)/2] ^= 1; return b }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			for i := range seg {
				b := slices.Clone(seg[i])
				if i == 2 {
					b = c.damage(b)
				}
				write(t, dir, SegmentName(1, uint64(3+i)*testSegment, testSegment), b)
			}
			got := mustScan(t, dir)
			if len(got.gaps) != 1 || !strings.Contains(got.gaps[0], c.says) {
				t.Errorf("gaps %q", got.gaps)
			}
			if got.End != "" || got.To != all.To || len(got.places) >= len(all.places) || len(got.places) < len(all.places)*4/5 {
				t.Errorf("%d records of %d, end %q at %X of %X", len(got.places), len(all.places), got.End, got.To, all.To)
			}
		})
	}
}

// TestTornEnd: a log may be torn at its end, and the scan reports where.
func TestTornEnd(t *testing.T) {
	w := newBook(1)
	w.fill(1, 3*testPage)
	whole := w.at()
	at := w.record(10, 0, 7, make([]byte, 20000))
	b := w.segments()[0]
	got := mustScan(t, write(t, t.TempDir(), "torn", b[:5*testPage]))
	if got.To != whole || !strings.Contains(got.End, "torn has only 40960 of its 1048576 bytes") {
		t.Errorf("it ends at %X: %q", got.To, got.End)
	}
	clear(b[5*testPage:])
	got = mustScan(t, write(t, t.TempDir(), "torn", b))
	if want := "the page at 0/10A000 was never written"; got.To != whole || got.End != want {
		t.Errorf("it ends at %X of %X: %q", got.To, at, got.End)
	}
}

// TestRecycledSegments: a segment that the server keeps for later has another segment's records;
// one that was reused has them after its own.
func TestRecycledSegments(t *testing.T) {
	w := five()
	seg, dir := w.segments(), t.TempDir()
	all := mustScan(t, w.save(t, t.TempDir())...)
	used := int(w.at() - 7*testSegment)
	last := append(slices.Clone(seg[4][:(used+testPage-1)&^(testPage-1)]), seg[1][(used+testPage-1)&^(testPage-1):]...)
	for i, b := range [][]byte{seg[2], seg[3], last, seg[0], make([]byte, testSegment)} {
		write(t, dir, SegmentName(1, uint64(5+i)*testSegment, testSegment), b)
	}
	got := mustScan(t, dir)
	if got.End != "" || len(got.gaps) > 0 || got.To != all.To {
		t.Errorf("end %q at %X, gaps %q", got.End, got.To, got.gaps)
	}
	if len(got.Findings) != 2 || !strings.Contains(got.Findings[0], "000000010000000000000008 is left out: the server keeps it for later use") ||
		!strings.Contains(got.Findings[1], "is left out: nothing was written to it yet") {
		t.Errorf("findings %q", got.Findings)
	}
}

// TestTimelines: a promoted standby begins a timeline within a segment. What the old primary wrote
// to that segment afterwards is not in the new timeline's history.
func TestTimelines(t *testing.T) {
	old := newBook(3)
	old.fill(4, testSegment/2)
	promoted := &book{magic: old.magic, system: old.system, timeline: 1, first: 3, prev: old.prev, b: slices.Clone(old.b)}
	old.fill(6, testSegment/2)
	promoted.timeline = 2
	promoted.record(rmXLOG, xlogEndRecovery, 0, make([]byte, 16))
	promoted.fill(5, testSegment/2)
	dir := t.TempDir()
	for i, b := range old.segments() {
		write(t, dir, SegmentName(1, uint64(3+i)*testSegment, testSegment), b)
	}
	for i, b := range promoted.segments()[1:] {
		write(t, dir, SegmentName(2, uint64(4+i)*testSegment, testSegment), b)
	}
	got := mustScan(t, dir)
	if got.End != "" || len(got.gaps) > 0 || got.To != promoted.at() {
		t.Errorf("end %q at %X of %X, gaps %q", got.End, got.To, promoted.at(), got.gaps)
	}
	if !slices.Equal(got.files, []string{"000000010000000000000003", "000000020000000000000004", "000000020000000000000005"}) {
		t.Errorf("files %q", got.files)
	}
	if len(got.Findings) != 1 || !strings.Contains(got.Findings[0], "000000010000000000000004 and 2 more are left out: its timeline 1 ended before it, when timeline 2 began") {
		t.Errorf("findings %q", got.Findings)
	}
}

func TestFilesThatAreNoLog(t *testing.T) {
	w, other, twelve := five(), five(), five()
	other.system++
	dir := t.TempDir()
	paths := w.save(t, dir)
	foreignServer := write(t, dir, "other", newOf(other).segments()[0])
	twelve.b = slices.Clone(twelve.b)
	twelve.b[0], twelve.b[1] = 0x01, 0xD1
	swapped := slices.Clone(w.b[:testSegment])
	swapped[0], swapped[1] = swapped[1], swapped[0]
	odd := slices.Clone(w.b[:testSegment])
	odd[36] = 1
	for what, c := range map[string]struct {
		paths []string
		kind  tidemark.Kind
		says  string
	}{
		"nothing":       {nil, tidemark.Invalid, "no files were given"},
		"absent":        {[]string{filepath.Join(dir, "absent")}, tidemark.NotFound, "no such file"},
		"empty folder":  {[]string{t.TempDir()}, tidemark.NotFound, "there is no segment of PostgreSQL's log"},
		"empty file":    {[]string{write(t, dir, "empty", nil)}, tidemark.NotFound, "it has only 0 bytes"},
		"text":          {[]string{write(t, dir, "text", []byte("CREATE TABLE something (id int PRIMARY KEY, t text);"))}, tidemark.BadInput, "it is not PostgreSQL's log (it begins with 5243)"},
		"other server":  {append(slices.Clone(paths), foreignServer), tidemark.BadInput, "it is of another server than"},
		"version 12":    {[]string{write(t, dir, "twelve", twelve.b)}, tidemark.BadInput, "it is of a PostgreSQL other than 13 to 18 (page magic D101)"},
		"byte order":    {[]string{write(t, dir, "swapped", swapped)}, tidemark.BadInput, "other byte order"},
		"middle":        {[]string{write(t, dir, "middle", w.b[testPage:])}, tidemark.BadInput, "it does not begin where a segment does"},
		"page size":     {[]string{write(t, dir, "odd", odd)}, tidemark.BadInput, "its header at offset 36 has an impossible page size"},
		"broken packed": {[]string{write(t, dir, "bad.gz", []byte{0x1f, 0x8b, 9, 9, 9})}, tidemark.BadInput, "unexpected EOF"},
		"cut packed":    {[]string{write(t, dir, "cut.gz", pack(t, w.segments()[0], toGzip)[:12])}, tidemark.NotFound, "it has only 0 bytes"},
	} {
		_, err := scanFiles(t, Options{}, c.paths...)
		if tidemark.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) || tidemark.HintOf(err) == "" && what != "broken packed" {
			t.Errorf("%s: %v (%v, hint %q)", what, err, tidemark.KindOf(err), tidemark.HintOf(err))
		}
	}
}

// newOf returns a new book with the current header fields of w, filled to half of a segment.
func newOf(w *book) *book {
	n := &book{magic: w.magic, system: w.system, timeline: w.timeline, first: w.first}
	n.fill(w.first, testSegment/2)
	return n
}

// TestRetrieve: the command gets each file's name appended, right before the file is read.
func TestRetrieve(t *testing.T) {
	w := five()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	want := mustScan(t, w.save(t, from)...)
	var paths []string
	for i := range 5 {
		paths = append(paths, filepath.Join(to, SegmentName(1, uint64(3+i)*testSegment, testSegment)))
	}
	slices.Reverse(paths)
	fetch := `f() { rm -f "` + to + `"/*; cp "` + from + `/$(basename "$1")" "$1"; }; f`
	got, err := scanFiles(t, Options{Retrieve: fetch}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	left, err := os.ReadDir(to)
	if err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	_, err = scanFiles(t, Options{Retrieve: "echo not today >&2; false"}, paths...)
	if tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "exit status 1: not today") {
		t.Error(err)
	}
	if _, err = scanFiles(t, Options{Retrieve: ": >"}, paths...); tidemark.KindOf(err) != tidemark.NotFound || !strings.Contains(err.Error(), "and 4 more are left out: it has only 0 bytes") {
		t.Error(err)
	}
	b, a := write(t, to, "b", w.segments()[3]), write(t, to, "a", w.segments()[4])
	if _, err = scanFiles(t, Options{Retrieve: "true"}, a, b); tidemark.KindOf(err) != tidemark.BadInput || !strings.Contains(err.Error(), "it begins at 0/600000, and the one before it at 0/700000") {
		t.Error(err)
	}
}

func TestScanIsCancelled(t *testing.T) {
	fs, err := Open(five().save(t, t.TempDir()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	scan, err := fs.Scan(ctx, func(*tidemark.LogRecord) error { n++; cancel(); return nil })
	if tidemark.KindOf(err) != tidemark.Cancelled || n == 0 || scan.Files != 1 {
		t.Errorf("%d records of %d files: %v", n, scan.Files, err)
	}
	own := errors.New("enough")
	if _, err = fs.Scan(context.Background(), func(*tidemark.LogRecord) error { return own }); !errors.Is(err, own) {
		t.Error(err)
	}
}
