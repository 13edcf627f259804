package backup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/store"
)

// TestCandidates: a backup builds only on complete backups of its own cluster, the newest first,
// and an incremental one only on full ones.
func TestCandidates(t *testing.T) {
	place, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	r, err := repo.Create(t.Context(), place, repo.Keys{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	log := []repo.LogRange{{First: "00000001/000000010000000000000001", Last: "00000001/000000010000000000000001"}}
	for name, m := range map[string]repo.Manifest{
		"full":      {Kind: repo.Full, SystemID: "1", Ranges: log},
		"delta":     {Kind: "delta", SystemID: "1", Ranges: log},
		"partial":   {Kind: repo.Partial, SystemID: "1", Ranges: log},
		"elsewhere": {Kind: repo.Full, SystemID: "2", Ranges: log},
		"logical":   {Kind: repo.Full, SystemID: "1"},
	} {
		w, err := r.Begin(t.Context(), repo.BeginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.Engine = "postgres"
		if _, err := w.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		ids[w.ID] = name
	}
	for b, want := range map[Basis][]string{LastFull: {"full"}, LastAny: {"delta", "full"}} {
		j := &basis{repo: r, opt: Options{Basis: b}, set: &tidemark.DataSet{Engine: "postgres", System: "1"}}
		all, why, err := j.candidates(t.Context())
		var got []string
		for i, m := range all {
			got = append(got, ids[m.ID])
			if i > 0 && m.Started.After(all[i-1].Started) {
				t.Errorf("%s is newer than the one before it", ids[m.ID])
			}
		}
		slices.Sort(got)
		if err != nil || len(why) > 0 || !slices.Equal(got, want) {
			t.Errorf("%d: it can build on %v, want %v; %v, %v", b, got, want, why, err)
		}
	}
}

// A badPages finds the pages wrong that begin with a letter.
type badPages struct {
	Pages
	letter byte
}

func (p badPages) Check(_ *tidemark.DataFile, _ int64, content []byte) (wrong []int) {
	if content[0] == p.letter {
		wrong = append(wrong, 0)
	}
	return wrong
}

// TestSuspect: a page that is wrong when it is read again is a suspect, unless it has changed or is
// right by then.
func TestSuspect(t *testing.T) {
	for _, c := range []struct {
		name, was, is string
		want          int64
	}{{"still wrong", "xa", "xa", 1}, {"changed", "xa", "xb", 0}, {"right", "xa", "ya", 0}, {"truncated", "xa", "x", 0}} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(c.is), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		j := &Job{pages: badPages{letter: 'x'}}
		j.again(in, new(file), []byte(c.was), 0)
		if got := j.suspect.newest(); got != c.want {
			t.Errorf("%s: %d suspects, want %d", c.name, got, c.want)
		}
		in.Close()
	}
}
