package repo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// thisProcess tells this process from all others that there are, were and will be: by the start of
// the system, the namespace in which it has its number, the number, and when it was started
// (proc(5): /proc/sys/kernel/random/boot_id, /proc/self/ns/pid, field 22 of /proc/self/stat).
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

// processGone says of what thisProcess has given whether that process is gone for certain: only
// somebody in the same namespace can know that.
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
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) { // who may not look into /proc may ask this
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
	clock, _ := os.Readlink("/proc/self/ns/time")  // since Linux 5.6; the time of a start is by it
	return string(bytes.TrimSpace(boot)) + "/" + space + "/" + clock, err
}

// processStarted reads when a process was started, in ticks since the system was. One that is dead
// may still be there, until its parent has asked for it.
func processStarted(pid int) (started string, dead, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false, false
	}
	// From field 3, the state, on: the program's name before it may have anything in it.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 {
		return "", false, false
	}
	return fields[19], (fields[0] == "Z" || fields[0] == "X") && fields[17] <= "1", true
}
