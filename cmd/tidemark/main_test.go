package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// asMain makes the test binary run as tidemark, for tests that kill it.
const asMain = "TIDEMARK_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if mainTraced() {
		return
	}
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	collectFrom = func(int64) int64 { return 0 }
	collectOften = func(int) int { return 0 }
	testdb.Main(m)
}

// outcome is the result of a command line.
type outcome struct {
	code        int
	out, errOut string
}

// runLimit is how long one command line may take: no test is meant to come near it.
const runLimit = 10 * time.Minute

// cli runs a command line in this process, with a catalogue of its own. One that has not ended
// after ten minutes is ended, and fails the test with the stacks of all goroutines.
func cli(t *testing.T, args ...string) outcome {
	t.Helper()
	testdb.OnData(t)
	var out, errOut bytes.Buffer
	if !slices.Contains([]string{"ha", "engines", "manual", "backups", "verify", "prune", "--help", "--version"}, args[0]) {
		args = withState(t, args)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var stacks []byte
	late := time.AfterFunc(runLimit, func() {
		stacks = make([]byte, 16<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		cancel()
	})
	code := run(ctx, args, &out, &errOut)
	late.Stop()
	if ctx.Err() != nil {
		t.Errorf("tidemark %q had not ended within %v\n%s\n%s", args, runLimit, &errOut, stacks)
	}
	return outcome{code, out.String(), errOut.String()}
}

var (
	statesMu sync.Mutex // tests run in parallel
	states   = map[string]string{}
)

// statePath returns the test's catalogue.
func statePath(t *testing.T) string {
	t.Helper()
	statesMu.Lock()
	defer statesMu.Unlock()
	if states[t.Name()] == "" {
		states[t.Name()] = filepath.Join(t.TempDir(), "catalog.db")
	}
	return states[t.Name()]
}

// withState adds the test's catalogue to a command line that accepts one and names none.
func withState(t *testing.T, args []string) []string {
	t.Helper()
	group := args[0] == "archive" && len(args) > 1 && (args[1] == "push" || args[1] == "get")
	if slices.Contains(args, "--state") || group || slices.Contains([]string{"ha", "backups", "prune"}, args[0]) {
		return args
	}
	return append(slices.Clone(args), "--state", statePath(t))
}

// must runs a command line that must succeed.
func must(t *testing.T, args ...string) outcome {
	t.Helper()
	o := cli(t, args...)
	if o.code != 0 {
		t.Fatalf("tidemark %s: exit %d\n%s%s", strings.Join(args, " "), o.code, o.errOut, o.out)
	}
	return o
}

// process prepares a command line to run in a separate process.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, withState(t, args)...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	return cmd
}

// filled creates a new database of srv that holds a sample.
func filled(t *testing.T, srv *testdb.Server, sample string) string {
	t.Helper()
	url := srv.NewDatabase(t, "src")
	in := testdb.Sample
	if srv.Engine == "mysql" {
		in = testdb.SampleMySQL8
	}
	testdb.Load(t, url, in(t, sample))
	return url
}
