//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark/script/long"
)

// A run is where the time of a run went, in seconds, by package or by package and test.
type run struct{ packages, tests, processor map[string]float64 }

// timings reads the output of go test -json.
func timings(in io.Reader) (run, error) {
	r := run{map[string]float64{}, map[string]float64{}, map[string]float64{}}
	took := map[[2]string]float64{} // by package and test
	for dec := json.NewDecoder(in); ; {
		var e event
		if err := dec.Decode(&e); err == io.EOF {
			r.tests = whole(took)
			return r, nil
		} else if err != nil {
			return run{}, err
		}
		pkg := strings.TrimPrefix(e.Package, module+"/")
		if pkg == module {
			pkg = "."
		}
		var used float64
		switch {
		case e.Action == "output" && e.Test == "":
			if n, _ := fmt.Sscanf(e.Output, "processor time: %f s", &used); n == 1 {
				r.processor[pkg] += used
			}
		case e.Action != "pass" && e.Action != "fail":
		case e.Test == "":
			r.packages[pkg] += e.Elapsed // some run twice, with and without the race detector
		default:
			took[[2]string{pkg, e.Test}] += e.Elapsed
		}
	}
}

// whole returns what tests took, each as long as its innermost subtests do together: those that run
// in parallel are not part of its own time.
func whole(took map[[2]string]float64) map[string]float64 {
	outer := map[[2]string]bool{}
	for key := range took {
		for i, c := range key[1] {
			if c == '/' {
				outer[[2]string{key[0], key[1][:i]}] = true
			}
		}
	}
	out, inner := map[string]float64{}, map[string]float64{}
	for key, seconds := range took {
		test, _, sub := strings.Cut(key[1], "/")
		test = key[0] + " " + test
		if !sub {
			out[test] = seconds
		} else if !outer[key] {
			inner[test] += seconds
		}
	}
	for test, seconds := range inner {
		out[test] = max(out[test], seconds)
	}
	return out
}

// longTests prints the tests that took at least this many seconds, one per line, in the form that
// long.Read reads.
func longTests(in io.Reader, out io.Writer, atLeast float64) error {
	all, err := timings(in)
	if err != nil {
		return err
	}
	for _, test := range slices.Sorted(maps.Keys(all.tests)) {
		_, name, _ := strings.Cut(test, " ")
		if seconds := all.tests[test]; seconds >= atLeast && strings.HasPrefix(name, "Test") {
			fmt.Fprintf(out, "%s %.0f\n", test, seconds)
		}
	}
	return nil
}

// leftOut draws the long tests to skip this time: those that run take at most this share of their
// total time. The same seed draws the same tests; every test has the same chance.
func leftOut(all []long.Test, share float64, seed uint64) []string {
	var budget float64
	for _, t := range all {
		budget += t.Seconds * share
	}
	var out []string
	random := rand.New(rand.NewPCG(seed, 0))
	for _, i := range random.Perm(len(all)) {
		if t := all[i]; t.Seconds <= budget+1e-6 { // a rounding error
			budget -= t.Seconds
		} else {
			budget = 0 // otherwise short ones would run more often
			out = append(out, t.Name)
		}
	}
	slices.Sort(out)
	return out
}

func printLong(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return longTests(f, os.Stdout, 4)
}

// printLeftOut takes the seed from TIDEMARK_SEED, as tests that draw do, and prints it to standard
// error.
func printLeftOut(file, share string) error {
	part, err := strconv.ParseFloat(share, 64)
	if err != nil || part <= 0 || part > 1 {
		return fmt.Errorf("%q is no share of the tests: a number above 0, at most 1", share)
	}
	all, err := long.Read(file)
	if err != nil {
		return err
	}
	seed := rand.Uint64()
	if text := os.Getenv("TIDEMARK_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("TIDEMARK_SEED: %w", err)
		}
	}
	all = long.ByName(all)
	out := leftOut(all, part, seed)
	fmt.Fprintf(os.Stderr, "suite: %d of %d long tests run (again with TIDEMARK_SEED=%d)\n", len(all)-len(out), len(all), seed)
	fmt.Println(strings.Join(out, "|"))
	return nil
}
