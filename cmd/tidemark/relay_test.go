package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const relaySecret = "5d1f0a7bfe9b4c6d"

// relaying starts a relay.
func relaying(t *testing.T, args ...string) *following {
	t.Helper()
	f := &following{Cmd: process(t, append([]string{"relay"}, args...)...), t: t}
	f.Stderr = &f.err
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.Process.Kill()
		_ = f.Wait() // it may have ended
	})
	f.says("listening on", 1)
	return f
}

// TestRelay has a queue beside the target. The relay, the capture and the apply are killed
// repeatedly, and the link is cut: nothing is lost or doubled, and the secret is written nowhere.
func TestRelay(t *testing.T) {
	t.Parallel()
	src, dst, name := pg15(t).NewDatabase(t, "src"), maria(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(ledger))
	addr, dir, file := testdb.FreeAddress(t), filepath.Join(t.TempDir(), "relay"), testdb.Written(t, "relay.secret", relaySecret+"\n")
	far := func() *following { return relaying(t, "--listen", addr, "--dir", dir, "--secret-file", file) }
	_, port, _ := strings.Cut(addr, ":")
	link := testdb.NewWire(t, port, time.Millisecond)
	capture := []string{"capture", src, dst, "--name", name, "--queue", "relay:127.0.0.1:" + link.Port + "?secret-file=" + file}
	apply := []string{"apply", src, dst, "--name", name, "--queue", "relay:" + addr + "?secret-file=" + file}
	seed, stop := testdb.Seed(t), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { trade(t, src, seed, stop) })
	r, c, a := far(), running(t, capture...), running(t, apply...)
	a.says("copied (run", 1)
	var said bytes.Buffer
	for round := range 4 {
		c.says("captured, in the queue after", 1)
		a.says("trans/s", 1)
		switch round {
		case 0:
			_ = r.Process.Kill()
			_ = r.Wait() // it was killed
			said.WriteString(r.err.String())
			r = far()
		case 1:
			_ = c.Process.Kill()
			_ = c.Wait() // it was killed
			c = running(t, capture...)
		case 2:
			link.CutNext()
			time.Sleep(100 * time.Millisecond)
			link.Deliver()
		case 3:
			_ = a.Process.Kill()
			_ = a.Wait() // it was killed
			a = running(t, apply...)
		}
	}
	c.says("trans/s", 1)
	a.says("trans/s", 1)
	close(stop)
	wg.Wait()
	c.interrupt()
	a.interrupt()
	must(t, append(capture, "--until", "now")...)
	must(t, append(apply, "--until", "now")...)
	must(t, "diff", src, dst)
	if o := must(t, "peek", name, "--queue", apply[len(apply)-1], "--json"); o.out == "" {
		t.Error("peek shows nothing")
	}
	must(t, append(apply, "--remove")...)
	if o := cli(t, append(capture, "--remove")...); o.code != 0 {
		t.Fatalf("exit %d: %s\nthe relay says\n%s", o.code, o.errOut, &r.err)
	}
	nothingOfAStream(t, src)
	r.interrupt()
	state, err := os.ReadFile(statePath(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(state), said.String(), r.err.String(), c.err.String(), a.err.String()} {
		if strings.Contains(text, relaySecret) {
			t.Error("the secret was written down")
		}
	}
}

// TestRelayWhole has one process whose queue is on another host.
func TestRelayWhole(t *testing.T) {
	t.Parallel()
	src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(ledger))
	addr, file := testdb.FreeAddress(t), testdb.Written(t, "relay.secret", relaySecret)
	relaying(t, "--listen", addr, "--dir", filepath.Join(t.TempDir(), "relay"), "--secret-file", file)
	args := []string{"replicate", src, dst, "--name", name, "--queue", "relay:" + addr + "?secret-file=" + file, "--until", "now"}
	must(t, args...)
	testdb.Query(t, src, "INSERT INTO branch (id, name) VALUES (77, 'last')")
	must(t, args...)
	equal(t, src, dst, name, args[5:7]...)
	must(t, append(args[:7:7], "--remove")...)
}

// TestRelayDiskFull fills the disk under a relay: the capture waits and says for what, and with
// room again both continue.
func TestRelayDiskFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Log("a small disk can be mounted by root alone; continuous integration runs as root")
		return
	}
	src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(ledger))
	addr, file, disk := testdb.FreeAddress(t), testdb.Written(t, "relay.secret", relaySecret), smallDisk(t, "", "root", 12<<20)
	r := relaying(t, "--listen", addr, "--dir", filepath.Join(disk, "relay"), "--secret-file", file)
	ends := []string{src, dst, "--name", name, "--queue", "relay:" + addr + "?secret-file=" + file}
	c := running(t, append([]string{"capture"}, ends...)...)
	c.says("  idle", 1)
	for i := range 16 {
		testdb.Query(t, src, fmt.Sprintf("INSERT INTO account (id, branch, note) SELECT %d + i, 1, repeat(md5(i::text), 30) FROM generate_series(1, 1000) i", i*1000))
	}
	r.says("no space left", 1)
	c.says("relay "+addr+": ", 1)
	c.says("no space left", 1)
	remount(t, disk, 256<<20)
	r.says("the disk works again", 1)
	idle := strings.Count(c.err.String(), "  idle")
	c.says("  idle", idle+1)
	_ = c.Process.Signal(os.Interrupt)
	c.ends(130)
	must(t, append([]string{"capture", "--until", "now"}, ends...)...)
	must(t, append([]string{"apply", "--until", "now"}, ends...)...)
	must(t, "diff", src, dst)
}

// TestRelayRefuses: what is wrong with a relay or its address is reported in one line, with a hint.
func TestRelayRefuses(t *testing.T) {
	t.Setenv(address.RelaySecret, "")
	addr, closed := testdb.FreeAddress(t), testdb.FreeAddress(t)
	file, other := testdb.Written(t, "relay.secret", relaySecret), testdb.Written(t, "other", relaySecret+"0")
	dir := filepath.Join(t.TempDir(), "relay")
	r := relaying(t, "--listen", addr, "--dir", dir, "--secret-file", file)
	src := pg15(t).NewDatabase(t, "src")
	testdb.Load(t, src, strings.NewReader(ledger))
	stream := func(queue string) []string {
		return []string{"capture", src, "postgres://me@127.0.0.1:1/b", "--name", streamName(), "--queue", queue, "--until", "now"}
	}
	for _, x := range []struct {
		code int
		text string
		args []string
	}{
		{2, "there are none", []string{"relay", "--listen", closed, "--dir", t.TempDir()}},
		{2, "shorter than 16 bytes", []string{"relay", "--listen", closed, "--dir", t.TempDir(), "--secret-file", testdb.Written(t, "short", "tide")}},
		{6, "read the secret", []string{"relay", "--listen", closed, "--dir", t.TempDir(), "--secret-file", filepath.Join(t.TempDir(), "none")}},
		{2, "three files", []string{"relay", "--listen", closed, "--dir", t.TempDir(), "--secret-file", file, "--tls-ca", file}},
		{2, "both a secret and certificates", []string{"relay", "--listen", closed, "--dir", t.TempDir(), "--secret-file", file, "--tls-cert", file}},
		{2, "has it open", []string{"relay", "--listen", closed, "--dir", dir, "--secret-file", file}},
		{17, "already in use", []string{"relay", "--listen", addr, "--dir", t.TempDir(), "--secret-file", file}},
		{2, "must be relay:HOST:PORT", stream("relay:")},
		{2, "secret-file, or ca, cert and key", stream("relay:" + addr + "?password=x")},
		{2, "there are none", stream("relay:" + addr)},
		{4, "relay " + addr + ": the shared secret differs", stream("relay:" + addr + "?secret-file=" + other)},
		{3, "relay " + closed + ": connection refused", stream("relay:" + closed + "?secret-file=" + file)},
	} {
		if o := cli(t, x.args...); o.code != x.code || !strings.Contains(o.errOut, x.text) || !strings.Contains(o.errOut, "hint: ") || strings.Contains(o.errOut, relaySecret) {
			t.Errorf("%v: exit %d instead of %d: %s", x.args, o.code, x.code, o.errOut)
		}
	}
	t.Setenv(address.RelaySecret, relaySecret)
	args := stream("relay:" + addr)
	must(t, args...)
	must(t, append(args[:len(args)-2], "--remove")...)
	nothingOfAStream(t, src)
	r.interrupt()
}
