// Package jetstream keeps a queue's messages in a stream of NATS JetStream: of a server within this
// process, which writes to a folder and has no port, of such a server in another process (Server),
// or of an existing server.
//
// It relies on the following (nats-server 2.15): the embedded server calls fsync before it
// acknowledges. Nothing is deleted in the middle, nothing expires, nothing is dropped when the
// stream is full. A message is published on the condition that it follows the last one that we know
// of, so it is stored once however often it is sent, and two writers cannot mix. Messages are read
// by number, not through a consumer: the server keeps no state of readers, and a missing message is
// noticed at once. The last ones of an embedded server are read from memory. A second subject
// notifies readers that wait for the next message; a missed notification costs half a second. The
// queue's own checksums find lost or changed messages.
//
// Start reading at Open.
package jetstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/queue"
)

// Options of Open. Exactly one of Dir and URL is set.
type Options struct {
	// Queue is its name: letters, digits, - and _.
	Queue string
	// Limit is how many bytes it holds, at most; default its present limit, and 10 GB for a new
	// one. It never drops stored messages.
	Limit int64

	// Dir is the folder of a server within this process. Only one process can have it open.
	Dir string
	// Listen is host:port under which other processes reach that server; default none. It requires
	// a password if other hosts can reach it.
	Listen         string
	User, Password string

	// URL is one or more addresses of servers, nats://user:password@host:4222 or tls://host:4222,
	// separated by commas. The files below may follow after a ?: creds=, ca=, cert=, key=.
	URL string
	// Credentials is a file with a JWT and its key.
	Credentials string
	// Replicas is on how many servers of a cluster each message is stored; default 1.
	Replicas int

	// Dial, if not nil, opens the connections to a Server elsewhere, of which URL is the name for
	// messages. want is for Server.Open. Its errors of a Kind other than Unreachable and Transient
	// are final.
	Dial func(ctx context.Context, want string) (net.Conn, error)

	// CA, Cert and Key are files for TLS: with URL, the CA to trust and our own certificate; with
	// Listen, the server's certificate, and the CA of clients that it trusts.
	CA, Cert, Key string
}

const defaultLimit = 10 << 30

// What the name of a queue follows: in that of its stream, and in the subject by which readers
// learn of new messages.
const (
	streamPrefix = "TIDEMARK_"
	bellPrefix   = "tidemark.bell."
)

// A Store implements queue.Store.
type Store struct {
	name     string
	opt      Options
	embedded *embedded // nil: the server is elsewhere
	conn     *nats.Conn
	js       jetstream.JetStream
	stream   jetstream.Stream
	subject  string
	bell     string
	recent   recent // of the embedded server
	far      *far   // not nil: the server is behind Options.Dial
	pace     pace

	soft int64 // limit that the stream cannot have yet, since it holds more; only Put and Open change it

	mu     sync.Mutex
	last   uint64        // number of the last message, as far as known
	rang   chan struct{} // closed when last has changed
	closed bool
}

var queueName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// Open opens a queue, and creates it if it is missing. Kinds of errors: Invalid, also if another
// process has the folder open; Unsupported if another version wrote it; Unreachable, Denied; Full
// if the disk is full.
func Open(ctx context.Context, opt Options) (*Store, error) {
	const op = "open queue"
	if !queueName.MatchString(opt.Queue) || (opt.Dir == "") == (opt.URL == "") {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: opt.Queue, Err: errors.New("a queue has a name of letters, digits, - and _, and either a folder or a URL")}
	}
	if opt.Dial == nil {
		if err := opt.files(); err != nil {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: opt.Queue, Err: err}
		}
	}
	s := &Store{name: opt.Queue, opt: opt, pace: nearby, subject: "tidemark.queue." + opt.Queue, bell: bellPrefix + opt.Queue, rang: make(chan struct{})}
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Is reports whether a text looks like the URL of a queue in NATS.
func Is(text string) bool {
	return strings.HasPrefix(text, "nats://") || strings.HasPrefix(text, "tls://")
}

// Check validates the files that a URL names.
func Check(url string) error { return (&Options{URL: url}).files() }

// files extracts the names of files from the URL.
func (o *Options) files() error {
	servers, query, _ := strings.Cut(o.URL, "?")
	for one := range strings.SplitSeq(servers, ",") {
		if one = strings.TrimSpace(one); one != "" && !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		if _, err := tidemark.ParseURL(one); one != "" && err != nil {
			return fmt.Errorf("%w; special characters of a password or token are percent-encoded (/ is %%2F, @ is %%40)", err)
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the part after ? is not of the form name=value&name=value")
	}
	for name, v := range values {
		to, ok := map[string]*string{"creds": &o.Credentials, "ca": &o.CA, "cert": &o.Cert, "key": &o.Key}[name]
		if !ok {
			return errors.New("after ? it takes creds, ca, cert and key")
		}
		*to = v[0]
	}
	if (o.Cert == "") != (o.Key == "") {
		return errors.New("cert and key come together")
	}
	o.URL = servers
	return nil
}

func (s *Store) open(ctx context.Context) (err error) {
	if s.opt.Dir != "" {
		s.name += " in " + s.opt.Dir
		if s.embedded, err = embed(ctx, s.opt); err != nil {
			return err
		}
		s.conn, err = s.embedded.connect(s.opt)
	} else if s.name += " at " + s.opt.hide(s.opt.URL); s.opt.Dial != nil {
		s.pace = distant
		s.far = &far{dial: s.opt.Dial, want: wantQueue + s.opt.Queue}
		s.conn, err = s.far.connect(ctx)
	} else {
		s.conn, err = dial(s.opt)
	}
	if err != nil {
		return s.connectFailed(err)
	}
	s.js, err = jetstream.New(s.conn, jetstream.WithPublishAsyncTimeout(s.pace.answer), jetstream.WithPublishAsyncMaxPending(2*window))
	if err != nil {
		return s.fail(ctx, "open", err)
	}
	if err := s.openStream(ctx); err != nil {
		return err
	}
	if err := s.checkEnd(ctx); err != nil {
		return err
	}
	_, err = s.conn.Subscribe(s.bell, func(m *nats.Msg) {
		if len(m.Data) == 8 {
			s.heard(binary.BigEndian.Uint64(m.Data))
		}
	})
	return s.fail(ctx, "open", err)
}

// dial connects to existing servers.
func dial(opt Options) (*nats.Conn, error) {
	options := []nats.Option{nats.Name("tidemark"), nats.SetCustomDialer(guardDialer{}), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.Timeout(10 * time.Second)}
	if opt.Credentials != "" {
		options = append(options, nats.UserCredentials(opt.Credentials))
	}
	if opt.CA != "" {
		options = append(options, nats.RootCAs(opt.CA))
	}
	if opt.Cert != "" {
		options = append(options, nats.ClientCert(opt.Cert, opt.Key))
	}
	return nats.Connect(opt.URL, options...)
}

// openStream finds the stream, or creates it.
func (s *Store) openStream(ctx context.Context) error {
	want := jetstream.StreamConfig{
		Name: streamPrefix + s.opt.Queue, Subjects: []string{s.subject}, Description: "a queue of tidemark",
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage,
		MaxBytes: cmp.Or(s.opt.Limit, defaultLimit), MaxMsgs: -1, MaxMsgSize: -1, Replicas: max(1, s.opt.Replicas),
		Duplicates: time.Second, DenyDelete: true, AllowDirect: true,
	}
	stream, err := s.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		for tries := 0; ; tries++ {
			s.stream, err = s.js.CreateStream(ctx, want)
			// A server that is still removing a stream of this name cannot create its folder.
			if tries == 10 || !noStore(err) || flow.Sleep(ctx, 100*time.Millisecond) != nil {
				return s.fail(ctx, "open", err)
			}
		}
	}
	if err != nil {
		return s.fail(ctx, "open", err)
	}
	s.stream = stream
	got := stream.CachedInfo()
	c := got.Config
	switch {
	case c.Retention != want.Retention || c.Discard != want.Discard || c.Storage != want.Storage || c.MaxAge != 0 || c.MaxMsgs > 0 || len(c.Subjects) != 1 || c.Subjects[0] != s.subject:
		return s.error(tidemark.Invalid, "open", fmt.Errorf("there is a stream %s with other settings", want.Name),
			"Remove it, or give the queue another name: it has to keep messages until they are purged, and to refuse new ones when it is full.")
	case s.opt.Limit > 0 && s.opt.Limit < int64(got.State.Bytes):
		s.soft = s.opt.Limit // the server would drop messages
	case s.opt.Limit > 0 && c.MaxBytes != s.opt.Limit || s.opt.Replicas > 0 && c.Replicas != s.opt.Replicas:
		c.MaxBytes = cmp.Or(s.opt.Limit, c.MaxBytes)
		if s.opt.Replicas > 0 {
			c.Replicas = s.opt.Replicas
		}
		s.stream, err = s.js.UpdateStream(ctx, c)
	}
	return s.fail(ctx, "open", err)
}

// checkEnd fails if an embedded server has lost messages at the end.
func (s *Store) checkEnd(ctx context.Context) error {
	if s.embedded == nil {
		return nil
	}
	st, err := s.State(ctx)
	if err != nil {
		return err
	}
	if noted := s.embedded.noted.last(); st.Last < noted {
		return s.error(tidemark.Corrupt, "open", fmt.Errorf("it ends with message %d, and message %d was there", st.Last, noted), lostEndHint)
	}
	return nil
}

// Addr returns where the embedded server listens; "" if it does not.
func (s *Store) Addr() string {
	if s.embedded == nil || s.opt.Listen == "" {
		return ""
	}
	return s.embedded.server.Addr().String()
}

// Name implements queue.Store, as do the methods that follow.
func (s *Store) Name() string { return "queue " + s.name }

// A pace is for how long, and for how much, a store waits for its server.
type pace struct {
	// answer is how long an answer may take before we retry. A server that died never answers; then
	// we check ourselves whether the message is stored. If the answer was only late, sending twice
	// is the whole cost.
	answer time.Duration
	// bytes is about how much is in flight at once. It gains little if each message is an fsync,
	// and much if the server is far away. It must arrive well within answer: 2 MB do at 4 Mbit/s.
	bytes int
}

var nearby, distant = pace{2 * time.Second, 8 << 20}, pace{5 * time.Second, 2 << 20}

const (
	// patience is how long the server may be away before we give up.
	patience = 30 * time.Second
	// window is how many messages are in flight at once.
	window = 16
)

// Folder returns the folder of a server within this process; "" of others.
func (s *Store) Folder() string { return s.opt.Dir }

// Put publishes messages. If the acknowledgement is missing it checks whether the message is
// stored.
func (s *Store) Put(ctx context.Context, first uint64, messages [][]byte) (int, error) {
	done := 0
	var since time.Time // when the server stopped answering
	for done < len(messages) {
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		seq, rest := first+uint64(done), messages[done:]
		fit, err := s.fitting(ctx, rest)
		if err != nil {
			return done, err
		}
		n, err := s.publish(seq, rest[:fit])
		if n > 0 {
			done, since = done+n, time.Time{}
			s.stored(seq, rest[:n])
			continue
		}
		api := answered(err)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return done, ctx.Err()
		case errors.Is(err, errBroken):
			return done, diskError("append to", s.Name(), errors.New(s.embedded.log.last()))
		case api != nil:
			if !wrongSequence(api) {
				return done, s.refused(api)
			}
			since = time.Time{}
		case s.conn.IsClosed(), !since.IsZero() && time.Since(since) > patience:
			return done, s.fail(ctx, "append to", err)
		case since.IsZero():
			since = time.Now()
		default:
			_ = flow.Sleep(ctx, 200*time.Millisecond) // the next attempt reports the error
		}
		// Their fate is unknown, or the number was taken: they may be stored by an attempt whose
		// acknowledgement was lost.
		st, err := s.State(ctx)
		if tidemark.KindOf(err) == tidemark.Lost {
			return done, err
		}
		n, err = s.mine(ctx, seq, rest)
		switch {
		case err == nil:
			done, since = done+n, time.Time{}
			s.stored(seq, rest[:n])
			continue
		case errors.Is(err, queue.ErrMissing) && api == nil, tidemark.KindOf(err) == tidemark.Transient:
			if since.IsZero() {
				since = time.Now()
			}
		case errors.Is(err, queue.ErrMissing) && st.Last >= seq: // already trimmed
			return done, queue.ErrFenced
		case errors.Is(err, queue.ErrMissing):
			return done, s.error(tidemark.Lost, "append to", fmt.Errorf("message %d is not the next one: the queue was replaced, or lost its end", seq),
				"Start again: the capture continues after what is there, if the source still has its log from that position.")
		default:
			return done, err
		}
	}
	return done, nil
}

var errBroken = errors.New("the server has stopped writing")

// publish sends the first of messages and waits for all answers, at most pace.answer: a writer that
// gives up and begins again must not see its own messages in flight. It returns how many of them,
// from the first on, are stored, and the error of the one after them.
func (s *Store) publish(seq uint64, messages [][]byte) (n int, err error) {
	var acks []jetstream.PubAckFuture
	size := 0
	for i, b := range messages {
		if size += len(b); i == window || i > 0 && size > s.pace.bytes {
			break
		}
		f, e := s.js.PublishMsgAsync(&nats.Msg{Subject: s.subject, Data: b}, jetstream.WithExpectLastSequence(seq+uint64(i)-1))
		if e != nil {
			err = e
			break
		}
		acks = append(acks, f)
	}
	var broken chan struct{}
	if s.embedded != nil {
		broken = s.embedded.log.broken
	}
	failed := false
	for _, f := range acks {
		select {
		case <-broken:
			return n, errBroken
		case <-f.Ok():
			if !failed {
				n++
			}
		case e := <-f.Err():
			if !failed {
				failed, err = true, e
			}
		}
	}
	return n, err
}

// mine reports how many of messages, from the first on, are stored under the numbers from seq on.
// ErrFenced: another message has the number of the first; ErrMissing: there is none.
func (s *Store) mine(ctx context.Context, seq uint64, messages [][]byte) (int, error) {
	for i, b := range messages {
		got, err := s.Get(ctx, seq+uint64(i))
		switch {
		case err == nil && !bytes.Equal(got, b):
			err = queue.ErrFenced
		case err == nil:
			continue
		}
		if i > 0 {
			return i, nil
		}
		return 0, err
	}
	return len(messages), nil
}

// stored records that messages are stored, numbered from first on, and notifies waiting readers.
func (s *Store) stored(first uint64, messages [][]byte) {
	seq := first + uint64(len(messages)) - 1
	if s.embedded != nil {
		s.embedded.noted.note(seq)
		s.recent.put(first, messages)
	}
	s.heard(seq)
	_ = s.conn.Publish(s.bell, binary.BigEndian.AppendUint64(nil, seq)) // a reader that misses it polls soon
}

// heard records the number of the last message.
func (s *Store) heard(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq > s.last {
		s.last = seq
		close(s.rang)
		s.rang = make(chan struct{})
	}
}

// Get reads a message by its number.
func (s *Store) Get(ctx context.Context, seq uint64) ([]byte, error) {
	if b := s.recent.get(seq); b != nil {
		return b, nil
	}
	for begun := time.Now(); ; {
		asked, cancel := context.WithTimeout(ctx, s.pace.answer)
		m, err := s.stream.GetMsg(asked, seq)
		cancel()
		if err == nil {
			return m.Data, nil
		}
		var st queue.State
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			st, err = s.State(ctx)
		} else {
			err = s.fail(ctx, "read", err)
		}
		switch {
		case err != nil && !s.away(err, begun):
			return nil, err
		case err == nil && (seq < st.First || seq > st.Last || time.Since(begun) > s.lag()):
			// In a cluster, a server that does not have it yet may have answered.
			return nil, queue.ErrMissing
		}
		if err := flow.Sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// away reports whether err only means that the server is away, and has not been for too long.
func (s *Store) away(err error, since time.Time) bool {
	return tidemark.KindOf(err) == tidemark.Transient && !s.conn.IsClosed() && time.Since(since) < patience
}

// lag returns how far a server of a cluster may be behind its leader.
func (s *Store) lag() time.Duration {
	if s.stream.CachedInfo().Config.Replicas > 1 {
		return 5 * time.Second
	}
	return 50 * time.Millisecond // it arrived between our two requests
}

// Wait waits for a notification, and polls from time to time.
func (s *Store) Wait(ctx context.Context, seq uint64) (uint64, error) {
	for heard := time.Now(); ; {
		s.mu.Lock()
		last, rang := s.last, s.rang
		s.mu.Unlock()
		if last >= seq {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-rang:
		case <-time.After(500 * time.Millisecond):
			st, err := s.State(ctx)
			if err != nil && s.away(err, heard) {
				continue
			}
			if heard = time.Now(); err != nil || st.Last < seq {
				return st.Last, err
			}
		}
	}
}

// Purge deletes old messages.
func (s *Store) Purge(ctx context.Context, seq uint64) error {
	s.recent.purge(seq)
	return s.fail(ctx, "trim", s.stream.Purge(ctx, jetstream.WithPurgeSequence(seq)))
}

// State asks the server.
func (s *Store) State(ctx context.Context) (queue.State, error) {
	asked, cancel := context.WithTimeout(ctx, s.pace.answer)
	defer cancel()
	in, err := s.stream.Info(asked)
	if err != nil {
		return queue.State{}, s.fail(ctx, "look at", err)
	}
	st := queue.State{First: in.State.FirstSeq, Last: in.State.LastSeq, Bytes: int64(in.State.Bytes), Limit: in.Config.MaxBytes,
		MaxMessage: int(s.conn.MaxPayload()) - 4<<10} // room for NATS's header
	if soft := s.limit(); soft > 0 {
		st.Limit = soft
	}
	if room, known := s.room(); known {
		st.Disk = max(1, st.Bytes+room)
	}
	if in.State.Msgs == 0 {
		st.First = st.Last + 1
	}
	s.heard(st.Last)
	return st, nil
}

// Close ends the connection, and the embedded server.
func (s *Store) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	if s.conn != nil {
		s.conn.Close()
	}
	if s.embedded != nil {
		s.embedded.close()
	}
	return nil
}
