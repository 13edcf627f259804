package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A fragileServer is a NATS server that loses its store.
type fragileServer struct {
	t    *testing.T
	opt  *server.Options
	nats *server.Server
}

func newFragileServer(t *testing.T) *fragileServer {
	t.Helper()
	s := &fragileServer{t: t, opt: &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, SyncAlways: true}}
	s.start()
	s.opt.Port = s.nats.Addr().(*net.TCPAddr).Port
	t.Cleanup(s.stop)
	return s
}

func (s *fragileServer) start() {
	s.t.Helper()
	var err error
	if s.nats, err = server.NewServer(s.opt); err != nil {
		s.t.Fatal(err)
	}
	go s.nats.Start()
	if !s.nats.ReadyForConnections(patience) {
		s.t.Fatal("the NATS server does not start")
	}
}

func (s *fragileServer) stop() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}

// lose restarts the server with an empty store.
func (s *fragileServer) lose() {
	s.t.Helper()
	s.stop()
	s.opt.StoreDir = s.t.TempDir()
	s.start()
}

// TestQueueLost loses the store of a queue: while all of it is on the target, while transactions
// wait in it, and while a table's rows do. It follows the hints: a source that still has its log
// continues from the target's log position.
func TestQueueLost(t *testing.T) {
	t.Parallel()
	for _, x := range []pair{{"mysql to postgres", mysql8, pg15}, {"mariadb to mariadb", maria, maria}, {"postgres to mariadb", pg15, maria}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			from := x.src(t)
			src, dst := from.NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst")
			h := newHalves(t, src, dst)
			nats := newFragileServer(t)
			for _, args := range [][]string{h.both, h.capture, h.apply} {
				args[slices.Index(args, "--queue")+1] = nats.nats.ClientURL()
			}
			items(t, src, 1000)
			testdb.Query(t, src, "CREATE TABLE journal (n int)")
			if from.Engine == "postgres" {
				testdb.Query(t, src, "ALTER TABLE journal REPLICA IDENTITY FULL")
			}
			h.upToDate()
			next := 0
			more := func() {
				next++
				testdb.Query(t, src, "INSERT INTO journal VALUES ("+string(rune('0'+next))+"); UPDATE other SET n = n + 1; UPDATE item SET n = n + 1 WHERE id < 500")
			}
			more()
			h.upToDate()
			// Everything in it is on the target.
			nats.lose()
			h.lost()
			h.fromTarget()
			more()
			h.upToDate()
			must(t, "diff", src, dst)
			// Transactions wait in it.
			more()
			must(t, append(h.capture, "--until", "now")...)
			more()
			nats.lose()
			h.lost()
			if from.Engine == "postgres" {
				o := cli(t, append(h.capture, "--until", "now", "--from-target")...)
				if o.code != 11 || !strings.Contains(o.errOut, "The source has released what was in the queue") || !strings.Contains(o.errOut, "To copy again, use --anew") || strings.Contains(o.errOut, "another process") {
					t.Errorf("exit %d\n%s", o.code, o.errOut)
				}
				must(t, append(h.capture, "--until", "now", "--anew")...)
				must(t, append(h.apply, "--until", "now", "--anew", "--prep", "truncate")...)
			} else {
				h.fromTarget()
			}
			h.upToDate()
			must(t, "diff", src, dst)
			if from.Engine == "postgres" {
				return // the rest is for sources that still have their log
			}
			// Rows of a table wait in it.
			h.sub("reload", "item")
			must(t, append(h.apply, "--until", "now")...)
			must(t, append(h.capture, "--until", "now")...)
			more()
			nats.lose()
			h.lost()
			h.fromTarget()
			h.upToDate()
			if o := h.sub().out; strings.Contains(o, "stopped") || h.state("item") != "active" {
				t.Error(o)
			}
			must(t, "diff", src, dst)
			must(t, append(h.apply, "--remove")...)
			must(t, append(h.capture, "--remove")...)
		})
	}
}

// lost requires the capture to report what has happened, and to name the way to continue.
func (h *halves) lost() {
	h.t.Helper()
	o := cli(h.t, append(h.capture, "--until", "now")...)
	if o.code != 11 || !strings.Contains(o.errOut, "its store was lost") || !strings.Contains(o.errOut, "Run the same command with --from-target") || strings.Contains(o.errOut, "another process") {
		h.t.Fatalf("exit %d\n%s", o.code, o.errOut)
	}
}

// fromTarget follows the hint, and is killed the first time.
func (h *halves) fromTarget() {
	h.t.Helper()
	c := running(h.t, append(h.capture, "--from-target")...)
	c.says("its queue starts again at the target's log position", 1)
	_ = c.Process.Kill()
	_ = c.Wait() // killed on purpose
	must(h.t, append(h.capture, "--until", "now", "--from-target")...)
	must(h.t, append(h.apply, "--until", "now")...)
}

// TestFolderLost loses the queue folder of a single process that captures and applies, while a
// transaction waits in it.
func TestFolderLost(t *testing.T) {
	t.Parallel()
	for _, x := range []pair{{"mariadb to postgres", maria, pg15}, {"postgres to mysql", pg15, mysql8}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			from := x.src(t)
			src, dst, name, dir := from.NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName(), filepath.Join(t.TempDir(), "queue")
			testdb.Query(t, src, "CREATE TABLE item (id int PRIMARY KEY, n int); INSERT INTO item VALUES (1, 1)")
			args := []string{"replicate", src, dst, "--name", name, "--queue", "durable", "--queue-dir", dir}
			now := append(slices.Clone(args), "--until", "now")
			must(t, now...)
			testdb.Query(t, dst, "INSERT INTO item VALUES (2, 99)")
			f := running(t, append(args, "--conflict", "stop-queue")...)
			testdb.Query(t, src, "INSERT INTO item VALUES (2, 2)")
			f.says("stopped: queue of "+name, 1)
			testdb.Query(t, src, "INSERT INTO item VALUES (3, 3)")
			f.says("trans/s", 2)
			f.interrupt()
			testdb.Query(t, dst, "DELETE FROM item WHERE id = 2")
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if from.Engine == "postgres" {
				for _, more := range [][]string{nil, {"--from-target"}} {
					o := cli(t, append(slices.Clone(now), more...)...)
					if o.code != 11 || !strings.Contains(o.errOut, "The source has released what was in the queue") || !strings.Contains(o.errOut, "To copy again, use --anew") || strings.Contains(o.errOut, "another process") {
						t.Errorf("exit %d\n%s", o.code, o.errOut)
					}
				}
				must(t, append(now, "--anew", "--prep", "truncate")...)
			} else {
				must(t, append(now, "--from-target")...)
			}
			testdb.Query(t, src, "INSERT INTO item VALUES (4, 4)")
			must(t, now...)
			if a, b := testdb.Query(t, src, "SELECT id, n FROM item ORDER BY id"), testdb.Query(t, dst, "SELECT id, n FROM item ORDER BY id"); a != b {
				t.Errorf("the target has\n%s\nnot\n%s", b, a)
			}
			must(t, append(args, "--remove")...)
		})
	}
}
