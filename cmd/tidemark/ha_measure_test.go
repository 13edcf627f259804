package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestHAMeasureDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := must(t, "ha", "measure", "disk", dir, "--time", "500ms", "--size", "8MB").out
	for _, part := range []string{"as postgres writes its log: fdatasync, recycled file", "A write takes 0.", "OFF THE FIT", "The other ways", "O_DSYNC, direct, recycled file", "longer than 100 ms"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
	atLast(t, func() string {
		var r measure.DiskReport
		if err := json.Unmarshal([]byte(must(t, "ha", "measure", "disk", dir, "--time", "500ms", "--size", "8MB", "--engine", "mariadb", "--json").out), &r); err != nil || r.Unit != 512 || r.Overhead <= 0 || r.Way != "fdatasync, growing file" {
			return fmt.Sprintf("%v: %+v", err, r.Disk)
		}
		return ""
	})
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// An interrupted measurement leaves nothing behind.
func TestHAMeasureDiskInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := process(t, "ha", "measure", "disk", dir, "--time", "5m")
	var errOut strings.Builder
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for try := 0; ; try++ {
		if left, _ := os.ReadDir(filepath.Join(dir, "tidemark-measure")); len(left) == 2 {
			break
		}
		if try > 30000 {
			t.Fatal("it does not begin")
		}
		time.Sleep(20 * time.Millisecond)
	}
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(errOut.String(), "tidemark: measure disk") {
		t.Errorf("exit %d: %s", code, errOut.String())
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestHAMeasureErrors(t *testing.T) {
	dir := t.TempDir()
	live := filepath.Join(dir, "pg_wal")
	if err := os.Mkdir(live, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(live, "000000010000000000000001"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(dir, "profile")
	if err := os.WriteFile(profile, []byte(`{"format":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	closed := testdb.FreeAddress(t)
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"measure-what", 2, []string{"measure", "tape"}},
		{"measure-a-live-log", 2, []string{"measure", "disk", live}},
		{"measure-no-folder", 6, []string{"measure", "disk", filepath.Join(dir, "none")}},
		{"measure-no-peer", 2, []string{"measure", "network"}},
		{"measure-nobody", 3, []string{"measure", "network", closed}},
		{"simulate-no-standby", 2, []string{"simulate", "--primary"}},
		{"simulate-both", 2, []string{"simulate", "--primary", "--standby"}},
		{"simulate-neither", 2, []string{"simulate", "127.0.0.1:1"}},
		{"simulate-no-mode", 2, []string{"simulate", "--mode", "always"}},
		{"simulate-no-profile", 6, []string{"simulate", "--profile", filepath.Join(dir, "none")}},
		{"simulate-another-file", 15, []string{"simulate", "--profile", profile}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := cli(t, append([]string{"ha"}, c.args...)...)
			o.errOut = strings.ReplaceAll(strings.ReplaceAll(o.errOut, closed, "{peer}"), dir, "{dir}")
			sameText(t, o, c.code, nil)
		})
	}
}

// Two processes, as on two hosts.
func TestHASimulateAcrossProcesses(t *testing.T) {
	t.Parallel()
	addr := testdb.FreeAddress(t)
	dir := t.TempDir()
	standby := process(t, "ha", "simulate", "--standby", addr, "--dir", dir, "--once")
	var said strings.Builder
	standby.Stderr = &said
	if err := standby.Start(); err != nil {
		t.Fatal(err)
	}
	var o outcome
	for try := 0; ; try++ {
		if o = cli(t, "ha", "simulate", "--primary", addr, "--mode", "NEARSYNC", "--flush-size", "32kB", "--count", "50"); o.code != 3 || try > 6000 {
			break // 3: it does not listen yet
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := standby.Wait(); err != nil || !strings.Contains(said.String(), "shipping a log") {
		t.Errorf("the standby: %v, %s", err, said.String())
	}
	for _, part := range []string{"NEARSYNC (db2) to " + addr, "NEARSYNC: 1.6 MB in", "50 flushes of 32.0 kB", "standby's disk", "log writer", "standby receiver", "WaitWork"} {
		if !strings.Contains(o.out, part) {
			t.Errorf("%q is missing in\n%s%s", part, o.out, o.errOut)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestHASimulateFromAProfile(t *testing.T) {
	t.Parallel()
	p := ha.Profile{Format: ha.ProfileFormat, Intervals: []ha.Interval{{Seconds: 1, Ended: 2, Flushes: 2}}}
	p.Distributions.TxSize = ha.Distribution{Count: 2, Min: 700, Max: 700, Mean: 700, Buckets: []ha.Band{{From: 700, To: 700, Count: 2}}}
	p.Distributions.FlushBytes = ha.Distribution{Count: 2, Min: 9000, Max: 9000, Mean: 9000, Buckets: []ha.Band{{From: 9000, To: 9000, Count: 2}}}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "profile.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, bytes := range map[string]int64{"remote_write": 30 * 700, "SYNC": 30 * 12288} {
		var r measure.SimReport
		out := must(t, "ha", "simulate", "--mode", mode, "--profile", file, "--count", "30", "--json").out
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.Bytes != bytes || r.OnStandby.Bytes != bytes {
			t.Errorf("%s: %v, %d bytes, not %d", mode, err, r.Bytes, bytes)
		}
	}
}
