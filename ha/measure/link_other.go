//go:build !linux

package measure

import (
	"net"
	"time"
)

// A socket writes to a connection, and counts how often that took so long that the kernel's buffer
// must have been full.
type socket struct {
	c     *net.TCPConn
	calls int64
	bytes int64
	full  []time.Duration // duration of each
}

func newSocket(c *net.TCPConn) *socket { return &socket{c: c} }

func (s *socket) write(b []byte) error {
	begin := time.Now()
	n, err := s.c.Write(b)
	if took := time.Since(begin); took > time.Millisecond && len(s.full) < keptSamples {
		s.full = append(s.full, took)
	}
	s.calls, s.bytes = s.calls+1, s.bytes+int64(n)
	return err
}

func waitInKernel(*net.TCPConn) {}

func (s *socket) buffers() (send, receive int) { return 0, 0 }

func (s *socket) state() *TCPState { return nil }

func sleepExactly(d time.Duration) { time.Sleep(d) }
