package measure

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// What goes in comes out, in both directions, not too early.
func TestProxy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	line := Line{Delay: 20 * time.Millisecond, Rate: 8 << 20}
	p, err := NewProxy(l.Addr().String(), line)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	sent := incompressible(2 << 20)
	begin := time.Now()
	go c.Write(sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("what comes back is not what was sent: %v", err)
	}
	if took := time.Since(begin); took < 270*time.Millisecond { // 2 MB at 8 MB/s, and the round trip
		t.Errorf("it took only %v", took)
	}
	for range 5 {
		begin := time.Now()
		c.Write([]byte("x"))
		if _, err := io.ReadFull(c, got[:1]); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < line.Delay {
			t.Errorf("a round trip took only %v", took)
		}
		line.Delay += 10 * time.Millisecond
		p.Set(line)
	}
}

// Closing a proxy closes its connections, also full ones.
func TestProxyCloses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // nobody accepts: sent data stays
	p, err := NewProxy(l.Addr().String(), Line{Delay: 50 * time.Millisecond, Rate: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}()
	time.Sleep(100 * time.Millisecond)
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not close")
	}
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still there")
	} else if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Error("the connection is still open")
	}
}
