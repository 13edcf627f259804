package main

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestHalvesReload loads tables while capture and apply are two processes with separate catalogues,
// the tables are being written to, and both processes are killed, together or one at a time.
func TestHalvesReload(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
	}{
		{"postgres to mariadb", pg15, maria},
		{"mariadb to postgres", maria, pg15},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			h := newHalves(t, x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"))
			const rows = 20_000
			items(t, h.src, rows)
			h.upToDate()
			testdb.Query(t, h.dst, "DELETE FROM item WHERE id % 3 = 0")
			if o := h.sub("reload", "item"); !strings.Contains(o.errOut, "item: loading; the stream is not running") {
				t.Errorf("it says\n%s", o.errOut)
			}
			seed, stop := testdb.Seed(t), make(chan struct{})
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() { churn(t, h.src, seed+uint64(i), rows, stop) })
			}
			rnd := rand.New(rand.NewPCG(seed, 7))
			c, a := running(t, h.capture...), running(t, h.apply...)
			for range 4 {
				time.Sleep(time.Duration(500+rnd.IntN(1200)) * time.Millisecond)
				which := rnd.IntN(3)
				if which != 0 {
					_ = c.Process.Kill()
					_ = c.Wait() // killed on purpose
					c = running(t, h.capture...)
				}
				if which != 1 {
					_ = a.Process.Kill()
					_ = a.Wait()
					a = running(t, h.apply...)
				}
			}
			a.await("active table", func() bool { return h.state("item") == "active" })
			close(stop)
			wg.Wait()
			c.says("trans/s", 1) // a signal before the stream starts would end it
			a.says("trans/s", 1)
			c.interrupt()
			a.interrupt()
			h.upToDate()
			must(t, "diff", h.src, h.dst)

			// Requested where capture runs; changes from before the end of the load are applied
			// strictly again.
			testdb.Query(t, h.dst, "UPDATE item SET n = n + 1000 WHERE id % 3 = 1")
			must(t, "sub", "reload", "item", "--name", h.name, "--state", h.far)
			testdb.Query(t, h.src, "UPDATE item SET n = 77 WHERE id % 100 = 0; UPDATE other SET n = 77")
			h.upToDate()
			must(t, "diff", h.src, h.dst)
			h.loads(t)
			equal(t, h.src, h.dst, h.name, h.both[2:]...)
			must(t, append(h.apply, "--remove")...)
			must(t, append(h.capture, "--remove")...)
		})
	}
}

// loads starts tables created on the source since, one of which cannot be loaded.
func (h *halves) loads(t *testing.T) {
	t.Helper()
	testdb.Query(t, h.src, "CREATE TABLE fresh (id int PRIMARY KEY, n int); CREATE TABLE unkeyed (id int NOT NULL UNIQUE, n int)")
	if strings.HasPrefix(h.src, "postgres") {
		testdb.Query(t, h.src, "ALTER TABLE unkeyed REPLICA IDENTITY FULL")
	}
	testdb.Query(t, h.src, "INSERT INTO fresh VALUES (1, 1), (2, 2), (3, 3); INSERT INTO unkeyed VALUES (1, 1)")
	h.sub("start", "fresh")
	h.sub("start", "unkeyed")
	h.upToDate() // that one of them cannot be loaded arrives even though nobody writes
	if got := h.state("fresh") + " " + h.state("unkeyed"); got != "active stopped" {
		t.Errorf("they are %s\n%s", got, h.sub().out)
	}
	if o := h.sub(); !strings.Contains(o.out, "has no primary key") {
		t.Errorf("sub says\n%s", o.out)
	}
	testdb.Query(t, h.src, "UPDATE fresh SET n = 8 WHERE id = 3")
	h.upToDate()
	must(t, "diff", h.src, h.dst, "--exclude", "*.unkeyed")

	// A withdrawn request does not arrive.
	h.sub("stop", "fresh")
	h.sub("reload", "fresh")
	must(t, append(h.apply, "--until", "now")...)
	h.sub("stop", "fresh")
	testdb.Query(t, h.src, "UPDATE fresh SET n = 9 WHERE id = 3")
	h.upToDate()
	if got, n := h.state("fresh"), testdb.Query(t, h.dst, "SELECT n FROM fresh WHERE id = 3"); got != "stopped" || n != "8" {
		t.Errorf("fresh is %s with %s", got, n)
	}
	h.sub("reload", "fresh")
	h.upToDate()
	must(t, "diff", h.src, h.dst, "--exclude", "*.unkeyed")

	o := cli(t, "sub", "stop", "fresh", "--name", h.name, "--state", h.far)
	if o.code != 2 || !strings.Contains(o.errOut, "is only possible where tidemark apply runs") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	testdb.Query(t, h.src, "DROP TABLE unkeyed")
	testdb.Query(t, h.dst, "DROP TABLE unkeyed") // otherwise cutover finds it there and not on the source
}

// halves are a capture and an apply on two hosts.
type halves struct {
	t                    *testing.T
	src, dst, name, far  string // far: the capture's catalogue
	both, capture, apply []string
}

func newHalves(t *testing.T, src, dst string) *halves {
	t.Helper()
	h := &halves{t: t, src: src, dst: dst, name: streamName(), far: filepath.Join(t.TempDir(), "far.db")}
	h.both = []string{"--name", h.name, "--queue", natsServer(t)}
	h.capture = append([]string{"capture", src, dst, "--state", h.far}, h.both...)
	h.apply = append([]string{"apply", src, dst}, h.both...)
	return h
}

// upToDate lets both finish all pending work, including what the first asks of the other.
func (h *halves) upToDate() {
	h.t.Helper()
	must(h.t, append(h.capture, "--until", "now")...)
	must(h.t, append(h.apply, "--until", "now")...)
	must(h.t, append(h.capture, "--until", "now")...)
	must(h.t, append(h.apply, "--until", "now")...)
}

// sub runs tidemark sub where apply runs.
func (h *halves) sub(given ...string) outcome {
	h.t.Helper()
	return must(h.t, append(append([]string{"sub"}, given...), "--name", h.name)...)
}

// state returns a table's state where apply runs.
func (h *halves) state(table string) string {
	h.t.Helper()
	for line := range strings.Lines(h.sub().out) {
		if f := strings.Fields(line); strings.HasSuffix(f[0], "."+table) {
			return f[1]
		}
	}
	return ""
}
