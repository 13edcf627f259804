package job

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/load"
)

// move gives a move.
func (c *copying) move(i int) *tidemark.Move {
	if c.load != nil {
		return c.load.Moves()[i]
	}
	return &c.p.Moves[i]
}

// planned is the catalogue's form of the tables of a plan.
func planned(run string, p *load.Plan) []catalog.TableStat {
	ranges := make([]int, len(p.Moves))
	for i := range p.Ranges {
		ranges[p.Ranges[i].Move]++
	}
	out := make([]catalog.TableStat, len(ranges))
	for i, n := range ranges {
		out[i] = stat(run, &p.Moves[i])
		if out[i].Ranges = n; n == 0 {
			out[i].State = load.TableCompleted
		}
	}
	return merged(out)
}

func stat(run string, m *tidemark.Move) catalog.TableStat {
	return catalog.TableStat{Run: run, Schema: m.From.Schema, Name: m.From.Name, TargetSchema: m.To.Schema, TargetName: m.To.Name, State: load.BeforeLoad}
}

// putTables writes the progress of the tables for which it has changed since it was last written.
func (c *copying) putTables(ctx context.Context, failure error) error {
	if c.load == nil {
		return nil
	}
	now := c.load.Status.Changed()
	switch {
	case len(now) == 0 && failure == nil && !c.made.late:
		return nil
	case c.p.Moves == nil || c.made.late: // an import: several moves may be one table
		now = c.load.Status.Snapshot()
	case failure != nil: // what is being loaded is not any more
		now = append(now, c.load.Status.Moving()...)
	}
	out := make([]catalog.TableStat, len(now))
	for i, t := range now {
		out[i] = stat(c.run.ID, c.move(t.Move))
		fillStat(&out[i], t, failure != nil)
	}
	if c.p.Moves == nil {
		out = merged(out)
	}
	err := c.env.Catalog.PutTables(ctx, c.run.ID, out)
	c.made.late = err != nil
	return err
}

// merged adds up the moves of the same table: rows of a dump with fewer columns are one of their
// own.
func merged(stats []catalog.TableStat) []catalog.TableStat {
	at := make(map[tidemark.TableID]int, len(stats))
	out := stats[:0]
	for _, stat := range stats {
		id := tidemark.TableID{Schema: stat.Schema, Name: stat.Name}
		if k, ok := at[id]; ok {
			addStat(&out[k], stat)
			continue
		}
		at[id] = len(out)
		out = append(out, stat)
	}
	return out
}

func fillStat(s *catalog.TableStat, t load.TableStatus, failed bool) {
	s.State, s.FullLoadRows, s.FullLoadBytes, s.FullLoadErrorRows = t.State, t.Done, t.Bytes, t.Rejected
	s.Ranges, s.RangesDone, s.Start, s.End, s.Method = t.Ranges, t.RangesDone, t.Start, t.End, t.Method
	if failed && t.State == load.FullLoad {
		s.State = load.TableCancelled
	}
}

func addStat(s *catalog.TableStat, t catalog.TableStat) {
	s.FullLoadRows, s.FullLoadBytes, s.FullLoadErrorRows = s.FullLoadRows+t.FullLoadRows, s.FullLoadBytes+t.FullLoadBytes, s.FullLoadErrorRows+t.FullLoadErrorRows
	s.Ranges, s.RangesDone, s.End, s.Method = s.Ranges+t.Ranges, s.RangesDone+t.RangesDone, t.End, t.Method
	if s.Start.IsZero() {
		s.Start = t.Start
	}
	if s.State == load.TableCompleted || s.State == load.BeforeLoad {
		s.State = t.State
	}
}

// RangeDone, TableFull, ObjectDone and Retry make a copying the load.Sink of its run.

// RangeDone notes a committed range; the catalogue is updated in groups, since the marker rows on
// the target are what counts.
func (c *copying) RangeDone(r *tidemark.Range, w tidemark.Written) {
	c.mu.Lock()
	c.marked = true
	c.mu.Unlock()
	c.env.Event(Event{Kind: "range", Object: c.move(r.Move).To.String(), Rows: w.Rows, Bytes: w.Bytes, Text: w.Method})
	c.flush(context.Background(), false)
}

// TableFull notes that all rows of a table are on the target.
func (c *copying) TableFull(move int) {
	t := c.load.Status.Table(move)
	c.env.Event(Event{Kind: "table", Object: c.move(move).To.String(), Rows: t.Done, Bytes: t.Bytes,
		Seconds: t.End.Sub(t.Start).Seconds(), Text: load.TableCompleted})
}

// ObjectDone records whether an object was created. After a kill, a resumed run may find one that
// the catalogue does not have.
func (c *copying) ObjectDone(o *tidemark.Object, err error, took time.Duration) {
	e := Event{Kind: "object", Object: o.ID, Seconds: took.Seconds()}
	if err != nil {
		e.Error = err.Error()
	}
	c.mu.Lock()
	c.made.add(o, took.Seconds(), err)
	c.mu.Unlock()
	c.env.Event(e)
	c.flush(context.Background(), false)
}

// made is what is known of the objects that are created.
type made struct {
	new     []string // those of which the catalogue does not know yet
	slowest []ObjectTime
	seconds float64 // of all
	late    bool    // the catalogue lacks the progress of tables, too
}

// mostSlow is how many objects a report lists.
const mostSlow = 20

func (m *made) add(o *tidemark.Object, seconds float64, err error) {
	m.seconds += seconds
	if m.slowest = append(m.slowest, ObjectTime{o.ID, seconds}); len(m.slowest) > 50*mostSlow {
		m.slowest = slowest(m.slowest)
	}
	if err == nil {
		m.new = append(m.new, o.ID)
	}
}

// slowest sorts objects by the time that they took, and gives the first of them.
func slowest(objects []ObjectTime) []ObjectTime {
	slices.SortStableFunc(objects, func(a, b ObjectTime) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return objects[:min(len(objects), mostSlow)]
}

// Retry reports an attempt that failed and is repeated.
func (c *copying) Retry(what string, err error, left time.Duration) {
	c.env.Event(Event{Kind: "retry", Object: what, Error: err.Error(), Text: "for another " + left.Round(time.Second).String()})
}

// Fewer reports that the run continues with fewer sessions.
func (c *copying) Fewer(why error) {
	c.env.Event(Event{Kind: "finding", Object: "connections", Text: "a server has none left: the run continues with fewer sessions. " + tidemark.HintOf(why), Error: why.Error()})
}

// flush writes to the catalogue which tables have moved on and which objects are created. What it
// cannot write now is written by the next one.
func (c *copying) flush(ctx context.Context, last bool) {
	c.mu.Lock()
	marked, made := c.marked, c.made.new
	if !marked && len(made) == 0 || !last && time.Since(c.flushed) < max(time.Second, c.pause) {
		c.mu.Unlock()
		return
	}
	c.marked, c.made.new, c.flushed, c.pause = false, nil, time.Now(), time.Hour // until this one is done
	c.mu.Unlock()
	start := time.Now()
	err := c.env.Catalog.PutBuilt(ctx, c.run.ID, made)
	if err == nil {
		made = nil
	}
	if marked {
		terr := c.putTables(ctx, nil)
		marked, err = terr != nil, cmp.Or(err, terr)
	}
	if err != nil {
		c.env.Event(Event{Kind: "retry", Object: "catalogue", Text: "what is done could not be recorded", Error: err.Error()})
	}
	c.mu.Lock()
	c.marked, c.made.new = c.marked || marked, append(made, c.made.new...)
	c.pause = 20 * time.Since(start) // a twentieth of one lane's time at most
	c.mu.Unlock()
}

type copyProgress struct{ *load.Status }

// Position is bytes written of bytes expected; the estimate is of bytes on disk, so it is scaled by
// what the finished tables have shown.
func (p copyProgress) Position() (done, total int64) {
	t := p.Totals()
	return t.Bytes, t.Expected
}
