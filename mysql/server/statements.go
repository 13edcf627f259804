package server

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// Client is go-mysql's client on a connection that login has opened. The client sees
// a server that greets it with what was agreed and lets it in without a password, so that
// it has no secret to give away; and its answers through a guard, since it takes a
// server's word for sizes, and indexes into packets that may be empty. What still makes it
// panic is a malformed answer.
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

// malformed makes an error of what the client says of an answer that it cannot read.
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

// An introduced connection plays a login to the client, and then is the server's.
type introduced struct {
	net.Conn
	greeting []byte // what the client has not read of the login
	answered bool   // it has sent its answer, which nobody needs
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

// The guard's limits: of columns (MySQL and MariaDB have at most 4096), and of what a
// result may hold that is kept in memory: the catalogues of some ten thousand tables.
const (
	maxResultColumns = 1 << 13
	maxResult        = 1 << 29
	maxValues        = 1 << 24
)

// A guard looks at the answers of a server as they pass, without keeping them: at the
// heads of packets and their first bytes. It ends what would make the client allocate
// without bound.
type guard struct {
	head   [4 + 9]byte // of the packet, and the first bytes of its payload
	have   int         // of these
	left   int         // bytes of the packet's payload that have not passed
	joined bool        // the packet goes on one of 2^24-1 bytes
	passed int64       // bytes of the answer
	values int64       // of its rows

	state   guardState
	columns int64
	due     int64 // definitions of columns that are yet to come, and the EOF after them
}

type guardState uint8

const (
	atHead guardState = iota // an answer, or that to the next statement, begins
	atColumns
	atRows
)

// pass looks at what was read.
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

// size is that of the packet's payload.
func (g *guard) size() int { return int(g.head[0]) | int(g.head[1])<<8 | int(g.head[2])<<16 }

// packet looks at the beginning of a packet.
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
		if g.values += g.columns; g.values > maxValues {
			return fmt.Errorf("the answer to a statement has more than %d values: %w", maxValues, ErrMalformed)
		}
	}
	return nil
}

// manyAtOnce is how many statements travel together.
const manyAtOnce = 100

// RunMany runs statements that give one result each, several in one round trip.
// row gets a statement's number and result, or its error.
func RunMany(c *Client, statements []string, row func(i int, r *gomysql.Result, err error)) error {
	if err := multiStatements(c, true); err != nil {
		return err
	}
	for done := 0; done < len(statements); {
		batch := statements[done:min(done+manyAtOnce, len(statements))]
		_, err := c.ExecuteMultiple(strings.Join(batch, ";"), func(r *gomysql.Result, err error) {
			row(done, r, err)
			if r != nil {
				r.Close()
			}
			done++ // what follows a failed one was not run, and comes with the next batch
		})
		if err != nil {
			return err
		}
	}
	return multiStatements(c, false)
}

// multiStatements is the protocol's COM_SET_OPTION; without it a server takes
// one statement at a time.
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
