package main

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestHalvesTwice runs each half of a stream twice concurrently, on two machines. The later apply
// takes over, and the first one ends; the later capture waits until the first one is gone.
func TestHalvesTwice(t *testing.T) {
	t.Parallel()
	for _, x := range []pair{{"postgres to mariadb", pg15, maria}, {"mariadb to postgres", maria, pg15}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			h := newHalves(t, x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"))
			testdb.Load(t, h.src, strings.NewReader(ledger))
			h.upToDate()
			otherCapture, otherApply := withOther(h.capture, copied(t, h.far)), withOther(h.apply, copied(t, statePath(t)))
			c, a := running(t, h.capture...), running(t, h.apply...)
			a.follows(h.src, h.dst, "history", -1)
			seed, stop := testdb.Seed(t), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { trade(t, h.src, seed, stop) })
			c2, a2 := running(t, otherCapture...), running(t, otherApply...)
			a.ends(11, "another apply of this stream has taken over")
			c2.says("retrying", 1)
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

// withOther returns a command line with another catalogue.
func withOther(args []string, state string) []string {
	out := slices.Clone(args)
	if i := slices.Index(out, "--state"); i >= 0 {
		out = slices.Delete(out, i, i+2)
	}
	return append(out, "--state", state)
}

// TestHalvesLooksAgain starts a second capture, and lets the first one add to the queue and confirm
// it to the source just between the second one's reading of the queue's end and of the slot's
// position. Nothing of that is lost.
func TestHalvesLooksAgain(t *testing.T) {
	t.Parallel()
	srv := pg15(t)
	direct, dst := srv.NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst")
	testdb.Query(t, direct, "CREATE TABLE item (id int PRIMARY KEY)")
	var looks atomic.Bool
	slot := ""
	to := net.JoinHostPort(srv.Host, strconv.Itoa(srv.Port))
	addr := between(t, to, func(client, server net.Conn) {
		go pipe(client, server, nil)
		defer server.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if bytes.Contains(buf[:n], []byte("coalesce(wal_status")) && looks.Swap(false) {
				end, qerr := testdb.TryQuery(direct, "INSERT INTO item VALUES (2); SELECT pg_current_wal_lsn()")
				forgotten := "SELECT confirmed_flush_lsn >= '" + end + "' FROM pg_replication_slots WHERE slot_name = '" + slot + "'"
				for n := 100; qerr == nil && n < 2500; n++ {
					if yes, _ := testdb.TryQuery(direct, forgotten); yes == "t" {
						break
					}
					// Its end is recorded with the next one.
					_, qerr = testdb.TryQuery(direct, fmt.Sprintf("INSERT INTO item VALUES (%d)", n))
					time.Sleep(50 * time.Millisecond)
				}
				if qerr != nil {
					t.Error(qerr)
				}
			}
			if _, werr := server.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	})
	h := newHalves(t, strings.Replace(direct, to, addr, 1), dst)
	slot = "tidemark_" + h.name
	h.upToDate()
	other := withOther(h.capture, copied(t, h.far))
	c, a := running(t, h.capture...), running(t, h.apply...)
	a.follows(direct, dst, "item", 1)
	looks.Store(true)
	c2 := running(t, other...)
	c2.says("another capture has added to the queue meanwhile", 1)
	c.interrupt()
	a.follows(direct, dst, "item", 3)
	c2.interrupt()
	a.interrupt()
	must(t, "diff", direct, dst)
}
