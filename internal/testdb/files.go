package testdb

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Offline cleanly stops a PostgreSQL server that belongs to one test, runs do on its files, and
// restarts it.
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

// Beside starts a server like s on data, a separate copy of its data folder, and stops it at the
// end of the test. Its tablespaces must be elsewhere than those of s.
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

// TempDir creates a folder that the server's user may write to. It is removed with its contents at
// the end of the test.
func (s *Server) TempDir(tb testing.TB) string {
	tb.Helper()
	own, err := processHome()
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp(own, "files-")
	if err == nil && s.as != nil {
		err = os.Chown(dir, int(s.as.Uid), int(s.as.Gid))
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) }) // anything left is removed with the process's folder
	return dir
}

// Give makes a file the server's user's own.
func (s *Server) Give(tb testing.TB, name string) {
	tb.Helper()
	if s.as != nil {
		if err := os.Chown(name, int(s.as.Uid), int(s.as.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
}

// Tool runs a program that came with the server, as the server's user, and returns its output.
// Version 15 has all of them, the others hardly any.
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

// Written writes a file into a folder of the test's own, and returns its path.
func Written(tb testing.TB, name, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
