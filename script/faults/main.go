// Command faults is the proof of the proofs: it puts the faults of faults.txt into the program, one
// at a time, and says which test finds each. It works in a git worktree of HEAD, so what is not
// committed is not tested.
//
//	go run ./script/faults                 every fault
//	go run ./script/faults capture/ NULL   those whose file or sentence has one of these texts
//
// A fault is put in, the tests of its packages run without those of script/long-tests (the others
// run in every make test), and the first that fails twice ends it. With -prove the long ones run
// too where no other finds the fault. It fails if the short ones find fewer than nine tenths, or if
// with -prove any is not found.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidemarkdb/tidemark/script/long"
)

const list = "script/faults/faults.txt"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (ok bool, err error) {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	prove := flags.Bool("prove", false, "run the long tests too for faults that no other finds")
	timeout := flags.Duration("timeout", 5*time.Minute, "the limit of a package's tests; what hangs is found")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	root, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return false, err
	}
	faults, err := read(filepath.Join(root, list), flags.Args())
	if err != nil {
		return false, err
	}
	tests, err := long.Read(filepath.Join(root, "script/long-tests"))
	if err != nil {
		return false, err
	}
	tests = long.ByName(tests)
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.Name
	}
	// Always the same folder: go keeps what it builds by where it was built.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("tidemark-faults-%x", sha256.Sum256([]byte(root)))[:24])
	if err := os.Mkdir(dir, 0o755); err != nil {
		return false, fmt.Errorf("%w: if no other run is in it: git worktree remove --force %s", err, dir)
	}
	if err := os.Setenv("TIDEMARK_SAMPLES", samples(root)); err != nil {
		return false, err
	}
	always := context.WithoutCancel(ctx)
	defer func() {
		_, gone := git(always, "worktree", "remove", "--force", dir)
		err = errors.Join(err, gone, os.RemoveAll(dir), os.RemoveAll(dir+".test"))
	}()
	if _, err := git(ctx, "worktree", "add", "--detach", dir, "HEAD"); err != nil {
		return false, err
	}
	s := summary{prove: *prove}
	err = s.all(ctx, runner{root: dir, binary: dir + ".test", long: names, timeout: *timeout}, faults)
	fmt.Print(s.String())
	return s.ok(), err
}

// samples returns the folder of the sample databases, which internal/testdb looks for above the
// tree.
func samples(root string) string {
	if dir := os.Getenv("TIDEMARK_SAMPLES"); dir != "" {
		return dir
	}
	for dir := root; ; dir = filepath.Dir(dir) {
		found := filepath.Join(dir, "shared", "data")
		if _, err := os.Stat(filepath.Join(found, "README.md")); err == nil || dir == filepath.Dir(dir) {
			return found
		}
	}
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// read returns the faults whose line, sentence or file has one of these texts; without texts, all.
func read(file string, texts []string) ([]fault, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	faults, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(texts) == 0 {
		return faults, nil
	}
	faults = slices.DeleteFunc(faults, func(f fault) bool {
		where := fmt.Sprintf("line %d: %s (%s)", f.line, f.what, f.file)
		return !slices.ContainsFunc(texts, func(w string) bool { return strings.Contains(where, w) })
	})
	if len(faults) == 0 {
		return nil, fmt.Errorf("%s has no such fault", file)
	}
	return faults, nil
}

// A summary counts what was found.
type summary struct {
	prove             bool
	faults            int
	byGate, byLong    int
	notFound, invalid []string
}

// all puts each fault in, and prints who finds it.
func (s *summary) all(ctx context.Context, r runner, faults []fault) error {
	for _, f := range faults {
		undo, err := f.apply(r.root)
		if err != nil {
			return err
		}
		fmt.Println(f.what)
		err = errors.Join(s.one(ctx, r, f), undo())
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *summary) one(ctx context.Context, r runner, f fault) error {
	began := time.Now()
	found, err := r.find(ctx, f, false)
	long := err == nil && found == nil && s.prove
	if long {
		found, err = r.find(ctx, f, true)
	}
	if errors.Is(err, errBuild) {
		fmt.Printf("    INVALID: %v\n", err)
		s.invalid = append(s.invalid, f.what)
		return nil
	}
	if err != nil {
		return err
	}
	s.faults++
	took := time.Since(began).Seconds()
	switch {
	case found == nil:
		s.notFound = append(s.notFound, f.what)
		fmt.Printf("    NOT FOUND in %.0f s\n", took)
		return nil
	case long:
		s.byLong++
	default:
		s.byGate++
	}
	by := "found by"
	if long {
		by = "found by the long"
	}
	fmt.Printf("    %s %s in %.0f s: %s\n", by, found, took, found.says)
	return nil
}

func (s *summary) ok() bool {
	return len(s.invalid) == 0 && s.byGate*10 >= s.faults*9 && (!s.prove || len(s.notFound) == 0)
}

func (s *summary) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\nfound by the gate %d of %d", s.byGate, s.faults)
	if s.prove {
		fmt.Fprintf(&out, ", found by long tests too %d of %d", s.byGate+s.byLong, s.faults)
	}
	out.WriteString("\n")
	for _, what := range s.notFound {
		fmt.Fprintf(&out, "not found: %s\n", what)
	}
	for _, what := range s.invalid {
		fmt.Fprintf(&out, "does not build: %s\n", what)
	}
	return out.String()
}
