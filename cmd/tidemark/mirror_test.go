package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// farPlace returns the URL of a place on another machine, the folder there, and a connection to it
// that can be cut.
func farPlace(t *testing.T, name string) (url, folder string, way *proxy) {
	t.Helper()
	ssh := testdb.SSH(t)
	way = newProxy(t, ssh.Server)
	known := filepath.Join(t.TempDir(), "known_hosts")
	host, port, _ := strings.Cut(way.addr, ":")
	if err := os.WriteFile(known, fmt.Appendf(nil, "[%s]:%s %s\n", host, port, ssh.HostKey), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sftp://%s@%s%s/%s?key=%s&known_hosts=%s", ssh.User, way.addr, ssh.Dir, name, ssh.Key, known), filepath.Join(ssh.Dir, name), way
}

// A backup into three places continues when one of them is killed and the disk of another is full:
// it is complete in the remaining one, and not listed in the others; prune cleans those, and the
// next backup uses them again.
func TestBackupIntoSeveralPlaces(t *testing.T) {
	t.Parallel()
	url := little(t).URL("postgres")
	testdb.Query(t, url, "CREATE TABLE item AS SELECT g AS id, md5(g::text) AS text FROM generate_series(1, 50000) g")
	far, _, way := farPlace(t, "mirrored")
	dir := t.TempDir()
	near := filepath.Join(dir, "near")
	small := smallDisk(t, "", "root", 6<<20)
	places := []string{far, small, near}

	// The first backup creates all of them.
	o := must(t, "backup", url, far, near, "--progress", "none")
	if !strings.Contains(o.out, "\nTARGET ") || strings.Contains(o.out, "LOST") {
		t.Errorf("got\n%s", o.out)
	}
	must(t, "verify", near)
	must(t, "verify", far)

	backup := process(t, append([]string{"backup", url}, append(places, "--compress", "none", "--progress", "none")...)...)
	var out, errOut bytes.Buffer
	backup.Stdout, backup.Stderr = &out, &errOut
	way.stopAfter(1 << 20)
	_ = backup.Run() // its exit code is checked
	text := out.String() + errOut.String()
	if code := backup.ProcessState.ExitCode(); code != 16 {
		t.Fatalf("exit %d: %s", code, text)
	}
	for _, want := range []string{"target sftp://", "target file://" + small, "no space left on device", "LOST", "the backup is only in some of the targets"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
	if strings.Contains(text, "target file://"+near) {
		t.Errorf("the place that is left is said to be lost:\n%s", text)
	}
	must(t, "verify", near)
	must(t, "restore", near, "latest", filepath.Join(dir, "restored"), "--progress", "none")

	way.start()
	if n := strings.Count(must(t, "backups", far).out, "\n2"); n != 1 {
		t.Errorf("%d backups are where it was killed", n)
	}
	for _, place := range []string{far, small} {
		must(t, "prune", place, "--keep", "last=5")
		o := must(t, "verify", place)
		if strings.Contains(o.out, "left over") {
			t.Errorf("%s after prune:\n%s", place, o.out)
		}
	}
	remount(t, small, 256<<20)
	o = must(t, append([]string{"backup", url}, append(places, "--progress", "none")...)...)
	for _, place := range places {
		if o := must(t, "verify", place, "latest"); !strings.Contains(o.out, "no faults") {
			t.Errorf("%s:\n%s", place, o.out)
		}
	}
	if o := must(t, "backups", small); strings.Count(o.out, "\n2") != 1 {
		t.Errorf("the disk that was full has\n%s", o.out)
	}
	_ = o
}

// Each of two places has the same chains and logical backups, and suffices alone: to verify, to
// restore from, to prune. If one of them missed a backup, no later backup there builds on it, and
// nothing of it is there.
func TestChainsInSeveralPlaces(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 15, "-c", "autovacuum=off")
	url := s.URL("postgres")
	testdb.Query(t, url, "CREATE TABLE item AS SELECT g AS id, 0 AS n FROM generate_series(1, 20000) g")
	near := filepath.Join(t.TempDir(), "near")
	place, far, way := farPlace(t, "chains")
	var made []*repo.Manifest
	backup := func(code int, args ...string) *repo.Manifest {
		t.Helper()
		testdb.Query(t, url, "UPDATE item SET n = n + 1 WHERE id % 1000 = 0")
		if o := cli(t, append([]string{"backup", url, near, place, "--progress", "none"}, args...)...); o.code != code {
			t.Fatalf("%v: exit %d\n%s%s", args, o.code, o.out, o.errOut)
		}
		all := manifests(t, aRepository(t, near, repo.Keys{}))
		made = append(made, all[len(all)-1])
		return all[len(all)-1]
	}
	ids := func(place string) (out []string) {
		for _, m := range manifests(t, aRepository(t, place, repo.Keys{})) {
			out = append(out, m.ID)
		}
		return out
	}
	full := backup(0)
	delta := backup(0, "--delta")
	backup(0, "--logical")
	way.stop()
	missed := backup(16, "--delta")
	missedRows := backup(16, "--logical")
	way.start()
	last := backup(0, "--delta")
	rows := backup(0, "--logical")
	if delta.Parent != full.ID || missed.Parent != delta.ID || last.Parent != delta.ID {
		t.Errorf("%s is on %q, %s on %q, and %s on %q", delta.ID, delta.Parent, missed.ID, missed.Parent, last.ID, last.Parent)
	}
	if missedRows.Form != repo.Logical || rows.Form != repo.Logical {
		t.Errorf("%+v, %+v", missedRows, rows)
	}
	want := testdb.Query(t, url, "SELECT count(*), sum(n) FROM item")
	for i, place := range []string{near, far} {
		if n, _ := sound(t, place, place, repo.Keys{}); n != len(made)-2*i {
			t.Errorf("%s has %d backups", place, n)
		}
		must(t, "prune", place, "--keep", "last=1")
		if got := ids(place); !slices.Equal(got, []string{full.ID, delta.ID, last.ID, rows.ID}) {
			t.Errorf("%s has %v of %v left", place, got, made)
		}
		if o := must(t, "verify", place); strings.Contains(o.out, "left over") {
			t.Errorf("%s after prune:\n%s", place, o.out)
		}
		dir, other := filepath.Join(s.TempDir(t), "data"), s.NewDatabase(t, "rows")
		must(t, "restore", place, last.ID, dir, "--progress", "none")
		must(t, "restore", place, rows.ID, other, "--progress", "none")
		copied := s.Beside(t, dir).URL("postgres")
		for _, at := range []string{other, copied} {
			got := testdb.Query(t, at, "SELECT count(*), sum(n) FROM item")
			if at == copied { // the logical one was made later
				got = testdb.Query(t, at, "SELECT count(*), sum(n) + 20 FROM item")
			}
			if got != want {
				t.Errorf("from %s came %q, and there was %q", place, got, want)
			}
		}
	}
}
