package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
)

// The server versions that the engine knows; others are refused, because their
// catalogue or their COPY may mean something else.
const (
	oldestMajor = 13
	newestMajor = 18
)

// Options of an Engine. The zero value is good.
type Options struct {
	Grants       bool // native DDL carries grants over
	Owners       bool // native DDL carries owners over
	TinyInt1Bool bool // MySQL's tinyint(1) becomes boolean
	NullDates    bool // the source's dates that are none come as NULL
	RunAsMe      bool // write also where code of others would run with our rights

	// MaintenanceMem is what each lane may use to build an index, in bytes; 0 means
	// 256 MB. Half of the target's memory divided by the lanes is a good upper bound.
	MaintenanceMem int64
	// IndexWorkers is max_parallel_maintenance_workers of each lane that builds
	// indexes; 0 leaves what the server has, negative means none.
	IndexWorkers int
}

// An Engine is one PostgreSQL database. Its methods may be called concurrently,
// but each lane by one goroutine at a time.
type Engine struct {
	cfg      *pgx.ConnConfig
	opt      Options
	object   string // the database in messages: postgres://user@host:port/name
	version  string // "15.18"
	major    int
	encoding string // of the database
	block    int64  // bytes of a heap block

	leaderMu sync.Mutex
	lead     *pgx.Conn
	snapshot string    // exported by lead; "" before Freeze
	journal  string    // see Journal
	applied  uint64    // see HasApplied
	start    slotStart // of a slot that CreateSlot has made; guarded by leaderMu

	controlMu sync.Mutex // control runs the statements of Inspect, Ledger and Preflight
	control   *pgx.Conn

	pidsMu sync.Mutex
	pids   []uint32 // of all sessions so far

	foreigns foreignTables
	target   targetFacts

	busy atomic.Int32 // calls of Write and Exec that are under way

	lanesMu  sync.Mutex
	readers  []*lane
	writers  map[int]*lane
	execs    map[int]*lane
	appliers map[int]*applier
	sentinel sentinel
	fromMany int // see fromMany; 0: that
}

// Open connects to the database that url names ("postgres://user@host/db", or
// libpq's keyword form; what is missing comes from the usual PG* variables and the
// password file) and checks the server's version. Errors are of Kind Invalid,
// Unreachable, Denied, NotFound, Transient or Unsupported.
func Open(ctx context.Context, url string, opt Options) (*Engine, error) {
	cfg, err := readURL(url)
	if err != nil {
		return nil, err
	}
	if cfg.Database == "" {
		cfg.Database = cfg.User // as the server does
	}
	e := &Engine{cfg: cfg, opt: opt, object: objectOf(cfg), writers: map[int]*lane{}, execs: map[int]*lane{}}
	cfg.AfterConnect = e.settle
	e.lead, err = e.connect(ctx)
	if err != nil {
		return nil, err
	}
	var size string
	var pid uint32
	if err := e.lead.QueryRow(ctx, "SELECT current_setting('block_size'), pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&size, &pid); err != nil {
		e.Close()
		return nil, e.fail(ctx, "connect", e.object, err)
	}
	e.block, _ = strconv.ParseInt(size, 10, 64)
	if pid != e.lead.PgConn().PID() { // a pooler makes up keys for cancelling
		if err := e.refuseTransactionPool(ctx, pid); err != nil {
			e.Close()
			return nil, err
		}
	}
	return e, nil
}

// refuseTransactionPool looks whether the pooler in between has given the leader's
// server process, which is between two transactions, to somebody else. Through such a
// pool our settings would reach other programs' statements, and not all of our own.
func (e *Engine) refuseTransactionPool(ctx context.Context, pid uint32) error {
	other, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer closeConn(other)
	var again uint32
	if err := other.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&again); err != nil {
		return e.fail(ctx, "connect", e.object, err)
	}
	if again != pid {
		return nil
	}
	return tidemark.Errorf(tidemark.Unsupported, "connect", e.object, "a pooler in between gives each transaction another session of the server",
		"Give the server's own address, or that of a pool with pool_mode = session: snapshots and settings do not survive the other modes.")
}

// objectOf names a database in messages, without what could be secret.
func objectOf(cfg *pgx.ConnConfig) string {
	u := url.URL{Scheme: "postgres", User: url.User(cfg.User), Path: "/" + cfg.Database}
	if strings.HasPrefix(cfg.Host, "/") {
		u.RawQuery = "host=" + cfg.Host
	} else {
		u.Host = net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	}
	return u.String()
}

// quotedPart is what an error quotes of a connection string: a piece of a password, where that was not encoded.
var quotedPart = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|'[^']*'")

// parseCause leaves the connection string out of a parse error.
func parseCause(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		if inner := errors.Unwrap(parse); inner != nil {
			return errors.New(tidemark.MaskText(quotedPart.ReplaceAllLiteralString(inner.Error(), tidemark.Hidden)))
		}
		return errors.New("not a connection string")
	}
	return errors.New("not a connection string")
}

// connect opens a session. Its settings are those of settle.
func (e *Engine) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := e.dial(ctx)
	if err != nil {
		return nil, e.connectFailed(ctx, err)
	}
	e.leaderMu.Lock()
	if e.version == "" {
		e.version, e.major = parseVersion(conn.PgConn().ParameterStatus("server_version"))
		e.encoding = conn.PgConn().ParameterStatus("server_encoding")
	}
	e.leaderMu.Unlock()
	if err := e.verify(ctx, conn); err != nil {
		closeConn(conn)
		return nil, err
	}
	return conn, nil
}

// dial opens a session, with all that settle asks, within the URL's connect_timeout.
func (e *Engine) dial(ctx context.Context) (*pgx.Conn, error) {
	if e.cfg.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.cfg.ConnectTimeout)
		defer cancel()
	}
	return pgx.ConnectConfig(ctx, e.cfg.Copy())
}

// settle is the first thing said on every session: the version is checked, and
// settings are made that the text of values, and the peace of a long copy, depend
// on. They are SETs and not startup parameters, which poolers refuse.
func (e *Engine) settle(ctx context.Context, conn *pgconn.PgConn) error {
	version, major := parseVersion(conn.ParameterStatus("server_version"))
	if major < oldestMajor || major > newestMajor {
		return &tidemark.Error{Op: "connect", Object: e.object, Kind: tidemark.Unsupported,
			Err:  fmt.Errorf("the server is PostgreSQL %s", version),
			Hint: fmt.Sprintf("PostgreSQL %d to %d are supported.", oldestMajor, newestMajor)}
	}
	e.pidsMu.Lock()
	e.pids = append(e.pids, conn.PID())
	e.pidsMu.Unlock()
	return conn.Exec(ctx, sessionSQL(major)).Close()
}

// sessionSQL gives the settings of every session.
func sessionSQL(major int) string {
	set := []string{
		"client_encoding = 'UTF8'",
		"search_path = pg_catalog", // names in definitions come out qualified
		"DateStyle = 'ISO, YMD'",
		"TimeZone = 'UTC'",
		"IntervalStyle = iso_8601",
		"bytea_output = hex",
		"extra_float_digits = 3",
		"lc_monetary = 'C'", // else money prints, and is understood, as the server's locale has it
		"xmloption = content",
		"standard_conforming_strings = on",
		"row_security = off", // an error instead of rows that are silently left out
		"statement_timeout = 0",
		"idle_in_transaction_session_timeout = 0",
		// A session whose other end is gone must not keep its locks for hours.
		"tcp_keepalives_idle = 30", "tcp_keepalives_interval = 10", "tcp_keepalives_count = 6",
		"default_transaction_read_only = off",
		"synchronize_seqscans = off", // rows in the order in which they lie
		"jit = off",
		"check_function_bodies = off", // a function may be made before what it uses
	}
	if major >= 14 {
		set = append(set, "idle_session_timeout = 0")
	}
	if major >= 17 {
		set = append(set, "transaction_timeout = 0")
	}
	return "SET " + strings.Join(set, "; SET ")
}

// parseVersion reads "15.18 (Debian 15.18-0+deb12u1)" and "18beta1".
func parseVersion(s string) (version string, major int) {
	version, _, _ = strings.Cut(s, " ")
	end := 0
	for end < len(version) && version[end] >= '0' && version[end] <= '9' {
		end++
	}
	major, _ = strconv.Atoi(version[:end])
	return version, major
}

// leader gives the session for the catalogue, and what gives it back. After Freeze
// it is inside the frozen transaction: a statement that fails there ends it, and
// with it the copy's view.
func (e *Engine) leader(ctx context.Context) (*pgx.Conn, func(), error) {
	e.leaderMu.Lock()
	if e.lead != nil && !e.lead.IsClosed() {
		return e.lead, e.leaderMu.Unlock, nil
	}
	frozen := e.snapshot != ""
	e.leaderMu.Unlock()
	if frozen {
		return nil, nil, e.lost(nil)
	}
	conn, err := e.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	e.leaderMu.Lock()
	if e.lead != nil && !e.lead.IsClosed() {
		closeConn(conn) // somebody else was faster
	} else {
		e.lead = conn
	}
	return e.lead, e.leaderMu.Unlock, nil
}

// lost is the error that ends the copy's view of the source.
func (e *Engine) lost(cause error) error {
	text := "the session that holds the snapshot is gone"
	if cause != nil {
		text += ": " + plainCause(cause)
	}
	return tidemark.Errorf(tidemark.Lost, "read", e.object, text,
		"Start again with --resume: ranges that are on the target already are kept if the source has not changed.")
}

// controlConn gives the session for statements of our own, and what gives it back.
func (e *Engine) controlConn(ctx context.Context) (*pgx.Conn, func(), error) {
	e.controlMu.Lock()
	if e.control == nil || e.control.IsClosed() {
		conn, err := e.connect(ctx)
		if err != nil {
			e.controlMu.Unlock()
			return nil, nil, err
		}
		e.control = conn
	}
	return e.control, e.controlMu.Unlock, nil
}

// Version gives the server's version as it says it: "15.18".
func (e *Engine) Version() string { return e.version }

// Close ends all sessions, and with them the frozen view.
func (e *Engine) Close() error {
	e.lanesMu.Lock()
	for _, l := range e.readers {
		l.close()
	}
	for _, l := range e.writers {
		l.close()
	}
	for _, l := range e.execs {
		l.close()
	}
	for _, a := range e.appliers {
		closeConn(a.conn)
	}
	e.lanesMu.Unlock()
	e.sentinel.mu.Lock()
	closeConn(e.sentinel.conn)
	e.sentinel.conn = nil
	e.sentinel.mu.Unlock()
	e.controlMu.Lock()
	closeConn(e.control)
	e.control = nil
	e.controlMu.Unlock()
	e.leaderMu.Lock()
	closeConn(e.lead)
	e.lead = nil
	e.start.end()
	e.leaderMu.Unlock()
	return nil
}

// closeConn says goodbye, but does not wait long for an answer.
func closeConn(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it is gone either way
}
