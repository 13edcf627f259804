package load

import (
	"context"
	"errors"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// maxAhead is how many objects are sent ahead of their answers. After a kill a server may still
// build that many.
const maxAhead = 32

// makeEach creates objects, and calls done for each with its error and the time it took. An error
// of done ends it. Several are pipelined if the target supports it; an object that then fails, or
// gets no answer, is tried once more on its own.
func (r *Run) makeEach(ctx context.Context, lane int, objects []*tidemark.Object, patient bool, done func(i int, err error, took time.Duration) error) error {
	made := make([]bool, len(objects))
	if len(objects) > 1 {
		var err error
		r.inPipeline(ctx, lane, objects, func(i int, took time.Duration) {
			made[i] = true
			if err == nil {
				err = done(i, nil, took)
			}
		})
		if err != nil {
			return err
		}
	}
	var none error // no connection is left: the others would not get one either
	for i, o := range objects {
		if made[i] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		began, err := time.Now(), none
		if none == nil {
			err = r.exec(ctx, lane, o, patient)
		}
		if !patient && errors.Is(err, tidemark.ErrNoConnection) {
			none = err
		}
		if err := done(i, err, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// inPipeline creates objects in their order, if the target supports that, without waiting for one
// before the next is sent. made is called for those that were created.
func (r *Run) inPipeline(ctx context.Context, lane int, objects []*tidemark.Object, made func(i int, took time.Duration)) {
	p, ok := r.tgt.(Pipeliner)
	if !ok || len(objects) == 0 {
		return
	}
	sql := make([][]string, len(objects))
	for i, o := range objects {
		sql[i] = o.SQL
	}
	p.ExecEach(ctx, lane, sql, made)
}

// exec creates one object. One that exists is kept: after a crash it is ours, and otherwise the
// plan has reported that the target is not empty. patient means that it waits if the server has no
// connection left.
func (r *Run) exec(ctx context.Context, lane int, o *tidemark.Object, patient bool) error {
	var failing outage
	for attempt := 0; ; attempt++ {
		err := r.tgt.Exec(ctx, lane, o.SQL)
		switch kind := tidemark.KindOf(err); {
		case err == nil || kind == tidemark.Exists:
			return nil
		case passing(err) && (patient || !errors.Is(err, tidemark.ErrNoConnection)) && failing.left(r.opt.RetryFor) > 0:
			if errors.Is(err, tidemark.ErrNoConnection) {
				r.shortOf(err)
			}
			r.sink.Retry(o.ID, err, failing.left(r.opt.RetryFor))
			if err := flow.Sleep(ctx, backoff(attempt)); err != nil {
				return err
			}
		default:
			return &tidemark.Error{Op: "create", Object: o.ID, Kind: kind, Err: err}
		}
	}
}

// errOneLess means that a finisher has given up, since its server has no connection left for it.
var errOneLess = errors.New("a finisher gives up")

// finisher creates what the rows need, and then builds objects as their tables become full.
func (r *Run) finisher(lane int, d *defining) func(context.Context, *flow.Clock) error {
	return func(ctx context.Context, c *flow.Clock) error {
		if err := d.work(ctx, c, lane, lane == r.opt.LaneCount()); err != nil {
			return err
		}
		light := lane >= r.opt.LaneCount()+r.opt.Finishers
		f := &finishing{run: r, lane: lane, patient: r.feed != nil && !light, light: light}
		for {
			some, more, err := r.board.nextObjects(ctx, c, f.light, lane > r.opt.LaneCount(), maxAhead)
			if more { // the rows may need its session
				if r.release(lane); f.light {
					return nil
				}
				some, _, err = r.board.nextObjects(ctx, c, false, false, maxAhead)
			}
			if err != nil || len(some) == 0 {
				return err
			}
			if err := f.build(ctx, c, some); err == errOneLess {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
}

// A finishing is the state of a running finisher.
type finishing struct {
	run     *Run
	lane    int
	patient bool // it waits if the server has no connection left
	light   bool // it builds small objects, and is one of many
}

func (f *finishing) build(ctx context.Context, c *flow.Clock, some []*work) error {
	r := f.run
	objects := make([]*tidemark.Object, len(some))
	for i, w := range some {
		objects[i] = w.Object
	}
	var left []*work // for the next round
	var why error
	was := c.Enter(flow.IO)
	err := r.makeEach(ctx, f.lane, objects, f.patient, func(i int, err error, took time.Duration) error {
		w := some[i]
		if ctx.Err() != nil {
			return ctx.Err() // not the object's fault
		}
		if !f.patient && errors.Is(err, tidemark.ErrNoConnection) {
			left, why = append(left, w), err
			return nil
		}
		if passing(err) || tidemark.KindOf(err) == tidemark.Full || errors.Is(err, tidemark.ErrSessionLost) {
			r.board.stop(err) // nothing after it would succeed either; resume once the cause is repaired
			return err
		}
		c.Count(1, w.Bytes, 0)
		r.board.objectDone(w, err, took)
		r.sink.ObjectDone(w.Object, err, took)
		return nil
	})
	c.Enter(was)
	if err != nil || len(left) == 0 {
		return err
	}
	for _, w := range left {
		r.board.putBack(w)
	}
	if f.light || r.giveUpFinisher(why) {
		return errOneLess
	}
	f.lane, f.patient = r.opt.LaneCount(), true // the first finisher's session, which created the tables
	return r.board.allRows(ctx, c)
}
