package peers

import (
	"io"
	"net"
	"strings"
	"testing"
)

// An option that does not exist is refused before anything is sent: a misspelt sslmode would leave
// the connection without TLS, and a misspelt password would be shown and sent as a setting. No
// message has its value.
func TestMisspeltOption(t *testing.T) {
	t.Parallel()
	h := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	for _, text := range []string{
		"postgres://tm@" + h.addr + "/shop?sslmod=verify-full&sslcrt=" + secret,
		"postgres://tm@" + h.addr + "/shop?passwrd=" + secret,
		"host=127.0.0.1 port=" + h.addr[strings.LastIndexByte(h.addr, ':')+1:] + " dbname=shop sslmod=verify-full passwrd=" + secret,
		"mysql://tm@" + h.addr + "/shop?passwrd=" + secret + "&tsl=verify-full",
		"db2://tm@" + h.addr + "/SHOP?passwrd=" + secret,
	} {
		for _, args := range [][]string{{"check", text, "postgres://127.0.0.1:1/x"}, {"backup", "--logical", text, t.TempDir()}} {
			if out := endure(t, h, usual, args...); !strings.Contains(out, "unknown option") {
				t.Errorf("%s: %s", text, out)
			}
		}
	}
	if got := h.got(); got != "" {
		t.Errorf("the server heard %q", got)
	}
}
