package main

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A proxy sits between tidemark and a real server like a network: it can fail, and recover.
type proxy struct {
	t      *testing.T
	addr   string            // where it listens
	to     string            // the server
	change *strings.Replacer // replaces texts in the server's messages by others of equal length; nil: none

	mu    sync.Mutex
	l     net.Listener
	down  bool
	left  int64 // bytes to the server until it stops automatically; 0: unlimited
	conns []net.Conn
}

func newProxy(t *testing.T, srv *testdb.Server) *proxy {
	t.Helper()
	p := &proxy{t: t, to: net.JoinHostPort(srv.Host, strconv.Itoa(srv.Port))}
	p.start()
	t.Cleanup(p.stop)
	return p
}

// start listens; after stop, at the same address.
func (p *proxy) start() {
	p.t.Helper()
	listen := testdb.Listen
	if p.addr != "" {
		listen = func() (net.Listener, error) { return net.Listen("tcp", p.addr) }
	}
	l, err := listen()
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.l, p.addr, p.down = l, l.Addr().String(), false
	p.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // stopped
			}
			go p.serve(c)
		}
	}()
}

// stop closes everything: nobody answers from now on.
func (p *proxy) stop() {
	p.mu.Lock()
	p.down = true
	p.l.Close()
	p.mu.Unlock()
	p.cut()
}

// stopAfter makes it stop after this many more bytes to the server.
func (p *proxy) stopAfter(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = bytes
}

// A counted is a client's end of a connection whose bytes are counted.
type counted struct {
	net.Conn
	p *proxy
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.p.mu.Lock()
	left := c.p.left
	c.p.left = max(left-int64(n), 0)
	c.p.mu.Unlock()
	if left > 0 && left <= int64(n) {
		c.p.stop()
		return 0, net.ErrClosed
	}
	return n, err
}

// cut breaks all connections; new ones are possible.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	if p.down { // it stopped since the connection was accepted
		client.Close()
		server.Close()
	}
	p.mu.Unlock()
	go pipe(server, counted{client, p}, nil)
	pipe(client, server, p.change)
}

// pipe forwards bytes until one side closes, and then closes the other.
func pipe(to, from net.Conn, change *strings.Replacer) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			data := buf[:n]
			if change != nil {
				data = []byte(change.Replace(string(data)))
			}
			if _, werr := to.Write(data); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
