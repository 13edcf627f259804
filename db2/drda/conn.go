package drda

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Security is how the user and the password go to the server.
type Security uint16

const (
	// Encrypted sends both encrypted with a key that both ends agree on (SECMEC 9). The key has 56
	// bits and the server is not authenticated: it protects against passive listeners with little
	// time, no more. Plain within TLS is better.
	Encrypted Security = 9
	// Plain sends both as they are (SECMEC 3).
	Plain Security = 3
)

// A Config is what Connect needs.
type Config struct {
	Dial           func(ctx context.Context) (net.Conn, error) // TLS included
	Database       string
	User, Password string
	// Accept lists the ways to log in that may be used, the preferred first.
	Accept  []Security
	Program string // shown to the server's administrator
}

// A Conn is one conversation with a server: one session of a database. One goroutine uses it at a
// time. After an error that is neither an *Error nor a refusal, the Conn is Broken.
type Conn struct {
	Server  Server
	Broken  bool
	net     net.Conn
	in      *reader
	out     frames
	order   binary.ByteOrder // of numbers that the server sends
	single  page             // of text in single-byte columns
	mixed   page             // of text in mixed columns
	double  page             // of text in GRAPHIC columns
	unicode bool             // names are spelled in UTF-8, not in EBCDIC
	rdb     []byte           // the database's name, as requests have it

	sections int // of our package that are in use
}

// A Server is what a server says of itself.
type Server struct {
	Class   string // "QDB2/LINUXX8664", "Apache Derby Network Server"
	Release string // "SQL11055"
	Product string // of the database: "SQL12010"; Derby: "CSS10160"
}

// Derby reports whether the server is Apache Derby, a stand-in for tests.
func (s Server) Derby() bool {
	return strings.HasPrefix(s.Release, "CSS") || strings.HasPrefix(s.Product, "CSS")
}

// ErrRefused is in the chain of Connect's error if the server refused the user or the password. Its
// text says which of them, as far as the server tells.
var ErrRefused = errors.New("the server refused the login")

// ErrNoDatabase is in the chain of Connect's error if the server has no such database.
var ErrNoDatabase = errors.New("the server has no database of this name")

// ErrNoWay is in the chain of Connect's error if the server accepts no way to log in that the
// Config accepts. Its text lists those of the server.
var ErrNoWay = errors.New("no way to log in is accepted by both ends")

// Connect begins a conversation and logs in.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	raw, err := cfg.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &Conn{net: raw, in: newReader(raw), order: binary.BigEndian, single: pageNone, mixed: pageNone, double: pageUTF16}
	err = c.login(ctx, cfg)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the conversation. A transaction that is open is rolled back.
func (c *Conn) Close() error { return c.net.Close() }

// watch ends a wait for the server with ctx: the conversation is lost then. The caller calls done
// with the error of the wait, and returns what that returns.
func (c *Conn) watch(ctx context.Context) (done func(error) error) {
	if ctx.Err() != nil {
		c.net.SetDeadline(time.Unix(1, 0)) // nothing would end the wait: whatever is sent fails at once
		return func(error) error { return c.broken(context.Cause(ctx)) }
	}
	stop := crash.OnDone(ctx, func() { c.net.SetDeadline(time.Unix(1, 0)) })
	return func(err error) error {
		if stopped := !stop(); stopped && err != nil {
			return c.broken(context.Cause(ctx))
		}
		return err
	}
}

// broken notes that the conversation is over.
func (c *Conn) broken(err error) error {
	c.Broken = true
	c.net.Close()
	return err
}

// send sends the collected requests.
func (c *Conn) send() error {
	_, err := c.net.Write(c.out.out)
	c.out.reset()
	if err != nil {
		return c.broken(err)
	}
	c.in.start()
	return nil
}

// next returns the next object of the replies, 0 at their end.
func (c *Conn) next() (uint16, error) {
	code, err := c.in.next()
	if err != nil {
		return 0, c.broken(err)
	}
	return code, nil
}

// whole returns the current object.
func (c *Conn) whole() ([]byte, error) {
	b, err := c.in.all()
	if err != nil {
		return nil, c.broken(err)
	}
	return b, nil
}

// other handles an object of a reply that its reader does not expect: a refusal is an error; what
// only informs is none.
func (c *Conn) other(code uint16) error {
	if code == cpSQLCARD || code == cpSQLDARD {
		ca, err := c.card()
		if err != nil {
			return err
		}
		return ca.err()
	}
	body, err := c.whole()
	if err != nil {
		return err
	}
	if code == cpTYPDEFNAM || code == cpTYPDEFOVR {
		return c.typedef(code, body)
	}
	severity := 0
	if code < 0x2400 && code != cpRDBUPDRM {
		err = params(body, func(p uint16, v []byte) error {
			if p == cpSVRCOD && len(v) == 2 {
				severity = int(be.Uint16(v))
			}
			return nil
		})
		if err != nil {
			return c.broken(err)
		}
	}
	if severity < 8 {
		return nil
	}
	name := replyNames[code]
	if name == "" {
		name = fmt.Sprintf("%04X", code)
	}
	perr := &ProtocolError{Reply: name, Severity: severity}
	if severity >= 32 {
		return c.broken(perr)
	}
	return perr
}

// rest reads what remains of the replies. It returns the first error, but an error of SQL rather
// than the refusal that accompanies it.
func (c *Conn) rest(first error) error {
	for {
		code, err := c.next()
		if err != nil {
			return errorOf(first, err)
		}
		if code == 0 {
			return first
		}
		first = errorOf(first, c.other(code))
	}
}

// errorOf returns the error that says more.
func errorOf(first, second error) error {
	var refusal *ProtocolError
	var sql *Error
	if first == nil || errors.As(first, &refusal) && errors.As(second, &sql) {
		return second
	}
	return first
}

// typedef notes how the server sends data.
func (c *Conn) typedef(code uint16, body []byte) (err error) {
	if code == cpTYPDEFNAM {
		if c.order, err = order(c.name(body)); err != nil {
			return c.broken(err)
		}
		return nil
	}
	err = params(body, func(code uint16, v []byte) error {
		if len(v) != 2 {
			return errCut
		}
		p := pageOf(be.Uint16(v))
		switch code {
		case cpCCSIDSBC:
			c.single = p
		case cpCCSIDMBC:
			c.mixed = p
		case cpCCSIDDBC:
			c.double = p
		}
		return nil
	})
	if err != nil {
		return c.broken(err)
	}
	return nil
}

// name spells a name as text.
func (c *Conn) name(b []byte) string {
	if c.unicode {
		return string(b)
	}
	return ofEBCDIC(b)
}

// spell spells a name as requests have it.
func (c *Conn) spell(s string) ([]byte, error) {
	if c.unicode {
		return []byte(s), nil
	}
	return ebcdic(s)
}

// text spells text of the server in UTF-8, for messages.
func (c *Conn) text(b []byte) string {
	if c.single == pageLatin1 {
		return string(appendLatin1(nil, b))
	}
	return strings.ToValidUTF8(string(b), "?")
}
