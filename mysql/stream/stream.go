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

// A Stream follows the binlog of the server. Its methods may be called at once, Run once.
//
// It reads the packets of a replica's connection and takes the events apart itself, into
// the text that the reader of rows has for the same values, without a value being made.
// Nothing is acknowledged to the server, which keeps its log by time only; and nothing
// of semi-synchronous replication, so that the server never waits for us.
//
// Each part of it stands on the one before and knows nothing of those behind: the cursor (where in the log it is), the
// assembly (the transaction under way), the definitions (what tables were there), the tables (as row events have them), the
// decoder (of events), and the Stream, which has the connection.
type Stream struct {
	decoder

	s0       *server.Session // holds the stream's lock, and then is what the log comes by
	wire     *server.Wire
	dump     atomic.Bool // the server sends
	released atomic.Uint64
	seen     atomic.Uint64
	heard    atomic.Int64 // nanoseconds since 1970
}

// A cursor is where in the log a stream is.
type cursor struct {
	e       *Source
	name    string // of the stream
	file0   string // where to begin
	file    uint32
	pos     uint64   // behind the last event in the file
	sums    bool     // events of the file have checksums
	head    logHead  // of the file
	journal *journal // of what is remembered of the log
	base    uint32   // what the numbers of files have added to them in places of the stream
	moving  *moving  // the server is not the one that the stream came from

	placed     bool   // an event was read that says where it is
	eventPlace uint64 // where the event under way begins
}

// A scope says which tables a stream is of, and what it tells of their rows.
type scope struct {
	db    string                          // the only database; "": all of users
	fold  bool                            // names of tables are compared without regard to case
	only  func(tidemark.TableID) bool     // nil: all
	old   func(tidemark.TableID) bool     // wants whole old rows
	oldOf func(tidemark.TableID) []string // wants them where one of these columns changes
	keep  func(tidemark.TableID) []string // values of these columns are in updates that have not changed them
	links func(tidemark.TableID) []string // the same, as far as the log has them
	zero  server.Policy                   // for dates that are none elsewhere
}

// An assembly puts transactions together, and gives them away.
type assembly struct {
	cursor
	emit func(*change.Tx) error
	seek *seeking // what it is for, if it is not the stream itself

	open       bool // a group is under way
	group      group
	tx         *change.Tx  // of it, from its first change on
	prepared   *preparedTx // it is one of XA
	waiting    map[string]*preparedTx
	said       map[uint32]bool           // tables that were described
	unfollowed map[tidemark.TableID]bool // by key: a statement was logged in place of their rows
	usual      int                       // bytes of a transaction
	server     string                    // the last UUID of a GTID, and its text
	serverText string
}

// definitions are what tables were at the place that is read.
type definitions struct {
	assembly
	scope
	event.Charsets
	ahead     outlook
	lookAhead func(ctx context.Context, to uint64) error // fills ahead up to a place that the log has reached
}

// tables are those that the log has rows of, as the row events have them.
type tables struct {
	definitions
	maps      map[uint64]*event.Table // by the number that row events name
	known     map[tidemark.TableID]*event.Table
	relations map[uint32]string // descriptions, by their numbers
}

// A decoder takes the events of a log.
type decoder struct {
	tables
	skips   map[uint64]bool // events that are left out
	images  event.Images
	scratch []byte
	earlier func(ctx context.Context, xid string) (*preparedTx, error) // finds a transaction of XA before the stream's beginning
}

// A Source is the side of a server that streams follow: its log, and what is read beside it.
type Source struct {
	*bulk.Bulk

	needs func(ctx context.Context) ([]tidemark.Need, error) // what a stream wants of the server

	mu      sync.Mutex
	named   *server.Session // has the lock of a stream's name until that is followed
	journal string          // the file in which streams remember the log; "": nowhere
	anew    bool            // Freeze begins it
	follows bool            // a stream was opened,
	based   uint32          // and this is what numbers of files have added to them in its places
	applied []uint64        // places that the target of a stream has, behind the one that it goes on from
}

// New makes the source that reads tables by b.
func New(b *bulk.Bulk, c *preflight.Checks) *Source {
	s := &Source{Bulk: b}
	s.needs = func(ctx context.Context) ([]tidemark.Need, error) {
		return c.SourceNeeds(ctx, "", &tidemark.Database{}) // without a name: a session of the stream has its lock
	}
	b.LogBase, b.WhenFrozen = s.journalBase, s.beginJournal
	return s
}

// Close gives the lock of a stream's name back.
func (e *Source) Close() { e.freeName() }

// Hold keeps the stream's name. There is nothing else to be held: the server keeps its log by time only, and how long
// that is, and what else may go wrong, SourceNeeds says.
func (e *Source) Hold(ctx context.Context, stream string, _ []tidemark.Move) error {
	return e.holdName(ctx, stream)
}

// holdName takes the lock of a stream's name until Follow, Unhold or Close, so that another stream of that name is
// refused before it copies. The server has no other sign of a stream.
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

// freeName gives the lock of a stream's name back, where holdName has taken it.
func (e *Source) freeName() {
	e.mu.Lock()
	s := e.named
	e.named = nil
	e.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// FiltersRows says no: the log has all rows.
func (e *Source) FiltersRows() bool { return false }

// TellsRows looks whether the log tells what the columns of the moves' filters had before a
// change. Kind Unsupported, with what helps.
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
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: m.From.String(), Err: errors.New("its row filter is by the date " + c.Name + ", of which --zero-dates makes something else before it is looked at"), Hint: "Leave --zero-dates out, or filter by another column."}
		}
	}
	if len(filtered) == 0 {
		return nil
	}
	untold, remedy, err := e.Untold(ctx, filtered)
	if err != nil || len(untold) == 0 {
		return err
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: untold[0].String(), Err: errors.New("has a row filter, and the log does not tell what a row had before it was changed"), Hint: "On the source: " + remedy}
}

// View has nothing to do: each view says its place.
func (e *Source) View(context.Context, string) error { return nil }

// Unhold lets another stream have the name.
func (e *Source) Unhold(context.Context, string) error {
	e.freeName()
	return nil
}

// placeName names a place as the server does: binlog.000042:1187.
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
	s.seen.Store(after - 1) // until it is known that the log is the one that after is of
	return s
}

// Begins is the first place of the server's log, or that of a later file before which nothing
// was committed after a time.
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

// Follow opens a stream, which is of the tables of the URL's database, or of all user
// databases. The first transaction in it is the first that ends behind after; 0 means
// from now on. One process at a time follows under a name.
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

// Only leaves out changes of tables that want does not want. Call it before Run.
func (s *scope) Only(want func(tidemark.TableID) bool) { s.only = want }

// KeepOld gives the whole old row with updates and deletes of tables that want wants. Call
// it before Run.
func (s *scope) KeepOld(want func(tidemark.TableID) bool) { s.old = want }

// KeepOldOf gives it with deletes, and with updates that change one of these columns. Call it
// before Run.
func (s *scope) KeepOldOf(columns func(tidemark.TableID) []string) { s.oldOf = columns }

// OnlyChanged leaves out values that an update has not changed, but for those of the columns
// that keep names, and updates that have changed nothing; tables of which it names none are left
// alone. Call it before Run.
func (s *scope) OnlyChanged(keep func(tidemark.TableID) []string) { s.keep = keep }

// TellLinks gives the old row with updates that change one of these columns of a table, and with
// deletes: where the image before has not all of it, the others are unchanged values. Call
// it before Run.
func (s *scope) TellLinks(columns func(tidemark.TableID) []string) { s.links = columns }

// Untold gives those of tables of whose rows the log does not tell all that they had before
// a change, and what has to be done about it.
func (e *Source) Untold(ctx context.Context, tables []tidemark.TableID) (untold []tidemark.TableID, remedy string, err error) {
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

// KeepDates gives dates that are none elsewhere, such as 0000-00-00, as they are, whatever
// Options.ZeroDates says: for targets that hold them. Call it before Run.
func (s *Stream) KeepDates() {
	s.zero = server.AsWritten
	s.e.KeepDates.Store(true)
}

// replica opens a session that can ask for the log: every second without an event something
// comes.
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

// connect opens the stream's session, and takes the lock of its name. A session that was
// cut may be there for a moment still.
func (s *Stream) connect(ctx context.Context, lock bool) (err error) {
	if s.s0, err = s.e.replica(ctx); err != nil {
		return s.e.Fail("follow", s.name, err)
	}
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

// Run gives away one transaction after the other until ctx ends or something fails.
// emit owns what it gets, and may take its time: the server waits. An error of emit is
// returned as it is.
//
// Of each transaction the changes of wanted tables are given; one that has none is left
// out. DDL of wanted tables comes as a message with the prefix change.DDLPrefix, but
// for TRUNCATE, which is a change of its own.
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

// begin asks for the log.
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
		flags = server.DumpAll // so that events which do not say where they are can be counted
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

// logFailed words what a server says when it cannot send its log.
func (s *Stream) logFailed(my *gomysql.MyError) error {
	out := &tidemark.Error{Op: "follow", Object: s.name, Kind: tidemark.Transient, Err: server.Said(my)}
	text := strings.ToLower(my.Message)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case has("not in the master's binlog", "not in the primary's binlog", "diverged"):
		out.Kind, out.Hint = tidemark.Lost, "The server has other transactions than the one that the stream comes from: copy again."
	case has("could not find", "> file size", "impossible position", "purged"):
		out.Kind, out.Hint = tidemark.Lost, "Copy again, and let the source keep its log longer (binlog_expire_logs_seconds)."
	case has("bogus data", "corrupt", "checksum", "truncated"):
		out.Kind, out.Hint = tidemark.Corrupt, "The source's binlog is damaged at this place, or was reset: copy again."
	case has("max_allowed_packet"):
		out.Kind, out.Hint = tidemark.Unsupported, "SET GLOBAL max_allowed_packet = 1073741824 on the source. If that does not help, no event begins at this place: the binlog was reset, and the copy has to be made again (--anew)."
	}
	return out
}

// Seen is how far the log has been read with nothing of it still to come: all
// transactions that end up to there were given.
func (s *Stream) Seen() uint64 { return s.seen.Load() }

// Heard is when the server was last heard of. It sends something every second.
func (s *Stream) Heard() time.Time { return time.Unix(0, s.heard.Load()) }

// Release has nothing to tell the server, which keeps its log by time. The journal may
// forget what ends up to there.
func (s *Stream) Release(end uint64) { s.released.Store(end) }

// Close ends the stream's session, and on the server too, so that the name is free.
func (s *Stream) Close() {
	s.s0.Close()
	s.journal.close()
	if s.dump.Load() {
		s.e.Kill(s.s0.ID)
	}
}

// silence is how long a server may say nothing: it sends a heartbeat every second.
const silence = 30 * time.Second

// A heardConn notes when something came, and gives up if nothing does.
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
