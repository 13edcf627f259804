package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// standbyHost listens as on a standby's host, with a folder to write to.
func standbyHost(t *testing.T, dir string) (addr string) {
	t.Helper()
	addr = testdb.FreeAddress(t)
	cmd := process(t, "ha", "measure", "network", "--listen", addr, "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for try := 0; ; try++ {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return addr
		}
		if try > 15000 {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestHAPlan makes a plan for a server under load and a standby's host, kills another plan halfway,
// and resumes it.
func TestHAPlan(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 15, "-c", "fsync=on", "-c", "autovacuum=off")
	url := s.URL("postgres")
	if err := pgbench(t, url, "-i", "-q").Wait(); err != nil {
		t.Fatal(err)
	}
	far, here, out := t.TempDir(), t.TempDir(), t.TempDir()
	peer := standbyHost(t, far)
	args := []string{"ha", "plan", url, "--standby", peer, "--disk", here, "--delay", "5ms", "--for", "2s", "--time", "500ms", "--simulate", "300ms", "--clients", "1,4", "--out", out}
	load := pgbench(t, url, "-n", "-N", "-c", "4", "-T", "600")
	defer func() {
		load.Process.Kill()
		load.Wait()
	}()
	first := process(t, args...)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	steps := filepath.Join(out, stepsFile)
	for try := 0; ; try++ {
		var done map[string]string
		if text, err := os.ReadFile(steps); err == nil && json.Unmarshal(text, &done) == nil && done["disk"] != "" {
			break
		}
		if try > 30000 {
			t.Fatal("it does not get so far")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if o := cli(t, args...); o.code != 0 && !strings.Contains(o.errOut, "another plan is using this folder") {
		t.Errorf("while it runs another one says %s", o.errOut)
	}
	first.Process.Kill()
	first.Wait()
	load.Process.Kill() // the log to scan exists already
	load.Wait()
	// A killed measurement leaves this behind.
	if err := os.Mkdir(filepath.Join(here, "tidemark-simulate-primary"), 0o700); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	var asked map[string]string
	text, err := os.ReadFile(steps)
	if err != nil || json.Unmarshal(text, &asked) != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(out, "simulate-remote_apply-4.json")) // if it has got that far
	asked[underWay] = "simulate-on-1"
	if err := writeWhole(steps, asked); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(out, "plan.html")
	o := must(t, append(args, "--html", page)...)
	for _, path := range []string{page, steps} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("others can read %s: %v", path, err)
		}
	}
	for _, want := range []string{"[1/5] scan: taken from ", "[2/5] disk: taken from ", "[4/5] the standby's disk: ", "[5/5] simulating remote_apply, 4 sessions, for 300ms", "the page is "} {
		if !strings.Contains(o.errOut, want) {
			t.Errorf("no %q in\n%s", want, o.errOut)
		}
	}
	for _, want := range []string{"with its standby on " + peer + "\n\n", "Predicted and simulated", "remote_apply  4 ", "the primary's disk, measured: ", "the standby's disk, measured: ", "waking up on both sides, measured: ",
		"the network, measured: a round trip of ", "The scan covers ", `synchronous_standby_names = 'FIRST 1 ("standby1")'`} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	// Whether a waiting mode sustains the load depends on the machine: pgbench uses whatever
	// capacity there is.
	if !strings.Contains(o.out, " with this standby adds ") && !strings.Contains(o.out, " would add ") {
		t.Errorf("no answer in\n%s", o.out)
	}
	if strings.Contains(o.out+o.errOut, s.Password) {
		t.Error("a password is in it")
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "</html>") || strings.Count(string(html), "<figure>") != 6 || strings.Contains(string(html), s.Password) {
		t.Errorf("%v: %.100s", err, html)
	}
	planAgain(t, s, append(args, "--json"))
	for _, dir := range []string{here, far} {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}

// planAgain makes the same plan from the existing files, as JSON: its figures add up.
func planAgain(t *testing.T, s *testdb.Server, args []string) {
	t.Helper()
	o := must(t, args...)
	var p ha.Plan
	if err := json.Unmarshal([]byte(o.out), &p); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(o.errOut, "simulating") || !strings.Contains(o.errOut, `{"event":"plan","of":5,"step":5,"text":"simulate-on-4: taken from `) {
		t.Error(o.errOut)
	}
	if p.Engine != "postgres" || !strings.HasPrefix(p.Version, "15") || len(p.Modes) != 5 || len(p.Checks) != 6 || p.Workload.Commits <= 0 || len(p.Outages) != 3 || p.Outages[0].ToFull <= 0 {
		t.Errorf("%s %s, %d modes, %d checks, %+v, %+v", p.Engine, p.Version, len(p.Modes), len(p.Checks), p.Workload, p.Outages)
	}
	for _, c := range p.Checks {
		if c.Simulated.P50 < 5e-3 || c.Predicted.P50 < 5e-3 || c.Simulated.Rate <= 0 {
			t.Errorf("5 ms away: %+v", c)
		}
	}
}

// TestHAPlanOfMariaDB reads a MariaDB server's log as it is written; the only measurement goes
// through a proxy.
func TestHAPlanOfMariaDB(t *testing.T) {
	t.Parallel()
	testdb.OnClock(t) // with what waking up takes beside other tests, no mode may carry the load
	s := testdb.MariaDB(t)
	url := s.NewDatabase(t, "plan")
	testdb.Load(t, url, strings.NewReader("CREATE TABLE each_one (a int, b varchar(100)) ENGINE=InnoDB;"))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond): // a load that both modes carry: 2,000 commits a second at most
				if _, err := testdb.TryQuery(url, strings.Repeat("INSERT INTO each_one VALUES (1, 'tide');\n", 20)); err != nil {
					if t.Context().Err() == nil { // otherwise the test has failed, and its database is gone
						t.Error(err)
					}
					return
				}
			}
		}
	}()
	o := must(t, "ha", "plan", url, "--for", "2s", "--disk", "200MiB/s,0.3ms", "--standby-disk", "100MiB/s,0.5ms", "--network", "50MiB/s,2ms", "--simulate", "100ms", "--clients", "2", "--free", "1GB", "--sync-relay", "--outage", "2h")
	close(stop)
	testdb.From(t, "the writer's end", ended)
	// Which of the two it advises depends on the machine's wake-up latency.
	for _, want := range []string{"semi-synchronous AFTER_", " with this standby adds ", "AFTER_COMMIT  2 ", "AFTER_SYNC    2 ", "the primary's disk, given: 0.300 ms", "the standby's disk, given: 0.500 ms", "the network, given: a round trip of 2.000 ms, 50.0 MiB/s",
		"rpl_semi_sync_master_wait_point = AFTER_", "sync_relay_log = 1", "room for log, given: 1.0 GB", "2.0 h ", "Commits wait 10.0 s once"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
}

func TestHAPlanBadInput(t *testing.T) {
	t.Parallel()
	scan := func(t *testing.T) string { return testdb.Written(t, "a.scan", postgresScan) }
	disk, near := "--disk=200MiB/s,1ms", "--network=1Gbit/s,1ms"
	live := filepath.Join(t.TempDir(), "pg_wal")
	if err := os.Mkdir(live, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(live, "000000010000000000000001"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	closed := testdb.FreeAddress(t)
	none := strings.NewReplacer("1.000 MB", "0.000 MB", "0.007812", "0.000000", "0.001953", "0.000000", "2.000 MB", "0.000 MB", "2.0 pg/f", "0.0 pg/f", "0.003906", "0.000000", "0.5 pg/tr", "0.0 pg/tr", "0.002000", "0.000000", "0.000977", "0.000000").Replace(postgresScan)
	for _, b := range []struct {
		name string
		args func(t *testing.T) []string
		code int
	}{
		{"ha-plan-no-server", func(t *testing.T) []string { return []string{disk, near} }, 2},
		{"ha-plan-files", func(t *testing.T) []string { return []string{"/var/lib/pg_wal", disk, near} }, 2},
		{"ha-plan-server-and-scan", func(t *testing.T) []string { return []string{"postgres://me@db/x", "--scan", scan(t), disk, near} }, 2},
		{"ha-plan-no-disk", func(t *testing.T) []string { return []string{"--scan", scan(t), near} }, 2},
		{"ha-plan-disk-without-overhead", func(t *testing.T) []string { return []string{"--scan", scan(t), "--disk=200MiB/s,0", near} }, 2},
		{"ha-plan-disk-of-zero", func(t *testing.T) []string { return []string{"--scan", scan(t), "--disk=0,1ms", near} }, 2},
		{"ha-plan-no-folder", func(t *testing.T) []string { return []string{"--scan", scan(t), "--disk=/none/of/these", near} }, 2},
		{"ha-plan-live-log", func(t *testing.T) []string { return []string{"--scan", scan(t), "--disk", live, near} }, 2},
		{"ha-plan-no-standby", func(t *testing.T) []string { return []string{"--scan", scan(t), disk} }, 2},
		{"ha-plan-network-of-zero", func(t *testing.T) []string { return []string{"--scan", scan(t), disk, "--network=0,1ms"} }, 2},
		{"ha-plan-network-twice", func(t *testing.T) []string { return []string{"--scan", scan(t), disk, near, "--delay=5ms"} }, 2},
		{"ha-plan-no-peer", func(t *testing.T) []string {
			return []string{"--scan", scan(t), disk, "--standby", closed}
		}, 3},
		{"ha-plan-no-commits", func(t *testing.T) []string { return []string{"--scan", testdb.Written(t, "a.scan", none), disk, near} }, 20},
		{"ha-plan-of-db2", func(t *testing.T) []string {
			return []string{"--scan", testdb.Written(t, "a.scan", published), disk, near}
		}, 7},
		{"ha-plan-no-mode", func(t *testing.T) []string { return []string{"--scan", scan(t), disk, near, "--syncmode=AFTER_SYNC"} }, 2},
		{"ha-plan-clients", func(t *testing.T) []string { return []string{"--scan", scan(t), disk, near, "--clients=8,many"} }, 2},
		{"ha-plan-missing-scan", func(t *testing.T) []string {
			return []string{"--scan", filepath.Join(t.TempDir(), "a.scan"), disk, near}
		}, 6},
		{"ha-plan-page-in-no-folder", func(t *testing.T) []string {
			return []string{"--scan", scan(t), disk, near, "--html", filepath.Join(t.TempDir(), "none", "plan.html")}
		}, 6},
	} {
		t.Run(b.name, func(t *testing.T) {
			args := append([]string{"ha", "plan"}, b.args(t)...)
			o := cli(t, args...)
			o.errOut = strings.ReplaceAll(strings.ReplaceAll(o.errOut, closed, "{peer}"), filepath.Dir(live), "{dir}")
			sameText(t, o, b.code, args)
		})
	}
}

// A role that may not read the log learns which privilege it lacks, before any step begins.
func TestHAPlanForbidden(t *testing.T) {
	t.Parallel()
	srv := pg15(t)
	url := role(t, srv, srv.NewDatabase(t, "plan"), "planner", "")
	args := []string{"ha", "plan", url, "--disk=200MiB/s,1ms", "--network=1Gbit/s,1ms", "--simulate=0s", "--progress=none"}
	o := cli(t, args...)
	sameText(t, o, 5, args)
	noSecrets(t, o)
}

// postgresScan is a scan as text.
const postgresScan = `Log of postgres 15
2026-11-20 08:01:00  2.000 MB/s, 60 sec, 2.0 pg/f, 0.003906 sec/f, 0.5 pg/tr, 0.002000 sec/tr, 0.000977 sec/cmt, nOpenTrans 3.3
2026-11-20 08:02:00  1.000 MB/s, 60 sec, 2.0 pg/f, 0.007812 sec/f, 0.5 pg/tr, 0.002000 sec/tr, 0.001953 sec/cmt, nOpenTrans 2.3
`

// A plan made only from given figures: text, and its page.
func TestHAPlanOfAScan(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "plan.html")
	o := must(t, "ha", "plan", "--scan", testdb.Written(t, "a.scan", postgresScan), "--disk=200MiB/s,1ms", "--network=1Gbit/s,8ms", "--simulate=0s", "--html", page, "--progress=none", "--syncmode=LOCAL, on")
	if o.errOut != "" {
		t.Error(o.errOut)
	}
	for _, want := range []string{"PostgreSQL of a.scan, with a standby that does not exist yet\n", "synchronous_commit = on with this standby adds 9.", "Nothing was simulated", "120 s of it", "not known (--free)", "as the primary's: 1.000 ms"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	if html, err := os.ReadFile(page); err != nil || strings.Contains(string(html), "remote_write") || !strings.Contains(string(html), "adds 9.") {
		t.Errorf("%v: %.2000s", err, html)
	}
}

// Scans of two days, of which the busier one counts, and facts found about the servers.
func TestHAPlanOfTwoScans(t *testing.T) {
	t.Parallel()
	quiet := strings.NewReplacer("2026-11-20", "2026-11-21", "0.000977", "0.009770", "2.000 MB", "0.200 MB").Replace(postgresScan)
	o := must(t, "ha", "plan", "--scan", testdb.Written(t, "b.scan", quiet), "--scan", testdb.Written(t, "a.scan", postgresScan), "--disk=200MiB/s,1ms", "--network=london=1Gbit/s,8ms,0.5ms", "--simulate=0s", "--progress=none",
		"--replay=5MiB/s,2ms", "--local=1=900", "--local=8=3000", "--free=100GB", "--json")
	var p ha.Plan
	if err := json.Unmarshal([]byte(o.out), &p); err != nil {
		t.Fatal(err)
	}
	b := p.Forecast.Sites.Standbys[0]
	if p.Workload.Seconds != 240 || len(p.Workload.Intervals) != 4 || p.Workload.Commits < 1000 || p.Workload.Commits > 1050 || b.Name != "london" || b.Replay != 5<<20 || b.ReplayDelay != 2e-3 || b.Network.Hop != 0.5e-3 || len(p.Forecast.Load.Local) != 2 {
		t.Errorf("%+v, %+v", p.Workload, b)
	}
	on, apply := p.Modes[3].Added.P50, p.Modes[4].Added.P50
	if p.Modes[4].Mode != "remote_apply" || apply < on+1.5e-3 || p.Outages[0].Send != 5<<20 || strings.Contains(o.out, "wake-up times of both ends") {
		t.Errorf("on adds %v, remote_apply %v, %+v", on, apply, p.Outages[0])
	}
}
