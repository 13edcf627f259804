package load

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// maxAhead is how many objects are sent ahead of their answers. After a kill a server may still
// build that many.
const maxAhead = 32

// before creates what the rows need, in order. Objects that do not need each other are shared
// between the lanes.
func (r *Run) before(ctx context.Context, lanes []int, objects []tidemark.Object, built map[string]bool) error {
	var some []*tidemark.Object
	for i := range objects {
		o := &objects[i]
		if o.Phase != tidemark.BeforeRows || built[o.ID] || r.isOut(o) {
			continue
		}
		if len(some) == maxAhead*len(lanes) || slices.ContainsFunc(some, func(b *tidemark.Object) bool { return needs(o, b) }) {
			if err := r.makeBefore(ctx, lanes, some); err != nil {
				return err
			}
			if some = some[:0]; r.isOut(o) {
				continue
			}
		}
		some = append(some, o)
	}
	return r.makeBefore(ctx, lanes, some)
}

// needs reports whether o has to wait for b.
func needs(o, b *tidemark.Object) bool {
	return o.Table == b.Table && o.Table != tidemark.TableID{} || slices.Contains(o.Depends, b.ID) || slices.Contains(o.After, b.ID)
}

// leastShare is how many objects are worth another session.
const leastShare = 8

func (r *Run) makeBefore(ctx context.Context, lanes []int, some []*tidemark.Object) error {
	share := max(leastShare, (len(some)+len(lanes)-1)/len(lanes))
	var mu sync.Mutex
	var left []*tidemark.Object // their lane got no connection
	errs := make([]error, len(lanes))
	var parts crash.Group
	for i, lane := range lanes {
		part := some[min(i*share, len(some)):min((i+1)*share, len(some))]
		parts.Go(func() {
			errs[i] = r.makeEach(ctx, lane, part, i == 0, func(n int, err error, took time.Duration) error {
				if i > 0 && errors.Is(err, tidemark.ErrNoConnection) {
					mu.Lock()
					defer mu.Unlock()
					left = append(left, part[n])
					return nil
				}
				return r.madeBefore(ctx, part[n], err, took)
			})
		})
	}
	parts.Wait()
	if err := cmp.Or(errs...); err != nil {
		return err
	}
	return r.makeEach(ctx, lanes[0], left, true, func(n int, err error, took time.Duration) error {
		return r.madeBefore(ctx, left[n], err, took)
	})
}

func (r *Run) madeBefore(ctx context.Context, o *tidemark.Object, err error, took time.Duration) error {
	r.sink.ObjectDone(o, err, took)
	if err != nil && r.feed == nil && r.rejects(ctx, err) {
		r.rejectMade(o, err)
		err = nil
	}
	return err
}

// makeEach creates objects, and calls done for each with its error and the time it took. An error
// of done ends it. Several are pipelined if the target supports it; an object that then fails, or
// gets no answer, is tried once more on its own.
func (r *Run) makeEach(ctx context.Context, lane int, objects []*tidemark.Object, patient bool, done func(i int, err error, took time.Duration) error) error {
	made := make([]bool, len(objects))
	if p, ok := r.tgt.(Pipeliner); ok && len(objects) > 1 {
		var err error
		sql := make([][]string, len(objects))
		for i, o := range objects {
			sql[i] = o.SQL
		}
		p.ExecEach(ctx, lane, sql, func(i int, took time.Duration) {
			made[i] = true
			if err == nil {
				err = done(i, nil, took)
			}
		})
		if err != nil {
			return err
		}
	}
	for i, o := range objects {
		if made[i] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		err := r.exec(ctx, lane, o, patient)
		if err := done(i, err, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
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

// finisher builds objects as their tables become full.
func (r *Run) finisher(lane int) func(context.Context, *flow.Clock) error {
	return func(ctx context.Context, c *flow.Clock) error {
		f := &finishing{run: r, lane: lane, patient: r.feed != nil}
		for {
			some, err := r.board.nextObjects(ctx, c, r.opt.Finishers, maxAhead)
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
		if kind := tidemark.KindOf(err); err != nil && (kind == tidemark.Full || kind == tidemark.Unreachable || kind == tidemark.Transient) {
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
	if r.giveUpFinisher(why) {
		return errOneLess
	}
	f.lane, f.patient = 0, true // it has created the tables, and the rows no longer need its session
	return r.board.allRows(ctx, c)
}
