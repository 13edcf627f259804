package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/queue"
	"github.com/tidemarkdb/tidemark/queue/queuetest"
	"github.com/tidemarkdb/tidemark/relay"
)

const relaySecret = "5d1f0a7bfe9b4c6d"

// serve is what tidemark relay does.
func serve(ctx context.Context, dir, addr string, note func(string)) error {
	s, err := Serve(ctx, dir, note)
	if err != nil {
		return err
	}
	defer s.Close()
	return relay.Listen(ctx, relay.Spec{Addr: addr, Identity: relay.Identity{Secret: relaySecret}, Note: note, Open: s.Open})
}

// startRelay runs a relay until stop is called or the test ends.
func startRelay(t *testing.T, dir, addr string) (stop func()) {
	t.Helper()
	testdb.NotShort(t)
	ctx, cancel := context.WithCancel(t.Context())
	at, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- serve(ctx, dir, addr, func(text string) {
			if strings.HasPrefix(text, "listening on ") {
				close(at)
			}
		})
	}()
	select {
	case <-at:
	case err := <-done:
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			if err := <-done; err != nil {
				t.Errorf("the relay ended with %v", err)
			}
		}
		stopped = true
	}
	t.Cleanup(stop)
	return stop
}

// across is the options of a store at a relay.
func across(name, addr string) Options {
	peer := &relay.Peer{Addr: addr, Identity: relay.Identity{Secret: relaySecret}}
	return Options{Queue: name, URL: peer.String(), Dial: peer.Dial}
}

// relayProcess starts a relay in a process of its own. It ends with the test.
func relayProcess(t *testing.T, what, dir, addr string) *exec.Cmd {
	t.Helper()
	testdb.NotShort(t)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childVariable+"="+what, childFolder+"="+dir, childAddress+"="+addr)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it may have ended
	})
	return c
}

func TestServer(t *testing.T) {
	addr := testdb.FreeAddress(t)
	startRelay(t, t.TempDir(), addr)
	var n atomic.Int64
	queuetest.Run(t, queuetest.Maker{
		New: func(tb testing.TB, limit int64) func() queue.Store {
			opt := across(fmt.Sprintf("q%d", n.Add(1)), addr)
			opt.Limit = limit
			return func() queue.Store { return open(tb, opt) }
		},
		Giant: 30 << 20, RAM: 128 << 20, Checks: 4,
	})
}

// begin opens a queue and begins to append to it, however long that takes.
func begin(t *testing.T, opt Options) (*queue.Log, uint64) {
	t.Helper()
	l, place, err := awaitBegin(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, place
}

// awaitBegin is begin for goroutines other than a test's own, which may not end it.
func awaitBegin(ctx context.Context, opt Options) (*queue.Log, uint64, error) {
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		l, place, err := tryBegin(ctx, opt)
		if err == nil || time.Since(begun) > 5*time.Minute {
			return l, place, err
		}
	}
}

// tryBegin opens a queue and begins to append to it.
func tryBegin(ctx context.Context, opt Options) (*queue.Log, uint64, error) {
	s, err := Open(ctx, opt)
	if err != nil {
		return nil, 0, err
	}
	l, err := queue.New(ctx, s, queue.Options{})
	if err != nil {
		s.Close()
		return nil, 0, err
	}
	place, _, err := l.Begin(ctx, 1)
	if err != nil {
		l.Close()
		return nil, 0, err
	}
	return l, place, nil
}

// The link is cut in the middle of appends, also between a message and its acknowledgement, and
// what was on its way arrives after the writer has continued: everything is there, and once.
func TestServerCut(t *testing.T) {
	addr := testdb.FreeAddress(t)
	startRelay(t, t.TempDir(), addr)
	p := startProxy(t, addr)
	_, port, _ := net.SplitHostPort(p.listener.Addr().String())
	w := testdb.NewWire(t, port, time.Millisecond)
	opt := across("q", "127.0.0.1:"+w.Port)
	l, _ := begin(t, opt)
	done := make(chan error, 1)
	go func() {
		_, err := readPlaces(openLog(t, open(t, across("q", addr)), queue.Options{}), t.Context(), 0, 120, 20_000)
		done <- err
	}()
	for place := uint64(1); place <= 120; place++ {
		switch place {
		case 20, 80:
			p.answers.Store(false) // it arrives, but its answer does not
			time.AfterFunc(50*time.Millisecond, p.cut)
		case 40, 100:
			w.CutNext()
		case 50, 110:
			w.Deliver() // half a message, that is, inside TLS
		}
		appendPlaces(t, l, place, place, 20_000)
	}
	if err := testdb.From(t, "the reader's end", done); err != nil {
		t.Fatal(err)
	}
}

// The relay is killed repeatedly while one process writes and another reads: everything that was
// acknowledged is there, once and in order.
func TestServerKilled(t *testing.T) {
	dir, addr := filepath.Join(t.TempDir(), "relay"), testdb.FreeAddress(t)
	life := func() { // of one relay
		c := relayProcess(t, "serve", dir, addr)
		time.Sleep(time.Duration(300+rand.IntN(500)) * time.Millisecond)
		c.Process.Kill()
		_ = c.Wait() // it was killed
	}
	c := relayProcess(t, "serve", dir, addr)
	l, _ := begin(t, across("q", addr))
	read := make(chan error, 1)
	var place, end atomic.Uint64
	go func() {
		var err error
		for last := uint64(0); end.Load() == 0 || last < end.Load(); {
			var r *queue.Log
			if r, _, err = awaitBegin(t.Context(), across("q", addr)); err != nil {
				break
			}
			last, err = readPlaces(r, t.Context(), last, max(last+1, end.Load()), childSize)
			r.Close()
			if err != nil && tidemark.KindOf(err) != tidemark.Transient {
				break
			}
			err = nil
		}
		read <- err
	}()
	written := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop: // the reader may already wait for one more
				end.Store(place.Load() + 1)
			default:
			}
			if err := l.Append(t.Context(), []*change.Tx{insertAt(place.Load()+1, childSize)}); err != nil {
				written <- err
				return
			}
			if place.Add(1) == end.Load() {
				written <- nil
				return
			}
		}
	}()
	testdb.Within(t, "the first transaction", func() bool { return place.Load() > 0 || len(written) > 0 })
	c.Process.Kill()
	_ = c.Wait() // it was killed
	for range 3 {
		life()
	}
	relayProcess(t, "serve", dir, addr)
	close(stop)
	if err := testdb.From(t, "the writer's end", written); err != nil {
		t.Fatal(err)
	}
	testdb.Within(t, fmt.Sprintf("transaction %d in the reader", end.Load()), func() bool { return len(read) > 0 })
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d transactions", end.Load())
}

// The disk under a relay is full: the writer learns it, and with room again it continues.
func TestServerFullDisk(t *testing.T) {
	dir, addr := filepath.Join(t.TempDir(), "relay"), testdb.FreeAddress(t)
	c := relayProcess(t, "serve small files", dir, addr)
	l, place := begin(t, across("q", addr))
	var err error
	for err == nil {
		place++
		err = l.Append(t.Context(), []*change.Tx{insertAt(place, childSize)})
	}
	wantError(t, err, tidemark.Full, "relay "+addr)
	if !strings.Contains(err.Error(), "file too large") || !strings.Contains(tidemark.HintOf(err), "Free space") {
		t.Errorf("%v, hint %s", err, tidemark.HintOf(err))
	}
	c.Process.Kill()
	_ = c.Wait() // it was killed
	relayProcess(t, "serve", dir, addr)
	l, at := begin(t, across("q", addr))
	if at < place-1 {
		t.Fatalf("%d transactions were acknowledged, and %d are there", place-1, at)
	}
	appendPlaces(t, l, at+1, at+100, childSize)
	if last, err := readPlaces(l, t.Context(), 0, at+100, childSize); err != nil {
		t.Fatalf("read up to %d of %d: %v", last, at+100, err)
	}
}

// A relay that has lost the end of a queue refuses that queue, and serves others; it can be
// removed, and then begins again.
func TestServerLostEnd(t *testing.T) {
	dir, addr := t.TempDir(), testdb.FreeAddress(t)
	stop := startRelay(t, dir, addr)
	l, _ := begin(t, across("q", addr))
	appendPlaces(t, l, 1, 40, 100_000)
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) { // it notes the number a moment later
		if b, err := os.ReadFile(filepath.Join(dir, "last.q")); err == nil && len(b) == 8 && b[7] == 40 {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("the relay does not note the last message")
		}
	}
	l.Close()
	stop()
	forget(t, dir)
	if err := os.Truncate(blocks(t, dir)[0], 1<<20); err != nil {
		t.Fatal(err)
	}
	startRelay(t, dir, addr)
	for range 2 {
		_, err := Open(t.Context(), across("q", addr))
		wantError(t, err, tidemark.Corrupt, "and message 40 was there")
	}
	begin(t, across("other", addr))
	if err := Remove(t.Context(), across("q", addr)); err != nil {
		t.Fatal(err)
	}
	l, place := begin(t, across("q", addr))
	if place != 0 {
		t.Fatalf("a removed queue continues after %d", place)
	}
	appendPlaces(t, l, 1, 3, 1000)
}

// A meanwhile is a context that lets something happen while it is in use.
type meanwhile struct {
	context.Context
	do func()
}

func (m meanwhile) Deadline() (time.Time, bool) {
	m.do()
	return m.Context.Deadline()
}

// A queue that is being checked is not served to who comes meanwhile without a check of its own.
func TestServerChecksEach(t *testing.T) {
	s, err := Serve(t.Context(), t.TempDir(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.noteNumber("q", 40) // of a queue that is not there
	n := 0
	ctx := meanwhile{t.Context(), func() {
		if n++; n == 1 {
			_, err := s.Open(t.Context(), wantQueue+"q")
			wantError(t, err, tidemark.Corrupt, "and message 40 was there")
		}
	}}
	_, err = s.Open(ctx, wantQueue+"q")
	wantError(t, err, tidemark.Corrupt, "and message 40 was there")
	if n == 0 {
		t.Error("nobody came meanwhile")
	}
}

// What a store is refused is final, also while it is open; that the relay is away is not.
func TestServerRefuses(t *testing.T) {
	dir, addr := t.TempDir(), testdb.FreeAddress(t)
	stop := startRelay(t, dir, addr)
	stranger := across("q", addr)
	peer := &relay.Peer{Addr: addr, Identity: relay.Identity{Secret: relaySecret + "x"}}
	stranger.Dial = peer.Dial
	_, err := Open(t.Context(), stranger)
	wantError(t, err, tidemark.Denied, "relay "+addr+": the shared secret differs")
	s := open(t, across("q", addr))
	stop()
	_, err = Open(t.Context(), across("q", addr))
	wantError(t, err, tidemark.Unreachable, "relay "+addr+": connection refused")

	// Another relay takes its place.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- relay.Listen(ctx, relay.Spec{Addr: addr, Identity: relay.Identity{Secret: relaySecret + "x"}, Open: func(context.Context, string) (func(net.Conn) error, error) {
			return nil, errors.New("not this one")
		}})
	}()
	defer func() { cancel(); <-done }()
	for begun := time.Now(); tidemark.KindOf(err) != tidemark.Denied && time.Since(begun) < time.Minute; {
		_, err = s.State(t.Context())
	}
	wantError(t, err, tidemark.Denied, "the shared secret differs")
	for _, want := range []string{"", "queue ", "queue ../x", "remove queue a/b", "load"} {
		if _, err := (&Server{}).Open(t.Context(), want); tidemark.KindOf(err) != tidemark.Invalid && tidemark.KindOf(err) != tidemark.Unsupported {
			t.Errorf("%q: %v", want, err)
		}
	}
}
