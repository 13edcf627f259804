package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These make the test binary start another command line of itself, inspect each system call of all
// its threads (ptrace(2)), count those that change something outside it, and kill it as it is about
// to make the n-th: so a test can end a process between any two of its changes. The tracer is a
// process of its own, since it waits for any child.
const (
	traceAt    = "TIDEMARK_TEST_KILL_AT" // n; 0: only count
	traceCount = "TIDEMARK_TEST_COUNT"   // the file in which it reports how many there were, and "killed" if it has killed
)

// mainTraced runs the test binary with these; false: they are not set.
func mainTraced() bool {
	if os.Getenv(traceAt) == "" {
		return false
	}
	at, err := strconv.Atoi(os.Getenv(traceAt))
	if err == nil {
		err = (&tracer{at: at}).run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "trace:", err)
		os.Exit(99)
	}
	return true
}

// killedAt runs a command line and kills it at its n-th change, or lets it end if it has fewer. It
// returns how many there were, and whether it was killed. Its exit code only matters if it was not
// killed.
func killedAt(t *testing.T, n int, args ...string) (changes int, killed bool, said string) {
	t.Helper()
	cmd := process(t, args...)
	count := filepath.Join(t.TempDir(), "count")
	cmd.Env = append(cmd.Env, traceAt+"="+strconv.Itoa(n), traceCount+"="+count)
	out, err := cmd.CombinedOutput()
	text, rerr := os.ReadFile(count)
	if rerr != nil {
		t.Fatalf("%v: %v: %v\n%s", args, err, rerr, out)
	}
	var how string
	if _, err := fmt.Sscan(string(text), &changes, &how); err != nil {
		t.Fatal(err)
	}
	if err != nil && how != "killed" {
		t.Fatalf("tidemark %s, which was not killed: %v\n%s", strings.Join(args, " "), err, out)
	}
	return changes, how == "killed", string(out)
}

// A tracer follows one process.
type tracer struct {
	at, n int
	pid   int
	how   string
}

func (x *tracer) run() error {
	runtime.LockOSThread() // ptrace requires a single tracing thread
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, traceAt+"=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	x.pid, x.how = cmd.Process.Pid, "ended"
	var state syscall.WaitStatus
	if _, err := syscall.Wait4(x.pid, &state, 0, nil); err != nil {
		return err
	}
	if err := syscall.PtraceSetOptions(x.pid, syscall.PTRACE_O_TRACECLONE|syscall.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		return err
	}
	if err := syscall.PtraceSyscall(x.pid, 0); err != nil {
		return err
	}
	code, err := x.follow()
	if err != nil {
		return err
	}
	if err := os.WriteFile(os.Getenv(traceCount), fmt.Appendln(nil, x.n, x.how), 0o600); err != nil {
		return err
	}
	if code != 0 && x.how == "ended" {
		os.Exit(code)
	}
	return nil
}

// follow handles stop after stop, until the process has ended.
func (x *tracer) follow() (code int, err error) {
	known := map[int]bool{x.pid: true}
	for {
		var state syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &state, unix.WALL, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		if state.Exited() || state.Signaled() {
			if tid == x.pid {
				return state.ExitStatus(), nil
			}
			continue
		}
		deliver := 0
		switch sig := state.StopSignal(); {
		case sig == syscall.SIGTRAP|0x80:
			if x.changes(tid) {
				if x.n++; x.n == x.at {
					x.how = "killed"
					if err := syscall.Kill(x.pid, syscall.SIGKILL); err != nil {
						return 0, err
					}
					continue // not allowed into the call: none of it happens
				}
			}
		case sig == syscall.SIGTRAP: // a thread starts
		case sig == syscall.SIGSTOP && !known[tid]:
			known[tid] = true
		default:
			deliver = int(sig)
		}
		if err := syscall.PtraceSyscall(tid, deliver); err != nil && err != syscall.ESRCH {
			return 0, err
		}
	}
}

// stop is the beginning of struct ptrace_syscall_info in ptrace(2).
type stop struct {
	op   uint8
	_    [7]byte
	_    [2]uint64
	call uint64
	args [6]uint64
	_    [2]uint64
}

// changes reports whether a stopped thread is about to change something.
func (x *tracer) changes(tid int) bool {
	const (
		getSyscallInfo = 0x420e
		entry          = 1
	)
	var s stop
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(s), uintptr(unsafe.Pointer(&s)), 0, 0); errno != 0 || s.op != entry {
		return false
	}
	switch s.call {
	case unix.SYS_OPENAT:
		return s.args[2]&(unix.O_CREAT|unix.O_TRUNC) != 0
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV:
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", x.pid, s.args[0]))
		return err == nil && (strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/dev/") || strings.HasPrefix(to, "socket:"))
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
		unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_COPY_FILE_RANGE:
		return true
	}
	return false
}
