package stream

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/contact"
	"github.com/tidemarkdb/tidemark/job/stream/point"
)

const (
	// askEvery is how often source and target are asked for a sign of life, and the source for the
	// end of its log.
	askEvery = time.Second
	// askPatience is how long an answer may take.
	askPatience = 10 * time.Second
	// keptEvery is how often the source is asked how much log it keeps.
	keptEvery = 5 * time.Second
)

// The ends of a stream, by their contacts.
const (
	sourceEnd = iota
	targetEnd
)

var endNames = [...]string{"source", "target"}

// noteContact records whether a server answers, and reports changes.
func (p *process) noteContact(ctx context.Context, end int, err error) {
	if ctx.Err() != nil || !p.keeper.ends[end].Heard(p.env.Time(), err) {
		return
	}
	text := "the " + endNames[end] + " answers again"
	if err != nil {
		text = "the " + endNames[end] + " does not answer: " + err.Error()
		if errors.As(err, new(contact.Handed)) {
			text = "waits for the " + endNames[end] + ": " + err.Error() + ". " + strings.TrimRight(tidemark.HintOf(err), ". ")
		}
		if end == targetEnd && p.parts() {
			text += "; changes of the source wait in the queue"
		}
	}
	p.announce("state", text)
}

// A prober asks the servers of a session for signs of life.
type prober struct {
	*session
	s *sampler
}

// askEnds asks both servers for signs of life until ctx ends. A session that loses a server ends at
// once, and one that runs without a server ends as soon as that one is back.
func (r *prober) askEnds(ctx context.Context) {
	var wg crash.Group
	for end, url := range []string{r.spec.Copy.Source, r.spec.Copy.Target} {
		db := [...]job.Database{r.src, r.tgt}[end]
		switch {
		case db != nil:
			wg.Go(func() { r.askEnd(ctx, end, db) })
		case r.spec.Role == Both || r.spec.Role == BothViaHalves:
			wg.Go(func() { r.awaitEnd(ctx, end, url) })
		}
	}
	wg.Wait()
}

// askEnd asks one server again and again.
func (r *prober) askEnd(ctx context.Context, end int, db job.Database) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	var kept time.Time // when the log that the source keeps was measured
	for {
		asked, cancel := context.WithTimeout(ctx, askPatience)
		err := r.askClock(asked, end, db)
		if err == nil && end == sourceEnd {
			if err = r.askLog(asked); err == nil && time.Since(kept) >= keptEvery {
				kept = time.Now()
				err = r.askKept(asked)
			}
		}
		cancel()
		r.process.noteContact(ctx, end, err)
		if tidemark.KindOf(err) == tidemark.Unreachable {
			r.fail(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// awaitEnd waits for the server that was missing when the session started.
func (r *prober) awaitEnd(ctx context.Context, end int, url string) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked, cancel := context.WithTimeout(ctx, askPatience)
		db, err := r.env.Open(asked, url)
		cancel()
		r.process.noteContact(ctx, end, err)
		if err == nil {
			db.Close()
		}
		if err == nil || !r.process.passes(err) {
			_ = r.over(anew)
			return
		}
	}
}

// askClock measures how far a server's clock is ahead of this machine's.
func (r *prober) askClock(ctx context.Context, end int, db job.Database) error {
	c, ok := db.(point.Clocker)
	if !ok {
		return nil
	}
	asked := time.Now()
	at, err := c.Clock(ctx)
	if took := time.Since(asked); err == nil && took < time.Second { // a slower answer is too inexact
		r.s.clocks[end].Store(int64(at.Sub(asked.Add(took / 2))))
	}
	return err
}

// askLog asks the source for the end of its log.
func (r *prober) askLog(ctx context.Context) error {
	asked := time.Now()
	end, err := r.from.End(ctx)
	if err == nil {
		r.process.keeper.marks.Add(asked.Add(r.s.ahead(sourceEnd)), end)
		r.process.keeper.asked.Store(true)
	}
	return err
}

// askKept asks the source how much log it keeps. Without the privilege for that, the figure is
// missing.
func (r *prober) askKept(ctx context.Context) error {
	k, ok := r.from.(capture.LogKeeper)
	if !ok {
		return nil
	}
	from := r.s.link.low.Load()
	if r.s.link.log != nil {
		from = r.s.meter.Stored()
	}
	kept, err := k.LogKept(ctx, r.spec.Name, max(from, r.rec.Place))
	if err == nil {
		r.process.keeper.kept.Store(&kept)
	}
	if errors.Is(err, context.DeadlineExceeded) || contact.Silent(err) {
		return err
	}
	return nil
}
