// Package peers runs the program against impostor servers: they speak nonsense, announce packets of
// any size, stay silent, or fish for passwords. In every case a command ends with an error, in
// bounded time and memory, and leaks no secret: not to the servers, not in its output, and not in
// its catalogue.
package peers

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// secret is the password that no hostile server may receive.
const secret = "hush-7Fq!zT"

// A hostile listens, and plays its part for each client.
type hostile struct {
	addr string

	mu    sync.Mutex
	heard bytes.Buffer // from all connections
}

// listen starts a hostile server; play receives connections, which close when it returns.
func listen(t *testing.T, play func(c net.Conn)) *hostile {
	t.Helper()
	h := &hostile{}
	h.addr = testdb.Accept(t, func(c net.Conn) {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		play(&overheard{c, h})
	}).Addr().String()
	return h
}

// overheard records what is read.
type overheard struct {
	net.Conn
	h *hostile
}

func (o *overheard) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	o.h.note(p[:n])
	return n, err
}

func (h *hostile) note(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard.Write(p)
}

func (h *hostile) got() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heard.String()
}

// limits bounds a command that faces a hostile server.
type limits struct {
	time   time.Duration
	memory int64 // bytes
}

var usual = limits{45 * time.Second, 400 << 20}

// endure runs a command line that involves a hostile server, and checks everything that must be
// true of its end. It returns the command's output.
func endure(t *testing.T, h *hostile, within limits, args ...string) string {
	t.Helper()
	cmd := testdb.Command(t, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := time.AfterFunc(within.time, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	if !killed.Stop() {
		t.Errorf("%q did not end within %s\n%s", args, within.time, out.String())
	}
	code := cmd.ProcessState.ExitCode()
	text := out.String()
	if code == 0 {
		t.Errorf("%q: exit 0\n%s", args, text)
	}
	for _, crash := range []string{"panic:", "goroutine ", "fatal error:", "runtime error"} {
		if strings.Contains(text, crash) {
			t.Errorf("%q crashed after %s:\n%s", args, time.Since(began), text)
		}
	}
	if !strings.Contains(text, "tidemark: ") && code > 0 {
		t.Errorf("%q: exit %d without an error:\n%s", args, code, text)
	}
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && use.Maxrss<<10 > within.memory {
		t.Errorf("%q took %d MB of memory", args, use.Maxrss>>10)
	}
	noSecret(t, "the output of "+strings.Join(args[:1], ""), text)
	noSecretInFiles(t, cmd.Dir)
	if h != nil {
		noSecret(t, "what the server got", h.got())
	}
	return text
}

func noSecret(t *testing.T, where, text string) {
	t.Helper()
	if strings.Contains(text, secret) {
		t.Errorf("the password is in %s:\n%.2000q", where, text)
	}
}

// noSecretInFiles searches everything that a command has left: catalogue, logs, queues.
func noSecretInFiles(t *testing.T, dir string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if data, err := os.ReadFile(path); err == nil {
				noSecret(t, path, string(data))
			}
		}
		return nil
	})
}

// pour writes the same bytes until the reader closes.
func pour(w io.Writer, p []byte) {
	for {
		if _, err := w.Write(p); err != nil {
			return
		}
	}
}

// wait keeps a connection open silently until the peer closes it.
func wait(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
