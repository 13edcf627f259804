package peers

import (
	"net"
	"strings"
	"testing"
)

// A PostgreSQL server that accepts a connection and says nothing, at once or after it has asked for
// TLS, ends the command after ten seconds, though the URL has no connect_timeout.
func TestSilentPostgres(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(net.Conn){
		"at once":     wait,
		"without TLS": func(c net.Conn) { _, _ = c.Read(make([]byte, 8)); _, _ = c.Write([]byte("N")); wait(c) },
		"asks for a password": func(c net.Conn) {
			first := make([]byte, 1000)
			if n, _ := c.Read(first); n == 8 { // asks for TLS
				_, _ = c.Write([]byte("N"))
				return
			}
			_, _ = c.Write([]byte{'R', 0, 0, 0, 12, 0, 0, 0, 5, 1, 2, 3, 4})
			wait(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := listen(t, play)
			if text := endure(t, h, usual, "check", "postgres://tm:x@"+h.addr+"/shop", "mysql://127.0.0.1:1/x"); !strings.Contains(text, "within 10s") {
				t.Error(text)
			}
		})
	}
}
