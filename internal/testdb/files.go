package testdb

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Offline stops a PostgreSQL server of one test alone in order, lets do work on its files,
// and starts it again.
func (s *Server) Offline(tb testing.TB, do func()) {
	tb.Helper()
	if err := s.proc.cmd.Process.Signal(syscall.SIGINT); err != nil { // a fast shutdown
		tb.Fatalf("testdb: stop: %v", err)
	}
	select {
	case <-s.proc.done:
	case <-time.After(startTimeout):
		tb.Fatalf("testdb: the server does not stop:\n%s", tail(s.proc.log))
	}
	do()
	s.Restart(tb)
}

// Beside starts a server like this one on a data folder that is a copy of its own, and
// stops it at the test's end. Its tablespaces have to be elsewhere than this one's.
func (s *Server) Beside(tb testing.TB, data string) *Server {
	tb.Helper()
	other := *s
	other.Dir, other.proc = data, nil
	var err error
	if other.Port, err = freePort(); err != nil {
		tb.Fatal(err)
	}
	other.Restart(tb)
	tb.Cleanup(func() { other.proc.stop() })
	return &other
}

// TempDir makes a folder that the server's user may write to, and that is removed with
// all that is in it at the test's end.
func (s *Server) TempDir(tb testing.TB) string {
	tb.Helper()
	home, err := processHome()
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp(home, "files-")
	if err == nil && s.as != nil {
		err = os.Chown(dir, int(s.as.Uid), int(s.as.Gid))
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) }) // what stays goes with the process's folder
	return dir
}

// Tool runs a program that came with the server, as the server's user, and gives what it
// prints. Of 15 all are there, of others hardly any.
func (s *Server) Tool(tb testing.TB, name string, args ...string) (string, error) {
	tb.Helper()
	path, err := program(name, filepath.Join(filepath.Dir(s.sp.program), name))
	if err != nil {
		fail(tb, err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = filepath.Dir(s.Dir)
	cmd.SysProcAttr = procAttr(s.as, syscall.SIGKILL)
	return output(cmd)
}
