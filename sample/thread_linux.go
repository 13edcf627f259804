package sample

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// A thread is a server's thread on this machine at a moment: proc(5), and for schedstat
// Documentation/scheduler/sched-stats.rst of the kernel.
type thread struct {
	at     time.Time
	state  byte          // R, S, D
	ran    time.Duration // on a processor so far
	queued time.Duration // ready, without a processor
	call   string        // what it waits for, if we may know: "fsync ib_logfile0"
	kind   tidemark.WaitKind
}

// servers are the programs whose threads are looked at: a number that a distant server tells is
// that of another thread here.
var servers = engine.Programs()

// threadOf looks at a thread; ok is false if it is not one of a database server here.
func threadOf(id int, now time.Time) (t thread, ok bool) {
	dir := "/proc/" + strconv.Itoa(id) + "/"
	if id <= 0 || !ofServer(dir) {
		return t, false
	}
	if t, ok = threadIn(dir, now); ok && t.state != 'R' {
		verb, file := callOf(dir)
		t.call, t.kind = verb, fileKind(verb, file)
		if file != "" {
			t.call += " " + file[strings.LastIndexByte(file, '/')+1:]
		}
	}
	return t, ok
}

// threadIn looks at the thread of a folder of /proc, but not at its call.
func threadIn(dir string, now time.Time) (t thread, ok bool) {
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return t, false
	}
	// "pid (comm) state ...": the name may contain anything.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 || end+2 >= len(stat) {
		return t, false
	}
	t.at, t.state = now, stat[end+2]
	sched, err := os.ReadFile(dir + "schedstat")
	if err != nil {
		return t, false
	}
	var ran, queued int64
	if n, _ := fmt.Sscan(string(sched), &ran, &queued); n != 2 {
		return t, false
	}
	t.ran, t.queued = time.Duration(ran), time.Duration(queued)
	return t, true
}

// ofServer reports whether a thread belongs to a database server.
func ofServer(dir string) bool {
	exe, err := os.ReadFile(dir + "comm")
	if err != nil {
		return false
	}
	name := strings.TrimSpace(string(exe))
	for _, s := range servers {
		if name == s {
			return true
		}
	}
	// Threads may have names of their own: then the process's counts.
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if group, found := strings.CutPrefix(line, "Tgid:"); found {
			group = strings.TrimSpace(group)
			if dir == "/proc/"+group+"/" {
				return false
			}
			return ofServer("/proc/" + group + "/")
		}
	}
	return false
}

// callOf returns the system call in which a thread waits, "" if it is none of these, and on which
// file: none if it polls. Only the thread's owner and root may see it.
func callOf(dir string) (verb, file string) {
	text, err := os.ReadFile(dir + "syscall")
	if err != nil {
		return "", ""
	}
	var number int
	var descriptor uint64
	if n, _ := fmt.Sscan(strings.Replace(string(text), " 0x", " ", 1), &number); n != 1 {
		return "", ""
	}
	fields := strings.Fields(string(text))
	if len(fields) > 1 {
		descriptor, _ = strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 64)
	}
	switch number {
	case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC, syscall.SYS_SYNC_FILE_RANGE, unix.SYS_SYNCFS:
		verb = "sync"
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64, syscall.SYS_WRITEV, syscall.SYS_SENDTO, syscall.SYS_SENDMSG:
		verb = "write"
	case syscall.SYS_READ, syscall.SYS_PREAD64, syscall.SYS_READV, unix.SYS_PREADV2, syscall.SYS_RECVFROM, syscall.SYS_RECVMSG:
		verb = "read"
	case syscall.SYS_FUTEX:
		return parked, ""
	case syscall.SYS_PPOLL:
		return "poll", ""
	default:
		if number == sysPoll {
			return "poll", ""
		}
		return "", ""
	}
	file, err = os.Readlink(dir + "fd/" + strconv.FormatUint(descriptor, 10))
	if err != nil {
		return "", ""
	}
	return verb, file
}

// fileKind returns what a call on a file of MySQL or MariaDB is.
func fileKind(verb, name string) tidemark.WaitKind {
	base := name[strings.LastIndexByte(name, '/')+1:]
	switch {
	case verb == "", verb == parked:
		return ""
	case verb == "poll", strings.HasPrefix(name, "socket:"):
		return tidemark.WaitNetwork
	case strings.HasPrefix(base, "#sql") || strings.HasPrefix(base, "ML") || strings.Contains(name, "(deleted)") || strings.HasPrefix(base, "ibtmp"):
		return tidemark.WaitTemp
	case strings.HasPrefix(base, "ib_logfile") || strings.HasPrefix(base, "#ib_redo") || strings.Contains(base, "-bin."):
		if verb == "sync" {
			return tidemark.WaitLogSync
		}
		return tidemark.WaitLogWrite
	case verb == "read":
		return tidemark.WaitDataRead
	}
	return tidemark.WaitDataWrite
}

// refine divides one look at a session by what its thread has done since the look before. Where the
// server names what the session waits for, that is believed.
func (t thread) refine(w tidemark.Wait, last thread) map[named]float64 {
	ran, queued := t.ran-last.ran, t.queued-last.queued
	switch w.Kind {
	case tidemark.WaitCPU: // ready all the time, as far as the server knows
		if ran+queued <= 0 {
			return map[named]float64{{w.Kind, w.Event}: 1}
		}
		wait := float64(queued) / float64(ran+queued)
		return map[named]float64{{tidemark.WaitCPU, ""}: 1 - wait, {tidemark.WaitProcessor, ""}: wait}
	case tidemark.WaitUnknown:
	default:
		return map[named]float64{{w.Kind, w.Event}: 1}
	}
	took := max(t.at.Sub(last.at), ran+queued, time.Nanosecond)
	out := map[named]float64{{tidemark.WaitCPU, ""}: float64(ran) / float64(took), {tidemark.WaitProcessor, ""}: float64(queued) / float64(took)}
	rest := 1 - float64(ran+queued)/float64(took)
	switch {
	case t.kind != "":
		out[named{t.kind, t.call}] += rest
	case t.state == 'D':
		out[named{tidemark.WaitDisk, w.Event}] += rest
	default:
		out[named{tidemark.WaitUnknown, w.Event}] += rest
	}
	return out
}

// ownThread looks at a thread of this process.
func ownThread(id int, now time.Time) (t thread, ok bool) {
	dir := "/proc/self/task/" + strconv.Itoa(id) + "/"
	if t, ok = threadIn(dir, now); !ok || t.state == 'R' {
		return t, ok
	}
	verb, file := callOf(dir)
	switch t.call = verb; {
	case strings.HasPrefix(file, "socket:"):
		t.kind = tidemark.WaitNetwork
	case verb == "sync":
		t.kind = tidemark.WaitSync
	case verb == "read":
		t.kind = tidemark.WaitDataRead
	case verb == "write":
		t.kind = tidemark.WaitDataWrite
	}
	return t, true
}

// callBelow returns what this process does to files below a folder: a sync, or else a write.
func callBelow(folder string) (kind tidemark.WaitKind) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return ""
	}
	for _, t := range threads {
		verb, file := callOf("/proc/self/task/" + t.Name() + "/")
		switch {
		case !strings.HasPrefix(file, folder+"/"):
		case verb == "sync":
			return tidemark.WaitSync
		case verb == "write":
			kind = tidemark.WaitDataWrite
		}
	}
	return kind
}
