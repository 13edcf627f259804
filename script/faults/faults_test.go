package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFaultsApply: the list does not rot.
func TestFaultsApply(t *testing.T) {
	faults, err := read("faults.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	const todo = "Write the fault anew in script/faults/faults.txt for the code as it is now, and try it: go run ./script/faults 'line N'."
	if len(faults) < 44 {
		t.Errorf("%d faults, fewer than 44", len(faults))
	}
	perFile := map[string]int{}
	for _, f := range faults {
		text, err := os.ReadFile(filepath.Join("../..", f.file))
		if err != nil {
			t.Errorf("line %d: %v\n%s", f.line, err, todo)
			continue
		}
		if _, err := f.changed(string(text)); err != nil {
			t.Errorf("%v\n%s", err, todo)
		}
		for _, pkg := range f.packages {
			if tests, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go")); err != nil || len(tests) == 0 {
				t.Errorf("line %d: %s has no tests\n%s", f.line, pkg, todo)
			}
		}
		if perFile[f.file]++; perFile[f.file] > 4 {
			t.Errorf("line %d: more than 4 faults are in %s", f.line, f.file)
		}
	}
}

func TestParse(t *testing.T) {
	faults, err := parse("# a comment\n\na is b\nfile x.go\nin p q/r\nrun ^TestX\n-a\n-\tb\n+b\n\nc is gone\nfile y.go\nin p\n-c\n")
	if err != nil || len(faults) != 2 {
		t.Fatalf("%v, %v", faults, err)
	}
	f := faults[0]
	if f.line != 3 || f.what != "a is b" || f.file != "x.go" || f.find != "a\n\tb" || f.becomes != "b" ||
		strings.Join(f.packages, " ") != "p q/r" || f.run.String() != "^TestX" || faults[1].becomes != "" {
		t.Errorf("%+v", faults)
	}
	for _, bad := range []string{"a\nfile x\nin p\n+b", "a\nin p\n-b\n+c", "a\nfile x\nin p\n-b\n+b", "a\nfile x\nin p\nrun (\n-b", "a\nwhat\n-b"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestFind: a fault is found by the first test that fails twice; a long test runs only when asked
// for, and what does not build finds nothing.
func TestFind(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module x\n", "p/p.go": "package p\n\nfunc One() int { return 1 }\n\nfunc Two() int { return 2 }\n",
		"p/p_test.go": `package p
import ("os"; "testing")
func TestBusy(t *testing.T) { if _, err := os.Stat("seen"); err != nil && One() != 1 { os.WriteFile("seen", nil, 0o600); t.Fatal("late") } }
func TestOne(t *testing.T) { if One() != 1 { t.Fatal("not one") } }
func TestTwo(t *testing.T) { if Two() != 2 { t.Fatal("not two") } }
`} {
		if err := os.MkdirAll(filepath.Join(root, "p"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := runner{root: root, binary: filepath.Join(root, "p.test"), long: []string{"TestTwo"}, timeout: time.Minute}
	list := "one\nfile p/p.go\nin p\n-1 }\n+3 }\n\ntwo\nfile p/p.go\nin p\n-2 }\n+3 }\n\nspace\nfile p/p.go\nin p\n-p\n-\n+p\n\nbuild\nfile p/p.go\nin p\n-2 }\n+two }\n"
	faults, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	s := summary{prove: true}
	if err := s.all(t.Context(), r, faults); err != nil {
		t.Fatal(err)
	}
	want := "\nfound by the gate 1 of 3, found by long tests too 2 of 3\nnot found: space\ndoes not build: build\n"
	if s.String() != want || s.ok() {
		t.Errorf("%s", s.String())
	}
	f := firstFailure("p", "TIDEMARK_SEED=1\n--- FAIL: TestOne (0.1s)\n    a.go:1: TIDEMARK_SEED=2\n    a.go:2: not one\nFAIL\n")
	if f.String() != "p TestOne" || f.says != "a.go:2: not one" {
		t.Errorf("%+v", f)
	}
	f = firstFailure("p", "panic: test timed out after 1s\n\trunning tests:\n\t\tTestOne/sub (1s)\n\ngoroutine 1\n")
	if f.String() != "p TestOne" || !f.hung {
		t.Errorf("%+v", f)
	}
}
