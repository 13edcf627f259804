package apply

import (
	"context"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A pipeline is the groups that were sent to a distant server one after the other, in an agent's
// session, and that have no answer yet. They are committed in that order, and none without all
// before it:
//
//   - if a group fails before its COMMIT, the session's transaction stays failed, and the server
//     refuses the BEGIN of the next group;
//   - if it fails in its COMMIT, or a pooler has replaced the session, its progress is not written.
//     The next group demands that the agent's row has the value of at that this progress would have
//     given it (stamp);
//   - if the connection ends, resolveCommit changes at before anything else is sent.
//
// SendGroup writes, and AwaitGroup reads, each in a goroutine of its own. Everything else that the
// agent's session does comes after endPipe, when neither runs.
type pipeline struct {
	release func() // returns the socket to pgconn; nil: nothing was sent ahead
	sending bool   // SendGroup is writing
	epoch   int64  // of what was sent
	sent    chan *sentGroup
	failed  atomic.Bool
	first   *sentGroup // that has failed
	why     error
}

// A sentGroup is a group in a pipeline.
type sentGroup struct {
	prepares []*prepared // statements that it prepares
	prepared int         // so many of these the server has prepared
}

// maxSent is how many groups a pipeline may hold.
const maxSent = 256

// SendGroup sends a group whose COMMIT waits for no answers, as apply.Sender says. If part of a
// group cannot be sent, the session ends: AwaitGroup reports that, and Apply says why.
func (t *Target) SendGroup(ctx context.Context, g *change.Group) (sent bool, err error) {
	a := t.agent(g.Agent)
	p := &a.ahead.pipe
	if !a.sendable(g) || len(p.sent) == maxSent {
		return false, nil
	}
	if p.release == nil {
		release, err := a.l.Raw(ctx)
		if err != nil {
			server.CloseConn(a.conn)
			return false, nil
		}
		*p = pipeline{release: release, sent: make(chan *sentGroup, maxSent)}
	}
	a.ahead.on, a.ahead.synced, p.sending, p.epoch = true, true, true, g.Epoch
	s := &sentGroup{}
	p.sent <- s // AwaitGroup may read the first answers while the rest is written
	_, _, err = a.sendGroup(g, true)
	if err == nil {
		err = a.plain(a.commits)
	}
	if err == nil {
		a.out = append(a.out, 'S', 0, 0, 0, 4)
		err = a.write()
	}
	if err != nil {
		_ = a.l.Conn.Conn().Close() // it may be closed
		a.plan.Clear()
		a.out = a.out[:0]
	}
	for _, one := range a.sent {
		if one.parsed {
			s.prepares = append(s.prepares, one.stmt)
		}
	}
	p.sending = false
	clear(a.sent)
	a.sent, a.read = a.sent[:0], 0
	return true, nil
}

// sendable reports whether a group can be sent without looking anything up, and whether the server
// can judge all its statements.
func (a *applier) sendable(g *change.Group) bool {
	if a.conn == nil || a.doubt.epoch != 0 || a.ahead.pipe.failed.Load() || !a.ahead.far || a.ahead.at == nil || a.ahead.epoch != g.Epoch || g.Turn != nil || g.Spooled != nil && !g.Net {
		return false
	}
	can := true
	_ = g.EachChange(func(_ *change.Tx, c change.Change, bounds map[uint32]*change.Bound) error {
		if c.Kind == tidemark.TruncateChange {
			can = false
		}
		b := bounds[c.Table]
		if b == nil || !can || c.Kind != tidemark.InsertChange && c.Kind != tidemark.UpdateChange && c.Kind != tidemark.DeleteChange {
			return nil
		}
		d := a.tables[b]
		if d == nil {
			if d = a.again(b); d != nil {
				a.tables[b] = d
			}
		}
		can = d != nil && d.Batched && !d.fewer(c.Kind)
		return nil
	}) // an error of its changes is Apply's to report
	return can && a.aliases <= 100
}

// AwaitGroup waits for the answer to the oldest group, as apply.Sender says.
func (t *Target) AwaitGroup(ctx context.Context, agent int) error {
	p := &t.agent(agent).ahead.pipe
	var s *sentGroup
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s = <-p.sent:
	}
	x := t.agent(agent).receive(s)
	if x.Err == nil {
		return nil
	}
	p.first, p.why = s, x.Err
	p.failed.Store(true)
	return t.Fail(ctx, "apply", progressTable, x.Err)
}

// receive reads all answers to a group.
func (a *applier) receive(s *sentGroup) (x server.Answer) {
	for {
		kind, n, err := a.l.Head()
		if err != nil {
			x.Err, x.Broken = err, true
			return x
		}
		if kind == '1' {
			s.prepared++
		}
		if a.l.Other(&x, kind, n) {
			return x
		}
	}
}

// endPipe ends the pipeline: it reads what is left after a failure, and makes the session usable or
// closes it.
func (a *applier) endPipe() {
	p := &a.ahead.pipe
	if p.release == nil {
		return
	}
	if p.first != nil || len(p.sent) > 0 {
		a.endFailed()
	}
	p.release()
	*p = pipeline{}
}

func (a *applier) endFailed() {
	p := &a.ahead.pipe
	a.ahead.at = nil
	ended := p.why != nil && server.Ended(p.why)
	groups := []*sentGroup{p.first}
	if p.first == nil {
		groups = nil
	}
	for len(p.sent) > 0 {
		s := <-p.sent
		groups = append(groups, s)
		if ended {
			continue
		}
		// It cannot have succeeded, unless nobody has received the answers to those before it.
		if x := a.receive(s); x.Broken || x.Err == nil {
			ended = true
		}
	}
	for _, s := range groups {
		for _, stmt := range s.prepares[s.prepared:] {
			stmt.known = false
		}
	}
	if ended {
		a.doubt.epoch = p.epoch
		server.CloseConn(a.conn)
		return
	}
	if a.l.Send("ROLLBACK") != nil {
		server.CloseConn(a.conn)
	} else if x := a.l.Answer(); x.Broken || x.Status != 'I' {
		server.CloseConn(a.conn)
	}
}
