package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/drda"
	"github.com/tidemarkdb/tidemark/internal/roundtrip"
)

// A Server is one database of a Db2 server: its address, what it is, and sessions that can be used
// again. Its methods may be used concurrently.
type Server struct {
	Masked  string // its URL without the password, for messages
	Catalog string // the schema of its catalogue
	to      address
	what    drda.Server

	Distance roundtrip.Distance

	mu     sync.Mutex
	idle   []*Session
	closed bool
}

// A Session is one connection. One goroutine uses it at a time.
type Session struct {
	*drda.Conn
	wire net.Conn
}

// Bind lets the round trips of the session go to ctx's worker from now on. Whoever uses a session
// that another context has opened or used calls it first.
func (s *Session) Bind(ctx context.Context) { roundtrip.Bind(ctx, s.wire) }

// catalogs is where the catalogue is: Db2's schema cannot be made in Derby, whose tests have views
// with the same names and columns in another.
var catalogs = map[bool]string{false: "SYSCAT", true: "CATLUW"}

// Open connects to the database of a URL:
//
//	db2://user:password@host:50000/DATABASE?option=value
//
//	tls              false, true (encrypt, trust anybody), verify-ca or verify-full, on the server's
//	                 port for TLS; default: false, or verify-full with tls-ca
//	tls-ca           file of the authorities that are trusted (PEM); default: the system's
//	plain-password   true: the password may go out as it is, without TLS, to another machine;
//	                 default: only an encrypted login does
//	connect-timeout  seconds or a duration; default 10s
//
// warn receives what the connection does not protect against; nil: discarded.
func Open(ctx context.Context, raw string, warn func(tidemark.Finding)) (*Server, error) {
	to, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	e := &Server{Masked: to.masked, to: to}
	s, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	e.what, e.Catalog = s.Server, catalogs[s.Server.Derby()]
	e.idle = append(e.idle, s)
	if to.exposed && warn != nil {
		warn(tidemark.Finding{Severity: tidemark.Warning, Object: e.Masked, Text: "the connection is not encrypted: whoever listens sees the rows",
			Hint: "Use the server's port for TLS, with ?tls=verify-full."})
	}
	return e, nil
}

// Name returns the engine's name.
func (e *Server) Name() string { return "db2" }

// Version returns the server's version: "12.1.0", or Derby's with its name.
func (e *Server) Version() string {
	p := e.what.Product
	if len(p) != 8 {
		return p
	}
	text := strings.TrimPrefix(p[3:5], "0") + "." + strings.TrimPrefix(p[5:7], "0") + "." + p[7:8]
	if e.what.Derby() {
		return "Derby " + text
	}
	return text
}

// Major returns the first number of the version.
func (e *Server) Major() (n int) {
	if len(e.what.Product) == 8 {
		fmt.Sscanf(e.what.Product[3:5], "%d", &n)
	}
	return n
}

// Derby reports whether the server is Apache Derby, which stands in for Db2 in tests.
func (e *Server) Derby() bool { return e.what.Derby() }

// Database returns the name of the database.
func (e *Server) Database() string { return e.to.database }

// connect opens a session.
func (e *Server) connect(ctx context.Context) (*Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.to.timeout, errTimeout)
	defer cancel()
	var reached bool
	var wire net.Conn
	conn, err := drda.Connect(ctx, drda.Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			raw, err := d.DialContext(ctx, "tcp", e.to.host)
			if err != nil {
				return nil, err
			}
			reached = true
			wire = roundtrip.NewConn(ctx, raw, &e.Distance)
			if e.to.tls == nil {
				return wire, nil
			}
			secure := tls.Client(wire, e.to.tls)
			if err := secure.HandshakeContext(ctx); err != nil {
				raw.Close()
				return nil, fmt.Errorf("TLS: %w", err)
			}
			return secure, nil
		},
		Database: e.to.database, User: e.to.user, Password: e.to.password, Accept: e.to.accept, Program: "tidemark",
	})
	if err != nil {
		return nil, e.loginFailed(err, reached)
	}
	roundtrip.LoggedIn(wire)
	return &Session{Conn: conn, wire: wire}, nil
}

var errTimeout = errors.New("no answer in time")

// Lend lends a session, until back is called: then a transaction that is open is rolled back.
func (e *Server) Lend(ctx context.Context) (s *Session, back func(), err error) {
	e.mu.Lock()
	if n := len(e.idle); n > 0 {
		s, e.idle = e.idle[n-1], e.idle[:n-1]
	}
	e.mu.Unlock()
	if s == nil {
		if s, err = e.connect(ctx); err != nil {
			return nil, nil, err
		}
	}
	s.Bind(ctx)
	return s, func() { e.giveBack(s) }, nil
}

func (e *Server) giveBack(s *Session) {
	if !s.Broken {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if s.Rollback(ctx) != nil {
			s.Close()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.Broken || e.closed {
		s.Close()
		return
	}
	e.idle = append(e.idle, s)
}

// Session opens a session that the caller closes.
func (e *Server) Session(ctx context.Context) (*Session, error) { return e.connect(ctx) }

// Close closes the sessions that nobody uses.
func (e *Server) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, s := range e.idle {
		s.Close()
	}
	e.idle = nil
	return nil
}
