package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	out, err := b.WriteEach(ctx, lane, []tidemark.Write{w}, take)
	return out[0], err
}

// WriteEach is Write for several ranges, in order, which are committed together or not at all. Of
// several, none can have bad rows: Reject is not called.
func (b *Bulk) WriteEach(ctx context.Context, lane int, ws []tidemark.Write, take func() (*tidemark.Batch, error)) ([]tidemark.Written, error) {
	out := make([]tidemark.Written, len(ws))
	l := b.laneOf(b.writers, lane, writerReady)
	if err := l.Open(ctx); err != nil {
		return out, err
	}
	b.busy.Add(1)
	defer b.busy.Add(-1)
	if err := b.readTarget(ctx); err != nil {
		return out, err
	}
	t := &transaction{e: b, l: l, run: ws[0].Run}
	for _, w := range ws {
		take, err := converted(w, take)
		if err != nil {
			return out, err
		}
		t.parts = append(t.parts, t.newCopyIn(w, take))
	}
	var err error
	if len(ws) == 1 && ws[0].Reject != nil {
		err = t.parts[0].rejecting(ctx)
	} else {
		err = t.stream(ctx)
	}
	if err != nil {
		if b.superseded(ctx, t.run) {
			err = takenOver(t.run) // what it found, such as existing rows, was written by the other process
		}
		return out, err
	}
	for i, c := range t.parts {
		out[i] = c.out
		b.noteCommit(c.w)
	}
	return out, nil
}

// Bundles reports whether WriteEach may write a move's ranges together with others.
func (b *Bulk) Bundles(m *tidemark.Move) bool { return m.To.Form != tidemark.LargeObjects }

// A transaction is the load of one range, or of several small ones.
type transaction struct {
	e     *Bulk
	l     *lane
	run   string
	parts []*copyIn
}

// A copyIn is the load of one range into one table.
type copyIn struct {
	*transaction
	w    tidemark.Write
	take func() (*tidemark.Batch, error)

	object  string // in messages
	into    string // table and columns
	before  string // statements before the COPY
	after   string // statements after it
	options string
	leaf    tidemark.TableID
	checked bool  // triggers may drop rows, so the server's count is used
	count   int64 // of rows, for the marker
	out     tidemark.Written
}

func (t *transaction) newCopyIn(w tidemark.Write, take func() (*tidemark.Batch, error)) *copyIn {
	c := &copyIn{transaction: t, w: w, take: take, leaf: w.Move.To.TableID}
	if len(t.parts) == 0 {
		c.before = "BEGIN; "
	}
	c.out.Method = "COPY"
	if w.Move.Direct && w.Range.Part != nil && w.Range.Part.Table.Name != "" {
		c.leaf = w.Range.Part.Table // bypasses the routing of rows to partitions
	}
	c.object = server.QuoteTable(c.leaf)
	if w.Move.To.Form == tidemark.LargeObjects {
		c.object, c.into = "large objects", largeObjectCopy
		c.before += largeObjectStage + "; "
		c.after = largeObjectStore + "; "
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
	target := &t.e.target
	target.mu.Lock()
	defer target.mu.Unlock()
	if target.triggers[c.leaf] || target.triggers[w.Move.To.TableID] {
		if target.replica {
			// The source has already done what the triggers would repeat.
			c.before += "SET LOCAL session_replication_role = replica; "
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
	c.before += "TRUNCATE TABLE ONLY " + server.QuoteTable(c.leaf) + "; "
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
func (t *transaction) finishSQL() string {
	var after, marks strings.Builder
	for i, c := range t.parts {
		after.WriteString(c.after)
		if i > 0 {
			marks.WriteString(", ")
		}
		fmt.Fprintf(&marks, "(%s, %d, %d)", server.QuoteLiteral(t.run), c.w.Range.ID, c.count)
	}
	if t.run == "" {
		return after.String() + "COMMIT"
	}
	return after.String() + t.e.fenceSQL(t.run) + "INSERT INTO tidemark.copied (run, range, rows) VALUES " + marks.String() + "; COMMIT"
}

// stream is the fast path: it sends everything without waiting for an answer, so that all ranges
// together cost one round trip, while another goroutine reads the server's messages.
func (t *transaction) stream(ctx context.Context) error {
	c := t.parts[0]
	first, err := c.take()
	if err != nil {
		return err
	}
	l := t.l
	release, err := l.Raw(ctx)
	if err != nil {
		first.Release()
		l.Close()
		return t.fail(ctx, err)
	}
	defer release()
	if err := l.Send(c.begin(first)); err != nil {
		first.Release()
		l.Abandon()
		return t.fail(ctx, err)
	}
	heard := make(chan server.Answer, 1)
	crash.Go(func() {
		a := server.Answer{Err: errors.New("nobody reads the server's answers"), Broken: true} // until replaced
		defer func() { heard <- a }()
		a = t.listen()
	})
	for i, c := range t.parts {
		if i > 0 {
			var taken error
			if first, taken = c.take(); taken != nil {
				return t.giveUp(heard, taken)
			}
			if err := l.SendDone(t.parts[i-1].tail(), c.begin(first)); err != nil {
				first.Release()
				return t.refused(ctx, heard, err)
			}
		}
		taken, err := c.pump(first, heard)
		switch {
		case taken != nil: // the source failed
			return t.giveUp(heard, taken)
		case err != nil: // a broken connection, or the server refused
			return t.refused(ctx, heard, err)
		}
	}
	return t.end(ctx, heard)
}

// listen reads the answers to all COPYs, or up to the first that failed, and returns the last.
func (t *transaction) listen() (a server.Answer) {
	for _, c := range t.parts {
		if a = t.l.Answer(); a.Err != nil || a.Broken {
			break
		}
		c.out.Rows = a.Rows()
	}
	return a
}

// begin returns the statements up to the COPY of rows whose first batch is this.
func (c *copyIn) begin(first *tidemark.Batch) string {
	if !first.Last || len(first.Data) >= freezeFrom {
		c.fresh()
	}
	return c.before + c.copySQL()
}

// tail is what ends the rows.
func (c *copyIn) tail() []byte {
	if c.w.Format == tidemark.CopyBinary {
		return binaryTail
	}
	return nil
}

// errRefused stands for an error that the server sent before it had all rows.
var errRefused = errors.New("refused")

// pump sends batches until the last. taken is take's error.
func (c *copyIn) pump(first *tidemark.Batch, heard chan server.Answer) (taken, err error) {
	if c.w.Format == tidemark.CopyBinary {
		err = c.l.SendData(binaryHead)
	}
	for b := first; ; {
		if err != nil {
			b.Release()
			return nil, err
		}
		if len(b.Data) > 0 {
			err = c.l.SendData(b.Data)
		}
		c.count += int64(b.Rows)
		c.out.Bytes += int64(len(b.Data))
		last := b.Last
		b.Release()
		switch {
		case err != nil || last:
			return nil, err
		case len(heard) > 0: // the server answers before we are done
			return nil, errRefused
		}
		if b, taken = c.take(); taken != nil {
			return taken, nil
		}
	}
}

// end sends the end of the last range, and waits for all answers.
func (t *transaction) end(ctx context.Context, heard chan server.Answer) error {
	finish := t.finishSQL()
	if slices.ContainsFunc(t.parts, func(c *copyIn) bool { return c.checked }) {
		finish = ""
	}
	if err := t.l.SendDone(t.parts[len(t.parts)-1].tail(), finish); err != nil {
		return t.refused(ctx, heard, err)
	}
	a := <-heard
	if a.Broken && finish != "" {
		return t.committed(ctx, a) // the server may have executed all of it
	}
	if a.Err != nil {
		if !a.Broken && finish != "" && len(t.parts) == 1 {
			a.Broken = t.l.Answer().Broken // finish failed for the same reason
		}
		heard <- a
		return t.refused(ctx, heard, errRefused)
	}
	if finish == "" {
		for _, c := range t.parts {
			c.count = c.out.Rows
		}
		if err := t.l.Send(t.finishSQL()); err != nil {
			t.l.Abandon()
			return t.fail(ctx, err)
		}
	}
	return t.committed(ctx, t.l.Answer())
}

// committed evaluates the answer to the commit.
func (t *transaction) committed(ctx context.Context, a server.Answer) error {
	switch {
	case a.Err == nil && a.Status == 'I':
		return nil
	case a.Err == nil:
		a.Err = errors.New("the transaction did not end")
	case !a.Broken:
		err := t.fail(ctx, a.Err)
		t.rollback(ctx)
		if server.SQLState(a.Err) == "22012" && t.run != "" {
			return takenOver(t.run)
		}
		// An earlier attempt with an unknown outcome may have committed after all.
		if server.SQLState(a.Err) == "23505" && t.run != "" && t.marked(ctx) {
			return nil
		}
		return err
	}
	t.l.Abandon()
	if ctx.Err() == nil && t.run != "" && t.marked(ctx) {
		return nil
	}
	return t.fail(ctx, a.Err)
}

// marked looks for the markers of all ranges, on another session, and takes the rows from them.
func (t *transaction) marked(ctx context.Context) bool {
	ids := make([]int, len(t.parts))
	for i, c := range t.parts {
		ids[i] = c.w.Range.ID
	}
	for try := range 6 {
		conn, release, err := t.e.Control(ctx)
		if err == nil {
			var marks []tidemark.Mark
			marks, err = marksOf(ctx, conn, t.run, ids)
			release()
			if err == nil {
				rows := map[int]int64{}
				for _, m := range marks {
					rows[m.Range] = m.Rows
				}
				for _, c := range t.parts {
					c.out.Rows = rows[c.w.Range.ID]
				}
				return len(rows) == len(ids)
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Duration(100<<try) * time.Millisecond):
		}
	}
	return false
}

// giveUp makes the server discard the rows, because take failed.
func (t *transaction) giveUp(heard chan server.Answer, taken error) error {
	alone := len(t.parts) == 1 && t.l.SendFail("the source failed") == nil
	if !alone {
		_ = t.l.Conn.Conn().Close() // ends listen, which still reads from the lane
	}
	if a := <-heard; a.Broken || !alone {
		t.l.Abandon()
		return taken
	}
	t.rollback(context.Background())
	return taken
}

// refused determines the server's error, and ends the transaction.
func (t *transaction) refused(ctx context.Context, heard chan server.Answer, err error) error {
	var a server.Answer
	if err == errRefused {
		a = <-heard
	} else {
		// The connection broke. The server's last message says more than that.
		if ctx.Err() == nil {
			_ = t.l.Conn.Conn().SetReadDeadline(time.Now().Add(time.Second)) // fails only on a closed socket
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
	out := t.fail(ctx, a.Err)
	if a.Broken || len(t.parts) > 1 { // answers to what was sent ahead may follow
		t.l.Abandon()
	} else {
		t.rollback(ctx)
	}
	return out
}

// rollback ends the failed transaction; if even that fails, it closes the session.
func (t *transaction) rollback(ctx context.Context) {
	if ctx.Err() != nil || t.l.Send("ROLLBACK") != nil {
		t.l.Abandon()
		return
	}
	if a := t.l.Answer(); a.Err != nil || a.Status != 'I' {
		t.l.Abandon()
	}
}

// fail describes an error of the transaction. Of several ranges it does not say which one failed.
func (t *transaction) fail(ctx context.Context, err error) error {
	c := t.parts[0]
	if n := len(t.parts) - 1; n > 0 {
		return t.e.Fail(ctx, "write", fmt.Sprintf("%s and %d more tables", c.object, n), err)
	}
	grant := "INSERT ON TABLE " + c.object
	if c.options != "" {
		grant = "INSERT, TRUNCATE ON TABLE " + c.object
	}
	return t.e.FailGrant(ctx, "write", c.object, err, grant)
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
		if replica, err = server.MayBeReplica(ctx, conn); err != nil {
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
