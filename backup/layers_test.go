package backup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/store"
)

// These tests back up folders of random files that change in random, exactly known ways, and
// compare the restored files with the originals: the arithmetic of pages and layers, in many more
// cases than servers could show.

const testPage = 64 << 10 / 8

// A world is a folder of files, and their history.
type world struct {
	dir   string
	files map[string][]byte
	clock uint64 // each page begins with the time when it was written
	past  []moment

	stopped []moment // states at the start of stopped backups that are not resumed yet
	basis   Basis    // of these
}

// marks returns all moments since which changes may be requested.
func (w *world) marks() []moment { return slices.Concat(w.past, w.stopped) }

// now is a moment.
func (w *world) now() moment {
	return moment{clock: w.clock, files: maps.Clone(w.files), limit: map[string]int{}, changed: map[string]map[int]bool{}, recent: map[string]bool{}}
}

// A moment is the state when a backup was made.
type moment struct {
	id    string
	clock uint64
	files map[string][]byte
	// Since then:
	limit   map[string]int          // the least number of pages that a file had
	changed map[string]map[int]bool // pages that were written
	recent  map[string]bool         // files that were recreated
}

func (w *world) write(name string, page int) {
	w.clock++
	b := w.files[name][page*testPage:][:testPage]
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], w.clock*0x9e3779b97f4a7c15+uint64(i))
	}
	binary.LittleEndian.PutUint64(b, w.clock)
	for _, m := range w.marks() {
		if m.changed[name] == nil {
			m.changed[name] = map[int]bool{}
		}
		m.changed[name][page] = true
	}
}

func (w *world) cut(name string, pages int) {
	w.files[name] = slices.Clone(w.files[name][:pages*testPage])
	for _, m := range w.marks() {
		if old, ok := m.limit[name]; !ok || pages < old {
			m.limit[name] = pages
		}
	}
}

// change makes a random change.
func (w *world) change(r *rand.Rand) {
	names := slices.Sorted(maps.Keys(w.files))
	if len(names) == 0 || r.IntN(8) == 0 {
		name := fmt.Sprintf("base/%d", r.IntN(10))
		pages := r.IntN(5)
		if r.IntN(3) > 0 {
			pages = r.IntN(60)
		}
		w.files[name] = make([]byte, pages*testPage)
		for _, m := range w.marks() {
			m.recent[name] = true
		}
		for p := range pages {
			if r.IntN(5) > 0 {
				w.write(name, p)
			}
		}
		return
	}
	name := names[r.IntN(len(names))]
	pages := len(w.files[name]) / testPage
	switch r.IntN(8) {
	case 0:
		w.cut(name, r.IntN(pages+1))
	case 1, 2: // longer, by pages that may stay zeros and are not in the log
		n := 1 + r.IntN(10)
		w.files[name] = append(slices.Clone(w.files[name]), make([]byte, n*testPage)...)
		for p := pages; p < pages+n; p++ {
			if r.IntN(3) > 0 {
				w.write(name, p)
			}
		}
	case 3:
		delete(w.files, name)
	default:
		w.files[name] = slices.Clone(w.files[name])
		for range r.IntN(30) {
			if pages > 0 {
				w.write(name, r.IntN(pages))
			}
		}
	}
}

// put writes the files to the folder.
func (w *world) put(t *testing.T) {
	must(t, os.RemoveAll(w.dir))
	must(t, os.MkdirAll(filepath.Join(w.dir, "base"), 0o700))
	must(t, os.MkdirAll(filepath.Join(w.dir, "pg_tblspc", "7"), 0o700))
	for name, b := range w.files {
		must(t, os.WriteFile(filepath.Join(w.dir, name), b, 0o600))
	}
	for _, name := range leftNames {
		must(t, os.WriteFile(filepath.Join(w.dir, name), make([]byte, 3*testPage), 0o600))
	}
}

// leftNames are files that are listed, and then turn out not to belong in the backup: the second
// one is in a tablespace created after the backup began.
var leftNames = []string{"base/left", "pg_tblspc/7/late"}

// A folderSource is a world as a Source.
type folderSource struct {
	w      *world
	r      *rand.Rand
	system string
	since  func(name string) moment
	ways   map[string]tidemark.FileChange

	mu    sync.Mutex
	opens int          // how many files may be opened before the backup is stopped, at the latest at its end
	note  func() error // called at each one; nil: the backup is not stopped
}

func (s *folderSource) Begin(context.Context) (*tidemark.DataSet, error) {
	set := &tidemark.DataSet{PageSize: testPage, System: s.system, Version: "0", Start: strconv.FormatUint(s.w.clock, 10)}
	for _, dir := range []string{".", "base", "global", "pg_tblspc", "pg_tblspc/7"} {
		set.Files.Add(tidemark.DataFile{Path: dir, Dir: true, Mode: 0o700})
	}
	for name, b := range s.w.files {
		set.Files.Add(tidemark.DataFile{Path: name, Size: int64(len(b)), Mode: 0o600, Modified: time.Unix(int64(s.w.clock), 0)})
	}
	for _, name := range leftNames {
		set.Files.Add(tidemark.DataFile{Path: name, Size: 3 * testPage, Mode: 0o600})
	}
	set.Tablespaces = []tidemark.Tablespace{{OID: 7, Path: "/late"}}
	set.Files.Add(tidemark.DataFile{Path: "away", Size: 3 * testPage, Mode: 0o600}) // removed since it was listed
	return set, nil
}

func (s *folderSource) Open(f *tidemark.DataFile) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.note != nil {
		if s.opens--; s.opens < 0 {
			return nil, errStopped
		}
		if err := s.note(); err != nil {
			return nil, err
		}
	}
	return os.Open(filepath.Join(s.w.dir, f.Path))
}

func (s *folderSource) End(context.Context) (*tidemark.DataEnd, error) {
	if s.note != nil {
		return nil, errors.Join(s.note(), errStopped)
	}
	made := func(name, text string) tidemark.MadeFile {
		return tidemark.MadeFile{DataFile: tidemark.DataFile{Path: name, Size: int64(len(text)), Mode: 0o600}, Content: []byte(text)}
	}
	return &tidemark.DataEnd{Ranges: []tidemark.DataLog{{Timeline: 1, From: strconv.FormatUint(s.w.clock, 10), To: "9"}},
		Made: []tidemark.MadeFile{made(lastFile, s.system), made("PG_VERSION", "0")}, Left: func(p string) bool { return p == leftNames[0] }, Spaces: "17 /other\n"}, nil
}

func (s *folderSource) Manifest() (tidemark.DataFile, func(io.Writer, iter.Seq2[tidemark.DataSum, error]) error) {
	return tidemark.DataFile{Path: "backup_manifest", Mode: 0o600}, func(w io.Writer, files iter.Seq2[tidemark.DataSum, error]) error {
		var all []tidemark.DataSum
		for f, err := range files {
			if err != nil {
				return err
			}
			all = append(all, f)
		}
		_, err := w.Write(made(all).Content)
		return err
	}
}

func (s *folderSource) Place(context.Context) (tidemark.DataLog, error) {
	return tidemark.DataLog{Timeline: 1, From: strconv.FormatUint(s.w.clock, 10), To: "9"}, nil
}

var errStopped = errors.New("stopped by the test")

// Since records for each file since when its changes are requested: since the unfinished backup
// began if that has the file, or else since the backup it builds on.
func (s *folderSource) Since(_ context.Context, since tidemark.DataSince) (string, []tidemark.Finding, error) {
	own, err := s.moment(since)
	if err != nil {
		return "", nil, err
	}
	var base moment // it has no file
	switch {
	case since.Base != nil:
		if base, err = s.moment(*since.Base); err != nil {
			return "", nil, err
		}
	case !since.Unfinished:
		base = own
	}
	s.since = func(name string) moment {
		if _, has := since.Was(name); has {
			return own
		}
		return base
	}
	return "a test", nil, nil
}

// moment finds the moment when an earlier backup began, and checks what was passed about its files.
func (s *folderSource) moment(since tidemark.DataSince) (moment, error) {
	for _, m := range s.w.marks() {
		if strconv.FormatUint(m.clock, 10) != since.Ranges[0].From {
			continue
		}
		for name := range s.w.files {
			was, ok := since.Was(name)
			if !since.Unfinished && (ok != (m.files[name] != nil) || ok && was.Size != int64(len(m.files[name]))) {
				return m, fmt.Errorf("%s was said to have been %v, %v", name, was, ok)
			}
		}
		return m, nil
	}
	return moment{}, fmt.Errorf("it received a backup at %s", since.Ranges[0].From)
}

func (s *folderSource) Changed(f *tidemark.DataFile) tidemark.FileChange {
	if c, ok := s.ways[f.Path]; ok {
		return c
	}
	since := s.since(f.Path)
	now, was := s.w.files[f.Path], since.files[f.Path]
	c := tidemark.FileChange{Limit: 1 << 31}
	if limit, ok := since.limit[f.Path]; ok {
		c.Limit = uint32(limit)
	}
	switch {
	case was == nil, since.recent[f.Path], s.r.IntN(10) == 0:
		c = tidemark.FileChange{Whole: true}
	case s.r.IntN(3) == 0:
		c.Newer = func(page []byte) bool { return binary.LittleEndian.Uint64(page) > since.clock }
	default:
		for p := range len(now) / testPage {
			if since.changed[f.Path][p] {
				c.Pages = append(c.Pages, uint32(p))
			}
		}
	}
	s.ways[f.Path] = c
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TIDEMARK_CHAINS=500 sets the number of chains; TIDEMARK_CHAIN=SEED repeats one.
func TestChainsBringBackWhatWasThere(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("TIDEMARK_CHAINS"), "20"))
	must(t, err)
	first, n1 := rand.Uint64(), n
	if one := os.Getenv("TIDEMARK_CHAIN"); one != "" {
		first, err = strconv.ParseUint(one, 10, 64)
		must(t, err)
		n1 = 1
	}
	for seed := first; seed != first+uint64(n1); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { aChain(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func aChain(t *testing.T, r *rand.Rand) {
	at := t.TempDir()
	place, err := store.Open(t.Context(), filepath.Join(at, "repo"), store.Options{})
	must(t, err)
	defer place.Close()
	rp, err := repo.Create(t.Context(), place, repo.Keys{})
	must(t, err)
	w := &world{dir: filepath.Join(at, "world"), files: map[string][]byte{}}
	for range 1 + r.IntN(9) {
		for range r.IntN(30) {
			w.change(r)
		}
		w.put(t)
		w.backUp(t, rp, r, []Basis{Nothing, LastFull, LastAny, LastAny}[r.IntN(4)], r.IntN(5) < 3)
	}
	over := filepath.Join(at, "over")
	for _, m := range w.past {
		w.check(t, rp, m, filepath.Join(at, m.id), false)
		spoil(t, r, over)
		w.check(t, rp, m, over, true)
	}
}

// backUp makes a backup, and resumes a stopped one if there is one. With stop it is itself stopped,
// while it opens one of its files, or at its end; it writes a checkpoint at each file.
func (w *world) backUp(t *testing.T, rp *repo.Repo, r *rand.Rand, basis Basis, stop bool) {
	w.clock++ // no two backups begin at the same position
	src := &folderSource{w: w, r: r, system: "7", ways: map[string]tidemark.FileChange{}}
	opt := Options{Basis: basis, BufferSize: bufferUnit, Parallelism: 1 + r.IntN(3), Sessions: 1, Buffers: 4, NoteEvery: time.Hour}
	if len(w.stopped) > 0 {
		opt.Resume, opt.Basis = ResumeLast, w.basis
	}
	job, err := New(src, rp, opt)
	must(t, err)
	if stop {
		src.opens = 2 + r.IntN(2+2*len(w.files))
		src.note = func() error {
			time.Sleep(2 * time.Millisecond) // so that what was read before is in a pack by now
			return job.noteOnce(t.Context(), src)
		}
	}
	began := w.now()
	res, err := job.Run(t.Context())
	if errors.Is(err, errStopped) {
		w.left(t, rp, began, opt.Basis)
		return
	}
	must(t, err)
	if job.spent != job.effort {
		t.Errorf("at its end %d of %d are done", job.spent, job.effort)
	}
	base, resumed := res.Manifest.Parent, res.Increment != nil && res.Increment.Resumed
	if resumed {
		base = res.Increment.Base
	}
	if len(w.stopped) > 0 != resumed {
		t.Fatalf("of %d that were stopped: %+v, %v", len(w.stopped), res.Increment, res.Findings)
	}
	if wanted := opt.Basis != Nothing && len(w.past) > 0; wanted != (res.Manifest.Kind == repo.Incremental) || wanted != (base != "") {
		t.Fatalf("backup %d with basis %d is %s on %q: %v", len(w.past), opt.Basis, res.Manifest.Kind, base, res.Findings)
	}
	if opt.Basis == LastAny && len(w.past) > 0 && base != w.past[len(w.past)-1].id {
		t.Fatalf("a delta on %s", base)
	}
	began.id = res.Manifest.ID
	w.past, w.stopped = append(w.past, began), nil
}

// left records that a backup was stopped, if it had a checkpoint.
func (w *world) left(t *testing.T, rp *repo.Repo, began moment, basis Basis) {
	open, err := rp.Unfinished(t.Context())
	must(t, err)
	if len(open) > 1 || len(open) < min(len(w.stopped), 1) {
		t.Fatalf("%d can be resumed", len(open))
	}
	if len(open) == 0 || len(w.stopped) > 0 && w.stopped[len(w.stopped)-1].id == open[0].ID {
		return
	}
	began.id = open[0].ID
	w.stopped = append(w.stopped, began)
	if w.basis = basis; len(w.past) == 0 {
		w.basis = Nothing
	}
}

// check restores a backup, and compares the files.
func (w *world) check(t *testing.T, rp *repo.Repo, m moment, dir string, over bool) {
	manifest, err := rp.Manifest(t.Context(), m.id)
	must(t, err)
	opt := RestoreOptions{Dir: dir, Delta: over, Options: Options{Parallelism: 2},
		System: func(b []byte) (string, bool) { return string(b), true },
		Manifest: func(*repo.Manifest) (string, func(io.Writer) FileList) {
			return "backup_manifest", func(w io.Writer) FileList { return &madeSums{to: w} }
		}}
	x, err := NewRestore(rp, manifest, opt)
	must(t, err)
	x.windowMost, x.layersMemory = 1+int(m.clock)%60, 1+int(m.clock)%2000
	must(t, x.Run(t.Context()))
	if x.spent != x.effort {
		t.Errorf("at the restore's end %d of %d are done", x.spent, x.effort)
	}
	want := map[string][]byte{lastFile: []byte("7"), "PG_VERSION": []byte("0"), "backup_manifest": nil}
	maps.Copy(want, m.files)
	got := map[string][]byte{}
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		got[filepath.ToSlash(name)], err = os.ReadFile(p)
		return err
	})
	must(t, err)
	var sums []tidemark.DataSum
	for name, b := range want {
		if name != "backup_manifest" {
			sums = append(sums, tidemark.DataSum{Path: name, Size: int64(len(b)), CRC32C: repo.CombineCRC(0, crcOf(b), int64(len(b)))})
		}
	}
	want["backup_manifest"] = made(sums).Content
	for name, b := range want {
		if !bytes.Equal(got[name], b) || got[name] == nil {
			t.Fatalf("%s, over %v: %s has %d bytes, and had %d; the first other page is %d", m.id, over, name, len(got[name]), len(b), firstOther(got[name], b))
		}
		delete(got, name)
	}
	for name := range got {
		t.Fatalf("%s, over %v: there is %s too", m.id, over, name)
	}
}

func firstOther(a, b []byte) int {
	for i := 0; ; i += testPage {
		if i >= len(a) || i >= len(b) || !bytes.Equal(a[i:min(i+testPage, len(a))], b[i:min(i+testPage, len(b))]) {
			return i / testPage
		}
	}
}

// madeSums is the list that made creates from files as they arrive.
type madeSums struct {
	to   io.Writer
	sums []tidemark.DataSum
}

func (s *madeSums) Add(f tidemark.DataSum) error { s.sums = append(s.sums, f); return nil }

func (s *madeSums) Close() error {
	_, err := s.to.Write(made(s.sums).Content)
	return err
}

func made(sums []tidemark.DataSum) tidemark.MadeFile {
	slices.SortFunc(sums, func(a, b tidemark.DataSum) int { return cmp.Compare(a.Path, b.Path) })
	var b bytes.Buffer
	for _, s := range sums {
		fmt.Fprintf(&b, "%s %d %08x\n", s.Path, s.Size, s.CRC32C)
	}
	return tidemark.MadeFile{DataFile: tidemark.DataFile{Path: "backup_manifest", Size: int64(b.Len()), Mode: 0o600}, Content: b.Bytes()}
}

// spoil damages a restored folder in random ways before it is restored over.
func spoil(t *testing.T, r *rand.Rand, dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "base", "*"))
	must(t, err)
	if _, err := os.Stat(dir); err != nil {
		return
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(t, err)
		switch r.IntN(5) {
		case 0:
			if len(b) > 0 {
				b[r.IntN(len(b))] ^= 4
			}
		case 1:
			b = b[:r.IntN(len(b)+1)]
		case 2:
			b = append(b, "and more"...)
		case 3:
			must(t, os.Remove(name))
			continue
		}
		must(t, os.WriteFile(name, b, 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "base", "more"), nil, 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, "base", "folder", "in"), 0o700))
	if r.IntN(3) == 0 { // an earlier restore was killed
		must(t, os.Rename(filepath.Join(dir, lastFile), filepath.Join(dir, lastFile)+movedAway))
	}
}

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
