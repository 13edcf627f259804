package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Limits on the answer to one statement that is kept in memory. Rows that are copied or streamed
// bypass them. A row counts as one value per column, plus one.
const (
	maxAnswer = 2 * maxMessage
	maxValues = 1 << 25
	maxLogin  = 1 << 20 // bytes before the server is ready for the first time
)

// A guard counts what the server sends in answer to our last message, without keeping it, and fails
// when that exceeds the limits.
type guard struct {
	r io.Reader
	w io.Writer

	head   [7]byte // of the message: kind, length and the number of columns
	have   int     // bytes of head so far
	left   int64   // bytes of the message still to come
	passed int64   // bytes of the answer so far
	values int64   // values in its rows
	ready  bool    // the server has accepted the login
}

// guardedFrontend is pgconn's frontend behind a guard.
func guardedFrontend(r io.Reader, w io.Writer) *pgproto3.Frontend {
	g := &guard{r: r, w: w}
	return pgproto3.NewFrontend(g, g)
}

// Write starts a new answer.
func (g *guard) Write(p []byte) (int, error) {
	if g.ready {
		g.passed, g.values = 0, 0
	}
	return g.w.Write(p)
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if wrong := g.pass(p[:n]); wrong != nil {
		return 0, wrong
	}
	return n, err
}

var ErrEndless = errors.New("the server says too much")

// pass counts what was read.
func (g *guard) pass(p []byte) error {
	g.passed += int64(len(p))
	if !g.ready && g.passed > maxLogin {
		return fmt.Errorf("%w: more than %d bytes in answer to a login", ErrEndless, maxLogin)
	}
	for len(p) > 0 {
		if g.left == 0 && g.have < 5 {
			n := copy(g.head[g.have:5], p)
			g.have, p = g.have+n, p[n:]
			if g.have < 5 {
				return nil
			}
			g.left = int64(int32(binary.BigEndian.Uint32(g.head[1:]))) - 4
			if g.left < 0 || g.left > maxMessage || !g.ready && g.left > maxLogin {
				return fmt.Errorf("malformed message %q of length %d", g.head[0], g.left)
			}
		}
		n := int(min(g.left, int64(len(p))))
		if g.have < 7 {
			g.have += copy(g.head[g.have:], p[:n])
		}
		g.left, p = g.left-int64(n), p[n:]
		if g.left > 0 {
			continue
		}
		if err := g.message(); err != nil {
			return err
		}
	}
	if g.passed > maxAnswer {
		return fmt.Errorf("%w: more than %d bytes in answer to a statement", ErrEndless, int64(maxAnswer))
	}
	return nil
}

// message counts a message that has been read completely.
func (g *guard) message() error {
	switch g.head[0] {
	case 'Z':
		g.ready = true
	case 'D':
		g.values++
		if g.have == 7 {
			g.values += int64(binary.BigEndian.Uint16(g.head[5:]))
		}
		if g.values > maxValues {
			return fmt.Errorf("%w: more than %d values in answer to a statement", ErrEndless, maxValues)
		}
	}
	g.have, g.left = 0, 0
	return nil
}
