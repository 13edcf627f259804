package repo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// thisProcess distinguishes this process from all others, past and future: by the system's boot,
// its PID namespace, its PID, and when it was started (proc(5): /proc/sys/kernel/random/boot_id,
// /proc/self/ns/pid, field 22 of /proc/self/stat).
func thisProcess() string {
	space, err := pidSpace()
	if err != nil {
		return ""
	}
	started, _, ok := processStarted(os.Getpid())
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s/%d/%s", space, os.Getpid(), started)
}

// processGone reports whether the process with this result of thisProcess is certainly gone: only a
// process in the same namespace can know.
func processGone(owner string) bool {
	at := strings.LastIndexByte(owner, '/')
	if at < 0 {
		return false
	}
	rest, started := owner[:at], owner[at+1:]
	space, err := pidSpace()
	if err != nil {
		return false
	}
	var pid int
	if number, ok := strings.CutPrefix(rest, space+"/"); !ok {
		return false
	} else if _, err := fmt.Sscanf(number, "%d", &pid); err != nil || pid < 1 {
		return false
	}
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) { // works without permission to read /proc
		return true
	}
	now, dead, ok := processStarted(pid)
	return ok && (now != started || dead)
}

func pidSpace() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	space, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	clock, _ := os.Readlink("/proc/self/ns/time")  // since Linux 5.6; start times use its clock
	return string(bytes.TrimSpace(boot)) + "/" + space + "/" + clock, err
}

// processStarted returns when a process was started, in ticks since boot. A dead process may remain
// until its parent has waited for it.
func processStarted(pid int) (started string, dead, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false, false
	}
	// From field 3, the state, on: the program's name before it may contain anything.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 {
		return "", false, false
	}
	return fields[19], (fields[0] == "Z" || fields[0] == "X") && fields[17] <= "1", true
}
