package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
)

// The server versions that the engine knows; others are refused, because their
// catalogue or their COPY may mean something else.
const (
	OldestMajor = 13
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

// A Server is one database of one server, and the sessions that all who work on it share. Its methods may be called
// concurrently.
type Server struct {
	Config    *pgx.ConnConfig
	Options   Options
	Object    string // the database in messages: postgres://user@host:port/name
	version   string // "15.18"
	Major     int
	Encoding  string // of the database
	BlockSize int64  // bytes of a heap block

	leaderMu sync.Mutex
	lead     *pgx.Conn
	snapshot string // exported by lead; "" before Freeze

	controlMu sync.Mutex // control runs the statements of Inspect, Ledger and Preflight
	control   *pgx.Conn

	pidsMu sync.Mutex
	pids   []uint32 // of all sessions so far

	look func(context.Context, *pgx.Conn) error // see OnConnect
}

// Open connects to the database that url names ("postgres://user@host/db", or
// libpq's keyword form; what is missing comes from the usual PG* variables and the
// password file) and checks the server's version. Errors are of Kind Invalid,
// Unreachable, Denied, NotFound, Transient or Unsupported.
func Open(ctx context.Context, url string, opt Options) (*Server, error) {
	cfg, err := readURL(url)
	if err != nil {
		return nil, err
	}
	if cfg.Database == "" {
		cfg.Database = cfg.User // as the server does
	}
	s := &Server{Config: cfg, Options: opt, Object: objectOf(cfg)}
	cfg.AfterConnect = s.settle
	s.lead, err = s.Connect(ctx)
	if err != nil {
		return nil, err
	}
	var size string
	var pid uint32
	if err := s.lead.QueryRow(ctx, "SELECT current_setting('block_size'), pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&size, &pid); err != nil {
		s.Close()
		return nil, s.Fail(ctx, "connect", s.Object, err)
	}
	s.BlockSize, _ = strconv.ParseInt(size, 10, 64)
	if pid != s.lead.PgConn().PID() { // a pooler makes up keys for cancelling
		if err := s.refuseTransactionPool(ctx, pid); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// OnConnect has each session that is opened from now on looked at before it is used.
func (s *Server) OnConnect(look func(context.Context, *pgx.Conn) error) { s.look = look }

// refuseTransactionPool looks whether the pooler in between has given the leader's
// server process, which is between two transactions, to somebody else. Through such a
// pool our settings would reach other programs' statements, and not all of our own.
func (s *Server) refuseTransactionPool(ctx context.Context, pid uint32) error {
	other, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer CloseConn(other)
	var again uint32
	if err := other.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&again); err != nil {
		return s.Fail(ctx, "connect", s.Object, err)
	}
	if again != pid {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "connect", Object: s.Object, Err: errors.New("a pooler in between gives each transaction another session of the server"), Hint: "Give the server's own address, or that of a pool with pool_mode = session: snapshots and settings do not survive the other modes."}
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

// Connect opens a session. Its settings are those of settle.
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

// dial opens a session, with all that settle asks, within the URL's connect_timeout.
func (s *Server) dial(ctx context.Context) (*pgx.Conn, error) {
	if s.Config.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Config.ConnectTimeout)
		defer cancel()
	}
	return pgx.ConnectConfig(ctx, s.Config.Copy())
}

// settle is the first thing said on every session: the version is checked, and
// settings are made that the text of values, and the peace of a long copy, depend
// on. They are SETs and not startup parameters, which poolers refuse.
func (s *Server) settle(ctx context.Context, conn *pgconn.PgConn) error {
	version, major := parseVersion(conn.ParameterStatus("server_version"))
	if major < OldestMajor || major > newestMajor {
		return &tidemark.Error{Op: "connect", Object: s.Object, Kind: tidemark.Unsupported,
			Err:  fmt.Errorf("the server is PostgreSQL %s", version),
			Hint: fmt.Sprintf("PostgreSQL %d to %d are supported.", OldestMajor, newestMajor)}
	}
	s.pidsMu.Lock()
	s.pids = append(s.pids, conn.PID())
	s.pidsMu.Unlock()
	return conn.Exec(ctx, SessionSQL(major)).Close()
}

// SessionSQL gives the settings of every session.
func SessionSQL(major int) string {
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

// Leader gives the session for the catalogue, and what gives it back. After Freeze
// it is inside the frozen transaction: a statement that fails there ends it, and
// with it the copy's view.
func (s *Server) Leader(ctx context.Context) (*pgx.Conn, func(), error) {
	s.leaderMu.Lock()
	if s.lead != nil && !s.lead.IsClosed() {
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
		CloseConn(conn) // somebody else was faster
	} else {
		s.lead = conn
	}
	return s.lead, s.leaderMu.Unlock, nil
}

// Lost is the error that ends the copy's view of the source.
func (s *Server) Lost(cause error) error {
	text := "the session that holds the snapshot is gone"
	if cause != nil {
		text += ": " + PlainCause(cause)
	}
	return &tidemark.Error{Kind: tidemark.Lost, Op: "read", Object: s.Object, Err: errors.New(text), Hint: "Start again with --resume: ranges that are on the target already are kept if the source has not changed."}
}

// Control gives the session for statements of our own, and what gives it back.
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
	return s.control, s.controlMu.Unlock, nil
}

// Version gives the server's version as it says it: "15.18".
func (s *Server) Version() string { return s.version }

// Close ends the sessions of its own, and with them the frozen view.
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

// SetSnapshot says that the leader holds a view that was exported under this name.
func (s *Server) SetSnapshot(name string) {
	s.leaderMu.Lock()
	defer s.leaderMu.Unlock()
	s.snapshot = name
}

// Snapshot is the name of the view that the leader holds; "" if it holds none.
func (s *Server) Snapshot() string {
	s.leaderMu.Lock()
	defer s.leaderMu.Unlock()
	return s.snapshot
}

// PIDs are the server's processes of all sessions so far.
func (s *Server) PIDs() []uint32 {
	s.pidsMu.Lock()
	defer s.pidsMu.Unlock()
	return slices.Clone(s.pids)
}

// ForgetPID takes a session out of them.
func (s *Server) ForgetPID(pid uint32) {
	s.pidsMu.Lock()
	defer s.pidsMu.Unlock()
	s.pids = slices.DeleteFunc(s.pids, func(p uint32) bool { return p == pid })
}

// CloseConn says goodbye, but does not wait long for an answer.
func CloseConn(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it is gone either way
}
