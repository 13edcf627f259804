package testdb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

var ownN atomic.Int64

// OwnPostgres starts a PostgreSQL server for one test only, which may kill it. options are
// command-line arguments of the server.
func OwnPostgres(tb testing.TB, major int, options ...string) *Server {
	tb.Helper()
	return alone(tb, fmt.Sprintf("postgres-%d", major), func(kind, name string) (*Server, error) {
		return startPostgres(kind, name, major, nil, options...)
	})
}

// OwnPostgresSegments is OwnPostgres with WAL segments of the given size in megabytes.
func OwnPostgresSegments(tb testing.TB, major, megabytes int, options ...string) *Server {
	tb.Helper()
	return alone(tb, fmt.Sprintf("postgres-%d-wal%d", major, megabytes), func(kind, name string) (*Server, error) {
		return startPostgres(kind, name, major, []string{fmt.Sprintf("--wal-segsize=%d", megabytes)}, options...)
	})
}

// OwnMariaDB is OwnPostgres for MariaDB. Its commits survive a kill, unlike those of the shared
// servers.
func OwnMariaDB(tb testing.TB, options ...string) *Server {
	tb.Helper()
	return alone(tb, "mariadb", func(kind, name string) (*Server, error) {
		return startMariaDB(kind, name, append([]string{"--innodb-flush-log-at-trx-commit=2"}, options...)...)
	})
}

// OwnMySQL is OwnMariaDB for MySQL.
func OwnMySQL(tb testing.TB, options ...string) *Server {
	tb.Helper()
	return alone(tb, "mysql", func(kind, name string) (*Server, error) {
		return startMySQL(kind, name, append([]string{"--innodb-flush-log-at-trx-commit=2"}, options...)...)
	})
}

func alone(tb testing.TB, kind string, start func(kind, name string) (*Server, error)) *Server {
	tb.Helper()
	NotShort(tb)
	s, err := start(kind, fmt.Sprintf("%s-own-%d", kind, ownN.Add(1)))
	if err != nil {
		fail(tb, err)
	}
	tb.Cleanup(func() {
		s.proc.stop()
		_ = os.RemoveAll(filepath.Dir(s.Dir)) // anything left is removed with the process's folder
	})
	return s
}

// Kill ends the server as kill -9 does, without a shutdown.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if err := s.proc.cmd.Process.Kill(); err != nil {
		tb.Fatalf("testdb: kill: %v", err)
	}
	<-s.proc.done
}

// Restart starts a killed server again on its former port.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	// Its children were not killed: they must first notice that it is gone.
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		p, err := spawn(s.sp.run(s.Dir, s.Port), filepath.Dir(s.Dir), s.as, s.sp.quit)
		if err == nil {
			s.proc, s.Pid = p, p.cmd.Process.Pid
			if err = p.awaitReady(s, s.sp); err == nil {
				return
			}
		}
		if time.Since(begun) > startTimeout {
			tb.Fatalf("testdb: start again: %v", err)
		}
	}
}

// Standby starts a standby of a PostgreSQL server that belongs to one test, and stops that server
// for a moment. The standby streams from the slot "standby", and synchronizes the primary's
// failover slots through the database dbname.
func (s *Server) Standby(tb testing.TB, dbname string) *Server {
	tb.Helper()
	Query(tb, s.URL("postgres"), "SELECT pg_create_physical_replication_slot('standby', true)")
	sync := ""
	if Query(tb, s.URL("postgres"), "SELECT count(*) FROM pg_settings WHERE name = 'sync_replication_slots'") == "1" { // 17 and later
		sync = "sync_replication_slots = on\n"
	}
	s.proc.stop()
	standby := *s
	dir := filepath.Dir(s.Dir) + "-standby"
	standby.Dir = filepath.Join(dir, "data")
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatalf("testdb: standby: %v", err)
		}
	}
	must(makeDir(dir, s.as))
	tb.Cleanup(func() { _ = os.RemoveAll(dir) }) // anything left is removed with the process's folder
	if out, err := exec.Command("cp", "-a", s.Dir, standby.Dir).CombinedOutput(); err != nil {
		tb.Fatalf("testdb: copy %s: %v: %s", s.Dir, err, out)
	}
	s.Restart(tb)
	slots, err := filepath.Glob(filepath.Join(standby.Dir, "pg_replslot", "*"))
	must(err)
	for _, slot := range slots { // a base backup has no slots
		must(os.RemoveAll(slot))
	}
	_ = os.Remove(filepath.Join(standby.Dir, "postmaster.pid")) // the primary's, if it is there
	f, err := os.OpenFile(filepath.Join(standby.Dir, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	must(err)
	_, err = fmt.Fprintf(f, "hot_standby_feedback = on\n"+sync+"primary_slot_name = 'standby'\nprimary_conninfo = 'host=%s port=%d user=%s password=%s dbname=%s'\n",
		s.Host, s.Port, s.User, s.Password, dbname)
	must(err)
	must(f.Close())
	signal := filepath.Join(standby.Dir, "standby.signal")
	must(os.WriteFile(signal, nil, 0o600))
	if s.as != nil {
		must(os.Chown(signal, int(s.as.Uid), int(s.as.Gid)))
	}
	standby.Port, err = freePort()
	must(err)
	standby.proc = nil
	standby.Restart(tb)
	tb.Cleanup(func() { standby.proc.stop() })
	return &standby
}
