package far

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
)

// What a frame is. A frame is this byte, the length of its body (4 bytes, big-endian), and the
// body.
const (
	frameAttach  = 'A' // attach, and the answer welcome
	frameCall    = 'C' // request
	frameBatch   = 'B' // flags, rows (4 bytes), data
	frameAbort   = 'E' // there are no more batches, because their source has failed
	frameVerdict = 'V' // to a frameReject: one byte, 1 if the row may be skipped
	frameCancel  = 'X' // the call is to end; nobody waits for its answer
	frameCredit  = 'W' // the engine has taken a batch: its cost (4 bytes)
	frameReject  = 'J' // reject
	frameResult  = 'R' // result
)

const (
	flagMore = 1 << iota // Batch.More
	flagLast             // Batch.Last
)

const (
	// batchHead is the length of what precedes the data of a batch.
	batchHead = 5
	// windowSize is how many bytes of batches may be on their way, or wait at the relay, for each
	// lane. 8 MB are 80 ms of 100 MB/s: the rows of one lane on a link of 1 Gbit/s and 80 ms. One
	// batch may always be there, however large.
	windowSize = 8 << 20
	// leastCost of a batch bounds how many there are.
	leastCost = 64 << 10
	// mostFrame is the largest body. Definitions of 100,000 tables take some 300 MB.
	mostFrame = 1 << 30
)

// cost is what a batch takes of the window.
func cost(n int) int { return min(max(n, leastCost), windowSize) }

// An attach is the first frame of a connection.
type attach struct {
	Session [16]byte
	New     bool            // the session begins; otherwise it must be there
	Line    uint64          // which of the session's connections this is, or continues
	Call    uint64          // the call whose answer is awaited; 0: none
	URL     string          // of the database, as the relay is to connect to it; with its password
	Engines engines.Options // without functions
}

// A welcome answers it.
type welcome struct {
	Err                    *fault
	Name, Default, Version string // of the Destination
	Known                  bool   // the call had arrived; its result follows
}

// A request is a call: what is unset is not of its method.
type request struct {
	ID      uint64 // numbers the calls of a line
	Method  string
	Lane    int
	Run     string
	DB      *tidemark.Database
	Moves   []tidemark.Move
	Tables  [3][]tidemark.TableID
	SQL     [][]string
	Ranges  []int
	All     bool // Ranges is nil, which means all
	Drop    bool
	Text    string
	Lock    engines.Lock
	Claim   uint64
	Write   *tidemark.Write // Reject is set if Rejects
	Rejects bool
	Bytes   bool
}

// A result answers it.
type result struct {
	ID       uint64
	Err      *fault
	DB       *tidemark.Database
	Objects  []tidemark.Object
	Findings []tidemark.Finding
	States   []tidemark.TableState
	Tables   []*tidemark.Table
	Marks    []tidemark.Mark
	Others   []tidemark.Claimant
	Made     []made
	Written  tidemark.Written
	Sight    engines.Sight
	Took     time.Duration
	Number   uint64
	Text     string
	Warnings []tidemark.Finding // of connections since the last result
}

// A made is an object that ExecEach has made.
type made struct {
	Object int
	Took   time.Duration
}

// A reject is a row that the target refuses.
type reject struct {
	Row    []byte
	Reason string
}

// A fault is an error on its way.
type fault struct {
	Op, Object, Text, Hint string
	Kind                   tidemark.Kind
	NoConnection           bool // it is a tidemark.ErrNoConnection
	SessionLost            bool // it is a tidemark.ErrSessionLost
}

func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Kind: tidemark.KindOf(err), Text: err.Error(), Hint: tidemark.HintOf(err),
		NoConnection: errors.Is(err, tidemark.ErrNoConnection), SessionLost: errors.Is(err, tidemark.ErrSessionLost)}
	if own, ok := err.(*tidemark.Error); ok { // not As: what is around it must not get lost
		f.Op, f.Object, f.Text = own.Op, own.Object, ""
		if own.Err != nil {
			f.Text = own.Err.Error()
		}
	}
	return f
}

func (f *fault) err() error {
	if f == nil {
		return nil
	}
	cause := errors.New(f.Text)
	if f.NoConnection {
		cause = &known{f.Text, tidemark.ErrNoConnection}
	}
	if f.SessionLost {
		cause = &known{f.Text, tidemark.ErrSessionLost}
	}
	if f.Text == "" {
		cause = nil
	}
	return &tidemark.Error{Op: f.Op, Object: f.Object, Kind: f.Kind, Hint: f.Hint, Err: cause}
}

// A known error is one that callers look for, with the text that it had.
type known struct {
	text string
	is   error
}

func (e *known) Error() string { return e.text }
func (e *known) Unwrap() error { return e.is }

// A wire is one connection. Frames may be sent by several goroutines, and are received by one.
type wire struct {
	conn net.Conn

	mu    sync.Mutex // of what follows
	out   []byte
	text  bytes.Buffer
	codec *gob.Encoder // one for all values, so that types are described once

	in    *bufio.Reader
	got   bytes.Buffer
	parse *gob.Decoder
}

func newWire(conn net.Conn) *wire {
	w := &wire{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	w.codec, w.parse = gob.NewEncoder(&w.text), gob.NewDecoder(&w.got)
	return w
}

// send sends a frame whose body is given in two parts.
func (w *wire) send(kind byte, head, body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(kind, head, body)
}

func (w *wire) write(kind byte, head, body []byte) error {
	w.out = append(w.out[:0], kind)
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(len(head)+len(body)))
	w.out = append(append(w.out, head...), body...) // one Write is one flush
	_, err := w.conn.Write(w.out)
	if cap(w.out) > 2*windowSize {
		w.out = nil
	}
	return err
}

// sendValue sends a frame with a value.
func (w *wire) sendValue(kind byte, v any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Reset()
	if err := w.codec.Encode(v); err != nil {
		return err
	}
	if w.text.Len() > mostFrame {
		return fmt.Errorf("a message of %d bytes is too large for a relay", w.text.Len())
	}
	return w.write(kind, nil, w.text.Bytes())
}

// head receives the head of the next frame, whose body of n bytes is next on w.in.
func (w *wire) head() (kind byte, n int, err error) {
	var b [5]byte
	if _, err := io.ReadFull(w.in, b[:]); err != nil {
		return 0, 0, err
	}
	size := binary.BigEndian.Uint32(b[1:])
	if size > mostFrame {
		return 0, 0, fmt.Errorf("a frame of %d bytes", size)
	}
	return b[0], int(size), nil
}

// value receives a body that is a value.
func (w *wire) value(n int, v any) error {
	w.got.Reset()
	if _, err := io.CopyN(&w.got, w.in, int64(n)); err != nil {
		return err
	}
	return w.parse.Decode(v)
}

// number receives a body that is one number.
func (w *wire) number(n int) (int, error) {
	var b [4]byte
	if n != len(b) {
		return 0, errFrame
	}
	_, err := io.ReadFull(w.in, b[:])
	return int(binary.BigEndian.Uint32(b[:])), err
}

var errFrame = errors.New("received something that is not of this protocol")

// sendBatch sends a batch; the caller keeps it.
func (w *wire) sendBatch(b *tidemark.Batch) error {
	var head [batchHead]byte
	if b.More {
		head[0] |= flagMore
	}
	if b.Last {
		head[0] |= flagLast
	}
	binary.BigEndian.PutUint32(head[1:], uint32(b.Rows))
	return w.send(frameBatch, head[:], b.Data)
}

// batch receives a body that is a batch.
func (w *wire) batch(n int) (*tidemark.Batch, error) {
	var head [batchHead]byte
	if n < batchHead {
		return nil, errFrame
	}
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return nil, err
	}
	b := tidemark.NewBatch(nil, 0)
	n -= batchHead
	if cap(b.Data) < n {
		b.Data = make([]byte, 0, n)
	}
	b.Data = b.Data[:n]
	if _, err := io.ReadFull(w.in, b.Data); err != nil {
		b.Release()
		return nil, err
	}
	b.More, b.Last, b.Rows = head[0]&flagMore != 0, head[0]&flagLast != 0, int(binary.BigEndian.Uint32(head[1:]))
	return b, nil
}
