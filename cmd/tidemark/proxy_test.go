package main

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A proxy stands between tidemark and a real server, as a network does: it can
// break, and come back.
type proxy struct {
	t      *testing.T
	addr   string            // where it listens
	to     string            // the server
	change *strings.Replacer // of what the server says, with texts of equal length; nil nothing

	mu    sync.Mutex
	l     net.Listener
	conns []net.Conn
}

func newProxy(t *testing.T, srv *testdb.Server) *proxy {
	t.Helper()
	p := &proxy{t: t, addr: "127.0.0.1:0", to: net.JoinHostPort(srv.Host, strconv.Itoa(srv.Port))}
	p.start()
	t.Cleanup(p.stop)
	return p
}

// start listens, after stop at the same address.
func (p *proxy) start() {
	p.t.Helper()
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.l, p.addr = l, l.Addr().String()
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

// stop closes everything: nobody answers any more.
func (p *proxy) stop() {
	p.mu.Lock()
	p.l.Close()
	p.mu.Unlock()
	p.cut()
}

// cut breaks all connections; new ones can be made.
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
	p.mu.Unlock()
	go pipe(server, client, nil)
	pipe(client, server, p.change)
}

// pipe carries bytes until one side is closed, and closes the other.
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
