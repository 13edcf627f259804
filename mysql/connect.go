package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
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
	ZeroDates       Policy        // dates that are no dates, such as 0000-00-00, towards other engines
	Unrepresentable Policy        // infinity, NaN, dates before Christ and the like, from other engines
	TinyInt1Bool    bool          // tinyint(1) is described as a boolean
	Lock            Lock          //
	LockWait        time.Duration // how long Freeze waits for its lock before it gives up; 0: 60 s
	NoBinlog        bool          // target: what is written is kept out of the binlog (needs SUPER, BINLOG ADMIN or SYSTEM_VARIABLES_ADMIN)
	DeferKeys       bool          // MyISAM and Aria: non-unique keys are disabled while a fresh table is loaded
	Definer         Definer       // target: under whose name views and programs are made
	Log             *slog.Logger  // nil: nowhere
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

	keepDates atomic.Bool // chunks have dates that are none as they are: as the stream does

	mu      sync.Mutex
	frozen  bool
	reads   []*session                      // reading lanes
	writes  []*session                      // writing lanes
	idle    []*session                      // ordinary sessions at rest
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

// address is where a server is and who asks.
type address struct {
	network, host  string // "tcp" and host:port, or "unix" and a path
	user, password string
	db             string
	tls            *tls.Config // nil: none
	tlsOptional    bool        // go on without TLS where the server has none
	timeout        time.Duration
	masked         string // for messages
}

// Open connects to the server of a URL:
//
//	mysql://user:password@host:3306/database?option=value
//
// mariadb:// means the same: what the server is decides. Options:
//
//	tls              false, preferred, true (encrypt, trust anybody), verify-ca or verify-full;
//	                 default: false on this machine, preferred elsewhere
//	tls-ca           file of the authorities that verify-ca and verify-full trust (PEM); default: the system's
//	tls-cert, tls-key  files of the client's certificate and key (PEM)
//	socket           path of a Unix socket, used instead of host and port
//	connect-timeout  seconds or a duration; default 10s
//
// Errors: Invalid (the URL), Unreachable, Denied, Forbidden, NotFound (database),
// Unsupported (older than MySQL 8.0 or MariaDB 10.6).
func Open(ctx context.Context, rawURL string, opt Options) (*Engine, error) {
	to, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.LockWait == 0 {
		opt.LockWait = 60 * time.Second
	}
	e := &Engine{opt: opt, to: to, db: to.db}
	s, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.identify(s); err != nil {
		s.close()
		return nil, err
	}
	if err := e.prepare(ctx, s); err != nil {
		s.close()
		return nil, err
	}
	e.idle = append(e.idle, s)
	return e, nil
}

// Name gives the engine's name, "mysql" or "mariadb".
func (e *Engine) Name() string { return e.name }

// Version gives the server's version as it says it.
func (e *Engine) Version() string { return e.version }

func parseURL(rawURL string) (address, error) {
	bad := func(cause string) error {
		return tidemark.Errorf(tidemark.Invalid, "open", tidemark.MaskURL(rawURL), cause,
			"The form is mysql://user:password@host:3306/database, with special characters of the password percent-encoded.")
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		// The cause quotes the URL, password and all.
		return address{}, tidemark.Errorf(tidemark.Invalid, "open", "", "the URL is malformed",
			"The form is mysql://user:password@host:3306/database, with special characters of the password percent-encoded.")
	}
	if u.Scheme != "mysql" && u.Scheme != "mariadb" {
		return address{}, bad("the scheme is neither mysql nor mariadb")
	}
	a := address{network: "tcp", db: strings.Trim(u.Path, "/"), timeout: 10 * time.Second, masked: tidemark.MaskURL(rawURL)}
	if u.User != nil {
		a.user = u.User.Username()
		a.password, _ = u.User.Password()
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "3306"
	}
	a.host = net.JoinHostPort(host, port)
	query := u.Query()
	local := host == "localhost" || net.ParseIP(host).IsLoopback()
	for key := range query {
		value := query.Get(key)
		switch key {
		case "tls", "tls-ca", "tls-cert", "tls-key":
		case "socket":
			a.network, a.host, local = "unix", value, true
		case "connect-timeout":
			if a.timeout, err = time.ParseDuration(value); err != nil {
				seconds, err := strconv.Atoi(value)
				if err != nil || seconds <= 0 {
					return address{}, bad("connect-timeout is no duration")
				}
				a.timeout = time.Duration(seconds) * time.Second
			}
		default:
			return address{}, bad(fmt.Sprintf("unknown option %q", key))
		}
	}
	if err := a.setTLS(query, host, local); err != nil {
		return address{}, bad(err.Error())
	}
	return a, nil
}

func (a *address) setTLS(query url.Values, host string, local bool) error {
	mode := query.Get("tls")
	if mode == "" {
		if mode = "preferred"; local {
			mode = "false"
		}
	}
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if file := query.Get("tls-ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no certificate", file)
		}
	}
	if cert, key := query.Get("tls-cert"), query.Get("tls-key"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	switch mode {
	case "false":
		return nil
	case "preferred":
		a.tlsOptional, c.InsecureSkipVerify = true, true
	case "true", "skip-verify":
		c.InsecureSkipVerify = true
	case "verify-ca":
		c.InsecureSkipVerify = true
		c.VerifyConnection = verifyChain(c.RootCAs)
	case "verify-full":
	default:
		return fmt.Errorf("tls is false, preferred, true, verify-ca or verify-full, not %q", mode)
	}
	a.tls = c
	return nil
}

// verifyChain checks who signed the certificate but not which host it names.
func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, c := range s.PeerCertificates[1:] {
			opts.Intermediates.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(opts)
		return err
	}
}

// A session is one connection: go-mysql's client for statements, and our own
// packets on the same socket for rows. One goroutine uses it at a time.
type session struct {
	e    *Engine
	c    *client.Conn
	net  net.Conn // below c, above TLS
	id   uint32   // for KILL
	wire *wire    // nil until rows are read or written
	dead bool     // not usable any more
	bulk bool     // the server takes many rows for a prepared statement

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
	bulk         bool // rows for a prepared statement, see bulkConn; MariaDB only
}

func (e *Engine) connectFor(ctx context.Context, want wishes) (*session, error) {
	s, err := e.login(ctx, e.to.tls, want)
	if err != nil && e.to.tlsOptional && strings.Contains(err.Error(), "does not support TLS") {
		s, err = e.login(ctx, nil, want)
	}
	if err != nil {
		return nil, e.connectError(ctx, err)
	}
	return s, nil
}

func (e *Engine) login(ctx context.Context, secure *tls.Config, want wishes) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, e.to.timeout)
	defer cancel()
	var raw net.Conn
	stop := func() bool { return true }
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, &dialError{err}
		}
		raw = conn
		// The handshake takes no context.
		stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		if want.bulk {
			conn = &bulkConn{Conn: conn}
		}
		return conn, nil
	}
	c, err := client.ConnectWithDialer(ctx, e.to.network, e.to.host, e.to.user, e.to.password, e.to.db, dialer, func(c *client.Conn) error {
		if secure != nil {
			c.SetTLSConfig(secure.Clone())
		}
		c.SetAttributes(map[string]string{"program_name": "tidemark"})
		// The classic protocol: a result ends with an EOF packet, and a query is its text alone.
		c.UnsetCapability(gomysql.CLIENT_DEPRECATE_EOF)
		c.UnsetCapability(gomysql.CLIENT_QUERY_ATTRIBUTES)
		err := errors.Join(c.SetCapability(gomysql.CLIENT_LOCAL_FILES), c.SetCapability(gomysql.CLIENT_MULTI_RESULTS))
		for _, one := range want.capabilities {
			err = errors.Join(err, c.SetCapability(one))
		}
		if want.bulk {
			c.UnsetCapability(gomysql.CLIENT_LONG_PASSWORD)
		}
		return err
	})
	var dial *dialError
	if (!stop() || err != nil) && !errors.As(err, &dial) && ctx.Err() != nil {
		err = ctx.Err() // the driver drops it
	}
	if err != nil {
		if raw != nil {
			raw.Close()
		}
		return nil, err
	}
	s := &session{e: e, c: c, net: c.Conn.Conn, id: c.GetConnectionID()}
	if b, plain := s.net.(*bulkConn); plain {
		s.bulk = b.knows
	}
	return s, nil
}

// dialError tells a host that cannot be reached from one that hangs up.
type dialError struct{ error }

func (d *dialError) Unwrap() error { return d.error }

// identify finds out what the server is.
func (e *Engine) identify(s *session) error {
	r, err := s.c.Execute("SELECT VERSION(), CURRENT_USER()")
	if err != nil {
		return e.fail("connect", "", err)
	}
	e.version, _ = r.GetString(0, 0)
	user, _ := r.GetString(0, 1)
	e.account = account(user)
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
	for _, list := range [][]*session{e.reads, e.writes, e.idle, e.holders, {e.guard}} {
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
	e.reads, e.writes, e.idle, e.holders, e.guard = nil, nil, nil, nil, nil
	return nil
}

func (s *session) ping() error {
	_ = s.net.SetDeadline(time.Now().Add(5 * time.Second))
	defer s.net.SetDeadline(time.Time{})
	return s.c.Ping()
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
	stop := context.AfterFunc(ctx, s.abort)
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
