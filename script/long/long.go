// Package long reads script/long-tests: the tests that take long, of which make test draws some.
package long

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// A Test is one test of a package.
type Test struct {
	Package string // below the tree's top, "." for the top itself
	Name    string
	Seconds float64 // from start to end, while others run in parallel
}

// Read reads a file with a line for each test: its package, its name and its seconds.
func Read(file string) ([]Test, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Test
	in := bufio.NewScanner(f)
	for in.Scan() {
		var t Test
		if _, err := fmt.Sscanf(in.Text(), "%s %s %f", &t.Package, &t.Name, &t.Seconds); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, in.Text(), err)
		}
		out = append(out, t)
	}
	return out, in.Err()
}

// ByName returns the tests by name, since go test runs all tests of a name or none: those of
// several packages are one, without a package, that takes as long as they do together.
func ByName(all []Test) []Test {
	sums := map[string]float64{}
	for _, t := range all {
		sums[t.Name] += t.Seconds
	}
	var out []Test
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, Test{Name: name, Seconds: sums[name]})
	}
	return out
}

// Pattern returns the pattern of go test -run, or -skip, for tests of these names.
func Pattern(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }
