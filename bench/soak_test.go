package main

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// Counts are parsed from the output of the load programs.
func TestLoadCounts(t *testing.T) {
	done, failed := pgbenchCounts("scaling factor: 5\nnumber of transactions actually processed: 5987\nnumber of failed transactions: 3 (0.050%)\nlatency average = 5.1 ms\n")
	if done != 5987 || failed != 3 {
		t.Errorf("pgbench: %d done, %d failed", done, failed)
	}
	done, failed = tpccCounts(`[Current] NEW_ORDER - Takes(s): 9.8, Count: 77, TPM: 471.3
Finished
[Summary] DELIVERY - Takes(s): 57.3, Count: 19, TPM: 19.9, Sum(ms): 8119.0
[Summary] NEW_ORDER - Takes(s): 59.7, Count: 455, TPM: 457.1, Sum(ms): 124120.7
[Summary] NEW_ORDER_ERR - Takes(s): 59.7, Count: 2, TPM: 2.0, Sum(ms): 420.7
tpmC: 457.1, tpmTotal: 1017.9, efficiency: 1777.3%
`)
	if done != 474 || failed != 2 {
		t.Errorf("go-tpc: %d done, %d failed", done, failed)
	}
	if done, failed := tpccCounts("Finished\n"); done != 0 || failed != 0 {
		t.Errorf("nothing: %d done, %d failed", done, failed)
	}
}

func TestCutoverCounts(t *testing.T) {
	transactions, rows, err := cutoverCounts("applied:   everything in the source's log (1,234 transactions, 56 rows)\nsequences: 0 sequences advanced on the target\n")
	if err != nil || transactions != 1234 || rows != 56 {
		t.Errorf("%d transactions, %d rows, %v", transactions, rows, err)
	}
	if _, _, err := cutoverCounts("nothing"); err == nil {
		t.Error("a count was found where there is none")
	}
}

// A follower reads its process's output, in pieces of any size, and keeps the latest status.
func TestFollower(t *testing.T) {
	const said = `{"event":"plan","run":"x","tables":13,"objects":2,"position":{"place":7}}
{"event":"progress","seconds":1,"rows":100}
{"event":"stream","time":"2026-11-21T22:00:10Z","trans_applied":5,"rows_applied":20,"oldest_trans":"2026-11-21T22:00:07Z","idle":false}
run 4711: not JSON
{"event":"retry","object":"stream main","error":"server went away"}
{"event":"stream","time":"2026-11-21T22:00:11Z","trans_applied":9,"rows_applied":36,"oldest_trans":"2026-11-21T22:00:01Z","idle":true}
{"event":"report","run":"x","report":{"stream":{"trans_applied":10,"rows_applied":40,"end2end_latency":{"p50":4.5,"p99":20}}}}
{"event":"str`
	for _, size := range []int{1, 7, len(said)} {
		var log bytes.Buffer
		f := &follower{begun: make(chan struct{}), log: &log}
		for piece := range slices.Chunk([]byte(said), size) {
			if _, err := f.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-f.begun:
		default:
			t.Error("it has not begun")
		}
		now := f.now()
		if now.Transactions != 9 || now.Rows != 36 || now.behind() != 0 || f.worst != 3*time.Second {
			t.Errorf("%+v, at worst %v behind", now, f.worst)
		}
		if f.report == nil || f.report.Rows != 40 || f.report.EndToEnd.P99 != 20 {
			t.Errorf("report %+v", f.report)
		}
		if len(f.events) != 1 || f.events[0] != "retry stream main server went away" || log.String() != said {
			t.Errorf("events %q, log %q", f.events, log.String())
		}
	}
}

func TestChoosePairs(t *testing.T) {
	got, err := choosePairs("maria-maria,pg-pg")
	if err != nil || len(got) != 2 || got[0].source != "maria" || got[1].target != "postgres" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := choosePairs("pg-oracle"); err == nil {
		t.Error("an unknown pair was taken")
	}
	var out strings.Builder
	for _, bad := range []string{"--pairs none", "--minutes 0", "--kills -1", "--rate 0", "extra"} {
		if err := run(t.Context(), append([]string{"soak"}, strings.Fields(bad)...), &out); err == nil {
			t.Errorf("soak %s was accepted", bad)
		}
	}
}

// The outcome of a pair is printed, and any failure.
func TestSoakedPrint(t *testing.T) {
	r := &soaked{Pair: "pg-pg", Minutes: 1, Load: &load{TPCB: 6000, TPCC: 1200, TPCCFailed: 2}, Rows: 40000, Kills: []float64{1.2, 0.9}, RSS: 90 << 20}
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{"pg-pg, 1 minutes: clean\n", "6000 transactions of pgbench (100/s; 0 failed), 1200 of TPC-C (20/s; 2 failed)", "2; followed again after 1.2 s, 0.9 s", "peak RSS 90 MB"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
	r.fail(exec.ErrNotFound)
	out.Reset()
	if r.print(&out); !strings.Contains(out.String(), "NOT clean: executable file not found") {
		t.Error(out.String())
	}
}

// A process started by background is waited for.
func TestBackground(t *testing.T) {
	cmd := exec.Command("sh", "-c", "exit 7")
	done, err := background(cmd)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit %d", code)
	}
	if _, err := background(exec.Command("/no/such/program")); err == nil {
		t.Error("a program that is not there was started")
	}
}
