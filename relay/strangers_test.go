package relay

import (
	"io"
	"net"
	"testing"
	"time"
)

// Connections that say nothing, however many, neither keep peers out nor stay.
func TestStrangers(t *testing.T) {
	addr, _ := listening(t, Spec{Identity: Identity{Secret: secret}, Open: echo})
	silent := make([]net.Conn, 4*mostStrangers)
	for i := range silent {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent[i] = c
	}
	for range 3 {
		c := dial(t, bySameSecret(addr), "echo")
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	open := 0
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			if e, is := err.(net.Error); is && e.Timeout() {
				open++
			}
		}
	}
	if open > mostStrangers {
		t.Errorf("%d of them are still open", open)
	}
}
