package testdb

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A Server is a running database server for tests.
type Server struct {
	Engine         string // "postgres", "mysql", "mariadb", "db2" or "kafka"; also the scheme of its URLs
	Version        string // as the server reports it
	Host           string // 127.0.0.1
	Port           int
	User, Password string // with all privileges
	Dir            string // its data folder, owned by the user it runs as
	Pid            int

	more []int // other ports
	proc *process
	sp   *spec
	as   *syscall.Credential
}

// Postgres returns the PostgreSQL server of that major version: 15 (Debian's package) or 13, 14,
// 16, 17, 18 (Maven artifacts). It has wal_level=logical and fsync off, and its superuser is
// tidemark.
func Postgres(tb testing.TB, major int) *Server {
	tb.Helper()
	return shared(tb, fmt.Sprintf("postgres-%d", major), func(name string) (*Server, error) {
		return startPostgres(name, name, major, nil)
	})
}

// MariaDB returns the MariaDB 10.11 server, with a row-based binlog with full metadata.
func MariaDB(tb testing.TB) *Server {
	tb.Helper()
	return shared(tb, "mariadb", func(name string) (*Server, error) { return startMariaDB(name, name) })
}

// MySQL returns the MySQL 8.0 server, with a row-based binlog with full metadata, and GTIDs. The
// performance schema is off, since it costs time.
func MySQL(tb testing.TB) *Server {
	tb.Helper()
	return shared(tb, "mysql", func(name string) (*Server, error) { return startMySQL(name, name, "--performance-schema=OFF") })
}

// ServerOf returns the server of an engine: postgres (15), mysql or mariadb.
func ServerOf(tb testing.TB, engine string) *Server {
	tb.Helper()
	switch engine {
	case "mysql":
		return MySQL(tb)
	case "mariadb":
		return MariaDB(tb)
	}
	return Postgres(tb, 15)
}

// processorTime returns what this process, its servers and its programs have used, of those that
// have ended.
func processorTime() time.Duration {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err != nil {
			return 0
		}
		sum += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return sum
}

// A slot holds the only server of a kind in this process.
type slot struct {
	once   sync.Once
	server *Server
	err    error
}

var (
	slotsMu sync.Mutex
	slots   = map[string]*slot{}
)

func shared(tb testing.TB, name string, start func(name string) (*Server, error)) *Server {
	tb.Helper()
	NotShort(tb)
	slotsMu.Lock()
	s := slots[name]
	if s == nil {
		s = new(slot)
		slots[name] = s
	}
	slotsMu.Unlock()
	s.once.Do(func() { s.server, s.err = start(name) })
	if s.err != nil {
		fail(tb, s.err)
	}
	return s.server
}

// NotShort skips a test that needs servers or the built program when only tests without them are
// requested (go test -short), and those that TIDEMARK_SHORT names: make test-short builds and links
// each package once for both.
func NotShort(tb testing.TB) {
	tb.Helper()
	if !testing.Testing() || !testing.Short() {
		return
	}
	if name, _, _ := strings.Cut(tb.Name(), "/"); !slices.Contains(strings.Fields(os.Getenv("TIDEMARK_SHORT")), name) {
		tb.Skip("needs servers, or the built program: not with -short")
	}
}

// A missingError reports that a program or file is not installed.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what + " is missing: run make test-deps" }

// fail ends the test, or skips it if the user asked for that.
func fail(tb testing.TB, err error) {
	tb.Helper()
	var missing *missingError
	if errors.As(err, &missing) && os.Getenv("CI") == "" && os.Getenv("TIDEMARK_SKIP_MISSING") == "1" {
		tb.Skipf("%v (skipped because TIDEMARK_SKIP_MISSING=1)", err)
	}
	tb.Fatal(err)
}

// URL returns the connection URL of a database of the server.
func (s *Server) URL(db string) string {
	u := url.URL{
		Scheme: s.Engine,
		User:   url.UserPassword(s.User, s.Password),
		Host:   fmt.Sprintf("%s:%d", s.Host, s.Port),
		Path:   "/" + db,
	}
	if s.Engine == "postgres" {
		u.RawQuery = "sslmode=disable"
	}
	return u.String()
}

var databaseN atomic.Int64

// NewDatabase creates an empty database named after prefix and returns its URL. It is dropped when
// the test ends, together with its connections and replication slots.
func (s *Server) NewDatabase(tb testing.TB, prefix string) string {
	tb.Helper()
	name := fmt.Sprintf("%s_%d", plain(prefix), databaseN.Add(1))
	var err error
	if s.Engine == "db2" { // stays until the server ends
		name = fmt.Sprintf("%.8s%d", plain(prefix), databaseN.Load())
		if err := s.newDerby(name); err != nil {
			tb.Fatal(err)
		}
		return s.URL(name)
	}
	if s.Engine == "postgres" {
		err = patiently(s.URL("postgres"), "CREATE DATABASE "+name)
	} else {
		_, err = TryQuery(s.URL(""), "CREATE DATABASE "+name)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		var err error
		if s.Engine == "postgres" {
			err = s.dropPostgres(name)
		} else {
			err = s.dropMySQL(name)
		}
		if err != nil {
			tb.Errorf("testdb: drop database %s: %v", name, err)
		}
	})
	return s.URL(name)
}

var streamN atomic.Int64

// StreamName returns a name for a stream that no other test on the same servers uses.
func StreamName(prefix string) string {
	return fmt.Sprintf("%s_%d_%d", prefix, os.Getpid(), streamN.Add(1))
}

// plain makes a name that needs no quotes anywhere, so that a test may use its own name.
func plain(prefix string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, prefix)
	if s == "" || s[0] < 'a' {
		s = "db" + s
	}
	return s[:min(len(s), 40)]
}
