package testdb

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// processPatience bounds each wait for a process, on a busy machine.
const processPatience = 3 * time.Minute

// A Process is a tidemark that runs beside a test.
type Process struct {
	Cmd   *exec.Cmd
	Ended chan struct{} // closed at its end

	tb  testing.TB
	mu  sync.Mutex
	out bytes.Buffer
}

// Start starts tidemark with args as Run does; the end of the test kills it.
func Start(tb testing.TB, args ...string) *Process {
	tb.Helper()
	p := &Process{Cmd: Command(tb, args...), Ended: make(chan struct{}), tb: tb}
	p.Cmd.Stdout, p.Cmd.Stderr = p, p
	if err := p.Cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.Ended)
		_ = p.Cmd.Wait() // its exit code is enough
	}()
	tb.Cleanup(p.Kill)
	return p
}

// Write takes what it prints, on both outputs.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// Text returns what it has printed.
func (p *Process) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Over reports whether it has ended.
func (p *Process) Over() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// Says waits until what it has printed contains a text.
func (p *Process) Says(what string) {
	p.tb.Helper()
	for end := time.Now().Add(processPatience); !strings.Contains(p.Text(), what); time.Sleep(20 * time.Millisecond) {
		if p.Over() && !strings.Contains(p.Text(), what) {
			p.tb.Fatalf("it has ended without %q:\n%s", what, p.Text())
		}
		if time.Now().After(end) {
			OnClock(p.tb)
			p.tb.Fatalf("not in time: %s\n%s", what, p.Text())
		}
	}
}

// Wait waits for its end, and returns the exit code.
func (p *Process) Wait() int {
	p.tb.Helper()
	select {
	case <-p.Ended:
	case <-time.After(processPatience):
		_ = p.Cmd.Process.Signal(syscall.SIGQUIT) // prints its stacks
		From(p.tb, "its stacks", p.Ended)
		OnClock(p.tb)
		p.tb.Fatalf("%q has not ended\n%s", p.Cmd.Args[1:], p.Text())
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Kill ends it as kill -9 does.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // it may have ended
	<-p.Ended
}

// Interrupt stops it as Ctrl-C does, and returns the exit code.
func (p *Process) Interrupt() int {
	p.tb.Helper()
	_ = p.Cmd.Process.Signal(os.Interrupt) // it may have ended
	return p.Wait()
}
