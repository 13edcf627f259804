package jetstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/internal/filelock"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// An embedded is a NATS server within this process, on a folder that only we use.
type embedded struct {
	server *server.Server
	lock   *os.File
	noted  *noted
	log    serverLog
}

// Our files in the folder, beside the server's own.
const (
	lockName    = "lock"
	versionName = "tidemark-queue" // holds the version of the folder's content
	notedName   = "last"           // holds the number of the last acknowledged message
	version     = "1\n"
)

// maxPayload is the largest message that the embedded server accepts.
const maxPayload = 8 << 20

// embed starts a server on opt.Dir, which it creates if it is missing.
func embed(ctx context.Context, opt Options) (*embedded, error) {
	const op = "open queue"
	e := &embedded{log: serverLog{broken: make(chan struct{}), dead: make(chan struct{})}}
	if err := e.claim(opt.Dir); err != nil {
		return nil, err
	}
	so := &server.Options{
		ServerName: "tidemark", DontListen: true, NoSigs: true, DisableJetStreamBanner: true,
		JetStream: true, StoreDir: opt.Dir,
		SyncAlways: true, // fsync before the acknowledgement; the server's default is every two minutes
		// The limit of the stream is what counts. Without these the server would reserve three
		// quarters of the disk space that is free at the moment.
		JetStreamMaxStore: 1 << 60, JetStreamMaxMemory: 64 << 20,
		MaxPayload:    maxPayload,
		WriteDeadline: 30 * time.Second, // of a Server's stores: links are slow
	}
	if opt.Listen != "" {
		if err := listen(so, opt); err != nil {
			e.close()
			return nil, err
		}
	}
	s, err := server.NewServer(so)
	if err != nil {
		e.close()
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: opt.Dir, Err: errors.New(opt.hide(err.Error()))}
	}
	e.server = s
	s.SetLoggerV2(&e.log, false, false, false)
	crash.Go(s.Start)
	// Recovery after a crash reads all data.
	for !s.ReadyForConnections(100*time.Millisecond) || !s.JetStreamEnabled() {
		select {
		case <-e.log.dead:
			err = diskError(op, opt.Dir, errors.New(opt.hide(e.log.last())))
		case <-ctx.Done():
			err = ctx.Err()
		default:
			continue
		}
		e.close()
		return nil, err
	}
	return e, nil
}

// A process that only inspects a queue holds its folder briefly.
const claimWait, claimPause = 3 * time.Second, 50 * time.Millisecond

// claim locks the folder, and checks whether it is one of ours.
func (e *embedded) claim(dir string) error {
	const op = "open queue"
	in, name := plainfile.Beside(filepath.Join(dir, lockName))
	if err := in.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return diskError(op, dir, err)
	}
	f, err := in.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		if err = plainfile.Dir(dir).NoLinks(); err != nil { // the server opens its files by their paths
			f.Close()
		}
	}
	if err != nil {
		return diskError(op, dir, err)
	}
	err = filelock.Lock(f)
	for wait := time.Duration(0); errors.Is(err, filelock.ErrLocked) && wait < claimWait; wait += claimPause {
		time.Sleep(claimPause)
		err = filelock.Lock(f)
	}
	if err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 1<<10))
		f.Close()
		if !errors.Is(err, filelock.ErrLocked) {
			return diskError(op, dir, err)
		}
		if len(holder) == 0 {
			holder = []byte("another process")
		}
		return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: dir, Err: fmt.Errorf("%s has it open", holder), Hint: "Wait for that process, or end it."}
	}
	e.lock = f
	if err := checkVersion(dir); err != nil {
		e.close()
		return err
	}
	if e.noted, err = openNoted(filepath.Join(dir, notedName)); err != nil {
		e.close()
		return diskError(op, dir, err)
	}
	host, _ := os.Hostname()
	_ = f.Truncate(0) // only for the message above, like what follows
	_, _ = fmt.Fprintf(f, "process %d on %s", os.Getpid(), host)
	return nil
}

// checkVersion reads the version of dir's content, or writes it if dir is empty.
func checkVersion(dir string) error {
	const op = "open queue"
	path := filepath.Join(dir, versionName)
	got, err := os.ReadFile(path)
	switch {
	case err == nil && string(got) == version:
		return nil
	case err == nil:
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: op, Object: dir, Err: fmt.Errorf("it is in the format %q of another version of the program, not %q", strings.TrimSpace(string(got)), strings.TrimSpace(version)), Hint: "Let the version that wrote it apply what is there, or restart the queue from the target's position with --from-target, if the source still has its log from there."}
	case !errors.Is(err, os.ErrNotExist):
		return diskError(op, dir, err)
	}
	in, err := os.ReadDir(dir)
	if err != nil {
		return diskError(op, dir, err)
	}
	for _, f := range in {
		if f.Name() != lockName {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: dir, Err: errors.New("the folder holds other files, such as " + f.Name()), Hint: "Name a folder that is not there yet, or an empty one."}
		}
	}
	if err := os.WriteFile(path, []byte(version), 0o600); err != nil {
		return diskError(op, dir, err)
	}
	return nil
}

// listen opens a port of the server for other processes.
func listen(so *server.Options, opt Options) error {
	bad := func(cause, hint string) error {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "open queue", Object: opt.Listen, Err: errors.New(cause), Hint: hint}
	}
	host, port, err := net.SplitHostPort(opt.Listen)
	n, err2 := strconv.Atoi(port)
	if err != nil || err2 != nil {
		return bad("it is not an address to listen on", "Write host:port.")
	}
	if ip := net.ParseIP(host); opt.Password == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return bad("it can be reached from other hosts, and has no password", "Give a user and a password.")
	}
	if n == 0 {
		n = server.RANDOM_PORT
	}
	so.DontListen, so.Host, so.Port = false, host, n
	so.Username, so.Password = opt.User, opt.Password
	if opt.Cert != "" {
		so.TLSTimeout = 10
		so.TLSConfig, err = server.GenTLSConfig(&server.TLSConfigOpts{CertFile: opt.Cert, KeyFile: opt.Key, CaFile: opt.CA, Verify: opt.CA != "", MinVersion: tls.VersionTLS12})
		if err != nil {
			return bad(err.Error(), "")
		}
	}
	return nil
}

// connect returns a connection that does not leave the process.
func (e *embedded) connect(opt Options) (*nats.Conn, error) {
	options := []nats.Option{nats.InProcessServer(e.server), nats.Name("tidemark")}
	if opt.Password != "" {
		options = append(options, nats.UserInfo(opt.User, opt.Password))
	}
	return nats.Connect("", options...)
}

func (e *embedded) close() {
	if e.server != nil {
		e.server.Shutdown()
		e.server.WaitForShutdown()
	}
	if e.noted != nil {
		e.noted.Close()
	}
	if e.lock != nil {
		e.lock.Close() // which releases the lock
	}
}

// A serverLog keeps the last error message of a server, the only source for why it does not start
// or does not write: a server whose disk fails does not answer.
type serverLog struct {
	broken chan struct{} // closed when the server has stopped writing
	dead   chan struct{} // closed when it will not start

	mu   sync.Mutex
	text string
	ends bool
	die  sync.Once
}

func (l *serverLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

func (l *serverLog) keep(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends {
		return // later messages do not help
	}
	l.text = fmt.Sprintf(format, v...)
	if strings.Contains(l.text, "Critical write error") || strings.Contains(l.text, "failed to store a msg") {
		l.ends = true
		close(l.broken)
	}
}

// Noticef and the others implement the server's interface for loggers.
func (l *serverLog) Noticef(string, ...any)        {}
func (l *serverLog) Warnf(format string, v ...any) {}
func (l *serverLog) Fatalf(format string, v ...any) {
	l.keep(format, v...)
	l.die.Do(func() { close(l.dead) })
}
func (l *serverLog) Errorf(format string, v ...any) { l.keep(format, v...) }
func (l *serverLog) Debugf(string, ...any)          {}
func (l *serverLog) Tracef(string, ...any)          {}
