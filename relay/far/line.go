package far

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

const (
	// graceTime is how long a session waits at the relay for a connection.
	graceTime = time.Minute
	// reconnectTime is how long a line tries to have one again, before it says that the link is
	// down.
	reconnectTime = 30 * time.Second
)

// A line is a succession of connections, on which one call runs at a time.
type line struct {
	d     *Database
	id    uint64
	calls uint64
	w     *wire // nil: not connected
}

// rows are the input of a Write.
type rows struct {
	take   func() (*tidemark.Batch, error)
	reject func(row []byte, reason string) error

	mu  sync.Mutex
	err error // the first of take or reject: it goes back to the caller unchanged
}

func (in *rows) fail(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil {
		in.err = err
	}
}

func (in *rows) failed() error {
	if in == nil {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

// call carries out a request. in is nil unless it is a Write.
func (l *line) call(ctx context.Context, req *request, in *rows) (*result, error) {
	l.calls++
	req.ID = l.calls
	if l.w == nil {
		if _, err := l.attach(ctx, 0); err != nil {
			return nil, err
		}
	}
	res, err := l.converse(ctx, req, in)
	for until := time.Now().Add(reconnectTime); err != nil; {
		l.close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := in.failed(); err != nil {
			return nil, err // the relay ends it, as its rows are not complete
		}
		cause := err
		got, err2 := l.attach(ctx, req.ID)
		switch {
		case err2 == nil && got.Known:
			res, err = l.answer(ctx, in)
		case err2 == nil && in == nil:
			res, err = l.converse(ctx, req, nil)
		case err2 == nil:
			return nil, l.d.cut(cause)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !passing(err2):
			return nil, err2
		case time.Now().After(until):
			return nil, l.d.cut(err2)
		default:
			if err := flow.Sleep(ctx, 200*time.Millisecond); err != nil {
				return nil, err
			}
		}
	}
	if err := in.failed(); err != nil {
		return nil, err
	}
	for _, f := range res.Warnings {
		l.d.warn(f)
	}
	return res, res.Err.err()
}

func passing(err error) bool {
	kind := tidemark.KindOf(err)
	return kind == tidemark.Unreachable || kind == tidemark.Transient
}

// attach connects. The relay's welcome says whether it knows that call.
func (l *line) attach(ctx context.Context, call uint64) (*welcome, error) {
	conn, err := l.d.opt.Dial(ctx, Want(l.d.opt.Program))
	if err != nil {
		return nil, err
	}
	w := newWire(conn)
	defer crash.OnDone(ctx, func() { conn.Close() })()
	hello := attach{Session: l.d.session, New: !l.d.open, Line: l.id, Call: call, URL: l.d.opt.URL, Engines: l.d.opt.Engines}
	got := &welcome{}
	err = w.sendValue(frameAttach, hello)
	if err == nil {
		var kind byte
		var n int
		if kind, n, err = w.head(); err == nil && kind != frameAttach {
			err = errFrame
		}
		if err == nil {
			err = w.value(n, got)
		}
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = l.d.cut(err)
	default:
		err = got.Err.err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	l.w = w
	return got, nil
}

// close ends the connection. What runs at its other end continues.
func (l *line) close() {
	if l.w != nil {
		l.w.conn.Close()
		l.w = nil
	}
}

// onCancel ends the call at the relay when ctx ends.
func (l *line) onCancel(ctx context.Context) (stop func() bool) {
	w := l.w
	return crash.OnDone(ctx, func() {
		_ = w.conn.SetDeadline(time.Now().Add(time.Second)) // for a link that is stuck
		_ = w.send(frameCancel, nil, nil)                   // if it is down, the session's end does it
		w.conn.Close()
	})
}

// converse sends a request with its rows, and returns the answer. An error means that the link
// broke.
func (l *line) converse(ctx context.Context, req *request, in *rows) (*result, error) {
	defer l.onCancel(ctx)()
	if err := l.w.sendValue(frameCall, req); err != nil {
		return nil, err
	}
	if in == nil {
		return l.receive(nil, nil)
	}
	var res *result
	var err error
	ended := make(chan struct{})
	room := &window{left: windowSize, more: make(chan struct{}, 1)}
	crash.Go(func() {
		defer close(ended)
		res, err = l.receive(in, room)
	})
	sent := l.sendRows(in, room, ended)
	if sent != nil {
		l.w.conn.Close() // so that receive ends
	}
	<-ended
	if err == nil {
		return res, nil // what was sent does not matter any more
	}
	return nil, errors.Join(err, sent)
}

// answer waits for the answer to a call that the relay has.
func (l *line) answer(ctx context.Context, in *rows) (*result, error) {
	defer l.onCancel(ctx)()
	return l.receive(in, nil)
}

// sendRows sends batches until the last, or until the call has ended.
func (l *line) sendRows(in *rows, room *window, ended <-chan struct{}) error {
	for last := false; !last; {
		select {
		case <-ended:
			return nil
		default:
		}
		b, err := in.take()
		if err != nil {
			in.fail(err)
			return l.w.send(frameAbort, nil, nil)
		}
		if !room.acquire(cost(len(b.Data)), ended) {
			b.Release()
			return nil
		}
		last = b.Last
		err = l.w.sendBatch(b)
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// receive handles what comes, up to the answer.
func (l *line) receive(in *rows, room *window) (*result, error) {
	for {
		kind, n, err := l.w.head()
		if err != nil {
			return nil, err
		}
		switch {
		case kind == frameCredit:
			n, err := l.w.number(n)
			if err != nil {
				return nil, err
			}
			if room != nil {
				room.grant(n)
			}
		case kind == frameReject && in != nil && in.reject != nil:
			var row reject
			if err := l.w.value(n, &row); err != nil {
				return nil, err
			}
			verdict := []byte{1}
			if err := in.reject(row.Row, row.Reason); err != nil {
				in.fail(err)
				verdict[0] = 0
			}
			if err := l.w.send(frameVerdict, verdict, nil); err != nil {
				return nil, err
			}
		case kind == frameResult:
			res := &result{}
			return res, l.w.value(n, res)
		default:
			return nil, errFrame
		}
	}
}

// A window is how many bytes may still be sent.
type window struct {
	mu   sync.Mutex
	left int
	more chan struct{}
}

func (w *window) grant(n int) {
	w.mu.Lock()
	w.left += n
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// acquire waits for room; false means that the call has ended.
func (w *window) acquire(n int, ended <-chan struct{}) bool {
	for {
		w.mu.Lock()
		has := w.left >= n
		if has {
			w.left -= n
		}
		w.mu.Unlock()
		if has {
			return true
		}
		select {
		case <-w.more:
		case <-ended:
			return false
		}
	}
}

// credit is the body of a frameCredit.
func credit(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
