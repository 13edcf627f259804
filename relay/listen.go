package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Spec configures a relay.
type Spec struct {
	Addr     string // "" and ":port" mean all addresses; the default port is DefaultPort
	Identity Identity
	Program  string // our version of tidemark, for the other side's messages
	// Note, if not nil, receives a line for each peer that comes or is refused.
	Note func(text string)
	// Open begins what a peer wants, and returns the function that serves the peer until it has
	// gone; that function does not outlive ctx. An error refuses the peer, which reports it with
	// its Kind and hint.
	Open func(ctx context.Context, want string) (serve func(net.Conn) error, err error)
}

// mostStrangers is how many connections may be there at once that have not proved who they are.
// Peers are not limited.
const mostStrangers = 50

// strangers are such connections, the oldest first. One more ends the oldest: peers need two round
// trips, so that whoever only holds connections open cannot keep them out.
type strangers struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (s *strangers) come(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == mostStrangers {
		s.conns[0].Close()
		s.conns = slices.Delete(s.conns, 0, 1)
	}
	s.conns = append(s.conns, c)
}

func (s *strangers) leave(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.conns, c); i >= 0 {
		s.conns = slices.Delete(s.conns, i, i+1)
	}
}

// Listen serves peers until ctx ends. Errors: Invalid (no such address here, no identity), Exists
// (another process listens there).
func Listen(ctx context.Context, spec Spec) error {
	conf, err := spec.Identity.config("")
	if err != nil {
		return err
	}
	addr := withPort(spec.Addr)
	l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", addr)
	if err != nil {
		return listenError(ctx, addr, err)
	}
	var said sync.Mutex
	note := spec.Note
	spec.Note = func(text string) {
		said.Lock()
		defer said.Unlock()
		if note != nil {
			note(text)
		}
	}
	var wg crash.Group
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.Close()
	defer crash.OnDone(ctx, func() { l.Close() })()
	spec.Note("listening on " + l.Addr().String())
	var waiting strangers
	for {
		plain, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil // the normal end
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ECONNABORTED):
			time.Sleep(100 * time.Millisecond) // it passes
			continue
		case err != nil:
			return listenError(ctx, addr, err)
		}
		waiting.come(plain)
		wg.Go(func() {
			defer plain.Close()
			defer crash.OnDone(ctx, func() { plain.Close() })()
			c := tls.Server(plain, conf)
			c.SetDeadline(time.Now().Add(greetTime))
			err := c.Handshake()
			waiting.leave(plain)
			var serve func() error
			if err != nil {
				err = fmt.Errorf("rejected: %w", err)
			} else if serve, err = spec.greet(ctx, c); err == nil {
				err = serve()
			}
			if err != nil && ctx.Err() == nil {
				spec.Note(fmt.Sprintf("%s: %v", plain.RemoteAddr(), err))
			}
		})
	}
}

// greet finds out what a peer wants, and returns what serves it. The error is for people here; the
// peer has its own.
func (s *Spec) greet(ctx context.Context, c *tls.Conn) (serve func() error, err error) {
	var h hello
	if err := readGreeting(c, &h); err != nil {
		return nil, fmt.Errorf("rejected: %w", err)
	}
	refuse := func(err error) (func() error, error) {
		_ = writeGreeting(c, refusal(s.Program, err)) // it may have gone
		return nil, fmt.Errorf("rejected: %w", err)
	}
	if h.Relay != version {
		return refuse(otherVersion(h.Relay, h.Program))
	}
	run, err := s.Open(ctx, h.Want)
	if err != nil {
		return refuse(err)
	}
	if err := writeGreeting(c, answer{Relay: version, Program: s.Program}); err != nil {
		return nil, err
	}
	c.SetDeadline(time.Time{})
	p, err := pack(c)
	if err != nil {
		return nil, err
	}
	s.Note(fmt.Sprintf("%s: %.100q", c.RemoteAddr(), h.Want))
	return func() error { return run(p) }, nil
}

func listenError(ctx context.Context, addr string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return &tidemark.Error{Kind: tidemark.Exists, Op: "listen", Object: addr, Err: errors.New("the address is already in use"), Hint: "Choose another port, on both sides."}
	}
	var call *net.OpError
	if errors.As(err, &call) {
		err = call.Err
	}
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "listen", Object: addr, Err: err, Hint: "Name an address of this machine, or only :PORT."}
}
