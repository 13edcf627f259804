// Package loghole proves that verify, restore --to and backups agree on the effect of a gap in the
// archived log, wherever it is.
package loghole

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// Segments are identified by number: files of 1 MB in timeline 1.
const segmentSize = 1 << 20

func segmentName(n uint64) string { return fmt.Sprintf("00000001%08X%08X", n>>12, n&0xfff) }
func lsn(at uint64) string        { return fmt.Sprintf("%X/%X", at>>32, uint32(at)) }

type base struct {
	id  string
	end uint64
}

// An archive is a repository with backups and log, whose segments can be removed.
type archive struct {
	repo, used string // used is a folder that is not empty
	bases      []base // oldest first
	all        []uint64
}

func newArchive(t *testing.T) *archive {
	t.Helper()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "wal_keep_size=256MB", "-c", "autovacuum=off")
	url := srv.URL("postgres")
	a := &archive{repo: filepath.Join(t.TempDir(), "repo"), used: t.TempDir()}
	if err := os.WriteFile(filepath.Join(a.used, "something"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testdb.Query(t, url, "CREATE TABLE item (n int)")
	number := func() (n uint64) {
		var high, low uint64
		if _, err := fmt.Sscanf(testdb.Query(t, url, "SELECT pg_walfile_name(pg_current_wal_lsn())"), "00000001%08X%08X", &high, &low); err != nil {
			t.Fatal(err)
		}
		return high<<12 | low
	}
	first := number()
	for b := range 2 {
		testdb.Must(t, "backup", url, a.repo, "--progress", "none")
		for i := range 3 {
			testdb.Query(t, url, fmt.Sprintf("INSERT INTO item VALUES (%d)", 10*b+i))
			testdb.Query(t, url, "SELECT pg_switch_wal()")
		}
	}
	for n := first; n < number(); n++ {
		testdb.Must(t, "archive", "push", a.repo, filepath.Join(srv.Dir, "pg_wal", segmentName(n)))
		a.all = append(a.all, n)
	}
	for _, b := range a.list(t).Backups {
		var high, low uint64
		if _, err := fmt.Sscanf(b.Ranges[0].End, "%X/%X", &high, &low); err != nil {
			t.Fatal(err)
		}
		a.bases = append(a.bases, base{b.ID, high<<32 | low})
	}
	return a
}

// A list is what backups --json prints.
type list struct {
	Backups []struct {
		ID     string `json:"id"`
		Ranges []struct {
			End string `json:"end"`
		} `json:"ranges"`
	} `json:"backups"`
	Windows []struct {
		Backups []string `json:"backups"`
		To      string   `json:"to_lsn"`
		Missing string   `json:"missing"`
	} `json:"windows"`
}

func (a *archive) list(t *testing.T) (l list) {
	t.Helper()
	if err := json.Unmarshal([]byte(testdb.Must(t, "backups", a.repo, "--json")), &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// reach returns how far recovery from a backup gets with the existing segments, by their numbers
// only; missing is the segment that it lacks although later ones exist.
func reach(b base, there []uint64) (end, missing uint64) {
	last := b.end / segmentSize // the backup contains that one
	n := last + 1
	for slices.Contains(there, n) {
		n++
	}
	if slices.ContainsFunc(there, func(m uint64) bool { return m > n }) {
		return n * segmentSize, n
	}
	if n == last+1 && !slices.Contains(there, last) {
		return b.end, 0
	}
	return n * segmentSize, 0
}

// agrees compares all verbs with what the segments' names imply.
func (a *archive) agrees(t *testing.T, what string, there []uint64) {
	t.Helper()
	ends, missing, toEnd := map[string]uint64{}, map[string]uint64{}, false
	hole := len(there) > 0 && there[len(there)-1]-there[0] != uint64(len(there)-1)
	for _, b := range a.bases {
		ends[b.id], missing[b.id] = reach(b, there)
		hole = hole || missing[b.id] > 0
		toEnd = toEnd || missing[b.id] == 0 && ends[b.id] > b.end
	}
	v := testdb.Run(t, "verify", a.repo)
	if want := map[bool]int{true: 18}[hole]; v.Code != want {
		t.Errorf("%s: verify ends with %d and not %d\n%s%s", what, v.Code, want, v.Out, v.ErrOut)
	}
	said := map[string]string{}
	for _, w := range a.list(t).Windows {
		for _, id := range w.Backups {
			said[id] = w.To + " " + w.Missing
		}
	}
	for _, b := range a.bases {
		want := lsn(ends[b.id]) + " "
		if missing[b.id] > 0 {
			name := segmentName(missing[b.id])
			want += name
			if !strings.Contains(v.Out, name) {
				t.Errorf("%s: verify does not name %s:\n%s", what, name, v.Out)
			}
		} else if ends[b.id] == b.end {
			want = ""
		}
		if said[b.id] != want {
			t.Errorf("%s: backups shows %q for %s, and not %q", what, said[b.id], b.id, want)
		}
	}
	a.restores(t, what+", to the end", toEnd, "end")
	for _, n := range a.all {
		at, ok := n*segmentSize+100, false
		for _, b := range a.bases {
			ok = ok || b.end <= at && at <= ends[b.id]
		}
		if testdb.Long() || n%4 == 0 {
			a.restores(t, fmt.Sprintf("%s, to %s", what, lsn(at)), ok, lsn(at))
		}
	}
}

// restores requests a recovery target, with a folder that is refused only after everything else is
// valid.
func (a *archive) restores(t *testing.T, what string, ok bool, to string) {
	t.Helper()
	o := testdb.Run(t, "restore", a.repo, a.used, "--to", to, "--progress", "none")
	if found := strings.Contains(o.ErrOut, "of log to replay in"); found != ok {
		t.Errorf("%s: restore finds it %t, and not %t\n%s", what, found, ok, o.ErrOut)
	}
	if !ok && (o.Code != 11 && o.Code != 6 && o.Code != 2 || !strings.Contains(o.ErrOut, "hint: ")) {
		t.Errorf("%s: exit %d\n%s", what, o.Code, o.ErrOut)
	}
	if later := strings.Contains(o.ErrOut, "later ones are there"); later && strings.Contains(o.ErrOut, "wait until") {
		t.Errorf("%s: it says to wait for what will not come\n%s", what, o.ErrOut)
	}
}

func TestHoleAtEveryPlace(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.agrees(t, "all are there", a.all)
	if len(a.all) < 8 || len(a.bases) != 2 {
		t.Fatalf("%d segments, %d backups", len(a.all), len(a.bases))
	}
	for i := range a.all {
		for kind, gone := range map[string][]uint64{"without one": a.all[i : i+1], "without those up to": a.all[:i+1], "without two": a.all[i:min(i+2, len(a.all))]} {
			if kind == "without two" && !testdb.Long() {
				continue
			}
			a.without(t, gone, func(there []uint64) {
				a.agrees(t, fmt.Sprintf("%s %s", kind, segmentName(a.all[i])), there)
			})
		}
	}
}

// without removes segments while do runs.
func (a *archive) without(t *testing.T, gone []uint64, do func(there []uint64)) {
	t.Helper()
	object := func(n uint64) string { return filepath.Join(a.repo, "wal", "00000001", segmentName(n)) }
	aside := func(n uint64) string { return filepath.Join(a.used, segmentName(n)) }
	for _, n := range gone {
		if err := os.Rename(object(n), aside(n)); err != nil {
			t.Fatal(err)
		}
	}
	do(slices.DeleteFunc(slices.Clone(a.all), func(n uint64) bool { return slices.Contains(gone, n) }))
	for _, n := range gone {
		if err := os.Rename(aside(n), object(n)); err != nil {
			t.Fatal(err)
		}
	}
}
