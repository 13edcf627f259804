package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/archiving"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// archiver is a running tidemark archive.
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
		_ = a.cmd.Process.Kill() // it has usually ended
		_ = a.cmd.Wait()
		if t.Failed() {
			t.Log(a.said.String())
		}
	})
	return a
}

// stop interrupts it as Ctrl-C does.
func (a *archiver) stop(t *testing.T) {
	t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = a.cmd.Wait() // its state tells more
	if code := a.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("stopped: exit %d\n%s", code, a.said)
	}
}

// archived returns the complete segments in an archive, in order.
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

// TestArchiveSurvivesKills repeatedly kills one of two archivers of a server, at changes to the
// archive or at messages to the server: in the end the archive has every segment, and each equals
// the server's.
func TestArchiveSurvivesKills(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "autovacuum=off", "-c", "wal_keep_size=1GB", "-c", "max_wal_size=1GB")
	url, place := srv.URL("postgres"), t.TempDir()
	testdb.Query(t, url, "CREATE TABLE item (id int, t text)")
	metrics := testdb.FreeAddress(t)
	args := []string{url, place, "--partial", "50ms", "--compress", "lz4"}
	steady := startArchiver(t, append(args, "--slot", "steady", "--slot-use", "make", "--metrics", metrics)...)
	soon(t, "the repository", func() bool { _, err := os.Stat(filepath.Join(place, "tidemark-repo.json")); return err == nil })
	stop, stopped := make(chan struct{}), make(chan struct{})
	quiet := sync.OnceFunc(func() { close(stop); <-stopped })
	defer quiet()
	go func() { // whatever the number, that many changes will come
		defer close(stopped)
		for over := false; !over; {
			if _, err := testdb.TryQuery(url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 300) g"); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				over = true
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	for _, at := range someOf(t, 150, 4) {
		killedAt(t, at, append([]string{"archive"}, append(args, "--slot", "killed", "--slot-use", "make")...)...)
		sound(t, fmt.Sprint("killed at ", at), place, repo.Keys{})
	}
	quiet()
	steady.stop(t) // from here on only the killed one runs
	last := startArchiver(t, append(args, "--slot", "killed", "--slot-use", "make", "--metrics", metrics)...)
	testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 12000) g")
	at := testdb.Query(t, url, "SELECT pg_current_wal_flush_lsn()")
	end, err := wal.ParseLSN(at)
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "all of it", func() bool {
		if testdb.Query(t, url, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'killed' AND restart_lsn >= '"+at+"'") != "1" {
			return false
		}
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
	first, err := wal.ParseLSN("0/" + names[0][16:] + "00000")
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
			got, want = got[:end%(1<<20)], want[:end%(1<<20)] // the server kept writing after that
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the server has", name)
		}
	}
	if o := cli(t, "archive", "get", place, "00000001000000FF000000FF", to); o.code != 1 {
		t.Errorf("behind the end: exit %d, %s", o.code, o.errOut)
	}
	pushKilled(t, filepath.Join(srv.Dir, "pg_wal", names[0]))
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

// pushKilled kills archive push, and archive get, at changes: the next push of the file, and the
// next get, behave as if the killed one had never run, and what get has written is complete.
func pushKilled(t *testing.T, file string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	aRepository(t, empty, repo.Keys{})
	place, to := copyOf(t, empty), filepath.Join(dir, "RECOVERYXLOG")
	check := func(when string) {
		t.Helper()
		if got, err := os.ReadFile(to); err == nil && !bytes.Equal(got, want) || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: %d bytes are in place, %v", when, len(got), err)
		}
	}
	push := func() []string { return []string{"archive", "push", place, file} }
	get := []string{"archive", "get", place, filepath.Base(file), to}
	n, _, _ := killedAt(t, 0, push()...)
	m, _, _ := killedAt(t, 0, get...)
	for _, at := range someOf(t, m, 1) {
		_ = os.Remove(to) // it may not exist
		killedAt(t, at, get...)
		check(fmt.Sprint("get killed at ", at))
	}
	for _, at := range someOf(t, n, 2) {
		place = copyOf(t, empty)
		killedAt(t, at, push()...)
		sound(t, fmt.Sprint("push killed at ", at), place, repo.Keys{})
		must(t, push()...)
		must(t, "archive", "get", place, filepath.Base(file), to)
		check(fmt.Sprint("push killed at ", at))
	}
}

// TestArchiveRefusals checks the messages for an archive that does not match its server.
func TestArchiveRefusals(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "autovacuum=off", "-c", "max_wal_size=4MB", "-c", "min_wal_size=2MB")
	url, place := srv.URL("postgres"), t.TempDir()
	keep := func(size string) { // however slow an archiver without a slot is
		testdb.Query(t, url, "ALTER SYSTEM SET wal_keep_size = '"+size+"'")
		testdb.Query(t, url, "SELECT pg_reload_conf()")
		soon(t, "the setting", func() bool { return testdb.Query(t, url, "SHOW wal_keep_size") == size })
	}
	keep("4GB")
	testdb.Query(t, url, "CREATE TABLE item (id int, t text)")
	grows := func(what string, over int) {
		t.Helper()
		n := 0
		soon(t, what, func() bool {
			if n++; n%4 == 1 { // all of it is kept
				testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 3000) g")
			}
			return len(archived(t, place)) > over
		})
	}
	a := startArchiver(t, url, place, "--json", "--partial", "20ms")
	grows("a segment", 1)
	a.stop(t)
	var events []string
	for line := range strings.Lines(a.said.String()) {
		var e archiving.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events = append(events, e.Event)
	}
	if n := len(events); n < 2 || !strings.HasPrefix(events[0], "receiving timeline 1 from") || events[n-1] != "stopped" {
		t.Errorf("%q", events)
	}
	names := archived(t, place)
	keep("0")
	for range 6 { // the server removes the next segments
		testdb.Load(t, url, strings.NewReader("INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 12000) g; CHECKPOINT;"))
	}
	if o := cli(t, "archive", url, place); o.code != 11 || !strings.Contains(o.errOut, "there is a gap from") {
		t.Errorf("a gap: exit %d, %s", o.code, o.errOut)
	}
	if got := archived(t, place); !slices.Equal(got, names) {
		t.Errorf("behind a gap %v was archived", got[len(names):])
	}
	keep("4GB")
	over := startArchiver(t, url, place, "--skip-gap")
	grows("what comes behind the gap", len(names))
	over.stop(t)
	other := testdb.Postgres(t, 16).URL("postgres")
	if o := cli(t, "archive", other, place); o.code != 2 || !strings.Contains(o.errOut, "it is another server, not a copy of that one") {
		t.Errorf("another server: exit %d, %s", o.code, o.errOut)
	}
	if o := cli(t, "archive", url, place, "--slot", "none"); o.code != 6 || !strings.Contains(o.errOut, "there is no such slot") {
		t.Errorf("no slot: exit %d, %s", o.code, o.errOut)
	}
	if o := cli(t, "archive", url, place, "--drop-slot"); o.code != 2 {
		t.Errorf("a slot without a name: exit %d, %s", o.code, o.errOut)
	}
	if o := cli(t, "archive", "push", place, filepath.Join(t.TempDir(), "postgresql.log")); o.code != 2 || !strings.Contains(o.errOut, "not the name of a log file") {
		t.Errorf("an invalid file: exit %d, %s", o.code, o.errOut)
	}
}

// program installs tidemark where the server's user may run it, and returns a folder of that user
// for a repository.
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

// TestArchivePush has a server archive its log through archive_command.
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
	// The first archive or backup creates the repository.
	a := startArchiver(t, url, place)
	soon(t, "the repository, and the archiver", func() bool {
		_, err := os.Stat(filepath.Join(place, "tidemark-repo.json"))
		return err == nil && testdb.Query(t, url, "SELECT count(*) FROM pg_stat_replication") == "1"
	})
	a.stop(t)
	own := func() {
		t.Helper()
		soon(t, "chown", func() bool { // the server pushes meanwhile, so files may vanish
			return exec.Command("chown", "-R", "--reference", srv.Dir, place).Run() == nil
		})
	}
	own()
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
	must(t, "backup", url, place, "--progress", "none")
	soon(t, "the end of what the backup has to be pushed", func() bool { // a later push would create a folder where none should be
		own()
		ready, err := filepath.Glob(filepath.Join(srv.Dir, "pg_wal", "archive_status", "*.ready"))
		return err == nil && len(ready) == 0
	})
	// With a limit, push reports success to the server, and the server's log names the missing
	// files.
	if out, err := exec.Command("mv", place, place+"-away").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	set("--queue-max 3MB")
	testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 40000) g")
	last = testdb.Query(t, url, "SELECT pg_walfile_name(pg_switch_wal())")
	soon(t, "what is given up", func() bool {
		testdb.Query(t, url, "SELECT pg_switch_wal()") // otherwise the last few may wait forever
		testdb.Query(t, url, "SELECT txid_current()")
		return testdb.Query(t, url, "SELECT (last_archived_wal >= '"+last+"')::int FROM pg_stat_archiver") == "1"
	})
	log, err := os.ReadFile(filepath.Join(filepath.Dir(srv.Dir), "log"))
	if err != nil || !strings.Contains(string(log), "archive "+last+": dropped, since ") {
		t.Errorf("the server's log does not say that %s was given up: %v", last, err)
	}
	if out := must(t, "backups", place+"-away").out; strings.Contains(out, "gap in the log") {
		t.Errorf("before anybody could tell, listed is\n%s", out)
	}
	noted := filepath.Join(srv.Dir, "pg_wal", "tidemark.given-up")
	if _, err := os.Stat(noted); err != nil {
		t.Error(err)
	}
	// Once the archive is writable again, it records the gap.
	if out, err := exec.Command("mv", place+"-away", place).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	soon(t, "the note of the hole", func() bool {
		testdb.Query(t, url, "SELECT txid_current(), pg_switch_wal()")
		_, err := os.Stat(noted)
		return errors.Is(err, os.ErrNotExist)
	})
	testdb.Query(t, url, "ALTER SYSTEM SET archive_command = 'false'") // stops further pushes
	testdb.Query(t, url, "SELECT pg_reload_conf()")
	own()
	first := ""
	for line := range strings.Lines(string(log)) {
		if _, rest, ok := strings.Cut(line, "tidemark: archive "); ok && first == "" {
			first, _, _ = strings.Cut(rest, ":")
		}
	}
	hole := " were given up from "
	if out := must(t, "backups", place).out; !strings.Contains(out, "gap in the log: "+first+" to ") || !strings.Contains(out, hole) {
		t.Errorf("from %s on files were given up, and listed is\n%s", first, out)
	}
	if o := cli(t, "verify", place, "--quick"); o.code != 18 || !strings.Contains(o.out, first+": it is missing, between ") || !strings.Contains(o.out, hole) {
		t.Errorf("verify: exit %d\n%s", o.code, o.out)
	}
	if o := cli(t, "restore", place, filepath.Join(t.TempDir(), "data"), "--to", "end"); o.code != 11 || !strings.Contains(o.errOut, first+": the log has a gap there") || !strings.Contains(o.errOut, hole) {
		t.Errorf("restore: exit %d\n%s", o.code, o.errOut)
	}
	if o := cli(t, "archive", "get", place, first, filepath.Join(t.TempDir(), "segment")); o.code != 200 || !strings.Contains(o.errOut, hole) {
		t.Errorf("get: exit %d\n%s", o.code, o.errOut)
	}
	ages := &archiving.BackupAges{Repo: aRepository(t, place, repo.Keys{})}
	shown := make(chan prometheus.Metric, 10)
	ages.Collect(shown)
	close(shown)
	if ages.Lost < 2 || len(shown) != 4 {
		t.Errorf("metrics: %d files lost, %d figures", ages.Lost, len(shown))
	}
}

var digits = regexp.MustCompile(`^[0-9A-F]{24}$`)

// segmentNumber returns the number of a segment of 1 MB.
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
