// Package door identifies the kind of server that listens at an address, for messages: a user who
// combines the URL of one engine with the port of another learns of it.
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

// patience is how long a server may take to send a greeting, and then to answer.
const patience = time.Second

// Knock opens a connection of its own and looks at the server's first bytes: MySQL, MariaDB, SSH
// and NATS greet; PostgreSQL waits for the client, and answers a request for TLS with one letter.
// No secret is sent. Knock takes at most two seconds and some hundred bytes.
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

// Greeting returns the kind of server whose greeting begins with p.
func Greeting(p []byte) Kind {
	switch {
	case bytes.HasPrefix(p, []byte("SSH-")):
		return SSH
	case bytes.HasPrefix(p, []byte("INFO ")):
		return NATS
	case bytes.HasPrefix(p, []byte("HTTP/")):
		return HTTP
	case len(p) >= 5 && p[3] == 0 && (p[4] == 10 || p[4] == 0xff):
		return MySQL // the packet number is 0, followed by protocol 10 or an error
	}
	return Unknown
}
