package jetstream

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"time"
)

// Largest line that a server may send, and largest message, for which NATS has its own limit.
const (
	maxLine    = 1 << 20
	maxMessage = 64 << 20
)

var errMalformed = errors.New("the server violates the NATS protocol")

// A guard checks what a server sends as it arrives: the client trusts the lengths in it. Inside TLS
// it sees nothing; there the server has proved its identity.
type guard struct {
	net.Conn
	line   []byte // the part received so far
	skip   int    // bytes of a message still to come
	sealed bool   // the client has started TLS
}

// guardDialer opens guarded connections.
type guardDialer struct{}

func (guardDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &guard{Conn: c}, nil
}

func (g *guard) Write(p []byte) (int, error) {
	if len(p) > 0 && p[0] == 0x16 { // a handshake; commands of the protocol are letters
		g.sealed = true
	}
	return g.Conn.Write(p)
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if !g.sealed {
		if wrong := g.pass(p[:n]); wrong != nil {
			return 0, wrong
		}
	}
	return n, err
}

func (g *guard) pass(p []byte) error {
	for len(p) > 0 {
		if g.skip > 0 {
			n := min(g.skip, len(p))
			g.skip, p = g.skip-n, p[n:]
			continue
		}
		end := bytes.IndexByte(p, '\n') + 1
		if end == 0 {
			end = len(p)
		}
		if g.line = append(g.line, p[:end]...); len(g.line) > maxLine {
			return errMalformed
		}
		p = p[end:]
		if g.line[len(g.line)-1] != '\n' {
			continue
		}
		n, err := payload(g.line)
		if err != nil {
			return err
		}
		g.line, g.skip = g.line[:0], n
	}
	return nil
}

// payload returns how many bytes follow a line.
func payload(line []byte) (int, error) {
	fields := bytes.Fields(line)
	if len(fields) == 0 {
		return 0, nil
	}
	headed := bytes.EqualFold(fields[0], []byte("HMSG"))
	if !headed && !bytes.EqualFold(fields[0], []byte("MSG")) {
		return 0, nil
	}
	size, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 32)
	if err != nil || len(fields) < 4 || size > maxMessage {
		return 0, errMalformed
	}
	if headed {
		if head, err := strconv.ParseUint(string(fields[len(fields)-2]), 10, 32); err != nil || head > size {
			return 0, errMalformed
		}
	}
	return int(size) + 2, nil
}
