package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/notation"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// published is a rate line and a distribution as Db2's scanner prints them.
const published = `2013-02-26 15:36:09  1.363 MB/s, 60 sec, 3.5 pg/f, 0.010018 sec/f, 4.3 pg/tr, 0.102471 sec/tr, 0.012782 sec/cmt, nOpenTrans 32.4

Log write rate (MB/s)
Total 1 numbers, Sum 1.362, Min 1.362, Max 1.362, Avg 1.362
Exactly 1.362 1 numbers 100%

Flush size (page)
Total 0 numbers, Sum 0, Min 0, Max 0, Avg 0.0
`

const wan = "--network=10MiB/s,100ms"

func TestHABadInput(t *testing.T) {
	disk := "--disk=200MiB/s,1ms"
	none := strings.NewReplacer("1.363", "0.000", "3.5 pg", "0.0 pg", "0.010018", "0.000000", "4.3 pg", "0.0 pg", "0.102471", "0.000000", "0.012782", "0.000000").Replace(published)
	for _, b := range []struct {
		name string
		args func(t *testing.T) []string
		code int
	}{
		{"ha-no-such-command", func(*testing.T) []string { return []string{"ha", "scna"} }, 2},
		{"ha-scan-of-nothing", func(*testing.T) []string { return []string{"ha", "scan"} }, 2},
		{"ha-scan-of-a-letter", func(t *testing.T) []string {
			return []string{"ha", "scan", testdb.Written(t, "letter.txt", strings.Repeat("Dear all, ", 1000))}
		}, 15},
		{"ha-scan-of-a-missing-file", func(t *testing.T) []string {
			return []string{"ha", "scan", filepath.Join(t.TempDir(), "mysql-bin.000001")}
		}, 6},
		{"ha-scan-follows-files", func(t *testing.T) []string {
			return []string{"ha", "scan", "--for=5s", testdb.Written(t, "x.000001", "")}
		}, 2},
		{"ha-scan-records-as-json", func(t *testing.T) []string {
			return []string{"ha", "scan", "--json", "--info-level=record", testdb.Written(t, "x.000001", "")}
		}, 2},
		{"ha-scan-interval", func(*testing.T) []string { return []string{"ha", "scan", "--interval=-5", "x"} }, 2},
		{"ha-scan-of-another-server", func(*testing.T) []string { return []string{"ha", "scan", "oracle://me@db/x"} }, 2},
		{"ha-calculate-without-network", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk}
		}, 2},
		{"ha-calculate-rate-of-zero", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), "--disk=0,1ms", wan}
		}, 2},
		{"ha-calculate-negative-rate", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, "--network=-10MiB/s,100ms"}
		}, 2},
		{"ha-calculate-negative-time", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, "--network=10MiB/s,-100ms"}
		}, 2},
		{"ha-calculate-unit", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), "--disk=200 furlongs,1ms", wan}
		}, 2},
		{"ha-calculate-no-commits", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", none), disk, wan}
		}, 20},
		{"ha-calculate-foreign-text", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "letter.txt", "Dear all,\nfrom 1 to 2 MB/s.\n"), disk, wan}
		}, 15},
		{"ha-calculate-foreign-json", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "x.json", `{"name": 1}`), disk, wan}
		}, 15},
		{"ha-calculate-missing-file", func(t *testing.T) []string {
			return []string{"ha", "calculate", filepath.Join(t.TempDir(), "a.scan"), disk, wan}
		}, 6},
		{"ha-calculate-no-mode", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--syncmode=SYNC,SEMI"}
		}, 2},
		{"ha-calculate-no-mode-of-postgres", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--engine=postgres", "--syncmode=SYNC"}
		}, 2},
		{"ha-calculate-quorum", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--engine=postgres", "--quorum=BOTH 2"}
		}, 2},
		{"ha-calculate-quorum-of-one", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--engine=postgres", "--quorum=ANY 2"}
		}, 2},
		{"ha-calculate-two-with-db2", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), testdb.Written(t, "b.scan", "Log of mysql 8.0.33\n"+published), disk, wan}
		}, 2},
		{"ha-calculate-what-if-of-db2", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--engine=db2", "--what-if=rtt=5ms; clients=8"}
		}, 2},
		{"ha-calculate-what-if-of-db2s-standby", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--engine=db2", "--what-if=rtt@far=5ms"}
		}, 2},
		{"ha-calculate-sweep-of-db2", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--engine=db2", "--sweep=clients"}
		}, 2},
		{"ha-calculate-networks-of-db2", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, wan, "--engine=db2"}
		}, 2},
		{"ha-calculate-two-engines", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", "Log of postgres 15\n"+published), testdb.Written(t, "b.scan", "Log of mysql 8.0.33\n"+published), disk, wan}
		}, 2},
		{"ha-calculate-disks", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", "Log of postgres 15\n"+published), disk, wan, wan, wan, "--standby-disk=1,1ms", "--standby-disk=2,1ms"}
		}, 2},
		{"ha-calculate-what-if", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--what-if=cheese=5"}
		}, 2},
		{"ha-calculate-what-if-nobody", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", "Log of postgres 15\n"+published), disk, wan, "--what-if=rtt@paris=5ms"}
		}, 2},
		{"ha-calculate-what-if-value", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--what-if=rtt=far"}
		}, 2},
		{"ha-calculate-sweep", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--sweep=rtt=1ms,soon"}
		}, 2},
		{"ha-calculate-local", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--local=many"}
		}, 2},
		{"ha-calculate-near", func(t *testing.T) []string {
			return []string{"ha", "calculate", testdb.Written(t, "a.scan", published), disk, wan, "--near=on=5"}
		}, 2},
		{"ha-scan-from-of-files", func(t *testing.T) []string {
			return []string{"ha", "scan", "--from=0/1000000", testdb.Written(t, "x.000001", "")}
		}, 2},
		{"ha-scan-from-nowhere", func(*testing.T) []string { return []string{"ha", "scan", "--from=yesterday", "postgres://me@db/x"} }, 2},
		{"ha-scan-from-a-gtid", func(*testing.T) []string { return []string{"ha", "scan", "--until=0-1-5", "mariadb://me@db/"} }, 2},
	} {
		t.Run(b.name, func(t *testing.T) {
			args := b.args(t)
			sameText(t, cli(t, args...), b.code, args)
		})
	}
}

// TestHACalculate: the command prints the published lines, as text and as JSON.
func TestHACalculate(t *testing.T) {
	file := testdb.Written(t, "a.scan", published)
	disk := testdb.Written(t, "disk.json", `{"bytes_per_second": 209715200, "overhead_seconds": 0.001, "engine": "postgres"}`)
	o := must(t, "ha", "calculate", file, "--disk", disk, wan)
	for _, want := range []string{
		published[:strings.Index(published, "\n")],
		"\n      SYNC  ??   1.373 MB/s@  42 pg/f 0.120146 s/f, min   0.132 MB/s@   3 pg/f 0.103504 s/f, max   3.362 MB/s@ 139 pg/f 0.161864 s/f\n",
		"\n  NEARSYNC  ??   1.370 MB/s@  40 pg/f 0.115874 s/f, min   0.135 MB/s@   3 pg/f 0.101367 s/f, max   3.524 MB/s@ 139 pg/f 0.154422 s/f\n",
		"\n     ASYNC      10.000 MB/s@   3 pg/f 0.001367 s/f, min  10.000 MB/s@   3 pg/f 0.001367 s/f, max  10.000 MB/s@ 139 pg/f 0.054422 s/f\n",
		"\nREMOTE CATCHUP      10.000 MB/s@  16 pg/f 0.006250 s/f\n",
		"\n      SYNC largest flush: predicted 42 pages, the workload's at most 139 pages\n",
	} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	o = must(t, "ha", "calculate", file, "--disk", "200,0.001", "--network", "10,0.1", "--json", "--syncmode", "sync")
	var r ha.Db2Report
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Intervals) != 1 || len(r.Intervals[0].Modes) != 1 || r.Intervals[0].Modes[0].Marker != "??" || int64(r.MaxFlush[0].Predicted) != 42 || r.Network.RTT != 0.1 || r.Disk.Rate != 200<<20 {
		t.Errorf("%s", o.out)
	}
}

// TestHACalculateDb2: several scans, what-if options, and sizes for sockets; options without effect
// are refused.
func TestHACalculateDb2(t *testing.T) {
	busy := strings.NewReplacer("15:36:09  1.363", "15:37:09  2.726").Replace(published)
	args := []string{"ha", "calculate", testdb.Written(t, "mon.scan", published), testdb.Written(t, "tue.scan", busy), "--disk=200MiB/s,1ms", wan, "--what-if=rtt=10ms; network=50MiB/s", "--sweep=disk=1ms,5ms"}
	text := must(t, args...).out
	for _, want := range []string{"\n2013-02-26 15:36:09  1.363 MB/s", "\n2013-02-26 15:37:09  2.726 MB/s", "\n      SYNC ???", "\nSocket buffers: 1.0 MiB at least", "\n  db2set DB2_HADR_SOSNDBUF=1048576\n  db2set DB2_HADR_SORCVBUF=1048576\n",
		"\nas it is ", "\nrtt=10ms; network=50MiB/s  SYNC ", "\na write 5.00 ms ", " 2 of 2 "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "REMOTE CATCHUP"); n != 2 || strings.Count(text, "largest flush: predicted") != 3 {
		t.Errorf("%d scans:\n%s", n, text)
	}
	var r ha.Db2Report
	if err := json.Unmarshal([]byte(must(t, append(args, "--json")...).out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Intervals) != 2 || r.Intervals[1].Scan != args[3] || r.Intervals[1].Rate != 2.726 || len(r.WhatIfs) != 4 || r.WhatIfs[1].Network.RTT != 0.01 || r.WhatIfs[3].Disk.Overhead != 0.005 || r.Buffers.Better != 1<<20 {
		t.Errorf("%+v", r)
	}
	values := map[string]string{"standby-disk": "1,1ms", "replay": "5MiB/s", "local": "1=900", "paused": "10ms=2ms", "near": "on:32=2500,0.4ms", "quorum": "ANY 1", "semisync-timeout": "5s", "backlog": "1GB", "clients": "8", "free": "1GB", "outage": "2h", "sync-relay": "on"}
	if len(values) != len(notOfDb2) {
		t.Errorf("%d values for %d options", len(values), len(notOfDb2))
	}
	for _, name := range notOfDb2 {
		if o := cli(t, "ha", "calculate", args[2], "--disk=200MiB/s,1ms", wan, "--"+name+"="+values[name]); o.code != 2 || !strings.Contains(o.errOut, "--"+name+": Db2's formulas do not use it") {
			t.Errorf("--%s: exit %d: %s", name, o.code, o.errOut)
		}
	}
}

// TestHACalculateModels: a scan of PostgreSQL gets PostgreSQL's modes, with as many standbys as
// networks.
func TestHACalculateModels(t *testing.T) {
	file := testdb.Written(t, "a.scan", "Log of postgres 15\n"+published)
	disk := "--disk=200MiB/s,1ms"
	args := []string{"ha", "calculate", file, disk, wan, "--network=1Gbit/s,5ms", "--syncmode=remote_write, on", "--clients=8"}
	p50 := map[string]float64{}
	for _, quorum := range []string{"FIRST 1", "ANY 1"} {
		o := must(t, append(args, "--quorum", quorum, "--json")...)
		var f ha.Forecast
		if err := json.Unmarshal([]byte(o.out), &f); err != nil {
			t.Fatal(err)
		}
		if len(f.Predictions) != 2 || len(f.Sites.Standbys) != 2 || f.Sites.Version != "15" || f.Load.Clients != 8 || f.Load.Think <= 0 {
			t.Fatalf("%s", o.out)
		}
		for _, p := range f.Predictions {
			p50[quorum+" "+p.Mode] = p.Commit.P50
		}
	}
	if p50["FIRST 1 on"] < p50["FIRST 1 remote_write"] || p50["FIRST 1 remote_write"] < 0.1 || p50["ANY 1 on"] < 0.005 || p50["ANY 1 on"] > 0.05 {
		t.Errorf("%v", p50)
	}
	text := must(t, args...).out
	for _, want := range []string{"PostgreSQL 15\n", "The busiest of 1 interval: 2013-02-26 15:36:09  1.363 MB/s", "\nremote_write", "Commits wait for the first 1 of 2.", "Load: 8 clients"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	// A disk whose limit was not reached.
	any := testdb.Written(t, "disk.json", `{"bytes_per_second": 0, "overhead_seconds": 0.001, "engine": "postgres"}`)
	if text := must(t, "ha", "calculate", file, "--disk", any, wan, "--syncmode=remote_write").out; !strings.Contains(text, "remote_write") || strings.Contains(text, "Inf") || strings.Contains(text, "NaN") {
		t.Error(text)
	}
	if text := must(t, "ha", "calculate", file, "--disk", any, wan, "--engine=db2").out; !strings.Contains(text, "Disk: any rate, overhead 0.001000 s a write") {
		t.Error(text)
	}
	if mysql := must(t, "ha", "calculate", file, disk, wan, "--engine=mysql").out; !strings.Contains(mysql, "AFTER_SYNC") {
		t.Error(mysql)
	}
}

// TestHACalculateInputs: measurements beyond disk and network, for each standby, what-if options,
// and ranges of what varies.
func TestHACalculateInputs(t *testing.T) {
	busy := strings.NewReplacer("15:36:09  1.363", "15:37:09  2.726", "0.012782 sec/cmt", "0.006391 sec/cmt").Replace(published)
	scans := []string{testdb.Written(t, "mon.scan", "Log of postgres 15\n"+published), testdb.Written(t, "tue.scan", "Log of postgres 15\n"+busy)}
	args := append([]string{"ha", "calculate"}, append(scans, "--disk=200MiB/s,1ms", "--clients=32", "--quorum=FIRST 2", "--syncmode=on,remote_apply",
		"--network=near=1Gbit/s,1ms,0.3ms", "--network=far=1Gbit/s,20ms", "--standby-disk=400MiB/s,0.5ms", "--standby-disk=100MiB/s,3ms", "--replay=10MiB/s,2ms", "--local=1=900,1ms,4ms", "--local=32=4000/s",
		"--paused=10ms=2ms", "--near=on:32=2500,0.4ms", "--what-if=rtt@far=5ms; quorum=ANY 1", "--what-if=disk=1GiB/s,50us", "--sweep=rtt=1ms,40ms", "--sweep=rate")...)
	var f ha.Forecast
	if err := json.Unmarshal([]byte(must(t, append(args, "--json")...).out), &f); err != nil {
		t.Fatal(err)
	}
	a, b := f.Sites.Standbys[0], f.Sites.Standbys[1]
	if a.Name != "near" || b.Name != "far" || a.Network.Hop != 0.0003 || a.Disk.Overhead != 0.0005 || b.Disk.Overhead != 0.003 || a.Replay != 10<<20 || b.ReplayDelay != 0.002 {
		t.Errorf("%+v\n%+v", a, b)
	}
	if o := f.Load.From; o == nil || o.Scan != scans[1] || o.Scans != 2 || o.Intervals != 2 || len(f.Load.LogRates) != 2 || len(f.Load.Local) != 2 || len(f.Load.Pauses) != 1 || len(f.Sites.Near) != 1 {
		t.Errorf("%+v", f.Load)
	}
	now, then := f.WhatIfs[0].Modes[0], f.WhatIfs[len(f.WhatIfs)-2]
	if then.If != "rtt@far=5ms; quorum=ANY 1" || then.Modes[0].P50 > now.P50/2 || now.P50 < 0.020 {
		t.Errorf("%+v, and now %+v", then, now)
	}
	if len(f.Changes) != 2 || f.Changes[0].FirstCommits <= 0 {
		t.Errorf("%+v", f.Changes)
	}
	text := must(t, args...).out
	for _, want := range []string{"The busiest of 2 intervals in 2 scans, of " + scans[1] + ": 2013-02-26 15:37:09", "Without a standby, as measured: 900 commits/s of 1 client, 4000 commits/s of 32 clients", "Commits wait for the first 2 of 2.",
		"Standby far: round trip 20.00 ms", "\nrtt@far=5ms; quorum=ANY 1 ", "\nround trip ", "\n40.00 ms ", "\ncommits/s wanted ", "Switching from asynchronous to on, remote_apply while "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestRatesAndTimes(t *testing.T) {
	for in, want := range map[string]float64{"1": 1 << 20, "1MiB/s": 1 << 20, "10MB/s": 1e7, "1Gbit/s": 1.25e8, "1.5 GiB/s": 1.5 * (1 << 30), "800kbit/s": 1e5, "5B/s": 5} {
		if got, err := notation.ParseRate(in); err != nil || got != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for in, want := range map[string]float64{"0.1": 0.1, "100ms": 0.1, "0": 0, "85us": 85e-6, "85µs": 85e-6, "2s": 2} {
		if got, err := notation.ParseSeconds(in); err != nil || got-want > 1e-15 || want-got > 1e-15 {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "fast", "0", "-1", "1 parsec", "NaN", "1e400", "1ms"} {
		if got, err := notation.ParseRate(in); err == nil {
			t.Errorf("%q is %v", in, got)
		}
	}
}
