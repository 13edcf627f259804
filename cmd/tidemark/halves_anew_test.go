package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestHalvesAnew requests a reload of a table while it is being loaded, on either machine, and
// kills one half or both, at any moment. No half exits unprompted, and the last request is the one
// that is loaded. TIDEMARK_ANEW sets how many moments there are, TIDEMARK_TIMES how often the whole
// test repeats.
func TestHalvesAnew(t *testing.T) {
	t.Parallel()
	moments, times := fromEnv("TIDEMARK_ANEW", 4), fromEnv("TIDEMARK_TIMES", 1)
	for _, x := range []pair{{"postgres to mariadb", pg15, maria}, {"mariadb to postgres", maria, pg15}, {"mysql to postgres", mysql8, pg15}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			for range times {
				anew(t, x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), moments)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// fromEnv returns the value of a variable, or usual.
func fromEnv(variable string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return usual
}

func anew(t *testing.T, src, dst string, moments int) {
	const rows = 4_000
	h := newHalves(t, src, dst)
	items(t, src, rows)
	h.upToDate()
	seed, stop := testdb.Seed(t), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { churn(t, src, seed, rows, stop) })
	rnd := rand.New(rand.NewPCG(seed, 7))
	c, a := &restarted{t: t, args: h.capture}, &restarted{t: t, args: h.apply}
	defer func() {
		if all := append(c.log, a.log...); t.Failed() {
			slices.Sort(all) // in order of time
			t.Log(strings.Join(all, "\n"))
		}
	}()
	defer c.end(false)
	defer a.end(false)
	c.start()
	a.start()
	h.sub("reload", "item")
	for range moments {
		time.Sleep(time.Duration(rnd.IntN(700)) * time.Millisecond)
		for range 1 + rnd.IntN(2) {
			what := rnd.IntN(5)
			c.log = append(c.log, fmt.Sprintf("%s -- %s", time.Now().Format("15:04:05.000"), []string{"asked at the apply", "asked at the capture", "the capture is killed", "the apply is killed", "both are killed"}[what]))
			switch what {
			case 0:
				h.sub("reload", "item")
			case 1:
				must(t, "sub", "reload", "item", "--name", h.name, "--state", h.far)
			case 2:
				c.end(true)
				c.start()
			case 3:
				a.end(true)
				a.start()
			case 4:
				c.end(true)
				a.end(true)
				c.start()
				a.start()
			}
		}
	}
	begun, active := time.Now(), false
	for ; time.Since(begun) < patience && !active && !c.over() && !a.over(); time.Sleep(50 * time.Millisecond) {
		active = h.state("item") == "active" // and it may be loaded once more, as the capture was asked to
	}
	close(stop)
	wg.Wait()
	if t.Logf("after %v", time.Since(begun).Round(time.Millisecond)); !active {
		t.Errorf("it is %s; capture has ended: %v; apply: %v", h.state("item"), c.over(), a.over())
		return
	}
	c.end(false)
	a.end(false)
	h.upToDate()
	if got := h.state("item"); got != "active" {
		t.Errorf("in the end it is %s", got)
	}
	must(t, "diff", src, dst)
	must(t, append(h.apply, "--remove")...)
	must(t, append(h.capture, "--remove")...)
}

// A restarted is a half that is repeatedly killed, with all its output.
type restarted struct {
	*following
	t    *testing.T
	args []string
	log  []string
}

func (r *restarted) start() {
	r.t.Helper()
	r.following = running(r.t, r.args...)
}

// over reports whether it has exited unprompted and nobody has noticed yet.
func (r *restarted) over() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.Process.Pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// end kills it if it is running. An unprompted exit is an error.
func (r *restarted) end(at bool) {
	r.t.Helper()
	if r.ProcessState != nil {
		return
	}
	_ = r.Process.Kill()
	_ = r.Wait() // its state tells more
	if r.ProcessState.Exited() {
		r.t.Errorf("%s has ended by itself: exit %d", r.args[0], r.ProcessState.ExitCode())
	}
	r.log = append(r.log, fmt.Sprintf("%s -- %s, of process %d, killed amid: %v\n%s", time.Now().Format("15:04:05.000"), r.args[0], r.Process.Pid, at, &r.err))
}

// TestHalvesOnItsWay kills a capture while one of its messages is still in flight; it reaches the
// queue after the next capture has read the queue's end. That one reads it again.
func TestHalvesOnItsWay(t *testing.T) {
	t.Parallel()
	src, dst := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE item (id int PRIMARY KEY)")
	h := newHalves(t, src, dst)
	way := &slowWay{t: t, to: strings.TrimPrefix(h.both[3], "nats://"), subject: []byte("HPUB tidemark.queue." + h.name)}
	h.capture[len(h.capture)-1] = "nats://" + way.listen()
	h.upToDate()
	c, a := running(t, h.capture...), running(t, h.apply...)
	a.follows(src, dst, "item", 1)
	way.slow()
	testdb.Query(t, src, "INSERT INTO item VALUES (2)")
	c.await("message on its way", way.holds)
	_ = c.Process.Kill()
	_ = c.Wait() // it was killed
	c = running(t, h.capture...)
	a.follows(src, dst, "item", 3)
	if !strings.Contains(c.err.String(), "there is more in it than when this capture began") {
		t.Errorf("the message came otherwise\n%s", &c.err)
	}
	c.says("trans/s", 1)
	c.interrupt()
	a.interrupt()
	h.upToDate()
	equal(t, src, dst, h.name, h.both[2:]...)
}
