package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// profileOf scans a log and returns the JSON profile.
func profileOf(t *testing.T, args ...string) *ha.Profile {
	t.Helper()
	o := must(t, append([]string{"ha", "scan", "--json"}, args...)...)
	p := new(ha.Profile)
	if err := json.Unmarshal([]byte(o.out), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func numberOf(t *testing.T, url, sql string) float64 {
	t.Helper()
	text := strings.Fields(testdb.Query(t, url, sql))
	n, err := strconv.ParseFloat(text[len(text)-1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pgbench starts pgbench.
func pgbench(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/usr/lib/postgresql/15/bin/pgbench", append(args, url)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(said.String())
		}
	})
	return cmd
}

// TestHAScanPostgres scans the log of a real load: the transactions equal the server's count, and
// so do the flushes, given their number.
func TestHAScanPostgres(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 15, "-c", "fsync=on", "-c", "wal_keep_size=1GB", "-c", "autovacuum=off")
	url := s.URL("postgres")
	if err := pgbench(t, url, "-i", "-q", "-s", "2").Wait(); err != nil {
		t.Fatal(err)
	}
	testdb.Load(t, url, strings.NewReader("CHECKPOINT; SELECT pg_switch_wal();"))
	const counters = "SELECT wal_sync FROM pg_stat_wal"
	const commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'"
	first := testdb.Query(t, url, "SELECT pg_walfile_name(pg_current_wal_insert_lsn() + 1)")
	from := strings.TrimSpace(testdb.Query(t, url, "SELECT pg_current_wal_insert_lsn()"))
	syncs, xacts := numberOf(t, url, counters), numberOf(t, url, commits)
	if err := pgbench(t, url, "-n", "-N", "-c", "8", "-t", "150").Wait(); err != nil {
		t.Fatal(err)
	}
	// The server counts a session's figures once it has ended.
	soon(t, "the end of pgbench's sessions", func() bool {
		return numberOf(t, url, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'") == 0
	})
	syncs, xacts = numberOf(t, url, counters)-syncs, numberOf(t, url, commits)-xacts
	until := strings.TrimSpace(testdb.Query(t, url, "SELECT pg_current_wal_insert_lsn()"))
	testdb.Load(t, url, strings.NewReader("SELECT pg_switch_wal();"))
	if part := profileOf(t, url, "--from", from, "--until", until); part.Transactions.Committed != 1200 || part.From < from {
		t.Errorf("%d transactions from %s to %s, and pgbench ran 1200; it has %s to %s", part.Transactions.Committed, from, until, part.From, part.To)
	}

	all, err := filepath.Glob(filepath.Join(s.Dir, "pg_wal", strings.Repeat("?", 24)))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range all {
		if filepath.Base(f) >= strings.TrimSpace(first) {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		t.Fatalf("no segment from %s on among %q", first, all)
	}
	p := profileOf(t, append(files, "--interval", "0.5")...)
	// The server's count includes this test's queries, which write nothing.
	if n := float64(p.Transactions.Committed); n < 1200 || n > xacts {
		t.Errorf("%v transactions; the server has counted %v, pgbench 1200", n, xacts)
	}
	if p.Flushes.Basis != ha.EstimatedFlushes || p.Flushes.Count <= 0 || p.Flushes.Low > p.Flushes.Count || p.Flushes.High < p.Flushes.Count || p.ImageBytes == 0 || len(p.Tables) < 3 || len(p.Intervals) == 0 {
		t.Errorf("%+v, %d tables, %d intervals", p.Flushes, len(p.Tables), len(p.Intervals))
	}
	t.Logf("the server has synced its log %v times; estimated without that: %+v", syncs, p.Flushes)

	told := profileOf(t, append(files, "--syncs", fmt.Sprint(int(syncs)))...)
	if told.Flushes.Basis != ha.CalibratedFlushes || math.Abs(told.Flushes.Count-syncs) > 0.5 {
		t.Errorf("%+v, want %v", told.Flushes, syncs)
	}
	t.Logf("told: %+v", told.Flushes)

	// The text output, with the size of each flush and each transaction, can be read back.
	text := must(t, append([]string{"ha", "scan", "--info-level=flush", "--trans-level=all", "--progress=none"}, files...)...)
	for _, want := range []string{"\nFile /", "flush 1: ", ": committed, started ", " MB/s, ", "Transaction duration (second)", "Kinds of records, by bytes", "\nScanned "} {
		if !strings.Contains(text.out, want) {
			t.Errorf("no %q in the text", want)
		}
	}
	scan := testdb.Written(t, "a.scan", text.out)
	o := must(t, "ha", "calculate", scan, "--engine=db2", "--disk=200MiB/s,1ms", wan)
	if !strings.Contains(o.out, "NEARSYNC largest flush: predicted ") || !strings.Contains(o.errOut, "PostgreSQL does not wait so") {
		t.Errorf("%s%s", o.out[max(0, len(o.out)-1000):], o.errOut)
	}
}

// TestHAScanLive reads the log while a server writes it: flushes equal the server's count.
func TestHAScanLive(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 17, "-c", "fsync=on")
	url := s.URL("postgres")
	if err := pgbench(t, url, "-i", "-q").Wait(); err != nil {
		t.Fatal(err)
	}
	before := testdb.Query(t, url, "SELECT pg_current_wal_lsn()")
	load := pgbench(t, url, "-n", "-N", "-c", "4", "-T", "600")
	defer func() {
		load.Process.Kill()
		load.Wait()
	}()
	soon(t, "what pgbench writes", func() bool {
		return testdb.Query(t, url, "SELECT pg_current_wal_lsn() - '"+strings.TrimSpace(before)+"' > 20000") == "t"
	})
	var p *ha.Profile
	atLast(t, func() string {
		p = profileOf(t, url, "--for", "4s", "--interval", "1s")
		if p.Flushes.Basis != ha.CalibratedFlushes || p.Flushes.Count < 1 || p.Transactions.Committed < 1 || p.Seconds > 60 || p.EndOfLog != "" {
			return fmt.Sprintf("%+v, %+v, %v s, %s", p.Flushes, p.Transactions, p.Seconds, p.EndOfLog)
		}
		return ""
	})
	names := ""
	for _, x := range p.Tables {
		names += x.Name + " "
	}
	if !strings.Contains(names, "pgbench_accounts") {
		t.Errorf("tables %s", names)
	}
}

// eachOne creates the table for insertEach, and starts a new log file.
const eachOne = "CREATE TABLE each_one (a int, b varchar(100)) ENGINE=InnoDB; FLUSH BINARY LOGS;"

// insertEach runs n inserts in each of several concurrent sessions.
func insertEach(t *testing.T, url string, sessions, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			var sql strings.Builder
			for k := range n {
				fmt.Fprintf(&sql, "INSERT INTO each_one VALUES (%d, 'tide');\n", i*n+k)
			}
			testdb.Load(t, url, strings.NewReader(sql.String()))
		})
	}
	wg.Wait()
}

// TestHAScanMariaDB: commit groups equal the server's count.
func TestHAScanMariaDB(t *testing.T) {
	t.Parallel()
	s := testdb.OwnMariaDB(t)
	url := s.NewDatabase(t, "scan")
	status := func(name string) float64 {
		return numberOf(t, url, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = '"+name+"'")
	}
	testdb.Load(t, url, strings.NewReader(eachOne))
	place := func() string {
		at := strings.Fields(testdb.Query(t, url, "SHOW MASTER STATUS"))
		return at[0] + ":" + at[1]
	}
	from := place()
	commits, groups := status("binlog_commits"), status("binlog_group_commits")
	insertEach(t, url, 6, 150)
	commits, groups = status("binlog_commits")-commits, status("binlog_group_commits")-groups
	file, until := strings.Fields(testdb.Query(t, url, "SHOW MASTER STATUS"))[0], place()
	testdb.Load(t, url, strings.NewReader("INSERT INTO each_one VALUES (0, 'after the scan');"))
	if part := profileOf(t, url, "--from", from, "--until", until); float64(part.Transactions.Committed) != commits {
		t.Errorf("%d transactions from %s to %s, and the server has counted %v", part.Transactions.Committed, from, until, commits)
	}
	p := profileOf(t, filepath.Join(s.Dir, file))
	if p.Flushes.Basis != ha.ExactFlushes || p.Engine != "mariadb" {
		t.Errorf("%s: %+v", p.Engine, p.Flushes)
	}
	if float64(p.Transactions.Committed) != commits+1 || p.Flushes.Count != groups+1 { // plus the one after
		t.Errorf("%d transactions in %v groups; the server has counted %v in %v", p.Transactions.Committed, p.Flushes.Count, commits, groups)
	}
	t.Logf("%v commits in %v groups", commits, groups)
}

// TestHAScanMySQL: compressed files, recognized by their contents.
func TestHAScanMySQL(t *testing.T) {
	t.Parallel()
	s := testdb.MySQL(t)
	url := s.NewDatabase(t, "scan")
	testdb.Load(t, url, strings.NewReader(eachOne))
	first := strings.Fields(testdb.Query(t, url, "SHOW MASTER STATUS"))[0]
	insertEach(t, url, 4, 100)
	var files []string // which may include files that other users of the server have started
	for _, log := range strings.Split(testdb.Query(t, url, "SHOW BINARY LOGS"), "\n") {
		f := strings.Split(log, "\t")
		size, err := strconv.Atoi(f[1])
		if err != nil {
			t.Fatal(err)
		}
		// Others may be writing beyond that size.
		if text, err := os.ReadFile(filepath.Join(s.Dir, f[0])); f[0] >= first && err == nil {
			files = append(files, testdb.Written(t, fmt.Sprintf("log of today, %d", len(files)), string(text[:min(size, len(text))])))
		}
	}
	p := profileOf(t, files...)
	if p.Engine != "mysql" || p.Transactions.Committed < 400 || p.Flushes.Basis != ha.UpperBoundFlushes || p.Flushes.Count > float64(p.Transactions.Committed) || !p.Exact {
		t.Errorf("%s: %+v %+v", p.Engine, p.Transactions, p.Flushes)
	}
	told := profileOf(t, append(files, "--syncs=300")...)
	if told.Flushes.Basis != ha.CalibratedFlushes || math.Abs(told.Flushes.Count-300) > 0.5 {
		t.Errorf("%+v", told.Flushes)
	}
}

// TestHAScanIsStopped: an interrupt ends a long scan of a server.
func TestHAScanIsStopped(t *testing.T) {
	t.Parallel()
	url := testdb.Postgres(t, 15).URL("postgres")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var out, errOut bytes.Buffer
	if code := run(ctx, []string{"ha", "scan", url, "--for", "10m"}, &out, &errOut); code != 130 {
		t.Errorf("exit %d: %s", code, errOut.String())
	}
}
