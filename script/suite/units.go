//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/script/long"
)

// What make prove does with each package.
const (
	inFull = "long" // every test in its long form
	raced  = "race" // every test under the race detector
	fuzzed = "fuzz" // every fuzz target
)

// A unit is what make prove runs at a time: tests of one package.
type unit struct {
	pkg   string   // its folder
	what  string   // inFull, raced or fuzzed
	tests []string // only these; all if empty
	skip  []string // all but these
}

// row names the line of the record that a unit belongs to.
func (u unit) row() string { return u.pkg + " " + u.what }

// key names a unit among those of its row.
func (u unit) key() string {
	switch n := len(u.tests); n {
	case 0:
		return u.row()
	case 1:
		return u.row() + " " + u.tests[0]
	default:
		return fmt.Sprintf("%s %s and %d more", u.row(), u.tests[0], n-1)
	}
}

// args returns the arguments of go test for the tree at top, after those that belong to its
// environment.
func (u unit) args(top string, seed uint64) []string {
	out := append(u.variables(seed), u.build(top)...)
	out = append(out, "-json", "-p", "1")
	for _, arg := range u.choice() {
		name, value, _ := strings.Cut(arg, "=")
		out = append(out, name, value)
	}
	return append(out, path.Join(module, u.pkg))
}

// variables returns what belongs to its environment.
func (u unit) variables(seed uint64) []string {
	out := []string{fmt.Sprintf("TIDEMARK_SEED=%d", seed)}
	if u.what == inFull {
		out = append(out, "TIDEMARK_TEST=all", "TIDEMARK_STEPS=all")
	}
	return out
}

// build returns the arguments that say what is compiled, and how.
func (u unit) build(top string) (out []string) {
	dir := filepath.Clean(top)
	if u.pkg == "bench" { // a module of its own
		dir = filepath.Join(dir, "bench")
	}
	if dir != "." {
		out = append(out, "-C", dir)
	}
	out = append(out, "-vet=off")
	if u.what == raced {
		out = append(out, "-race")
	}
	return out
}

// choice returns the arguments that say which tests run, and how.
func (u unit) choice() []string {
	out := []string{"-count=1", "-parallel=5", "-timeout=90m"}
	if len(u.tests) > 0 {
		out = append(out, "-run="+long.Pattern(u.tests))
	}
	if len(u.skip) > 0 {
		out = append(out, "-skip="+long.Pattern(u.skip))
	}
	return out
}

// A source is a package of the tree that has tests.
type source struct {
	dir   string   // below the tree's top, "." for the top itself
	deps  []string // folders of the packages that its tests are built of
	tests []string
	fuzz  bool
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, ForTest        string
	TestGoFiles, XTestGoFiles, Deps []string
}

// folders returns the folders of a package's dependencies in the tree, and its own.
func (p *listed) folders() []string {
	var out []string
	for _, dep := range append(p.Deps, p.ImportPath) {
		dep, _, _ = strings.Cut(dep, " ")
		if dep == module {
			out = append(out, ".")
		} else if dir, is := strings.CutPrefix(dep, module+"/"); is && !strings.HasSuffix(dir, ".test") {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(\w+ \*testing\.[TF]\)`)

// sources lists the packages of the tree at top that have tests.
func sources(top string) ([]source, error) {
	all := map[string]*listed{}
	for _, mod := range []string{".", "bench"} {
		if _, err := os.Stat(filepath.Join(top, mod, "go.mod")); err != nil {
			continue
		}
		cmd := exec.Command("go", "list", "-C", filepath.Join(top, mod), "-test", "-deps", "-json=ImportPath,Dir,ForTest,TestGoFiles,XTestGoFiles,Deps", "./...")
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for dec := json.NewDecoder(bytes.NewReader(text)); ; {
			p := new(listed)
			if err := dec.Decode(p); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("go list: %w", err)
			}
			all[p.ImportPath] = p
		}
	}
	var out []source
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		dir, inTree := strings.CutPrefix(name, module)
		if !inTree || p.ForTest != "" || all[name+".test"] == nil {
			continue
		}
		s := source{dir: cmp.Or(strings.TrimPrefix(dir, "/"), "."), deps: all[name+".test"].folders()}
		s.deps = append(s.deps, s.dir+testsOf)
		if s.dir == "." || s.dir == "proof/manual" {
			s.deps = append(s.deps, documents)
		}
		if strings.HasPrefix(s.dir, "proof/") && all[module+"/cmd/tidemark"] != nil { // they run the program
			s.deps = append(s.deps, all[module+"/cmd/tidemark"].folders()...)
		}
		for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			for _, m := range declared.FindAllSubmatch(text, -1) {
				if test := string(m[1]); strings.HasPrefix(test, "Fuzz") {
					s.fuzz = true
				} else if test != "TestMain" {
					s.tests = append(s.tests, test)
				}
			}
		}
		if len(s.tests) > 0 || s.fuzz {
			out = append(out, s)
		}
	}
	return out, nil
}

// unitSeconds is how long the long tests of a unit take together, in make test.
const unitSeconds = 120

// units divides the tests of packages: a package's short tests are one unit, its long ones, whose
// seconds are given, some more.
func units(from []source, all []long.Test) []unit {
	seconds := map[[2]string]float64{} // by package and name
	for _, t := range all {
		seconds[[2]string{t.Package, t.Name}] = t.Seconds
	}
	var out []unit
	for _, s := range from {
		var slow []string
		var batches [][]string
		var sum float64
		for _, test := range slices.Sorted(slices.Values(s.tests)) {
			took := seconds[[2]string{s.dir, test}]
			if took == 0 {
				continue
			}
			slow = append(slow, test)
			if sum += took; len(batches) == 0 || sum > unitSeconds {
				batches, sum = append(batches, nil), took
			}
			batches[len(batches)-1] = append(batches[len(batches)-1], test)
		}
		for _, what := range []string{inFull, raced} {
			if len(slow) < len(s.tests) {
				out = append(out, unit{pkg: s.dir, what: what, skip: slow})
			}
			for _, tests := range batches {
				out = append(out, unit{pkg: s.dir, what: what, tests: tests})
			}
		}
		if s.fuzz {
			out = append(out, unit{pkg: s.dir, what: fuzzed})
		}
	}
	return out
}
