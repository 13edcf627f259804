package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// procAttr starts a process in its own process group, as another user, and has the kernel send it
// quit when the thread that started it ends.
func procAttr(as *syscall.Credential, quit syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: quit, Setpgid: true}
}

// tick is the unit of CPU times in /proc: USER_HZ, 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// A stat is the part of /proc/PID/stat that we use.
type stat struct {
	parent int
	cpu    time.Duration // its own, and that of its children that have ended and were waited for
}

// parseStat parses the line as proc(5) describes it. The second field, the program's name, is in
// parentheses and may contain anything.
func parseStat(line string) (stat, error) {
	close := strings.LastIndexByte(line, ')')
	f := strings.Fields(line[close+1:])
	if close < 0 || len(f) < 15 {
		return stat{}, fmt.Errorf("not a line of /proc/PID/stat: %q", line)
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return stat{}, err
	}
	s := stat{parent: parent}
	for _, field := range f[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.cpu += time.Duration(n) * tick
	}
	return s, nil
}

// treeCPU returns the CPU time that pid and its descendants have used. A parent's time includes
// that of its ended children.
func treeCPU(pid int) (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	all := map[int]stat{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has just ended
		}
		s, err := parseStat(string(text))
		if err != nil {
			return 0, err
		}
		p, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err != nil {
			return 0, err
		}
		all[p] = s
	}
	var sum time.Duration
	for p, s := range all {
		if below(all, p, pid) {
			sum += s.cpu
		}
	}
	return sum, nil
}

func below(all map[int]stat, p, top int) bool {
	for range 50 { // no tree of ours is deeper; a table read while processes come and go may contain a cycle
		if p == top {
			return true
		}
		s, ok := all[p]
		if !ok {
			return false
		}
		p = s.parent
	}
	return false
}

// machineCPU returns the CPU time that the whole machine has used, including time stolen by the
// hypervisor.
func machineCPU() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(strings.SplitN(string(text), "\n", 2)[0])
	if len(f) < 9 || f[0] != "cpu" {
		return 0, fmt.Errorf("not /proc/stat: %q", text)
	}
	var sum time.Duration
	for _, i := range []int{1, 2, 3, 6, 7, 8} { // user, nice, system, irq, softirq, steal; not idle and iowait
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// peakRSS returns bytes; Linux counts in kB.
func peakRSS(u *syscall.Rusage) int64 { return u.Maxrss * 1024 }

// machine describes the machine that the figures come from.
func machine() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // without it, the model is left out
	model := ""
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = ", " + strings.TrimSpace(value)
			break
		}
	}
	var memory string
	text, _ = os.ReadFile("/proc/meminfo")
	if f := strings.Fields(string(text)); len(f) > 1 {
		if kb, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			memory = fmt.Sprintf(", %.0f GB memory", float64(kb)/(1<<20))
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return model + memory + ", Linux " + strings.TrimSpace(string(kernel))
}
