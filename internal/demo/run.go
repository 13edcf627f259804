package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// patience is how long anything may take on a slow machine.
const patience = 3 * time.Minute

// command prepares a program that writes to our output.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// typed prints a command line as a user would type it, in lines of 80 columns.
func typed(args []string) {
	line, width := "$ tidemark", len("$ tidemark")
	for _, a := range args {
		if width+1+len(a) > 78 {
			line, width = line+" \\\n   ", 3
		}
		line, width = line+" "+a, width+1+len(a)
	}
	fmt.Printf("\n%s\n", line)
}

// show runs a command line as a user would. code is the expected exit code.
func (t *tour) show(ctx context.Context, code int, args ...string) error {
	typed(args)
	cmd := command(ctx, t.bin, args...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err == nil && code == 0 || errors.As(err, &exit) && exit.ExitCode() == code {
		return nil
	}
	return fmt.Errorf("tidemark %s: exit status %d, not %d", args[0], cmd.ProcessState.ExitCode(), code)
}

// asked returns the output of a command line, without showing it.
func (t *tour) asked(ctx context.Context, args ...string) ([]byte, error) {
	cmd := command(ctx, t.bin, args...)
	var errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = nil, &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("tidemark %s: %w: %s", args[0], err, errOut.String())
	}
	return out, err
}

// A process is a tidemark that runs in the background.
type process struct {
	cmd   *exec.Cmd
	began time.Time
	done  chan struct{}
}

// run starts a command line and shows it.
func (t *tour) run(ctx context.Context, args ...string) (*process, error) {
	typed(args)
	p := &process{cmd: command(ctx, t.bin, args...), began: time.Now(), done: make(chan struct{})}
	p.cmd.Stdout = nil // show only a stream's lines
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	t.processes = append(t.processes, p)
	return p, nil
}

// kill9 kills the process as a user would.
func (p *process) kill9() {
	p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprint(os.Stderr, "\r\x1b[J") // clear its progress bars
	}
	fmt.Printf("\n$ kill -9 %d      # after %.1f s\n", p.cmd.Process.Pid, time.Since(p.began).Seconds())
}

// end interrupts the process as Ctrl-C does, unless it has ended.
func (p *process) end() {
	p.cmd.Process.Signal(os.Interrupt)
	<-p.done
}

// until waits until ready returns true, while the process runs.
func (p *process) until(ctx context.Context, what string, ready func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; {
		if is, err := ready(); is || err != nil {
			return err
		}
		select {
		case <-p.done:
			return fmt.Errorf("the %s has ended: %s", what, p.cmd.ProcessState)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the %s takes more than %s", what, patience)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// state is what tidemark status --json reports about a stream, as far as the tour needs it.
type state struct {
	Running bool `json:"running"`
	Last    *struct {
		Time         time.Time `json:"time"`
		Lag          float64   `json:"lag"`
		Transactions int64     `json:"trans_applied"`
		EndToEnd     struct {
			Mean float64 `json:"mean"`
		} `json:"end2end_latency"`
	} `json:"last"`
}

func (t *tour) status(ctx context.Context) (s state, err error) {
	out, err := t.asked(ctx, "status", "--json")
	if err != nil {
		return s, err
	}
	var all []state
	if err = json.Unmarshal(out, &all); err == nil && len(all) > 0 {
		s = all[0]
	}
	return s, err
}

// caughtUp returns a check whether the stream of p has applied something and is not late.
func (t *tour) caughtUp(ctx context.Context, p *process) func() (bool, error) {
	return func() (bool, error) {
		s, err := t.status(ctx)
		return err == nil && s.Running && s.Last != nil && s.Last.Time.After(p.began) && s.Last.Transactions > 0 && s.Last.Lag < 1 && s.Last.EndToEnd.Mean < 1000, err
	}
}

func grouped(n int) string { return groupedText(fmt.Sprint(n)) }

func groupedText(s string) string {
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// wrapped breaks a text into lines of 78 columns, all but the first indented.
func wrapped(text string, indent int) string {
	line, out := "", ""
	for _, w := range strings.Fields(text) {
		if line != "" && indent+len(line)+1+len(w) > 78 {
			out += line + "\n" + strings.Repeat(" ", indent)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+w, " ")
	}
	return out + line
}
