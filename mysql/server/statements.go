package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// Client is go-mysql's client on a connection that login has opened. The client sees a server that
// greets it with the agreed capabilities and accepts it without a password, so it has no secret to
// reveal. It reads answers through a guard, because it trusts the sizes that a server sends and
// indexes into packets that may be empty. An answer that still makes it panic is reported as
// malformed.
type Client struct{ *client.Conn }

func newStatements(l *login) (*Client, error) {
	g := l.server
	g.capability = l.agreed &^ (gomysql.CLIENT_SSL | gomysql.CLIENT_CONNECT_WITH_DB)
	g.mariadb, g.plugin = 0, gomysql.AUTH_NATIVE_PASSWORD
	in := &introduced{Conn: l.packets.conn, greeting: appendPacket(nil, 0, g.append(nil))}
	dial := func(context.Context, string, string) (net.Conn, error) { return in, nil }
	c, err := client.ConnectWithDialer(context.Background(), "tcp", "", "", "", "", dial, func(c *client.Conn) error {
		c.UnsetCapability(gomysql.CLIENT_DEPRECATE_EOF)
		c.UnsetCapability(gomysql.CLIENT_QUERY_ATTRIBUTES)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// malformed turns the client's panic over an unreadable answer into an error.
func malformed(err *error) {
	if recover() != nil {
		*err = ErrMalformed
	}
}

func (s *Client) Execute(sql string) (r *gomysql.Result, err error) {
	defer malformed(&err)
	return s.Conn.Execute(sql)
}

func (s *Client) ExecuteMultiple(sql string, each client.ExecPerResultCallback) (r *gomysql.Result, err error) {
	defer malformed(&err)
	return s.Conn.ExecuteMultiple(sql, each)
}

func (s *Client) Ping() (err error) {
	defer malformed(&err)
	return s.Conn.Ping()
}

// FieldList asks for a table's columns; the guard takes the first one for the head of a result, and
// stops an answer that does not end, as it does any other.
func (s *Client) FieldList(table, like string) (f []*gomysql.Field, err error) {
	defer malformed(&err)
	return s.Conn.FieldList(table, like)
}

// An introduced connection simulates a login for the client, then passes through to the server.
type introduced struct {
	net.Conn
	greeting []byte // the part of the simulated login that the client has not read
	answered bool   // the client has sent its login answer, which is discarded
	guard    guard
}

func (c *introduced) Read(p []byte) (int, error) {
	if len(c.greeting) > 0 {
		n := copy(p, c.greeting)
		c.greeting = c.greeting[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if wrong := c.guard.pass(p[:n]); wrong != nil {
		return 0, wrong
	}
	return n, err
}

func (c *introduced) Write(p []byte) (int, error) {
	if !c.answered {
		c.answered = true
		c.greeting = appendPacket(c.greeting, p[3]+1, []byte{PacketOK, 0, 0, 2, 0, 0, 0})
		return len(p), nil
	}
	c.guard = guard{}
	return c.Conn.Write(p)
}

// The guard's limits: of columns (MySQL and MariaDB have at most 4096), and of a result kept in
// memory: the catalogues of some ten thousand tables. More is kept of a row than its bytes.
const (
	maxResultColumns = 1 << 13
	maxResult        = 1 << 29 // bytes, and half of that in more than fewRows
	fewRows          = 1000
	maxKept          = 1 << 30
	rowKept          = 96 // bytes of memory for each row
	valueKept        = 48 // and for each of its values
)

// A guard inspects a server's answers as they pass, without keeping them: packet headers and the
// first bytes of payloads. It stops answers that would make the client allocate without bound.
type guard struct {
	head   [4 + 9]byte // packet header and the first bytes of its payload
	have   int         // bytes of head received
	left   int         // bytes of the packet's payload still to come
	joined bool        // the packet continues one of 2^24-1 bytes
	passed int64       // bytes of the answer so far
	kept   int64       // memory for its rows, besides their bytes
	rows   int64       // their number

	state   guardState
	columns int64
	due     int64 // column definitions still to come, and the EOF after them
}

type guardState uint8

const (
	atHead guardState = iota // the next packet begins an answer, also that to the next statement
	atColumns
	atRows
)

// pass inspects the bytes just read.
func (g *guard) pass(p []byte) error {
	if g.passed += int64(len(p)); g.passed > maxResult {
		return fmt.Errorf("the answer to a statement has more than %d bytes: %w", maxResult, ErrMalformed)
	}
	for len(p) > 0 {
		want := 4
		if g.have >= 4 {
			want = 4 + min(g.size(), 9)
		}
		if g.have < want {
			n := copy(g.head[g.have:want], p)
			g.have, p = g.have+n, p[n:]
			if g.have == 4 {
				g.left = g.size()
			} else {
				g.left -= n
			}
			if g.have < 4 || g.have < 4+min(g.size(), 9) {
				continue
			}
			if err := g.packet(); err != nil {
				return err
			}
		}
		n := min(g.left, len(p))
		g.left, p = g.left-n, p[n:]
		if g.left == 0 {
			g.joined, g.have = g.size() == MaxPayload, 0
		}
	}
	return nil
}

// size returns the length of the packet's payload.
func (g *guard) size() int { return int(g.head[0]) | int(g.head[1])<<8 | int(g.head[2])<<16 }

// packet inspects the beginning of a packet.
func (g *guard) packet() error {
	size := g.size()
	if g.joined {
		return nil
	}
	if size == 0 {
		return ErrMalformed
	}
	first := g.head[4]
	switch end := first == PacketErr || first == PacketEOF && size < 9; g.state {
	case atHead:
		if end || first == PacketOK || first == packetInfile {
			return nil
		}
		n, length := LenencInt(g.head[4 : 4+min(size, 9)])
		if length == 0 || n > maxResultColumns {
			return fmt.Errorf("a result of %d columns: %w", n, ErrMalformed)
		}
		g.state, g.columns, g.due = atColumns, int64(n), int64(n)+1
	case atColumns:
		switch g.due--; {
		case first == PacketErr:
			g.state = atHead
		case g.due == 0:
			g.state = atRows
		}
	case atRows:
		if end {
			g.state = atHead
			return nil
		}
		g.rows++
		if g.kept += rowKept + valueKept*g.columns; g.kept > maxKept || g.rows > fewRows && g.passed > maxResult/2 {
			return fmt.Errorf("the answer to a statement has too many rows, and does not end: %w", ErrMalformed)
		}
	}
	return nil
}

// manyAtOnce is the number of statements per round trip.
const manyAtOnce = 100

// RunMany runs statements that return one result each, several per round trip. row receives a
// statement's index and result, or its error.
func RunMany(c *Client, statements []string, row func(i int, r *gomysql.Result, err error)) error {
	var my *gomysql.MyError
	if err := multiStatements(c, true); errors.As(err, &my) { // a proxy that takes one at a time
		for i, sql := range statements {
			r, err := c.Execute(sql)
			if err != nil && !errors.As(err, &my) {
				return err
			}
			row(i, r, err)
			if r != nil {
				r.Close()
			}
		}
		return nil
	} else if err != nil {
		return err
	}
	for done := 0; done < len(statements); {
		batch := statements[done:min(done+manyAtOnce, len(statements))]
		_, err := c.ExecuteMultiple(strings.Join(batch, ";"), func(r *gomysql.Result, err error) {
			row(done, r, err)
			if r != nil {
				r.Close()
			}
			done++ // statements after a failed one did not run; the next batch has them
		})
		if err != nil {
			return err
		}
	}
	return multiStatements(c, false)
}

// RunMany runs statements as the function does. When ctx ends, the one that runs is killed on the
// server, and the session is closed; after an error of the connection it is not used again either.
func (s *Session) RunMany(ctx context.Context, statements []string, row func(i int, r *gomysql.Result, err error)) error {
	stop := s.Watch(ctx)
	err := RunMany(s.Client, statements, row)
	if !stop() {
		s.Dead = true
		s.Server.Kill(s.ID)
		return context.Cause(ctx)
	}
	s.Dead = s.Dead || err != nil
	return err
}

// multiStatements sends COM_SET_OPTION; without it a server accepts one statement at a time.
func multiStatements(c *Client, on bool) error {
	option := byte(1)
	if on {
		option = 0
	}
	c.ResetSequence()
	if err := c.WritePacket([]byte{0, 0, 0, 0, gomysql.COM_SET_OPTION, option, 0}); err != nil {
		return err
	}
	answer, err := c.ReadPacket()
	if err == nil && len(answer) > 0 && answer[0] == gomysql.ERR_HEADER {
		return c.HandleErrorPacket(answer)
	}
	return err
}
