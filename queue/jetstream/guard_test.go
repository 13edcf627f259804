package jetstream

import (
	"fmt"
	"strings"
	"testing"
)

// Lengths that no server sends do not reach the client, however the bytes are split; those that
// servers send do.
func TestGuard(t *testing.T) {
	good := "INFO {\"max_payload\":1}\r\nMSG a 1 3\r\nx\ny\r\nPING\r\nHMSG a 2 r 4 6\r\nMSG 99\r\n+OK\r\n\r\nMSG a 1 reply 0\r\n\r\n"
	for text, ok := range map[string]bool{
		good: true, good + good: true,
		good + "MSG a 1 99999999999999999999\r\n": false, "MSG a 1 -1\r\n": false, "MSG a 1 2147483647\r\n": false, "msg a 1 4294967297\n": false, "MSG a 1 \r\n": false, "MSG\r\n": false,
		"HMSG a 1 9 4\r\n": false, "HMSG a 1 -9 4\r\n": false, "INFO " + strings.Repeat("x", maxLine): false, "MSG a 1 67108864\r\n": true,
	} {
		for _, size := range []int{1, 3, len(text)} {
			g := &guard{}
			var err error
			for at := 0; at < len(text) && err == nil; at += size {
				err = g.pass([]byte(text[at:min(at+size, len(text))]))
			}
			if (err == nil) != ok {
				t.Errorf("%.80q in pieces of %d: %v", text, size, err)
			}
		}
	}
}

// No text makes the guard panic, or keep more than a line.
func FuzzGuard(f *testing.F) {
	for _, text := range []string{"MSG a 1 3\r\nabc\r\n", "HMSG a 1 2 3\r\nabc\r\n", "INFO {}\r\nPING\r\n", fmt.Sprintf("MSG a 1 %d\r\n", uint64(1)<<63)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		g := &guard{}
		_ = g.pass(text)
		if len(g.line) > maxLine+len(text) || g.skip > maxMessage+2 || g.skip < 0 {
			t.Errorf("%d bytes of a line are kept, and %d are to come", len(g.line), g.skip)
		}
	})
}
