package job

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/load"
)

// list gives the moves known so far.
func (c *copying) list() []*tidemark.Move {
	if c.load != nil {
		return c.load.Moves()
	}
	moves := make([]*tidemark.Move, len(c.p.Moves))
	for i := range c.p.Moves {
		moves[i] = &c.p.Moves[i]
	}
	return moves
}

// tableStats is the catalogue's form of the tables' progress.
func (c *copying) tableStats(failure error) []catalog.TableStat {
	moves := c.list()
	var now []load.TableStatus
	if c.status != nil {
		now = c.status.Snapshot()
	}
	ranges := map[int]int{}
	for _, r := range c.p.Ranges {
		ranges[r.Move]++
	}
	var out []catalog.TableStat
	at := map[tidemark.TableID]int{}
	for i, m := range moves {
		stat := catalog.TableStat{Run: c.run.ID, Schema: m.From.Schema, Name: m.From.Name, TargetSchema: m.To.Schema, TargetName: m.To.Name,
			State: load.BeforeLoad, Ranges: ranges[i]}
		if i < len(now) {
			fillStat(&stat, now[i], failure != nil)
		}
		if k, ok := at[m.From.TableID]; ok { // rows of a dump with fewer columns are a move of their own
			addStat(&out[k], stat)
			continue
		}
		at[m.From.TableID] = len(out)
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
	c.marked[r.ID] = w.Rows
	c.mu.Unlock()
	c.env.Event(Event{Kind: "range", Object: c.list()[r.Move].To.String(), Rows: w.Rows, Bytes: w.Bytes, Text: w.Method})
	c.flush(context.Background(), false)
}

// TableFull notes that all rows of a table are on the target.
func (c *copying) TableFull(move int) {
	t := c.status.Table(move)
	c.env.Event(Event{Kind: "table", Object: c.list()[move].To.String(), Rows: t.Done, Bytes: t.Bytes,
		Seconds: t.End.Sub(t.Start).Seconds(), Text: load.TableCompleted})
}

// ObjectDone records whether an object was created. After a kill, a resumed run may find one that
// the catalogue does not have.
func (c *copying) ObjectDone(o *tidemark.Object, err error, took time.Duration) {
	e := Event{Kind: "object", Object: o.ID, Seconds: took.Seconds()}
	state := catalog.Object{ID: o.ID, State: catalog.ObjectDone, Seconds: took.Seconds(), SQL: o.SQL}
	if err != nil {
		e.Error, state.State, state.Error = err.Error(), catalog.ObjectError, err.Error()
	}
	c.mu.Lock()
	c.objects = append(c.objects, ObjectTime{o.ID, took.Seconds()})
	c.settled = append(c.settled, state)
	c.mu.Unlock()
	c.env.Event(e)
	c.flush(context.Background(), false)
}

// Retry reports an attempt that failed and is repeated.
func (c *copying) Retry(what string, err error, left time.Duration) {
	c.env.Event(Event{Kind: "retry", Object: what, Error: err.Error(), Text: "for another " + left.Round(time.Second).String()})
}

// Fewer reports that the run continues with fewer sessions.
func (c *copying) Fewer(why error) {
	c.env.Event(Event{Kind: "finding", Object: "connections", Text: "a server has none left: the run continues with fewer sessions. " + tidemark.HintOf(why), Error: why.Error()})
}

// flush writes the finished ranges and objects to the catalogue.
func (c *copying) flush(ctx context.Context, last bool) {
	c.mu.Lock()
	marked, settled := c.marked, c.settled
	if len(marked)+len(settled) == 0 || !last && time.Since(c.flushed) < max(time.Second, c.pause) {
		c.mu.Unlock()
		return
	}
	c.marked, c.settled, c.flushed = map[int]int64{}, nil, time.Now()
	c.mu.Unlock()
	start := time.Now()
	if len(settled) > 0 {
		c.env.Catalog.PutObjects(ctx, c.run.ID, settled)
	}
	if len(marked) > 0 {
		c.env.Catalog.MarkRanges(ctx, c.run.ID, marked)
		c.env.Catalog.PutTables(ctx, c.run.ID, c.tableStats(nil))
	}
	c.mu.Lock()
	c.pause = 20 * time.Since(start) // a twentieth of one lane's time at most
	c.mu.Unlock()
}

type copyProgress struct{ *load.Status }

// Position is bytes written of bytes expected; the estimate is of bytes on disk, so it is scaled by
// what the finished tables have shown.
func (p copyProgress) Position() (done, total int64) {
	for _, t := range p.Snapshot() {
		expect := t.Expected
		if t.State == load.TableCompleted {
			expect = t.Bytes
		}
		done += t.Bytes
		total += max(expect, t.Bytes)
	}
	return done, total
}
