package physical

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A SlotUse is how a physical slot is used.
type SlotUse uint8

const (
	UseSlot       SlotUse = iota // must exist
	MakeSlot                     // created if missing, and permanent
	TemporarySlot                // created, and lasts as long as the session
)

// ReceiveOptions configure which part of a server's log to receive, and how.
type ReceiveOptions struct {
	// Ends are the first place that is still missing of each timeline already received in part;
	// each begins a segment. Receiving continues with the newest one that is in the server's
	// history.
	Ends []tidemark.LogPlace
	// From is where to begin if Ends is empty: with the segment that contains it. 0: where the slot
	// begins, or else the current end of the log.
	From uint64
	// Until is where to end: the segment that contains it is received as far as it exists by then.
	// 0: never. See also End.
	Until uint64
	// System is the system identifier of the server's data; "": the first server's.
	System string

	// Slot is the physical slot that retains the log; "": none, or with TemporarySlot a generated
	// name.
	Slot    string
	SlotUse SlotUse

	// Partial is how often an unfinished segment is emitted if it has grown. 0: only when nothing
	// more of it will arrive.
	Partial time.Duration
	// Reconnect makes Run reconnect after a lost connection, for as long as it takes.
	Reconnect bool
	// Event, if set, is notified of events of the connection: a sentence, and the error that caused
	// it, if any. It must return soon.
	Event func(what string, err error)
}

// A Receiver receives a server's log as a standby does, and emits it as the server's files. The
// role needs REPLICATION.
//
// It begins with a whole segment and skips nothing: it emits segments in order, each whole, and the
// unfinished last one from time to time and when nothing more of it will arrive. When the server
// changes its timeline, it emits the unfinished segment of the old timeline, then the history of
// the new one, then its segments from the one in which the timelines separate.
//
// It confirms only what was taken: the server keeps the rest if there is a slot.
type Receiver struct {
	e    *Cluster
	opt  ReceiveOptions
	size uint64 // of a segment
	page int    // of a WAL page

	system string
	ends   map[uint32]uint64 // as in ReceiveOptions
	given  map[uint32]bool   // timelines whose history was emitted

	mu     sync.Mutex
	until  uint64
	at     tidemark.LogPlace // end of what was received
	safe   tidemark.LogPlace // end of what was taken of it
	end    uint64            // of the server's log, as far as is known
	marks  []mark
	linked bool
	pid    uint32 // of the session that sends; 0: none
	wake   func() // makes the server report the end of its log
}

// A mark is when the server's log was known to reach a place.
type mark struct {
	place uint64
	seen  time.Time
}

// ReceiveStatus is the progress of a Receiver.
type ReceiveStatus struct {
	Connected bool
	PID       uint32 // process of the server's session; 0: not connected
	Timeline  uint32
	Received  uint64        // end of what was received
	Taken     uint64        // end of what was taken of it
	ServerEnd uint64        // end of the server's log, as far as is known
	Lag       time.Duration // for how long the oldest data not yet taken is known to exist
}

// Receive creates a Receiver.
func (c *Cluster) Receive(opt ReceiveOptions) (*Receiver, error) {
	if opt.SlotUse != TemporarySlot && opt.Slot == "" && opt.SlotUse != UseSlot {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "receive", Object: c.Object, Err: errors.New("the slot to create has no name"), Hint: "Name the slot."}
	}
	if opt.Event == nil {
		opt.Event = func(string, error) {}
	}
	r := &Receiver{e: c, opt: opt, system: opt.System, ends: map[uint32]uint64{}, given: map[uint32]bool{}, until: opt.Until}
	for _, p := range opt.Ends {
		r.ends[p.Timeline] = p.Place
	}
	return r, nil
}

// End sets where a Run ends, even one in progress.
func (r *Receiver) End(until uint64) {
	r.mu.Lock()
	r.until = until
	wake := r.wake
	r.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// Status returns the progress.
func (r *Receiver) Status() ReceiveStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := ReceiveStatus{Connected: r.linked, PID: r.pid, Timeline: r.at.Timeline, Received: r.at.Place, Taken: r.safe.Place, ServerEnd: max(r.end, r.at.Place)}
	if len(r.marks) > 0 {
		s.Lag = time.Since(r.marks[0].seen)
	}
	return s
}

// A taker receives the files that Run emits.
type taker = func(ctx context.Context, f *tidemark.LogFile) error

// How long Run waits before it reconnects, initially and at most.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 10 * time.Second
)

// Run emits the log until ctx ends, Until is reached or an error occurs. Once take returns nil the
// file is safe, and the server may remove it; take's ctx lasts a little longer than Run's, so that
// received data can be stored. An error of take is returned unchanged. Kind Lost: the server has
// removed what comes next; Invalid: it has other data, or is on an older timeline; Forbidden: the
// role lacks REPLICATION; NotFound: the slot does not exist.
func (r *Receiver) Run(ctx context.Context, take taker) error {
	pause := firstPause
	for {
		before := r.place()
		err := r.connect(ctx, take)
		r.mu.Lock()
		r.linked, r.pid, r.wake = false, 0, nil
		done := r.until > 0 && r.safe.Place >= r.until
		r.mu.Unlock()
		var em server.EmitError
		switch {
		case errors.As(err, &em):
			return em.Err
		case ctx.Err() != nil:
			return &tidemark.Error{Op: "receive", Object: r.e.Object, Kind: tidemark.Cancelled, Err: context.Cause(ctx)}
		case err == nil && done:
			return nil
		case err == nil:
			continue // with the next timeline
		case !r.opt.Reconnect || !again(err):
			return err
		}
		if r.place() != before {
			pause = firstPause
		}
		r.opt.Event(fmt.Sprintf("connects again in %s", pause), err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// again reports whether a retry may succeed.
func again(err error) bool {
	k := tidemark.KindOf(err)
	return k == tidemark.Transient || k == tidemark.Unreachable
}

func (r *Receiver) place() tidemark.LogPlace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.safe
}

// connect receives in one session, until it or the server's timeline ends.
func (r *Receiver) connect(ctx context.Context, take taker) error {
	conn, err := r.e.ReplicationConn(ctx)
	if err != nil {
		return r.e.forbidden(err)
	}
	lane := r.e.NewLane(conn)
	defer lane.Close()
	server, err := r.identify(ctx, conn)
	if err != nil {
		return r.failed(ctx, err)
	}
	slot, kept, err := r.slot(ctx, conn)
	if err != nil {
		return r.failed(ctx, err)
	}
	server.end = max(server.end, kept) // the log has grown since identify, if the slot is new
	from := r.opt.From
	if from == 0 {
		from = kept
	}
	if from == 0 {
		from = server.end
	}
	at, note, err := server.begin(r.ends, from, r.size)
	switch {
	case err != nil:
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "receive", Object: r.e.Object, Err: err, Hint: "Give the server that was promoted last, or another archive."}
	case note != "":
		r.opt.Event(note, nil)
	}
	if at.Timeline == server.timeline && at.Place > server.end {
		return r.behind(at, server)
	}
	if err := r.histories(ctx, conn, server, at.Timeline, take); err != nil {
		return r.failed(ctx, err)
	}
	r.mu.Lock()
	if r.safe.Timeline != at.Timeline || r.safe.Place < at.Place {
		r.safe = at
	}
	if r.at.Timeline != at.Timeline {
		r.marks, r.end = nil, 0
	}
	r.ends[at.Timeline] = at.Place
	r.mu.Unlock()
	r.came(at, server.end)
	return r.failed(ctx, r.stream(ctx, lane, slot, at, take))
}

// behind is the error of a server whose log ends before what was already received.
func (r *Receiver) behind(at tidemark.LogPlace, server *line) error {
	text := fmt.Sprintf("its log ends at %s of timeline %d, but it was already received up to %s", wal.FormatLSN(server.end), at.Timeline, wal.FormatLSN(at.Place))
	if server.standby {
		return &tidemark.Error{Kind: tidemark.Transient, Op: "receive", Object: r.e.Object, Err: errors.New(text), Hint: "Wait until the standby has caught up, or receive from the primary."}
	}
	return &tidemark.Error{Kind: tidemark.Lost, Op: "receive", Object: r.e.Object, Err: errors.New(text), Hint: "The server lost a part of its WAL, or is a copy of the server that was received from: what it writes now is another history. Start a new archive."}
}

// failed explains why a session has ended.
func (r *Receiver) failed(ctx context.Context, err error) error {
	var em server.EmitError
	switch {
	case err == nil || errors.As(err, &em):
		return err
	case logRemoved(err):
		return &tidemark.Error{Kind: tidemark.Lost, Op: "receive", Object: r.e.Object, Err: errors.New(server.PlainCause(err) + ": there is a gap from " + wal.FormatLSN(r.next()) + " on"), Hint: "Put the missing segments into the archive from elsewhere, or start after the gap and make a new backup; a slot keeps the server from removing WAL that is still to be received."}
	case r.opt.Slot != "" && slices.Contains([]string{"55006", "42710", "42704", "55000"}, server.SQLState(err)):
		return r.slotFailed(err)
	case server.SQLState(err) == "53400" || server.SQLState(err) == "42501":
		return r.e.SlotFailed(ctx, "receive", r.opt.Slot, err)
	}
	return r.e.Fail(ctx, "receive", r.e.Object, err)
}

// next returns the first place that is still missing.
func (r *Receiver) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at.Place
}

// slotFailed explains the server's error about the slot.
func (r *Receiver) slotFailed(err error) error {
	out := &tidemark.Error{Op: "receive", Object: r.opt.Slot, Err: errors.New(server.PlainCause(err))}
	switch server.SQLState(err) {
	case "55006":
		out.Kind, out.Hint = tidemark.Transient, "Another process receives from this slot: stop it, or wait until the server notices that it is gone."
	case "42710":
		out.Kind, out.Hint = tidemark.Exists, "Name another slot: this name is taken."
	case "42704":
		out.Kind, out.Hint = tidemark.NotFound, "Have it made, or make it: SELECT pg_create_physical_replication_slot("+server.QuoteLiteral(r.opt.Slot)+", true);"
	default:
		out.Kind, out.Hint = tidemark.Lost, "The server invalidated the slot and removed WAL that was still to be received: drop the slot and start over."
	}
	return out
}

// identify asks which server this is and which timelines led to it.
func (r *Receiver) identify(ctx context.Context, conn *pgconn.PgConn) (*line, error) {
	row, err := server.AnswerRow(ctx, conn, "IDENTIFY_SYSTEM")
	if err != nil {
		return nil, err
	}
	if len(row) < 3 {
		return nil, errors.New("a malformed answer to IDENTIFY_SYSTEM")
	}
	origin := &line{}
	if _, err = fmt.Sscan(string(row[1]), &origin.timeline); err != nil {
		return nil, err
	}
	if origin.end, err = wal.ParseLSN(string(row[2])); err != nil {
		return nil, err
	}
	system := string(row[0])
	if r.system == "" {
		r.system = system
	}
	if system != r.system {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "receive", Object: r.e.Object, Err: fmt.Errorf("its system identifier is %s, and that of the archive %s: it is another server, not a copy of that one", system, r.system), Hint: "Give the server that the archive began with or a standby of it, or another archive."}
	}
	sizes, err := askSizes(ctx, conn)
	if err != nil {
		return nil, err
	}
	r.size, r.page = sizes.segment, int(sizes.page)
	row, err = server.AnswerRow(ctx, conn, "SELECT pg_is_in_recovery(), ''")
	if err != nil {
		return nil, err
	}
	origin.standby = string(row[0]) == "t"
	if origin.timeline == 1 {
		return origin, nil
	}
	row, err = server.AnswerRow(ctx, conn, fmt.Sprint("TIMELINE_HISTORY ", origin.timeline))
	if err != nil {
		return nil, err
	}
	origin.left, err = wal.ParseHistory(string(row[1]))
	return origin, err
}

// histories emits the history of each timeline in the server's line up to last, unless it was
// already emitted. That of an older timeline may be missing.
func (r *Receiver) histories(ctx context.Context, conn *pgconn.PgConn, origin *line, last uint32, take taker) error {
	for _, n := range origin.numbers() {
		if n == 1 || n > last || r.given[n] {
			continue
		}
		row, err := server.AnswerRow(ctx, conn, fmt.Sprint("TIMELINE_HISTORY ", n))
		if err != nil && n != origin.timeline && logRemoved(err) {
			continue
		}
		if err != nil {
			return err
		}
		name, content := string(row[0]), row[1]
		if name != wal.HistoryName(n) {
			return fmt.Errorf("the history of timeline %d is called %q", n, name)
		}
		if err := take(ctx, &tidemark.LogFile{Name: name, Timeline: n, Bytes: content, Size: len(content)}); err != nil {
			return server.EmitError{Err: err}
		}
		r.given[n] = true
	}
	return nil
}

// slot makes sure that the slot exists, and returns the position from which it keeps the log; 0:
// none. A slot that the server has invalidated is re-created if SlotUse allows it: it no longer
// keeps anything, and servers before 18 would continue silently.
func (r *Receiver) slot(ctx context.Context, conn *pgconn.PgConn) (name string, kept uint64, err error) {
	name = r.opt.Slot
	if r.opt.SlotUse == TemporarySlot && name == "" {
		name = fmt.Sprintf("tidemark_%d", conn.PID())
	}
	if name == "" {
		return "", 0, nil
	}
	if err := r.makeSlot(ctx, conn, name); err != nil {
		return name, 0, err
	}
	kept, err = r.lookAtSlot(ctx, conn, name)
	var up *givenUp
	if !errors.As(err, &up) || r.opt.SlotUse != MakeSlot {
		return name, kept, err
	}
	r.opt.Event("makes slot "+name+" anew", err)
	if _, err := conn.Exec(ctx, "DROP_REPLICATION_SLOT "+server.QuoteIdent(name)).ReadAll(); err != nil {
		return name, 0, err
	}
	if err := r.makeSlot(ctx, conn, name); err != nil {
		return name, 0, err
	}
	kept, err = r.lookAtSlot(ctx, conn, name)
	return name, kept, err
}

// makeSlot creates the slot if SlotUse says so.
func (r *Receiver) makeSlot(ctx context.Context, conn *pgconn.PgConn, name string) error {
	temporary := ""
	switch r.opt.SlotUse {
	case UseSlot:
		return nil
	case TemporarySlot:
		temporary = "TEMPORARY "
	}
	_, err := conn.Exec(ctx, "CREATE_REPLICATION_SLOT "+server.QuoteIdent(name)+" "+temporary+"PHYSICAL RESERVE_WAL").ReadAll()
	if r.opt.SlotUse == MakeSlot && server.SQLState(err) == "42710" { // it exists
		return nil
	}
	return err
}

// givenUp is the error of a slot that the server has invalidated.
type givenUp struct{ setting string }

func (g *givenUp) Error() string {
	return "the server has invalidated the slot (" + g.setting + ") and no longer keeps WAL for it"
}

// lookAtSlot returns the position from which the slot keeps the log.
func (r *Receiver) lookAtSlot(ctx context.Context, conn *pgconn.PgConn, name string) (kept uint64, err error) {
	row, err := server.AnswerRow(ctx, conn, "SELECT slot_type, coalesce(restart_lsn::text, ''), coalesce(wal_status, ''), coalesce(to_jsonb(s) ->> 'invalidation_reason', '') FROM pg_replication_slots s WHERE slot_name = "+server.QuoteLiteral(name)+
		" UNION ALL SELECT '', '', '', '' WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = "+server.QuoteLiteral(name)+")")
	if err != nil {
		return 0, err
	}
	switch kind, from := string(row[0]), string(row[1]); {
	case kind == "":
		return 0, r.slotFailed(&pgconn.PgError{Code: "42704", Message: "there is no such slot"})
	case kind != "physical":
		return 0, &tidemark.Error{Kind: tidemark.Invalid, Op: "receive", Object: name, Err: errors.New("it is a logical slot, and receiving WAL needs a physical one"), Hint: "Name another slot."}
	case string(row[2]) == "lost":
		up := &givenUp{"max_slot_wal_keep_size"}
		if string(row[3]) == "idle_timeout" { // since 18
			up.setting = "idle_replication_slot_timeout"
		}
		return 0, &tidemark.Error{Op: "receive", Object: name, Kind: tidemark.Lost, Err: up,
			Hint: "Drop it and have it made anew, SELECT pg_drop_replication_slot(" + server.QuoteLiteral(name) + "): if the server has removed log that was to come, the place is named then."}
	case from != "":
		kept, err = wal.ParseLSN(from)
	}
	return kept, err
}

// DropLogSlot drops a physical slot if it exists.
func (c *Cluster) DropLogSlot(ctx context.Context, name string) error {
	conn, release, err := c.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	_, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND slot_type = 'physical'", name)
	return c.slotFailedUnless(ctx, "drop slot", name, err)
}

// slotFailedUnless is slotFailed if there is an error.
func (c *Cluster) slotFailedUnless(ctx context.Context, op, name string, err error) error {
	if err == nil {
		return nil
	}
	return c.SlotFailed(ctx, op, name, err)
}

// A line is the history of a server's data: the timelines that led to it.
type line struct {
	timeline uint32              // the current one
	end      uint64              // of its log
	standby  bool                // it receives its log from another server
	left     []tidemark.LogPlace // earlier timelines in order, and where each was left
}

// numbers returns the numbers of the timelines, in order.
func (s *line) numbers() (out []uint32) {
	for _, p := range s.left {
		out = append(out, p.Timeline)
	}
	return append(out, s.timeline)
}

// begin returns the place of the segment to continue with, size bytes each: that of the newest
// timeline in the server's line of which something was received; if nothing was received at all,
// the one that contains from. note is a warning for the user; the error is a sentence.
func (s *line) begin(ends map[uint32]uint64, from, size uint64) (at tidemark.LogPlace, note string, err error) {
	for n := range ends {
		if n > s.timeline {
			return at, "", fmt.Errorf("it is on timeline %d, and the archive already has WAL of timeline %d: it is not the server that was promoted last", s.timeline, n)
		}
	}
	numbers := s.numbers()
	i := len(numbers) - 1
	for i >= 0 && ends[numbers[i]] == 0 {
		i--
	}
	switch {
	case i >= 0:
		at = tidemark.LogPlace{Timeline: numbers[i], Place: ends[numbers[i]]}
	case len(ends) > 0:
		return at, "", fmt.Errorf("the history of its timeline %d has no timeline of the archive", s.timeline)
	default:
		for i = 0; i < len(s.left) && s.left[i].Place <= from; {
			i++
		}
		at = tidemark.LogPlace{Timeline: numbers[i], Place: from / size * size}
	}
	for ; i < len(s.left) && at.Place >= s.left[i].Place; i++ {
		p := s.left[i]
		if at.Place >= p.Place+size {
			note = fmt.Sprintf("the server left timeline %d at %s, and the archive has it up to %s: the server lacks the WAL after that point", p.Timeline, wal.FormatLSN(p.Place), wal.FormatLSN(at.Place))
		}
		at = tidemark.LogPlace{Timeline: numbers[i+1], Place: p.Place / size * size}
	}
	return at, note, nil
}
