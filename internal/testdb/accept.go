package testdb

import (
	"net"
	"testing"
)

// Accept listens on this host until the test ends, and has serve take each connection, in a
// goroutine of its own.
func Accept(tb testing.TB, serve func(net.Conn)) net.Listener {
	tb.Helper()
	l, err := Listen()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go serve(c)
		}
	}()
	return l
}

// Between listens in front of a server, and has serve relay each connection.
func Between(tb testing.TB, server string, serve func(client, server net.Conn)) net.Listener {
	tb.Helper()
	return Accept(tb, func(client net.Conn) {
		to, err := net.Dial("tcp", server)
		if err != nil {
			client.Close()
			return
		}
		serve(client, to)
	})
}

// portOf is the port of a listener.
func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String()) // it listens at one
	return port
}
