package testdb

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Long reports whether tests run whole, as in make test-all (TIDEMARK_TEST=all), or in their short form.
func Long() bool { return os.Getenv("TIDEMARK_TEST") == "all" }

// Seed gives a number that a test draws its random choices from. It is another one in each run, and is logged;
// TIDEMARK_SEED sets it.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("TIDEMARK_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("TIDEMARK_SEED: %v", err)
		}
	}
	tb.Logf("the same again: TIDEMARK_SEED=%d", seed)
	return seed
}

var builtProgram struct {
	sync.Once
	path string
	err  error
}

// Program returns the path of a tidemark built from this tree, for tests that run it as its users do. It is built
// once for each package of tests and is removed when they end.
func Program(tb testing.TB) string {
	tb.Helper()
	notShort(tb)
	builtProgram.Do(func() { builtProgram.path, builtProgram.err = buildProgram() })
	if builtProgram.err != nil {
		tb.Fatal(builtProgram.err)
	}
	return builtProgram.path
}

func buildProgram() (string, error) {
	home, err := processHome()
	if err != nil {
		return "", err
	}
	path := filepath.Join(home, "tidemark")
	cmd := exec.Command("go", "build", "-o", path, "github.com/tidemarkdb/tidemark/cmd/tidemark")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("testdb: go build of tidemark: %w\n%s", err, out)
	}
	return path, nil
}

// An Outcome is what a command line gave.
type Outcome struct {
	Code        int
	Out, ErrOut string
}

// Run runs tidemark with args in an empty folder of its own and with a catalogue there, and waits for its end.
func Run(tb testing.TB, args ...string) Outcome {
	tb.Helper()
	cmd := Command(tb, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		tb.Fatal(err)
	}
	return Outcome{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// Must is Run of a command line that has to end with exit code 0; it returns what was printed.
func Must(tb testing.TB, args ...string) string {
	tb.Helper()
	o := Run(tb, args...)
	if o.Code != 0 {
		tb.Fatalf("tidemark %q: exit %d\n%s%s", args, o.Code, o.ErrOut, o.Out)
	}
	return o.Out
}

// Command is tidemark with args, ready to start. Its folder is the test's (one for each test, which is removed with
// it), and so is its catalogue unless args name one.
func Command(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	dir := folderOf(tb)
	cmd := exec.Command(Program(tb), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "TIDEMARK_STATE="+filepath.Join(dir, "catalog.db"))
	return cmd
}

var (
	foldersMu sync.Mutex
	folders   = map[string]string{}
)

func folderOf(tb testing.TB) string {
	tb.Helper()
	foldersMu.Lock()
	defer foldersMu.Unlock()
	name := tb.Name()
	if folders[name] == "" {
		folders[name] = tb.TempDir()
		tb.Cleanup(func() { // with -count a test of the same name comes again
			foldersMu.Lock()
			defer foldersMu.Unlock()
			delete(folders, name)
		})
	}
	return folders[name]
}
