package mysql

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// appliedName is the table of apply's progress. A transaction that writes to it was made
// by apply, and must not be sent back.
const appliedName = "tidemark_applied"

// A Stream follows the binlog of the server. Its methods may be called at once, Run once.
//
// It reads the packets of a replica's connection and takes the events apart itself, into
// the text that the reader of rows has for the same values, without a value being made.
// Nothing is acknowledged to the server, which keeps its log by time only; and nothing
// of semi-synchronous replication, so that the server never waits for us.
type Stream struct {
	e     *Engine
	name  string
	only  func(tidemark.TableID) bool
	old   func(tidemark.TableID) bool     // wants whole old rows
	oldOf func(tidemark.TableID) []string // wants them where one of these columns changes
	keep  func(tidemark.TableID) []string // values of these columns are in updates that have not changed them
	links func(tidemark.TableID) []string // the same, as far as the log has them
	zero  Policy                          // for dates that are none elsewhere
	fold  bool                            // names of tables are compared without regard to case
	s0    *session                        // holds the stream's lock, and then is what the log comes by
	wire  *wire
	dump  atomic.Bool // the server sends

	file0    string // where to begin
	file     uint32
	pos      uint64   // behind the last event in the file
	sums     bool     // events of the file have checksums
	head     logHead  // of the file
	journal  *journal // of what is remembered of the log
	base     uint32   // what the numbers of files have added to them in places of the stream
	moving   *moving  // the server is not the one that the stream came from
	released atomic.Uint64

	placed     bool   // an event was read that says where it is
	eventPlace uint64 // where the event under way begins

	open     bool // a group is under way
	group    group
	tx       *tidemark.Tx // of it, from its first change on
	prepared *preparedTx  // it is one of XA
	waiting  map[string]*preparedTx
	seek     *seeking
	emit     func(*tidemark.Tx) error

	ahead         outlook
	maps          map[uint64]*logTable // by the number that row events name
	tables        map[tidemark.TableID]*logTable
	relations     map[uint32]string
	said          map[uint32]bool
	unfollowed    map[tidemark.TableID]bool // by key: a statement was logged in place of their rows
	skips         map[uint64]bool           // events that are left out
	charsets      map[string]*charset
	collations    map[uint64]string
	before, after []field
	usual         int    // bytes of a transaction
	server        string // the last UUID of a GTID, and its text
	serverText    string
	scratch       []byte
	askAll        func(sql string) ([][]string, error)

	seen  atomic.Uint64
	heard atomic.Int64 // nanoseconds since 1970
}

// Hold keeps the stream's name. There is nothing else to be held: the server keeps its log by time only, and how long
// that is, and what else may go wrong, SourceNeeds says.
func (e *Engine) Hold(ctx context.Context, stream string, _ []tidemark.Move) error {
	return e.holdName(ctx, stream)
}

// holdName takes the lock of a stream's name until Follow, Unhold or Close, so that another stream of that name is
// refused before it copies. The server has no other sign of a stream.
func (e *Engine) holdName(ctx context.Context, stream string) error {
	e.freeName()
	s, err := e.session(ctx)
	if err != nil {
		return err
	}
	if err := s.lockName(ctx, stream); err != nil {
		s.close()
		if tidemark.KindOf(err) == tidemark.Transient {
			err = tidemark.Errorf(tidemark.Exists, "follow", stream, "another process follows this server's log under the same name", "Give this stream another name: --name.")
		}
		return e.fail("follow", stream, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.named = s
	return nil
}

// freeName gives the lock of a stream's name back, where holdName has taken it.
func (e *Engine) freeName() {
	e.mu.Lock()
	s := e.named
	e.named = nil
	e.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// FiltersRows says no: the log has all rows.
func (e *Engine) FiltersRows() bool { return false }

// TellsRows looks whether the log tells what the columns of the moves' filters had before a
// change. Kind Unsupported, with what helps.
func (e *Engine) TellsRows(ctx context.Context, moves []tidemark.Move) error {
	var filtered []tidemark.TableID
	for _, m := range moves {
		if len(m.Filter) == 0 {
			continue
		}
		filtered = append(filtered, m.From.TableID)
		for _, f := range m.Filter {
			c := m.From.Column(f.Column)
			if c == nil || e.opt.ZeroDates == Refuse || c.Type.Kind != tidemark.Date && c.Type.Kind != tidemark.DateTime && c.Type.Kind != tidemark.Timestamp {
				continue
			}
			return tidemark.Errorf(tidemark.Unsupported, "replicate", m.From.String(), "its row filter is by the date "+c.Name+", of which --zero-dates makes something else before it is looked at", "Leave --zero-dates out, or filter by another column.")
		}
	}
	if len(filtered) == 0 {
		return nil
	}
	untold, remedy, err := e.Untold(ctx, filtered)
	if err != nil || len(untold) == 0 {
		return err
	}
	return tidemark.Errorf(tidemark.Unsupported, "replicate", untold[0].String(), "has a row filter, and the log does not tell what a row had before it was changed", "On the source: "+remedy)
}

// View has nothing to do: each view says its place.
func (e *Engine) View(context.Context, string) error { return nil }

// Unhold lets another stream have the name.
func (e *Engine) Unhold(context.Context, string) error {
	e.freeName()
	return nil
}

// End says where the log of the server ends now: what is committed is before it.
func (e *Engine) End(ctx context.Context) (uint64, error) {
	s, back, err := e.ordinary(ctx)
	if err != nil {
		return 0, err
	}
	defer back()
	place, err := e.logEnd(ctx, s)
	return place, e.fail("follow", e.to.masked, err)
}

func (e *Engine) logEnd(ctx context.Context, s *session) (uint64, error) {
	r, err := s.query(ctx, e.showPosition())
	if err != nil {
		return 0, err
	}
	if r.RowNumber() == 0 {
		return 0, tidemark.Errorf(tidemark.Unsupported, "follow", e.to.masked, "the server keeps no binlog", "Start the server with log_bin.")
	}
	base, err := e.base()
	return base + placeOf(cell(r, 0, 0)+":"+cell(r, 0, 1)), err
}

// ParsePlace reads a place in the log as the server writes it: binlog.000003:1234.
func ParsePlace(text string) (uint64, error) {
	if place := placeOf(text); place > 0 {
		return place, nil
	}
	return 0, fmt.Errorf("%q is no place in the log", text)
}

// placeOf gives the Place of "binlog.000042:1187"; 0 if it is none.
func placeOf(text string) uint64 {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return 0
	}
	number, ok := logNumber(text[:at])
	offset, err := strconv.ParseUint(text[at+1:], 10, 64)
	switch {
	case !ok || err != nil:
		return 0
	case offset >= 1<<32: // the file ends here
		return uint64(number+1)<<32 | 4
	}
	return uint64(number)<<32 | offset
}

// logNumber gives the number that the name of a file of the log ends with.
func logNumber(name string) (uint32, bool) {
	n, err := strconv.ParseUint(name[strings.LastIndexByte(name, '.')+1:], 10, 32)
	return uint32(n), err == nil
}

// placeName names a place as the server does: binlog.000042:1187.
func (s *Stream) placeName(place uint64) string {
	return fmt.Sprintf("%s.%06d:%d", s.file0[:max(strings.LastIndexByte(s.file0, '.'), 0)], place>>32, uint32(place))
}

func placeText(place uint64) string { return fmt.Sprintf("file %d:%d", place>>32, uint32(place)) }

// A logFile is a file of the log that the server has.
type logFile struct {
	name   string
	number uint32
	size   uint64
}

// binlogs lists the files of the log, the oldest first.
func (e *Engine) binlogs(ctx context.Context) ([]logFile, error) {
	s, back, err := e.ordinary(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	r, err := s.query(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, err
	}
	var out []logFile
	for i := range r.RowNumber() {
		f := logFile{name: cell(r, i, 0)}
		f.number, _ = logNumber(f.name)
		f.size, _ = r.GetUint(i, 1)
		f.name = strings.Clone(f.name)
		out = append(out, f)
	}
	return out, nil
}

func (e *Engine) newStream(name, file string, after uint64) *Stream {
	s := &Stream{e: e, name: name, zero: e.opt.ZeroDates, file0: file, file: uint32(after >> 32), pos: after & 0xffffffff,
		maps: map[uint64]*logTable{}, tables: map[tidemark.TableID]*logTable{}, relations: map[uint32]string{}, said: map[uint32]bool{},
		charsets: map[string]*charset{}, waiting: map[string]*preparedTx{}, journal: &journal{journalState: newJournalState()}, ahead: outlook{altered: map[tidemark.TableID]laterStmt{}}}
	s.seen.Store(after - 1) // until it is known that the log is the one that after is of
	return s
}

// Begins is the first place of the server's log, or that of a later file before which nothing
// was committed after a time.
func (e *Engine) Begins(ctx context.Context, _ string, after time.Time) (uint64, error) {
	files, err := e.binlogs(ctx)
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, tidemark.Errorf(tidemark.NotFound, "follow", e.to.masked, "the server has no binlog", "Set log_bin.")
	}
	at := 0
	if !after.IsZero() {
		for at = len(files) - 1; at > 0; at-- {
			h, err := e.headOf(ctx, files[at].name)
			if err != nil {
				return 0, e.fail("follow", files[at].name, err)
			}
			if int64(h.created) < after.Unix() {
				break
			}
		}
	}
	return uint64(files[at].number)<<32 | 4, nil
}

// Clock is what time the server has.
func (e *Engine) Clock(ctx context.Context) (time.Time, error) {
	s, back, err := e.ordinary(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer back()
	r, err := s.query(ctx, "SELECT UTC_TIMESTAMP(6)")
	if err != nil {
		return time.Time{}, e.fail("read the clock", e.to.masked, err)
	}
	return time.Parse("2006-01-02 15:04:05.999999", cell(r, 0, 0))
}

// Follow opens a stream, which is of the tables of the URL's database, or of all user
// databases. The first transaction in it is the first that ends behind after; 0 means
// from now on. One process at a time follows under a name.
//
// Errors: Lost (the log from there is gone), Transient (another process follows), Forbidden.
func (e *Engine) Follow(ctx context.Context, stream string, after uint64) (*Stream, error) {
	files, err := e.binlogs(ctx)
	if err != nil {
		return nil, e.fail("follow", stream, err)
	}
	if after == 0 {
		if after, err = e.End(ctx); err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, tidemark.Errorf(tidemark.Unsupported, "follow", e.to.masked, "the server keeps no binlog", "Start the server with log_bin.")
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
		s.journal.history.on = !names || len(s.journal.history.defs) > 0
		e.following(s.base)
		s.journal.txs = nil
		err = s.connect(ctx, true)
	}
	if err != nil {
		return nil, e.fail("follow", stream, err)
	}
	return s, nil
}

// Only leaves out changes of tables that want does not want. Call it before Run.
func (s *Stream) Only(want func(tidemark.TableID) bool) { s.only = want }

// KeepOld gives the whole old row with updates and deletes of tables that want wants. Call
// it before Run.
func (s *Stream) KeepOld(want func(tidemark.TableID) bool) { s.old = want }

// KeepOldOf gives it with deletes, and with updates that change one of these columns. Call it
// before Run.
func (s *Stream) KeepOldOf(columns func(tidemark.TableID) []string) { s.oldOf = columns }

// OnlyChanged leaves out values that an update has not changed, but for those of the columns
// that keep names, and updates that have changed nothing; tables of which it names none are left
// alone. Call it before Run.
func (s *Stream) OnlyChanged(keep func(tidemark.TableID) []string) { s.keep = keep }

// TellLinks gives the old row with updates that change one of these columns of a table, and with
// deletes: where the image before has not all of it, the others are unchanged values. Call
// it before Run.
func (s *Stream) TellLinks(columns func(tidemark.TableID) []string) { s.links = columns }

// Untold gives those of tables of whose rows the log does not tell all that they had before
// a change, and what has to be done about it.
func (e *Engine) Untold(ctx context.Context, tables []tidemark.TableID) (untold []tidemark.TableID, remedy string, err error) {
	s, back, err := e.ordinary(ctx)
	if err != nil {
		return nil, "", err
	}
	defer back()
	r, err := s.query(ctx, "SELECT @@global.binlog_row_image")
	if err != nil {
		return nil, "", e.fail("replicate", e.to.masked, err)
	}
	if strings.HasPrefix(strings.ToUpper(cell(r, 0, 0)), "FULL") {
		return nil, "", nil
	}
	return tables, "SET GLOBAL binlog_row_image = 'FULL', and let programs that are connected connect again.", nil
}

// KeepDates gives dates that are none elsewhere, such as 0000-00-00, as they are, whatever
// Options.ZeroDates says: for targets that hold them. Call it before Run.
func (s *Stream) KeepDates() {
	s.zero = asWritten
	s.e.keepDates.Store(true)
}

// replica opens a session that can ask for the log: every second without an event something
// comes.
func (e *Engine) replica(ctx context.Context) (*session, error) {
	s, err := e.session(ctx)
	if err != nil {
		return nil, err
	}
	setup := "SET @master_binlog_checksum=@@global.binlog_checksum, @source_binlog_checksum=@@global.binlog_checksum, " +
		"@master_heartbeat_period=1000000000, @source_heartbeat_period=1000000000"
	if e.mariadb {
		setup += ", @mariadb_slave_capability=4"
	}
	if err = s.exec(ctx, setup); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// connect opens the stream's session, and takes the lock of its name. A session that was
// cut may be there for a moment still.
func (s *Stream) connect(ctx context.Context, lock bool) (err error) {
	if s.s0, err = s.e.replica(ctx); err != nil {
		return s.e.fail("follow", s.name, err)
	}
	if lock {
		s.e.freeName()
		err = s.s0.lockName(ctx, s.name)
	}
	if err == nil {
		var r *gomysql.Result
		if r, err = s.s0.query(ctx, "SELECT @@lower_case_table_names"); err == nil {
			s.fold = cell(r, 0, 0) != "0"
		}
	}
	if err != nil {
		s.s0.close()
		return s.e.fail("follow", s.name, err)
	}
	return nil
}

// nameLock is what the lock of a stream's name is called.
func nameLock(stream string) string {
	h := fnv.New128a()
	h.Write([]byte(stream))
	return "tidemark follow " + hex.EncodeToString(h.Sum(nil))
}

// lockName takes the lock of a stream's name on the server.
func (s *session) lockName(ctx context.Context, name string) error {
	r, err := s.query(ctx, "SELECT GET_LOCK("+literal(nameLock(name))+", 1)")
	if err == nil && cell(r, 0, 0) != "1" {
		err = tidemark.Errorf(tidemark.Transient, "follow", name, "nothing is applied, because another process follows this server's log under the same name",
			"Stop that process, or wait until the server has noticed that it is gone; another stream needs another --name.")
	}
	return err
}

// Run gives away one transaction after the other until ctx ends or something fails.
// emit owns what it gets, and may take its time: the server waits. An error of emit is
// returned as it is.
//
// Of each transaction the changes of wanted tables are given; one that has none is left
// out. DDL of wanted tables comes as a message with the prefix tidemark.DDLPrefix, but
// for TRUNCATE, which is a change of its own.
func (s *Stream) Run(ctx context.Context, emit func(*tidemark.Tx) error) error {
	s.emit = emit
	s.askAll = func(sql string) ([][]string, error) { return s.e.askAll(ctx, sql) }
	s.wire = newWire(&heardConn{s.s0.net, &s.heard})
	defer crash.OnDone(ctx, func() { _ = s.s0.net.Close() })()
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
	if s.e.mariadb && s.e.atLeast(11, 4, 0) {
		flags = dumpAll // so that events which do not say where they are can be counted
	}
	return s.wire.dumpFrom(file, pos, flags)
}

// replicaNumber is the number of a replica, which only has to be one that no other has.
func replicaNumber() uint32 { return 1<<31 | rand.Uint32() }

// dumpAll asks MariaDB for the texts of statements too.
const dumpAll = 2

// dumpFrom asks for the log from an offset of a file on.
func (w *wire) dumpFrom(file string, pos uint32, flags uint16) error {
	p := binary.LittleEndian.AppendUint32(nil, pos)
	p = binary.LittleEndian.AppendUint16(p, flags)
	p = binary.LittleEndian.AppendUint32(p, replicaNumber())
	return w.command(gomysql.COM_BINLOG_DUMP, string(p)+file)
}

func (s *Stream) fail(ctx context.Context, err error) error {
	var emitted *emitError
	if errors.As(err, &emitted) {
		return emitted.err
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
	return s.e.fail("follow", s.name, err)
}

// logFailed words what a server says when it cannot send its log.
func (s *Stream) logFailed(my *gomysql.MyError) error {
	out := &tidemark.Error{Op: "follow", Object: s.name, Kind: tidemark.Transient, Err: &serverError{my}}
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
	s.s0.close()
	s.journal.close()
	if s.dump.Load() {
		s.e.kill(s.s0.id)
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

// askAll runs a query on an ordinary session and gives its cells.
func (e *Engine) askAll(ctx context.Context, sql string) ([][]string, error) {
	s, back, err := e.ordinary(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	r, err := s.query(ctx, sql)
	if err != nil {
		return nil, err
	}
	out := make([][]string, r.RowNumber())
	for i := range out {
		for j := range r.ColumnNumber() {
			out[i] = append(out[i], strings.Clone(cell(r, i, j)))
		}
	}
	return out, nil
}

// ask is askAll for one row.
func (s *Stream) ask(sql string) ([]string, error) {
	rows, err := s.askAll(sql)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}
