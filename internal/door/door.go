// Package door tells what kind of server listens at an address, for messages: whoever
// gives the URL of one engine and the port of another shall hear that.
package door

import (
	"bytes"
	"context"
	"io"
	"net"
	"time"

	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Kind of server.
type Kind string

// Kinds that Knock knows.
const (
	Unknown    Kind = ""
	MySQL      Kind = "MySQL or MariaDB"
	PostgreSQL Kind = "PostgreSQL"
	HTTP       Kind = "an HTTP server"
	SSH        Kind = "an SSH server"
	NATS       Kind = "a NATS server"
)

// patience is how long a server may take to say something of its own accord, and then to
// answer.
const patience = time.Second

// Knock opens a connection of its own and looks at how the server begins: MySQL, MariaDB,
// SSH and NATS greet; PostgreSQL waits to be asked, and answers a request for TLS with one
// letter. No secret is sent. It takes two seconds and some hundred bytes at most.
func Knock(ctx context.Context, network, address string) Kind {
	d := net.Dialer{Timeout: patience}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return Unknown
	}
	defer conn.Close()
	defer crash.OnDone(ctx, func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(patience))
	p := make([]byte, 64)
	if n, _ := io.ReadAtLeast(conn, p, 5); n > 0 {
		return Greeting(p[:n])
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil { // SSLRequest
		return Unknown
	}
	n, _ := io.ReadAtLeast(conn, p, 1)
	switch {
	case n == 1 && (p[0] == 'S' || p[0] == 'N'):
		return PostgreSQL
	case bytes.HasPrefix(p[:n], []byte("HTTP/")):
		return HTTP
	}
	return Unknown
}

// Greeting tells who begins like that.
func Greeting(p []byte) Kind {
	switch {
	case bytes.HasPrefix(p, []byte("SSH-")):
		return SSH
	case bytes.HasPrefix(p, []byte("INFO ")):
		return NATS
	case bytes.HasPrefix(p, []byte("HTTP/")):
		return HTTP
	case len(p) >= 5 && p[3] == 0 && (p[4] == 10 || p[4] == 0xff):
		return MySQL // a packet's number is 0, and it is protocol 10 or an error
	}
	return Unknown
}
