package stream

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
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

// ParsePoint reads now, never, a time (RFC 3339, or "2006-01-02 15:04:05" of this machine's
// zone) or a position.
func ParsePoint(text string) (Point, error) {
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

// A Pause is when a stream that begins with a copy stops by itself, once.
type Pause string

const (
	NoPause      Pause = "never"
	AfterCopy    Pause = "copy"    // before any change is applied
	AfterChanges Pause = "changes" // once the changes that came during the copy are applied
)

// Pauses are all of them.
var Pauses = []Pause{NoPause, AfterCopy, AfterChanges}

// tellPause reports that a stream stops because of its Pause.
func (r *life) tellPause(what string) {
	text := KeepsLog(r.spec.Copy.Source) + "."
	if r.spec.Half == ApplyHalf {
		text = "The queue keeps new changes."
	}
	r.env.Event(job.Event{Kind: "stopped", Object: "stream " + r.spec.Name, Error: what, Text: "The same command resumes it. " + text})
}

// A gate lets the transactions of a stream through up to a point, and holds the next one forever.
// It is nil if there is no such point, or only one that does not belong to a transaction.
type gate struct {
	place uint64
	gtid  string
	time  time.Time
	last  atomic.Uint64 // Place of the last transaction that was let through
	shut  atomic.Bool
}

// newGate gives the gate for a point of the log of a source of this engine.
func newGate(p Point, engine string) (*gate, error) {
	g := &gate{time: p.Time}
	if p.Log == "" {
		if g.time.IsZero() {
			return nil, nil
		}
		return g, nil
	}
	var err error
	g.place, g.gtid, err = engines.Place(engine, p.Log)
	return g, err
}

// beyond reports whether a transaction is after the point.
func (g *gate) beyond(tx *change.Tx) bool {
	return g.place > 0 && tx.Place >= g.place || !g.time.IsZero() && tx.Time.After(g.time)
}

func (g *gate) pass(ctx context.Context, tx *change.Tx) error {
	if g == nil {
		return nil
	}
	if g.shut.Load() || g.beyond(tx) {
		g.shut.Store(true)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	g.last.Store(tx.Place)
	if g.gtid != "" && tx.GTID == g.gtid && !tx.More {
		g.shut.Store(true)
	}
	return nil
}

// A skip empties the transactions before the point at which a stream begins.
type skip struct {
	gate
	done func(context.Context) error // called at the first one that is not emptied
	open bool
}

func (s *skip) pass(ctx context.Context, tx *change.Tx) error {
	if s == nil || s.open {
		return nil
	}
	if s.gtid == "" && s.beyond(tx) || !s.time.IsZero() && tx.Time.Equal(s.time) {
		s.open = true
		return s.done(ctx)
	}
	if s.gtid != "" && tx.GTID == s.gtid && !tx.More { // the stream begins after it
		s.open = true
		if err := s.done(ctx); err != nil {
			return err
		}
	}
	return tx.OnlyRelations()
}
