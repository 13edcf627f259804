package testdb

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Pooled starts a pgbouncer in front of a PostgreSQL server. It returns a function that converts a
// URL of the server to one through the pooler. mode is pgbouncer's pool_mode, settings are further
// lines of its configuration.
func (s *Server) Pooled(tb testing.TB, mode string, settings ...string) func(db string) string {
	tb.Helper()
	address := FreeAddress(tb)
	_, port, _ := net.SplitHostPort(address)
	dir := s.TempDir(tb) // of the servers' user, which pgbouncer runs as too: it refuses root
	users, config := filepath.Join(dir, "users"), filepath.Join(dir, "ini")
	for name, text := range map[string]string{
		users: fmt.Sprintf("%q %q\n", s.User, s.Password),
		config: fmt.Sprintf("[databases]\n* = host=%s port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\n"+
			"auth_type = scram-sha-256\nauth_file = %s\npool_mode = %s\n%s\n", s.Host, s.Port, port, users, mode, strings.Join(settings, "\n")),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	args := []string{"-q", config}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "postgres"}, args...)
	}
	cmd := exec.Command("/usr/sbin/pgbouncer", args...)
	if err := cmd.Start(); err != nil {
		tb.Fatalf("%v: run make test-deps", err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was stopped
	})
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			tb.Fatal("pgbouncer does not start: ", err)
		}
	}
	return func(db string) string { return At(tb, db, address) }
}

// At returns a URL with another host and port.
func At(tb testing.TB, db, address string) string {
	tb.Helper()
	u, err := url.Parse(db)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = address
	return u.String()
}
