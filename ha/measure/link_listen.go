package measure

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A ListenSpec configures the other end of measurements and of simulations.
type ListenSpec struct {
	Addr    string            // "" and ":port" mean all addresses; the default port is DefaultLinkPort
	Once    bool              // end when the first peer has gone
	Note    func(text string) // receives a line for each peer that comes or goes; may be nil
	Standby StandbySpec       // of simulations; the disk of its folder may be measured too
	Secret  string            // that peers must know, at least LeastSecret bytes; may be "" only on loopback

	ready func(net.Addr)
}

// A listener serves one peer at a time, which may have several connections.
type listener struct {
	ListenSpec
	done func(error) // stops the listener

	mu    sync.Mutex
	token string // of the peer being served; "": none
	conns int    // of that peer
}

const (
	strangers   = 16 // connections before their hello, at once
	connsOfPeer = 8
)

// Listen serves MeasureLink, MeasurePeerDisk and Simulate, one peer after the other, until ctx ends
// or, with Once, the first has gone. Errors: Invalid (no such address here, or one that others can
// reach without a secret), Exists (another process listens there), and those of the standby's
// folder.
func Listen(ctx context.Context, spec ListenSpec) error {
	if spec.Standby.Dir != "" {
		if _, _, err := scratchRoom("listen", spec.Standby.Dir, spec.Standby.Force, simLogSize); err != nil {
			return err
		}
	}
	addr := withPort(spec.Addr)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return listenError(ctx, addr, err)
	}
	if err := spec.checkSecret(l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	var wg crash.Group
	defer wg.Wait()
	defer l.Close()
	var said sync.Mutex
	note := spec.Note
	spec.Note = func(text string) {
		said.Lock()
		defer said.Unlock()
		if note != nil {
			note(text)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &listener{ListenSpec: spec, done: cancel}
	defer crash.OnDone(ctx, func() { l.Close() })()
	if spec.ready != nil {
		spec.ready(l.Addr())
	}
	room := make(chan struct{}, strangers+connsOfPeer)
	for {
		conn, err := l.Accept()
		if err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, errServed) {
				return nil
			} else if cause != nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			if ctx.Err() != nil {
				return nil // it was asked to end, the normal way
			}
			return listenError(ctx, addr, err)
		}
		select {
		case room <- struct{}{}:
		default:
			conn.Close() // more than needed
			continue
		}
		wg.Go(func() {
			defer func() { <-room }()
			stop := crash.OnDone(ctx, func() { conn.Close() })
			defer stop()
			defer conn.Close()
			s.serve(ctx, conn.(*net.TCPConn))
		})
	}
}

// errServed ends a listener that was to serve one peer.
var errServed = errors.New("the peer has disconnected")

// withPort adds the default port if there is none.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return net.JoinHostPort(addr, DefaultLinkPort)
	}
	return addr
}

func listenError(ctx context.Context, addr string, err error) error {
	if c := cancelled(ctx, "listen"); c != nil {
		return c
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return &tidemark.Error{Kind: tidemark.Exists, Op: "listen", Object: addr, Err: errors.New("the address is already in use"), Hint: "Choose another port on both sides."}
	}
	var call *net.OpError
	if errors.As(err, &call) {
		err = call.Err
	}
	return &tidemark.Error{Op: "listen", Object: addr, Kind: tidemark.Invalid, Hint: "Name an address of this machine, or only :PORT.", Err: err}
}

// serve reads a connection's request, and carries it out.
func (s *listener) serve(ctx context.Context, c *net.TCPConn) {
	c.SetDeadline(time.Now().Add(helloTime))
	r := bufio.NewReaderSize(c, 256<<10)
	var h hello
	if err := readGreeting(r, &h); err != nil {
		var version versionError
		if errors.As(err, &version) {
			s.Note(fmt.Sprintf("%s: %v; rejected", c.RemoteAddr(), err))
			writeGreeting(c, welcome{Refused: err.Error()}) // it reads our version first
		} else {
			s.Note(fmt.Sprintf("%s: not a tidemark client; rejected", c.RemoteAddr()))
		}
		return
	}
	if !s.authenticate(c, r) {
		return
	}
	if h.Purpose == "look" { // whether a listener is there
		writeGreeting(c, welcome{Disk: s.Standby.Dir != ""})
		return
	}
	out := welcome{}
	if out.Refused = s.admit(&out, h); out.Refused != "" {
		s.Note(fmt.Sprintf("%s: rejected: %s", c.RemoteAddr(), out.Refused))
		writeGreeting(c, out)
		return
	}
	defer s.leave()
	if h.Buffer > 0 {
		c.SetReadBuffer(min(h.Buffer, maxPayload)) // the granted size is checked
		c.SetWriteBuffer(min(h.Buffer, maxPayload))
	}
	_, out.Granted = newSocket(c).buffers()
	if err := s.work(ctx, c, r, h, out); h.Purpose == "join" {
		return // the peer's first connection reports the outcome
	} else if err != nil && ctx.Err() == nil {
		s.Note(fmt.Sprintf("%s: %v", c.RemoteAddr(), err))
	} else {
		s.Note(fmt.Sprintf("%s: disconnected", c.RemoteAddr()))
	}
}

// work welcomes a connection and carries out its request.
func (s *listener) work(ctx context.Context, c *net.TCPConn, r *bufio.Reader, h hello, out welcome) error {
	welcomed := func() error {
		c.SetDeadline(time.Now().Add(helloTime))
		if err := writeGreeting(c, out); err != nil {
			return err
		}
		return c.SetDeadline(time.Time{})
	}
	switch h.Purpose {
	case "measure":
		s.Note(fmt.Sprintf("%s: measuring the network", c.RemoteAddr()))
	case "disk":
		s.Note(fmt.Sprintf("%s: measuring the disk of %s", c.RemoteAddr(), s.Standby.Dir))
		if err := welcomed(); err != nil {
			return err
		}
		return s.Standby.measureDisk(ctx, c, r, *h.Disk)
	case "ship":
		s.Note(fmt.Sprintf("%s: shipping a log, %s", c.RemoteAddr(), h.Ship.Mode))
		x, err := s.Standby.prepare(ctx, *h.Ship)
		if err != nil {
			out.Refused = err.Error()
			return errors.Join(err, welcomed())
		}
		defer x.log.close()
		if err := welcomed(); err != nil {
			return err
		}
		return x.receive(ctx, c, r)
	}
	if err := welcomed(); err != nil {
		return err
	}
	waitInKernel(c)
	return answer(c, r)
}

// admit admits a peer, or returns why it cannot be served.
func (s *listener) admit(w *welcome, h hello) (refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h.Purpose == "join" && h.Token != "" && h.Token == s.token && s.conns < connsOfPeer:
	case h.Purpose == "join":
		return "this connection is one too many, or belongs to a measurement that has ended"
	case h.Purpose != "measure" && (h.Purpose != "ship" || h.Ship == nil) && (h.Purpose != "disk" || h.Disk == nil):
		return "unknown request: " + cmp.Or(fmt.Sprintf("%.20q", h.Purpose), "nothing")
	case h.Purpose == "disk" && s.Standby.Dir == "":
		return "it was started without a folder (--dir) whose disk to measure"
	case s.token != "":
		return busy
	default:
		s.token = rand.Text()
		w.Token = s.token
	}
	s.conns++
	return ""
}

// leave records that a connection of the peer has ended; with the last one the peer has gone.
func (s *listener) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns--; s.conns == 0 {
		if s.token = ""; s.Once {
			s.done(errServed)
		}
	}
}

// A frame is the header of a frame.
type frame struct {
	kind    byte
	payload int
	number  uint64
}

var errFrame = errors.New("received data that is not a frame of this protocol")

// readFrame reads a header; the payload remains to be read.
func readFrame(r *bufio.Reader) (frame, error) {
	b, err := r.Peek(headSize)
	if err != nil {
		if err == io.EOF && len(b) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	f := frame{kind: b[0], payload: int(binary.BigEndian.Uint32(b[4:])), number: binary.BigEndian.Uint64(b[8:])}
	if f.payload > maxPayload || b[1]|b[2]|b[3] != 0 || f.kind != dataFrame && f.kind != flushFrame && f.kind != byeFrame {
		return frame{}, errFrame
	}
	r.Discard(headSize) // it is buffered
	return f, nil
}

// answer is the other end of a measurement: it discards the data, and acknowledges.
func answer(c *net.TCPConn, r *bufio.Reader) error {
	begin := time.Now()
	var a ack
	var out [ackSize]byte
	for {
		c.SetDeadline(time.Now().Add(idleTime))
		f, err := readFrame(r)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := r.Discard(f.payload); err != nil {
			return err
		}
		a.number, a.bytes = f.number, a.bytes+uint64(headSize+f.payload)
		switch f.kind {
		case byeFrame:
			return writeReply(c, struct{}{})
		case flushFrame:
			now := time.Now()
			a.since, a.wall = now.Sub(begin), now.UnixNano()
			a.encode(out[:])
			if _, err := c.Write(out[:]); err != nil {
				return err
			}
		}
	}
}

func writeReply(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}
