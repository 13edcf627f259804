package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// With a distant server, COMMIT goes out with the changes: a transaction takes one round trip
// instead of two. The server then judges what the client would judge in the answers: after each
// statement it counts whether that was right, and at the end it commits if all were. Neither server
// has a COMMIT with a condition, but both prepare statements from variables. If it does not commit,
// the transaction is as if COMMIT had not been sent: the client judges the same answers, and sends
// COMMIT after all (the server knows less, see surely), or rolls back and finds out what is wrong.
//
// The variables are reset with each group. A statement that fails, or that is not reached because
// an earlier one failed, is not counted, also if statements of later commands are.

// distant is the round trip from which one fewer is worth the additional statements.
const distant = 2 * time.Millisecond

const (
	resetCounts = "SET @tidemark_right=0,@tidemark_commit=NULL"
	prepares    = "PREPARE tidemark FROM @tidemark_commit" // fails if that is NULL
	commits     = "EXECUTE tidemark"
)

// A step is what a statement does for a COMMIT that goes ahead.
type step uint8

const (
	changing step = iota // nothing: it changes rows
	counting             // counts whether the last statement was right
	deciding             // fails if one was not
	ending               // commits
)

// errHeld means that the server did not commit, though no statement has failed.
var errHeld = errors.New("the server did not commit")

// counter is what the client knows of a transaction whose COMMIT goes ahead.
type counter struct {
	ahead   bool
	counted int // statements that the server counts if they are right
}

// moment is the column at of an agent's row. An UPDATE that goes ahead finds the row only if that
// is unchanged. The agent chooses it, so it knows the next one without asking.
type moment struct {
	at    string // "": unknown
	epoch int64
	last  time.Time
}

// next returns a time that the row has not had.
func (m *moment) next() string {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(m.last) {
		now = m.last.Add(time.Microsecond)
	}
	m.last = now
	return now.Format("2006-01-02 15:04:05.000000")
}

// surely is the condition of SQL under which the last statement was right. The server does not tell
// how many rows of an upsert existed, unless all of them did and have changed: two for each row.
func (w *want) surely() string {
	rows := fmt.Sprintf("ROW_COUNT()=%d", w.rows)
	switch {
	case w.any || w.p != nil && w.p.b.Loading:
		rows = "ROW_COUNT()>=0"
	case w.upsert && w.rows > 1:
		rows = fmt.Sprintf("ROW_COUNT()=%d", 2*w.rows)
	case w.fewer:
		rows = fmt.Sprintf("ROW_COUNT() BETWEEN 0 AND %d", w.rows)
	}
	return fmt.Sprintf("%s AND @@warning_count=%d", rows, w.warnings)
}

// count has the server judge the statement just added, if COMMIT goes ahead.
func (o *outgoing) count(w *want) {
	if o.counter.ahead {
		o.counter.counted++
		o.add("SET @tidemark_right=@tidemark_right+("+w.surely()+")", counting)
	}
}

// add adds a statement about other statements.
func (o *outgoing) add(sql string, s step) {
	if len(o.sql) > 0 {
		o.sql = append(o.sql, ';')
	}
	o.sql = append(o.sql, sql...)
	o.wants = append(o.wants, want{step: s})
}

// goAhead decides whether a group's COMMIT goes ahead.
func (a *applier) goAhead(g *change.Group) {
	if a.counter.ahead = a.far && !a.careful && g.Turn == nil && a.moment.at != "" && a.moment.epoch == g.Epoch; a.counter.ahead {
		a.add(resetCounts, counting)
	}
}

// sendAll sends the last statements together with COMMIT. done: the server has committed.
func (a *applier) sendAll() (done bool, object string, err error) {
	a.add(fmt.Sprintf("SET @tidemark_commit=IF(@tidemark_right=%d,'COMMIT',NULL)", a.counter.counted), deciding)
	a.add(prepares, deciding)
	a.add(commits, ending)
	a.committing = true
	object, err = a.send()
	switch {
	case a.s.Dead || a.reached == ending && a.refused: // by COMMIT itself
		return false, object, err
	case a.reached == ending && err != nil:
		return false, object, &tidemark.Error{Op: "apply", Object: object, Kind: tidemark.Bug, Err: fmt.Errorf("the server has committed what should not be: %w", err)}
	}
	a.committing = false
	if err == errHeld {
		return false, "", nil
	}
	return a.reached == ending, object, err
}

// settled is what resolveCommit has found on the target.
type settled struct {
	epoch int64
	done  []uint64
}

// has reports whether all of a group is on the target: the one in doubt, or a part of it that is
// tried on its own.
func (s *settled) has(g *change.Group) bool {
	return s.epoch == g.Epoch && len(g.Txs) > 0 && !slices.ContainsFunc(g.Txs, func(tx *change.Tx) bool { return !slices.Contains(s.done, tx.Place) })
}

// resolveCommit finds out what became of a group whose COMMIT got no answer. One that is still on
// its way to the server cannot commit afterwards: the agent's row has another time then. An error
// means that it is still unknown whether the group is on the target.
func (a *applier) resolveCommit(ctx context.Context, g *change.Group) error {
	a.e.Kill(a.lostID) // others wait for its locks. Behind a proxy the number may mean nothing
	var done []uint64
	err := a.e.OnSession(ctx, "look", a.progress, func(s *server.Session) error {
		which := fmt.Sprintf(" WHERE queue=%s AND agent=%d AND epoch=%d", server.Literal(g.Queue), g.Agent, g.Epoch)
		// The row's lock makes this wait for a transaction that is still ending.
		if err := s.Exec(ctx, "UPDATE "+a.progress+" SET at=GREATEST(CURRENT_TIMESTAMP(6), at + INTERVAL 1 MICROSECOND)"+which); err != nil {
			return err
		}
		r, err := s.Query(ctx, "SELECT low, done FROM "+a.progress+which)
		if err != nil || r.RowNumber() == 0 {
			return err // fenced: the agent's next Apply reports it
		}
		low, err := r.GetUint(0, 0)
		if err != nil {
			return err
		}
		done, err = parsePlaces(low, server.Cell(r, 0, 1))
		return err
	})
	if err != nil {
		return &tidemark.Error{Op: "apply", Object: g.Queue, Kind: tidemark.Transient, Err: fmt.Errorf("the connection broke in COMMIT, and whether the rows are there is not known: %w", err)}
	}
	a.inDoubt, a.settled = false, settled{g.Epoch, done}
	return nil
}
