package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	got, err := parseStat("42 (post) gres: (x) S 7 42 42 0 -1 4194560 100 200 0 0 150 50 1000 300 20 0 1 0 5 1 2")
	if err != nil {
		t.Fatal(err)
	}
	if want := (stat{parent: 7, cpu: 15 * time.Second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "42 (x) S 7", "42 (x) S a 42 42 0 -1 4194560 100 200 0 0 150 50 1000 300 20 0 1"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// A grandchild's CPU time counts, while the processes live and afterwards.
func TestTreeCPU(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo; read x'; echo; read x`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 1)
	for _, when := range []string{"alive", "ended"} {
		if _, err := out.Read(line); err != nil {
			t.Fatal(err)
		}
		cpu, err := treeCPU(cmd.Process.Pid)
		if err != nil || cpu < 50*time.Millisecond || cpu > 20*time.Second {
			t.Errorf("grandchild %s: %v, %v", when, cpu, err)
		}
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A command's CPU and memory are counted, its failure is reported with its output, and it ends with
// its context.
func TestRunGroup(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	busy := []string{"sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"}
	var alone, both sample
	if err := runGroup(t.Context(), []step{{args: busy}}, nil, out, &alone); err != nil {
		t.Fatal(err)
	}
	if err := runGroup(t.Context(), []step{{args: busy}, {args: busy}}, nil, out, &both); err != nil {
		t.Fatal(err)
	}
	if alone.RSS <= 0 || alone.Own < 50*time.Millisecond || both.Own < alone.Own*5/4 {
		t.Errorf("alone %+v, both %+v", alone, both)
	}
	err = runGroup(t.Context(), one("sh", "-c", "echo no such table >&2; exit 3"), nil, out, &alone)
	if err == nil || err.Error() != "sh: exit status 3" || !strings.Contains(lastLines(out.Name()), "no such table") {
		t.Errorf("got %v, and in the log %q", err, lastLines(out.Name()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := runGroup(ctx, one("sh", "-c", "sleep 900; true"), nil, out, &alone); err == nil || time.Since(start) > 5*time.Minute {
		t.Errorf("ended with %v after %v", err, time.Since(start))
	}
}

// A server ends with the program even if that is killed: the kernel ends it.
func TestProcAttr(t *testing.T) {
	if a := procAttr(nil, syscall.SIGQUIT); a.Pdeathsig != syscall.SIGQUIT || !a.Setpgid {
		t.Errorf("%+v", a)
	}
}
