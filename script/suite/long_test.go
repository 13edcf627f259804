//go:build unix

package main

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark/script/long"
)

// TestLongTests: tests of the same name in two packages are two, and take as long as their
// subtests; packages and unfinished tests do not count.
func TestLongTests(t *testing.T) {
	in := strings.NewReader(`{"Action":"run","Package":"a","Test":"TestX"}
{"Action":"pass","Package":"a","Test":"TestX/sub/one","Elapsed":20}
{"Action":"pass","Package":"a","Test":"TestX/sub/two","Elapsed":30}
{"Action":"pass","Package":"a","Test":"TestX/sub","Elapsed":1}
{"Action":"pass","Package":"a","Test":"TestX","Elapsed":3}
{"Action":"fail","Package":"b","Test":"TestX","Elapsed":4}
{"Action":"pass","Package":"b","Test":"TestY","Elapsed":2}
{"Action":"pass","Package":"b","Test":"FuzzZ","Elapsed":9}
{"Action":"skip","Package":"b","Test":"TestW","Elapsed":9}
{"Action":"pass","Package":"b","Elapsed":100}
`)
	var out bytes.Buffer
	if err := longTests(in, &out, 5); err != nil || out.String() != "a TestX 50\n" {
		t.Fatalf("%q, %v", out.String(), err)
	}
}

// TestLeftOut: each test has its turn, the share is kept, and a seed determines everything.
func TestLeftOut(t *testing.T) {
	var tests []long.Test
	var all float64
	for i := range 200 {
		s := rand.ExpFloat64() * 30
		tests, all = append(tests, long.Test{Name: "Test" + strings.Repeat("x", i), Seconds: s}), all+s
	}
	ran := map[string]int{}
	const times = 400
	for seed := range uint64(times) {
		out := leftOut(tests, 0.25, seed)
		if !slices.Equal(out, leftOut(tests, 0.25, seed)) {
			t.Fatal("the same seed draws other tests")
		}
		var runs float64
		for _, test := range tests {
			if !slices.Contains(out, test.Name) {
				runs, ran[test.Name] = runs+test.Seconds, ran[test.Name]+1
			}
		}
		if runs > all*0.25 || runs < all*0.1 {
			t.Fatalf("seed %d: %.0f of %.0f s run", seed, runs, all)
		}
	}
	for _, test := range tests {
		if n := ran[test.Name]; n < times/10 || n > times/2 {
			t.Errorf("a test of %.0f s runs in %d of %d", test.Seconds, n, times)
		}
	}
	if out := leftOut(tests, 1, 1); len(out) != 0 {
		t.Errorf("%d are left out of all", len(out))
	}
}

// TestNamesAreLongEverywhere: go test leaves out all tests of a name, so a short one that shared
// its name with a long one would not run at each make test.
func TestNamesAreLongEverywhere(t *testing.T) {
	const top = "../.."
	tests, err := long.Read(filepath.Join(top, "script/long-tests"))
	if err != nil {
		t.Fatal(err)
	}
	from, err := sources(top)
	if err != nil {
		t.Fatal(err)
	}
	there, listed := map[string][]string{}, map[string][]string{} // packages by a test's name
	for _, s := range from {
		for _, name := range s.tests {
			there[name] = append(there[name], s.dir)
		}
	}
	for _, test := range tests {
		listed[test.Name] = append(listed[test.Name], test.Package)
	}
	for name, of := range listed {
		slices.Sort(of)
		slices.Sort(there[name])
		if diff := cmp.Diff(there[name], of); diff != "" {
			t.Errorf("%s, its packages (-) and those of script/long-tests (+): rename what is short, add what is long\n%s", name, diff)
		}
	}
}
