package jetstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Server keeps the queues of Stores in other processes in a folder. It has no port: somebody else
// accepts the connections, and knows who is at their other end.
//
// If its disk fails, it disconnects all, tells those who come why, and tries again from time to
// time.
//
// It remembers the last message of each queue that a Store has seen acknowledged, as a Store with a
// folder of its own does, and refuses a queue that has lost some of them: the source may no longer
// have them.
type Server struct {
	dir  string
	note func(text string)
	stop context.CancelFunc
	wg   crash.Group

	mu      sync.Mutex
	run     *serving // nil: there is none at the moment
	err     error    // and why
	numbers map[string]*noted
}

// A serving is a server that runs.
type serving struct {
	*embedded
	conn  *nats.Conn
	js    jetstream.JetStream
	known map[string]bool // queues that were found whole; guarded by the Server's lock
}

// retryTime is how often a Server whose disk has failed tries again.
const retryTime = 5 * time.Second

// Serve starts a Server on a folder, which it creates if it is missing. note receives a line when
// its disk fails, and when it works again. Kinds of errors are those of Open with a folder.
func Serve(ctx context.Context, dir string, note func(text string)) (*Server, error) {
	s := &Server{dir: dir, note: note, numbers: map[string]*noted{}}
	run, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	s.run = run
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx)) // until Close
	s.wg.Go(func() { s.keep(ctx) })
	return s, nil
}

func (s *Server) start(ctx context.Context) (*serving, error) {
	e, err := embed(ctx, Options{Dir: s.dir})
	if err != nil {
		return nil, err
	}
	run := &serving{embedded: e, known: map[string]bool{}}
	if run.conn, err = e.connect(Options{}); err == nil {
		if run.js, err = jetstream.New(run.conn); err == nil {
			_, err = run.conn.Subscribe(bellPrefix+"*", func(m *nats.Msg) {
				if len(m.Data) == 8 {
					s.noteNumber(m.Subject[len(bellPrefix):], binary.BigEndian.Uint64(m.Data))
				}
			})
		}
	}
	if err != nil {
		run.end()
		return nil, &tidemark.Error{Kind: tidemark.Bug, Op: "serve queues", Object: s.dir, Err: err}
	}
	return run, nil
}

func (r *serving) end() {
	if r.conn != nil {
		r.conn.Close()
	}
	r.embedded.close()
}

// keep starts the server again and again after its disk has failed.
func (s *Server) keep(ctx context.Context) {
	for run := s.run; ; {
		select {
		case <-ctx.Done():
			return
		case <-run.log.broken:
		}
		err := diskError("append to", "queues in "+s.dir, errors.New(run.log.last()))
		s.mu.Lock()
		s.run, s.err = nil, err
		s.mu.Unlock()
		s.note(err.Error())
		run.end()
		for {
			if flow.Sleep(ctx, retryTime) != nil {
				return
			}
			again, err := s.start(ctx)
			s.mu.Lock()
			if s.run = again; err != nil {
				s.err = err
			}
			s.mu.Unlock()
			if err == nil {
				s.note("the disk works again")
				run = again
				break
			}
		}
	}
}

// Close disconnects all.
func (s *Server) Close() error {
	s.stop()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		s.run.end()
	}
	s.run, s.err = nil, errors.New("it has ended")
	for _, f := range s.numbers {
		f.Close()
	}
	return nil
}

// Open begins what a Store wants: its queue, or to remove it. The function it returns serves the
// Store until it has gone, or this Server.
func (s *Server) Open(ctx context.Context, want string) (func(net.Conn) error, error) {
	name, removes := strings.CutPrefix(want, wantRemove)
	if !removes {
		var is bool
		if name, is = strings.CutPrefix(want, wantQueue); !is {
			return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "serve", Err: fmt.Errorf("it does not serve %.40q", want), Hint: "Run the same version of tidemark on both hosts."}
		}
	}
	if !queueName.MatchString(name) {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "serve", Err: errors.New("a queue has a name of letters, digits, - and _")}
	}
	s.mu.Lock()
	run, err := s.run, s.err
	if run == nil {
		s.mu.Unlock()
		return nil, err
	}
	whole := run.known[name]
	if removes {
		delete(run.known, name)
	}
	s.mu.Unlock()
	if removes {
		return func(c net.Conn) error { return gone(c.Read(make([]byte, 1))) }, s.forget(name)
	}
	if !whole {
		if err := s.check(ctx, run, name); err != nil {
			return nil, err
		}
		s.mu.Lock()
		run.known[name] = true // not before: who comes meanwhile checks too
		s.mu.Unlock()
	}
	return func(c net.Conn) error { return run.pipe(c) }, nil
}

// pipe connects a Store with the server.
func (r *serving) pipe(far net.Conn) error {
	near, err := r.server.InProcessConn()
	if err != nil {
		return err
	}
	var wg crash.Group
	wg.Go(func() {
		defer near.Close()
		defer far.Close()
		err = gone(io.CopyBuffer(struct{ io.Writer }{near}, far, make([]byte, pipeBuffer)))
	})
	_, _ = io.CopyBuffer(struct{ io.Writer }{far}, near, make([]byte, pipeBuffer)) // it ends with the other
	near.Close()
	far.Close()
	wg.Wait()
	return err
}

// gone returns the error of a connection unless that only means that it has ended.
func gone[N any](_ N, err error) error {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return nil
		}
	}
	return err
}

// pipeBuffer is what is compressed at once, in bytes.
const pipeBuffer = 128 << 10

// check fails if a queue has lost messages at its end.
func (s *Server) check(ctx context.Context, run *serving, name string) error {
	fail := func(kind tidemark.Kind, err error, hint string) error {
		return &tidemark.Error{Kind: kind, Op: "open", Object: "queue " + name, Err: err, Hint: hint}
	}
	f, err := s.number(name)
	if err != nil {
		return err
	}
	noted := f.last()
	if noted == 0 {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, nearby.answer)
	defer cancel()
	var last uint64
	stream, err := run.js.Stream(asked, streamPrefix+name)
	switch {
	case err == nil:
		last = stream.CachedInfo().State.LastSeq
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return fail(tidemark.Transient, err, "")
	}
	if last < noted {
		return fail(tidemark.Corrupt, fmt.Errorf("the queue ends with message %d, and message %d was there", last, noted), lostEndHint)
	}
	return nil
}

// number returns the file with the number of a queue's last message.
func (s *Server) number(name string) (*noted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.numbers[name]; f != nil {
		return f, nil
	}
	path := filepath.Join(s.dir, notedName+"."+name)
	f, err := openNoted(path)
	if err != nil {
		return nil, diskError("open queue", path, err)
	}
	s.numbers[name] = f
	return f, nil
}

// noteNumber notes the last message of a queue of that name.
func (s *Server) noteNumber(name string, seq uint64) {
	if !queueName.MatchString(name) {
		return
	}
	if f, err := s.number(name); err == nil {
		f.note(seq)
	}
}

func (s *Server) forget(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.numbers[name]; f != nil {
		f.Close()
		delete(s.numbers, name)
	}
	path := filepath.Join(s.dir, notedName+"."+name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return diskError("remove queue", path, err)
	}
	return nil
}
