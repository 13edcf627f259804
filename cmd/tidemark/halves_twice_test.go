package main

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestHalvesTwice runs each half of a stream twice at once, on two machines. The later apply takes over, and
// the first one ends; the later capture waits until the first one is gone.
func TestHalvesTwice(t *testing.T) {
	t.Parallel()
	for _, x := range []pair{{"postgres to mariadb", pg15, maria}, {"mariadb to postgres", maria, pg15}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			h := newHalves(t, x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"))
			testdb.Load(t, h.src, strings.NewReader(ledger))
			h.upToDate()
			with := func(args []string, state string) []string {
				for i := range args {
					if args[i] == "--state" {
						args = append(args[:i:i], args[i+2:]...)
						break
					}
				}
				return append(args[:len(args):len(args)], "--state", state)
			}
			otherCapture, otherApply := with(h.capture, copied(t, h.far)), with(h.apply, copied(t, statePath(t)))
			c, a := running(t, h.capture...), running(t, h.apply...)
			a.follows(h.src, h.dst, "history", -1)
			seed, stop := rand.Uint64(), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { trade(h.src, seed, stop) })
			c2, a2 := running(t, otherCapture...), running(t, otherApply...)
			a.ends(11, "another apply of this stream has taken over")
			c2.says("trying again", 1)
			a2.follows(h.src, h.dst, "history", -2)
			_ = c.Process.Kill()
			_ = c.Wait() // it was killed
			a2.follows(h.src, h.dst, "history", -3)
			close(stop)
			wg.Wait()
			c2.interrupt()
			a2.interrupt()
			for range 2 {
				must(t, append(otherCapture, "--until", "now")...)
				must(t, append(otherApply, "--until", "now")...)
			}
			must(t, "diff", h.src, h.dst)
		})
	}
}
