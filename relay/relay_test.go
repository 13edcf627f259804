package relay

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

const secret = "5d1f0a7bfe9b4c6d"

// listening runs a relay until the test ends, and returns its address and what it has noted.
func listening(t *testing.T, spec Spec) (addr string, noted func() string) {
	t.Helper()
	var mu sync.Mutex
	var said strings.Builder
	at := make(chan string, 1)
	spec.Addr, spec.Program = "127.0.0.1:0", "theirs"
	spec.Note = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if a, is := strings.CutPrefix(text, "listening on "); is {
			at <- a
		}
		said.WriteString(text + "\n")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Listen(ctx, spec) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the relay ended with %v", err)
		}
	})
	select {
	case addr = <-at:
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	return addr, func() string {
		mu.Lock()
		defer mu.Unlock()
		return said.String()
	}
}

// echo serves what want says.
func echo(_ context.Context, want string) (func(net.Conn) error, error) {
	switch want {
	case "echo":
		return func(c net.Conn) error { _, err := io.Copy(struct{ io.Writer }{c}, c); return err }, nil
	case "full":
		return nil, &tidemark.Error{Kind: tidemark.Full, Op: "x", Object: "y", Err: errors.New("no space left on device"), Hint: "Free space."}
	case "page":
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "x", Object: "y", Err: errors.New(strings.Repeat("<", 100_000)), Hint: strings.Repeat("\x01", 100_000)}
	}
	return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "serve", Err: errors.New(strings.Repeat("\x01", 100_000)), Hint: strings.Repeat("h", 100_000)}
}

func bySameSecret(addr string) *Peer {
	return &Peer{Addr: addr, Identity: Identity{Secret: secret}, Program: "ours"}
}

func dial(t *testing.T, p *Peer, want string) net.Conn {
	t.Helper()
	c, err := p.Dial(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Bytes arrive as they were sent, in pieces of any size, and at once; those that repeat are few on
// the way.
func TestConversation(t *testing.T) {
	t.Parallel()
	addr, _ := listening(t, Spec{Identity: Identity{Secret: secret}, Open: echo})
	counted := count(t, addr)
	c := dial(t, bySameSecret(counted.addr), "echo")
	rnd := mrand.New(mrand.NewPCG(1, 2))
	for _, size := range []int{1, 10, 100_000, 3, 4 << 20} {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rnd.IntN(256))
		}
		go c.Write(b)
		got := make([]byte, size)
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%d bytes did not return: %v", size, err)
		}
	}
	was := counted.bytes.Load()
	rows := []byte(strings.Repeat("42\tthe same text in each row\t2026-11-24\n", 100_000))
	go c.Write(rows)
	got := make([]byte, len(rows))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, rows) {
		t.Fatal(err)
	}
	if way := counted.bytes.Load() - was; way > int64(len(rows))/20 {
		t.Errorf("%d bytes there and back were %d on the way", len(rows), way)
	}
}

// Several connections at once, and a relay that ends in the middle of them.
func TestRelayEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	at := make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		done <- Listen(ctx, Spec{Addr: "127.0.0.1:0", Identity: Identity{Secret: secret}, Open: echo, Note: func(text string) {
			if a, is := strings.CutPrefix(text, "listening on "); is {
				at <- a
			}
		}})
	}()
	var p *Peer
	select {
	case addr := <-at:
		p = bySameSecret(addr)
	case err := <-done:
		t.Fatal(err)
	}
	var conns []net.Conn
	for range 5 {
		conns = append(conns, dial(t, p, "echo"))
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, c := range conns {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a conversation continues without a relay")
		}
	}
	_, err := p.Dial(t.Context(), "echo")
	wants(t, err, tidemark.Unreachable, "connection refused")
}

func wants(t *testing.T, err error, kind tidemark.Kind, text string) {
	t.Helper()
	if tidemark.KindOf(err) != kind || err == nil || !strings.Contains(err.Error(), text) || tidemark.HintOf(err) == "" || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error()+tidemark.HintOf(err), secret) {
		t.Errorf("%v (%v, hint %q); want %v with %q", err, tidemark.KindOf(err), tidemark.HintOf(err), kind, text)
	}
}

// Whoever is not served learns why, in one line with a hint; who is a stranger learns nothing else.
func TestRefused(t *testing.T) {
	t.Parallel()
	addr, noted := listening(t, Spec{Identity: Identity{Secret: secret}, Open: echo})
	_, err := (&Peer{Addr: addr, Identity: Identity{Secret: secret + "x"}}).Dial(t.Context(), "echo")
	wants(t, err, tidemark.Denied, "the shared secret differs")
	_, err = bySameSecret(addr).Dial(t.Context(), "full")
	wants(t, err, tidemark.Full, "relay "+addr+": no space left on device")
	_, err = bySameSecret(addr).Dial(t.Context(), "something new")
	wants(t, err, tidemark.Unsupported, "\x01")
	if len(err.Error()) > mostGreeting {
		t.Errorf("the relay's error has %d bytes", len(err.Error()))
	}
	_, err = bySameSecret(addr).Dial(t.Context(), "page")
	wants(t, err, tidemark.Invalid, "<<<")
	if hint := tidemark.HintOf(err); !strings.HasPrefix(hint, "\x01") {
		t.Errorf("the hint is %.20q", hint)
	}

	// A program without the secret shows a certificate that it has made up, or none.
	conf, err := bySecret("another secret of that length")
	if err != nil {
		t.Fatal(err)
	}
	conf.VerifyConnection = nil
	none := conf.Clone()
	none.Certificates = nil
	for _, conf := range []*tls.Config{conf, none} {
		c, err := tls.Dial("tcp", addr, conf)
		if err == nil {
			_ = writeGreeting(c, hello{Relay: version, Want: "echo"})
			var a answer
			if err = readGreeting(c, &a); err == nil {
				t.Errorf("a stranger was answered %+v", a)
			}
			c.Close()
		}
	}
	for begun := time.Now(); strings.Count(noted(), "rejected: ") < 5 && time.Since(begun) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	if strings.Count(noted(), "rejected: ") < 5 || strings.Contains(noted(), secret) {
		t.Errorf("the relay noted\n%s", noted())
	}
	if err := Listen(t.Context(), Spec{Addr: addr, Identity: Identity{Secret: secret}}); tidemark.KindOf(err) != tidemark.Exists {
		t.Errorf("two at one address: %v", err)
	}
	for _, id := range []Identity{{}, {Secret: "short"}, {CA: "a"}, {CA: "a", Cert: "b"}} {
		wants(t, Listen(t.Context(), Spec{Identity: id}), tidemark.Invalid, "")
	}
}

// Each version tells the other which one it is.
func TestVersions(t *testing.T) {
	t.Parallel()
	addr, _ := listening(t, Spec{Identity: Identity{Secret: secret}, Open: echo})
	conf, err := bySecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", addr, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var a answer
	if err := errors.Join(writeGreeting(c, map[string]any{"relay": 2, "program": "v9", "new": true}), readGreeting(c, &a)); err != nil {
		t.Fatal(err)
	}
	if a.Relay != version || a.Kind != tidemark.Unsupported || !strings.Contains(a.Refused, `version 2 of the protocol (tidemark "v9")`) {
		t.Errorf("a later version is answered %+v", a)
	}
	for what, x := range map[string]struct {
		answer any
		kind   tidemark.Kind
		text   string
	}{
		"later":  {map[string]any{"relay": 2, "program": "v9", "refused": "x"}, tidemark.Unsupported, `it speaks version 2 of the protocol (tidemark "v9"), and this program version 1`},
		"broken": {[]int{1}, tidemark.Unreachable, "is not a relay"},
	} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			var h hello
			if readGreeting(c, &h) == nil && h.Program == "ours" {
				writeGreeting(c, x.answer)
			}
		}()
		_, err = bySameSecret(l.Addr().String()).Dial(t.Context(), "echo")
		if wants(t, err, x.kind, x.text); t.Failed() {
			t.Log(what)
		}
	}
}

// A late context's deadline has passed, and Err does not say so yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// What answers is no relay: another server, one that says nothing, or one that speaks for ever.
func TestNoRelay(t *testing.T) {
	t.Parallel()
	serve := func(f func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { defer c.Close(); f(c) }()
			}
		}()
		return l.Addr().String()
	}
	_, err := bySameSecret(serve(func(c net.Conn) { c.Write([]byte("J\x00\x00\x00\n8.4.0 and so on")); io.Copy(io.Discard, c) })).Dial(t.Context(), "echo")
	wants(t, err, tidemark.Unreachable, "is not a relay")
	_, err = bySameSecret(serve(func(c net.Conn) {})).Dial(t.Context(), "echo")
	wants(t, err, tidemark.Unreachable, "")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err = bySameSecret(serve(func(c net.Conn) { io.Copy(io.Discard, c) })).Dial(ctx, "echo"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a Dial that was ended gives %v", err)
	}
	if _, err = bySameSecret(serve(func(c net.Conn) { io.Copy(io.Discard, c) })).Dial(late{t.Context()}, "echo"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a Dial that came too late gives %v", err)
	}
	conf, err := bySecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	_, err = bySameSecret(serve(func(c net.Conn) {
		s := tls.Server(c, conf)
		s.Write(binary.BigEndian.AppendUint32(nil, 1<<30))
		io.Copy(io.Discard, s)
	})).Dial(t.Context(), "echo")
	wants(t, err, tidemark.Unreachable, "is not a relay")
}

// With certificates, each side proves by the CA who it is, and the relay that it is the host.
func TestCertificates(t *testing.T) {
	t.Parallel()
	one, other := authority(t), authority(t)
	us, elsewhere := one.issue(t, "127.0.0.1"), one.issue(t, "192.0.2.1")
	addr, _ := listening(t, Spec{Identity: us, Open: echo})
	c := dial(t, &Peer{Addr: addr, Identity: elsewhere}, "echo") // a client may be anywhere
	go c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	mixed := other.issue(t, "127.0.0.1")
	_, err := (&Peer{Addr: addr, Identity: mixed}).Dial(t.Context(), "echo")
	wants(t, err, tidemark.Denied, "certificate")
	mixed.CA = us.CA // it trusts the relay, which does not trust it
	_, err = (&Peer{Addr: addr, Identity: mixed}).Dial(t.Context(), "echo")
	wants(t, err, tidemark.Denied, "certificate")
	_, err = bySameSecret(addr).Dial(t.Context(), "echo")
	wants(t, err, tidemark.Denied, "")
	addr, _ = listening(t, Spec{Identity: elsewhere, Open: echo})
	_, err = (&Peer{Addr: addr, Identity: us}).Dial(t.Context(), "echo")
	wants(t, err, tidemark.Denied, "127.0.0.1")
	us.CA = us.Key
	wants(t, Listen(t.Context(), Spec{Identity: us}), tidemark.Invalid, "contains no certificate")
	us.CA = filepath.Join(t.TempDir(), "none")
	wants(t, Listen(t.Context(), Spec{Identity: us}), tidemark.NotFound, "")
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"relay:far": "far:7456", "relay://far": "far:7456", "relay:far:1": "far:1", "relay:[::1]": "[::1]:7456", "relay:[::1]:9": "[::1]:9", "relay:far?secret-file=a": "far:7456",
	} {
		if p, _, err := Parse(text); err != nil || p.Addr != want || Canonical(Canonical(text)) != Canonical(text) {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	for _, text := range []string{"relay:", "relay:me:pass@far:1", "relay:far/x", "relay:far:1?password=x", "relay:far:1?a=%zz", "relay:a b"} {
		if _, _, err := Parse(text); err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%s: %v", text, err)
		}
	}
	p, file, err := Parse("relay:far:1?ca=a&cert=b&key=c&secret-file=d")
	if err != nil || file != "d" || p.Identity != (Identity{CA: "a", Cert: "b", Key: "c"}) {
		t.Errorf("%+v %s %v", p, file, err)
	}
}

// A counter counts the bytes of a connection in both directions.
type counter struct {
	addr  string
	bytes atomic.Int64
}

func (c *counter) Write(b []byte) (int, error) {
	c.bytes.Add(int64(len(b)))
	return len(b), nil
}

func count(t *testing.T, to string) *counter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	out := &counter{addr: l.Addr().String()}
	go func() {
		a, err := l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", to)
		if err != nil {
			a.Close()
			return
		}
		for _, x := range [][2]net.Conn{{a, b}, {b, a}} {
			go func() { io.Copy(x[0], io.TeeReader(x[1], out)); x[0].Close() }()
		}
	}()
	return out
}

// A ca issues certificates.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func authority(t *testing.T) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	out := &ca{key: key, cert: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	der, err := x509.CreateCertificate(rand.Reader, out.cert, out.cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	out.file = written(t, "CERTIFICATE", der)
	return out
}

func (c *ca) issue(t *testing.T, ip string) Identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(ip)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, c.cert, &key.PublicKey, c.key)
	if err != nil {
		t.Fatal(err)
	}
	own, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Identity{CA: c.file, Cert: written(t, "CERTIFICATE", der), Key: written(t, "EC PRIVATE KEY", own)}
}

func written(t *testing.T, kind string, der []byte) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "*.pem")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := pem.Encode(f, &pem.Block{Type: kind, Bytes: der}); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}
