package garbled

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"
)

// A message is a single message from a server.
type message struct {
	kind       string
	head, body []byte // the head holds the length of the body
}

// A protocol splits a byte stream into messages.
type protocol struct {
	// read reads one message of a server. asked holds what has been noted of the client's requests
	// on this connection.
	read func(r *bufio.Reader, asked *sync.Map) (message, error)
	// join makes the head match the body.
	join func(m message) []byte
	// lie makes the head claim an absurd body length.
	lie func(head []byte, rnd *rand.Rand) []byte
	// asked notes a client's requests; nil: they do not matter.
	asked func(r *bufio.Reader, notes *sync.Map) ([]byte, error)
	// moved replaces the server's address in a message with the proxy's; nil: messages contain
	// none.
	moved func(m *message, from, to string)
}

// A lie is one change to a server's messages.
type lie struct {
	kind string
	nth  int // of its kind, from 0
	way  int // of ways
	rnd  *rand.Rand

	mu   sync.Mutex
	left int // messages of that kind until it strikes
	told string
	init bool
}

func (l *lie) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("message %d of kind %q %s (%s)", l.nth, l.kind, ways[l.way].name, l.told)
}

// now reports whether this message is the one to change.
func (l *lie) now(m message) bool {
	if l == nil || m.kind != l.kind {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.init {
		l.init, l.left, l.told = true, l.nth, "not reached"
	}
	l.left--
	if l.left == -1 {
		l.told = fmt.Sprintf("head %.60q, body %.120q", m.head, m.body)
		return true
	}
	return false
}

// A way is how a message is changed. It returns what is sent; after says what follows: the rest of
// the server's messages, nothing, silence, or the same again endlessly.
type way struct {
	name    string
	endless bool
	do      func(p protocol, m message, rnd *rand.Rand) (sent []byte, then after)
}

type after int

const (
	goesOn after = iota
	hangsUp
	isSilent
	repeats
)

var absurd = []uint64{0x7fffffffffffffff, 0xffffffffffffffff, 0x8000000000000000, 0x7fffffff7fffffff, 0x0000000100000000, 0}

// over overwrites n bytes somewhere in the body with an absurd number.
func over(n int) func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
	return func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		if len(m.body) >= n {
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], absurd[rnd.IntN(len(absurd))])
			most := len(m.body) - n + 1
			if rnd.IntN(2) == 0 {
				most = min(most, 40) // counts and lengths are at the front
			}
			copy(m.body[rnd.IntN(most):], b[8-n:][:n])
			if n == 8 {
				return p.join(m), goesOn
			}
		}
		return p.join(m), goesOn
	}
}

var digits = regexp.MustCompile(`[0-9]+`)

var ways = []way{
	{"has some bytes flipped", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		for range 1 + rnd.IntN(8) {
			if len(m.body) > 0 {
				m.body[rnd.IntN(len(m.body))] = byte(rnd.Uint32())
			}
		}
		return p.join(m), goesOn
	}},
	{"has an absurd number of 2 bytes", false, over(2)},
	{"has an absurd number of 4 bytes", false, over(4)},
	{"has an absurd number of 8 bytes", false, over(8)},
	{"has another number", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		numbers := []string{"9223372036854775807", "-1", "99999999999999999999999999", "4294967296", "1e999", "0", "", "2147483647"}
		if all := digits.FindAllIndex(m.body, -1); len(all) > 0 {
			at := all[rnd.IntN(len(all))]
			m.body = append(append(append([]byte{}, m.body[:at[0]]...), numbers[rnd.IntN(len(numbers))]...), m.body[at[1]:]...)
		}
		return p.join(m), goesOn
	}},
	{"is shorter", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		m.body = m.body[:rnd.IntN(len(m.body)+1)]
		return p.join(m), goesOn
	}},
	{"is empty", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		m.body = nil
		return p.join(m), goesOn
	}},
	{"is rubbish", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		for i := range m.body {
			m.body[i] = byte(rnd.Uint32())
		}
		return p.join(m), goesOn
	}},
	{"lies about its length", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		return append(p.lie(m.head, rnd), m.body...), goesOn
	}},
	{"lies about its length, and is silent", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		return append(p.lie(m.head, rnd), m.body...), isSilent
	}},
	{"lies about its length, and never ends", true, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		return append(p.lie(m.head, rnd), m.body...), repeats
	}},
	{"is cut, and the server hangs up", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		all := p.join(m)
		return all[:rnd.IntN(len(all))], hangsUp
	}},
	{"is cut, and the server is silent", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		all := p.join(m)
		return all[:rnd.IntN(len(all))], isSilent
	}},
	{"comes twice", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		all := p.join(m)
		return append(all, all...), goesOn
	}},
	{"is left out", false, func(protocol, message, *rand.Rand) ([]byte, after) { return nil, goesOn }},
	{"comes without an end", true, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) { return p.join(m), repeats }},
	{"has text without an end", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		grown := make([]byte, 0, 1<<20)
		for len(grown) < 1<<20-len(m.body) && len(m.body) > 0 {
			grown = append(grown, m.body...)
		}
		m.body = grown
		return p.join(m), goesOn
	}},
	{"is of another kind", false, func(p protocol, m message, rnd *rand.Rand) ([]byte, after) {
		all := p.join(m)
		if len(all) > 0 {
			all[0] = "RKSZTDCEAdWcNHvGt123\x00"[rnd.IntN(21)]
		}
		return all, goesOn
	}},
}

// A proxy sits in front of a server.
type proxy struct {
	addr string
	to   string
	of   protocol
	lie  *lie
	l    net.Listener

	mu    sync.Mutex
	armed bool           // until then it does not lie
	seen  map[string]int // messages of each kind since armed
	conns []net.Conn
	shut  bool
}

func newProxy(t *testing.T, of protocol, to string, l *lie) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: listener.Addr().String(), to: to, of: of, lie: l, l: listener, seen: map[string]int{}}
	t.Cleanup(p.close)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) arm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = true
}

// reached reports whether a server has answered by way of the proxy.
func (p *proxy) reached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen) > 0
}

func (p *proxy) close() {
	p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	for _, c := range p.conns {
		c.Close()
	}
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.to, 10*time.Second)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	if p.shut {
		client.Close()
		server.Close()
	}
	p.mu.Unlock()
	var notes sync.Map
	go func() {
		defer server.Close()
		if p.of.asked == nil {
			_, _ = io.Copy(server, client)
			return
		}
		for r := bufio.NewReaderSize(client, 64<<10); ; {
			question, err := p.of.asked(r, &notes)
			if err != nil {
				return
			}
			if _, err := server.Write(question); err != nil {
				return
			}
		}
	}()
	defer client.Close()
	r := bufio.NewReaderSize(server, 64<<10)
	out := bufio.NewWriterSize(client, 64<<10)
	for {
		m, err := p.of.read(r, &notes)
		if err != nil {
			_ = out.Flush()
			return
		}
		if p.of.moved != nil {
			p.of.moved(&m, p.to, p.addr)
		}
		p.mu.Lock()
		armed := p.armed
		if armed {
			p.seen[m.kind]++
		}
		p.mu.Unlock()
		if !armed || !p.lie.now(m) {
			_, err = out.Write(append(m.head, m.body...))
		} else if !p.tell(out, client, m) {
			return
		}
		if err == nil && r.Buffered() == 0 {
			err = out.Flush()
		}
		if err != nil {
			return
		}
	}
}

// tell sends the lie. It reports whether the rest follows.
func (p *proxy) tell(out *bufio.Writer, client net.Conn, m message) bool {
	same := append(append([]byte{}, m.head...), m.body...)
	sent, then := ways[p.lie.way].do(p.of, m, p.lie.rnd)
	_, err := out.Write(sent)
	if err == nil {
		err = out.Flush()
	}
	switch {
	case err != nil || then == hangsUp:
		return false
	case then == isSilent:
		_, _ = io.Copy(io.Discard, silent{p, client})
		return false
	case then == repeats:
		many := append([]byte{}, same...)
		for len(many) < 64<<10 && len(same) > 0 {
			many = append(many, same...)
		}
		for err == nil && len(many) > 0 {
			_, err = client.Write(many)
		}
		return false
	}
	return true
}

// silent waits until its connection is closed, which the other goroutine notices.
type silent struct {
	p *proxy
	c net.Conn
}

func (s silent) Read([]byte) (int, error) {
	for {
		time.Sleep(50 * time.Millisecond)
		s.p.mu.Lock()
		shut := s.p.shut
		s.p.mu.Unlock()
		if shut {
			return 0, io.EOF
		}
	}
}
