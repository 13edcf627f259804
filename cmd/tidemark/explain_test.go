package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A copy that waits for somebody's lock says so, with the server's own name for it, in its report,
// in explain and over time; the parts are the I/O.
func TestExplainALock(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	from, to := srv.NewDatabase(t, "explain_s"), srv.NewDatabase(t, "explain_t")
	testdb.Query(t, from, "CREATE TABLE t (i int PRIMARY KEY, s text); INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 50000) i")
	testdb.Query(t, to, "CREATE TABLE t (i int PRIMARY KEY, s text)")
	holder := testdb.NewSession(to)
	for _, sql := range []string{"BEGIN", "INSERT INTO t VALUES (25000)"} {
		if _, err := holder.Try(sql); err != nil {
			t.Fatal(err)
		}
	}
	go func() { // frees the row when the copy has waited for it long enough
		defer holder.Close()
		for ; t.Context().Err() == nil; time.Sleep(20 * time.Millisecond) {
			if out, _ := testdb.TryQuery(to, "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"); strings.TrimSpace(out) == "1" {
				time.Sleep(4 * time.Second)
				return
			}
		}
	}()
	out := testdb.Must(t, "copy", from, to, "--prep", "keep", "--lanes", "1", "--lock-wait", "1m")
	if !strings.Contains(out, "Locks of others limit: sessions on the target wait for them.") {
		t.Errorf("the report of a copy that waited 4 s for a lock:\n%s", out)
	}
	out = testdb.Must(t, "explain", "last")
	for _, want := range []string{"(locks)", "most often Lock:transactionid", "Writer I/O", "This machine:"} {
		if !strings.Contains(out, want) {
			t.Errorf("explain lacks %q:\n%s", want, out)
		}
	}
	if out = testdb.Must(t, "report", "last", "--history"); !strings.Contains(out, "locks 100%") {
		t.Errorf("the history shows no lock:\n%s", out)
	}
	var r explained
	if err := json.Unmarshal([]byte(testdb.Must(t, "explain", "last", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Reasons) == 0 || r.Reasons[0].Rule != "locks" {
		t.Errorf("reasons %+v", r.Reasons)
	}
	r.adds(t)
}

// explained is what explain says, as JSON.
type explained struct {
	Limit   string
	Reasons []struct {
		Rule     string
		Evidence []string
	}
	Servers *struct {
		Roles []struct {
			Role, On string
			IO       int64 `json:"io_ns"`
			Parts    []struct {
				Kind string
				Time int64 `json:"time_ns"`
			}
		}
	}
}

// adds checks that the parts of the I/O add up to it.
func (x *explained) adds(t *testing.T) {
	t.Helper()
	for _, r := range x.Servers.Roles {
		sum := int64(0)
		for _, p := range r.Parts {
			sum += p.Time
		}
		if sum != r.IO {
			t.Errorf("parts of %s add up to %d of %d ns", r.Role, sum, r.IO)
		}
	}
}

// A stream whose agents wait for somebody's lock says so while it runs, in explain and over time,
// and afterwards; so do all engines. The parts of the I/O add up to it.
func TestExplainAStream(t *testing.T) {
	t.Parallel()
	for kind, ends := range map[string]func(t *testing.T) (src, dst string){
		"postgres": func(t *testing.T) (string, string) {
			srv := pg15(t)
			return srv.NewDatabase(t, "src"), srv.NewDatabase(t, "dst")
		},
		"mariadb": func(t *testing.T) (string, string) {
			return testdb.MariaDB(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst")
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			src, dst := ends(t)
			name := streamName()
			testdb.Query(t, src, "CREATE TABLE t (i int PRIMARY KEY, n int)")
			testdb.Query(t, src, "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0), (4, 0)")
			f := running(t, "replicate", src, dst, "--name", name, "--queue", "durable")
			f.await("copy", func() bool {
				out, err := testdb.TryQuery(dst, "SELECT count(*) FROM t")
				return err == nil && out == "4"
			})
			// The first copy is over when a change arrives: the lock must not hold up its key.
			testdb.Query(t, src, "UPDATE t SET n = n + 1 WHERE i = 2")
			f.await("first change", func() bool {
				out, err := testdb.TryQuery(dst, "SELECT n FROM t WHERE i = 2")
				return err == nil && out == "1"
			})
			holder := testdb.NewSession(dst)
			defer holder.Close()
			for _, sql := range []string{"BEGIN", "SELECT * FROM t WHERE i = 1 FOR UPDATE"} {
				if _, err := holder.Try(sql); err != nil {
					t.Fatal(err)
				}
			}
			testdb.Query(t, src, "UPDATE t SET n = n + 1 WHERE i = 1")
			var x explained
			f.await("advice", func() bool {
				o := cli(t, "explain", name, "--json")
				x = explained{}
				if err := json.Unmarshal([]byte(o.out), &x); o.code == 0 && err != nil {
					t.Fatalf("%v: %s", err, o.out)
				}
				return len(x.Reasons) > 0 && x.Reasons[0].Rule == "stream-locks"
			})
			x.adds(t)
			roles := map[string]string{}
			for _, r := range x.Servers.Roles {
				roles[r.Role] = r.On
			}
			if roles["Capture"] != "source" || roles["Agent"] != "target" {
				t.Errorf("roles %v", roles)
			}
			if out := must(t, "explain", name).out; !strings.Contains(out, "Capture I/O") || !strings.Contains(out, "no new log") || !strings.Contains(out, "Agent I/O") {
				t.Errorf("explain:\n%s", out)
			}
			// Its last line may end before the lock.
			f.await("history", func() bool {
				history := must(t, "status", "--history", "--name", name).out
				return strings.Contains(history, "no new log") && strings.Contains(history, "  locks ")
			})
			if _, err := holder.Try("COMMIT"); err != nil {
				t.Fatal(err)
			}
			f.await("change", func() bool {
				out, err := testdb.TryQuery(dst, "SELECT n FROM t WHERE i = 1")
				return err == nil && out == "1"
			})
			f.interrupt()
			out := must(t, "explain", name).out
			if !strings.Contains(out, "Capture I/O") || !strings.Contains(out, "counted in") {
				t.Errorf("explain after the end:\n%s", out)
			}
			if out = must(t, "report", name).out; !strings.Contains(out, "Capture I/O") {
				t.Errorf("report:\n%s", out)
			}
		})
	}
}

// A capture whose changes another process applies says what its session on the source does, also
// that it has nothing to do; with --sample=off nothing is asked.
func TestExplainACapture(t *testing.T) {
	t.Parallel()
	for kind, from := range map[string]func(*testing.T) *testdb.Server{"postgres": pg15, "mariadb": maria} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			src, name := from(t).NewDatabase(t, "src"), streamName()
			testdb.Query(t, src, "CREATE TABLE t (i int PRIMARY KEY, n int)")
			args := []string{"capture", src, pg15(t).NewDatabase(t, "dst"), "--name", name, "--queue", natsServer(t)}
			must(t, append(args, "--sample=off", "--until", "now")...)
			if out := must(t, "explain", name+"-capture").out; strings.Contains(out, "Capture I/O") {
				t.Errorf("with --sample=off:\n%s", out)
			}
			f := running(t, args...)
			var x explained
			f.await("account", func() bool {
				o := cli(t, "explain", name+"-capture", "--json")
				x = explained{}
				if err := json.Unmarshal([]byte(o.out), &x); o.code == 0 && err != nil {
					t.Fatalf("%v: %s", err, o.out)
				}
				return x.Servers != nil && len(x.Servers.Roles) == 1 && x.Servers.Roles[0].Parts[0].Kind == "no new log"
			})
			x.adds(t)
			if r := x.Servers.Roles[0]; r.Role != "Capture" || r.On != "source" {
				t.Errorf("%+v", r)
			}
			f.interrupt()
			if out := must(t, "explain", name+"-capture").out; !strings.Contains(out, "Capture I/O") || !strings.Contains(out, "no new log") {
				t.Errorf("explain:\n%s", out)
			}
			must(t, append(args, "--remove")...)
		})
	}
}

// A logical backup says what its readers waited for at the server, and what its calls to the
// repository were: syncs apart from writes. The link is slow, since a job shorter than the time
// between two looks has no account.
func TestExplainABackup(t *testing.T) {
	t.Parallel()
	src := pg15(t).NewDatabase(t, "src")
	testdb.Query(t, src, "CREATE TABLE t (i int PRIMARY KEY, s text); INSERT INTO t SELECT i, md5(i::text) || md5((i+1)::text) FROM generate_series(1, 100000) i")
	u, err := url.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "127.0.0.1:" + testdb.SlowWire(t, u.Port(), 4<<20)
	must(t, "backup", u.String(), t.TempDir(), "--logical", "--compress", "zstd:3")
	var rep struct {
		Servers *struct {
			Looks int
			Roles []struct{ Role, On string }
		}
		Store struct {
			Commits int64
		}
	}
	if err := json.Unmarshal([]byte(must(t, "explain", "last", "--json").out), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Servers == nil || rep.Servers.Looks == 0 || len(rep.Servers.Roles) != 1 || rep.Servers.Roles[0].Role != "Reader" || rep.Servers.Roles[0].On != "source" || rep.Store.Commits == 0 {
		t.Errorf("%+v, servers %+v", rep, rep.Servers)
	}
	out := must(t, "explain", "last").out
	if !strings.Contains(out, "Reader I/O") || !strings.Contains(out, "At the repository: ") || !strings.Contains(out, "commits (syncs, ends of uploads)") {
		t.Errorf("explain:\n%s", out)
	}
}
