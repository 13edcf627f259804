package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/holdings"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/store"
)

// aRepository opens a repository in a folder, or creates it.
func aRepository(t *testing.T, dir string, keys repo.Keys) *repo.Repo {
	t.Helper()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := repo.Open(t.Context(), s, keys)
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		r, err = repo.Create(t.Context(), s, keys)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func segment(n int) string { return fmt.Sprintf("00000001/00000001%016X", n) }

// aBackup writes a backup of one file, and its log; with publish off it looks like that of a killed
// process, except for its lock.
func aBackup(t *testing.T, r *repo.Repo, label string, log int, publish bool) string {
	t.Helper()
	w, err := r.Begin(t.Context(), repo.BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat(label+" ", 1000))
	sealed, err := w.Sealer(repo.Codec{}).Seal(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	p := w.NewPack(t.Context())
	ref, err := p.Append(sealed)
	if err == nil {
		err = w.AddFile(repo.File{Path: "base/1/1259", Size: int64(len(text)), Mode: 0o600, CRC: sealed.CRC, Extents: []repo.Extent{{Length: uint32(len(text)), Ref: ref}}})
	}
	if err == nil {
		err = p.Close()
	}
	for n := log; n < log+2 && err == nil; n++ {
		err = r.PutLog(t.Context(), segment(n), bytes.NewReader([]byte(fmt.Sprint("log ", n))), repo.Codec{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if !publish {
		return w.ID
	}
	_, err = w.Publish(t.Context(), repo.Manifest{Engine: "postgres", Version: "15.18", VersionNum: 150018, SystemID: "7", Label: label, LogSize: 16 << 20,
		Ranges: []repo.LogRange{{Timeline: 1, Start: "0/1", End: "0/2", First: segment(log), Last: segment(log + 1), Count: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	return w.ID
}

// Patterns of what differs between runs: names of backups, times, sizes.
var (
	timesInTables = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
	spansInTables = regexp.MustCompile(`\b\d+(\.\d+)?(ms|µs|s)\b|\b\d+\.\d\d s\b|\b0s\b`)
)

func steady(text string, ids ...string) string {
	for i, id := range ids {
		text = strings.ReplaceAll(text, id, fmt.Sprintf("{%d}", i+1))
	}
	text = spansInTables.ReplaceAllString(timesInTables.ReplaceAllString(text, "{time}"), "{s}")
	text = regexp.MustCompile(`\b\d+\.\d kB`).ReplaceAllString(text, "{size}") // sizes of compressed texts that contain names
	return regexp.MustCompile(` +`).ReplaceAllString(text, " ")
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestBackupsVerifyPrune(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "repo")
	r := aRepository(t, dir, repo.Keys{})
	var ids []string
	for i := range 3 {
		ids = append(ids, aBackup(t, r, fmt.Sprintf("number %d", i), 1+2*i, true))
		time.Sleep(time.Millisecond)
	}
	o := cli(t, "backups", dir)
	wantText(t, steady(o.out, ids...), `BACKUP KIND STARTED TOOK FILES SIZE STORED TIMELINE LOG SERVER LABEL
{1} full {time} {s} 1 {size} {size} 1 0/1 to 0/2 postgres 15.18 number 0
{2} full {time} {s} 1 {size} {size} 1 0/1 to 0/2 postgres 15.18 number 1
{3} full {time} {s} 1 {size} {size} 1 0/1 to 0/2 postgres 15.18 number 2
3 backups of postgres, system identifier 7
the repository is not encrypted
`)
	var list holdings.List
	if err := json.Unmarshal([]byte(cli(t, "backups", dir, "--json").out), &list); err != nil || len(list.Backups) != 3 || list.Backups[2].ID != ids[2] || list.Encrypted {
		t.Errorf("%v: %+v", err, list)
	}
	o = cli(t, "verify", "file://"+filepath.ToSlash(dir))
	wantText(t, steady(o.out, ids...), "3 backups with 3 files in 6 packs, 6 files of the log: {size} read in {s} ({size} uncompressed); no faults\n")
	if o.code != 0 {
		t.Errorf("exit %d: %s", o.code, o.errOut)
	}
	if o = cli(t, "verify", dir, "latest", "--quick"); o.code != 0 || !strings.HasPrefix(o.out, "1 backup with 0 files in 0 packs") {
		t.Errorf("%+v", o)
	}

	// Flip a bit, and lose a log file.
	pack := filepath.Join(dir, "packs", ids[1], "00000001")
	b, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(pack, b, 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "wal", segment(5))
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	o = cli(t, "verify", dir)
	wantText(t, steady(strings.ReplaceAll(o.out, dir, "{dir}"), ids...), `damage: packs/{2}/00000001: piece 0 at 95: its checksum is wrong
 needed by {2}
damage: wal/`+segment(5)+`: of the 2 logs from here to `+segment(6)+`, 1 are there
 needed by {3}
damage: wal/`+segment(5)+`: it is missing, between `+segment(4)+` and `+segment(6)+`: earlier backups cannot be restored to a later point
3 backups with 3 files in 6 packs, 5 files of the log: {size} read in {s} ({size} uncompressed); 3 faults
`)
	wantText(t, steady(strings.ReplaceAll(o.errOut, dir, "{dir}"), ids...), "tidemark: verify file://{dir}: 3 faults found\nhint: Restore only backups that are not named above, and make a new backup.\n")
	if o.code != 18 {
		t.Errorf("exit %d", o.code)
	}
	var rep repo.VerifyReport
	if o := cli(t, "verify", dir, ids[1], "--json"); o.code != 18 {
		t.Errorf("%+v", o)
	} else if err := json.Unmarshal([]byte(o.out), &rep); err != nil || len(rep.Damages) != 1 || rep.Damages[0].Backups[0] != ids[1] {
		t.Errorf("%v: %s", err, o.out)
	}
	if o := cli(t, "verify", dir, ids[0]); o.code != 0 {
		t.Errorf("%+v", o)
	}
	if err := os.WriteFile(log, text, 0o600); err != nil {
		t.Fatal(err)
	}

	// A pinned backup stays until it is unpinned.
	if o := cli(t, "backups", dir, "--pin", ids[0][:len(ids[0])-1]); o.code != 0 || !strings.Contains(o.out, "full, pinned") {
		t.Errorf("%+v", o)
	}
	if o := cli(t, "prune", dir, "--keep", "last=1", "--dry-run"); o.code != 0 || !regexp.MustCompile(ids[0]+` +full .* pinned\n`).MatchString(o.out) || strings.Contains(o.out, segment(1)) {
		t.Errorf("%+v", o)
	}
	if o := cli(t, "backups", dir, "--unpin", ids[0]); o.code != 0 || strings.Contains(o.out, "pinned") {
		t.Errorf("%+v", o)
	}
	if o := cli(t, "backups", dir, "--unpin", ids[0]); o.code != 6 || !strings.Contains(o.errOut, "it is not pinned") {
		t.Errorf("%+v", o)
	}

	// First what would be removed, then the removal.
	left := aBackup(t, r, "unfinished", 7, false)
	before := tree(t, dir)
	want := `BACKUP KIND STARTED STORED STAYS
{3} full {time} {size} newest, last 1
{2} full {time} {size} no
{1} full {time} {size} no

backup {4} is being written: {who}
no log is removed while a backup is being written: the backup may need it
2 of 3 backups, {size} in all: would be removed
`
	who := regexp.MustCompile(`backup on \S+ \(process \d+, since [^)]*\)`)
	o = cli(t, "prune", dir, "--keep", "last=1", "--dry-run")
	wantText(t, steady(who.ReplaceAllString(o.out, "{who}"), ids[0], ids[1], ids[2], left), want)
	if after := tree(t, dir); after != before {
		t.Errorf("a dry run has changed\n%s\nto\n%s", before, after)
	}
	releaseLocks(t, dir)
	o = cli(t, "prune", dir, "--keep", "last=1")
	wantText(t, steady(o.out, ids[0], ids[1], ids[2], left), `BACKUP KIND STARTED STORED STAYS
{3} full {time} {size} newest, last 1
{2} full {time} {size} no
{1} full {time} {size} no

unfinished backup {4}, {size} in 1 pack: removed
4 files of the log, `+segment(1)+` to `+segment(4)+`: removed
2 of 3 backups, {size} in all: removed
`)
	if o = cli(t, "verify", dir); o.code != 0 || strings.Contains(o.out, "left over") || !strings.HasPrefix(o.out, "1 backup with") {
		t.Errorf("%+v", o)
	}
	var done screen.Pruned
	if err := json.Unmarshal([]byte(cli(t, "prune", dir, "--keep", "last=1", "--json").out), &done); err != nil || done.Bytes != 0 || len(done.Backups) != 1 || !done.Backups[0].Stays {
		t.Errorf("%v %+v", err, done)
	}
}

// releaseLocks removes the locks of dead processes, as time would.
func releaseLocks(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, "locks")); err != nil {
		t.Fatal(err)
	}
}

// tree returns the names and sizes of all files, except locks.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "locks") {
			return err
		}
		i, err := d.Info()
		fmt.Fprintln(&out, path, i.Size())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Only the key of an encrypted repository opens it.
func TestBackupsOfAnEncryptedRepository(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "repo")
	file := filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(file, []byte("s3cret-tide\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := aBackup(t, aRepository(t, dir, repo.Keys{Passphrase: "s3cret-tide"}), "sealed", 1, true)
	for _, args := range [][]string{{"backups", dir}, {"verify", dir}, {"prune", dir, "--keep", "last=1"}} {
		if o := cli(t, args...); o.code != 4 || !strings.Contains(o.errOut, "it is encrypted, and no key was given") {
			t.Errorf("%v: %+v", args, o)
		}
		o := cli(t, append(args, "--passphrase-file", file)...)
		if o.code != 0 || !strings.Contains(o.out, id) && args[0] != "verify" {
			t.Errorf("%v: %+v", args, o)
		}
		noSecrets(t, o)
	}
}

func manifests(t *testing.T, r *repo.Repo) []*repo.Manifest {
	t.Helper()
	all, err := r.Backups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Command lines on repositories that must fail.
func TestBadRepositories(t *testing.T) {
	for _, b := range []bad{
		{"backups-of-nothing", func(t *testing.T) ([]string, []string) {
			return []string{"backups", filepath.Join(t.TempDir(), "repo")}, nil
		}, 6},
		{"backups-of-an-unknown-place", func(t *testing.T) ([]string, []string) {
			return []string{"backups", "gopher://me:" + wrongPassword + "@elsewhere/x"}, nil
		}, 7},
		{"backups-with-a-secret-in-the-url", func(t *testing.T) ([]string, []string) {
			return []string{"backups", "s3://me:" + wrongPassword + "@bucket/x"}, nil
		}, 2},
		{"verify-no-such-backup", func(t *testing.T) ([]string, []string) {
			dir := filepath.Join(t.TempDir(), "repo")
			aRepository(t, dir, repo.Keys{})
			return []string{"verify", dir, "latest"}, nil
		}, 6},
		{"prune-without-keep", func(t *testing.T) ([]string, []string) {
			dir := filepath.Join(t.TempDir(), "repo")
			aRepository(t, dir, repo.Keys{})
			return []string{"prune", dir}, nil
		}, 2},
		{"prune-keeps-what", func(t *testing.T) ([]string, []string) {
			return []string{"prune", t.TempDir(), "--keep", "last=1,all=7"}, nil
		}, 2},
		{"prune-beside-a-damaged-manifest", func(t *testing.T) ([]string, []string) {
			dir := filepath.Join(t.TempDir(), "repo")
			aRepository(t, dir, repo.Keys{})
			if err := os.MkdirAll(filepath.Join(dir, "backups"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "backups", "20260101-000000-00000000"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			return []string{"prune", dir, "--keep", "last=1"}, nil
		}, 18},
		{"backups-without-a-place-of-a-stripe", func(t *testing.T) ([]string, []string) {
			dir := t.TempDir()
			var places []repo.Place
			for _, name := range []string{"a", "b"} {
				s, err := store.Open(t.Context(), filepath.Join(dir, name), store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				places = append(places, repo.Place{URL: filepath.Join(dir, name), Store: s})
			}
			r, err := repo.OpenPlaces(t.Context(), places, repo.PlacesOptions{Stripe: true})
			if err != nil {
				t.Fatal(err)
			}
			aBackup(t, r, "striped", 1, true)
			if err := os.RemoveAll(filepath.Join(dir, "b")); err != nil {
				t.Fatal(err)
			}
			return []string{"backups", filepath.Join(dir, "a")}, nil
		}, 6},
		{"key-for-a-bare-repository", func(t *testing.T) ([]string, []string) {
			dir, file := filepath.Join(t.TempDir(), "repo"), filepath.Join(t.TempDir(), "passphrase")
			aRepository(t, dir, repo.Keys{})
			if err := os.WriteFile(file, []byte("s3cret-tide\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"backups", dir, "--passphrase-file", file}, nil
		}, 2},
	} {
		t.Run(b.name, b.check)
	}
}
