package diff

import (
	"context"
	"math/big"
	"sync"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// byServers is the Format of tables whose rows were not read.
const byServers = "hashed by the servers"

// asked is what the servers returned for one table.
type asked struct {
	open atomic.Int64 // tasks not finished
	mu   sync.Mutex
	rows [2]int64
	sum  [2]big.Int
	none bool // a server could not hash it
}

// ask makes the servers hash the rows of tables that both can hash in the same way. It returns the
// tables whose rows must be read: those that differ, and those that the servers cannot hash.
func (c *comparison) ask(ctx context.Context, tables []*table) (read []*table, err error) {
	a, okA := c.sides[0].(Summer)
	b, okB := c.sides[1].(Summer)
	if c.opt.ReadRows || !okA || !okB {
		return tables, nil
	}
	sides := [2]Summer{a, b}
	answers := make([]*asked, len(c.tables))
	var tasks [2][]*task
	for _, t := range tables {
		recipe := a.SumRecipe(t.pair.Source)
		if t.makers[0] != nil || recipe == "" || recipe != b.SumRecipe(t.pair.Target) {
			read = append(read, t)
			continue
		}
		answer := &asked{}
		answer.open.Store(int64(len(t.tasks[0]) + len(t.tasks[1])))
		answers[t.index] = answer
		for side := range tasks {
			tasks[side] = append(tasks[side], t.tasks[side]...)
		}
	}
	g := flow.NewGroup(ctx)
	var next [2]atomic.Int64
	for side, role := range []string{"Source reader", "Target reader"} {
		for lane := range min(c.opt.Lanes, len(tasks[side])) {
			g.Go(role, func(ctx context.Context, clock *flow.Clock) error {
				clock.Enter(flow.IO)
				for {
					i := int(next[side].Add(1)) - 1
					if i >= len(tasks[side]) {
						return nil
					}
					if err := c.askTask(ctx, clock, sides[side], lane, tasks[side][i], answers[tasks[side][i].table.index]); err != nil {
						return err
					}
				}
			})
		}
	}
	c.watch(g)
	err = g.Wait()
	c.keep(g.Report())
	for _, t := range tables {
		if answer := answers[t.index]; answer != nil && !t.result.Equal {
			t.asked = true
			if !answer.none {
				t.format = tidemark.CopyText
				t.known = max(answer.rows[0], answer.rows[1])
			}
			read = append(read, t)
		}
	}
	return read, err
}

// askTask asks for one range. If a server refuses to hash it, the range is read instead, which then
// reports the cause.
func (c *comparison) askTask(ctx context.Context, clock *flow.Clock, s Summer, lane int, k *task, answer *asked) error {
	t := k.table
	answer.mu.Lock()
	none := answer.none
	answer.mu.Unlock()
	if !none {
		rows, sum, err := s.Sum(ctx, lane, t.move(k.side), &k.r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		answer.mu.Lock()
		if err != nil {
			answer.none = true
		} else {
			answer.rows[k.side] += rows
			answer.sum[k.side].Add(&answer.sum[k.side], sum)
		}
		answer.mu.Unlock()
		clock.Count(1, k.r.Bytes, rows)
		if c.opt.Progress != nil {
			c.opt.Progress(Event{Pair: t.index, Side: k.side, Pass: 1, Rows: rows, Bytes: k.r.Bytes})
		}
	}
	if answer.open.Add(-1) > 0 {
		return nil
	}
	t.result.SourceRows, t.result.TargetRows = answer.rows[0], answer.rows[1]
	if !answer.none && answer.rows[0] == answer.rows[1] && answer.sum[0].Cmp(&answer.sum[1]) == 0 {
		t.result.Equal, t.result.Format = true, byServers
		c.done(t)
	}
	return nil
}
