package measure

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A far is a listener in this process.
type far struct {
	addr  string
	stop  func()
	ended chan error

	mu    sync.Mutex
	notes []string
}

func (f *far) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.notes, "\n")
}

// listening starts one; it must end when it is asked to.
func listening(t *testing.T, once bool, standby *StandbySpec) *far {
	t.Helper()
	if standby == nil {
		standby = &StandbySpec{}
	}
	return listeningWith(t, ListenSpec{Once: once, Standby: *standby})
}

// greeted has sent hello and waits for the answer; challenged reads it.
func greeted(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeGreeting(c, hello{Purpose: "measure"}); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func challenged(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var w welcome
	if err := readGreeting(r, &w); err != nil || w.Challenge == "" || w.Token != "" {
		t.Fatalf("%v, %+v", err, w)
	}
	return w.Challenge
}

func listeningWith(t *testing.T, spec ListenSpec) *far {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	f := &far{stop: stop, ended: make(chan error, 1)}
	ready := make(chan net.Addr, 1)
	spec.Addr, spec.ready = "127.0.0.1:0", func(a net.Addr) { ready <- a }
	spec.Note = func(text string) {
		f.mu.Lock()
		f.notes = append(f.notes, text)
		f.mu.Unlock()
	}
	go func() { f.ended <- Listen(ctx, spec) }()
	select {
	case a := <-ready:
		f.addr = a.String()
	case err := <-f.ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		f.wait(t)
	})
	return f
}

// wait waits until it has ended, without an error.
func (f *far) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-f.ended:
		if err != nil {
			t.Errorf("the listener ended with %v", err)
		}
		f.ended <- nil
	case <-time.After(5 * time.Minute):
		t.Error("the listener does not end")
	}
}

// What is added on the way is measured: times cannot be shorter than that. They may be longer while
// other tests run.
func TestMeasureLink(t *testing.T) {
	t.Parallel()
	for _, line := range []Line{{Delay: 2 * time.Millisecond}, {Delay: 10 * time.Millisecond, Rate: 20 << 20}} {
		t.Run(line.Delay.String(), func(t *testing.T) {
			t.Parallel()
			var wrong faults
			for range 5 { // another test may use the whole machine for a while
				wrong = nil
				if measureLine(t, line, &wrong); len(wrong) == 0 {
					return
				}
			}
			t.Error(strings.Join(wrong, "\n"))
		})
	}
}

// faults collects possible errors.
type faults []string

func (f *faults) Errorf(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// measureLine measures a line once. Less than what was added is always wrong.
func measureLine(t *testing.T, line Line, wrong *faults) {
	t.Helper()
	f := listening(t, true, nil)
	r, err := MeasureLink(context.Background(), LinkSpec{Peer: f.addr, Time: 2 * time.Second, Line: line, Flush: 300 << 10})
	if err != nil {
		t.Fatal(err)
	}
	f.wait(t) // it serves one
	for name, s := range map[string]Spread{"idle": r.Idle, "under load": r.Loaded} {
		if s.N < 10 {
			wrong.Errorf("%s: %+v", name, s)
		}
		if s.N > 0 && s.Min < line.Delay.Seconds() {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if r.RTT != r.Idle.P50 || r.RTT > line.Delay.Seconds()+0.2 || len(r.Quantiles) != 5 {
		wrong.Errorf("round trip: %v", r.RTT)
	}
	if len(r.Sizes) != 9 {
		wrong.Errorf("%d sizes", len(r.Sizes))
	}
	for _, z := range r.Sizes {
		least := line.Delay.Seconds()
		if line.Rate > 0 {
			least += float64(z.Bytes) / line.Rate
		}
		if z.Times.N < 3 {
			wrong.Errorf("%d bytes: %+v", z.Bytes, z.Times)
		}
		if z.Times.N > 0 && z.Times.Min < least {
			t.Errorf("%d bytes: %+v, less than %v", z.Bytes, z.Times, least)
		}
	}
	if len(r.Rates) < 3 || r.Rates[0].Asked != 0 || r.Rates[1].Asked != 64<<10 {
		wrong.Errorf("%+v", r.Rates)
	}
	for _, x := range r.Rates {
		if len(x.Rounds) != roundsOfRate || x.Rate <= 0 {
			wrong.Errorf("%+v", x)
		}
		if line.Rate > 0 && (x.Rate < line.Rate/20 || x.Rate > line.Rate*4) {
			wrong.Errorf("rate %v of %v", x.Rate, line.Rate)
		}
	}
	if r.Buffer < 512<<10 || r.Buffer > ha.MostBuffer || r.Buffer&(r.Buffer-1) != 0 || r.Advice == "" {
		wrong.Errorf("buffer %d: %s", r.Buffer, r.Advice)
	}
	if c := r.Clock; c.Ahead > c.Uncertain+0.01 || c.Ahead < -c.Uncertain-0.01 {
		wrong.Errorf("this machine's clock differs from itself: %+v", c)
	}
	if r.Added == nil || *r.Added != line || r.Peer != f.addr {
		wrong.Errorf("%+v, %s", r.Added, r.Peer)
	}
	text, err := json.Marshal(r)
	var n ha.Network
	if err != nil || json.Unmarshal(text, &n) != nil || n.RTT != r.RTT || n.Rate != r.Rate || n.Rate <= 0 {
		wrong.Errorf("read as a Network it is %+v (%v)", n, err)
	}
}

// serveOnce answers every connection with some bytes, and closes it if there are any.
func serveOnce(t *testing.T, answer []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				if answer != nil {
					c.Write(answer)
				}
				io.Copy(io.Discard, c)
			})
		}
	})
	return l.Addr().String()
}

func TestPeersThatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	testdb.NotShort(t) // it waits for five seconds
	nobody := testdb.FreeAddress(t)
	newer := binary.BigEndian.AppendUint16([]byte(linkMagic), linkVersion+1)
	newer = append(newer, 0, 2, '{', '}')
	for name, c := range map[string]struct {
		addr string
		kind tidemark.Kind
		says string
	}{
		"nobody":          {nobody, tidemark.Unreachable, "refused"},
		"something else":  {serveOnce(t, []byte("SSH-2.0-OpenSSH_9.2\r\n")), tidemark.Unsupported, "another program answers there"},
		"a newer version": {serveOnce(t, newer), tidemark.Unsupported, "uses version 3 of the protocol, this one version 2"},
		"a silent one":    {serveOnce(t, nil), tidemark.Unsupported, "accepts connections but does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := MeasureLink(context.Background(), LinkSpec{Peer: c.addr, Time: time.Second})
			if tidemark.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) || tidemark.HintOf(err) == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			if name == "a silent one" {
				return // it takes its time
			}
			if _, err := MeasureLink(context.Background(), LinkSpec{Peer: c.addr, Time: time.Second, Line: Line{Delay: time.Millisecond}}); tidemark.KindOf(err) != c.kind {
				t.Errorf("through the proxy: %v", err)
			}
		})
	}
}

// A peer that has been accepted and then goes away ends the measurement.
func TestPeerThatGoesAway(t *testing.T) {
	t.Parallel()
	f := listening(t, false, nil)
	time.AfterFunc(300*time.Millisecond, f.stop)
	_, err := MeasureLink(context.Background(), LinkSpec{Peer: f.addr, Time: time.Minute})
	if k := tidemark.KindOf(err); k != tidemark.Transient && k != tidemark.Unreachable || tidemark.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
}

func TestMeasureLinkStops(t *testing.T) {
	t.Parallel()
	f := listening(t, false, nil)
	for i := range 6 {
		ctx, stop := context.WithCancel(context.Background()) // as Ctrl-C does; a deadline is noticed by connections first
		time.AfterFunc(time.Duration(i)*150*time.Millisecond, stop)
		begin := time.Now()
		_, err := MeasureLink(ctx, LinkSpec{Peer: f.addr, Time: 20 * time.Minute})
		stop()
		if tidemark.KindOf(err) != tidemark.Cancelled || time.Since(begin) > 10*time.Minute {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		// The listener is free again as soon as it has noticed.
		for try := 0; ; try++ {
			l, err := dialLink(context.Background(), f.addr, hello{Purpose: "measure"})
			if err == nil {
				l.bye(&struct{}{})
				l.close()
				break
			}
			if tidemark.KindOf(err) != tidemark.Transient || try > 30000 {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		for try := 0; try < 30000 && !strings.HasSuffix(f.said(), "disconnected"); try++ {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// Strangers get nothing, and a peer that is being served is not disturbed.
// A peer that hangs up at the moment at which the measurement is stopped.
func TestStoppedWhileAPeerHangsUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var stop context.CancelFunc
	next := make(chan struct{})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			<-next
			c.Close()
			stop()
		}
	}()
	for range 500 {
		ctx, cancel := context.WithCancel(context.Background())
		stop = cancel
		go func() { next <- struct{}{} }()
		if _, _, err := dialOnce(ctx, l.Addr().String(), hello{}); err == nil {
			t.Fatal("greeted by nobody")
		}
		<-ctx.Done()
	}
}

func TestListenerIsSafeAgainstStrangers(t *testing.T) {
	t.Parallel()
	f := listening(t, false, nil)
	served, err := dialLink(context.Background(), f.addr, hello{Purpose: "measure"})
	if err != nil {
		t.Fatal(err)
	}
	defer served.close()
	greeting := func(text string) []byte {
		b := binary.BigEndian.AppendUint16([]byte(linkMagic), linkVersion)
		return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
	}
	older := binary.BigEndian.AppendUint16([]byte(linkMagic), 0)
	for name, says := range map[string][]byte{
		"HTTP":                 []byte("GET / HTTP/1.1\r\n\r\n"),
		"half a magic":         []byte(linkMagic[:5] + "xxxxxxxxxxxx"),
		"an older version":     append(older, 0, 0),
		"no JSON":              greeting("no JSON"),
		"an unknown purpose":   greeting(`{"purpose":"steal"}`),
		"a wrong token":        greeting(`{"purpose":"join","token":"guess"}`),
		"an empty token":       greeting(`{"purpose":"join"}`),
		"a second peer":        greeting(`{"purpose":"measure"}`),
		"another's ship":       greeting(`{"purpose":"ship","ship":{"mode":"SYNC"}}`),
		"a disk without order": greeting(`{"purpose":"disk"}`),
		"a disk, no folder":    greeting(`{"purpose":"disk","disk":{"engine":"postgres"}}`),
	} {
		c, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(5 * time.Minute))
		c.Write(says)
		answer, err := io.ReadAll(c) // it closes the connection; unread data may reset it
		c.Close()
		if err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: %v", name, err)
		}
		var w welcome
		if len(answer) > 0 && (readGreeting(bufio.NewReader(strings.NewReader(string(answer))), &w) != nil || w.Refused == "" || w.Token != "") {
			t.Errorf("%s: answered with %q", name, answer)
		}
		if _, _, err := served.flush(0); err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
	}
	// Invalid frames end their sender's connection.
	for name, b := range map[string][]byte{
		"too large":    {dataFrame, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1},
		"unknown kind": {'X', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
	} {
		l, err := dialLink(context.Background(), f.addr, hello{Purpose: "join", Token: served.granted.Token})
		if err != nil {
			t.Fatal(err)
		}
		l.c.SetDeadline(time.Now().Add(5 * time.Minute))
		l.c.Write(b)
		if _, err := l.ack(); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("a frame that is %s: %v", name, err)
		}
		l.close()
	}
	if _, _, err := served.flush(100); err != nil {
		t.Error(err)
	}
}

// Silent connections are closed, and do not block others forever.
func TestListenerClosesSilentConnections(t *testing.T) {
	t.Parallel()
	testdb.NotShort(t) // it waits for five seconds
	f := listening(t, false, nil)
	for range 3 * strangers {
		c, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for try := 0; ; try++ {
		l, err := dialLink(context.Background(), f.addr, hello{Purpose: "measure"})
		if err == nil {
			l.close()
			return
		}
		if try > 6000 {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestListenErrors(t *testing.T) {
	f := listening(t, false, nil)
	if err := Listen(context.Background(), ListenSpec{Addr: f.addr}); tidemark.KindOf(err) != tidemark.Exists || tidemark.HintOf(err) == "" {
		t.Error(err)
	}
	if err := Listen(context.Background(), ListenSpec{Addr: "192.0.2.1:7455"}); tidemark.KindOf(err) != tidemark.Invalid || tidemark.HintOf(err) == "" {
		t.Error(err)
	}
	for in, want := range map[string]string{"": ":7455", "host": "host:7455", "host:1": "host:1", ":1": ":1", "[::1]:2": "[::1]:2", "::1": "[::1]:7455"} {
		if got := withPort(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}

func TestAckIsWhatWasEncoded(t *testing.T) {
	want := ack{number: 1 << 60, bytes: 2, since: -3, wall: 4e18, written: 5, synced: lastAck}
	var b [ackSize]byte
	want.encode(b[:])
	if got := decodeAck(b[:]); got != want {
		t.Errorf("%+v", got)
	}
}

func FuzzGreeting(f *testing.F) {
	f.Add([]byte(linkMagic + "\x00\x01\x00\x02{}"))
	f.Add([]byte("SSH-2.0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h hello
		if err := readGreeting(bufio.NewReader(strings.NewReader(string(b))), &h); err == nil && !strings.HasPrefix(string(b), linkMagic) {
			t.Error("taken for one of ours")
		}
		if fr, err := readFrame(bufio.NewReader(strings.NewReader(string(b)))); err == nil && fr.payload > maxPayload {
			t.Error("a frame that is too large")
		}
	})
}
