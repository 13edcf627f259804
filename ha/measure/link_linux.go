package measure

import (
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A socket writes to a connection, and counts how often the kernel's buffer was full.
type socket struct {
	c     *net.TCPConn
	raw   rawConn
	calls int64
	bytes int64
	full  []time.Duration // duration of each
}

type rawConn interface {
	Write(func(fd uintptr) bool) error
	Control(func(fd uintptr)) error
}

func newSocket(c *net.TCPConn) *socket {
	s := &socket{c: c}
	if raw, err := c.SyscallConn(); err == nil {
		s.raw = raw
	}
	return s
}

func (s *socket) write(b []byte) error {
	if s.raw == nil {
		_, err := s.c.Write(b)
		return err
	}
	for len(b) > 0 {
		var n int
		var failed error
		var since time.Time
		err := s.raw.Write(func(fd uintptr) bool {
			for {
				n, failed = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
				if failed != unix.EINTR {
					break
				}
			}
			if failed == unix.EAGAIN {
				if since.IsZero() {
					since = time.Now()
				}
				return false // until there is room
			}
			return true
		})
		if !since.IsZero() && len(s.full) < keptSamples {
			s.full = append(s.full, time.Since(since))
		}
		if err != nil {
			return err
		}
		if failed != nil {
			return &net.OpError{Op: "write", Net: "tcp", Addr: s.c.RemoteAddr(), Err: failed}
		}
		s.calls, s.bytes, b = s.calls+1, s.bytes+int64(n), b[n:]
	}
	return nil
}

// waitInKernel lets reads of a connection wait in the read call itself, for up to a second, before
// the runtime's poller waits for data: waking up from the poller takes 5 us longer, which is a
// third of a round trip on the loopback. Deadlines hold, at most a second late.
func waitInKernel(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		if unix.SetsockoptTimeval(int(fd), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}) == nil &&
			unix.SetsockoptTimeval(int(fd), unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 1}) == nil {
			unix.SetNonblock(int(fd), false)
		}
	})
}

// buffers returns the sizes of the kernel's buffers as it reports them: twice the requested size,
// half of which is for its own bookkeeping.
func (s *socket) buffers() (send, receive int) {
	if s.raw != nil {
		s.raw.Control(func(fd uintptr) {
			send, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
			receive, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
		})
	}
	return send, receive
}

// state returns what the kernel knows of the connection; nil if that is unavailable.
func (s *socket) state() *TCPState {
	if s.raw == nil {
		return nil
	}
	var out *TCPState
	s.raw.Control(func(fd uintptr) {
		i, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		us := func(n uint32) float64 { return float64(n) / 1e6 }
		part := func(n uint64) float64 { return float64(n) / float64(max(i.Busy_time, 1)) }
		out = &TCPState{RTT: us(i.Rtt), RTTVar: us(i.Rttvar), MinRTT: us(i.Min_rtt), Cwnd: int(i.Snd_cwnd), MSS: int(i.Snd_mss),
			Retransmits: int(i.Total_retrans), DeliveryRate: float64(i.Delivery_rate), ReceiverLimited: part(i.Rwnd_limited), BufferLimited: part(i.Sndbuf_limited)}
		out.Congestion, _ = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	})
	return out
}

// An alarm is a timer of the system. Waiting for it blocks no thread: one that sleeps in the system
// keeps its place among the few of the runtime for a while, so that many wait in turn.
type alarm struct {
	fd   int
	file *os.File
}

var alarms = sync.Pool{New: func() any {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return (*alarm)(nil)
	}
	return &alarm{fd, os.NewFile(uintptr(fd), "alarm")}
}}

// sleepExactly sleeps as precisely as the system can: the runtime's timers have a resolution of a
// millisecond.
func sleepExactly(d time.Duration) {
	if d <= 0 {
		return
	}
	a := alarms.Get().(*alarm)
	if a == nil || unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil) != nil {
		time.Sleep(d)
		return
	}
	var expired [8]byte
	if _, err := a.file.Read(expired[:]); err == nil {
		alarms.Put(a)
	}
}
