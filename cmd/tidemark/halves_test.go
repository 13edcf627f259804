package main

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// natsServer starts a NATS server configured as in production.
func natsServer(t *testing.T) (url string) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, SyncAlways: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	return s.ClientURL()
}

// TestHalves has two processes do the work of replicate. The apply half connects to the source
// until it has copied, and never again, even when the table gets a column; both are killed
// repeatedly.
func TestHalves(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		from, to func(*testing.T) *testdb.Server
	}{
		{"postgres to mariadb", pg15, maria},
		{"mariadb to postgres", maria, pg15},
		{"postgres to postgres", pg15, pg15},
		{"mysql to mysql", mysql8, mysql8},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			from := x.from(t)
			src, dst, name := from.NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), streamName()
			testdb.Load(t, src, strings.NewReader(ledger))
			way := newProxy(t, from)
			far := strings.Replace(src, way.to, way.addr, 1)
			both := []string{"--name", name, "--queue", natsServer(t)}
			capture := append([]string{"capture", src, dst}, both...)
			apply := append([]string{"apply", far, dst}, both...)
			seed, stop := testdb.Seed(t), make(chan struct{})
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() { trade(t, src, seed+uint64(i), stop) })
			}
			a := running(t, apply...)
			a.says("waits for tidemark capture", 1)
			c := running(t, capture...)
			a.says("copied (run", 1)
			way.stop()
			for round := range 3 {
				time.Sleep(time.Second)
				if round == 1 {
					testdb.Query(t, src, "ALTER TABLE account ADD COLUMN extra int DEFAULT 5")
				} else if round == 2 && from.Engine == "mysql" { // what it drops and renames is in the log
					testdb.Query(t, src, "ALTER TABLE account RENAME COLUMN extra TO more, ADD COLUMN gone int DEFAULT 1")
					testdb.Query(t, src, "ALTER TABLE account MODIFY more varchar(30), DROP COLUMN gone")
				}
				c.says("captured, in the queue after", 1)
				a.says("trans/s", 1)
				if round%2 == 0 {
					_, _ = a.Process.Kill(), c.Process.Kill()
					_, _ = a.Wait(), c.Wait() // killed on purpose
				} else {
					a.interrupt()
					c.interrupt()
				}
				c, a = running(t, capture...), running(t, apply...)
			}
			c.says("trans/s", 1)
			a.says("trans/s", 1)
			if o := must(t, "status"); !strings.Contains(o.out, name+"-apply: following") || !strings.Contains(o.out, name+"-capture: following") || !strings.Contains(o.out, "rows captured\n") || !strings.Contains(o.out, "rows applied\n") {
				t.Errorf("status says\n%s", o.out)
			}
			close(stop)
			wg.Wait()
			c.interrupt()
			a.interrupt()
			must(t, append(capture, "--until", "now")...)
			applied := must(t, append(apply, "--until", "now")...)
			if o := cli(t, "diff", src, dst); o.code != 0 {
				t.Fatalf("diff: exit %d\n%s%s\napply said\n%s%s\nstatus says\n%s", o.code, o.out, o.errOut, applied.out, applied.errOut, cli(t, "status", "-v").out)
			}
			if o := must(t, append([]string{"peek", name, "--json"}, both[2:]...)...); strings.Contains(o.out, `"op":"message"`) && !strings.Contains(o.out, `"text":"tidemark.`) {
				t.Errorf("peek says\n%s", o.out)
			}
			testdb.Query(t, src, "INSERT INTO branch (id, name) VALUES (77, 'last')")
			way.start()
			equal(t, far, dst, name, both[2:]...)
			must(t, append(apply, "--remove")...)
			must(t, append(capture, "--remove")...)
			if from.Engine == "postgres" {
				nothingOfAStream(t, src)
			}
		})
	}
}

// TestHalvesRefuse checks what halves require, and runs one apply that never connects to the
// source.
func TestHalvesRefuse(t *testing.T) {
	t.Parallel()
	srv := testdb.Postgres(t, 15)
	src, dst, name := srv.NewDatabase(t, "src"), srv.NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(ledger))
	for _, verb := range []string{"capture", "apply"} {
		for _, queue := range []string{"", "direct", "durable"} {
			o := cli(t, verb, src, dst, "--name", name, "--queue", queue)
			if o.code != 2 || !strings.Contains(o.errOut, "capture and apply need a queue on a server") {
				t.Errorf("%s with queue %q: exit %d\n%s", verb, queue, o.code, o.errOut)
			}
		}
	}
	nothingOfAStream(t, src)
	must(t, "copy", src, dst)
	both := []string{"--name", name, "--queue", natsServer(t), "--until", "now"}
	capture := append([]string{"capture", src, dst}, both...)
	must(t, capture...)
	testdb.Query(t, src, "UPDATE branch SET total = 7; INSERT INTO account (id, branch) VALUES (1, 1)")
	must(t, capture...)
	apply := append([]string{"apply", "postgres://nobody@127.0.0.1:1/none", dst, "--state", filepath.Join(t.TempDir(), "far.db")}, both...)
	if o := must(t, append(apply, "--no-copy")...); !strings.Contains(o.out, "2 transactions, 5 rows applied") && !strings.Contains(o.out, "1 transaction") {
		t.Errorf("it says\n%s", o.out)
	}
	must(t, "diff", src, dst)
	// A recreated queue is that of another stream, and lacks what this target needs.
	must(t, append(capture, "--anew")...)
	testdb.Query(t, src, "UPDATE branch SET total = 8")
	must(t, capture...)
	if o := cli(t, apply...); o.code != 8 || !strings.Contains(o.errOut, "--anew") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	must(t, append(capture, "--remove")...)
	nothingOfAStream(t, src)
}
