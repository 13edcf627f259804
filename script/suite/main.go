//go:build unix

// Command suite runs go test several times side by side, and writes what they say to standard output, as go test -json
// does: gotestsum reads it as that of one run. Arguments of one go test end with "--":
//
//	suite -json -race ./flow/... -- -C bench -json ./...
//
// With -slowest it reads such lines from a file instead, and prints the ten packages and the ten tests that took longest.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
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
	if len(os.Args) == 3 && os.Args[1] == "-slowest" {
		if err := slowest(os.Args[2], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "suite:", err)
			os.Exit(1)
		}
		return
	}
	if !runAll(os.Args[1:]) {
		os.Exit(1)
	}
}

// runAll runs a go test of each group of arguments, and says whether all of them passed. Who interrupts it interrupts
// them, and waits for their end. They end too when the process is gone whose number is in SUITE_WHILE: that is make, which
// may be killed.
func runAll(args []string) bool {
	// The terminal sends it to go test too. Were it ignored here, so would it be in all that is started from here, and
	// tests interrupt programs.
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

// lines writes whole lines of several writers.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) goTest(ctx context.Context, args []string) bool {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	cmd.Stderr = os.Stderr
	if !slices.Contains(args, "-race") { // which needs cgo; all else compiles as what is released, and shares it
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
		_, _ = l.w.Write(line) // nobody reads on: then go test says so too
		l.mu.Unlock()
		if err != nil {
			break
		}
	}
	return cmd.Wait() == nil
}

// slowest prints where the time of a run went: a test's seconds are those from its start to its end, while others run
// beside it.
func slowest(file string, out io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	packages, tests := map[string]float64{}, map[string]float64{}
	for in := json.NewDecoder(f); ; {
		var e struct {
			Action, Package, Test string
			Elapsed               float64
		}
		if err := in.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if e.Action != "pass" && e.Action != "fail" {
			continue
		}
		pkg := strings.TrimPrefix(e.Package, "github.com/tidemarkdb/tidemark/")
		switch {
		case e.Test == "":
			packages[pkg] += e.Elapsed // some are tested twice, with the race detector and without
		case !strings.Contains(e.Test, "/"):
			tests[pkg+" "+e.Test] += e.Elapsed
		}
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
