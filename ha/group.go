package ha

import (
	"math"

	"github.com/tidemarkdb/tidemark"
)

// groups are the flushes of a binlog. MariaDB's log names the groups. MySQL's log shows which
// transactions could have been together: those that could begin to commit before the first of a
// group had done so. That is an upper bound of groups; if the server's count of syncs is known, the
// candidates are groups that also end after a time limit, and the one with that count is chosen.
type groups struct {
	bank        // the last one has no time limit
	told   bool // by commit ids
	trace  func(Flush)
	size   int64 // of the group that MariaDB's log is in
	lastID uint64
}

func newGroups(opt Options) *groups {
	g := &groups{trace: opt.Trace.Flush, told: true}
	if opt.Syncs > 0 || opt.Counted {
		g.bank = bankOf(append(ladder(guessedWrite), math.Inf(1))...)
	} else {
		g.bank = bankOf(math.Inf(1))
	}
	return g
}

func (g *groups) commit(r *tidemark.LogRecord, now, bytes int64) {
	if r.Sequence != 0 {
		g.told = false
	}
	for i := range g.bank {
		c := &g.bank[i]
		if c.members > 0 && !g.joins(c, r, now) {
			g.end(c, i)
		}
		if c.members == 0 {
			c.first, c.began = r.Sequence, now
			if r.Sequence == 0 {
				c.first = int64(r.Group)
			}
		}
		c.members++
		c.ended, c.upTo = now, bytes
	}
	if r.Group == 0 || r.Group != g.lastID {
		g.size = 0
	}
	g.size++
	g.lastID = r.Group
}

// joins reports whether a commit can be in the group that c gathers.
func (g *groups) joins(c *candidate, r *tidemark.LogRecord, now int64) bool {
	if r.Sequence == 0 {
		return r.Group != 0 && int64(r.Group) == c.first
	}
	return r.Sequence > c.first && r.After < c.first && float64(now-c.began) <= c.write
}

func (g *groups) end(c *candidate, i int) {
	var trace func(Flush)
	if i == len(g.bank)-1 {
		trace = g.trace
	}
	c.flush(c.ended, c.upTo, trace)
	c.members = 0
}

func (g *groups) together(r *tidemark.LogRecord) int64 {
	if r.Sequence != 0 {
		return max(1, r.Sequence-r.After)
	}
	return max(1, g.size)
}

func (g *groups) file() { g.finish() }

func (g *groups) gap() {
	g.finish()
	g.restart()
}

func (g *groups) finish() {
	for i := range g.bank {
		if c := &g.bank[i]; c.members > 0 {
			g.end(c, i)
		}
	}
}

func (g *groups) choose(syncs int64, counts []int64) mix {
	if syncs > 0 && !g.told {
		return calibrate(g.bank, syncs, counts)
	}
	m := mixOf(g.bank, len(g.bank)-1, 0, 1)
	m.result.Basis = ExactFlushes
	if !g.told {
		m.result.Basis = UpperBoundFlushes
	}
	return m
}
