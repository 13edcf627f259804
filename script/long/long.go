// Package long reads script/long-tests: the tests that take long, of which make test draws some.
package long

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// A Test is all tests of one name, in all packages that have one.
type Test struct {
	Name    string
	Seconds float64 // from start to end, while others run in parallel
}

// Read reads a file with a line for each test: its name and its seconds.
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
		if _, err := fmt.Sscanf(in.Text(), "%s %f", &t.Name, &t.Seconds); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, in.Text(), err)
		}
		out = append(out, t)
	}
	return out, in.Err()
}

// Pattern returns the pattern of go test -run, or -skip, for tests of these names.
func Pattern(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }
