package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/internal/roundtrip"
)

// The supported server versions. Others are refused, because their catalogue or COPY may differ.
const (
	OldestMajor = 13
	newestMajor = 18
)

// Options of an Engine. The zero value is good.
type Options struct {
	Grants       bool // native DDL includes grants
	Owners       bool // native DDL includes owners
	TinyInt1Bool bool // MySQL's tinyint(1) becomes boolean
	NullDates    bool // invalid dates of the source arrive as NULL
	RunAsMe      bool // write even where others' code would run with our rights

	Warn func(tidemark.Finding) // gets what is to be known about the connection; nil: nobody

	// MaintenanceMem is the memory, in bytes, that each lane may use to build an index; 0 means
	// 256 MB. Half of the target's memory divided by the number of lanes is a good upper bound.
	MaintenanceMem int64
	// IndexWorkers is max_parallel_maintenance_workers of each lane that builds indexes; 0 keeps
	// the server's setting, negative means no workers.
	IndexWorkers int
}

// A Server is one database of one server, and the shared sessions on it. Its methods may be called
// concurrently.
type Server struct {
	Config    *pgx.ConnConfig
	Options   Options
	Object    string // the database's name in messages: postgres://user@host:port/name
	version   string // "15.18"
	Major     int
	Encoding  string // of the database
	BlockSize int64  // bytes of a heap block

	leaderMu sync.Mutex
	lead     *pgx.Conn
	snapshot string // exported by lead; "" before Freeze

	controlMu sync.Mutex // control runs the statements of Inspect, Ledger and Preflight
	control   *pgx.Conn

	Distance roundtrip.Distance
	plain    pgconn.DialFunc // of connections whose turns are not counted

	passfile string // where a password was looked for

	open    atomic.Int32 // sessions
	entered bool         // sessions make their settings; see enter
	noTLS   atomic.Bool  // the URL prefers TLS, and the server has none: asking again costs a round trip

	pidsMu sync.Mutex
	pids   []uint32 // of all sessions so far

	look func(context.Context, *pgx.Conn) error // see OnConnect
}

// Open connects to the database that url names ("postgres://user@host/db", or libpq's keyword form;
// missing parts come from the usual PG* variables and the password file) and checks the server's
// version. Errors are of Kind Invalid, Unreachable, Denied, NotFound, Transient or Unsupported.
func Open(ctx context.Context, url string, opt Options) (*Server, error) {
	cfg, err := readURL(url)
	if err != nil {
		return nil, err
	}
	if cfg.Database == "" {
		cfg.Database = cfg.User // as the server does
	}
	s := &Server{Config: cfg, Options: opt, Object: objectOf(cfg), passfile: passfileOf(url)}
	cfg.AfterConnect = s.prepareSession
	s.plain = cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := s.plain(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return roundtrip.NewConn(ctx, conn, &s.Distance), nil
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip, not one more to describe the parameters
	s.lead, err = s.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if f := s.plainText(); f != nil && opt.Warn != nil {
		opt.Warn(*f)
	}
	return s, nil
}

// OnConnect sets a check that runs on each session opened from now on.
func (s *Server) OnConnect(look func(context.Context, *pgx.Conn) error) { s.look = look }

// objectOf returns the name of a database for messages, without anything that could be secret.
func objectOf(cfg *pgx.ConnConfig) string {
	u := url.URL{Scheme: "postgres", User: url.User(cfg.User), Path: "/" + cfg.Database}
	if strings.HasPrefix(cfg.Host, "/") {
		u.RawQuery = "host=" + cfg.Host
	} else {
		u.Host = net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	}
	return u.String()
}

// quotedPart matches what an error quotes of a connection string: possibly a piece of a password
// that was not encoded.
var quotedPart = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|'[^']*'")

// parseCause removes the connection string from a parse error.
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

// Connect opens a session with the settings of prepareSession.
func (s *Server) Connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, s.connectFailed(ctx, err)
	}
	s.leaderMu.Lock()
	if s.version == "" {
		s.version, s.Major = parseVersion(conn.PgConn().ParameterStatus("server_version"))
		s.Encoding = conn.PgConn().ParameterStatus("server_encoding")
	}
	s.leaderMu.Unlock()
	if s.look != nil {
		if err := s.look(ctx, conn); err != nil {
			CloseConn(conn)
			return nil, err
		}
	}
	return conn, nil
}

// hosts is how many servers a URL names.
func hosts(cfg *pgx.ConnConfig) int {
	n, last := 1, &pgconn.FallbackConfig{Host: cfg.Host, Port: cfg.Port}
	for _, f := range cfg.Fallbacks {
		if f.Host != last.Host || f.Port != last.Port {
			n++
		}
		last = f
	}
	return n
}

// dial opens a session and runs prepareSession, all within the URL's connect_timeout for each
// server.
func (s *Server) dial(ctx context.Context) (*pgx.Conn, error) {
	if s.Config.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Config.ConnectTimeout*time.Duration(hosts(s.Config)))
		defer cancel()
	}
	cfg := s.Config.Copy()
	if s.noTLS.Load() {
		cfg.TLSConfig, cfg.Fallbacks = nil, nil
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if oneHost(cfg) {
		_, encrypted := conn.PgConn().Conn().(*tls.Conn)
		s.noTLS.Store(!encrypted)
	}
	s.open.Add(1)
	crash.Go(func() {
		<-conn.PgConn().CleanupDone()
		s.open.Add(-1)
	})
	return conn, nil
}

// plainText is a finding if the URL leaves it to the server whether there is TLS (sslmode=prefer,
// which holds without one, or allow), and there is none, as behind a proxy that strips it.
func (s *Server) plainText() *tidemark.Finding {
	conn := s.lead.PgConn().Conn()
	_, encrypted := conn.(*tls.Conn)
	peer, isTCP := conn.RemoteAddr().(*net.TCPAddr)
	asked := s.Config.TLSConfig != nil || slices.ContainsFunc(s.Config.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig != nil })
	if encrypted || !asked || !isTCP || peer.IP.IsLoopback() {
		return nil
	}
	return &tidemark.Finding{Severity: tidemark.Warning, Object: s.Object, Text: "the connection has no TLS: anyone on the network path can read and change the traffic",
		Hint: "Set the server, or the proxy before it, up for TLS, and demand it: sslmode=verify-full. sslmode=disable says that the network is safe."}
}

// oneHost reports whether all attempts of a connection, with TLS and without, go to one address.
func oneHost(cfg *pgx.ConnConfig) bool {
	return !slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != cfg.Host || f.Port != cfg.Port })
}

// prepareSession runs first on every session. It checks the version, and makes the settings on
// which the text of values depends and which keep a long copy undisturbed. They are SETs and not
// startup parameters, which poolers refuse. Until Open has entered, nothing is set.
func (s *Server) prepareSession(ctx context.Context, conn *pgconn.PgConn) error {
	version, major := parseVersion(conn.ParameterStatus("server_version"))
	if major < OldestMajor || major > newestMajor {
		return &tidemark.Error{Op: "connect", Object: s.Object, Kind: tidemark.Unsupported,
			Err:  fmt.Errorf("the server is PostgreSQL %s", version),
			Hint: fmt.Sprintf("PostgreSQL %d to %d are supported.", OldestMajor, newestMajor)}
	}
	s.pidsMu.Lock()
	s.pids = append(s.pids, conn.PID())
	s.pidsMu.Unlock()
	var err error
	if s.entered {
		err = conn.Exec(ctx, SessionSQL(major)).Close()
	}
	roundtrip.LoggedIn(conn.Conn())
	return err
}

// SessionSQL returns the settings of every session.
func SessionSQL(major int) string {
	set := []string{
		"client_encoding = 'UTF8'",
		"search_path = pg_catalog", // names in definitions come out qualified
		"DateStyle = 'ISO, YMD'",
		"TimeZone = 'UTC'",
		"IntervalStyle = iso_8601",
		"bytea_output = hex",
		"extra_float_digits = 3",
		"lc_monetary = 'C'", // else money is printed and parsed by the server's locale
		"xmloption = content",
		"standard_conforming_strings = on",
		"array_nulls = on",            // else NULL in an array's text is the string 'NULL'
		"quote_all_identifiers = off", // else definitions differ from those of other servers
		"row_security = off",          // an error instead of silently missing rows
		"statement_timeout = 0", "lock_timeout = 0",
		"idle_in_transaction_session_timeout = 0",
		// A session whose client is gone must not keep its locks for hours.
		"tcp_keepalives_idle = 30", "tcp_keepalives_interval = 10", "tcp_keepalives_count = 6",
		"default_transaction_read_only = off",
		"synchronize_seqscans = off", // rows in physical order
		"jit = off",
		"check_function_bodies = off", // a function may be created before the objects it uses
	}
	if major >= 14 {
		set = append(set, "idle_session_timeout = 0")
	}
	if major >= 17 {
		set = append(set, "transaction_timeout = 0")
	}
	sql := "SET " + strings.Join(set, "; SET ")
	if major >= 14 { // a server on another system may refuse it, and with it the session
		sql += "; SELECT pg_catalog.set_config('client_connection_check_interval', '10s', false) FROM pg_catalog.version() v WHERE v LIKE '%linux%'"
	}
	return sql
}

// parseVersion parses "15.18 (Debian 15.18-0+deb12u1)" and "18beta1".
func parseVersion(s string) (version string, major int) {
	version, _, _ = strings.Cut(s, " ")
	end := 0
	for end < len(version) && version[end] >= '0' && version[end] <= '9' {
		end++
	}
	major, _ = strconv.Atoi(version[:end])
	return version, major
}

// Leader returns the session for the catalogue, and a function that releases it. After Freeze it is
// inside the snapshot's transaction: a statement that fails there ends the transaction and the
// copy's snapshot.
func (s *Server) Leader(ctx context.Context) (*pgx.Conn, func(), error) {
	s.leaderMu.Lock()
	if s.lead != nil && !s.lead.IsClosed() {
		roundtrip.Bind(ctx, s.lead.PgConn().Conn())
		return s.lead, s.leaderMu.Unlock, nil
	}
	frozen := s.snapshot != ""
	s.leaderMu.Unlock()
	if frozen {
		return nil, nil, s.Lost(nil)
	}
	conn, err := s.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.leaderMu.Lock()
	if s.lead != nil && !s.lead.IsClosed() {
		CloseConn(conn) // another caller was faster
	} else {
		s.lead = conn
	}
	return s.lead, s.leaderMu.Unlock, nil
}

// Lost returns the error for losing the copy's snapshot of the source.
func (s *Server) Lost(cause error) error {
	gone := tidemark.ErrSnapshotLost
	if cause != nil {
		gone = fmt.Errorf("%w: %s", gone, PlainCause(cause))
	}
	return &tidemark.Error{Kind: tidemark.Lost, Op: "read", Object: s.Object, Err: gone, Hint: "Start again with --resume: ranges that are on the target already are kept if the source has not changed."}
}

// Control returns the session for our own statements, and a function that releases it.
func (s *Server) Control(ctx context.Context) (*pgx.Conn, func(), error) {
	s.controlMu.Lock()
	if s.control == nil || s.control.IsClosed() {
		conn, err := s.Connect(ctx)
		if err != nil {
			s.controlMu.Unlock()
			return nil, nil, err
		}
		s.control = conn
	}
	roundtrip.Bind(ctx, s.control.PgConn().Conn())
	return s.control, s.controlMu.Unlock, nil
}

// Version returns the version that the server reports: "15.18".
func (s *Server) Version() string { return s.version }

// Close ends the shared sessions, and with them the frozen view.
func (s *Server) Close() {
	s.controlMu.Lock()
	CloseConn(s.control)
	s.control = nil
	s.controlMu.Unlock()
	s.leaderMu.Lock()
	CloseConn(s.lead)
	s.lead = nil
	s.leaderMu.Unlock()
}

// SetSnapshot records the name of the snapshot that the leader exported.
func (s *Server) SetSnapshot(name string) {
	s.leaderMu.Lock()
	defer s.leaderMu.Unlock()
	s.snapshot = name
}

// Snapshot returns the name of the leader's snapshot; "" if there is none.
func (s *Server) Snapshot() string {
	s.leaderMu.Lock()
	defer s.leaderMu.Unlock()
	return s.snapshot
}

// PIDs returns the process IDs on the server of all sessions so far.
func (s *Server) PIDs() []uint32 {
	s.pidsMu.Lock()
	defer s.pidsMu.Unlock()
	return slices.Clone(s.pids)
}

// ForgetPID removes a session from PIDs.
func (s *Server) ForgetPID(pid uint32) {
	s.pidsMu.Lock()
	defer s.pidsMu.Unlock()
	s.pids = slices.DeleteFunc(s.pids, func(p uint32) bool { return p == pid })
}

// CloseConn closes a connection cleanly, but does not wait long for an answer.
func CloseConn(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	closeSession(conn.PgConn())
}

// closeSession waits two seconds at most. A session that was stopped in the middle of a statement
// cancels it first: without that, it stays in the queue for a lock, and others wait behind it.
func closeSession(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = conn.Close(ctx) // best effort: the connection is closed either way
	select {
	case <-conn.CleanupDone():
	case <-ctx.Done():
	}
}
