//go:build unix

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// mostUnstable is how many tests may fail, and pass when they run once more, in a run that passes.
const mostUnstable = 3

// An event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// A test is a top-level test, with its subtests, of one group of arguments.
type test struct {
	group     []string
	pkg, name string // name is empty for a package that fails by itself
	output    strings.Builder
	sub       string // the first subtest that failed
}

// short is the package's folder.
func (t *test) short() string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(t.pkg, module), "/"), ".")
}

// A recorder reads what go test commands say, and remembers what failed.
type recorder struct {
	mu                     sync.Mutex
	out                    io.Writer
	kept                   *bufio.Writer
	running                map[string]*test // by group, package and test, until it has passed
	failed                 []*test
	passed, broke, skipped int
	whole                  []string // what is broken as a whole: packages, builds, commands
	ended                  *test    // the last of them
}

func newRecorder(out, kept io.Writer) *recorder {
	return &recorder{out: out, kept: bufio.NewWriter(kept), running: map[string]*test{}}
}

func (r *recorder) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failed) + len(r.whole)
}

func (r *recorder) broken(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whole = append(r.whole, what)
}

// line takes a line of the output of go test -json with these arguments.
func (r *recorder) line(line []byte, group []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.kept.Write(line) // Flush tells
	var e event
	if json.Unmarshal(line, &e) != nil {
		if text := strings.TrimSpace(string(line)); text != "" {
			fmt.Fprintln(r.out, text)
		}
		return
	}
	if e.Action == "build-output" {
		fmt.Fprint(r.out, e.Output)
		return
	}
	name, sub, _ := strings.Cut(e.Test, "/")
	key := strings.Join(group, " ") + "\n" + e.Package + "\n" + name
	t := r.running[key]
	if t == nil {
		t = &test{group: group, pkg: e.Package, name: name}
		r.running[key] = t
	}
	t.output.WriteString(e.Output)
	switch {
	case e.Action == "fail" && sub != "":
		r.broke++
		t.sub = cmp.Or(t.sub, e.Test)
	case sub != "" && e.Action == "pass", name != "" && e.Action == "pass":
		r.passed++
	case sub != "" && e.Action == "skip", name != "" && e.Action == "skip":
		r.skipped++
	}
	if sub != "" || !slices.Contains([]string{"pass", "fail", "skip"}, e.Action) {
		return
	}
	delete(r.running, key)
	if name != "" {
		r.ended = t
	}
	switch {
	case name != "" && e.Action == "fail":
		r.broke++
		r.failed = append(r.failed, t)
		fmt.Fprintf(r.out, "FAIL  %s %s (%.1f s)\n", t.short(), name, e.Elapsed)
	case name == "" && e.Action == "fail":
		if !slices.ContainsFunc(r.failed, func(f *test) bool { return f.pkg == t.pkg && slices.Equal(f.group, group) }) || final(t.output.String()) {
			r.whole = append(r.whole, e.Package+"\n"+t.output.String()+r.unfinished(e.Package))
		}
		fmt.Fprintf(r.out, "FAIL  %s (%.1f s)\n", t.short(), e.Elapsed)
	case name == "" && e.Action == "pass":
		fmt.Fprintf(r.out, "ok    %s (%.1f s)\n", t.short(), e.Elapsed)
	}
}

// unfinished returns what the tests of a package said that neither passed nor failed: a panic ends
// them all.
func (r *recorder) unfinished(pkg string) string {
	var out strings.Builder
	for _, t := range r.running {
		if t.pkg == pkg && t.name != "" {
			fmt.Fprintf(&out, "%s did not end:\n%s", t.name, last(t.output.String(), 100))
		}
	}
	return out.String()
}

const module = "github.com/tidemarkdb/tidemark"

var finally = regexp.MustCompile(`(?m)^WARNING: DATA RACE|^panic: |^fatal error: |verdict: data$|race detected during execution`)

// final says whether a failure is not to be asked twice: rows, definitions, exit codes and secrets,
// as internal/testdb marks them; races, panics, and what breaks a package as a whole.
func final(output string) bool { return finally.MatchString(output) }

// judge runs what failed once more, each test alone, and prints the verdict. What passes then is
// unstable: both logs are kept in a folder, and few enough of them do not fail the run. Nothing
// runs if something failed for good.
func (r *recorder) judge(ctx context.Context, folder string) (bool, error) {
	if err := os.RemoveAll(folder); err != nil {
		return false, err
	}
	var unstable []string
	bad := slices.DeleteFunc(slices.Clone(r.failed), func(t *test) bool { return !final(t.output.String()) })
	if len(bad) == 0 && len(r.whole) == 0 {
		if len(r.failed) > 2*mostUnstable {
			bad = r.failed
		} else {
			for _, t := range r.failed {
				ok, said := t.again(ctx)
				if ok {
					unstable = append(unstable, t.short()+" "+t.name+"\n"+last(t.output.String(), 12))
				} else {
					bad = append(bad, t)
				}
				if err := t.keep(folder, said); err != nil {
					return false, err
				}
			}
		}
	}
	if len(unstable) > 0 {
		fmt.Fprintf(r.out, "\nunstable: failed beside others, passed alone (logs in %s)\n%s", folder, strings.Join(unstable, ""))
	}
	for _, what := range r.whole {
		fmt.Fprintf(r.out, "\nfailed as a whole: %s\n", last(what, 100))
	}
	for _, t := range bad {
		t.tell(r.out)
	}
	ok := len(bad) == 0 && len(r.whole) == 0 && len(unstable) <= mostUnstable
	if len(unstable) > mostUnstable {
		fmt.Fprintf(r.out, "%d tests are unstable, more than %d: this run does not pass\n", len(unstable), mostUnstable)
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, len(bad)+len(r.whole), r.skipped)
	return ok, nil
}

// again runs a test alone, and returns whether it passed, and what it said.
func (t *test) again(ctx context.Context) (bool, string) {
	fmt.Fprintf(os.Stderr, "suite: once more, alone: %s %s\n", t.pkg, t.name)
	var said strings.Builder
	r := newRecorder(&said, io.Discard)
	goTest(ctx, append(t.flags(), "-run", "^"+t.name+"$", t.pkg), r)
	if r.ended != nil {
		said.WriteString(r.ended.output.String())
	}
	return len(r.failed)+len(r.whole) == 0 && r.ended != nil && r.passed > 0, said.String()
}

// flags returns the flags of the run that the test was part of, without those that choose tests and
// packages.
func (t *test) flags() []string {
	var out []string
	for i := 0; i < len(t.group); i++ {
		switch arg := t.group[i]; {
		case arg == "-run" || arg == "-skip":
			i++
		case slices.Contains([]string{"-p", "-parallel", "-timeout", "-C"}, arg):
			out = append(out, arg, t.group[i+1])
			i++
		case strings.HasPrefix(arg, "-"):
			out = append(out, arg)
		}
	}
	return out
}

// keep writes what both runs said.
func (t *test) keep(folder string, second string) error {
	name := strings.ReplaceAll(t.short(), "/", "_") + "." + t.name
	return errors.Join(os.MkdirAll(folder, 0o755),
		os.WriteFile(filepath.Join(folder, name+".1.log"), []byte(t.output.String()), 0o644),
		os.WriteFile(filepath.Join(folder, name+".2.log"), []byte(second), 0o644))
}

var seeds = regexp.MustCompile(`TIDEMARK_SEED=\d+`)

// tell prints what a reader needs to know of a failure: the test, its sentence, and the command
// that repeats it.
func (t *test) tell(out io.Writer) {
	fmt.Fprintf(out, "\n--- FAIL: %s %s\n%s", t.short(), cmp.Or(t.sub, t.name), last(t.output.String(), 60))
	command := strings.TrimSpace(seeds.FindString(t.output.String()) + " go test")
	if i := slices.Index(t.group, "-C"); i >= 0 {
		command += " -C " + t.group[i+1]
	}
	if slices.Contains(t.group, "-race") {
		command += " -race"
	}
	fmt.Fprintf(out, "again with: %s -run '^%s$' %s\n", command, t.name, t.pkg)
}

// last returns the last lines of a text.
func last(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
