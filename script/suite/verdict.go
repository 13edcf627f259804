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
	sub       string                      // the first subtest that failed
	parts     map[string]*strings.Builder // what it and its subtests say, each until it has passed
	wrong     strings.Builder             // what those said that failed
}

// takes notes an event of a test or of one of its subtests.
func (t *test) takes(e event) {
	t.output.WriteString(e.Output)
	part := t.parts[e.Test]
	if part == nil {
		part = &strings.Builder{}
		t.parts[e.Test] = part
	}
	part.WriteString(e.Output)
	switch e.Action {
	case "fail":
		t.wrong.WriteString(part.String())
		if e.Test != t.name {
			t.sub = cmp.Or(t.sub, e.Test)
		}
		fallthrough
	case "pass", "skip":
		delete(t.parts, e.Test)
	}
}

// why returns what a test that failed said of it: the last lines, without those of subtests that
// passed.
func (t *test) why(lines int) string { return last(cmp.Or(t.wrong.String(), t.output.String()), lines) }

// short is the package's folder.
func (t *test) short() string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(t.pkg, module), "/"), ".")
}

// A recorder reads what go test commands say, and remembers what failed.
type recorder struct {
	mu              sync.Mutex
	out             io.Writer
	kept            *bufio.Writer
	failed          []*test
	whole           []string // what is broken as a whole: packages, builds, commands
	passed, skipped int
	ended           *test // the last test that has passed, failed or been skipped

	bad, unstable []string // names of what judge found
}

func newRecorder(out, kept io.Writer) *recorder {
	return &recorder{out: out, kept: bufio.NewWriter(kept)}
}

// A command is one go test -json, whose output goes to the recorder.
type command struct {
	*recorder
	args    []string
	running map[[2]string]*test // by package and test, until it has passed or failed
	failed  map[string]bool     // the packages in which something has
}

// done takes the command's own end.
func (c *command) done(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && len(c.failed) == 0 { // nothing is known to have failed, yet it did
		c.whole = append(c.whole, fmt.Sprintf("go test %s: %v", strings.Join(c.args, " "), err))
	}
}

// line takes a line of the command's output.
func (c *command) line(line []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.kept.Write(line) // Flush tells
	var e event
	if json.Unmarshal(line, &e) != nil {
		if text := strings.TrimSpace(string(line)); text != "" {
			fmt.Fprintln(c.out, text)
		}
		return
	}
	if e.Action == "build-output" {
		fmt.Fprint(c.out, e.Output)
		return
	}
	name, sub, _ := strings.Cut(e.Test, "/")
	key := [2]string{e.Package, name}
	t := c.running[key]
	if t == nil {
		t = &test{group: c.args, pkg: e.Package, name: name, parts: map[string]*strings.Builder{}}
		c.running[key] = t
	}
	t.takes(e)
	switch {
	case e.Action == "pass" && name != "":
		c.passed++
	case e.Action == "skip" && name != "":
		c.skipped++
	}
	if sub != "" || !slices.Contains([]string{"pass", "fail", "skip"}, e.Action) {
		return
	}
	delete(c.running, key)
	if name == "" {
		c.endPackage(t, e)
		return
	}
	c.ended = t
	if e.Action == "fail" {
		c.recorder.failed, c.failed[e.Package] = append(c.recorder.failed, t), true
		fmt.Fprintf(c.out, "FAIL  %s %s (%.1f s)\n", t.short(), name, e.Elapsed)
	}
}

// endPackage takes the end of a package. It is broken as a whole if it fails and no test of it has,
// or if it ended amid tests: those after them never ran.
func (c *command) endPackage(t *test, e event) {
	switch e.Action {
	case "pass":
		fmt.Fprintf(c.out, "ok    %s (%.1f s)\n", t.short(), e.Elapsed)
	case "fail":
		names, unfinished := c.unfinished(e.Package)
		if !c.failed[e.Package] || unfinished != "" || final(t.output.String()) {
			c.whole = append(c.whole, e.Package+"\n"+t.output.String()+unfinished)
		}
		c.failed[e.Package] = true
		fmt.Fprintf(c.out, "FAIL  %s (%.1f s)%s\n", t.short(), e.Elapsed, names)
	}
}

// unfinished returns the tests of a package that neither passed nor failed, and what they said.
func (c *command) unfinished(pkg string) (names, said string) {
	for key, t := range c.running {
		if key[0] == pkg {
			names += ": " + t.name + " did not end"
			said += t.name + " did not end:\n" + last(t.output.String(), 100)
		}
	}
	return names, said
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
	asked := false // once more
	bad := slices.DeleteFunc(slices.Clone(r.failed), func(t *test) bool { return !final(t.output.String()) })
	if len(bad) == 0 && len(r.whole) == 0 {
		if len(r.failed) > 2*mostUnstable {
			bad = r.failed
		} else {
			asked = true
			for _, t := range r.failed {
				ok, said := t.again(ctx)
				if ok {
					r.unstable = append(r.unstable, t.name)
					unstable = append(unstable, t.short()+" "+t.name+"\n"+t.why(12))
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
		r.bad = append(r.bad, t.name)
	}
	for range r.whole {
		r.bad = append(r.bad, "as a whole") // its text may have what ends a cell of the record
	}
	for _, t := range r.failed {
		if !asked && !slices.Contains(bad, t) {
			fmt.Fprintf(r.out, "\nalso failed, and was not asked again: %s %s\n%s", t.short(), t.name, t.why(12))
		}
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
		case variable(arg):
			out = append(out, arg)
		case arg == "-run" || arg == "-skip":
			i++
		case slices.Contains([]string{"-p", "-count", "-parallel", "-timeout", "-C"}, arg):
			out = append(out, arg, t.group[i+1])
			i++
		case strings.HasPrefix(arg, "-"):
			out = append(out, arg)
		}
	}
	return out
}

// keep writes what both runs said.
func (t *test) keep(folder, second string) error {
	name := strings.ReplaceAll(t.short(), "/", "_") + "." + t.name
	return errors.Join(os.MkdirAll(folder, 0o755),
		os.WriteFile(filepath.Join(folder, name+".1.log"), []byte(t.output.String()), 0o644),
		os.WriteFile(filepath.Join(folder, name+".2.log"), []byte(second), 0o644))
}

var seeds = regexp.MustCompile(`TIDEMARK_SEED=\d+`)

// tell prints what a reader needs to know of a failure: the test, its sentence, and the command
// that repeats it.
func (t *test) tell(out io.Writer) {
	fmt.Fprintf(out, "\n--- FAIL: %s %s\n%s", t.short(), cmp.Or(t.sub, t.name), t.why(60))
	var command string
	for _, arg := range t.group {
		if variable(arg) {
			command += arg + " "
		}
	}
	if command == "" {
		command = strings.TrimLeft(seeds.FindString(t.output.String())+" ", " ")
	}
	command += "go test"
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
