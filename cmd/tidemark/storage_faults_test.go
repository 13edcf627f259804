package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A repository's disk fills up. The backup ends and is not listed, the archive waits and continues
// without a gap, a prune finds space to remove something, a restore still works; and once there is
// space, everything works.
func TestRepositoryDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("a small disk can be mounted by root alone; continuous integration runs as root")
		return
	}
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "autovacuum=off", "-c", "wal_keep_size=1GB")
	url := srv.URL("postgres")
	testdb.Query(t, url, "CREATE TABLE item (id int, t text)")
	disk := smallDisk(t, "", "root", 2<<20)
	place, filler := filepath.Join(disk, "repo"), filepath.Join(disk, "filler")
	back := []string{"backup", url, place, "--progress", "none"}
	if o := cli(t, back...); o.code != 9 || !strings.Contains(o.errOut, "no space left on device") {
		t.Fatalf("exit %d\n%s", o.code, o.errOut)
	}
	if n, v := sound(t, "after a full disk", place, repo.Keys{}); n != 0 || len(v.Left) > 0 {
		t.Errorf("%d backups are listed, left are %+v", n, v.Left)
	}
	remount(t, disk, 64<<20)
	must(t, back...)
	must(t, back...)
	fill := func() {
		t.Helper()
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for size := 1 << 20; size > 0; size /= 2 { // down to the last byte
			for err = nil; err == nil; {
				_, err = f.Write(make([]byte, size))
			}
		}
	}

	var said buffer
	a := process(t, "archive", url, place, "--slot", "full", "--slot-use", "make", "--partial", "50ms", "--progress", "none")
	a.Stderr = &said
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = a.Process.Kill() // it has usually ended
		_ = a.Wait()
	}()
	soon(t, "the slot", func() bool {
		return testdb.Query(t, url, "SELECT count(*) FROM pg_replication_slots WHERE active") == "1"
	})
	fill()
	testdb.Query(t, url, "INSERT INTO item SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series(1, 40000) g")
	soon(t, "the archive's complaint", func() bool { return strings.Contains(said.String(), "is not archived, retry in") })
	must(t, "restore", place, filepath.Join(t.TempDir(), "data"), "--progress", "none")
	must(t, "prune", place, "--keep", "last=1")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	testdb.Query(t, url, "SELECT pg_switch_wal()")
	end := testdb.Query(t, url, "SELECT pg_current_wal_flush_lsn()")
	soon(t, "all of it", func() bool {
		return testdb.Query(t, url, "SELECT count(*) FROM pg_replication_slots WHERE restart_lsn >= '"+end+"'") == "1"
	})
	if err := a.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _ = a.Wait(); a.ProcessState.ExitCode() != 130 {
		t.Errorf("exit %d\n%s", a.ProcessState.ExitCode(), &said)
	}
	names, to := archived(t, place), filepath.Join(t.TempDir(), "RECOVERYXLOG")
	for i, name := range names {
		if i > 0 && segmentNumber(t, name) != segmentNumber(t, names[i-1])+1 {
			t.Errorf("behind %s comes %s", names[i-1], name)
		}
		must(t, "archive", "get", place, name, to)
		got, err := os.ReadFile(to)
		want, werr := os.ReadFile(filepath.Join(srv.Dir, "pg_wal", name))
		if err != nil || werr != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the server has: %v, %v", name, err, werr)
		}
	}
	if len(names) < 4 {
		t.Errorf("%v are archived", names)
	}
	if n, v := sound(t, "at the end", place, repo.Keys{}); n != 1 || len(v.Left) > 0 {
		t.Errorf("%d backups, left are %+v", n, v.Left)
	}
}

// An outage is a connection to a server that breaks after a number of bytes, and recovers after a
// time, or never.
type outage struct {
	mu    sync.Mutex
	left  int64 // bytes until it breaks
	back  time.Duration
	down  bool
	conns []net.Conn
}

func (o *outage) serve(client, server net.Conn) {
	o.mu.Lock()
	o.conns = append(o.conns, client, server)
	if o.down {
		client.Close()
		server.Close()
	}
	o.mu.Unlock()
	go func() {
		_, _ = io.Copy(client, server) // it ends with the connection
		client.Close()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := client.Read(buf)
		if err == nil && o.pass(int64(n)) {
			_, err = server.Write(buf[:n])
		}
		if err != nil {
			server.Close()
			return
		}
	}
}

// pass counts bytes, and breaks all connections once the limit is reached.
func (o *outage) pass(n int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left -= n
	if o.left > 0 || o.left+n <= 0 {
		return !o.down
	}
	o.down = true
	for _, c := range o.conns {
		c.Close()
	}
	if o.back > 0 {
		time.AfterFunc(o.back, o.up)
	}
	return false
}

func (o *outage) up() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down, o.conns = false, nil
}

// A repository on another machine is lost during a backup. If it comes back soon, the backup
// continues; if not, the backup ends with one line, and is not listed once the place is back, and
// the next one is complete.
func TestRepositoryLost(t *testing.T) {
	t.Parallel()
	ssh, s3 := testdb.SSH(t), testdb.S3(t)
	url := little(t).URL("postgres")
	bucket := strings.ToLower(strings.ReplaceAll(filepath.Base(t.TempDir()), "_", "-")) + "-lost"
	dir := filepath.Join(s3.Dir, bucket)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"sftp", "s3"} {
		for _, back := range []time.Duration{time.Second, 0} {
			if kind == "s3" && back == 0 && !eachStep {
				continue // its client retries for a minute
			}
			t.Run(fmt.Sprintf("%s, back %v", kind, back), func(t *testing.T) {
				t.Parallel()
				o := &outage{left: 1 << 20, back: back}
				srv := ssh.Server
				if kind == "s3" {
					srv = s3
				}
				addr := between(t, fmt.Sprintf("%s:%d", srv.Host, srv.Port), o.serve)
				host, port, err := net.SplitHostPort(addr)
				if err != nil {
					t.Fatal(err)
				}
				place := fmt.Sprintf("s3://%s/%v?endpoint=%s&tls=off&region=us-east-1", bucket, back, addr)
				if kind == "sftp" {
					known := filepath.Join(t.TempDir(), "known_hosts")
					if err := os.WriteFile(known, fmt.Appendf(nil, "[%s]:%s %s\n", host, port, ssh.HostKey), 0o600); err != nil {
						t.Fatal(err)
					}
					place = fmt.Sprintf("sftp://%s@%s%s/lost-%v?key=%s&known_hosts=%s", ssh.User, addr, ssh.Dir, back, ssh.Key, known)
				}
				command := func(args ...string) (code int, out string) {
					cmd := process(t, args...)
					cmd.Env = append(cmd.Env, "AWS_ACCESS_KEY_ID="+s3.User, "AWS_SECRET_ACCESS_KEY="+s3.Password)
					text, err := cmd.CombinedOutput()
					if err != nil && cmd.ProcessState == nil {
						t.Fatal(err)
					}
					return cmd.ProcessState.ExitCode(), string(text)
				}
				backup := []string{"backup", url, place, "--progress", "none", "--compress", "lz4", "--buffer-size", "64kB"}
				code, out := command(backup...)
				want := "1 backup with"
				if back == 0 {
					if code == 0 || code == 1 || strings.Count(out, "\n") != 2 || !strings.Contains(out, "\nhint: ") {
						t.Errorf("exit %d\n%s", code, out)
					}
					o.up()
					if code, out := command("backups", place, "--json"); code != 0 || !strings.Contains(out, `"backups": []`) && !strings.Contains(out, `"backups": null`) {
						t.Errorf("exit %d: listed are\n%s", code, out)
					}
					code, out = command(backup...)
				}
				if code != 0 {
					t.Fatalf("exit %d\n%s", code, out)
				}
				if o.mu.Lock(); o.left > 0 {
					t.Errorf("the way was not cut")
				}
				o.mu.Unlock()
				if code, out := command("verify", place); code != 0 || !strings.Contains(out, want) {
					t.Errorf("exit %d\n%s", code, out)
				}
			})
		}
	}
}
