// Package point has the moments of a source's log at which a stream begins or ends, and what lets
// its transactions through up to one, or from one on. Start reading at Point.
package point

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/engines"
)

// A Point is a moment in a source's log. The zero value is unset.
type Point struct {
	Now  bool
	Time time.Time // before the first transaction that was committed later
	Log  string    // a position as the engine writes it, or a GTID
	// Target is the target's log position, for a stream that has begun before and has lost its
	// queue.
	Target bool
}

// IsZero reports whether p is unset.
func (p Point) IsZero() bool { return p == Point{} }

// Parse reads now, never, a time (RFC 3339, or "2006-01-02 15:04:05" of this machine's
// zone) or a position.
func Parse(text string) (Point, error) {
	switch strings.ToLower(text) {
	case "", "never":
		return Point{}, nil
	case "now":
		return Point{Now: true}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return Point{Time: t}, nil
		}
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return Point{Time: t}, nil
		}
	}
	if !strings.ContainsAny(text, "/:-") {
		return Point{}, &tidemark.Error{Kind: tidemark.Invalid, Op: "read", Object: text, Err: errors.New("is not now, a time or a log position"), Hint: "Use a form such as 2026-11-21T10:00:00Z, 16/B374D848, binlog.000003:1234 or a GTID."}
	}
	return Point{Log: text}, nil
}

// A Gate lets the transactions of a stream through up to a point, and holds the next one forever.
// It is nil if there is no such point, or only one that does not belong to a transaction.
type Gate struct {
	Place uint64
	GTID  string
	Time  time.Time
	Last  atomic.Uint64 // Place of the last transaction that was let through
	Shut  atomic.Bool   // nothing more passes
}

// NewGate gives the gate for a point of the log of a source of this engine.
func NewGate(p Point, engine string) (*Gate, error) {
	g := &Gate{Time: p.Time}
	if p.Log == "" {
		if g.Time.IsZero() {
			return nil, nil
		}
		return g, nil
	}
	var err error
	g.Place, g.GTID, err = engines.Place(engine, p.Log)
	return g, err
}

// A Finder looks for a transaction in the source's log; see capture.TxFinder.
type Finder func(ctx context.Context, gtid string) (end uint64, purged bool, err error)

// Begin finds the place after which a stream begins, if the gate has the GTID of a transaction.
func (g *Gate) Begin(ctx context.Context, find Finder) error {
	place, purged, err := g.find(ctx, find)
	switch {
	case err != nil || place > 0 || g.GTID == "":
		return err
	case purged:
		return &tidemark.Error{Kind: tidemark.Lost, Op: "replicate", Object: "transaction " + g.GTID, Err: errors.New("is no longer in the source's log"), Hint: "Start with a copy: leave --from out."}
	}
	return &tidemark.Error{Kind: tidemark.NotFound, Op: "replicate", Object: "transaction " + g.GTID, Err: errors.New("is not in the source's log"), Hint: "Give --from a GTID of this source, such as the one that the dump or backup names."}
}

// End finds the place at which a stream ends, if the gate has the GTID of a transaction. One that
// the source's log does not have yet may come: wait is called.
func (g *Gate) End(ctx context.Context, find Finder, wait func()) error {
	place, purged, err := g.find(ctx, find)
	switch {
	case purged:
		g.Place, g.GTID = 1, "" // the stream is beyond it
	case err == nil && place == 0 && g.GTID != "" && find != nil:
		wait()
	}
	return err
}

// find replaces the GTID by a place, if the log has it.
func (g *Gate) find(ctx context.Context, find Finder) (place uint64, purged bool, err error) {
	if find == nil || g.GTID == "" {
		return 0, false, nil
	}
	if place, purged, err = find(ctx, g.GTID); place > 0 {
		g.Place, g.GTID = place, ""
	}
	return place, purged, err
}

// A Clocker is a server that can be asked for its time.
type Clocker interface {
	Clock(ctx context.Context) (time.Time, error)
}

// TimeIsUp gives, once it is later than the gate's time by the source's clock, the end of its log:
// everything that was committed until then is before it. Nothing later need arrive.
func (g *Gate) TimeIsUp(ctx context.Context, src any, log interface {
	End(ctx context.Context) (uint64, error)
}) (uint64, error) {
	c, ok := src.(Clocker)
	if !ok || g.Time.IsZero() || time.Since(g.Time) < -time.Hour {
		return 0, nil
	}
	now, err := c.Clock(ctx)
	if err != nil || !now.After(g.Time) {
		return 0, err
	}
	return log.End(ctx)
}

// beyond reports whether a transaction is after the point.
func (g *Gate) beyond(tx *change.Tx) bool {
	return g.Place > 0 && tx.Place >= g.Place || !g.Time.IsZero() && tx.Time.After(g.Time)
}

// Pass lets a transaction through, or waits until ctx ends.
func (g *Gate) Pass(ctx context.Context, tx *change.Tx) error {
	if g == nil {
		return nil
	}
	if g.Shut.Load() || g.beyond(tx) {
		g.Shut.Store(true)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	g.Last.Store(tx.Place)
	if g.GTID != "" && tx.GTID == g.GTID && !tx.More {
		g.Shut.Store(true)
	}
	return nil
}

// A Skip empties the transactions before the point at which a stream begins.
type Skip struct {
	Time time.Time
	Done func(context.Context) error // called at the first one that is not emptied
	open bool
}

// Pass empties a transaction before the point.
func (s *Skip) Pass(ctx context.Context, tx *change.Tx) error {
	if s == nil || s.open {
		return nil
	}
	if !tx.Time.Before(s.Time) {
		s.open = true
		return s.Done(ctx)
	}
	return tx.OnlyRelations()
}
