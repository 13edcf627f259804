package testdb

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb/home"
)

// Long reports whether tests run in full, as in make prove (TIDEMARK_TEST=all), or in their
// short form.
func Long() bool { return os.Getenv("TIDEMARK_TEST") == "all" }

// Seed returns the seed of a test's random choices, and logs it. TIDEMARK_SEED sets it, as make
// test does by the tree that is tested; otherwise it differs in each run.
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

// Draw returns which of the n cases of a matrix run: all of them in the long form, otherwise a
// random selection of some, drawn by a Seed. Each seed draws others, so every case has its turn.
func Draw(tb testing.TB, n, some int) []int {
	tb.Helper()
	if Long() || some >= n {
		some = n
	}
	drawn := rand.New(rand.NewPCG(Seed(tb), uint64(n))).Perm(n)[:some]
	slices.Sort(drawn)
	return drawn
}

var builtProgram struct {
	sync.Once
	path string
	err  error
}

// Program returns the path of a tidemark built from this tree, for tests that run it as users do.
// It is built into the cache when a test package first asks; another package that asks does not
// link it again if nothing has changed. Each package has its own copy, which is removed when its
// tests end.
func Program(tb testing.TB) string {
	tb.Helper()
	NotShort(tb)
	builtProgram.Do(func() { builtProgram.path, builtProgram.err = buildProgram() })
	if builtProgram.err != nil {
		tb.Fatal(builtProgram.err)
	}
	return builtProgram.path
}

func buildProgram() (string, error) {
	own, err := processHome()
	if err != nil {
		return "", err
	}
	tree, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("testdb: where the tree is: %w", err)
	}
	cached := filepath.Join(cacheDir(), fmt.Sprintf("tidemark-%x", sha256.Sum256(tree))[:24])
	unlock, err := home.Lock(cached+".lock", true)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Omit debug information, which takes most of the linking time.
	cmd := exec.Command("go", "build", "-ldflags=-w", "-o", cached, module+"/cmd/tidemark")
	if out, err := cmd.CombinedOutput(); err != nil { // cgo as in the tests, to share their compiled packages
		return "", fmt.Errorf("testdb: go build of tidemark: %w\n%s", err, out)
	}
	path := filepath.Join(own, "tidemark")
	if out, err := exec.Command("cp", cached, path).CombinedOutput(); err != nil {
		return "", fmt.Errorf("testdb: copy of tidemark: %w\n%s", err, out)
	}
	return path, nil
}

const module = "github.com/tidemarkdb/tidemark"

// An Outcome is the result of a command line.
type Outcome struct {
	Code        int
	Out, ErrOut string
}

// runLimit is how long one command line of a test may take: no test is meant to come near it.
const runLimit = 10 * time.Minute

// Run runs tidemark with args in an empty folder of its own and with a catalogue there, and waits
// for it to end. If it has not after ten minutes, it prints its stacks and the test fails.
func Run(tb testing.TB, args ...string) Outcome {
	tb.Helper()
	cmd := Command(tb, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.WaitDelay = time.Minute // for what it has started and left behind
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	late := time.AfterFunc(runLimit, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	_ = cmd.Wait() // its state tells more
	if !late.Stop() {
		tb.Fatalf("tidemark %q has not ended within %v\n%s%s", args, runLimit, &errOut, &out)
	}
	return Outcome{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// Must is Run for a command line that must end with exit code 0; it returns the output.
func Must(tb testing.TB, args ...string) string {
	tb.Helper()
	o := Run(tb, args...)
	if o.Code != 0 {
		tb.Fatalf("tidemark %q: exit %d\n%s%s", args, o.Code, o.ErrOut, o.Out)
	}
	return o.Out
}

// Command returns tidemark with args, ready to start. It runs in the test's folder (one per test,
// removed with it), which also holds its catalogue unless args name one.
func Command(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	OnData(tb)
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
		tb.Cleanup(func() { // with -count a test of the same name runs again
			foldersMu.Lock()
			defer foldersMu.Unlock()
			delete(folders, name)
		})
	}
	return folders[name]
}
