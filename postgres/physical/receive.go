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

// A SlotUse says what becomes of a physical slot.
type SlotUse uint8

const (
	UseSlot       SlotUse = iota // it has to be there
	MakeSlot                     // it is made where it is not there, and stays
	TemporarySlot                // it is made, and lasts as long as the session with the server
)

// ReceiveOptions say which part of a server's log is received, and how.
type ReceiveOptions struct {
	// Ends are the first place that is wanted of each timeline of which there is something
	// already, which begins a segment. The newest that the server's history has is gone on with.
	Ends []tidemark.LogPlace
	// From is where to begin where Ends have nothing: with the segment that holds it. 0: where
	// the slot has kept the log from, or else where the log ends now.
	From uint64
	// Until is where to end: the segment that holds it comes as far as it is there by then. 0:
	// never. See also End.
	Until uint64
	// System is the system identifier of the server's data; "": the first server's.
	System string

	// Slot is the physical slot that keeps the log for us; "": none, or with TemporarySlot one
	// with a name of our own.
	Slot    string
	SlotUse SlotUse

	// Partial is how often a segment that is not full is given, if something has come. 0: only
	// when nothing more comes of it.
	Partial time.Duration
	// Reconnect is to connect again for as long as it takes when the connection is lost.
	Reconnect bool
	// Event, if it is set, is told what happens to the connection: a sentence, and an error
	// where one is the reason. It returns soon.
	Event func(what string, err error)
}

// A Receiver receives a server's log as a standby does, and hands it on as the files that the
// server has. The role needs REPLICATION.
//
// It begins with a whole segment and leaves nothing out: what is handed on are segments one
// after the other, each whole, and of the last one, from time to time and when nothing more
// comes of it, what is there. When the server changes its timeline, the unfinished segment of
// the old one is handed on, then the history of the new one, then its segments from the one in
// which the timelines part.
//
// The server hears only of what was taken: it keeps the rest, as far as a slot makes it.
type Receiver struct {
	e    *Cluster
	opt  ReceiveOptions
	size uint64 // of a segment
	page int    // and of a page

	system string
	ends   map[uint32]uint64 // as in ReceiveOptions
	given  map[uint32]bool   // timelines whose history was handed on

	mu     sync.Mutex
	until  uint64
	at     tidemark.LogPlace // end of what has come
	safe   tidemark.LogPlace // and of what was taken of it
	end    uint64            // of the server's log, as far as is known
	marks  []mark
	linked bool
	wake   func() // makes the server say where its log ends
}

// A mark is when the server's log was known to reach a place.
type mark struct {
	place uint64
	seen  time.Time
}

// ReceiveStatus is how far a Receiver is.
type ReceiveStatus struct {
	Connected bool
	Timeline  uint32
	Received  uint64        // end of what has come
	Taken     uint64        // and of what was taken of it
	ServerEnd uint64        // end of the server's log, as far as is known
	Lag       time.Duration // for how long the oldest of what was not taken is known to be there
}

// Receive makes a Receiver.
func (c *Cluster) Receive(opt ReceiveOptions) (*Receiver, error) {
	if opt.SlotUse != TemporarySlot && opt.Slot == "" && opt.SlotUse != UseSlot {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "receive", Object: c.Object, Err: errors.New("a slot is to be made that has no name"), Hint: "Name the slot."}
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

// End says where to end a Run, also one that is under way.
func (r *Receiver) End(until uint64) {
	r.mu.Lock()
	r.until = until
	wake := r.wake
	r.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// Status says how far it is.
func (r *Receiver) Status() ReceiveStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := ReceiveStatus{Connected: r.linked, Timeline: r.at.Timeline, Received: r.at.Place, Taken: r.safe.Place, ServerEnd: max(r.end, r.at.Place)}
	if len(r.marks) > 0 {
		s.Lag = time.Since(r.marks[0].seen)
	}
	return s
}

// A taker is what Run hands files to.
type taker = func(ctx context.Context, f *tidemark.LogFile) error

// How long Run waits before it connects again, first and at most.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 10 * time.Second
)

// Run hands on the log until ctx ends, Until is reached or something fails. When take returns
// nil the file is safe, and the server may forget it; its ctx lasts a little longer than that
// of Run, so that what has come can be kept. An error of take is returned as it is. Kind Lost: the server has removed what is to come next; Invalid: it has
// other data, or is in an older timeline; Forbidden: the role lacks REPLICATION; NotFound: the
// slot is not there.
func (r *Receiver) Run(ctx context.Context, take taker) error {
	pause := firstPause
	for {
		before := r.place()
		err := r.connect(ctx, take)
		r.mu.Lock()
		r.linked, r.wake = false, nil
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

// again reports whether what failed may be better later.
func again(err error) bool {
	k := tidemark.KindOf(err)
	return k == tidemark.Transient || k == tidemark.Unreachable
}

func (r *Receiver) place() tidemark.LogPlace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.safe
}

// connect receives in one session, until it ends or the server's timeline does.
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

// behind is the error of a server whose log ends before what is there of it.
func (r *Receiver) behind(at tidemark.LogPlace, server *line) error {
	text := fmt.Sprintf("its log ends at %s of timeline %d, and what comes before %s was received of it", wal.FormatLSN(server.end), at.Timeline, wal.FormatLSN(at.Place))
	if server.standby {
		return &tidemark.Error{Kind: tidemark.Transient, Op: "receive", Object: r.e.Object, Err: errors.New(text), Hint: "A standby has this later."}
	}
	return &tidemark.Error{Kind: tidemark.Lost, Op: "receive", Object: r.e.Object, Err: errors.New(text), Hint: "The server has lost a part of its log, or is a copy of the one that it was received from: what it writes now is another history. Begin with a new archive."}
}

// failed words what ends a session.
func (r *Receiver) failed(ctx context.Context, err error) error {
	var em server.EmitError
	switch {
	case err == nil || errors.As(err, &em):
		return err
	case logRemoved(err):
		return &tidemark.Error{Kind: tidemark.Lost, Op: "receive", Object: r.e.Object, Err: errors.New(server.PlainCause(err) + ": there is a gap from " + wal.FormatLSN(r.next()) + " on"), Hint: "Put the missing segments into the archive from elsewhere, or begin behind the gap and make a new backup; a slot keeps the server from removing what is still to come."}
	case r.opt.Slot != "" && slices.Contains([]string{"55006", "42710", "42704", "55000"}, server.SQLState(err)):
		return r.slotFailed(err)
	case server.SQLState(err) == "53400" || server.SQLState(err) == "42501":
		return r.e.SlotFailed(ctx, "receive", r.opt.Slot, err)
	}
	return r.e.Fail(ctx, "receive", r.e.Object, err)
}

// next is the place from which on something is asked for.
func (r *Receiver) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at.Place
}

// slotFailed words what a server says about the slot.
func (r *Receiver) slotFailed(err error) error {
	out := &tidemark.Error{Op: "receive", Object: r.opt.Slot, Err: errors.New(server.PlainCause(err))}
	switch server.SQLState(err) {
	case "55006":
		out.Kind, out.Hint = tidemark.Transient, "Another process receives from this slot: stop it, or wait until the server has noticed that it is gone."
	case "42710":
		out.Kind, out.Hint = tidemark.Exists, "Name another slot: a slot of this name is there already."
	case "42704":
		out.Kind, out.Hint = tidemark.NotFound, "Have it made, or make it: SELECT pg_create_physical_replication_slot("+server.QuoteLiteral(r.opt.Slot)+", true);"
	default:
		out.Kind, out.Hint = tidemark.Lost, "The server has given up the slot, and removed log that was still to come: drop it, and begin anew."
	}
	return out
}

// identify asks which server this is and in which line of history.
func (r *Receiver) identify(ctx context.Context, conn *pgconn.PgConn) (*line, error) {
	row, err := server.AnswerRow(ctx, conn, "IDENTIFY_SYSTEM")
	if err != nil {
		return nil, err
	}
	if len(row) < 3 {
		return nil, errors.New("an answer to IDENTIFY_SYSTEM that is not in its format")
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
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "receive", Object: r.e.Object, Err: fmt.Errorf("its data has the system identifier %s, and what was received before %s: it is another server, and no copy of that one", system, r.system), Hint: "Give the server that the archive began with or a standby of it, or another archive."}
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

// histories hands on the history of each timeline in the server's line up to one, as far as
// it was not handed on yet. That of an older one need not be there.
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

// slot sees to it that the slot is there, and says from which place on it keeps the log; 0:
// from none. One that the server has given up is made anew where it may be made: it keeps nothing
// any more for anybody, and servers before 18 would go on without a word.
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

// makeSlot makes the slot where it is to be made.
func (r *Receiver) makeSlot(ctx context.Context, conn *pgconn.PgConn, name string) error {
	temporary := ""
	switch r.opt.SlotUse {
	case UseSlot:
		return nil
	case TemporarySlot:
		temporary = "TEMPORARY "
	}
	_, err := conn.Exec(ctx, "CREATE_REPLICATION_SLOT "+server.QuoteIdent(name)+" "+temporary+"PHYSICAL RESERVE_WAL").ReadAll()
	if r.opt.SlotUse == MakeSlot && server.SQLState(err) == "42710" { // it is there
		return nil
	}
	return err
}

// givenUp is a slot that the server has given up.
type givenUp struct{ setting string }

func (g *givenUp) Error() string {
	return "the server has given the slot up (" + g.setting + "), and keeps no log for it any more"
}

// lookAtSlot says from where on the slot keeps the log.
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
		return 0, &tidemark.Error{Kind: tidemark.Invalid, Op: "receive", Object: name, Err: errors.New("it is a logical slot, and the log itself needs a physical one"), Hint: "Name another slot."}
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

// DropLogSlot removes a physical slot if it is there.
func (c *Cluster) DropLogSlot(ctx context.Context, name string) error {
	conn, release, err := c.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	_, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND slot_type = 'physical'", name)
	return c.slotFailedUnless(ctx, "drop slot", name, err)
}

// slotFailedUnless is slotFailed where there is an error.
func (c *Cluster) slotFailedUnless(ctx context.Context, op, name string, err error) error {
	if err == nil {
		return nil
	}
	return c.SlotFailed(ctx, op, name, err)
}

// A line is how a server's data came to be what it is: the timelines through which it has
// gone.
type line struct {
	timeline uint32              // that it is in
	end      uint64              // of its log
	standby  bool                // it has what another sends it
	left     []tidemark.LogPlace // those before, in their order, and where each was left
}

// numbers are those of the timelines, in their order.
func (s *line) numbers() (out []uint32) {
	for _, p := range s.left {
		out = append(out, p.Timeline)
	}
	return append(out, s.timeline)
}

// begin says with which segment to go on, size bytes each: with that of the newest timeline of
// the server's line of which there is something. Where there is nothing at all, the one that
// holds from. note says what whoever reads it should know; the error is a sentence.
func (s *line) begin(ends map[uint32]uint64, from, size uint64) (at tidemark.LogPlace, note string, err error) {
	for n := range ends {
		if n > s.timeline {
			return at, "", fmt.Errorf("it is in timeline %d, and there is a part of timeline %d already: it is not the server that was promoted last", s.timeline, n)
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
		return at, "", fmt.Errorf("the history of its timeline %d has none of those of which there is a part", s.timeline)
	default:
		for i = 0; i < len(s.left) && s.left[i].Place <= from; {
			i++
		}
		at = tidemark.LogPlace{Timeline: numbers[i], Place: from / size * size}
	}
	for ; i < len(s.left) && at.Place >= s.left[i].Place; i++ {
		p := s.left[i]
		if at.Place >= p.Place+size {
			note = fmt.Sprintf("timeline %d was left at %s, and there is a part of it up to %s: the server does not have what is in there behind that place", p.Timeline, wal.FormatLSN(p.Place), wal.FormatLSN(at.Place))
		}
		at = tidemark.LogPlace{Timeline: numbers[i+1], Place: p.Place / size * size}
	}
	return at, note, nil
}
