package server

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
	"github.com/tidemarkdb/tidemark/internal/roundtrip"
)

// A Server is one MySQL or MariaDB server: its address, its properties, and our reusable sessions
// on it. Its methods may be used concurrently.
type Server struct {
	Options Options
	to      address
	Masked  string // its URL without the password, for messages
	name    string // "mysql" or "mariadb", as detected
	MariaDB bool
	version string // as the server reports it
	Major   int
	Minor   int
	Patch   int
	DB      string // database of the URL; empty: all user databases
	Limits  Limits
	account string // the user in the syntax of GRANT

	KeepDates atomic.Bool // chunks keep invalid dates unchanged, as the stream does

	// LogBase returns the number added to log file numbers in places; nil: 0. The stream's journal
	// keeps it.
	LogBase func() (uint64, error)

	Distance roundtrip.Distance

	mu     sync.Mutex
	idle   []*Session // not in use
	own    string     // database of our own tables, once known
	closed bool
}

// Open connects to the server of a URL:
//
//	mysql://user:password@host:3306/database?option=value
//
// mariadb:// means the same: the server's own version decides. Options:
//
//	tls              false, preferred, true (encrypt, trust anybody), verify-ca or verify-full;
//	                 default: false on this machine; elsewhere TLS if the server supports it, verified, and a
//	                 warning (Options.Warn) if that fails; verify-ca with tls-ca
//	tls-ca           file of the authorities that are trusted (PEM); default: the system's
//	tls-cert, tls-key  files of the client's certificate and key (PEM)
//	socket           path of a Unix socket, used instead of host and port
//	connect-timeout  seconds or a duration; default 10s
//
// Unauthenticated servers that may see the password itself, not only a proof of it:
//
//	enable-cleartext-plugin  true: any server that asks for it by mysql_clear_password
//	get-server-public-key    true: any server that shows an RSA key, or any certificate
//	server-public-key-path   file of the server's RSA key (PEM)
//
// Errors: Invalid (the URL), Unreachable, Denied, Forbidden, NotFound (database),
// Unsupported (older than MySQL 8.0 or MariaDB 10.6).
func Open(ctx context.Context, rawURL string, opt Options) (*Server, error) {
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
	e := &Server{Options: opt, to: to, Masked: to.masked, DB: to.db}
	s, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer s.within(to.timeout)()
	if err := e.identify(s); err != nil {
		s.Close()
		return nil, err
	}
	if err := e.Prepare(ctx, s); err != nil {
		s.Close()
		return nil, e.Fail("connect", e.Masked, err)
	}
	for _, f := range s.warnings {
		opt.Warn(f)
	}
	e.idle = append(e.idle, s)
	return e, nil
}

// Name returns the engine's name, "mysql" or "mariadb".
func (e *Server) Name() string { return e.name }

// Version returns the server's version as it reports it.
func (e *Server) Version() string { return e.version }

// A Session is one connection: go-mysql's client for statements, and our own
// packets on the same socket for rows. One goroutine uses it at a time.
type Session struct {
	Server *Server
	Client *Client
	Conn   net.Conn // below c, above TLS
	ID     uint32   // for KILL
	Wire   *Wire    // nil until rows are read or written
	Dead   bool     // no longer usable
	Bulk   bool     // the server accepts many rows for one prepared statement
	Asks   string   // the plugin that asks for the password at times, where it is not sent; "": none

	warnings []tidemark.Finding // about its connection

	Marked bool // on the frozen view, with a savepoint to return to: see releaseLocks (mysql/bulk)
	Reads  int  // reads made on that view
	modes
}

// modes are session settings that are changed on demand.
type modes struct {
	Charset string    // of the last SET NAMES
	Loader  bool      // set up for writing
	Script  *Settings // of a dump, if the session ran a statement of one
	Quiet   bool      // sql_notes is off
}

// Settings record how many of a dump's SETs a session has run.
type Settings struct{ Version, N int }

// connect opens a connection and logs in.
func (e *Server) connect(ctx context.Context) (*Session, error) {
	return e.ConnectFor(ctx, Wishes{})
}

// Wishes are optional protocol features that a session asks for.
type Wishes struct {
	Capabilities []uint32
	Bulk         bool // many rows for one prepared statement, see comBulkExecute; MariaDB only
}

func (e *Server) ConnectFor(ctx context.Context, want Wishes) (*Session, error) {
	l, err := e.login(ctx, want)
	if err != nil {
		return nil, e.connectError(ctx, err)
	}
	c, err := newStatements(l)
	if err != nil {
		l.packets.conn.Close()
		return nil, e.connectError(ctx, err)
	}
	return &Session{Server: e, Client: c, Conn: l.packets.conn, ID: l.server.id, Bulk: l.bulk, Asks: l.asks(), warnings: l.warnings()}, nil
}

// dialError distinguishes an unreachable host from one that hangs up.
type dialError struct{ error }

func (d *dialError) Unwrap() error { return d.error }

// identify detects the kind and version of the server.
func (e *Server) identify(s *Session) error {
	r, err := s.Client.Execute("SELECT VERSION(), CURRENT_USER(), " + askLimits)
	if err != nil {
		return e.Fail("connect", e.Masked, err)
	}
	e.version, _ = r.GetString(0, 0)
	user, _ := r.GetString(0, 1)
	e.account = account(user)
	e.Limits = readLimits(r, 2)
	e.readVersion()
	return e.supported()
}

func (e *Server) readVersion() {
	e.MariaDB = strings.Contains(strings.ToLower(e.version), "mariadb")
	e.name = "mysql"
	if e.MariaDB {
		e.name = "mariadb"
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(e.version, "5.5.5-"), "-")
	_, _ = fmt.Sscanf(number, "%d.%d.%d", &e.Major, &e.Minor, &e.Patch)
}

func (e *Server) supported() error {
	if e.MariaDB && !e.AtLeast(10, 6, 0) || !e.MariaDB && !e.AtLeast(8, 0, 0) {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "connect", Object: e.to.masked, Err: errors.New("the server's version is " + e.version), Hint: "MySQL 8.0 and MariaDB 10.6 are the oldest that are supported."}
	}
	return nil
}

// AtLeast reports whether the server has at least this version; check e.MariaDB first.
func (e *Server) AtLeast(major, minor, patch int) bool {
	if e.Major != major {
		return e.Major > major
	}
	if e.Minor != minor {
		return e.Minor > minor
	}
	return e.Patch >= patch
}

// Prepare makes the settings that all our sessions need: text in utf8mb4, UTC, plain SQL, timeouts
// that outlast a slow peer, and no limits or habits that a server's defaults have for its users.
func (e *Server) Prepare(ctx context.Context, s *Session) error {
	set := "SET NAMES utf8mb4, time_zone='+00:00', sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', autocommit=1, " +
		"SESSION wait_timeout=604800, SESSION net_read_timeout=86400, SESSION net_write_timeout=86400, " +
		"SESSION group_concat_max_len=67108864, SESSION sql_select_limit=18446744073709551615, sql_big_selects=1, " +
		"sql_quote_show_create=1, sql_safe_updates=0, sql_auto_is_null=0, SESSION completion_type='NO_CHAIN', " +
		"SESSION tx_isolation='REPEATABLE-READ', SESSION tx_read_only=0"
	if e.MariaDB {
		set += ", SESSION max_statement_time=0"
	} else {
		set = strings.ReplaceAll(set, "SESSION tx_", "SESSION transaction_") +
			", SESSION max_execution_time=0, SESSION information_schema_stats_expiry=0"
	}
	s.Charset = "utf8mb4"
	return s.Exec(ctx, set)
}

// NewSession opens a prepared session.
func (e *Server) NewSession(ctx context.Context) (*Session, error) {
	s, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer s.within(e.to.timeout)()
	if err := e.Prepare(ctx, s); err != nil {
		s.Close()
		return nil, e.Fail("connect", e.Masked, err)
	}
	return s, nil
}

// Lend lends a session in autocommit, with or without a snapshot.
func (e *Server) Lend(ctx context.Context) (*Session, func(), error) {
	e.mu.Lock()
	var s *Session
	for s == nil && len(e.idle) > 0 {
		s = e.idle[len(e.idle)-1]
		e.idle = e.idle[:len(e.idle)-1]
		if s.Dead {
			s = nil
		}
	}
	e.mu.Unlock()
	if s != nil {
		roundtrip.Bind(ctx, s.Conn)
	}
	if s != nil && s.ping() != nil {
		s.Close()
		s = nil
	}
	if s == nil {
		var err error
		if s, err = e.NewSession(ctx); err != nil {
			return nil, nil, err
		}
	}
	return s, func() { e.giveBack(s) }, nil
}

func (e *Server) giveBack(s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.Dead || e.closed || len(e.idle) >= 4 {
		s.Close()
		return
	}
	e.idle = append(e.idle, s)
}

// Close ends the sessions.
func (e *Server) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	CloseAll(e.idle)
	e.idle = nil
	return nil
}

// CloseAll ends sessions; nil entries are ignored.
func CloseAll(list []*Session) {
	for _, s := range list {
		if s != nil {
			s.Close()
		}
	}
}

// ping asks the server for nothing: what it takes is the distance.
func (s *Session) ping() error {
	defer s.within(5 * time.Second)()
	asked := time.Now()
	err := s.Client.Ping()
	if err == nil {
		s.Server.Distance.Note(time.Since(asked))
	}
	return err
}

// within limits the time of what the session does until over is called.
func (s *Session) within(limit time.Duration) (over func()) {
	_ = s.Conn.SetDeadline(time.Now().Add(limit))
	return func() { _ = s.Conn.SetDeadline(time.Time{}) }
}

func (s *Session) Close() {
	s.Dead = true
	_ = s.Conn.Close()
}

// Abort immediately ends any wait of the session. The session is unusable afterwards.
func (s *Session) Abort() { _ = s.Conn.SetDeadline(time.Unix(1, 0)) }

// Watch begins work on the session, for whose round trips ctx's worker waits: when ctx ends before
// stop is called, the session is aborted, and stop returns false.
func (s *Session) Watch(ctx context.Context) (stop func() bool) {
	roundtrip.Bind(ctx, s.Conn)
	return crash.OnDone(ctx, s.Abort)
}

// Query runs one statement. When ctx ends, the statement is killed on the server, and the session
// is closed.
func (s *Session) Query(ctx context.Context, sql string) (r *gomysql.Result, err error) {
	err = s.doing(ctx, func() error {
		r, err = s.Client.Execute(sql)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Defaults returns the values of a table's defaults: MariaDB's texts of definitions show characters
// of four bytes as question marks. The session changes to the table's database.
func (s *Session) Defaults(ctx context.Context, id tidemark.TableID) (map[string][]byte, error) {
	out := map[string][]byte{}
	return out, s.doing(ctx, func() error {
		if err := s.Client.UseDB(id.Schema); err != nil {
			return err
		}
		fields, err := s.Client.FieldList(id.Name, "")
		for _, f := range fields {
			out[string(f.Name)] = f.DefaultValue
		}
		return err
	})
}

// doing does something with the session; it is closed where ctx ends or the server is gone.
func (s *Session) doing(ctx context.Context, do func() error) error {
	stop := s.Watch(ctx)
	err := do()
	if !stop() {
		s.Dead = true
		s.Server.Kill(s.ID)
		return s.Server.Fail("run", "", context.Cause(ctx))
	}
	var my *gomysql.MyError
	if err != nil && !errors.As(err, &my) {
		s.Dead = true
	}
	return err
}

// Exec is Query for statements without a result; its error is the driver's.
func (s *Session) Exec(ctx context.Context, sql string) error {
	r, err := s.Query(ctx, sql)
	if r != nil {
		r.Close()
	}
	return err
}

// Kill ends one of our sessions on the server, so that a long statement does not outlive its
// caller.
func (e *Server) Kill(id uint32) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := e.connect(ctx)
	if err != nil {
		return // the server notices by itself, later
	}
	defer s.Close()
	_ = s.Exec(ctx, "KILL "+strconv.FormatUint(uint64(id), 10))
}

// Ask runs a query on an ordinary session and returns its cells.
func (e *Server) Ask(ctx context.Context, sql string) ([][]string, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	r, err := s.Query(ctx, sql)
	if err != nil {
		return nil, e.Fail("query", e.Masked, err)
	}
	out := make([][]string, r.RowNumber())
	for i := range out {
		for j := range r.ColumnNumber() {
			out[i] = append(out[i], strings.Clone(Cell(r, i, j)))
		}
	}
	return out, nil
}
