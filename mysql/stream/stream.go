package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/preflight"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A Stream follows the binlog of the server. Its methods may be called concurrently, Run only once.
//
// It reads the packets of a replica's connection and parses the events itself, directly into the
// text that the row reader produces for the same values, without decoding values. It acknowledges
// nothing to the server, which keeps its log only by time, and takes no part in semi-synchronous
// replication, so that the server never waits for us.
//
// Each part builds on the one before and knows nothing of the later ones: the cursor (the position
// in the log), the assembly (the transaction under way), the definitions (tables at that position),
// the tables (as row events have them), the decoder (of events), and the Stream, which has the
// connection.
type Stream struct {
	decoder

	s0       *server.Session // holds the stream's lock, and later receives the log
	wire     *server.Wire
	dump     atomic.Bool // the server is sending
	released atomic.Uint64
	seen     atomic.Uint64
	heard    atomic.Int64 // nanoseconds since 1970
}

// A cursor is a stream's position in the log.
type cursor struct {
	e       *Source
	name    string // of the stream
	file0   string // where to begin
	file    uint32
	pos     uint64   // after the last event in the file
	sums    bool     // events of the file have checksums
	head    logHead  // of the file
	journal *journal // what the stream remembers of the log
	base    uint32   // added to file numbers in places of the stream
	moving  *moving  // set if the server is not the one that the stream came from

	placed     bool   // an event with its own position was read
	eventPlace uint64 // where the event under way begins
}

// A scope selects the tables of a stream, and what it emits about their rows.
type scope struct {
	db    string                          // the only database; "": all user databases
	fold  bool                            // table names are compared case-insensitively
	only  func(tidemark.TableID) bool     // nil: all
	old   func(tidemark.TableID) bool     // wants whole old rows
	oldOf func(tidemark.TableID) []string // wants whole old rows if one of these columns changes
	keep  func(tidemark.TableID) []string // updates include these columns even if unchanged
	links func(tidemark.TableID) []string // like oldOf, as far as the log has them
	zero  server.Policy                   // for dates that are invalid elsewhere
}

// An assembly puts transactions together and emits them.
type assembly struct {
	cursor
	emit  func(*change.Tx) error
	seek  *seeking        // set if it only searches
	named map[string]bool // GTIDs of transactions that are emitted even if they change no table

	open       bool // a group is under way
	group      group
	tx         *change.Tx  // of the group, from its first change on
	prepared   *preparedTx // set if it is an XA transaction
	waiting    map[string]*preparedTx
	said       map[uint32]bool           // tables that were described
	unfollowed map[tidemark.TableID]bool // by key: a statement was logged instead of their rows
	usual      int                       // bytes of a transaction
	server     string                    // the UUID of the last GTID, and its text
	serverText string
}

// definitions are the table definitions at the place being read.
type definitions struct {
	assembly
	scope
	event.Charsets
	ahead     outlook
	lookAhead func(ctx context.Context, to uint64) error // fills ahead up to a place that the log has reached
}

// tables are those whose rows the log has, as the row events describe them.
type tables struct {
	definitions
	maps      map[uint64]*event.Table // by their number in row events
	known     map[tidemark.TableID]*event.Table
	relations map[uint32]string // descriptions, by their numbers
}

// A decoder processes the events of a log.
type decoder struct {
	tables
	skips   map[uint64]bool // events to leave out
	images  event.Images
	scratch []byte
	earlier func(ctx context.Context, xid string) (*preparedTx, error) // finds an XA transaction from before the stream's beginning
}

// A Source is the part of a server that streams follow: its log, and chunks of tables.
type Source struct {
	*bulk.Bulk

	needs func(ctx context.Context) ([]tidemark.Need, error) // a stream's requirements on the server

	mu      sync.Mutex
	named   *server.Session // holds the lock of a stream's name until the stream is followed
	journal string          // the file in which streams remember the log; "": nowhere
	anew    bool            // after Hold: Freeze begins it
	follows bool            // a stream was opened,
	based   uint32          // and this is added to file numbers in its places
	applied []uint64        // places that the target of a stream has applied after its start position
	sender  atomic.Uint32   // the session that sends us the log
}

// New creates a source that reads tables by b.
func New(b *bulk.Bulk, c *preflight.Checks) *Source {
	s := &Source{Bulk: b}
	s.needs = func(ctx context.Context) ([]tidemark.Need, error) {
		return c.SourceNeeds(ctx, "", &tidemark.Database{}) // no name: a session of the stream holds the lock
	}
	b.LogBase, b.WhenFrozen = s.journalBase, s.beginJournal
	b.Others[tidemark.LogSide] = func() map[uint32]int { return map[uint32]int{s.sender.Load(): 0} }
	return s
}

// Close releases the lock on the stream's name.
func (e *Source) Close() { e.freeName() }

// Hold locks the stream's name, and lets the next Freeze begin the journal: an earlier one may end
// in another file of the log, and its tables may have had other columns. There is nothing else to
// hold: the server keeps its log only by time, which SourceNeeds checks.
func (e *Source) Hold(ctx context.Context, stream string, _ []tidemark.Move) error {
	e.mu.Lock()
	e.anew = true
	e.mu.Unlock()
	return e.holdName(ctx, stream)
}

// holdName takes the lock of a stream's name until Follow, DropHold or Close, so that another
// stream of that name is refused before it copies. The server has no other trace of a stream.
func (e *Source) holdName(ctx context.Context, stream string) error {
	e.freeName()
	s, err := e.NewSession(ctx)
	if err != nil {
		return err
	}
	if err := server.LockName(ctx, s, stream); err != nil {
		s.Close()
		if tidemark.KindOf(err) == tidemark.Transient {
			err = &tidemark.Error{Kind: tidemark.Exists, Op: "follow", Object: stream, Err: errors.New("another process follows this server's log under the same name"), Hint: "Give this stream another name: --name."}
		}
		return e.Fail("follow", stream, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.named = s
	return nil
}

// freeName releases the lock on the stream's name if holdName has taken it.
func (e *Source) freeName() {
	e.mu.Lock()
	s := e.named
	e.named = nil
	e.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// FiltersRows is false: the log has all rows.
func (e *Source) FiltersRows() bool { return false }

// TellsRows checks whether the log has the old values of the columns in the moves' filters. Kind
// Unsupported, with a hint.
func (e *Source) TellsRows(ctx context.Context, moves []tidemark.Move) error {
	var filtered []tidemark.TableID
	for _, m := range moves {
		if len(m.Filter) == 0 {
			continue
		}
		filtered = append(filtered, m.From.TableID)
		for _, f := range m.Filter {
			c := m.From.Column(f.Column)
			if c == nil || e.Options.ZeroDates == server.Refuse || c.Type.Kind != tidemark.Date && c.Type.Kind != tidemark.DateTime && c.Type.Kind != tidemark.Timestamp {
				continue
			}
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: m.From.String(), Err: errors.New("its row filter uses the date " + c.Name + ", which --zero-dates changes before the filter is evaluated"), Hint: "Leave --zero-dates out, or filter by another column."}
		}
	}
	if len(filtered) == 0 {
		return nil
	}
	lacking, remedy, err := e.WithoutOldRows(ctx, filtered)
	if err != nil || len(lacking) == 0 {
		return err
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: lacking[0].String(), Err: errors.New("has a row filter, and the log does not have a row's values from before a change"), Hint: "On the source: " + remedy}
}

// AlignNextSnapshot has nothing to do: each snapshot has its position.
func (e *Source) AlignNextSnapshot(context.Context, string) error { return nil }

// DropHold releases the name for other streams.
func (e *Source) DropHold(context.Context, string) error {
	e.freeName()
	return nil
}

// placeName formats a place as the server does: binlog.000042:1187.
func (s *cursor) placeName(place uint64) string {
	return fmt.Sprintf("%s.%06d:%d", s.file0[:max(strings.LastIndexByte(s.file0, '.'), 0)], place>>32, uint32(place))
}

func (e *Source) newStream(name, file string, after uint64) *Stream {
	s := &Stream{}
	s.cursor = cursor{e: e, name: name, file0: file, file: uint32(after >> 32), pos: after & 0xffffffff, journal: &journal{journalState: newJournalState()}}
	s.scope = scope{db: e.DB, zero: e.Options.ZeroDates}
	s.said, s.waiting = map[uint32]bool{}, map[string]*preparedTx{}
	s.maps, s.known, s.relations = map[uint64]*event.Table{}, map[tidemark.TableID]*event.Table{}, map[uint32]string{}
	s.ahead.altered = map[tidemark.TableID]laterStmt{}
	s.lookAhead, s.earlier = s.readAhead, s.findPrepared
	s.seen.Store(after - 1) // until the log is known to be the one that after belongs to
	return s
}

// Begins returns the first place of the server's log or, with a time, that of the latest file
// before which nothing was committed after that time.
func (e *Source) Begins(ctx context.Context, _ string, after time.Time) (uint64, error) {
	files, err := e.Binlogs(ctx)
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, &tidemark.Error{Kind: tidemark.NotFound, Op: "follow", Object: e.Masked, Err: errors.New("the server has no binlog"), Hint: "Set log_bin."}
	}
	at := 0
	if !after.IsZero() {
		for at = len(files) - 1; at > 0; at-- {
			h, err := e.headOf(ctx, files[at].Name)
			if err != nil {
				return 0, e.Fail("follow", files[at].Name, err)
			}
			if int64(h.created) < after.Unix() {
				break
			}
		}
	}
	return uint64(files[at].Number)<<32 | 4, nil
}

// Follow opens a stream of the tables in the URL's database, or in all user databases. The first
// transaction in it is the first that ends after the place after; 0 means from now on. Only one
// process at a time follows under a name.
//
// Errors: Lost (the log from there is gone), Transient (another process follows), Forbidden.
func (e *Source) Follow(ctx context.Context, stream string, after uint64) (*Stream, error) {
	files, err := e.Binlogs(ctx)
	if err != nil {
		return nil, e.Fail("follow", stream, err)
	}
	if after == 0 {
		if after, err = e.End(ctx); err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: e.Masked, Err: errors.New("the server keeps no binlog"), Hint: "Start the server with log_bin."}
	}
	s := e.newStream(stream, "", after)
	if s.journal, err = readJournal(e.journalPath()); err == nil {
		s.file0, err = s.find(ctx, after, files)
	}
	names := true
	if err == nil {
		names, err = e.hasNames(ctx)
	}
	if err == nil {
		s.journal.history.On = !names || len(s.journal.history.Defs) > 0
		e.following(s.base)
		s.journal.txs = nil
		err = s.connect(ctx, true)
	}
	if err != nil {
		return nil, e.Fail("follow", stream, err)
	}
	return s, nil
}

// Only leaves out changes of tables that want rejects. Call it before Run.
func (s *scope) Only(want func(tidemark.TableID) bool) { s.only = want }

// KeepOld adds the whole old row to updates and deletes of the tables that want selects. Call it
// before Run.
func (s *scope) KeepOld(want func(tidemark.TableID) bool) { s.old = want }

// KeepOldOf adds the whole old row to deletes, and to updates that change one of these columns.
// Call it before Run.
func (s *scope) KeepOldOf(columns func(tidemark.TableID) []string) { s.oldOf = columns }

// OnlyChanged drops values that an update has not changed, except those of the columns in keep, and
// updates that have changed nothing; tables without columns in keep are not touched. Call it before
// Run.
func (s *scope) OnlyChanged(keep func(tidemark.TableID) []string) { s.keep = keep }

// KeepOldReferences adds the old row to updates that change one of these columns of a table, and to
// deletes; values that the before image lacks are marked unchanged. Call it before Run.
func (s *scope) KeepOldReferences(columns func(tidemark.TableID) []string) { s.links = columns }

// WithoutOldRows returns the tables for which the log lacks whole rows from before a change, and
// what to do about it.
func (e *Source) WithoutOldRows(ctx context.Context, tables []tidemark.TableID) (lacking []tidemark.TableID, remedy string, err error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, "", err
	}
	defer back()
	r, err := s.Query(ctx, "SELECT @@global.binlog_row_image")
	if err != nil {
		return nil, "", e.Fail("replicate", e.Masked, err)
	}
	if strings.HasPrefix(strings.ToUpper(server.Cell(r, 0, 0)), "FULL") {
		return nil, "", nil
	}
	return tables, "SET GLOBAL binlog_row_image = 'FULL', and let programs that are connected connect again.", nil
}

// KeepDates emits dates that are invalid elsewhere, such as 0000-00-00, unchanged, whatever
// Options.ZeroDates says: for targets that can store them. Call it before Run.
func (s *Stream) KeepDates() {
	s.zero = server.AsWritten
	s.e.KeepDates.Store(true)
}

// EmitNamed emits the transaction with this GTID even if it changes none of the stream's tables.
// Call it before Run.
func (s *Stream) EmitNamed(gtid string) {
	if s.named == nil {
		s.named = map[string]bool{}
	}
	s.named[gtid] = true
}

// replica opens a session that can request the log: without events, it receives a heartbeat every
// second.
func (e *Source) replica(ctx context.Context) (*server.Session, error) {
	s, err := e.NewSession(ctx)
	if err != nil {
		return nil, err
	}
	setup := "SET @master_binlog_checksum=@@global.binlog_checksum, @source_binlog_checksum=@@global.binlog_checksum, " +
		"@master_heartbeat_period=1000000000, @source_heartbeat_period=1000000000"
	if e.MariaDB {
		setup += ", @mariadb_slave_capability=4"
	}
	if err = s.Exec(ctx, setup); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// connect opens the stream's session and takes the lock of its name. A session whose connection was
// cut may hold that lock for a moment longer.
func (s *Stream) connect(ctx context.Context, lock bool) (err error) {
	if s.s0, err = s.e.replica(ctx); err != nil {
		return s.e.Fail("follow", s.name, err)
	}
	s.e.sender.Store(s.s0.ID)
	if lock {
		s.e.freeName()
		err = server.LockName(ctx, s.s0, s.name)
	}
	if err == nil {
		var r *gomysql.Result
		if r, err = s.s0.Query(ctx, "SELECT @@lower_case_table_names"); err == nil {
			s.fold = server.Cell(r, 0, 0) != "0"
		}
	}
	if err != nil {
		s.s0.Close()
		return s.e.Fail("follow", s.name, err)
	}
	return nil
}

// Run emits one transaction after the other until ctx ends or an error occurs. emit owns what it
// receives, and may block: the server waits. An error of emit is returned unchanged.
//
// Run emits the changes of wanted tables; a transaction without any is left out. DDL of wanted
// tables is emitted as a message with the prefix change.DDLPrefix, except TRUNCATE, which is a
// change of its own.
func (s *Stream) Run(ctx context.Context, emit func(*change.Tx) error) error {
	s.emit = emit
	s.Ask = func(sql string) ([][]string, error) { return s.e.Ask(ctx, sql) }
	s.wire = server.NewWire(&heardConn{s.s0.Conn, &s.heard})
	defer crash.OnDone(ctx, func() { _ = s.s0.Conn.Close() })()
	err := s.begin()
	if err == nil {
		err = s.read(ctx)
	}
	return s.fail(ctx, err)
}

// begin requests the log.
func (s *Stream) begin() error {
	s.dump.Store(true)
	if s.moving != nil {
		return s.beginByGTID()
	}
	return s.dumpFrom(s.file0, uint32(s.pos))
}

func (s *Stream) dumpFrom(file string, pos uint32) error {
	flags := uint16(0)
	if s.e.MariaDB && s.e.AtLeast(11, 4, 0) {
		flags = server.DumpAll // so that events without a position can be counted
	}
	return s.wire.DumpFrom(file, pos, flags)
}

func (s *Stream) fail(ctx context.Context, err error) error {
	var emitted *server.EmitError
	if errors.As(err, &emitted) {
		return emitted.Err
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err == errFound {
		return err
	}
	var my *gomysql.MyError
	if errors.As(err, &my) && my.Code == gomysql.ER_MASTER_FATAL_ERROR_READING_BINLOG {
		return s.logFailed(my)
	}
	return s.e.Fail("follow", s.name, err)
}

// logFailed makes the error of a server that cannot send its log.
func (s *Stream) logFailed(my *gomysql.MyError) error {
	out := &tidemark.Error{Op: "follow", Object: s.name, Kind: tidemark.Transient, Err: server.Said(my)}
	text := strings.ToLower(my.Message)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case has("not in the master's binlog", "not in the primary's binlog", "diverged"):
		out.Kind, out.Hint = tidemark.Lost, "The server's transactions differ from those of the server that the stream comes from: copy again."
	case has("could not find", "> file size", "impossible position", "purged"):
		out.Kind, out.Hint = tidemark.Lost, "Copy again, and let the source keep its log longer (binlog_expire_logs_seconds)."
	case has("bogus data", "corrupt", "checksum", "truncated"):
		out.Kind, out.Hint = tidemark.Corrupt, "The source's binlog is damaged at this place, or was reset: copy again."
	case has("max_allowed_packet"):
		out.Kind, out.Hint = tidemark.Unsupported, "SET GLOBAL max_allowed_packet = 1073741824 on the source. If that does not help, no event begins at this place: the binlog was reset, and the copy has to be made again (--anew)."
	}
	return out
}

// Seen returns the position up to which the log is read completely: all transactions that end up to
// there were emitted.
func (s *Stream) Seen() uint64 { return s.seen.Load() }

// Heard returns when the server was last heard. It sends something every second.
func (s *Stream) Heard() time.Time { return time.Unix(0, s.heard.Load()) }

// Release does not affect the server, which keeps its log by time. The journal may forget what ends
// up to there.
func (s *Stream) Release(end uint64) { s.released.Store(end) }

// Close ends the stream's session, also on the server, so that the name is free.
func (s *Stream) Close() {
	s.s0.Close()
	s.journal.close()
	if s.dump.Load() {
		s.e.Kill(s.s0.ID)
	}
}

// silence is how long a server may be silent: it sends a heartbeat every second.
const silence = 30 * time.Second

// A heardConn records when data arrived, and gives up if nothing does.
type heardConn struct {
	net.Conn
	heard *atomic.Int64 // nanoseconds since 1970
}

func (c *heardConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}
