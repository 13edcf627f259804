package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/job"
)

// reported runs a backup or a restore, and returns its report, which must be in the catalogue too.
func reported(t *testing.T, args ...string) job.StorageReport {
	t.Helper()
	o := must(t, append(args, "--json", "--progress", "none")...)
	var e struct {
		Run    string
		Report job.StorageReport
	}
	if err := json.Unmarshal([]byte(o.out), &e); err != nil {
		t.Fatalf("%v in %s", err, o.out)
	}
	again := must(t, "report", e.Run)
	for _, said := range append([]string{e.Report.Limit, e.Report.Report.String()}, e.Report.Advice...) {
		if !strings.Contains(again.out, said) {
			t.Errorf("the report in the catalogue has no %q:\n%s", said, again.out)
		}
	}
	t.Logf("tidemark %s\n%s", strings.Join(args, " "), again.out)
	addsUp(t, e.Report)
	return e.Report
}

// addsUp checks that the rows of the table add up to the wall time, allowing for delays before a
// goroutine starts or after it ends: TestTimesAddUp is strict.
func addsUp(t *testing.T, rep job.StorageReport) {
	t.Helper()
	r := rep.Report
	wall := r.In("copy") + r.In("end") + r.In("log")
	for _, role := range r.Workers.Roles {
		for n, w := range role.Workers {
			if sum := w.IO + w.Working + w.WaitBuffer + w.WaitWork; sum != w.Total {
				t.Errorf("%s %d: its times come to %v of %v", role.Name, n, sum, w.Total)
			}
			if off := (w.Total - wall).Abs(); off > wall/2+5*time.Second && (w.Total > wall || n == 0) { // workers other than the first may have started later
				t.Errorf("%s %d lived for %v, and the phases took %v", role.Name, n, w.Total, wall)
			}
		}
	}
}

// says checks that a report's sentence begins with limit, and that its advice contains advice.
func says(t *testing.T, rep job.StorageReport, limit, advice string) {
	t.Helper()
	if all := strings.Join(rep.Advice, "\n"); !strings.HasPrefix(rep.Limit, limit) || !strings.Contains(all, advice) {
		t.Errorf("it says %q and %q, not %q and %q\n%s", rep.Limit, all, limit, advice, rep.Report)
	}
}

// little starts a server with a few megabytes of data, so that slow paths do not take long.
func little(t *testing.T) *testdb.Server {
	t.Helper()
	s := testdb.OwnPostgresSegments(t, 16, 1, "-c", "autovacuum=off")
	testdb.Query(t, s.URL("postgres"), "UPDATE pg_database SET datistemplate = false")
	for _, name := range []string{"template0", "template1"} {
		testdb.Query(t, s.URL("postgres"), "DROP DATABASE "+name)
	}
	return s
}

// Whatever the numbers of workers and buffers, the rows of the table add up, and no worker ends
// before the others.
func TestTimesAddUp(t *testing.T) {
	t.Parallel()
	s := little(t)
	for n, c := range [][3]string{{"1", "1", "1"}, {"1", "3", "4"}, {"2", "2", "9"}, {"5", "1", "2"}, {"3", "4", "64"}} {
		place := t.TempDir()
		args := []string{"--parallelism", c[0], "--sessions", c[1], "--buffers", c[2]}
		for _, do := range []func() job.StorageReport{
			func() job.StorageReport {
				return reported(t, append([]string{"backup", s.URL("postgres"), place, "--compress", []string{"none", "lz4", "zstd:1"}[n%3]}, args...)...)
			},
			func() job.StorageReport {
				return reported(t, append([]string{"restore", place, filepath.Join(s.TempDir(t), "data")}, args...)...)
			},
		} {
			atLast(t, func() string {
				r := do().Report
				if got := fmt.Sprint(r.Parallelism, r.Sessions, r.Buffers); got != strings.Join(c[:], " ") {
					t.Errorf("%v became %s", c, got)
				}
				wall := r.In("copy") + r.In("end") + r.In("log")
				for _, role := range r.Workers.Roles {
					for n, w := range role.Workers {
						if off := (w.Total - wall).Abs(); off > wall/50+50*time.Millisecond {
							return fmt.Sprintf("%s %d lived for %v, and the phases took %v\n%s", role.Name, n, w.Total, wall, r)
						}
					}
				}
				return ""
			})
		}
	}
}

// A place accepts 2 MB/s from each writer, and a disk delivers as much to each reader: then more
// workers help than the processors suggest, and are added, unless the user has set their number.
func TestWorkersAreAddedWhereThatGains(t *testing.T) {
	t.Parallel()
	s := little(t)
	url := s.URL("postgres")
	testdb.Query(t, url, "CREATE TABLE large AS SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 12000) g")
	testdb.Query(t, url, "CHECKPOINT")
	run := func(verb string, args ...string) backup.Report {
		return reported(t, append(append([]string{verb}, args...), "--buffer-size", "128kB", "--compress", "none")...).Report
	}
	to, ok := testdb.SlowFolder(t, t.TempDir(), testdb.Slow{Stream: 2 << 20})
	if !ok {
		return // models test the rules (backup)
	}
	atLast(t, func() string {
		if r := run("backup", url, filepath.Join(to, "a"), "--parallelism", "2"); r.Sessions <= 2 || r.Parallelism != 2 || r.Buffers <= 6 {
			return fmt.Sprintf("a place that is slow for each:\n%s", r)
		}
		return ""
	})
	from, _ := testdb.SlowFolder(t, s.Dir, testdb.Slow{Stream: 2 << 20})
	atLast(t, func() string {
		if r := run("backup", url, t.TempDir(), "--data-dir", from, "--sessions", "2"); r.Parallelism <= 2 || r.Sessions != 2 {
			return fmt.Sprintf("a disk that is slow for each:\n%s", r)
		}
		return ""
	})
	data, _ := testdb.SlowFolder(t, s.TempDir(t), testdb.Slow{Stream: 2 << 20})
	n := 0
	atLast(t, func() string {
		n++
		if r := reported(t, "restore", filepath.Join(to, "a"), filepath.Join(data, fmt.Sprint("data", n))).Report; r.Parallelism+r.Sessions <= 4 {
			return fmt.Sprintf("a restore where all is slow:\n%s", r)
		}
		return ""
	})
}

// Each condition that the report has a sentence for is created here, on a real server and place,
// and must be named. The conditions are strong enough that other load on the machine does not
// matter. Without FUSE, conditions that need a slow file system are tested with times only
// (advisor).
func TestWhatLimitsABackup(t *testing.T) {
	t.Parallel()
	s := little(t)
	url := s.URL("postgres")
	place := t.TempDir()
	repo := func(name string) string { return filepath.Join(place, name) }
	reported(t, "backup", url, repo("plain"), "--compress", "none", "--buffer-size", "64kB")
	slow := func(folder string, how testdb.Slow, then func(slow string)) {
		if at, ok := testdb.SlowFolder(t, folder, how); ok {
			then(at)
		}
	}

	ssh := testdb.SSH(t)
	wire := testdb.SlowWire(t, fmt.Sprint(ssh.Port), 4<<20)
	rep := reported(t, "backup", url, sftpPlace(t, ssh, wire, "limits"), "--compress", "none")
	says(t, rep, "Target bound: ", "Compress (--compress s2")
	rep = reported(t, "restore", sftpPlace(t, ssh, wire, "limits"), filepath.Join(s.TempDir(t), "data"))
	says(t, rep, "Reading the repository limits: ", "Raise --sessions")

	slow(s.Dir, testdb.Slow{Stream: 2 << 20}, func(at string) {
		rep := reported(t, "backup", url, repo("source"), "--data-dir", at, "--compress", "lz4", "--parallelism", "2")
		says(t, rep, "Source bound: ", "Raise --parallelism from 2")
	})
	slow(s.TempDir(t), testdb.Slow{Allocate: 2 << 20}, func(at string) {
		rep := reported(t, "restore", repo("plain"), filepath.Join(at, "data"))
		says(t, rep, "Preallocating the files limits: ", "allocates without writing")
	})
	slow(s.TempDir(t), testdb.Slow{Stream: 2 << 20}, func(at string) {
		rep := reported(t, "restore", repo("plain"), filepath.Join(at, "data"), "--parallelism", "2")
		says(t, rep, "Writing the files limits: ", "Raise --parallelism from 2")
	})
}

// One table has nearly all of the data, on a disk that limits each stream: all workers read it
// together, unless the user's buffers are so large that the table fits into one of them. Then the
// report says so.
func TestOneTableHasItAll(t *testing.T) {
	t.Parallel()
	s := little(t)
	url := s.URL("postgres")
	testdb.Query(t, url, `CREATE TABLE large AS SELECT g, (SELECT string_agg(md5((g * 30 + i)::text), '') FROM generate_series(1, 30) i) FROM generate_series(1, 16000) g;
		CHECKPOINT`) // 16 MB
	at, ok := testdb.SlowFolder(t, s.Dir, testdb.Slow{Stream: 8 << 20})
	if !ok {
		at = s.Dir
	}
	atLast(t, func() string {
		rep := reported(t, "backup", url, t.TempDir(), "--data-dir", at, "--parallelism", "3")
		for _, role := range rep.Report.Workers.Roles {
			for n, w := range role.Workers {
				if all := role.Sum().Bytes; role.Name == "Reader" && w.Bytes < all/6 {
					return fmt.Sprintf("reader %d has read %d of %d bytes", n, w.Bytes, all)
				}
			}
		}
		if strings.Contains(rep.Limit, "uneven") {
			return rep.Limit
		}
		return ""
	})
	rep := reported(t, "backup", url, t.TempDir(), "--data-dir", at, "--parallelism", "3", "--compress", "zstd:19", "--buffer-size", "64MB")
	says(t, rep, "The work is uneven: of the 3 workers", "a smaller --buffer-size")
	// The processors are the limit; and buffers, if all share a single one. The job takes more than
	// the second below which nothing is reported.
	testdb.Query(t, url, "INSERT INTO large SELECT g, (SELECT string_agg(encode(sha512((g * 8 + i)::text::bytea), 'hex'), '') FROM generate_series(1, 8) i) FROM generate_series(1, 400000) g")
	testdb.Query(t, url, "CHECKPOINT")
	rep = reported(t, "backup", url, t.TempDir(), "--compress", "zstd:19")
	says(t, rep, "Compression bound: ", "--compress s2")
	rep = reported(t, "backup", url, t.TempDir(), "--compress", "zstd:19", "--parallelism", "4", "--sessions", "4", "--buffers", "1")
	says(t, rep, "Too few buffers limit: ", "Raise --buffers from 1 to 20.")
}

// A table with much free space is named, and reported as what slows down reading.
func TestFreeSpaceIsNamed(t *testing.T) {
	t.Parallel()
	s := little(t)
	url := s.URL("postgres")
	testdb.Query(t, url, `CREATE TABLE full_of_rows AS SELECT g, repeat('x', 900) FROM generate_series(1, 4000) g;
		CREATE TABLE emptied AS SELECT g, repeat('y', 900) FROM generate_series(1, 24000) g;
		CREATE INDEX emptied_g ON emptied (g); DELETE FROM emptied WHERE g % 100 > 0`)
	testdb.Query(t, url, "VACUUM emptied")
	testdb.Query(t, url, "CHECKPOINT")
	at, ok := testdb.SlowFolder(t, s.Dir, testdb.Slow{Stream: 8 << 20})
	if !ok {
		at = s.Dir
	}
	var rep job.StorageReport
	atLast(t, func() string {
		// On a busy machine compression could be the limit, or the checkpoint.
		if rep = reported(t, "backup", url, t.TempDir(), "--data-dir", at, "--compress", "none"); strings.Contains(rep.Limit, "to start and to end the backup") {
			return rep.Limit
		}
		return ""
	})
	space := rep.Report.Space
	// It equals what VACUUM found, except for the rounding of the free space map.
	var want int64
	testdb.Query(t, url, "CREATE EXTENSION pg_freespacemap")
	if _, err := fmt.Sscan(testdb.Query(t, url, "SELECT sum(avail) FROM pg_freespace('emptied')"), &want); err != nil {
		t.Fatal(err)
	}
	if len(space.Most) == 0 || space.Most[0].Name != "postgres.public.emptied" || max(space.Most[0].Free-want, want-space.Most[0].Free) > want/50 {
		t.Fatalf("got %+v, want emptied with %d bytes", space, want)
	}
	says(t, rep, "", "MB that were read of large tables and indexes are free space (")
	says(t, rep, "", "): postgres.public.emptied (")
	if ok {
		says(t, rep, "Source bound: ", "VACUUM FULL, REINDEX or pg_repack reclaims it.")
		says(t, rep, rep.Limit[:strings.Index(rep.Limit, "%. ")+2]+" Of what they read", "")
	}
	testdb.Query(t, url, "VACUUM FULL emptied")
	testdb.Query(t, url, "CHECKPOINT")
	if rep := reported(t, "backup", url, t.TempDir()); strings.Contains(strings.Join(rep.Advice, ""), "free space") {
		t.Errorf("nothing is free any more, and it says %q", rep.Advice)
	}
}

func sftpPlace(t *testing.T, s *testdb.SSHServer, port, dir string) string {
	t.Helper()
	known := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, fmt.Appendf(nil, "[%s]:%s %s\n", s.Host, port, s.HostKey), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sftp://%s@%s:%s%s/%s?key=%s&known_hosts=%s", s.User, s.Host, port, s.Dir, dir, s.Key, known)
}
