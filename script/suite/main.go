//go:build unix

// Command suite runs several go test commands in parallel, prints a line for each package that
// ends, and keeps all that they say in a file, in the form of go test -json. "--" ends the
// arguments of each:
//
//	suite bin/test.json -race ./flow/... -- -C bench ./...
//
// A test that failed, and not by what it said of data, runs once more when all others have ended:
// see verdict.go. With -slowest FILE it reads that file instead, and prints the ten packages and
// the ten tests that took longest. With -long FILE it prints the tests that took 4 s or more, one
// per line. With -leave-out FILE SHARE it reads those, draws the tests to skip this time, and
// prints them as a pattern. With -prove [TIME] it runs what is not proved of the code: see
// prove.go.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb/home"
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
	case len(args) > 0 && args[0] == "-prove":
		err = inOwnFolder(func() error { return printProved(args[1:]) })
	case len(args) < 2:
		err = errors.New("usage: suite FILE ARGUMENT... [-- ARGUMENT...]")
	default:
		ok := false
		if err = inOwnFolder(func() (err error) { ok, err = runAll(args[0], args[1:], os.Stdout); return err }); err == nil && !ok {
			os.Exit(1)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

// whileWanted returns a context that ends once the process in SUITE_WHILE is gone: that is make,
// which may be killed. The channel gets interrupts. The terminal sends them to go test too:
// ignoring them here would make every process started from here ignore them, and tests interrupt
// programs.
func whileWanted() (context.Context, <-chan os.Signal, func()) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP) // which reach no one else
	if pid, err := strconv.Atoi(os.Getenv("SUITE_WHILE")); err == nil {
		go func() {
			for syscall.Kill(pid, 0) != syscall.ESRCH {
				time.Sleep(time.Second)
			}
			cancel()
		}()
	}
	return ctx, interrupts, cancel
}

// runAll runs a go test for each group of arguments, and reports whether all passed. An interrupt
// reaches them too, and runAll waits for them to end.
func runAll(file string, args []string, out io.Writer) (bool, error) {
	ctx, interrupts, cancel := whileWanted()
	defer cancel()
	kept, err := os.Create(file)
	if err != nil {
		return false, err
	}
	r := newRecorder(out, kept)
	var wg sync.WaitGroup
	for group := range strings.SplitSeq(strings.Join(args, "\n"), "\n--\n") {
		wg.Go(func() { goTest(ctx, strings.Split(group, "\n"), r) })
	}
	wg.Wait()
	ok := len(interrupts) == 0 && ctx.Err() == nil
	if ok {
		ok, err = r.judge(ctx, filepath.Join(filepath.Dir(file), "unstable"))
	}
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used) == nil {
		fmt.Fprintf(out, "processor time: %.0f s of builds and tests, %.0f s of them the system's\n",
			time.Duration(used.Utime.Nano()+used.Stime.Nano()).Seconds(), time.Duration(used.Stime.Nano()).Seconds())
	}
	return ok, errors.Join(err, r.kept.Flush(), kept.Close())
}

// inOwnFolder ends what a killed run has left behind, and does something with a folder of its own
// for temporary files, which is removed then.
func inOwnFolder(do func() error) error {
	ended, err := home.Sweep()
	if err != nil {
		return err
	}
	for _, what := range ended {
		fmt.Fprintln(os.Stderr, "suite: ended what a killed run of tests had left:", what)
	}
	if os.Getenv("TIDEMARK_SHORT") != "" {
		return do() // go runs a test again that has read another TMPDIR
	}
	dir, remove, err := home.Make("")
	if err != nil {
		return err
	}
	defer remove()
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return err
	}
	return do()
}

// variable reports whether an argument is one of the environment: NAME=VALUE.
func variable(arg string) bool {
	name, _, is := strings.Cut(arg, "=")
	return is && name != "" && strings.ToUpper(name) == name && name[0] != '-'
}

// goTest runs one go test -json, and tells r what it says. Arguments of the form NAME=VALUE belong
// to its environment.
func goTest(ctx context.Context, group []string, r *recorder) {
	var args, env []string
	for _, arg := range group {
		if variable(arg) {
			env = append(env, arg)
		} else {
			args = append(args, arg)
		}
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	setEnv(cmd, slices.Contains(args, "-race"), env)
	r.follow(cmd, group)
}

// setEnv gives a go test, or compiled tests, their environment.
func setEnv(cmd *exec.Cmd, race bool, own []string) {
	// internal/testdb prints the processor time of a package.
	cmd.Env = append(append(cmd.Environ(), own...), "TIDEMARK_CPU=1")
	if !race { // which needs cgo; all else is compiled as in a release, and shared with it
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
}

// follow runs a command that prints what go test -json does for these arguments.
func (r *recorder) follow(cmd *exec.Cmd, group []string) {
	cmd.Stderr = os.Stderr
	c := &command{recorder: r, args: group, running: map[[2]string]*test{}, failed: map[string]bool{}}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		for in := bufio.NewReader(out); ; {
			line, readErr := in.ReadBytes('\n')
			c.line(line)
			if readErr != nil {
				break
			}
		}
		err = cmd.Wait()
	}
	c.done(err)
}

// slowest prints where the time of a run went: a test's seconds run from its start to its end,
// while others run in parallel; a package's processor time is that of its servers too.
func slowest(file string, out io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := timings(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, list := range []struct {
		what string
		took map[string]float64
	}{{"the slowest packages", all.packages}, {"the slowest tests", all.tests}, {"the most processor time", all.processor}} {
		fmt.Fprintf(out, "\n%s:\n", list.what)
		names := slices.SortedFunc(maps.Keys(list.took), func(a, b string) int { return cmp.Compare(list.took[b], list.took[a]) })
		for _, name := range names[:min(10, len(names))] {
			fmt.Fprintf(out, "%7.1f s  %s\n", list.took[name], name)
		}
	}
	return nil
}
