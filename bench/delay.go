package main

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// A delay is a proxy that passes what clients say on after a millisecond, and what the
// server says at once.
type delay struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	conns []net.Conn
}

const delayTime = time.Millisecond

func delayed(to string) (*delay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delay{l: l, to: to}
	go d.accept()
	return d, nil
}

func (d *delay) port() int { return d.l.Addr().(*net.TCPAddr).Port }

// Close ends all connections.
func (d *delay) Close() error {
	err := d.l.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		c.Close()
	}
	return err
}

func (d *delay) accept() {
	for {
		client, err := d.l.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", d.to)
		if err != nil {
			client.Close()
			continue
		}
		d.mu.Lock()
		d.conns = append(d.conns, client, server)
		d.mu.Unlock()
		parts := make(chan part, 1000)
		go receive(client, parts)
		go pass(parts, server, client)
		go func() {
			buf := make([]byte, 64<<10)
			for {
				n, err := server.Read(buf)
				if n > 0 {
					if _, err := client.Write(buf[:n]); err != nil {
						break
					}
				}
				if err != nil {
					break
				}
			}
			client.Close()
			server.Close()
		}()
	}
}

// A part is bytes that were received together.
type part struct {
	data []byte
	due  time.Time
}

func receive(from net.Conn, parts chan<- part) {
	defer close(parts)
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		if n > 0 {
			parts <- part{buf[:n], time.Now().Add(delayTime)}
		}
		if err != nil {
			return
		}
	}
}

// pass sleeps in a thread of its own: the runtime's timers are not so exact.
func pass(parts <-chan part, to, from net.Conn) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for p := range parts {
		if wait := time.Until(p.due); wait > 0 {
			sleep(wait)
		}
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	from.Close()
	to.Close()
	for range parts { // until the receiver has noticed
	}
}
