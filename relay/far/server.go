package far

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Server opens databases for others.
type Server struct {
	Program string
	Targets []string // URLs of the databases that it may open: see allowed
	Note    func(text string)

	mu       sync.Mutex
	sessions map[[16]byte]*session
}

// A session is a database that is open, and the lines to it.
type session struct {
	server *Server
	id     [16]byte
	db     engines.Destination
	ctx    context.Context // ends with the session
	end    context.CancelFunc
	calls  crash.Group
	once   sync.Once

	mu       sync.Mutex
	lines    map[uint64]*lineEnd
	attached int
	grace    *time.Timer // runs while nothing is attached
	claims   map[uint64]tidemark.Claim
	claimed  uint64
	warnings []tidemark.Finding
}

// A lineEnd is the relay's end of a line.
type lineEnd struct {
	mu   sync.Mutex
	w    *wire // nil: not connected
	last *call
}

// An Opener begins a conversation: see relay.Spec.
type Opener = func(ctx context.Context, want string) (func(net.Conn) error, error)

// Or begins conversations that want a copy, and leaves all others to another Opener.
func (s *Server) Or(other Opener) Opener {
	return func(ctx context.Context, want string) (func(net.Conn) error, error) {
		if program, is := strings.CutPrefix(want, wantCopy); is {
			return s.open(ctx, program)
		}
		return other(ctx, want)
	}
}

func (s *Server) open(ctx context.Context, program string) (func(net.Conn) error, error) {
	if program != s.Program {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "serve", Err: fmt.Errorf("it is tidemark %.60q, and this program %.60q", s.Program, program), Hint: "Run the same version of tidemark on both hosts."}
	}
	return func(conn net.Conn) error { return s.serve(ctx, newWire(conn)) }, nil
}

// serve is the life of a connection.
func (s *Server) serve(ctx context.Context, w *wire) error {
	_ = w.conn.SetReadDeadline(time.Now().Add(closeTime))
	kind, n, err := w.head()
	if err == nil && kind != frameAttach {
		err = errFrame
	}
	var hello attach
	if err == nil {
		err = w.value(n, &hello)
	}
	_ = w.conn.SetReadDeadline(time.Time{})
	if err != nil {
		return gone(err)
	}
	x, err := s.session(ctx, &hello)
	if err != nil {
		if tidemark.KindOf(err) == tidemark.Cancelled {
			return nil
		}
		_ = w.sendValue(frameAttach, welcome{Err: faultOf(err)}) // it may have gone
		return err
	}
	defer x.detach()
	l := x.line(hello.Line)
	c := l.connect(w, hello.Call)
	defer l.disconnect(w)
	answer := welcome{Name: x.db.Name(), Default: x.db.Default(), Known: c != nil}
	if v, ok := x.db.(interface{ Version() string }); ok {
		answer.Version = v.Version()
	}
	if err := w.sendValue(frameAttach, answer); err != nil {
		return gone(err)
	}
	if c != nil {
		crash.Go(func() {
			<-c.done
			_ = w.sendValue(frameResult, &c.res) // it is asked for again if this fails
		})
	}
	return gone(x.receive(l, w))
}

// gone makes the end of a connection none.
func gone(err error) error {
	if errors.Is(err, errFrame) {
		return err
	}
	return nil
}

// session returns the session of a line: a new one, or one that is there.
func (s *Server) session(ctx context.Context, hello *attach) (*session, error) {
	if hello.New {
		return s.begin(ctx, hello)
	}
	s.mu.Lock()
	x := s.sessions[hello.Session]
	s.mu.Unlock()
	if x == nil || !x.attach() {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "continue", Object: "copy", Err: &known{"the relay has lost this copy: it was restarted, or did not hear from here for a minute", tidemark.ErrSessionLost}, Hint: "Make sure that tidemark relay runs there."}
	}
	return x, nil
}

// begin opens a database. It is closed at the latest when ctx ends.
func (s *Server) begin(ctx context.Context, hello *attach) (*session, error) {
	if err := allowed(s.Targets, hello.URL); err != nil {
		return nil, err
	}
	x := &session{server: s, id: hello.Session, attached: 1, lines: map[uint64]*lineEnd{}, claims: map[uint64]tidemark.Claim{}}
	opt := hello.Engines
	opt.MySQL.Warn = func(f tidemark.Finding) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.warnings = append(x.warnings, f)
	}
	opt.Postgres.Warn = opt.MySQL.Warn
	db, err := engines.Open(ctx, hello.URL, opt)
	if err != nil {
		return nil, err
	}
	x.db = db
	x.ctx, x.end = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil {
		s.sessions = map[[16]byte]*session{}
	}
	if s.sessions[x.id] != nil {
		_ = db.Close() // it was not used
		x.end()
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open", Object: "session", Err: errors.New("it is there already")}
	}
	s.sessions[x.id] = x
	s.Note("copy into " + tidemark.MaskURL(hello.URL))
	return x, nil
}

// attach counts a connection; false means that the session has ended.
func (x *session) attach() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() != nil {
		return false
	}
	x.attached++
	if x.grace != nil {
		x.grace.Stop()
		x.grace = nil
	}
	return true
}

func (x *session) detach() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.attached--; x.attached == 0 && x.ctx.Err() == nil {
		x.grace = crash.After(graceTime, func() {
			x.mu.Lock()
			still := x.attached == 0
			x.mu.Unlock()
			if still {
				x.close()
			}
		})
	}
}

// close ends the session: what runs is cancelled, and rolled back.
func (x *session) close() {
	x.once.Do(func() {
		x.mu.Lock()
		x.end() // under mu, so that attach notices
		claims := x.claims
		x.claims = nil
		x.mu.Unlock()
		x.server.mu.Lock()
		delete(x.server.sessions, x.id)
		x.server.mu.Unlock()
		x.calls.Wait()
		for _, c := range claims {
			c.Close()
		}
		_ = x.db.Close() // nobody is there to hear it
	})
}

// Close ends all sessions.
func (s *Server) Close() {
	s.mu.Lock()
	var all []*session
	for _, x := range s.sessions {
		all = append(all, x)
	}
	s.mu.Unlock()
	for _, x := range all {
		x.close()
	}
}

func (x *session) line(id uint64) *lineEnd {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lines[id] == nil {
		x.lines[id] = &lineEnd{}
	}
	return x.lines[id]
}

// connect makes w the line's connection, in place of one that may be dead without anybody having
// noticed. It returns the last call if that is the one that is asked for.
func (l *lineEnd) connect(w *wire, asked uint64) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != nil {
		l.w.conn.Close()
	}
	if l.last != nil {
		l.last.cutOff()
	}
	l.w = w
	if l.last != nil && asked == l.last.req.ID {
		return l.last
	}
	return nil
}

func (l *lineEnd) disconnect(w *wire) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == w {
		l.w = nil
		if l.last != nil {
			l.last.cutOff()
		}
	}
}

// receive handles what comes on a connection, until it ends.
func (x *session) receive(l *lineEnd, w *wire) error {
	for {
		kind, n, err := w.head()
		if err != nil {
			return err
		}
		l.mu.Lock()
		c := l.last
		l.mu.Unlock()
		switch {
		case kind == frameCall:
			req := &request{}
			if err := w.value(n, req); err != nil {
				return err
			}
			if err := x.start(l, w, req); err != nil {
				return err
			}
		case c == nil:
			return errFrame
		case kind == frameBatch:
			b, err := w.batch(n)
			if err != nil {
				return err
			}
			if !c.put(b) {
				return errFrame
			}
		case kind == frameAbort:
			c.cutOff()
		case kind == frameVerdict:
			if n != 1 {
				return errFrame
			}
			b, err := w.in.ReadByte()
			if err != nil {
				return err
			}
			select {
			case c.verdicts <- b == 1:
			case <-c.done:
			}
		case kind == frameCancel:
			c.cancel()
			return nil
		default:
			return errFrame
		}
	}
}

// start begins a call, once the last one of the line has ended.
func (x *session) start(l *lineEnd, w *wire, req *request) error {
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	if last != nil {
		select {
		case <-last.done: // the other side may have given it up
		case <-x.ctx.Done():
			return nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != w {
		return nil // another connection has replaced this one
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() != nil {
		return nil
	}
	c := newCall(x, l, req)
	l.last = c
	x.calls.Go(func() {
		c.run()
		_ = w.sendValue(frameResult, &c.res) // it is asked for again if this fails
		if req.Method == "close" {
			crash.Go(x.close)
		}
	})
	return nil
}
