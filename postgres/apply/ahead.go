package apply

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark/apply/resolve"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// With a distant server, COMMIT goes out with the changes: a transaction takes one round trip
// instead of two. The server then checks what the client would check in the answers: a statement
// fails if it affects another number of rows than expected (guarded), and so does the progress
// row's if another session has written it or a table's columns have changed. The client applies a
// group that fails there once more, in two round trips, whose errors say what is wrong.

// distant is the round trip from which one fewer is worth the guards' processor time.
const distant = 2 * time.Millisecond

// commitAhead is an applier's state for transactions whose COMMIT does not wait for answers.
type commitAhead struct {
	far      bool // the server is distant
	on       bool // for the current transaction
	synced   bool // its Sync has been sent
	progress *prepared
	at       []byte // column at of the agent's row once all that was sent is committed; nil: unknown
	epoch    int64  // of that row
	stamped  int64  // the last at that the agent has named, in microseconds
	pipe     pipeline
}

// doubt is what an agent knows of transactions whose COMMIT got no answer.
type doubt struct {
	epoch   int64    // of the last such transaction; 0: none since resolveCommit
	settled int64    // epoch of done
	low     uint64   // resolveCommit found everything up to here on the target,
	done    []uint64 // and these places
}

// prepareAhead decides whether a group's COMMIT goes ahead, and reads what that takes.
func (a *applier) prepareAhead(ctx context.Context, g *change.Group, ahead bool) error {
	c := &a.ahead
	c.on, c.synced = ahead && c.far && g.Turn == nil, false
	if !c.on || c.at != nil && c.epoch == g.Epoch {
		return nil
	}
	c.epoch = g.Epoch
	err := a.conn.QueryRow(ctx, "SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || 'Z' FROM tidemark.applied WHERE queue = $1 AND agent = $2 AND epoch = $3", g.Queue, g.Agent, g.Epoch).Scan(&c.at)
	if errors.Is(err, pgx.ErrNoRows) {
		return resolve.ErrFenced
	}
	return err
}

// guardedSQL makes a statement fail with division by zero (22012) unless it affects this many rows.
func guardedSQL(sql, rows string) string {
	return "WITH x AS (" + sql + " RETURNING 1) SELECT 1 / (count(*) = " + rows + ")::int FROM x"
}

const guardState = "22012"

// progressAheadSQL is progressSQL for a COMMIT that goes ahead. The agent says what at becomes, so
// that it can name that in the next group before this one is answered.
const progressAheadSQL = `WITH x AS (UPDATE tidemark.applied SET low = $1::bigint, done = $2::bigint[], at = $9::timestamptz
	WHERE queue = $3 AND agent = $4::int AND epoch = $5::bigint AND at = $7::timestamptz
	AND (SELECT coalesce(sum(relnatts), 0) FROM pg_class WHERE oid = ANY ($6::oid[])) = $8::bigint RETURNING 1)
	SELECT 1 / (count(*) = 1)::int FROM x`

// stamp returns the next value of at: the time, and later than all earlier values of the agent.
func (a *applier) stamp() []byte {
	a.ahead.stamped = max(time.Now().UnixMicro(), a.ahead.stamped+1)
	return time.UnixMicro(a.ahead.stamped).UTC().AppendFormat(nil, "2006-01-02 15:04:05.000000Z07:00")
}

// guarded returns the guarded form of one of a shape's statements; nil if the transaction's COMMIT
// waits for the answers, because of this statement or an earlier one.
func (a *applier) guarded(s *shape, many bool) *prepared {
	if !a.ahead.on {
		return nil
	}
	if !s.to.Batched || s.to.fewer(s.Kind) { // rules and triggers; or any number of rows is right
		a.ahead.on = false
		return nil
	}
	to, plain, rows := &s.sureOne, s.one, "1"
	if many {
		to, plain, rows = &s.sureMany, s.many, "$2::bigint"
		if s.both {
			rows = "$3::bigint"
		}
	}
	if *to == nil {
		*to = a.prepare(guardedSQL(plain.sql, rows))
		(*to).binary = plain.binary
	}
	return *to
}

// paramRows sends a number of rows as a binary parameter.
func (a *applier) paramRows(n int) { a.param(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// commitAhead commits together with what has been sent, and reads all answers.
func (a *applier) commitAhead(epoch int64) (object string, err error) {
	if err := a.plain(a.commits); err != nil {
		return "", err
	}
	a.out = append(a.out, 'S', 0, 0, 0, 4)
	a.ahead.synced, a.doubt.epoch = true, epoch
	if err := a.write(); err != nil {
		return "", err
	}
	if object, err = a.readAnswers(); err != nil {
		a.decided(err)
		return object, err
	}
	x := a.l.Answer()
	a.decided(x.Err)
	return "", x.Err
}

// decided clears the doubt about a transaction unless its session has ended without an answer.
func (a *applier) decided(err error) {
	if err == nil || !server.Ended(err) {
		a.doubt.epoch = 0
	}
}

// resolveCommit finds out what became of an agent's transactions whose COMMIT got no answer. What
// is still on its way to the server cannot commit afterwards: the agent's row has changed then.
func (t *Target) resolveCommit(ctx context.Context, a *applier, g *change.Group) error {
	if a.doubt.epoch != g.Epoch {
		return nil // an earlier epoch, which BeginApply has ended
	}
	conn, err := t.Connect(ctx)
	if err != nil {
		return err
	}
	defer server.CloseConn(conn)
	// The row's lock makes this wait for a transaction that is still ending.
	var low int64
	var done []int64
	err = conn.QueryRow(ctx, "UPDATE tidemark.applied SET at = $4::text::timestamptz WHERE queue = $1 AND agent = $2 AND epoch = $3 RETURNING low, done", g.Queue, g.Agent, g.Epoch, string(a.stamp())).Scan(&low, &done)
	if errors.Is(err, pgx.ErrNoRows) {
		return resolve.ErrFenced
	}
	if err != nil {
		return err
	}
	a.doubt = doubt{settled: g.Epoch, low: uint64(low)}
	for _, place := range done {
		a.doubt.done = append(a.doubt.done, uint64(place))
	}
	return nil
}

// has reports whether resolveCommit has found all of a group on the target.
func (d *doubt) has(g *change.Group) bool {
	return d.settled == g.Epoch && len(g.Txs) > 0 && !slices.ContainsFunc(g.Txs, func(tx *change.Tx) bool { return tx.Place > d.low && !slices.Contains(d.done, tx.Place) })
}
