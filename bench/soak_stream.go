package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A status is a status line of tidemark, as far as we use it.
type status struct {
	Event        string
	Object       string
	Text         string
	Error        string
	Time         time.Time
	Transactions int64     `json:"trans_applied"` // since the process started
	Rows         int64     `json:"rows_applied"`
	RowsSecond   float64   `json:"rows_per_second"`
	EndToEnd     latency   `json:"end2end_latency"`
	Early        int64     `json:"retries"`
	Retried      int64     `json:"deadlock_retries"`
	NotApplied   int64     `json:"rows_not_applied"`
	Oldest       time.Time `json:"oldest_trans"`
	Idle         bool
	Report       struct{ Stream *status }
}

// A latency is in milliseconds.
type latency struct{ P50, P99, Max float64 }

// behind is the age of the last transaction up to which the target has everything.
func (s *status) behind() time.Duration {
	if s.Idle || s.Oldest.IsZero() {
		return 0
	}
	return max(0, s.Time.Sub(s.Oldest))
}

// A follower is a replicating tidemark process.
type follower struct {
	cmd   *exec.Cmd
	begun chan struct{}   // closed once it follows
	done  <-chan struct{} // closed once it has ended

	log    io.Writer
	mu     sync.Mutex
	rest   []byte  // an incomplete line
	last   status  // its latest report about the stream
	report *status // of its whole life, unless it was killed
	worst  time.Duration
	events []string // what was unusual
}

// follow starts a follower, with catalogue and queue in a folder; its output goes to log.
func (b *bench) follow(source, target *server, dir string, log io.Writer) (*follower, error) {
	f := &follower{begun: make(chan struct{}), log: log}
	f.cmd = exec.Command(b.tidemark, append([]string{"replicate", source.url(database), target.url(database), "--queue", "durable", "--json", "--monitor-interval", "1s"}, strings.Fields(b.tidemarkArgs)...)...)
	f.cmd.Env = append(os.Environ(), stateOf(dir)...)
	f.cmd.Stdout, f.cmd.Stderr = f, log
	f.cmd.SysProcAttr = procAttr(nil, syscall.SIGKILL)
	var err error
	f.done, err = background(f.cmd)
	return f, err
}

func stateOf(dir string) []string {
	return []string{"TIDEMARK_STATE=" + filepath.Join(dir, "state", "catalog.db")}
}

// Write receives the process's output.
func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rest = append(f.rest, p...)
	for {
		line, rest, whole := bytes.Cut(f.rest, []byte("\n"))
		if !whole {
			break
		}
		f.rest = rest
		f.line(line)
	}
	return f.log.Write(p)
}

func (f *follower) line(line []byte) {
	var s status
	if json.Unmarshal(line, &s) != nil {
		return // it is in the log
	}
	switch s.Event {
	case "stream":
		if f.last.Event == "" {
			close(f.begun)
		}
		f.last, f.worst = s, max(f.worst, s.behind())
	case "report":
		f.report = s.Report.Stream
	case "retry", "stopped", "finding":
		f.events = append(f.events, strings.Join(strings.Fields(s.Event+" "+s.Object+" "+s.Text+" "+s.Error), " "))
	}
}

func (f *follower) now() status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// kill is kill -9.
func (f *follower) kill() {
	_ = f.cmd.Process.Kill() // it may have ended
	<-f.done
}

// interrupt stops it as Ctrl-C does.
func (f *follower) interrupt(ctx context.Context) error {
	if err := f.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * time.Minute):
		return errors.New("tidemark did not stop within two minutes of Ctrl-C")
	}
	if code := f.cmd.ProcessState.ExitCode(); code != interrupted {
		return fmt.Errorf("stopped by Ctrl-C, tidemark ended with exit code %d, not %d", code, interrupted)
	}
	return nil
}

const interrupted = 130 // exit code of tidemark

// peak returns its peak RSS in bytes, once it has ended.
func (f *follower) peak() int64 {
	return peakRSS(f.cmd.ProcessState.SysUsage().(*syscall.Rusage))
}
