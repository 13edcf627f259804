package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// notes returns notes like those of segments of 1 MB, by their numbers in timeline 1, and of other
// files.
func notes(t *testing.T, files ...any) []byte {
	t.Helper()
	var out []byte
	for i, f := range files {
		n := givenUpNote{Bytes: 1 << 20, At: time.Date(2026, 11, 22, 9, 0, i, 0, time.UTC), Cause: fmt.Sprint("cause ", i)}
		switch f := f.(type) {
		case int:
			n.Name = wal.SegmentName(1, uint64(f)<<20, 1<<20)
		case string:
			n.Name, n.Bytes = f, 50
		}
		line, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, line...), '\n')
	}
	return out
}

// Notes of consecutive files make one gap, even if a file is noted twice or the first part of the
// name changes.
func TestGapsOfNotes(t *testing.T) {
	for _, c := range []struct {
		files []any
		want  string
	}{
		{[]any{7, 8, 9}, "7-9 3 cause 2"},
		{[]any{4094, 4095, 4096}, "4094-4096 3 cause 2"},
		{[]any{7, 7, 8}, "7-8 2 cause 2"},
		{[]any{7, 8, 10, 11}, "7-8 2 cause 1, 10-11 2 cause 3"},
		{[]any{7, "00000002.history", 8}, "7-8 2 cause 2, 00000002.history-00000002.history 1 cause 1"},
		{[]any{7, "not the name of a log file", 8}, "7-8 2 cause 2"},
		{nil, ""},
	} {
		var got []string
		short := func(name string) string {
			if p, ok := wal.ParseName(filepath.Base(name), 1<<20); ok && strings.HasPrefix(name, "00000001/") {
				return fmt.Sprint(p.Place >> 20)
			}
			return name
		}
		for _, g := range gapsOf(notes(t, c.files...)) {
			got = append(got, fmt.Sprintf("%s-%s %d %s", short(g.First), short(g.Last), g.Count, g.Cause))
			if !g.Has(g.First) || !g.Has(g.Last) || g.Has("00000002/"+strings.Repeat("0", 24)) || g.Until.Before(g.Since) {
				t.Errorf("%v", g)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%v: %s and not %s", c.files, text, c.want)
		}
	}
	if got := gapsOf(notes(t, 7, 8)[:150]); len(got) != 1 || got[0].Count != 1 {
		t.Errorf("with a note that was cut: %v", got)
	}
}

// Each gap is recorded once, however often the recorder is killed; a file that was archived after
// all is in no gap.
func TestGapsAreTold(t *testing.T) {
	a, dir := archiveIn(t, t.TempDir()), t.TempDir()
	for range 2 { // the notes were not removed in time
		if err := os.WriteFile(filepath.Join(dir, givenUpNotes), notes(t, 7, 8), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.tellGaps(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, givenUpNotes)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the notes are left: %v", err)
	}
	name := func(n int) string { return wal.SegmentName(1, uint64(n)<<20, 1<<20) }
	for n, want := range []int{7: 1, 8: 0} {
		if n < 7 {
			continue
		}
		if err := a.r.PutLog(t.Context(), "00000001/"+name(n), strings.NewReader("found elsewhere"), repo.Codec{}); err != nil {
			t.Fatal(err)
		}
		gaps, err := a.Gaps(t.Context())
		if err != nil || len(gaps) != want {
			t.Errorf("with segment %d: %v, %v", n, gaps, err)
		}
	}
	if g := a.gapAt(t.Context(), name(8)); g == nil || g.Count != 2 || a.gapAt(t.Context(), name(9)) != nil {
		t.Errorf("%v", g)
	}
	all, err := a.r.Gaps(t.Context())
	if err != nil || !slices.EqualFunc(all, []string{"00000001/" + name(7)}, func(g repo.Gap, first string) bool { return g.First == first }) {
		t.Errorf("%v, %v", all, err)
	}
}
