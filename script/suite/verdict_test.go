//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestVerdicts: what fails once and passes alone is unstable, and does not fail a run; what fails
// twice does, and so does what is never asked again: a verdict on data, a panic, a package that
// does not compile.
func TestVerdicts(t *testing.T) {
	once := `if _, err := os.Stat("seen"); err != nil { os.WriteFile("seen", nil, 0o600); t.Fatal("late"%s) }`
	for _, c := range []struct {
		name, body string // of the test
		ok         bool
		want       []string
	}{
		{"passes", `t.Run("sub", func(t *testing.T) {})`, true, []string{"ok    x", "2 passed, 0 failed, 0 skipped"}},
		{"once", strings.Replace(once, "%s", "", 1), true, []string{"FAIL  x TestX", "unstable: ", "x TestX", "0 passed, 0 failed"}},
		{"in a subtest", `t.Run("sub", func(t *testing.T) {` + strings.Replace(once, "%s", "", 1) + `})`, true, []string{"unstable: ", "x TestX"}},
		{"always", `t.Log("TIDEMARK_SEED=12"); t.Fatal("wrong")`, false,
			[]string{"--- FAIL: x TestX", "wrong", "again with: TIDEMARK_SEED=12 go test -run '^TestX$' x", "0 passed, 1 failed"}},
		{"data", strings.Replace(once, "%s", `+"\n`+testdb.Final+`"`, 1), false, []string{"--- FAIL: x TestX", "late"}},
		{"beside data", `t.Fatal("first")}; func TestZ(t *testing.T) { t.Fatal("rows\n` + testdb.Final + `")`, false, []string{"--- FAIL: x TestZ", "also failed, and was not asked again: x TestX", "first"}},
		{"beside many that passed", `t.Run("a", func(t *testing.T) { t.Fatal("first\n` + testdb.Final + `") }); t.Run("b", func(t *testing.T) { for i := 0; i < 200; i++ { t.Log("well done") } })`, false,
			[]string{"--- FAIL: x TestX/a", "first"}},
		{"panic", `panic("at the disco")`, false, []string{"at the disco", "1 failed"}},
		{"end", `os.Exit(3)`, false, []string{"failed as a whole", "1 failed"}},
		{"end behind a failure", strings.Replace(once, "%s", "", 1) + `}; func TestZ(t *testing.T) { os.Exit(3)`, false, []string{"failed as a whole", "FAIL  ", ": TestZ did not end", "TestZ did not end:"}},
		{"build", `nonsense()`, false, []string{"undefined: nonsense", "failed as a whole"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": "module x\n", "x_test.go": "package x\nimport (\"os\"; \"testing\")\nvar _ = os.Exit\nfunc TestX(t *testing.T) {" + c.body + "}\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			ok, err := runAll(filepath.Join(dir, "bin.json"), []string{"-C", dir, "-json", "-count=1", "-vet=off", "-skip", "^TestY$", "x"}, &out)
			if err != nil || ok != c.ok {
				t.Fatalf("%v, %v, want %v:\n%s", ok, err, c.ok, out.String())
			}
			for _, want := range c.want {
				if !strings.Contains(strings.ReplaceAll(out.String(), " -C "+dir, ""), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), "well done") {
				t.Errorf("what passed is printed:\n%s", out.String())
			}
			logs, err := filepath.Glob(filepath.Join(dir, "unstable", "x.TestX.[12].log"))
			if again := c.name == "always" || strings.Contains(out.String(), "unstable: "); err != nil || again != (len(logs) == 2) || !again != (len(logs) == 0) {
				t.Errorf("the logs are %q, %v", logs, err)
			}
		})
	}
}

// TestCommandThatDoesNotRun: a go test that fails before any test is not excused by tests of
// another one that pass when they run once more.
func TestCommandThatDoesNotRun(t *testing.T) {
	var out bytes.Buffer
	r := newRecorder(&out, io.Discard)
	goTest(t.Context(), []string{"-json", "-mod=nonsense"}, r)
	other := &command{recorder: r, args: []string{"-json"}, running: map[[2]string]*test{}, failed: map[string]bool{}}
	other.line([]byte(`{"Action":"fail","Package":"x","Test":"TestX"}`))
	ok, err := r.judge(t.Context(), t.TempDir())
	if err != nil || ok || !strings.Contains(out.String(), "failed as a whole: go test -json -mod=nonsense") {
		t.Fatalf("%v, %v:\n%s", ok, err, out.String())
	}
}

// TestFlagsOfOneTest: what failed runs once more with the flags that make test and make prove give.
func TestFlagsOfOneTest(t *testing.T) {
	group := []string{"TIDEMARK_SEED=1", "-C", "bench", "-vet=off", "-race", "-json", "-p", "1", "-count", "1", "-parallel", "5", "-timeout", "90m", "-run", "^TestX$", "-skip", "^TestY$", "x"}
	want := "TIDEMARK_SEED=1 -C bench -vet=off -race -json -p 1 -count 1 -parallel 5 -timeout 90m"
	if got := strings.Join((&test{group: group}).flags(), " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
