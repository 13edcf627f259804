package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// freezeFrom is the size in bytes from which a fresh table is truncated so that its rows may be
// frozen as they arrive; below it, the new file costs more than a later VACUUM.
const freezeFrom = 256 << 10

// binaryHead is the signature, flags and extension of COPY's binary format; binaryTail is its end.
var (
	binaryHead = []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	binaryTail = []byte{0xff, 0xff}
)

// targetFacts is what all writing lanes know about the target, and what they have committed to it.
type targetFacts struct {
	readMu sync.Mutex // held while they are read
	read   bool

	mu       sync.Mutex
	triggers map[tidemark.TableID]bool // with triggers, including those of foreign keys
	replica  bool                      // the role may disable triggers

	epochs    map[string]int64 // of the runs that this Engine has begun: see Begin
	run       string
	committed []int // ranges with markers that this Engine has committed
}

// writerReady prepares a session for writing.
//
// A commit does not wait for the disk: a crash of the server loses the last transactions as a
// whole, rows and marker together, so the markers stay true. verify makes sure that this Engine no
// longer relies on lost ones; and the commit of Forget, which ends a run, waits for the disk and so
// for all commits before it.
func writerReady(ctx context.Context, l *lane) error {
	return l.s.Fail(ctx, "connect", l.s.Object, l.Exec(ctx, "SET synchronous_commit = off"))
}

// Write takes batches until the last of a range, and commits them with their marker row. If the
// connection breaks during the commit, the marker row decides. An error that does not come from the
// session, such as take's, leaves nothing behind.
func (b *Bulk) Write(ctx context.Context, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error) {
	l := b.laneOf(b.writers, lane, writerReady)
	if err := l.Open(ctx); err != nil {
		return tidemark.Written{}, err
	}
	b.busy.Add(1)
	defer b.busy.Add(-1)
	if err := b.readTarget(ctx); err != nil {
		return tidemark.Written{}, err
	}
	take, err := converted(w, take)
	if err != nil {
		return tidemark.Written{}, err
	}
	c := b.newCopyIn(l, w, take)
	if w.Reject != nil {
		err = c.rejecting(ctx)
	} else {
		err = c.stream(ctx)
	}
	if err == nil {
		b.noteCommit(w)
	} else {
		c.out = tidemark.Written{}
		if b.superseded(ctx, w.Run) {
			err = takenOver(w.Run) // what it found, such as existing rows, was written by the other process
		}
	}
	return c.out, err
}

// A copyIn is the load of one range into one table.
type copyIn struct {
	e    *Bulk
	l    *lane
	w    tidemark.Write
	take func() (*tidemark.Batch, error)

	object  string // in messages
	into    string // table and columns
	before  string // statements before the COPY
	after   string // statements after it
	options string
	leaf    tidemark.TableID
	checked bool // triggers may drop rows, so the server's count is used
	out     tidemark.Written
}

func (b *Bulk) newCopyIn(l *lane, w tidemark.Write, take func() (*tidemark.Batch, error)) *copyIn {
	c := &copyIn{e: b, l: l, w: w, take: take, before: "BEGIN", leaf: w.Move.To.TableID}
	c.out.Method = "COPY"
	if w.Move.Direct && w.Range.Part != nil && w.Range.Part.Table.Name != "" {
		c.leaf = w.Range.Part.Table // bypasses the routing of rows to partitions
	}
	c.object = server.QuoteTable(c.leaf)
	if w.Move.To.Form == tidemark.LargeObjects {
		c.object, c.into = "large objects", largeObjectCopy
		c.before += "; " + largeObjectStage
		c.after = largeObjectStore
		return c
	}
	c.into = server.QuoteTable(c.leaf)
	if cols := w.Move.To.Stored(); len(cols) > 0 {
		names := make([]string, len(cols))
		for i, col := range cols {
			names[i] = col.Name
		}
		c.into += " (" + server.QuoteIdents(names) + ")"
	}
	b.target.mu.Lock()
	defer b.target.mu.Unlock()
	if b.target.triggers[c.leaf] || b.target.triggers[w.Move.To.TableID] {
		if b.target.replica {
			// The source has already done what the triggers would repeat.
			c.before += "; SET LOCAL session_replication_role = replica"
		} else {
			c.checked = true
		}
	}
	return c
}

// fresh gives the table a new file in this transaction, so that COPY can freeze rows and, with
// wal_level minimal, skip the log.
func (c *copyIn) fresh() {
	root := c.w.Move.To.Form == tidemark.Partitioned && c.leaf == c.w.Move.To.TableID
	if !c.w.Fresh || root || c.w.Move.To.Form == tidemark.LargeObjects {
		return
	}
	c.before += "; TRUNCATE TABLE ONLY " + server.QuoteTable(c.leaf)
	c.options = "FREEZE"
	c.out.Method = "COPY FREEZE"
}

func (c *copyIn) copySQL() string {
	options := c.options
	if c.w.Format == tidemark.CopyBinary {
		if options != "" {
			options += ", "
		}
		options += "FORMAT binary"
	}
	if options != "" {
		options = " WITH (" + options + ")"
	}
	return "COPY " + c.into + " FROM STDIN" + options
}

// finishSQL returns the statements that end the transaction.
func (c *copyIn) finishSQL(rows int64) string {
	sql := "COMMIT"
	if c.w.Run != "" {
		sql = c.e.fenceSQL(c.w.Run) + fmt.Sprintf("INSERT INTO tidemark.copied (run, range, rows) VALUES (%s, %d, %d); COMMIT", server.QuoteLiteral(c.w.Run), c.w.Range.ID, rows)
	}
	if c.after != "" {
		sql = c.after + "; " + sql
	}
	return sql
}

// stream is the fast path: it sends everything without waiting for an answer, so that a range costs
// one round trip, while another goroutine reads the server's messages.
func (c *copyIn) stream(ctx context.Context) error {
	first, err := c.take()
	if err != nil {
		return err
	}
	if !first.Last || len(first.Data) >= freezeFrom {
		c.fresh()
	}
	l := c.l
	release, err := l.Raw(ctx)
	if err != nil {
		first.Release()
		l.Close()
		return c.fail(ctx, err)
	}
	defer release()
	if err := l.Send(c.before + "; " + c.copySQL()); err != nil {
		first.Release()
		l.Abandon()
		return c.fail(ctx, err)
	}
	heard := make(chan server.Answer, 1)
	crash.Go(func() {
		a := server.Answer{Err: errors.New("nobody reads the server's answers"), Broken: true} // until replaced
		defer func() { heard <- a }()
		a = l.Answer()
	})
	rows, taken, err := c.pump(first, heard)
	switch {
	case taken != nil: // the source failed
		return c.giveUp(heard, taken)
	case err != nil: // a broken connection, or the server refused
		return c.refused(ctx, heard, err)
	}
	return c.end(ctx, heard, rows)
}

// errRefused stands for an error that the server sent before it had all rows.
var errRefused = errors.New("refused")

// pump sends batches until the last. taken is take's error.
func (c *copyIn) pump(first *tidemark.Batch, heard chan server.Answer) (rows int64, taken, err error) {
	if c.w.Format == tidemark.CopyBinary {
		err = c.l.SendData(binaryHead)
	}
	for b := first; ; {
		if err != nil {
			b.Release()
			return rows, nil, err
		}
		if len(b.Data) > 0 {
			err = c.l.SendData(b.Data)
		}
		rows += int64(b.Rows)
		c.out.Bytes += int64(len(b.Data))
		last := b.Last
		b.Release()
		switch {
		case err != nil || last:
			return rows, nil, err
		case len(heard) > 0: // the server answers before we are done
			return rows, nil, errRefused
		}
		if b, taken = c.take(); taken != nil {
			return rows, taken, nil
		}
	}
}

// end sends the end of the range, and waits for all answers.
func (c *copyIn) end(ctx context.Context, heard chan server.Answer, rows int64) error {
	var tail []byte
	if c.w.Format == tidemark.CopyBinary {
		tail = binaryTail
	}
	finish := c.finishSQL(rows)
	if c.checked {
		finish = ""
	}
	if err := c.l.SendDone(tail, finish); err != nil {
		return c.refused(ctx, heard, err)
	}
	a := <-heard
	if a.Broken && finish != "" {
		return c.committed(ctx, a) // the server may have executed all of it
	}
	if a.Err != nil {
		if !a.Broken && finish != "" {
			a.Broken = c.l.Answer().Broken // finish failed for the same reason
		}
		heard <- a
		return c.refused(ctx, heard, errRefused)
	}
	c.out.Rows = a.Rows()
	if c.checked {
		finish = c.finishSQL(c.out.Rows)
		if err := c.l.Send(finish); err != nil {
			c.l.Abandon()
			return c.fail(ctx, err)
		}
	}
	return c.committed(ctx, c.l.Answer())
}

// committed evaluates the answer to the commit.
func (c *copyIn) committed(ctx context.Context, a server.Answer) error {
	switch {
	case a.Err == nil && a.Status == 'I':
		return nil
	case a.Err == nil:
		a.Err = errors.New("the transaction did not end")
	case !a.Broken:
		err := c.fail(ctx, a.Err)
		c.rollback(ctx)
		if server.SQLState(a.Err) == "22012" && c.w.Run != "" {
			return takenOver(c.w.Run)
		}
		if server.SQLState(a.Err) == "23505" && c.w.Run != "" {
			// An earlier attempt with an unknown outcome has committed after all.
			if found, rows := c.marker(ctx); found {
				c.out.Rows = rows
				return nil
			}
		}
		return err
	}
	c.l.Abandon()
	if ctx.Err() == nil && c.w.Run != "" {
		if found, rows := c.marker(ctx); found {
			c.out.Rows = rows
			return nil
		}
	}
	return c.fail(ctx, a.Err)
}

// marker looks for the range's marker, on another session.
func (c *copyIn) marker(ctx context.Context) (found bool, rows int64) {
	for try := range 6 {
		conn, release, err := c.e.Control(ctx)
		if err == nil {
			err = conn.QueryRow(ctx, "SELECT rows FROM tidemark.copied WHERE run = $1 AND range = $2", c.w.Run, c.w.Range.ID).Scan(&rows)
			release()
			if err == nil || errors.Is(err, pgx.ErrNoRows) {
				return err == nil, rows
			}
		}
		select {
		case <-ctx.Done():
			return false, 0
		case <-time.After(time.Duration(100<<try) * time.Millisecond):
		}
	}
	return false, 0
}

// giveUp makes the server discard the rows, because take failed.
func (c *copyIn) giveUp(heard chan server.Answer, taken error) error {
	if err := c.l.SendFail("the source failed"); err != nil {
		c.l.Abandon()
		return taken
	}
	if a := <-heard; a.Broken {
		c.l.Abandon()
		return taken
	}
	c.rollback(context.Background())
	return taken
}

// refused determines the server's error, and ends the transaction.
func (c *copyIn) refused(ctx context.Context, heard chan server.Answer, err error) error {
	var a server.Answer
	if err == errRefused {
		a = <-heard
	} else {
		// The connection broke. The server's last message says more than that.
		if ctx.Err() == nil {
			_ = c.l.Conn.Conn().SetReadDeadline(time.Now().Add(time.Second)) // fails only on a closed socket
		}
		a = <-heard
		a.Broken = true
		if a.Err == nil || server.Broken(a.Err) {
			a.Err = err
		}
	}
	if a.Err == nil {
		a.Err = errors.New("the server ended COPY before all rows were sent")
		a.Broken = true
	}
	out := c.fail(ctx, a.Err)
	if a.Broken {
		c.l.Abandon()
	} else {
		c.rollback(ctx)
	}
	return out
}

// rollback ends the failed transaction; if even that fails, it closes the session.
func (c *copyIn) rollback(ctx context.Context) {
	if ctx.Err() != nil || c.l.Send("ROLLBACK") != nil {
		c.l.Abandon()
		return
	}
	if a := c.l.Answer(); a.Err != nil || a.Status != 'I' {
		c.l.Abandon()
	}
}

func (c *copyIn) fail(ctx context.Context, err error) error {
	grant := "INSERT ON TABLE " + c.object
	if c.options != "" {
		grant = "INSERT, TRUNCATE ON TABLE " + c.object
	}
	return c.e.FailGrant(ctx, "write", c.object, err, grant)
}

// readTarget finds out, once, which tables have triggers, and whether our sessions may disable
// them.
func (b *Bulk) readTarget(ctx context.Context) error {
	b.target.readMu.Lock()
	defer b.target.readMu.Unlock()
	if b.target.read {
		return nil
	}
	conn, release, err := b.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	rows, err := conn.Query(ctx, `SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relhastriggers AND EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgenabled <> 'D')`)
	if err != nil {
		return b.Fail(ctx, "inspect", b.Object, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[tidemark.TableID])
	if err != nil {
		return b.Fail(ctx, "inspect", b.Object, err)
	}
	replica := false
	if len(found) > 0 {
		_, err = conn.Exec(ctx, "BEGIN; SET LOCAL session_replication_role = replica; ROLLBACK", pgx.QueryExecModeSimpleProtocol)
		replica = err == nil
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			return b.Fail(ctx, "inspect", b.Object, err)
		}
	}
	b.target.mu.Lock()
	b.target.triggers, b.target.replica = map[tidemark.TableID]bool{}, replica
	for _, id := range found {
		b.target.triggers[id] = true
	}
	b.target.mu.Unlock()
	b.target.read = true
	return nil
}

// noteCommit remembers a range that verify has to find on the target.
func (b *Bulk) noteCommit(w tidemark.Write) {
	if w.Run == "" {
		return
	}
	b.target.mu.Lock()
	defer b.target.mu.Unlock()
	if b.target.run != w.Run {
		b.target.run, b.target.committed = w.Run, nil
	}
	b.target.committed = append(b.target.committed, w.Range.ID)
}

// forgetCommits undoes noteCommit; nil means all of them.
func (b *Bulk) forgetCommits(run string, ranges []int) {
	b.target.mu.Lock()
	defer b.target.mu.Unlock()
	if b.target.run != run {
		return
	}
	b.target.committed = slices.DeleteFunc(b.target.committed, func(id int) bool { return ranges == nil || slices.Contains(ranges, id) })
}

// verify runs on every session opened after the first commit. A crash of the server, or a failover
// to a standby that was behind, ends all sessions, and may lose commits that did not wait for the
// disk; then a marker is missing here, and the run has to read again what is on the target.
func (b *Bulk) verify(ctx context.Context, conn *pgx.Conn) error {
	b.target.mu.Lock()
	run, committed := b.target.run, slices.Clone(b.target.committed)
	b.target.mu.Unlock()
	if len(committed) == 0 {
		return nil
	}
	var missing int
	err := conn.QueryRow(ctx, `SELECT count(*) FROM unnest($2::int[]) w(range)
		WHERE NOT EXISTS (SELECT 1 FROM tidemark.copied c WHERE c.run = $1 AND c.range = w.range)`, run, committed).Scan(&missing)
	if s := server.SQLState(err); s == "42P01" || s == "3F000" {
		err, missing = nil, len(committed)
	}
	if err != nil {
		return b.Fail(ctx, "connect", b.Object, err)
	}
	if missing > 0 {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "write", Object: b.Object, Err: fmt.Errorf("the server has lost %d ranges that it had committed: it crashed, or a standby took over", missing), Hint: "Start again with --resume: what is missing is copied again."}
	}
	return nil
}
