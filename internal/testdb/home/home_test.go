//go:build linux

package home

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What detached itself from a killed run is ended, and its folder removed; nothing else is.
func TestSweep(t *testing.T) {
	was := Temp
	defer func() { Temp = was }()
	Temp = t.TempDir()
	t.Setenv("TIDEMARK_TEST_CACHE", t.TempDir())
	alive, remove, err := Make("")
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	gone := filepath.Join(Temp, pattern+"12")
	other := filepath.Join(Temp, "another")
	for _, dir := range []string{gone, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(gone, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	run := func(name, in string, args ...string) (ended func() bool) {
		program := filepath.Join(other, name)
		if out, err := exec.Command("cp", sleep, program).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		cmd := exec.Command(program, append([]string{"600"}, args...)...)
		cmd.Dir, cmd.SysProcAttr = in, &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
		return func() bool {
			select {
			case <-done:
				return true
			case <-time.After(50 * time.Millisecond):
				return false
			}
		}
	}
	left := run("mysqld", gone)
	running, shell, stranger := run("postgres", alive), run("less", gone), run("mariadbd", other)
	ended, err := Sweep()
	if err != nil || len(ended) != 1 || !strings.HasPrefix(ended[0], "mysqld (process ") || !strings.HasSuffix(ended[0], " in "+gone) {
		t.Errorf("ended: %q, %v", ended, err)
	}
	for begun := time.Now(); !left(); {
		if time.Since(begun) > time.Minute {
			t.Fatal("a leftover server still runs")
		}
	}
	if running() || shell() || stranger() {
		t.Error("a process was ended that nobody left behind")
	}
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		t.Errorf("its folder: %v", err)
	}
	if _, err := os.Stat(alive); err != nil {
		t.Error(err)
	}
	gone = filepath.Join(Temp, pattern+"13") // a folder that was removed under its server
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	left = run("java", gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if ended, err := Sweep(); err != nil || len(ended) != 1 || !left() {
		t.Errorf("ended: %q, %v", ended, err)
	}
}
