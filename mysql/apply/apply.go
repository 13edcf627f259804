package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply/resolve"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A Target is the part of a server that streams are applied to.
type Target struct {
	*bulk.Bulk

	mu     sync.Mutex
	agents map[int]*applier // of the stream being applied

	distant  time.Duration // other than the constant, for tests
	bulkFrom int           // the same
}

// New creates the target side of a server.
func New(b *bulk.Bulk) *Target {
	t := &Target{Bulk: b}
	b.Others[tidemark.ApplySide] = t.sessions
	return t
}

// sessions returns the agents by the ID of their session.
func (e *Target) sessions() map[uint32]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := map[uint32]int{}
	for n, a := range e.agents {
		if a.s != nil {
			out[a.s.ID] = n
		}
	}
	return out
}

// Close ends the agents' sessions.
func (e *Target) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.agents {
		if a.s != nil {
			_ = a.s.Conn.Close() // its agent may be working: the agent itself marks the session dead
		}
	}
}

// An applier is an agent's session.
//
// Changes become SQL statements, many of which are sent in one packet, so that a transaction costs
// two round trips: one for its changes and its progress, and one for the COMMIT, which is sent once
// each statement has affected as many rows as it should; with a distant server one (ahead.go). A
// batcher combines changes of one table
// into multi-row statements. If anything at all is wrong with those, a warning included, the group
// is rolled back and redone carefully, change by change, in the order of the source: an error is
// then final, and the server's message is about one change.
//
// Each part builds on the one before and knows nothing of the later ones: the outgoing statements
// (what is sent, and whether it affected what it should), the planner (how changes of a table are
// written), the batcher (which statements changes become; with literals, which write values), and
// the applier, which has the transaction and its progress.
type applier struct {
	batcher
	redone     int    // groups redone carefully
	committing bool   // the COMMIT was sent
	inDoubt    bool   // whether the last COMMIT succeeded is unknown
	lostID     uint32 // of the session that sent it
	settled    settled
	distant    time.Duration
	far        bool // the server is distant
	moment     moment
}

func newApplier(e *bulk.Bulk, progress string) *applier {
	a := &applier{}
	a.outgoing = outgoing{e: e, progress: progress}
	a.plans, a.latest = map[*tidemark.Table][]*plan{}, map[tidemark.TableID]*plan{}
	a.literals.srv = e.Server
	return a
}

// Apply applies a group in one transaction with its progress: all of it is on the target, or
// nothing. Kind Lost: a later apply has taken over. An agent that loses its connection in the
// COMMIT looks up its row; if that fails too, Kind is Transient, and the agent's next Apply, or the
// next BeginApply, finds out.
//
// Triggers of the target fire: no session can switch that off (ApplyFindings names the tables).
// Foreign keys are checked and act, unless the group has what those of the source did.
func (e *Target) Apply(ctx context.Context, g *change.Group) error {
	a, known, err := e.applierFor(ctx, g)
	if err != nil || known {
		return err
	}
	stop := a.s.Watch(ctx)
	object, err := a.apply(g)
	if a.counter.ahead && errors.Is(err, resolve.ErrFenced) && a.rollback() {
		a.moment.at = "" // perhaps only that differs
		object, err = a.apply(g)
	}
	if err != nil && a.rollback() && !g.Net && a.worthCare(err) {
		a.careful = true
		a.redone++
		if object, err = a.apply(g); err != nil {
			a.rollback()
		}
		a.careful = false
	}
	return a.ended(ctx, g, stop, object, err)
}

// unheld is the hint for a BadValue.
const unheld = "Correct the row at the source, or choose NULL for values that MySQL cannot hold: --unrepresentable=null."

// ended makes the error of an Apply and cleans up the session; if stop returns false, the end of
// ctx has closed it.
func (a *applier) ended(ctx context.Context, g *change.Group, stop func() bool, object string, err error) error {
	if !stop() {
		a.s.Dead = true
		if err != nil && server.Broken(err) {
			err = context.Cause(ctx)
		}
	}
	if a.s.Dead {
		a.s.Close()
	}
	if err == nil {
		return nil
	}
	var bad *bulk.BadValue
	if errors.As(err, &bad) {
		return &tidemark.Error{Op: "apply", Object: object, Kind: tidemark.BadRow, Err: err, Hint: unheld}
	}
	if a.s.Dead {
		a.moment.at = ""
		if a.lostID = a.s.ID; a.committing {
			a.inDoubt = true
			if a.resolveCommit(ctx, g) == nil && a.settled.has(g) {
				return nil
			}
		} else {
			a.e.Kill(a.lostID) // others wait for its locks
		}
	}
	out := a.e.Fail("apply", object, err)
	var ours *tidemark.Error
	if errors.As(out, &ours) && ours.Kind == tidemark.BadRow && ours.Hint == "" {
		ours.Hint = change.OtherRows
	}
	return out
}

// worthCare reports whether to redo a failed group carefully.
func (a *applier) worthCare(err error) bool {
	if a.committing {
		return false
	}
	var my *gomysql.MyError
	if errors.As(err, &my) {
		kind, _ := a.e.KindOf(my)
		return kind == tidemark.BadRow || kind == tidemark.Refused || kind == tidemark.Bug
	}
	return errors.Is(err, errCareful)
}

// applierFor returns the group's agent with a live session; known means that the group is already
// on the target.
func (e *Target) applierFor(ctx context.Context, g *change.Group) (a *applier, known bool, err error) {
	if a, err = e.applier(ctx, g); err != nil {
		return nil, false, err
	}
	if a.inDoubt {
		if err = a.resolveCommit(ctx, g); err != nil {
			return nil, false, err
		}
	}
	if a.settled.has(g) {
		return nil, true, nil
	}
	if a.s == nil || a.s.Dead {
		a.keyless = g.Actions
		err = e.connect(ctx, a)
	}
	return a, false, err
}

// applier returns the applier of an agent.
func (e *Target) applier(ctx context.Context, g *change.Group) (*applier, error) {
	e.mu.Lock()
	a := e.agents[g.Agent]
	e.mu.Unlock()
	if a != nil {
		return a, nil
	}
	name, err := e.OwnTable(ctx, server.ProgressName)
	if err != nil {
		return nil, err
	}
	a = newApplier(e.Bulk, name)
	a.distant, a.bulkFrom = cmp.Or(e.distant, distant), cmp.Or(e.bulkFrom, bulkFrom)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.agents == nil {
		e.agents = map[int]*applier{}
	}
	e.agents[g.Agent] = a
	return a, nil
}

// connect opens the agent's session. Statements report how many rows they matched, not how many
// they changed.
func (e *Target) connect(ctx context.Context, a *applier) error {
	s, err := e.ConnectFor(ctx, server.Wishes{Capabilities: []uint32{gomysql.CLIENT_MULTI_STATEMENTS, gomysql.CLIENT_FOUND_ROWS}, Bulk: e.MariaDB})
	if err != nil {
		return err
	}
	if err := a.prepare(ctx, s); err != nil {
		s.Close()
		return e.Fail("apply", a.progress, err)
	}
	clear(a.plans) // what was prepared belonged to another session
	clear(a.latest)
	a.prepared = 0
	e.mu.Lock()
	a.s = s
	e.mu.Unlock()
	return nil
}

func (a *applier) prepare(ctx context.Context, s *server.Session) error {
	start := time.Now()
	if err := a.e.Prepare(ctx, s); err != nil {
		return err
	}
	trip := time.Since(start)
	r, err := s.Query(ctx, "SHOW VARIABLES WHERE Variable_name IN ('max_allowed_packet','log_bin','binlog_format')")
	if err != nil {
		return err
	}
	set := map[string]string{}
	for i := range r.RowNumber() {
		set[server.Cell(r, i, 0)] = strings.ToUpper(server.Cell(r, i, 1))
	}
	n, _ := strconv.Atoi(set["max_allowed_packet"])
	a.packet = max(n-1024, 1024)
	a.limit = min(maxPacketAim, a.packet)
	level := "READ-COMMITTED" // agents do not need gap locks, which would make them wait for each other
	if set["log_bin"] == "ON" && set["binlog_format"] == "STATEMENT" {
		level = "REPEATABLE-READ" // InnoDB refuses READ-COMMITTED then
	}
	name := "transaction_isolation"
	if a.e.MariaDB {
		name = "tx_isolation"
	}
	checks := "1"
	if a.keyless {
		checks = "0"
	}
	sql := "SET autocommit=0, foreign_key_checks=" + checks + ", unique_checks=1, sql_mode=" + strictMode + ", lc_messages='en_US', SESSION " + name + "='" + level + "'"
	if a.e.Options.NoBinlog {
		sql += ", sql_log_bin=0"
	}
	start = time.Now()
	if err := s.Exec(ctx, sql); err != nil {
		return err
	}
	a.far = min(trip, time.Since(start)) >= a.distant
	if a.links, err = readLinks(ctx, s, !a.keyless); err != nil {
		return err
	}
	s.Wire = server.NewWire(s.Conn)
	return nil
}

const (
	strictMode  = "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
	lenientMode = "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
)

// apply sends the changes and the progress, and commits if all results are as expected.
func (a *applier) apply(g *change.Group) (object string, err error) {
	a.reset()
	if !marked(g) {
		a.goAhead(g)
	} else if object, err = a.mark(g); err != nil {
		return object, err
	}
	err = g.EachChange(func(_ *change.Tx, c change.Change, bounds map[uint32]*change.Bound) (err error) {
		object, err = a.change(c, bounds)
		return err
	})
	if err != nil {
		return object, err
	}
	return a.finish(g)
}

// markedFrom is the size of changes, in bytes, from which a group's mark comes first. A capture
// emits pieces of 4 MB before it has seen the end; its form of the log may be larger than what was
// applied.
const markedFrom = 256 << 10

// mark begins a large group with a change of the progress row, so that a capture from this server
// knows from the beginning that the group was applied. The end of the group writes the row again.
func (a *applier) mark(g *change.Group) (object string, err error) {
	a.stmt = fmt.Appendf(a.stmt[:0], "UPDATE %s SET done=CONCAT(done, ' ') WHERE queue=%s AND agent=%d AND epoch=%d", a.progress, server.Literal(g.Queue), g.Agent, g.Epoch)
	return a.emit(a.stmt, want{rows: 1})
}

// marked reports whether a group is large enough for a mark.
func marked(g *change.Group) bool {
	size := 0
	for _, tx := range g.Txs {
		size += len(tx.Changes)
	}
	return g.Spooled != nil || size >= markedFrom
}

// finish sends the pending statements and the progress, and commits.
func (a *applier) finish(g *change.Group) (object string, err error) {
	if object, err = a.flush(); err != nil {
		return object, err
	}
	at := a.moment.next()
	a.stmt = fmt.Appendf(a.stmt[:0], "UPDATE %s SET low=%d, done='", a.progress, g.Low)
	a.stmt = appendPlaces(a.stmt, g.Low, g.Done)
	a.stmt = fmt.Appendf(a.stmt, "', at='%s' WHERE queue=%s AND agent=%d AND epoch=%d", at, server.Literal(g.Queue), g.Agent, g.Epoch)
	if a.counter.ahead {
		a.stmt = fmt.Appendf(a.stmt, " AND at='%s'", a.moment.at)
	}
	if object, err = a.emit(a.stmt, want{rows: 1}); err != nil {
		return object, err
	}
	done := false
	if a.counter.ahead {
		done, object, err = a.sendAll()
	} else {
		object, err = a.send()
	}
	if err == nil && !done {
		object, err = "", a.commit(g)
	}
	if err == nil {
		a.moment.at, a.moment.epoch = at, g.Epoch
	}
	return object, err
}

// commit ends a transaction whose changes have all been answered.
func (a *applier) commit(g *change.Group) error {
	if g.Turn != nil {
		if err := g.Turn(); err != nil {
			return err
		}
	}
	a.committing = true
	if err := a.s.Wire.Command(gomysql.COM_QUERY, "COMMIT"); err != nil {
		a.s.Dead = true
		return err
	}
	_, _, err := a.answer()
	a.committing = err != nil
	return err
}

// reset discards what a failed group has left.
func (a *applier) reset() {
	a.outgoing.drop()
	a.batcher.drop()
	a.committing = false
}

// ApplyFindings reports what to expect of a stream into these tables.
func (e *Target) ApplyFindings(ctx context.Context, tables []*tidemark.Table, _ bool) (found []tidemark.Finding, err error) {
	var links links
	err = e.OnSession(ctx, "check", e.Masked, func(s *server.Session) error {
		links, err = readLinks(ctx, s, false)
		return err
	})
	if err != nil {
		return nil, err
	}
	var fire, plain []string
	for _, t := range tables {
		if links.of[t.TableID]&triggered != 0 {
			fire = append(fire, t.String())
		}
		if !schema.Transactional(t.Storage) {
			plain = append(plain, t.String()+" ("+t.Storage+")")
		}
	}
	if len(fire) > 0 {
		found = append(found, tidemark.Finding{Severity: tidemark.Warning, Object: "triggers", Text: "the target's triggers fire for the stream's changes, which already contain what the source's triggers did: " + tidemark.Some(fire, 10),
			Hint: "Drop them on the target until the cutover, where they write what the source writes."})
	}
	if len(plain) > 0 {
		found = append(found, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Unsupported, Object: "storage engine", Text: "a stream cannot fill non-transactional tables: " + tidemark.Some(plain, 10),
			Hint: "ALTER TABLE ... ENGINE=InnoDB on both sides, or leave them out: --exclude."})
	}
	return found, nil
}
