package measure

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// The protocol of two processes of ours over TCP; all numbers are big-endian.
//
// Both sides begin with a greeting: 16 bytes of magic, the version of the protocol (2 bytes), the
// length of what follows (2 bytes), and that as JSON: a hello from the connecting side, a welcome
// from the other. A listener with a secret first sends a welcome with a challenge, which the
// connecting side answers with a proofMessage. Then it sends frames: kind (1 byte), 3 bytes of 0,
// the length of the payload (4), a sequence number (8); the payload has no meaning. The listener
// answers frames that request it with acks of ackSize bytes, and a final bye with 4 bytes of length
// and that much JSON.
const (
	linkMagic   = "TIDEMARK-HA\r\n\x1a\n\x00"
	linkVersion = 2
	headSize    = 16
	ackSize     = 48 // as Db2's acknowledgements
	maxPayload  = 64 << 20
	maxReply    = 8 << 20

	helloTime = 5 * time.Second  // until the greeting
	idleTime  = 60 * time.Second // without a frame
)

// DefaultLinkPort is the default port of listeners.
const DefaultLinkPort = "7455"

// Kinds of frames.
const (
	dataFrame  = 'D' // no ack
	flushFrame = 'F' // requests an ack
	byeFrame   = 'B' // the last one
)

// A hello is the request of the connecting side.
type hello struct {
	Purpose string     `json:"purpose"` // look (is anybody there), measure, join (another connection of the measuring peer), disk, ship
	Token   string     `json:"token,omitempty"`
	Buffer  int        `json:"buffer,omitempty"` // requested size of the socket's buffers; 0: unchanged
	Ship    *shipTerms `json:"ship,omitempty"`
	Disk    *diskOrder `json:"disk,omitempty"`

	secret string // not sent: see prove
}

// A welcome is the answer.
type welcome struct {
	Challenge string `json:"challenge,omitempty"` // to be answered first
	Refused   string `json:"refused,omitempty"`   // the reason
	Token     string `json:"token,omitempty"`
	Granted   int    `json:"granted,omitempty"` // size of the receive buffer; 0: unknown
	Disk      bool   `json:"disk,omitempty"`    // to a look: it has a folder whose disk can be measured
}

// An ack reports what has arrived so far on the connection.
type ack struct {
	number  uint64
	bytes   uint64        // including frame headers
	since   time.Duration // since the connection was welcomed, by the receiver's clock
	wall    int64         // the receiver's wall clock, in nanoseconds since 1970
	written uint64        // in ships: the last frame written
	synced  uint64        // the last one on disk (and applied)
}

func (a ack) encode(b []byte) {
	for i, v := range []uint64{a.number, a.bytes, uint64(a.since), uint64(a.wall), a.written, a.synced} {
		binary.BigEndian.PutUint64(b[8*i:], v)
	}
}

func decodeAck(b []byte) ack {
	n := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return ack{number: n(0), bytes: n(1), since: time.Duration(n(2)), wall: int64(n(3)), written: n(4), synced: n(5)}
}

// errForeign means that the other side is not one of ours.
var errForeign = errors.New("another program answers there")

// A versionError means that the other side is one of ours with another protocol version.
type versionError uint16

func (v versionError) Error() string {
	return fmt.Sprintf("the other side uses version %d of the protocol, this one version %d", uint16(v), linkVersion)
}

func writeGreeting(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b := append([]byte(linkMagic), 0, 0, 0, 0)
	binary.BigEndian.PutUint16(b[len(linkMagic):], linkVersion)
	binary.BigEndian.PutUint16(b[len(linkMagic)+2:], uint16(len(text)))
	_, err = w.Write(append(b, text...))
	return err
}

// readGreeting reads a greeting, and no byte beyond the first wrong one.
func readGreeting(r *bufio.Reader, v any) error {
	for i := range len(linkMagic) {
		b, err := r.ReadByte()
		if err == io.EOF && i == 0 {
			return io.EOF
		}
		if err != nil {
			return err
		}
		if b != linkMagic[i] {
			return errForeign
		}
	}
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	if version := binary.BigEndian.Uint16(head[:]); version != linkVersion {
		return versionError(version)
	}
	text := make([]byte, binary.BigEndian.Uint16(head[2:]))
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	if json.Unmarshal(text, v) != nil {
		return errForeign
	}
	return nil
}

// inThisProcess names a standby in this process.
const inThisProcess = "a standby in this process"

// A path leads to a standby, perhaps through a proxy of ours.
type path struct {
	name, peer string // the standby, for people and as an address
	addr       string // to connect to: the proxy's, or peer
	added      *Line  // by the proxy
	end        func() // releases what was started for it
}

// connectTo finds the path to a standby, in this process if peer is "", with a proxy in front of it
// if line adds anything.
func connectTo(ctx context.Context, peer, secret string, line Line, here *StandbySpec) (p path, err error) {
	p = path{name: withPort(peer), peer: withPort(peer), end: func() {}}
	if peer == "" {
		p.name = inThisProcess
		if p.peer, p.end, err = here.startHere(ctx); err != nil {
			return p, err
		}
	}
	if p.addr = p.peer; line == (Line{}) {
		return p, nil
	}
	proxy, err := throughProxy(ctx, p.peer, secret, line)
	if err != nil {
		p.end()
		return p, err
	}
	stop := p.end
	p.addr, p.added, p.end = proxy.Addr(), &line, func() { proxy.Close(); stop() }
	return p, nil
}

// throughProxy first checks that a listener is there: a proxy accepts every connection.
func throughProxy(ctx context.Context, peer, secret string, line Line) (*Proxy, error) {
	l, err := dialLink(ctx, peer, hello{Purpose: "look", secret: secret})
	if err != nil {
		return nil, err
	}
	l.close()
	p, err := NewProxy(peer, line)
	if err != nil {
		return nil, listenError(ctx, "127.0.0.1", err)
	}
	return p, nil
}

// A link is the connecting side.
type link struct {
	c       *net.TCPConn
	r       *bufio.Reader
	w       *socket
	granted welcome
	room    []byte // data of the frames
	number  uint64
	stop    func() bool
}

const (
	busy = "it is busy with another client"
	// busyTimeout gives a listener time to notice that the last peer has gone.
	busyTimeout = 2 * time.Second
)

// dialLink connects and greets. Errors: Unreachable, Denied (no secret, or a wrong one),
// Unsupported (another program, or another version), Transient (it serves another peer).
func dialLink(ctx context.Context, addr string, h hello) (*link, error) {
	for begun := time.Now(); ; {
		l, refused, err := dialOnce(ctx, addr, h)
		if refused != busy || time.Since(begun) > busyTimeout {
			return l, err
		}
		if flow.Sleep(ctx, busyTimeout/40) != nil {
			return nil, cancelled(ctx, "connect")
		}
	}
}

func dialOnce(ctx context.Context, addr string, h hello) (l *link, refused string, err error) {
	d := net.Dialer{Timeout: helloTime}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, "", linkError(ctx, addr, err)
	}
	l = &link{c: conn.(*net.TCPConn), r: bufio.NewReaderSize(conn, 64<<10)}
	l.w = newSocket(l.c)
	l.stop = crash.OnDone(ctx, func() { conn.Close() }) // not l, which an error sets to nil
	if err := l.greet(h); err != nil {
		l.close()
		return nil, "", linkError(ctx, addr, err)
	}
	if l.granted.Refused == wrongSecret {
		l.close()
		return nil, "", needsSecret(addr, wrongSecret)
	}
	if l.granted.Refused != "" {
		l.close()
		return nil, l.granted.Refused, &tidemark.Error{Kind: tidemark.Transient, Op: "connect", Object: addr, Err: errors.New(l.granted.Refused), Hint: "Try again once it is free, or start another one."}
	}
	if h.Purpose == "measure" || h.Purpose == "join" {
		waitInKernel(l.c)
	}
	return l, "", nil
}

func (l *link) greet(h hello) error {
	if h.Buffer > 0 {
		if err := errors.Join(l.c.SetWriteBuffer(h.Buffer), l.c.SetReadBuffer(h.Buffer)); err != nil {
			return err
		}
	}
	wait := helloTime
	if h.Purpose == "ship" {
		wait = idleTime // it creates a file first
	}
	l.c.SetDeadline(time.Now().Add(wait))
	if err := writeGreeting(l.c, h); err != nil {
		return err
	}
	err := readGreeting(l.r, &l.granted)
	if err == nil && l.granted.Challenge != "" {
		err = l.prove(h.secret)
	}
	if err != nil {
		return err
	}
	return l.c.SetDeadline(time.Time{})
}

func (l *link) close() {
	l.stop()
	l.c.Close()
}

// send sends a frame with a payload of so many bytes, and the next sequence number.
func (l *link) send(kind byte, payload int) error {
	l.number++
	return l.sendAs(kind, payload, l.number)
}

func (l *link) sendAs(kind byte, payload int, number uint64) error {
	if need := headSize + min(payload, 256<<10); len(l.room) < need {
		l.room = make([]byte, need)
		for i := range l.room {
			l.room[i] = byte(i * 7)
		}
	}
	putHead(l.room, kind, payload, number)
	part := min(headSize+payload, len(l.room))
	if err := l.w.write(l.room[:part]); err != nil {
		return err
	}
	for left := headSize + payload - part; left > 0; left -= part {
		part = min(left, len(l.room)-headSize)
		if err := l.w.write(l.room[headSize:][:part]); err != nil {
			return err
		}
	}
	return nil
}

func putHead(b []byte, kind byte, payload int, number uint64) {
	b[0], b[1], b[2], b[3] = kind, 0, 0, 0
	binary.BigEndian.PutUint32(b[4:], uint32(payload))
	binary.BigEndian.PutUint64(b[8:], number)
}

func (l *link) ack() (ack, error) {
	var b [ackSize]byte
	_, err := io.ReadFull(l.r, b[:])
	return decodeAck(b[:]), err
}

// flush sends a frame and waits for its ack.
func (l *link) flush(payload int) (a ack, took time.Duration, err error) {
	l.c.SetDeadline(time.Now().Add(idleTime))
	begin := time.Now()
	if err = l.send(flushFrame, payload); err != nil {
		return a, 0, err
	}
	a, err = l.ack()
	return a, time.Since(begin), err
}

// bye ends the connection, and reads the other side's final message.
func (l *link) bye(v any) error {
	l.c.SetDeadline(time.Now().Add(idleTime))
	if err := l.send(byeFrame, 0); err != nil {
		return err
	}
	return l.reply(v)
}

func (l *link) reply(v any) error {
	var size [4]byte
	if _, err := io.ReadFull(l.r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxReply {
		return errForeign
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(l.r, text); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// linkError explains in one sentence why there is no connection, or why it broke.
func linkError(ctx context.Context, addr string, err error) error {
	const op = "connect"
	var version versionError
	var dns *net.DNSError
	var slow net.Error
	var done *tidemark.Error
	var call *net.OpError
	switch {
	case errors.As(err, &done):
		return err
	case ctx.Err() != nil:
		return cancelled(ctx, op)
	case errors.As(err, &version):
		return &tidemark.Error{Op: op, Object: addr, Kind: tidemark.Unsupported, Hint: "Run the same version of tidemark on both sides.", Err: version}
	case errors.Is(err, errForeign):
		return &tidemark.Error{Op: op, Object: addr, Kind: tidemark.Unsupported, Hint: "Give the address of tidemark ha measure network --listen, or of tidemark ha simulate --standby.", Err: errForeign}
	case errors.As(err, &dns):
		return &tidemark.Error{Kind: tidemark.Unreachable, Op: op, Object: addr, Err: errors.New("there is no such host"), Hint: "Check the name."}
	case errors.As(err, &call) && call.Op == "dial":
		cause := call.Err
		if call.Timeout() {
			cause = fmt.Errorf("no answer within %s", helloTime)
		}
		return &tidemark.Error{Op: op, Object: addr, Kind: tidemark.Unreachable, Err: cause,
			Hint: "Start tidemark ha measure network --listen or tidemark ha simulate --standby there, and open its port in firewalls."}
	case errors.As(err, &slow) && slow.Timeout():
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: op, Object: addr, Err: errors.New("it accepts connections but does not answer"), Hint: "Give the address of tidemark ha measure network --listen, or of tidemark ha simulate --standby."}
	}
	return &tidemark.Error{Op: op, Object: addr, Kind: tidemark.Transient, Hint: "Look at the other side's last line: it may have been stopped.",
		Err: fmt.Errorf("the connection ended: %w", err)}
}
