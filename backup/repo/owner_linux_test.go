package repo

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A process is identified even if it is dead, or another one has its PID by now.
func TestProcessGone(t *testing.T) {
	me := thisProcess()
	if me == "" || processGone(me) {
		t.Fatalf("this process, %q, is gone", me)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started, dead, ok := processStarted(cmd.Process.Pid)
	if !ok || dead {
		t.Errorf("dead %v, known %v", dead, ok)
	}
	space, err := pidSpace()
	if err != nil {
		t.Fatal(err)
	}
	child := fmt.Sprintf("%s/%d/%s", space, cmd.Process.Pid, started)
	for owner, want := range map[string]bool{
		child: false,
		me[:strings.LastIndexByte(me, '/')] + "/1": true, // an earlier process with that PID
		space + "/999999999/1":                     true,
		"x" + child:                                false, // of another system
		"":                                         false, // of a process that does not know it
		"/":                                        false,
	} {
		if got := processGone(owner); got != want {
			t.Errorf("%q is gone: %v", owner, got)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); !processGone(child); time.Sleep(time.Millisecond) { // until its parent waits for it, it is a zombie
		if time.Since(begun) > time.Minute {
			t.Fatal("it is still there")
		}
	}
	_ = cmd.Wait() // it was killed
	if !processGone(child) {
		t.Error("it is there again")
	}
}
