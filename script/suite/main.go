//go:build unix

// Command suite runs several go test commands in parallel, and writes their output to standard
// output in the form of go test -json: gotestsum reads it as a single run. "--" ends the arguments
// of each go test:
//
//	suite -json -race ./flow/... -- -C bench -json ./...
//
// With -slowest FILE it reads such output from a file instead, and prints the ten packages and the
// ten tests that took longest. With -long FILE it prints the tests that took 5 s or more, one per
// line. With -leave-out FILE SHARE it reads those, draws the tests to skip this time, and prints
// them as a pattern.
package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "-slowest":
		err = slowest(args[1], os.Stdout)
	case len(args) == 2 && args[0] == "-long":
		err = printLong(args[1])
	case len(args) == 3 && args[0] == "-leave-out":
		err = printLeftOut(args[1], args[2])
	case !runAll(args):
		os.Exit(1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

// runAll runs a go test for each group of arguments, and reports whether all passed. An interrupt
// reaches them too, and runAll waits for them to end. They also end once the process in SUITE_WHILE
// is gone: that is make, which may be killed.
func runAll(args []string) bool {
	// The terminal sends the interrupt to go test too. Ignoring it here would make every process
	// started from here ignore it, and tests interrupt programs.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if pid, err := strconv.Atoi(os.Getenv("SUITE_WHILE")); err == nil {
		go func() {
			for syscall.Kill(pid, 0) != syscall.ESRCH {
				time.Sleep(time.Second)
			}
			cancel()
		}()
	}
	out := &lines{w: os.Stdout}
	var wg sync.WaitGroup
	oks := make(chan bool, len(args)+1)
	for group := range strings.SplitSeq(strings.Join(args, "\n"), "\n--\n") {
		wg.Go(func() { oks <- out.goTest(ctx, strings.Split(group, "\n")) })
	}
	wg.Wait()
	close(oks)
	all := true
	for ok := range oks {
		all = all && ok
	}
	return all
}

// lines merges the whole lines of several writers.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) goTest(ctx context.Context, args []string) bool {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	cmd.Stderr = os.Stderr
	if !slices.Contains(args, "-race") { // which needs cgo; all else is compiled as in a release, and shared with it
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		return false
	}
	for in := bufio.NewReader(out); ; {
		line, err := in.ReadBytes('\n')
		l.mu.Lock()
		_, _ = l.w.Write(line) // if the reader is gone, go test reports it too
		l.mu.Unlock()
		if err != nil {
			break
		}
	}
	return cmd.Wait() == nil
}

// slowest prints where the time of a run went: a test's seconds run from its start to its end,
// while others run in parallel.
func slowest(file string, out io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	packages, tests, err := timings(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for what, took := range map[string]map[string]float64{"packages": packages, "tests": tests} {
		fmt.Fprintf(out, "\nthe slowest %s:\n", what)
		names := slices.SortedFunc(maps.Keys(took), func(a, b string) int { return cmp.Compare(took[b], took[a]) })
		for _, name := range names[:min(10, len(names))] {
			fmt.Fprintf(out, "%7.1f s  %s\n", took[name], name)
		}
	}
	return nil
}
