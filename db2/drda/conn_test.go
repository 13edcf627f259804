package drda

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// A context that has ended ends each wait for the server, also one that begins later.
func TestEndedContext(t *testing.T) {
	waits := map[string]func(ctx context.Context, c *Conn) error{
		"Exec":   func(ctx context.Context, c *Conn) error { _, err := c.Exec(ctx, "delete from t"); return err },
		"Query":  func(ctx context.Context, c *Conn) error { _, err := c.Query(ctx, "select a from t"); return err },
		"Commit": func(ctx context.Context, c *Conn) error { return c.Commit(ctx) },
	}
	for name, wait := range waits {
		for _, early := range []bool{true, false} {
			near, far := net.Pipe()
			go io.Copy(io.Discard, far) // a server that never answers
			c := &Conn{net: near, in: newReader(near), order: binary.BigEndian, rdb: bytes.Repeat([]byte{0x40}, 18)}
			ctx, cancel := context.WithCancelCause(t.Context())
			reason := errors.New("the reason")
			if early {
				cancel(reason)
			} else {
				time.AfterFunc(10*time.Millisecond, func() { cancel(reason) })
			}
			done := make(chan error, 1)
			go func() { done <- wait(ctx, c) }()
			select {
			case err := <-done:
				if err != reason || !c.Broken {
					t.Errorf("%s, ended early %t: %v, broken %t", name, early, err, c.Broken)
				}
				if _, err := near.Write([]byte{0}); err != io.ErrClosedPipe {
					t.Errorf("%s, ended early %t: the connection is still there: %v", name, early, err)
				}
			case <-time.After(5 * time.Second):
				t.Errorf("%s, ended early %t: it still waits", name, early)
			}
			near.Close()
			far.Close()
		}
	}
}
