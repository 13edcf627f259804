package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres"
)

// archiver is a tidemark archive that runs.
type archiver struct {
	cmd  *exec.Cmd
	said *bytes.Buffer
}

func startArchiver(t *testing.T, args ...string) *archiver {
	t.Helper()
	a := &archiver{cmd: process(t, append([]string{"archive"}, args...)...), said: new(bytes.Buffer)}
	a.cmd.Stderr = a.said
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill() // it mostly has ended
		_ = a.cmd.Wait()
		if t.Failed() {
			t.Log(a.said.String())
		}
	})
	return a
}

// stop ends it as Ctrl-C does.
func (a *archiver) stop(t *testing.T) {
	t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("stopped: %v\n%s", err, a.said)
	}
}

// soon waits until a condition holds.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// archived are the whole segments in an archive, in their order.
func archived(t *testing.T, place string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(place, "wal", "*", "????????????????????????"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	slices.Sort(files)
	return files
}

// TestArchiveSurvivesKills kills one of two archivers of a server again and again while it
// writes: at the end the archive has every segment, and each is the server's.
func TestArchiveSurvivesKills(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "autovacuum=off", "-c", "wal_keep_size=1GB", "-c", "max_wal_size=1GB")
	url, place := srv.URL("postgres"), t.TempDir()
	testdb.Query(t, url, "CREATE TABLE item (id int, t text)")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := listener.Addr().String()
	listener.Close()
	args := []string{url, place, "--partial", "50ms", "--compress", "lz4"}
	steady := startArchiver(t, append(args, "--slot", "steady", "--slot-use", "make", "--metrics", metrics)...)
	soon(t, "the repository", func() bool { _, err := os.Stat(filepath.Join(place, "tidemark-repo.json")); return err == nil })
	for range 6 {
		a := startArchiver(t, append(args, "--slot", "killed", "--slot-use", "make")...)
		testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 12000) g")
		time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond)
		if err := a.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = a.cmd.Wait() // it was killed
	}
	steady.stop(t) // from here on only the one that was killed goes on
	last := startArchiver(t, append(args, "--slot", "killed", "--slot-use", "make", "--metrics", metrics)...)
	testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 12000) g")
	end, err := postgres.ParsePlace(testdb.Query(t, url, "SELECT pg_current_wal_flush_lsn()"))
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "all of it", func() bool {
		resp, err := http.Get("http://" + metrics + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return false
		}
		for _, name := range []string{"tidemark_archive_lag_seconds 0", "tidemark_archive_behind_bytes 0", "tidemark_archive_connected 1", "tidemark_archive_timeline 1", "tidemark_backups 0"} {
			if !strings.Contains(string(text), "\n"+name+"\n") {
				return false
			}
		}
		return !strings.Contains(string(text), "tidemark_archive_segments_total 0\n")
	})
	last.stop(t)
	names := archived(t, place)
	first, err := postgres.ParsePlace("0/" + names[0][16:] + "00000")
	if err != nil {
		t.Fatal(err)
	}
	if want := int(end/(1<<20) - first/(1<<20)); len(names) != want {
		t.Errorf("%d segments, and from the first to the end there are %d: %v", len(names), want, names)
	}
	open, err := filepath.Glob(filepath.Join(place, "wal", "*", "*.open"))
	if err != nil || len(open) != 1 {
		t.Errorf("%v is not full: %v", open, err)
	}
	to := filepath.Join(t.TempDir(), "RECOVERYXLOG")
	for i, name := range append(names, strings.TrimSuffix(filepath.Base(open[0]), ".open")) {
		must(t, "archive", "get", place, name, to, "--ahead", fmt.Sprint(i%4))
		got, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(srv.Dir, "pg_wal", name))
		if err != nil {
			t.Fatal(err)
		}
		if i == len(names) {
			got, want = got[:end%(1<<20)], want[:end%(1<<20)] // behind that the server has gone on
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the server has", name)
		}
	}
	if o := cli(t, "archive", "get", place, "0000000100000000000000FF", to); o.code != 1 {
		t.Errorf("behind the end: exit %d, %s", o.code, o.errOut)
	}
	gone := names[len(names)/2]
	if err := os.Remove(filepath.Join(place, "wal", gone[:8], gone)); err != nil {
		t.Fatal(err)
	}
	if o := cli(t, "archive", "get", place, gone, to); o.code != exitStopsRecovery || !strings.Contains(o.errOut, gone+": the segment is missing") {
		t.Errorf("a gap: exit %d, %s", o.code, o.errOut)
	}
	if o := cli(t, "archive", "get", place+"-none", gone, to); o.code != exitStopsRecovery {
		t.Errorf("no repository: exit %d, %s", o.code, o.errOut)
	}
	must(t, "archive", url, place, "--slot", "killed", "--drop-slot")
	if n := testdb.Query(t, url, "SELECT string_agg(slot_name, ',') FROM pg_replication_slots"); n != "steady" {
		t.Errorf("the slots are %s", n)
	}
}

// TestArchiveRefusals looks at what is said of an archive that does not fit its server.
func TestArchiveRefusals(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "autovacuum=off", "-c", "max_wal_size=4MB", "-c", "min_wal_size=2MB")
	url, place := srv.URL("postgres"), t.TempDir()
	a := startArchiver(t, url, place, "--json", "--partial", "20ms")
	testdb.Query(t, url, "CREATE TABLE item (id int, t text)")
	soon(t, "a segment", func() bool {
		testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 3000) g")
		return len(archived(t, place)) > 1
	})
	a.stop(t)
	var events []string
	for line := range strings.Lines(a.said.String()) {
		var e archiveEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events = append(events, e.Event)
	}
	if n := len(events); n < 2 || !strings.HasPrefix(events[0], "receives timeline 1 from") || events[n-1] != "stopped" {
		t.Errorf("%q", events)
	}
	names := archived(t, place)
	for range 6 { // the server removes what comes next
		testdb.Load(t, url, strings.NewReader("INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 12000) g; CHECKPOINT;"))
	}
	if o := cli(t, "archive", url, place); o.code != 11 || !strings.Contains(o.errOut, "there is a gap from") {
		t.Errorf("a gap: exit %d, %s", o.code, o.errOut)
	}
	if got := archived(t, place); !slices.Equal(got, names) {
		t.Errorf("behind a gap %v was archived", got[len(names):])
	}
	over := startArchiver(t, url, place, "--skip-gap")
	soon(t, "what comes behind the gap", func() bool {
		testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 3000) g")
		return len(archived(t, place)) > len(names)
	})
	over.stop(t)
	other := testdb.Postgres(t, 16).URL("postgres")
	if o := cli(t, "archive", other, place); o.code != 2 || !strings.Contains(o.errOut, "it is another server, and no copy of that one") {
		t.Errorf("another server: exit %d, %s", o.code, o.errOut)
	}
	if o := cli(t, "archive", url, place, "--slot", "none"); o.code != 6 || !strings.Contains(o.errOut, "there is no such slot") {
		t.Errorf("no slot: exit %d, %s", o.code, o.errOut)
	}
	if o := cli(t, "archive", url, place, "--drop-slot"); o.code != 2 {
		t.Errorf("a slot without a name: exit %d, %s", o.code, o.errOut)
	}
	if o := cli(t, "archive", "push", place, filepath.Join(t.TempDir(), "postgresql.log")); o.code != 2 || !strings.Contains(o.errOut, "no name of a file of a server's log") {
		t.Errorf("a file that is none: exit %d, %s", o.code, o.errOut)
	}
}

// program puts tidemark where the server's user may run it, and a folder of that user for a
// repository.
func program(t *testing.T, srv *testdb.Server) (command, place string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(srv.Dir)
	command, place = filepath.Join(dir, "tidemark"), filepath.Join(dir, "repository")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"cp", exe, command}, {"chmod", "755", command}, {"chown", "--reference", srv.Dir, place}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", c, err, out)
		}
	}
	return "env " + asMain + "=1 " + command, place
}

// TestArchivePush has a server archive its log by itself.
func TestArchivePush(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "autovacuum=off", "-c", "archive_mode=on", "-c", "wal_keep_size=1GB")
	url := srv.URL("postgres")
	command, place := program(t, srv)
	set := func(opts string) {
		testdb.Query(t, url, "ALTER SYSTEM SET archive_command = '"+command+" archive push "+place+" %p "+opts+"'")
		testdb.Query(t, url, "SELECT pg_reload_conf()")
	}
	set("--ahead 3")
	failed := func() bool {
		return testdb.Query(t, url, "SELECT (failed_count > 0)::int FROM pg_stat_archiver") == "1"
	}
	soon(t, "a refusal", func() bool {
		testdb.Query(t, url, "SELECT pg_switch_wal()")
		testdb.Query(t, url, "SELECT txid_current()")
		return failed()
	})
	// The repository is made by whoever archives or backs up first.
	a := startArchiver(t, url, place)
	soon(t, "the repository", func() bool { _, err := os.Stat(filepath.Join(place, "tidemark-repo.json")); return err == nil })
	a.stop(t)
	if out, err := exec.Command("chown", "-R", "--reference", srv.Dir, place).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	testdb.Query(t, url, "CREATE TABLE item (id int, t text)")
	testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 40000) g")
	last := testdb.Query(t, url, "SELECT pg_walfile_name(pg_switch_wal())")
	soon(t, "the last segment", func() bool {
		return testdb.Query(t, url, "SELECT (last_archived_wal >= '"+last+"')::int FROM pg_stat_archiver") == "1"
	})
	names := archived(t, place)
	if len(names) < 10 || names[len(names)-1] < last {
		t.Errorf("%v, and the last is %s", names, last)
	}
	for i, name := range names[1:] {
		if before, this := segmentNumber(t, names[i]), segmentNumber(t, name); this != before+1 {
			t.Errorf("behind %s comes %s", names[i], name)
		}
	}
	if left, err := os.ReadDir(filepath.Join(srv.Dir, "pg_wal", "tidemark.pushed")); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
		t.Errorf("%d notes are left: %v", len(left), err)
	}
	// With a limit the server is told that all is well, and its log says what is missing.
	if out, err := exec.Command("mv", place, place+"-away").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	set("--queue-max 3MB")
	testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 40000) g")
	last = testdb.Query(t, url, "SELECT pg_walfile_name(pg_switch_wal())")
	soon(t, "what is given up", func() bool {
		testdb.Query(t, url, "SELECT pg_switch_wal()") // the last few may wait for ever
		testdb.Query(t, url, "SELECT txid_current()")
		return testdb.Query(t, url, "SELECT (last_archived_wal >= '"+last+"')::int FROM pg_stat_archiver") == "1"
	})
	log, err := os.ReadFile(filepath.Join(filepath.Dir(srv.Dir), "log"))
	if err != nil || !strings.Contains(string(log), "archive "+last+": given up, since ") {
		t.Errorf("the server's log does not say that %s was given up: %v", last, err)
	}
}

var digits = regexp.MustCompile(`^[0-9A-F]{24}$`)

// segmentNumber is that of a segment of 1 MB.
func segmentNumber(t *testing.T, name string) uint64 {
	t.Helper()
	if !digits.MatchString(name) {
		t.Fatalf("%s is no segment", name)
	}
	var timeline uint32
	var high, low uint64
	if _, err := fmt.Sscanf(name, "%08X%08X%08X", &timeline, &high, &low); err != nil {
		t.Fatal(err)
	}
	return high<<12 + low
}
