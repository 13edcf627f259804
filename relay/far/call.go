package far

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/load"
)

// A call is carried out at the relay. It continues if its connection breaks, unless it needs
// more from there.
type call struct {
	x        *session
	l        *lineEnd
	req      *request
	ctx      context.Context
	cancel   context.CancelFunc
	batches  chan *tidemark.Batch
	verdicts chan bool
	cut      chan struct{} // closed once nothing more comes from the connection
	cutOnce  sync.Once
	done     chan struct{} // closed once res is there
	res      result
}

func newCall(x *session, l *lineEnd, req *request) *call {
	c := &call{x: x, l: l, req: req, batches: make(chan *tidemark.Batch, windowSize/leastCost+1), verdicts: make(chan bool), cut: make(chan struct{}), done: make(chan struct{})}
	c.res.ID = req.ID
	c.ctx, c.cancel = context.WithCancel(x.ctx)
	return c
}

func (c *call) cutOff() { c.cutOnce.Do(func() { close(c.cut) }) }

// errCut ends what needs more from a connection that broke, or whose other side has no more.
var errCut = &tidemark.Error{Kind: tidemark.Transient, Op: "reach", Object: "relay", Err: errors.New("the link broke before all rows had arrived"), Hint: "Check the network."}

// put hands the call a batch; false means that there are more than the window allows. A call that
// has ended needs none.
func (c *call) put(b *tidemark.Batch) bool {
	select {
	case <-c.done:
		b.Release()
		return true
	default:
	}
	select {
	case c.batches <- b:
		return true
	default:
		b.Release()
		return false
	}
}

// nextBatch is the take of a Write.
func (c *call) nextBatch() (b *tidemark.Batch, err error) {
	select { // all that has arrived counts
	case b = <-c.batches:
	default:
		select {
		case b = <-c.batches:
		case <-c.cut:
			return nil, errCut
		case <-c.ctx.Done():
			return nil, c.ctx.Err()
		}
	}
	b.Range, b.Format = c.req.Write.Range, c.req.Write.Format
	if w := c.wire(); w != nil {
		_ = w.send(frameCredit, credit(cost(len(b.Data))), nil) // its reader notices if it is broken
	}
	return b, nil
}

// wire is the connection that the line has now; nil if none.
func (c *call) wire() *wire {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	return c.l.w
}

var errRefused = errors.New("the other side ends the range at this row")

// reject asks the other side whether a row may be skipped.
func (c *call) reject(row []byte, reason string) error {
	w := c.wire()
	if w == nil || w.sendValue(frameReject, reject{row, reason}) != nil {
		return errCut
	}
	select {
	case may := <-c.verdicts:
		if may {
			return nil
		}
		return errRefused // it knows why
	case <-c.cut:
		return errCut
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// run carries the call out.
func (c *call) run() {
	defer c.cancel()
	err := c.do(c.ctx)
	if err != nil && tidemark.KindOf(err) == tidemark.Cancelled {
		// Who has cancelled it does not wait for this. For others the relay ends.
		err = &tidemark.Error{Kind: tidemark.Transient, Op: "reach", Object: "relay", Err: errors.New("it has stopped"), Hint: "Start tidemark relay again."}
	}
	c.res.Err = faultOf(err)
	c.x.mu.Lock()
	c.res.Warnings, c.x.warnings = c.x.warnings, nil
	c.x.mu.Unlock()
	close(c.done)
	for {
		select {
		case b := <-c.batches:
			b.Release()
		default:
			return
		}
	}
}

// do calls the method of that name.
func (c *call) do(ctx context.Context) (err error) {
	req, res, db := c.req, &c.res, c.x.db
	switch req.Method {
	case "render":
		res.Objects, res.Findings = db.Render(req.DB, req.Moves)
	case "inspect":
		res.States, err = db.Inspect(ctx, req.Tables[0])
	case "tables":
		res.Tables, err = db.Tables(ctx, req.Tables[0])
	case "defined":
		res.DB, err = db.Defined(ctx, req.Tables[0])
	case "preflight":
		res.Findings, err = db.Preflight(ctx, req.Text, req.DB)
	case "access":
		res.Findings, err = db.Access(ctx, req.Tables[0], req.Tables[1], req.Tables[2])
	case "largest":
		var most int64
		most, res.Text, err = engines.LargestValue(ctx, db, req.Bytes)
		res.Number = uint64(most)
	case "look":
		res.Sight, err = db.Look(ctx, req.Lock)
	case "waits":
		if w, ok := db.(interface {
			Waits(context.Context) ([]tidemark.Finding, error)
		}); ok {
			res.Findings, err = w.Waits(ctx)
		}
	case "ping":
	case "round trip":
		if d, ok := db.(load.Pinger); ok {
			res.Took, err = d.RoundTrip(ctx)
		}
	case "exec":
		err = db.Exec(ctx, req.Lane, req.SQL[0])
	case "exec each":
		if p, ok := db.(load.Pipeliner); ok {
			p.ExecEach(ctx, req.Lane, req.SQL, func(object int, took time.Duration) {
				res.Made = append(res.Made, made{object, took})
			})
		}
	case "release":
		if r, ok := db.(load.Releaser); ok {
			r.Release(req.Lane)
		}
	case "write":
		if req.Rejects {
			req.Write.Reject = c.reject
		}
		res.Written, err = db.Write(ctx, req.Lane, *req.Write, c.nextBatch)
	case "begin":
		err = db.Begin(ctx, req.Run)
	case "marks":
		res.Marks, err = db.Marks(ctx, req.Run)
	case "forget":
		if req.Ranges == nil && !req.All {
			req.Ranges = []int{} // none, which gob does not tell from nil
		}
		err = db.Forget(ctx, req.Run, req.Ranges)
	case "clear":
		err = db.Clear(ctx, req.Tables[0], req.Drop)
	case "drop claim":
		err = db.DropClaim(ctx, req.Run)
	case "close":
	default:
		return c.claim(ctx)
	}
	return err
}

// claim calls a method of a claim, or begins one.
func (c *call) claim(ctx context.Context) (err error) {
	req, res, x := c.req, &c.res, c.x
	if req.Method == "claim" {
		claim, err := x.db.Claim(ctx, req.Run)
		if err != nil {
			return err
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.claims == nil { // the session has ended
			claim.Close()
			return context.Canceled
		}
		x.claimed++
		res.Number = x.claimed
		x.claims[res.Number] = claim
		return nil
	}
	x.mu.Lock()
	claim := x.claims[req.Claim]
	if req.Method == "claim close" {
		delete(x.claims, req.Claim)
	}
	x.mu.Unlock()
	if claim == nil {
		return fmt.Errorf("no method %q, or no claim %d", req.Method, req.Claim)
	}
	switch req.Method {
	case "claim take":
		var renewed int
		res.Others, renewed, err = claim.Take(ctx, req.Tables[0])
		res.Number = uint64(renewed)
	case "claim release":
		err = claim.Release(ctx, req.Run, req.Tables[0])
	case "claim drop":
		err = claim.Drop(ctx)
	case "claim close":
		claim.Close()
	default:
		return fmt.Errorf("no method %q", req.Method)
	}
	return err
}
