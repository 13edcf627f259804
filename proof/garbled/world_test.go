// Package garbled runs the program against real servers behind a proxy that relays their answers
// and lies at one point. Lengths, counts and texts become absurd; messages are cut, duplicated,
// swapped, held back, or never end. In every case the command ends, on its own or on request, with
// a documented exit code, a one-line error, bounded memory, and no trace of Go's runtime.
package garbled

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

const (
	mayRun  = 4 * time.Second  // then the command is asked to end, once it has reached the server
	mayCome = 60 * time.Second // to the server, on a busy machine
	mayEnd  = 30 * time.Second // then it has ignored the request
	mayTake = 500 << 20        // bytes of memory
	mayFill = 3 << 30          // bytes of memory with a server that sends more and more, up to the limits on answers
)

// A scene is a command line that reaches a server through a proxy. Its preparation may use the
// proxy too: lies begin with the command.
type scene struct {
	name string
	args func(t *testing.T, at string) []string // at is the address of the proxy
}

// lies runs a scene once unchanged, and then with one lie each time: for each kind of message seen
// and each way of changing it; the short form draws some.
func lies(t *testing.T, s protocol, to string, all []scene, some, many int) {
	for _, sc := range all {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			truth := newProxy(t, s, to, nil)
			args := sc.args(t, truth.addr)
			e := command(t, truth, args)
			kinds := slices.Sorted(maps.Keys(truth.seen))
			if len(kinds) == 0 {
				t.Fatalf("%q: nothing went by way of the proxy: exit %d\n%s", args, e.code, e.text)
			}
			rnd := rand.New(rand.NewPCG(seedOf(t.Name()), 1))
			if testdb.Long() {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				rnd = rand.New(rand.NewPCG(seed, 1))
				some = many
			}
			first := rnd.IntN(len(kinds) * len(ways))
			for i := range some {
				kind := kinds[(first+i)%len(kinds)]
				l := &lie{kind: kind, nth: rnd.IntN(truth.seen[kind]), way: (first + i*7) % len(ways), rnd: rand.New(rand.NewPCG(rnd.Uint64(), 2))}
				if rnd.IntN(3) == 0 {
					l.nth = 0 // the first message is not requested twice
				}
				t.Run(fmt.Sprint(i), func(t *testing.T) { // for its databases and slots
					p := newProxy(t, s, to, l)
					endure(t, p, sc.args(t, p.addr))
				})
			}
		})
	}
}

// seedOf makes the short form the same in every run.
func seedOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}

// An end is how a command ended.
type end struct {
	code   int
	text   string
	memory int64
	took   time.Duration
	hung   bool
}

// command runs a command line, and asks it to end if it does not end on its own.
func command(t *testing.T, p *proxy, args []string) end {
	t.Helper()
	cmd := testdb.Command(t, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p.arm()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(mayCome+mayEnd, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	ended := make(chan struct{})
	go func() {
		for came := false; !came && time.Since(began) < mayCome; came = p.reached() {
			select {
			case <-ended:
				return
			case <-time.After(mayRun):
			}
		}
		kill.Reset(mayEnd)
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}()
	_ = cmd.Wait() // its state tells more
	close(ended)
	e := end{code: cmd.ProcessState.ExitCode(), text: out.String(), took: time.Since(began), hung: !kill.Stop()}
	p.close()
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		e.memory = use.Maxrss << 10
	}
	return e
}

// documented are the exit codes of doc/manual/exit-codes.md except 70, which reports a fault of the
// program.
var documented = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 130}

// endure runs command with a lie, and checks everything that must be true of its end.
func endure(t *testing.T, p *proxy, args []string) {
	t.Helper()
	e := command(t, p, args)
	var wrong []string
	if e.hung {
		wrong = append(wrong, fmt.Sprintf("it does not end within %s of SIGTERM", mayEnd))
	}
	for _, crash := range []string{"panic:", "goroutine ", "fatal error:", "runtime error", "panicked"} {
		if strings.Contains(e.text, crash) && !e.hung {
			wrong = append(wrong, "it crashed")
			break
		}
	}
	if !slices.Contains(documented, e.code) {
		wrong = append(wrong, "the exit code is not one for what others do")
	}
	stopped := e.code == 130 && strings.HasSuffix(strings.TrimSpace(e.text), " stopped") // a command that runs until stopped, and kept running
	if e.code > 1 && !stopped && !strings.Contains(e.text, "tidemark: ") {
		wrong = append(wrong, "there is no error")
	}
	most := int64(mayTake)
	if ways[p.lie.way].endless || strings.Contains(ways[p.lie.way].name, "length") { // a message may have 1 GB
		most = mayFill
	}
	if e.memory > most {
		wrong = append(wrong, fmt.Sprintf("it took %d MB of memory", e.memory>>20))
	}
	if os.Getenv("TIDEMARK_GARBLED") != "" {
		t.Logf("%v %s: exit %d, %s, %d MB: %.300s", args, p.lie, e.code, e.took.Round(time.Millisecond), e.memory>>20, last(e.text))
	}
	if wrong != nil {
		t.Errorf("%q, where %s: %s (exit %d after %s)\n%.6000s", args, p.lie, strings.Join(wrong, "; "), e.code, e.took, e.text)
	}
}

func last(text string) string {
	if i := strings.Index(text, "tidemark: "); i >= 0 {
		return text[i:]
	}
	return text
}

// shorter returns only the first n scenes in the short form.
func shorter(all []scene, n int) []scene {
	if testdb.Long() || os.Getenv("TIDEMARK_GARBLED") != "" {
		return all
	}
	return all[:n]
}

// some is how many lies a scene has in the short form: n, or n times a factor from the environment.
func some(n int) int {
	times := 1
	if text := os.Getenv("TIDEMARK_GARBLED"); text != "" {
		_, _ = fmt.Sscan(text, &times)
	}
	return n * times
}
