package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/script/long"
)

// A runner runs tests of the tree at root.
type runner struct {
	root, binary string   // where to put a package's tests
	long         []string // tests that make test draws
	timeout      time.Duration
}

// A find is a test that fails because of a fault.
type find struct {
	pkg, test, says string
	hung            bool
}

func (f find) String() string { return f.pkg + " " + f.test }

// errBuild means that a fault does not compile: the list is wrong, and nothing was found.
var errBuild = errors.New("does not build")

// find runs the tests of the fault's packages, in order, until one fails. Long tests run if slow is
// set, and only they.
func (r runner) find(ctx context.Context, f fault, slow bool) (*find, error) {
	tests := func() (run, skip []string) { // of -test.run and -test.skip
		if !slow {
			return nil, r.long
		}
		for _, name := range r.long {
			if f.run == nil || f.run.MatchString(name) {
				run = append(run, name)
			}
		}
		return append(run, "none"), nil
	}
	for _, pkg := range f.packages {
		if err := r.build(ctx, pkg); err != nil {
			return nil, err
		}
		for run, skip := tests(); ; {
			pattern := ""
			switch {
			case len(run) > 0:
				pattern = long.Pattern(run)
			case f.run != nil:
				pattern = f.run.String()
			}
			found, err := r.test(ctx, pkg, pattern, long.Pattern(skip))
			if err != nil {
				return nil, err
			}
			if found == nil {
				break
			}
			if found.hung || found.test == "" {
				return found, nil
			}
			// What passes when it runs alone failed because the machine is busy.
			again, err := r.test(ctx, pkg, long.Pattern([]string{found.test}), "")
			if err != nil || again != nil {
				return found, err
			}
			fmt.Printf("    unstable: %s: %s\n", found, found.says)
			skip = append(skip, found.test)
		}
	}
	return nil, nil
}

func (r runner) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	// As in script/suite, whose build cache this shares.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (r runner) build(ctx context.Context, pkg string) error {
	out, err := r.command(ctx, r.root, "go", "test", "-c", "-p", "1", "-vet=off", "-o", r.binary, "./"+pkg).CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s %w: %s", pkg, errBuild, out)
	}
	return nil
}

var (
	failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	hung   = regexp.MustCompile(`panic: test timed out after \S+\s+running tests:\s+([^/\s]+)`)
)

// test runs the tests that were built, and returns the first that fails.
func (r runner) test(ctx context.Context, pkg, run, skip string) (*find, error) {
	args := []string{"-test.count=1", "-test.failfast", "-test.parallel=4", "-test.timeout=" + r.timeout.String(), "-test.run=" + run}
	if skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	out, err := r.command(ctx, filepath.Join(r.root, pkg), r.binary, args...).CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var exit *exec.ExitError
	if err == nil || !errors.As(err, &exit) {
		return nil, err
	}
	return firstFailure(pkg, string(out)), nil
}

// firstFailure reads what tests print that fail.
func firstFailure(pkg, out string) *find {
	at := failed.FindStringSubmatchIndex(out)
	if m := hung.FindStringSubmatch(out); m != nil && at == nil {
		return &find{pkg: pkg, test: m[1], says: "it hangs", hung: true}
	}
	if at == nil { // os.Exit, or a panic beside the tests
		says, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
		return &find{pkg: pkg, says: says}
	}
	f := &find{pkg: pkg, test: out[at[2]:at[3]]}
	for l := range strings.Lines(out[at[1]:]) {
		if l = strings.TrimSpace(l); strings.Contains(l, ".go:") && !strings.Contains(l, "TIDEMARK_SEED") {
			f.says = l
			break
		}
	}
	return f
}
