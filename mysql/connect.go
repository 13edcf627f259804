package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Policy says what becomes of a value that the other side cannot hold.
type Policy uint8

const (
	Refuse Policy = iota // stop with an Error of Kind BadRow that names the value
	Null                 // NULL in its place
	Epoch                // zero dates only: 1970-01-01 in its place
)

// A Lock says how Freeze keeps writers out while the lanes take their snapshots.
type Lock uint8

const (
	LockAuto   Lock = iota // none where there is a binlog to tell by; otherwise Global, and Tables where RELOAD is not granted
	LockGlobal             // FLUSH TABLES WITH READ LOCK
	LockBackup             // MariaDB: BACKUP STAGE BLOCK_COMMIT; MySQL: LOCK INSTANCE FOR BACKUP until Close, besides Global
	LockTables             // LOCK TABLES ... READ on all tables of the database
	LockNone               // nothing: for a source that nobody writes to; Freeze looks whether that is so
)

// Options of an engine. The zero value is good.
type Options struct {
	ZeroDates       Policy                 // dates that are no dates, such as 0000-00-00, towards other engines
	Unrepresentable Policy                 // infinity, NaN, dates before Christ and the like, from other engines
	TinyInt1Bool    bool                   // tinyint(1) is described as a boolean
	Lock            Lock                   //
	LockWait        time.Duration          // how long Freeze waits for its lock before it gives up; 0: 60 s
	NoBinlog        bool                   // target: what is written is kept out of the binlog (needs SUPER, BINLOG ADMIN or SYSTEM_VARIABLES_ADMIN)
	DeferKeys       bool                   // MyISAM and Aria: non-unique keys are disabled while a fresh table is loaded
	Definer         Definer                // target: under whose name views and programs are made
	Warn            func(tidemark.Finding) // what a connection does not protect from, once for each engine, and what else is worth knowing; nil: nowhere
}

// An Engine is one MySQL or MariaDB server: a source, a target, or both. Its
// methods may be used concurrently; a lane serves one call at a time.
type Engine struct {
	opt     Options
	to      address
	name    string // "mysql" or "mariadb", by what the server is
	mariadb bool
	version string // as the server says it
	major   int
	minor   int
	patch   int
	db      string // database of the URL; empty: all user databases
	limits  limits

	keepDates atomic.Bool // chunks have dates that are none as they are: as the stream does

	mu      sync.Mutex
	frozen  bool
	reads   []*session                      // reading lanes
	writes  []*session                      // writing lanes
	idle    []*session                      // ordinary sessions at rest
	named   *session                        // has the lock of a stream's name until that is followed
	holders []*session                      // after Freeze: they keep tables from being altered
	holdMu  sync.Mutex                      // held while tables are given to holders
	guard   *session                        // after Freeze with LockBackup on MySQL: holds that lock
	shapes  map[tidemark.TableID]tableShape // of target tables, as Write found them
	ledger  string                          // the database that holds the marker table, once known
	epochs  map[string]int64                // of the runs that this engine has begun: see Begin
	account string                          // the user as GRANT wants it
	agents  map[int]*applier                // of a stream that is applied
	closed  bool
	journal string   // the file in which streams remember the log; "": nowhere
	anew    bool     // Freeze begins it
	follows bool     // a stream was opened,
	based   uint32   // and this is what numbers of files have added to them in its places
	applied []uint64 // places that the target of a stream has, behind the one that it goes on from
}

// Open connects to the server of a URL:
//
//	mysql://user:password@host:3306/database?option=value
//
// mariadb:// means the same: what the server is decides. Options:
//
//	tls              false, preferred, true (encrypt, trust anybody), verify-ca or verify-full;
//	                 default: false on this machine; elsewhere TLS where the server has it, verified, and a
//	                 warning (Options.Warn) where that fails; verify-ca with tls-ca
//	tls-ca           file of the authorities that are trusted (PEM); default: the system's
//	tls-cert, tls-key  files of the client's certificate and key (PEM)
//	socket           path of a Unix socket, used instead of host and port
//	connect-timeout  seconds or a duration; default 10s
//
// Who may see the password itself, and not only a proof of it, without having proved who it is:
//
//	enable-cleartext-plugin  true: whoever asks for it by mysql_clear_password
//	get-server-public-key    true: whoever shows an RSA key, or any certificate
//	server-public-key-path   file of the server's RSA key (PEM)
//
// Errors: Invalid (the URL), Unreachable, Denied, Forbidden, NotFound (database),
// Unsupported (older than MySQL 8.0 or MariaDB 10.6).
func Open(ctx context.Context, rawURL string, opt Options) (*Engine, error) {
	to, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if opt.Warn == nil {
		opt.Warn = func(tidemark.Finding) {}
	}
	if opt.LockWait == 0 {
		opt.LockWait = 60 * time.Second
	}
	e := &Engine{opt: opt, to: to, db: to.db}
	s, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer s.within(to.timeout)()
	if err := e.identify(s); err != nil {
		s.close()
		return nil, err
	}
	if err := e.prepare(ctx, s); err != nil {
		s.close()
		return nil, e.fail("connect", "", err)
	}
	for _, f := range s.warnings {
		opt.Warn(f)
	}
	e.idle = append(e.idle, s)
	return e, nil
}

// Name gives the engine's name, "mysql" or "mariadb".
func (e *Engine) Name() string { return e.name }

// Version gives the server's version as it says it.
func (e *Engine) Version() string { return e.version }

// A session is one connection: go-mysql's client for statements, and our own
// packets on the same socket for rows. One goroutine uses it at a time.
type session struct {
	e    *Engine
	c    *statements
	net  net.Conn // below c, above TLS
	id   uint32   // for KILL
	wire *wire    // nil until rows are read or written
	dead bool     // not usable any more
	bulk bool     // the server takes many rows for a prepared statement

	warnings []tidemark.Finding // of its connection

	marked bool // on the frozen view, with a savepoint to go back to: see letGo
	reads  int  // on that view
	modes
}

// modes are session settings that are changed on demand.
type modes struct {
	charset string    // as SET NAMES was last told
	loader  bool      // set up for writing
	script  *settings // of a dump, if a statement of one was run
}

// connect opens a connection and logs in.
func (e *Engine) connect(ctx context.Context) (*session, error) {
	return e.connectFor(ctx, wishes{})
}

// wishes are what a session shall know of the protocol besides the usual.
type wishes struct {
	capabilities []uint32
	bulk         bool // rows for a prepared statement, see comBulkExecute; MariaDB only
}

func (e *Engine) connectFor(ctx context.Context, want wishes) (*session, error) {
	l, err := e.login(ctx, want)
	if err != nil {
		return nil, e.connectError(ctx, err)
	}
	c, err := newStatements(l)
	if err != nil {
		l.packets.conn.Close()
		return nil, e.connectError(ctx, err)
	}
	return &session{e: e, c: c, net: l.packets.conn, id: l.server.id, bulk: l.bulk, warnings: l.warnings()}, nil
}

// dialError tells a host that cannot be reached from one that hangs up.
type dialError struct{ error }

func (d *dialError) Unwrap() error { return d.error }

// identify finds out what the server is.
func (e *Engine) identify(s *session) error {
	r, err := s.c.Execute("SELECT VERSION(), CURRENT_USER(), " + askLimits)
	if err != nil {
		return e.fail("connect", "", err)
	}
	e.version, _ = r.GetString(0, 0)
	user, _ := r.GetString(0, 1)
	e.account = account(user)
	e.limits = readLimits(r, 2)
	e.readVersion()
	return e.supported()
}

func (e *Engine) readVersion() {
	e.mariadb = strings.Contains(strings.ToLower(e.version), "mariadb")
	e.name = "mysql"
	if e.mariadb {
		e.name = "mariadb"
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(e.version, "5.5.5-"), "-")
	_, _ = fmt.Sscanf(number, "%d.%d.%d", &e.major, &e.minor, &e.patch)
}

func (e *Engine) supported() error {
	if e.mariadb && !e.atLeast(10, 6, 0) || !e.mariadb && !e.atLeast(8, 0, 0) {
		return tidemark.Errorf(tidemark.Unsupported, "connect", e.to.masked, "the server's version is "+e.version,
			"MySQL 8.0 and MariaDB 10.6 are the oldest that are supported.")
	}
	return nil
}

// atLeast compares the server's version; ask for e.mariadb first.
func (e *Engine) atLeast(major, minor, patch int) bool {
	if e.major != major {
		return e.major > major
	}
	if e.minor != minor {
		return e.minor > minor
	}
	return e.patch >= patch
}

// prepare sets what every session of ours wants: text in utf8mb4, UTC, plain
// SQL, and a patience that outlasts a slow other side.
func (e *Engine) prepare(ctx context.Context, s *session) error {
	set := "SET NAMES utf8mb4, time_zone='+00:00', sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', autocommit=1, " +
		"SESSION wait_timeout=604800, SESSION net_read_timeout=86400, SESSION net_write_timeout=86400, " +
		"SESSION group_concat_max_len=67108864, SESSION sql_select_limit=18446744073709551615, SESSION tx_isolation='REPEATABLE-READ'"
	if e.mariadb {
		set += ", SESSION max_statement_time=0"
	} else {
		set = strings.Replace(set, "tx_isolation", "transaction_isolation", 1) +
			", SESSION max_execution_time=0, SESSION information_schema_stats_expiry=0"
	}
	s.charset = "utf8mb4"
	return s.exec(ctx, set)
}

// session opens a prepared session.
func (e *Engine) session(ctx context.Context) (*session, error) {
	s, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer s.within(e.to.timeout)()
	if err := e.prepare(ctx, s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// ordinary lends a session in autocommit, whether there is a frozen view or not.
func (e *Engine) ordinary(ctx context.Context) (*session, func(), error) {
	e.mu.Lock()
	var s *session
	for s == nil && len(e.idle) > 0 {
		s = e.idle[len(e.idle)-1]
		e.idle = e.idle[:len(e.idle)-1]
		if s.dead {
			s = nil
		}
	}
	e.mu.Unlock()
	if s != nil && s.ping() != nil {
		s.close()
		s = nil
	}
	if s == nil {
		var err error
		if s, err = e.session(ctx); err != nil {
			return nil, nil, err
		}
	}
	return s, func() { e.giveBack(s) }, nil
}

func (e *Engine) giveBack(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.dead || e.closed || len(e.idle) >= 4 {
		s.close()
		return
	}
	e.idle = append(e.idle, s)
}

// Close ends all sessions; a Write or Read that is under way fails.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.frozen = true, false
	for _, list := range [][]*session{e.reads, e.writes, e.idle, e.holders, {e.guard, e.named}} {
		for _, s := range list {
			if s != nil {
				s.close()
			}
		}
	}
	for _, a := range e.agents {
		if a.s != nil {
			_ = a.s.net.Close() // its agent may be in the middle of something: dead is for it to say
		}
	}
	e.reads, e.writes, e.idle, e.holders, e.guard, e.named = nil, nil, nil, nil, nil, nil
	return nil
}

func (s *session) ping() error {
	defer s.within(5 * time.Second)()
	return s.c.Ping()
}

// within gives what a session does until the result is called a limit of time.
func (s *session) within(limit time.Duration) (over func()) {
	_ = s.net.SetDeadline(time.Now().Add(limit))
	return func() { _ = s.net.SetDeadline(time.Time{}) }
}

func (s *session) close() {
	s.dead = true
	_ = s.net.Close()
}

// abort makes whatever the session is waiting for return at once. The session
// is of no use after.
func (s *session) abort() { _ = s.net.SetDeadline(time.Unix(1, 0)) }

// query runs one statement. When ctx ends, the statement is killed on the
// server, and the session is dead.
func (s *session) query(ctx context.Context, sql string) (*gomysql.Result, error) {
	stop := crash.OnDone(ctx, s.abort)
	r, err := s.c.Execute(sql)
	if !stop() {
		s.dead = true
		s.e.kill(s.id)
		return nil, s.e.fail("run", "", context.Cause(ctx))
	}
	if err != nil {
		var my *gomysql.MyError
		if !errors.As(err, &my) {
			s.dead = true
		}
		return nil, err
	}
	return r, nil
}

// exec is query for statements without a result; its error is the driver's.
func (s *session) exec(ctx context.Context, sql string) error {
	r, err := s.query(ctx, sql)
	if r != nil {
		r.Close()
	}
	return err
}

// kill ends a session of ours on the server, so that a long statement does not
// run on after its caller has gone.
func (e *Engine) kill(id uint32) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := e.connect(ctx)
	if err != nil {
		return // the server finds out by itself, later
	}
	defer s.close()
	_ = s.exec(ctx, "KILL "+strconv.FormatUint(uint64(id), 10))
}
