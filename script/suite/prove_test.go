//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A tree is a small module with the project's name and its own history.
type tree struct {
	*testing.T
	dir string
}

func (t tree) write(files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(t.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.git("add", "-A")
	t.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x")
}

func (t tree) git(args ...string) {
	t.Helper()
	if out, err := exec.Command("git", append([]string{"-C", t.dir}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// prove returns what make prove says, and which units it ran.
func (t tree) prove(limit time.Duration, wantOK bool) (said string, ran []string) {
	t.Helper()
	var out bytes.Buffer
	ok, err := prove(t.Context(), t.dir, limit, &out)
	if err != nil || ok != wantOK {
		t.Fatalf("%v, %v, want %v:\n%s", ok, err, wantOK, out.String())
	}
	for line := range strings.Lines(out.String()) {
		for _, word := range []string{"ok    ", "FAIL  "} {
			if unit, is := strings.CutPrefix(line, word); is && strings.Contains(line, " left") {
				unit, _, _ = strings.Cut(unit, ":")
				ran = append(ran, unit)
			}
		}
	}
	slices.Sort(ran)
	return out.String(), ran
}

// TestProve: what is proved runs again only if what it is built of has changed; what failed does
// not pass unseen; a record without its units' file still counts.
func TestProve(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and tests a tree a dozen times: not with -short")
	}
	t.Setenv("CGO_ENABLED", "1") // as make prove has it: the suite runs this test without
	w := tree{t, t.TempDir()}
	w.git("init", "-q")
	w.write(map[string]string{
		"go.mod":            "module " + module + "\n\ngo 1.26\n",
		".gitignore":        "bin/\n",
		"script/long-tests": "a TestLong 130\nb TestLong 130\n",
		"a/a.go":            "package a\n\nfunc One() int { return 1 }\n",
		"a/a_test.go":       "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\nfunc TestLong(t *testing.T) {}\n",
		"b/b_test.go":       "package b\n\nimport (\n\t\"os\"\n\t\"testing\"\n\n\t\"" + module + "/a\"\n)\n\nfunc TestLong(t *testing.T) {}\nfunc TestB(t *testing.T) {\n\tif _, err := os.Stat(\"bad\"); a.One() != 1 || err == nil {\n\t\tt.Fatal(\"verdict: data\")\n\t}\n}\n",
		"doc/x.md":          "x\n",
	})
	a := []string{"a long", "a long TestLong", "a race", "a race TestLong"}
	b := []string{"b long", "b long TestLong", "b race", "b race TestLong"}
	check := func(want ...[]string) func(said string, ran []string) {
		return func(said string, ran []string) {
			t.Helper()
			if diff := cmp.Diff(slices.Concat(want...), ran); diff != "" {
				t.Fatalf("what ran (-want +got):\n%s\n%s", diff, said)
			}
		}
	}
	planned := &proving{top: w.dir, from: map[string]source{}}
	if err := planned.plan(); err != nil {
		t.Fatal(err)
	}
	order := ""
	for _, u := range planned.left {
		order += u.key() + ", "
	}
	if want := "a long, a long TestLong, b long, b long TestLong, a race, a race TestLong, b race, b race TestLong, "; order != want {
		t.Errorf("the order is %s, want %s", order, want)
	}
	check(a, b)(w.prove(0, true))
	w.git("add", "-A") // the record is committed with other code, or alone
	w.write(map[string]string{"doc/x.md": "y\n"})
	check()(w.prove(0, true))

	w.write(map[string]string{"a/a.go": "package a\n\n// One is 1.\nfunc One() int { return 1 }\n"})
	if said, ran := w.prove(time.Nanosecond, true); len(ran) > 0 || !strings.Contains(said, "older than the code:\n  a long") {
		t.Fatalf("a slice without time ran %q:\n%s", ran, said)
	}
	check(a, b)(w.prove(0, true))

	bad := filepath.Join(w.dir, "b/bad")
	w.write(map[string]string{"b/other.txt": ""})
	if err := os.WriteFile(filepath.Join(w.dir, ".git/info/exclude"), []byte("b/bad\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(b)(w.prove(0, false))
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	said, ran := w.prove(0, true)
	check([]string{"b long", "b race"})(said, ran)
	if !strings.Contains(said, "unstable:\n  b long TestB") {
		t.Errorf("what failed before and passes now is not named:\n%s", said)
	}

	if err := os.RemoveAll(filepath.Join(w.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	check()(w.prove(0, true))
	w.write(map[string]string{"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n"})
	check([]string{"a long", "a race"})(w.prove(0, true))
	text, err := os.ReadFile(filepath.Join(w.dir, recordFile))
	if err != nil || strings.Count(string(text), "\n| ") != 1+4 || !strings.Contains(string(text), "| 0 | TestB | ") {
		t.Errorf("%v, the record is\n%s", err, text)
	}

	if err := os.WriteFile(filepath.Join(w.dir, "a/b.go"), []byte("package a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := prove(t.Context(), w.dir, 0, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("with a file that is not committed: %v", err)
	}
}
