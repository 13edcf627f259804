package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/holdings"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// someOf returns at which of the changes 1 to n to kill a process: a few random ones, with -short
// one, or all with TIDEMARK_STEPS=all.
func someOf(t *testing.T, n, few int) (out []int) {
	t.Helper()
	if eachStep {
		for i := range n {
			out = append(out, i+1)
		}
		t.Logf("each of %d changes", n)
		return out
	}
	if testing.Short() {
		few = 1
	}
	seed := testdb.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 13))
	for range few {
		out = append(out, 1+rnd.IntN(n))
	}
	t.Logf("changes %v of %d", out, n)
	return out
}

// copyOf copies a folder, and returns the copy.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", dir, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

// sound reads a whole repository, and returns how many backups it lists. Listed backups must be
// complete.
func sound(t *testing.T, when, dir string, keys repo.Keys) (backups int, v *repo.VerifyReport) {
	t.Helper()
	r := aRepository(t, dir, keys)
	v, err := r.Verify(t.Context(), repo.VerifyOptions{NextLog: holdings.NextLog(t.Context(), r, manifests(t, r))})
	if err != nil || len(v.Damages) > 0 {
		t.Fatalf("%s: %v %+v", when, err, v)
	}
	return v.Backups, v
}

// A prune killed at any change leaves listed backups complete; the next one, right afterwards,
// removes everything that the first one left.
func TestPruneKilledAtEachChange(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "repo")
	r := aRepository(t, dir, repo.Keys{})
	for i := range 3 {
		aBackup(t, r, fmt.Sprint("number ", i), 1+2*i, true)
	}
	aBackup(t, r, "unfinished", 7, false)
	releaseLocks(t, dir) // they belong to this process
	prune := func(dir string) []string { return []string{"prune", dir, "--keep", "last=1"} }
	whole := copyOf(t, dir)
	n, _, _ := killedAt(t, 0, prune(whole)...)
	for _, at := range someOf(t, n, 3) {
		when := fmt.Sprintf("killed at %d of %d", at, n)
		place := copyOf(t, dir)
		killedAt(t, at, prune(place)...)
		if backups, _ := sound(t, when, place, repo.Keys{}); backups < 1 || backups > 3 {
			t.Fatalf("%s: %d backups", when, backups)
		}
		must(t, prune(place)...)
		backups, v := sound(t, when, place, repo.Keys{})
		if backups != 1 || len(v.Left) > 0 || v.Logs != 4 { // two logs of the unfinished one, written later
			t.Fatalf("%s: the next has left %+v", when, v)
		}
		if locks, err := filepath.Glob(filepath.Join(place, "locks", "[0-9a-f]*")); err != nil || len(locks) > 0 {
			t.Fatalf("%s: locks %v, %v", when, locks, err)
		}
	}
}

// aCluster writes a backup of some files like a server's: large ones in several pieces, one in a
// tablespace, empty ones, and the one without which nothing starts.
func aCluster(t *testing.T, r *repo.Repo, space string) {
	t.Helper()
	w, err := r.Begin(t.Context(), repo.BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sealer, pack := w.Sealer(repo.Codec{}), w.NewPack(t.Context())
	sizes := map[string]int{"PG_VERSION": 3, "global/pg_control": 8192, "base/1/1259": 3 << 18, "base/1/1249": 0, "pg_tblspc/77/PG_15/1/5": 100_000}
	for i := range 8 {
		sizes[fmt.Sprint("base/1/", 2000+i)] = 8192 * (i + 1)
	}
	for _, folder := range []string{"base", "base/1", "global", "pg_tblspc", "pg_tblspc/77", "pg_tblspc/77/PG_15", "pg_tblspc/77/PG_15/1"} {
		if err := w.AddFile(repo.File{Path: repo.Path(folder), Type: repo.Folder, Mode: 0o700}); err != nil {
			t.Fatal(err)
		}
	}
	for path, size := range sizes {
		f := repo.File{Path: repo.Path(path), Size: int64(size), Mode: 0o600}
		for at := 0; at < size; at += 1 << 18 {
			n := min(size-at, 1<<18)
			sealed, err := sealer.Seal(nil, bytes.Repeat([]byte(path+fmt.Sprint(at)), n)[:n])
			if err != nil {
				t.Fatal(err)
			}
			ref, err := pack.Append(sealed)
			if err != nil {
				t.Fatal(err)
			}
			f.CRC = repo.CombineCRC(f.CRC, sealed.CRC, int64(n))
			f.Extents = append(f.Extents, repo.Extent{At: int64(at), Length: uint32(n), Ref: ref})
		}
		if err := w.AddFile(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := pack.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Publish(t.Context(), repo.Manifest{Engine: "postgres", Version: "15.18", VersionNum: 150000, SystemID: "7", Tablespaces: []repo.Tablespace{{OID: 77, Path: space}}}); err != nil {
		t.Fatal(err)
	}
}

// contents returns the files below each folder with their contents, including those behind symbolic
// links.
func contents(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for i, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			out[fmt.Sprint(i)+strings.TrimPrefix(path, dir)] = string(b)
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return out
}

// A restore killed at any change leaves no data folder, unless it is complete; it is not resumed by
// accident, and once its remains are removed the next restore succeeds.
func TestRestoreKilledAtEachChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place, data, space := filepath.Join(dir, "repo"), filepath.Join(dir, "data"), filepath.Join(dir, "space")
	aCluster(t, aRepository(t, place, repo.Keys{}), space)
	args := []string{"restore", place, data, "--progress", "none", "--parallelism", "2"}
	n, _, _ := killedAt(t, 0, args...)
	whole := contents(t, data, space)
	if len(whole) != 13 {
		t.Fatalf("%d files", len(whole))
	}
	empty := func() {
		for _, d := range []string{data, space} {
			if err := os.RemoveAll(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, at := range someOf(t, n, 3) {
		empty()
		killedAt(t, at, args...)
		got := contents(t, data, space)
		if _, starts := got["0/global/pg_control"]; starts && !maps.Equal(got, whole) {
			t.Fatalf("killed at %d of %d: a server would start from %d files", at, n, len(got))
		}
		if len(got) > 0 {
			if o := cli(t, args...); o.code != 8 {
				t.Fatalf("killed at %d of %d: restored over %d files: exit %d\n%s", at, n, len(got), o.code, o.errOut)
			}
		}
		empty()
		must(t, args...)
		if !maps.Equal(contents(t, data, space), whole) {
			t.Fatalf("killed at %d of %d: the next restore has other files", at, n)
		}
	}
}

// A restore over existing data that is killed at any change leaves no folder from which a server
// starts, unless that is unchanged or complete; and the same command completes it.
func TestRestoreOverKilledAtEachChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place, data, space := filepath.Join(dir, "repo"), filepath.Join(dir, "data"), filepath.Join(dir, "space")
	aCluster(t, aRepository(t, place, repo.Keys{}), space)
	must(t, "restore", place, data, "--progress", "none")
	whole := contents(t, data, space)
	args := []string{"restore", place, data, "--delta", "--force", "--progress", "none", "--parallelism", "2"}
	spoil := func() map[string]string {
		for name, text := range map[string]string{"base/1/2003": "short", "base/1/2004": strings.Repeat("x", 9*8192), "base/1/9999": "more", "global/pg_control": "what was it", "base/2/1": "dropped since", "pg_tblspc/77/PG_15/1/6": "more"} {
			name = filepath.Join(data, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(filepath.Join(data, "base/1/2005")); err != nil {
			t.Fatal(err)
		}
		return contents(t, data, space)
	}
	spoil()
	n, _, _ := killedAt(t, 0, args...)
	if !maps.Equal(contents(t, data, space), whole) {
		t.Fatal("it has other files")
	}
	for _, at := range someOf(t, n, 3) {
		was := spoil()
		killedAt(t, at, args...)
		got := contents(t, data, space)
		_, starts := got["0/global/pg_control"]
		delete(got, "0/global/pg_control.before-restore") // the last change removes it
		if starts && !maps.Equal(got, whole) && !maps.Equal(got, was) {
			t.Fatalf("killed at %d of %d: a server would start from %d files", at, n, len(got))
		}
		must(t, args...)
		if !maps.Equal(contents(t, data, space), whole) {
			t.Fatalf("killed at %d of %d: the next restore has other files", at, n)
		}
	}
}

// A backup killed at any change, in the repository or in what it sends to the server, is either not
// listed or complete; it leaves nothing on the server, and the next prune removes its remains from
// the repository. The next one is complete, and encrypted data cannot be read without the
// passphrase.
func TestBackupKilledAtEachChange(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 14)
	url := s.NewDatabase(t, "kept")
	testdb.Query(t, url, "CREATE TABLE item AS SELECT g AS id, md5(g::text) AS text FROM generate_series(1, 100000) g")
	dir := s.TempDir(t)
	place, secret := filepath.Join(dir, "repo"), filepath.Join(dir, "passphrase")
	if err := os.WriteFile(secret, []byte("correct horse\nthe rest does not count\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := repo.Keys{Passphrase: "correct horse"}
	args := []string{"backup", url, place, "--passphrase-file", secret, "--progress", "none"}
	n, _, _ := killedAt(t, 0, args...)
	for _, at := range someOf(t, n, 2) {
		when := fmt.Sprintf("killed at %d of %d", at, n)
		if err := os.RemoveAll(place); err != nil {
			t.Fatal(err)
		}
		killedAt(t, at, args...)
		if _, err := os.Stat(filepath.Join(place, "tidemark-repo.json")); err != nil {
			continue // killed before anything existed
		}
		backups, _ := sound(t, when, place, keys)
		must(t, "prune", place, "--keep", "last=1", "--passphrase-file", secret)
		if still, v := sound(t, when+" and pruned", place, keys); still != backups || len(v.Left) > 0 {
			t.Fatalf("%s: of %d backups prune has left %+v", when, backups, v)
		}
		soon(t, when+": the end of its slot", func() bool { return testdb.Query(t, url, "SELECT count(*) FROM pg_replication_slots") == "0" })
	}
	o := must(t, "backup", url, place, "--passphrase-file", secret, "--label", "the one")
	if strings.Contains(o.out, "BM# ") || !strings.Contains(o.out, "tidemark report ") {
		t.Errorf("a short report is\n%s", o.out)
	}
	o = must(t, "backup", url, place, "--passphrase-file", secret, "--label", "the one", "-v")
	if !strings.Contains(o.out, "BM# ") || !strings.Contains(o.out, "MC# ") || !strings.Contains(o.errOut, "copy") {
		t.Errorf("got\n%s%s", o.out, o.errOut)
	}
	if again := must(t, "report", "last"); !strings.Contains(again.out, "BM# ") {
		t.Errorf("the report of the run is\n%s", again.out)
	}
	if o := cli(t, "restore", place, filepath.Join(dir, "other")); o.code != 4 {
		t.Errorf("without a key: exit %d\n%s", o.code, o.errOut)
	}
	if o := cli(t, "restore", place, dir, "--passphrase-file", secret); o.code != 8 || !strings.Contains(o.errOut, "is not empty") {
		t.Errorf("into a folder that is not empty: exit %d\n%s", o.code, o.errOut)
	}
	data := filepath.Join(dir, "data")
	if o := must(t, "restore", place, "latest", data, "--passphrase-file", secret, "-v"); !strings.Contains(o.out, "prepare ") {
		t.Errorf("got\n%s", o.out)
	}
	copied := s.Beside(t, data)
	at := strings.Replace(url, fmt.Sprint(":", s.Port, "/"), fmt.Sprint(":", copied.Port, "/"), 1)
	if got := testdb.Query(t, at, "SELECT count(*), bool_and(text = md5(id::text)) FROM item"); got != "100000\tt" {
		t.Errorf("restored: %s", got)
	}
	if got := testdb.Query(t, at, "SELECT pg_is_in_recovery()"); got != "f" {
		t.Errorf("in recovery: %s", got)
	}
}
