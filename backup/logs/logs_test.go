package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/postgres/physical"
	"github.com/tidemarkdb/tidemark/postgres/wal"
	"github.com/tidemarkdb/tidemark/store"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func archiveIn(t *testing.T, dir string) *Archive {
	t.Helper()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := repo.Open(t.Context(), s, repo.Keys{})
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		r, err = repo.Create(t.Context(), s, repo.Keys{})
	}
	if err != nil {
		t.Fatal(err)
	}
	codec, err := repo.ParseCodec("lz4")
	if err != nil {
		t.Fatal(err)
	}
	return New(r, codec)
}

// A history is the log of a server that a test has written.
type history struct {
	srv    *testdb.Server
	files  []*tidemark.LogFile // in order; the last is not full
	begins uint64              // where the needed log begins
	rows   []row
	point  uint64 // position of the restore point, as the server reports it
	end    uint64
}

// A row is one of its transactions.
type row struct {
	id, xid uint64
	at      time.Time
}

// written is log of transactions, a restore point halfway, and more than a segment of no commits.
func written(t *testing.T) *history {
	t.Helper()
	h := &history{srv: testdb.OwnPostgresSegments(t, 15, 1, "-c", "autovacuum=off", "-c", "wal_keep_size=512MB", "-c", "max_wal_size=512MB", "-c", "track_commit_timestamp=on", "-c", "wal_writer_delay=10ms")}
	url := h.srv.URL("postgres")
	e, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	testdb.Query(t, url, "CREATE TABLE item (id bigint PRIMARY KEY, t text)")
	if h.begins, err = e.LogEnd(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		testdb.Query(t, url, fmt.Sprintf("INSERT INTO item VALUES (%d, repeat('x', 200))", i))
		if i == 3 {
			// Nothing of this is committed.
			testdb.Load(t, url, strings.NewReader("BEGIN; INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1000, 9000) g; ROLLBACK;"))
			h.point, err = wal.ParseLSN(testdb.Query(t, url, "SELECT pg_create_restore_point('half')"))
			if err != nil {
				t.Fatal(err)
			}
		}
		testdb.Load(t, url, strings.NewReader("BEGIN; INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1000, 4000) g; ROLLBACK;"))
	}
	for { // the last segment must be neither nearly empty nor nearly full
		time.Sleep(200 * time.Millisecond) // uncommitted log is written soon
		end, err := e.LogEnd(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := end % (1 << 20); n > 64<<10 && n < 800<<10 {
			break
		}
		testdb.Query(t, url, "SELECT pg_logical_emit_message(false, 'x', repeat('x', 150000))")
	}
	for line := range strings.Lines(testdb.Query(t, url, "SELECT string_agg(id || ' ' || xmin || ' ' || (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint, E'\\n' ORDER BY id) FROM item")) {
		var r row
		var at int64
		if _, err := fmt.Sscan(line, &r.id, &r.xid, &at); err != nil {
			t.Fatal(err)
		}
		r.at = time.UnixMicro(at)
		h.rows = append(h.rows, r)
	}
	if h.end, err = e.LogEnd(t.Context()); err != nil {
		t.Fatal(err)
	}
	receiver, err := e.Receive(physical.ReceiveOptions{From: h.begins, Until: h.end})
	if err != nil {
		t.Fatal(err)
	}
	err = receiver.Run(t.Context(), func(_ context.Context, f *tidemark.LogFile) error {
		kept := *f
		kept.Bytes = bytes.Clone(f.Bytes)
		h.files = append(h.files, &kept)
		return nil
	})
	if n := len(h.files); err != nil || n < 10 || h.files[n-1].Whole() || len(h.rows) != 8 {
		t.Fatalf("%v: %d files, %d rows", err, n, len(h.rows))
	}
	return h
}

func (h *history) put(t *testing.T, a *Archive) {
	t.Helper()
	for _, f := range h.files {
		if err := a.Put(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
}

func object(dir string, f *tidemark.LogFile) string {
	name := f.Name
	if !f.Whole() {
		name += openSuffix
	}
	return filepath.Join(dir, "wal", name[:8], name)
}

func TestArchive(t *testing.T) {
	h := written(t)
	t.Run("gives back what was put", func(t *testing.T) { h.givesBack(t) })
	t.Run("resumes where it ends", func(t *testing.T) { h.goesOn(t) })
	t.Run("refuses other bytes", func(t *testing.T) { h.refuses(t) })
	t.Run("names what is missing or damaged", func(t *testing.T) { h.names(t) })
	t.Run("knows what can be reached", func(t *testing.T) { h.reaches(t) })
	t.Run("follows timelines", func(t *testing.T) { h.follows(t) })
	t.Run("knows what is missing in each timeline", func(t *testing.T) { h.misses(t) })
	t.Run("is pushed to", func(t *testing.T) { h.pushes(t) })
	t.Run("gives up by choice only", func(t *testing.T) { h.givesUp(t) })
}

func (h *history) givesBack(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	a := archiveIn(t, dir)
	path := filepath.Join(to, "RECOVERYXLOG")
	if err := a.Get(t.Context(), h.files[0].Name, path, 3); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("of an empty archive: %v", err)
	}
	h.put(t, a)
	for _, ahead := range []int{0, 3} {
		for _, f := range h.files {
			if err := a.Get(t.Context(), f.Name, path, ahead); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			want := append(bytes.Clone(f.Bytes), make([]byte, f.Size-len(f.Bytes))...)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s comes back as something else: %v", f.Name, err)
			}
		}
		if ahead > 0 {
			if _, err := os.Stat(filepath.Join(to, fetched)); err != nil {
				t.Errorf("nothing was fetched ahead: %v", err)
			}
		}
	}
	if err := a.Get(t.Context(), "00000002.history", path, 3); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("of a history that is not there: %v", err)
	}
	if names, err := filepath.Glob(filepath.Join(to, "*")); err != nil || len(names) != 1 {
		t.Errorf("at the end there is %v", names)
	}
	if err := a.Get(t.Context(), h.files[0].Name, filepath.Join(to, "none", "X"), 0); err == nil || tidemark.KindOf(err) == tidemark.NotFound {
		t.Errorf("into a folder that is not there, which is not the end of the log: %v", err)
	}
	for _, name := range []string{"../../etc/passwd", "00000001", "000000010000000000000001x", "server", h.files[0].Name + openSuffix} {
		if err := a.Get(t.Context(), name, path, 0); tidemark.KindOf(err) != tidemark.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func (h *history) goesOn(t *testing.T) {
	dir := t.TempDir()
	a := archiveIn(t, dir)
	if s, err := a.State(t.Context()); err != nil || s.System != "" || len(s.Ends) > 0 {
		t.Errorf("of an empty archive: %+v, %v", s, err)
	}
	first, second := *h.files[0], *h.files[1]
	part := first
	part.Bytes = first.Bytes[:3*8192]
	for _, f := range []*tidemark.LogFile{&part, &first} {
		if err := a.Put(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(object(dir, &part)); !os.IsNotExist(err) {
		t.Errorf("the open segment is there beside the whole one: %v", err)
	}
	whole, hurried := archiveIn(t, t.TempDir()), archiveIn(t, t.TempDir())
	hurried.Hurry(func() bool { return true })
	if err := errors.Join(whole.Put(t.Context(), &first), hurried.Put(t.Context(), &first)); err != nil {
		t.Fatal(err)
	}
	sizes := map[int64]bool{}
	for _, a := range []*Archive{whole, hurried} {
		logs, err := a.r.Logs(t.Context(), "00000001/")
		in, gerr := a.r.GetLog(t.Context(), "00000001/"+first.Name)
		if err != nil || gerr != nil || len(logs) != 1 {
			t.Fatal(err, gerr, logs)
		}
		if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, first.Bytes) {
			t.Errorf("%d bytes other than were put, %v", len(got), err)
		}
		in.Close()
		sizes[logs[0].Stored] = true
	}
	if len(sizes) != 2 {
		t.Errorf("in a hurry segments are packed as ever: %v", sizes)
	}
	part = second
	for _, n := range []int{1, 4, 9} { // it grows, and other processes may put it too
		part.Bytes = second.Bytes[:n*8192]
		if err := errors.Join(a.Put(t.Context(), &part), archiveIn(t, dir).Put(t.Context(), &part)); err != nil {
			t.Fatal(err)
		}
	}
	short := part
	short.Bytes = second.Bytes[:4*8192] // of a server that has less
	if err := a.Put(t.Context(), &short); err != nil {
		t.Fatal(err)
	}
	if there, err := a.beginning(t.Context(), "00000001/"+part.Name+openSuffix, &part); err != nil || !there {
		t.Errorf("what was longer is gone: %v", err)
	}
	short.Bytes = bytes.Clone(short.Bytes)
	short.Bytes[9000] ^= 1
	if err := a.Put(t.Context(), &short); tidemark.KindOf(err) != tidemark.Collision {
		t.Errorf("another beginning: %v", err)
	}
	again := archiveIn(t, dir) // after kill -9
	s, err := again.State(t.Context())
	if err != nil || s.Segment != 1<<20 || !slices.Equal(s.Ends, []tidemark.LogPlace{{Timeline: 1, Place: first.End()}}) || s.Files != 2 || s.Newest.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
	if err := again.Put(t.Context(), &second); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(object(dir, &part)); !os.IsNotExist(err) {
		t.Errorf("the open segment of who was killed is there beside the whole one: %v", err)
	}
	if err := archiveIn(t, dir).Put(t.Context(), &part); err != nil { // by a lagging server
		t.Fatal(err)
	}
	if s, err = again.State(t.Context()); err != nil || s.Ends[0].Place != second.End() {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := os.Stat(object(dir, &part)); !os.IsNotExist(err) {
		t.Errorf("the open segment of one that lags stays: %v", err)
	}
}

func (h *history) refuses(t *testing.T) {
	a := archiveIn(t, t.TempDir())
	h.put(t, a)
	h.put(t, a) // putting the same again is harmless
	f := *h.files[2]
	f.Bytes = bytes.Clone(f.Bytes)
	f.Bytes[5000] ^= 1
	if err := a.Put(t.Context(), &f); tidemark.KindOf(err) != tidemark.Collision || !strings.Contains(err.Error(), f.Name) {
		t.Errorf("other bytes: %v", err)
	}
	f.Bytes[24] ^= 1 // the system identifier
	f.Name, f.Place = "0000000100000000000000FF", 0xFF00000
	if err := a.Put(t.Context(), &f); tidemark.KindOf(err) != tidemark.Collision || !strings.Contains(err.Error(), "system identifier") {
		t.Errorf("another server: %v", err)
	}
	one := &tidemark.LogFile{Name: "00000002.history", Timeline: 2, Bytes: []byte("1\t0/3000000\tx\n"), Size: 14}
	two := *one
	two.Bytes = []byte("1\t0/3000001\tx\n")
	if err := errors.Join(a.Put(t.Context(), one), a.Put(t.Context(), one)); err != nil {
		t.Error(err)
	}
	if err := a.Put(t.Context(), &two); tidemark.KindOf(err) != tidemark.Collision {
		t.Errorf("another history: %v", err)
	}
}

func (h *history) names(t *testing.T) {
	dir := t.TempDir()
	a := archiveIn(t, dir)
	h.put(t, a)
	gone := h.files[4]
	b, err := os.ReadFile(object(dir, gone))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(object(dir, gone)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "X")
	if err := a.Get(t.Context(), gone.Name, path, 0); tidemark.KindOf(err) != tidemark.Lost || !strings.Contains(err.Error(), gone.Name+": the segment is missing") {
		t.Errorf("a gap: %v", err)
	}
	need := Span{Timeline: 1, Start: h.begins, End: h.begins}
	for _, to := range []Target{{}, {Kind: AtPlace, Place: h.end}, {Kind: AtTime, Time: h.rows[7].at}, {Kind: AtTx, Tx: h.rows[7].xid}} {
		if _, err := a.Check(t.Context(), need, to); tidemark.KindOf(err) != tidemark.Lost || !strings.Contains(err.Error(), gone.Name+": the segment is missing") {
			t.Errorf("%s behind a gap: %v", to, err)
		}
	}
	if r, err := a.Check(t.Context(), need, Target{Kind: AtPlace, Place: gone.Place}); err != nil || r.To != gone.Place {
		t.Errorf("a target before the gap: %+v, %v", r, err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(object(dir, gone), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Get(t.Context(), gone.Name, path, 0); tidemark.KindOf(err) != tidemark.Corrupt {
		t.Errorf("a flipped bit: %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("something was left of what is damaged: %v", err)
	}
	if _, err := a.Check(t.Context(), need, Target{Kind: AtTx, Tx: h.rows[7].xid}); tidemark.KindOf(err) != tidemark.Corrupt {
		t.Errorf("a flipped bit on the way: %v", err)
	}
}

func (h *history) reaches(t *testing.T) {
	a := archiveIn(t, t.TempDir())
	need := Span{Timeline: 1, Start: h.begins, End: h.begins}
	if _, err := a.Check(t.Context(), need, Target{}); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("of an empty archive: %v", err)
	}
	h.put(t, a)
	all, err := a.Check(t.Context(), need, Target{})
	if err != nil || all.To != h.end || !all.At.Equal(h.rows[7].at) || all.Segments != len(h.files) || all.Timeline != 1 {
		t.Errorf("all: %+v, and the end is %X: %v", all, h.end, err)
	}
	last := uint64(0)
	for i, r := range h.rows {
		byTx, err := a.Check(t.Context(), need, Target{Kind: AtTx, Tx: r.xid})
		if err != nil || !byTx.At.Equal(r.at) || byTx.To <= last {
			t.Errorf("transaction %d: %+v, %v", i, byTx, err)
		}
		last = byTx.To
		// A time just before it reaches it, and the commit before is the last one restored.
		byTime, err := a.Check(t.Context(), need, Target{Kind: AtTime, Time: r.at.Add(-time.Microsecond)})
		if err != nil || byTime.To > byTx.To || i > 0 && !byTime.At.IsZero() && byTime.At.After(r.at) {
			t.Errorf("just before transaction %d: %+v, %v", i, byTime, err)
		}
		if byPlace, err := a.Check(t.Context(), need, Target{Kind: AtPlace, Place: byTx.To}); err != nil || byPlace.To != byTx.To {
			t.Errorf("its place: %+v, %v", byPlace, err)
		}
	}
	if r, err := a.Check(t.Context(), need, Target{Kind: AtRestorePt, Name: "half"}); err != nil || r.To != h.point {
		t.Errorf("the restore point at %X: %+v, %v", h.point, r, err)
	}
	if r, err := a.Check(t.Context(), need, Target{Kind: AtOnce}); err != nil || r.To != need.End {
		t.Errorf("at once: %+v, %v", r, err)
	}
	later := Span{Timeline: 1, Start: h.begins, End: h.point}
	for what, c := range map[string]struct {
		need Span
		to   Target
		kind tidemark.Kind
		says string
	}{
		"a time to come":     {need, Target{Kind: AtTime, Time: h.rows[7].at.Add(time.Hour)}, tidemark.NotFound, "its last commit is at " + h.rows[7].at.UTC().Format("2006-01-02 15:04:05")},
		"a place to come":    {need, Target{Kind: AtPlace, Place: h.end + 1<<30}, tidemark.NotFound, "ends at " + formatPlace(h.end)},
		"no such point":      {need, Target{Kind: AtRestorePt, Name: "none"}, tidemark.NotFound, `restore point "none" is not in it`},
		"no such tx":         {need, Target{Kind: AtTx, Tx: 4_000_000_000}, tidemark.NotFound, "transaction 4000000000 is not in it"},
		"a place before":     {later, Target{Kind: AtPlace, Place: h.begins}, tidemark.Invalid, "it is before the end of the backup"},
		"a backup to come":   {Span{Timeline: 1, Start: h.begins, End: h.end + 1<<30}, Target{Kind: AtOnce}, tidemark.NotFound, "the backup is consistent only from"},
		"no such timeline":   {need, Target{Timeline: 7}, tidemark.NotFound, "the archive has no history of timeline 7"},
		"before the archive": {Span{Timeline: 1, Start: 0x100000, End: h.begins}, Target{}, tidemark.Lost, "000000010000000000000001: the segment is missing"},
	} {
		if _, err := a.Check(t.Context(), c.need, c.to); err == nil || tidemark.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || tidemark.HintOf(err) == "" {
			t.Errorf("%s: %v (%v)", what, err, tidemark.KindOf(err))
		}
	}
}

// follows adds timelines to the archive, whose segments are copies of the first one's.
func (h *history) follows(t *testing.T) {
	a := archiveIn(t, t.TempDir())
	const size = 1 << 20
	put := func(timeline uint32, from, to int) {
		for i := from; i < to; i++ {
			f := *h.files[i]
			f.Timeline, f.Name = timeline, fmt.Sprintf("%08X%s", timeline, f.Name[8:])
			if err := a.Put(t.Context(), &f); err != nil {
				t.Fatal(err)
			}
		}
	}
	tell := func(timeline uint32, text string) {
		f := &tidemark.LogFile{Name: fmt.Sprintf("%08X.history", timeline), Timeline: timeline, Bytes: []byte(text), Size: len(text)}
		if err := a.Put(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	at := func(i int) string { return formatPlace(h.files[i].Place + 5000) }
	put(1, 0, 4)
	put(2, 3, 6)
	put(3, 5, 8)
	put(4, 1, 3)
	tell(2, "1\t"+at(3)+"\tx\n")
	tell(3, "1\t"+at(3)+"\tx\n2\t"+at(5)+"\tx\n")
	tell(4, "1\t"+at(1)+"\tx\n")
	need := Span{Timeline: 1, Start: h.files[0].Place, End: h.files[2].Place}
	end := func(i int) uint64 { return h.files[i].Place + size }
	for what, c := range map[string]struct {
		need     Span
		timeline uint32
		to       uint64
		says     string
	}{
		"the newest that comes from it": {need, 0, end(7), ""},
		"the first":                     {need, 1, end(3), ""},
		"the second":                    {need, 2, end(5), ""},
		"left before the backup's end":  {need, 4, 0, "it does not descend from the backup"},
		"of an early backup":            {Span{Timeline: 1, Start: need.Start, End: need.Start}, 0, end(2), ""},
	} {
		r, err := a.Check(t.Context(), c.need, Target{Kind: AtOnce, Timeline: c.timeline})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if err != nil {
			continue
		}
		in, err := a.contents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lines, err := a.lineages(t.Context(), in, c.need)
		if err != nil {
			t.Fatal(err)
		}
		line, err := wanted(lines, in, c.need, c.timeline)
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.reach(t.Context(), in, line, c.need)
		if err != nil || got.end != c.to || c.timeline != 0 && r.Timeline != c.timeline {
			t.Errorf("%s: up to %X and not %X, timeline %d: %v", what, got.end, c.to, r.Timeline, err)
		}
	}
	s, err := a.State(t.Context())
	if err != nil || len(s.Ends) != 4 || s.Ends[1] != (tidemark.LogPlace{Timeline: 2, Place: end(5)}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// pgWal makes a folder like a server's, with waiting segments.
func (h *history) pgWal(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "archive_status"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range h.files {
		if f.Whole() {
			if err := errors.Join(os.WriteFile(filepath.Join(dir, f.Name), f.Bytes, 0o600), os.WriteFile(filepath.Join(dir, "archive_status", f.Name+".ready"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func (h *history) pushes(t *testing.T) {
	dir, from := t.TempDir(), h.pgWal(t)
	a := archiveIn(t, dir)
	opt := PushOptions{Ahead: 2}
	for i, f := range h.files[:6] {
		file := filepath.Join(from, f.Name)
		if err := a.Push(t.Context(), file, opt); err != nil {
			t.Fatal(err)
		}
		if err := a.Push(t.Context(), file, opt); err != nil { // after a crash the server repeats the request
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(from, "archive_status", f.Name+".ready")); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(object(dir, h.files[i+2])); err != nil {
			t.Errorf("nothing was pushed ahead of %s: %v", f.Name, err)
		}
	}
	// A server restored to an earlier time has another segment with the name of one pushed ahead.
	next := filepath.Join(from, h.files[6].Name)
	if _, err := os.Stat(filepath.Join(from, noted, h.files[6].Name)); err != nil {
		t.Fatal(err)
	}
	b := bytes.Clone(h.files[6].Bytes)
	b[9000] ^= 1
	if err := os.WriteFile(next, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Push(t.Context(), next, opt); tidemark.KindOf(err) != tidemark.Collision {
		t.Errorf("other bytes: %v", err)
	}
	for what, c := range map[string]struct {
		name  string
		bytes []byte
		kind  tidemark.Kind
	}{
		"no name of a segment": {"pgbench.log", b, tidemark.Invalid},
		"another segment":      {"0000000100000000000000FE", b, tidemark.BadInput},
		"half a segment":       {h.files[5].Name, b[:1<<19], tidemark.BadInput},
		"no segment":           {h.files[5].Name, make([]byte, 1<<20), tidemark.BadInput},
	} {
		file := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(file, c.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.Push(t.Context(), file, PushOptions{}); tidemark.KindOf(err) != c.kind {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := a.Push(t.Context(), filepath.Join(from, "0000000100000000000000FD"), PushOptions{}); err == nil {
		t.Error("a file that is not there was pushed")
	}
	label := filepath.Join(from, h.files[1].Name+".00000028.backup")
	if err := os.WriteFile(label, []byte("START WAL LOCATION: ...\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Push(t.Context(), label, PushOptions{}); err != nil {
		t.Error(err)
	}
}

// full is a store on a full disk.
type full struct{ store.Store }

func (full) Create(context.Context, string, store.Mode) (store.Object, error) {
	return nil, &tidemark.Error{Kind: tidemark.Full, Op: "write", Err: errors.New("no space left on device")}
}

func (h *history) givesUp(t *testing.T) {
	dir, from := t.TempDir(), h.pgWal(t)
	a := archiveIn(t, dir)
	r, err := repo.Open(t.Context(), full{a.r.Store()}, repo.Keys{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(from, h.files[0].Name)
	waits := 0
	for _, f := range h.files {
		waits += len(f.Bytes) / f.Size
	}
	refused := New(r, a.codec)
	for max, gives := range map[int64]bool{0: false, int64(waits) << 20: false, int64(waits)<<20 - 1: true} {
		err := refused.Push(t.Context(), file, PushOptions{QueueMax: max})
		var up *GivenUp
		if errors.As(err, &up) != gives || !gives && tidemark.KindOf(err) != tidemark.Full {
			t.Errorf("with %s: %v", strconv.FormatInt(max, 10), err)
		}
	}
	b := bytes.Clone(h.files[0].Bytes)
	b[9000] ^= 1
	if err := a.Put(t.Context(), h.files[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Push(t.Context(), file, PushOptions{QueueMax: 1}); tidemark.KindOf(err) != tidemark.Collision {
		t.Errorf("what will never be better is given up: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tries := 0
	if err := refused.Keep(ctx, h.files[1], func(string, time.Duration, error) {
		if tries++; tries == 2 {
			cancel()
		}
	}); tidemark.KindOf(err) != tidemark.Full || tries < 2 {
		t.Errorf("a full disk is waited for: %d tries, %v", tries, err)
	}
}
