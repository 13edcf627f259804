package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// DefaultPort is where a relay listens.
const DefaultPort = "7456"

const (
	// greetTime is how long connecting, TLS and hello may take.
	greetTime = 10 * time.Second
	// quietTime is how long a dead host goes unnoticed: the kernel asks it after a while.
	quietTime = 15 * time.Second
)

// A Peer is a relay that we connect to.
type Peer struct {
	Addr     string // host:port
	Identity Identity
	Program  string // our version of tidemark, for the relay's messages

	once sync.Once
	tls  *tls.Config
	err  error
}

const scheme = "relay"

// Is reports whether a text looks like the address of a relay.
func Is(text string) bool { return strings.HasPrefix(text, scheme+":") }

// Canonical returns an address in the one form in which it is stored: relay:HOST is
// relay://HOST:7456.
func Canonical(text string) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(text, scheme+":"), "//")
	host, query, has := strings.Cut(rest, "?")
	if host = withPort(host); has {
		host += "?" + query
	}
	return scheme + "://" + host
}

// Parse reads an address, relay:HOST:PORT, after which files may follow: ?ca=, cert= and key= for
// certificates, or secret-file= for a shared secret, which the caller reads into the Identity.
func Parse(text string) (p *Peer, secretFile string, err error) {
	rest, query, _ := strings.Cut(strings.TrimPrefix(Canonical(text), scheme+"://"), "?")
	host, port, err := net.SplitHostPort(rest)
	if err != nil || host == "" || port == "" || strings.ContainsAny(rest, "/@ ") {
		return nil, "", errors.New("must be relay:HOST:PORT, the address of a tidemark relay")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, "", errors.New("the part after ? is not of the form name=value&name=value")
	}
	p = &Peer{Addr: rest}
	for name, v := range values {
		to, ok := map[string]*string{"secret-file": &secretFile, "ca": &p.Identity.CA, "cert": &p.Identity.Cert, "key": &p.Identity.Key}[name]
		if !ok {
			return nil, "", errors.New("after ? it takes secret-file, or ca, cert and key")
		}
		*to = v[0]
	}
	return p, secretFile, nil
}

// withPort adds the default port if there is none.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return net.JoinHostPort(strings.Trim(addr, "[]"), DefaultPort)
	}
	return addr
}

func (p *Peer) String() string { return "relay " + p.Addr }

// Dial begins a conversation. Kinds of errors: Unreachable, also if something else answers; Denied:
// secrets or certificates differ; Unsupported: another version; and those with which the relay has
// refused.
func (p *Peer) Dial(ctx context.Context, want string) (net.Conn, error) {
	p.once.Do(func() {
		host, _, _ := net.SplitHostPort(p.Addr)
		p.tls, p.err = p.Identity.config(host)
	})
	if p.err != nil {
		return nil, p.err
	}
	asked, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	c, err := p.greet(asked, want)
	var own *tidemark.Error
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case overdue(ctx):
		return nil, context.DeadlineExceeded
	case errors.As(err, &own):
		own.Object = p.String()
		return nil, own
	}
	return nil, p.explain(err)
}

// overdue reports whether a context's deadline has passed. Err says so a moment later than the
// connections that have the same deadline.
func overdue(ctx context.Context) bool {
	end, has := ctx.Deadline()
	return has && !time.Now().Before(end)
}

func (p *Peer) greet(ctx context.Context, want string) (net.Conn, error) {
	plain, err := (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext(ctx, "tcp", p.Addr)
	if err != nil {
		return nil, err
	}
	stop := crash.OnDone(ctx, func() { plain.Close() })
	defer stop()
	c, err := p.talk(ctx, plain, want)
	if err != nil || !stop() { // closed, or about to be
		plain.Close()
		return nil, errors.Join(err, ctx.Err())
	}
	return c, nil
}

func (p *Peer) talk(ctx context.Context, plain net.Conn, want string) (net.Conn, error) {
	c := tls.Client(plain, p.tls)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if err := writeGreeting(c, hello{Relay: version, Program: p.Program, Want: want}); err != nil {
		return nil, err
	}
	var a answer
	switch err := readGreeting(c, &a); {
	case err != nil:
		return nil, err
	case a.Relay != version:
		return nil, otherVersion(a.Relay, a.Program)
	case a.Refused != "":
		return nil, &tidemark.Error{Kind: a.Kind, Op: "connect", Hint: a.Hint, Err: errors.New(a.Refused)}
	}
	return pack(c)
}

// keepAlive finds hosts that have disappeared.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: quietTime / 3, Interval: quietTime / 3, Count: 2}

// explain tells why there is no connection.
func (p *Peer) explain(err error) error {
	out := &tidemark.Error{Kind: tidemark.Unreachable, Op: "connect", Object: p.String(), Err: err, Hint: "Start tidemark relay on that host, and let its port through the firewalls."}
	var call *net.OpError
	var dns *net.DNSError
	var sys *os.SyscallError
	var record tls.RecordHeaderError
	var proof *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errStranger):
		out.Kind, out.Err, out.Hint = tidemark.Denied, errStranger, "Give both sides the same secret, in a file or in TIDEMARK_RELAY_SECRET."
	case errors.As(err, &proof), errors.As(err, &call) && call.Op == "remote error": // an alert of TLS
		out.Kind, out.Hint = tidemark.Denied, "Give both sides the same shared secret, or certificates of one CA; the relay's must be for its host's name."
	case errors.As(err, &record), errors.Is(err, errGreeting):
		out.Err, out.Hint = errors.New("what answers there is not a relay"), "Name the host and port of tidemark relay, as it has printed them."
	case errors.As(err, &dns) && dns.IsNotFound:
		out.Err, out.Hint = fmt.Errorf("no such host: %s", dns.Name), "Check the host name."
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		out.Err = errors.New("it does not answer")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		out.Err = errors.New("it closed the connection")
	case errors.As(err, &sys):
		out.Err = sys.Err
	case errors.As(err, &call):
		out.Err = call.Err
	}
	return out
}
