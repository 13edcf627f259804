package backup

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/store"
)

// A crowd is a Source of many small files, all of which are the same one, and of some large ones.
type crowd struct {
	t            *testing.T
	files        int
	small, large string
	clock        int
	was          func(string) (tidemark.DataFile, bool)
	opened       int
	empty, most  uint64 // bytes of the heap: initially, and the maximum since
}

const crowdPage = 8 << 10

// weigh returns the size of the heap, without garbage.
func (s *crowd) weigh() uint64 {
	now := uint64(heap())
	s.most = max(s.most, now)
	return now
}

func (s *crowd) Begin(context.Context) (*tidemark.DataSet, error) {
	s.clock++
	s.opened, s.most = 0, 0
	s.empty = s.weigh()
	set := &tidemark.DataSet{PageSize: crowdPage, System: "7", Version: "0", Start: fmt.Sprint(s.clock)}
	for i := range s.files {
		if i%1000 == 0 {
			set.Files.Add(tidemark.DataFile{Path: fmt.Sprint("base/", i/1000), Dir: true, Mode: 0o700})
		}
		set.Files.Add(tidemark.DataFile{Path: fmt.Sprintf("base/%d/%d", i/1000, 16384+i), Size: crowdPage, Mode: 0o600, Modified: time.Unix(int64(i), 0)})
	}
	for i := range 5 {
		set.Files.Add(tidemark.DataFile{Path: fmt.Sprint("large/", i), Size: 16 << 20, Mode: 0o600})
	}
	return set, nil
}

func (s *crowd) Open(f *tidemark.DataFile) (*os.File, error) {
	if s.opened++; s.opened%(s.files/8) == 0 {
		s.weigh()
	}
	if f.Size > crowdPage {
		return os.Open(s.large)
	}
	return os.Open(s.small)
}

func (s *crowd) End(context.Context) (*tidemark.DataEnd, error) {
	s.weigh()
	end := &tidemark.DataEnd{Ranges: []tidemark.DataLog{{Timeline: 1, From: fmt.Sprint(s.clock), To: "9"}}}
	for i := range s.files / 10 {
		end.Log.Add(tidemark.DataFile{Path: fmt.Sprintf("pg_wal/%024d", i), Size: crowdPage, Mode: 0o600})
	}
	return end, nil
}

func (s *crowd) Manifest() (tidemark.DataFile, func(io.Writer, iter.Seq2[tidemark.DataSum, error]) error) {
	return tidemark.DataFile{Path: "backup_manifest"}, func(w io.Writer, files iter.Seq2[tidemark.DataSum, error]) error {
		n := 0
		for f, err := range files {
			if err != nil {
				return err
			}
			if n++; n%(s.files/2) == 0 {
				s.weigh()
			}
			if _, err := fmt.Fprintln(w, f); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *crowd) Since(_ context.Context, since tidemark.DataSince) (string, []tidemark.Finding, error) {
	s.was = since.Was
	return "a test", nil, nil
}

// Changed reports that a page of every other file has changed, that some files were recreated, and
// that others must be examined.
func (s *crowd) Changed(f *tidemark.DataFile) tidemark.FileChange {
	if _, there := s.was(f.Path); !there {
		s.t.Errorf("%s was not there", f.Path)
	}
	switch n := f.Modified.Unix(); {
	case n%2 == 0:
		return tidemark.FileChange{Pages: []uint32{0}, Limit: 1}
	case n%3 == 0:
		return tidemark.FileChange{Newer: func([]byte) bool { return true }, Limit: 1}
	case n%5 == 0:
		return tidemark.FileChange{Whole: true}
	}
	return tidemark.FileChange{Limit: 1}
}

// A backup keeps little per file, read or not: with a million files, 256 MB must suffice for
// everything.
func TestMemoryForEachFile(t *testing.T) {
	dir := t.TempDir()
	s := &crowd{t: t, files: 30_000, small: filepath.Join(dir, "small"), large: filepath.Join(dir, "large")}
	must(t, os.WriteFile(s.small, make([]byte, crowdPage), 0o600))
	must(t, os.WriteFile(s.large, nil, 0o600))
	must(t, os.Truncate(s.large, 16<<20))
	place, err := store.Open(t.Context(), filepath.Join(dir, "repo"), store.Options{})
	must(t, err)
	defer place.Close()
	r, err := repo.Create(t.Context(), place, repo.Keys{})
	must(t, err)
	for _, basis := range []Basis{Nothing, LastAny} {
		job, err := New(s, r, Options{Basis: basis, BufferSize: bufferUnit, Parallelism: 1, Sessions: 1, Buffers: 4})
		must(t, err)
		result, err := job.Run(t.Context())
		must(t, err)
		m := result.Manifest
		if want := int64(s.files + s.files/1000 + 5 + s.files/10); m.Count != want && m.Count != want+1 || (m.Kind == repo.Incremental) != (basis == LastAny) {
			t.Fatalf("%s of %d files: %v", m.Kind, m.Count, result.Findings)
		}
		// Workers and buffers take the same with any number of files.
		const others = 6 << 20
		each := (int64(s.most) - int64(s.empty) - others) / int64(s.files)
		t.Logf("%s: %d kB at first, %d kB at most; beside workers and buffers %d bytes for each file", m.Kind, s.empty>>10, s.most>>10, each)
		if each > 80 {
			t.Errorf("%s: %d bytes of memory for each file", m.Kind, each)
		}
	}
}
