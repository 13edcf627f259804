package jetstream

import (
	"bytes"
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/queue"
	"github.com/tidemarkdb/tidemark/queue/queuetest"
)

func open(tb testing.TB, opt Options) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func openLog(tb testing.TB, s *Store, opt queue.Options) *queue.Log {
	tb.Helper()
	l, err := queue.New(tb.Context(), s, opt)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestEmbedded(t *testing.T) {
	queuetest.Run(t, queuetest.Maker{
		New: func(tb testing.TB, limit int64) func() queue.Store {
			dir := tb.TempDir()
			return func() queue.Store { return open(tb, Options{Queue: "orders", Dir: dir, Limit: limit}) }
		},
		Giant: 200 << 20, RAM: 128 << 20, Checks: 10,
	})
}

func TestExternal(t *testing.T) {
	url := "nats://" + startServer(t, &server.Options{}).Addr().String()
	n := 0
	queuetest.Run(t, queuetest.Maker{
		New: func(tb testing.TB, limit int64) func() queue.Store {
			n++
			queueName := fmt.Sprintf("q%d", n)
			return func() queue.Store { return open(tb, Options{Queue: queueName, URL: url, Limit: limit}) }
		},
		Giant: 30 << 20, RAM: 128 << 20, Checks: 10,
	})
}

// startServer starts a NATS server like those at sites, with a port of its own.
func startServer(tb testing.TB, so *server.Options) *server.Server {
	tb.Helper()
	testdb.NotShort(tb)
	so.Host, so.JetStream, so.NoSigs, so.NoLog, so.SyncAlways, so.JetStreamMaxStore = "127.0.0.1", true, true, true, true, 1<<60
	if so.Port == 0 {
		so.Port = server.RANDOM_PORT
	}
	if so.StoreDir == "" {
		so.StoreDir = tb.TempDir()
	}
	s, err := server.NewServer(so)
	if err != nil {
		tb.Fatal(err)
	}
	go s.Start()
	tb.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(5 * time.Minute) {
		tb.Fatal("the server does not start")
	}
	return s
}

// insertAt returns the transaction at a place: the place alone determines its content.
func insertAt(place uint64, size int) *change.Tx {
	rel := change.Relation{ID: 7, Table: tidemark.TableID{Schema: "public", Name: "t"}, Identity: 'd', Columns: []change.RelationColumn{{Name: "id", Key: true, Type: 23, Mod: -1}}}
	text := bytes.Repeat(binary.BigEndian.AppendUint64(nil, place*0x9e3779b97f4a7c15), size/8+1)
	m := append(binary.BigEndian.AppendUint32([]byte{'I'}, rel.ID), 'N')
	m = change.AppendTuple(m, []change.Value{{Kind: change.TextValue, Data: text}})
	return &change.Tx{Place: place, End: place + 1, Rows: 1, Changes: change.Append(change.Append(nil, rel.Append(nil)), m)}
}

var errEnough = errors.New("enough")

// readPlaces reads up to the place until, and checks that the transactions of these places come,
// each once and whole. It returns the last of them and the error.
func readPlaces(l *queue.Log, ctx context.Context, after, until uint64, size int) (last uint64, err error) {
	last = after
	var body []byte
	err = l.Read(ctx, after, func(tx *change.Tx) error {
		if tx.Place != last+1 {
			return fmt.Errorf("place %d comes after %d", tx.Place, last)
		}
		for rest := tx.Changes; len(rest) > 0; {
			c, next, err := change.Next(rest)
			if err != nil {
				return err
			}
			if rest = next; c.Kind == tidemark.InsertChange {
				body = c.Body
			}
		}
		if tx.More {
			return nil
		}
		if want := insertAt(tx.Place, size).Changes; !bytes.HasSuffix(want, body) || len(body) < size {
			return fmt.Errorf("the transaction at place %d is another one", tx.Place)
		}
		if last = tx.Place; last >= until {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	return last, err
}

func appendPlaces(tb testing.TB, l *queue.Log, from, to uint64, size int) {
	tb.Helper()
	for place := from; place <= to; place++ {
		if err := l.Append(tb.Context(), []*change.Tx{insertAt(place, size)}); err != nil {
			tb.Fatal(err)
		}
	}
}

// fill creates a queue with messages of about 100 KB at the places 1 to n, and closes it.
func fill(t *testing.T, n uint64) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "queue")
	l := openLog(t, open(t, Options{Queue: "q", Dir: dir}), queue.Options{})
	if _, _, err := l.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	appendPlaces(t, l, 1, n, 100_000)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The last messages are not read from the server, which would keep a file that is written and read
// at once in memory; older messages are.
func TestRecent(t *testing.T) {
	s := open(t, Options{Queue: "q", Dir: filepath.Join(t.TempDir(), "queue")})
	message := func(seq uint64) []byte { return bytes.Repeat([]byte{byte(seq)}, 1_000_000) }
	const n = 20
	for seq := uint64(1); seq <= n; seq++ {
		if _, err := s.Put(t.Context(), seq, [][]byte{message(seq)}); err != nil {
			t.Fatal(err)
		}
	}
	held := 0
	for seq := uint64(1); seq <= n; seq++ {
		if b := s.recent.get(seq); b != nil {
			held += len(b)
		} else if held > 0 {
			t.Errorf("message %d is not held", seq)
		}
		if b, err := s.Get(t.Context(), seq); err != nil || !bytes.Equal(b, message(seq)) {
			t.Fatalf("message %d: %v", seq, err)
		}
	}
	if held < recentBytes || held > recentBytes+1_000_000 {
		t.Errorf("%d bytes are held", held)
	}
	if err := s.Purge(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), n-1); !errors.Is(err, queue.ErrMissing) {
		t.Errorf("a message that was purged: %v", err)
	}
	if s.recent.bytes != 1_000_000 {
		t.Errorf("%d bytes are held of what was purged", s.recent.bytes)
	}
}

// blocks returns the files in which the server keeps messages.
func blocks(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".blk") {
			out = append(out, path)
		}
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("no files of messages in %s: %v", dir, err)
	}
	return out
}

// damaged opens a queue of 40 messages that is damaged somewhere, and expects everything before the
// damage, and then an error that reports it.
func damaged(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(t.Context(), Options{Queue: "q", Dir: dir})
	last := uint64(0)
	if err == nil {
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		last, err = readPlaces(openLog(t, s, queue.Options{}), ctx, 0, 40, 100_000)
	}
	if tidemark.KindOf(err) != tidemark.Corrupt || tidemark.HintOf(err) == "" {
		t.Fatalf("read up to %d, and then: %v", last, err)
	}
	t.Logf("read up to %d, and then: %v", last, err)
}

// A flipped bit anywhere in a message is found, whether the server has to read all its files at
// start, as after a crash, or trusts its index.
func TestFlippedBit(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		for _, where := range []float64{0.31, 0.999} {
			t.Run(fmt.Sprintf("%v_%v", crashed, where), func(t *testing.T) {
				dir := fill(t, 40)
				files := blocks(t, dir)
				if crashed {
					forget(t, dir)
				}
				b, err := os.ReadFile(files[0])
				if err != nil {
					t.Fatal(err)
				}
				b[int(float64(len(b))*where)] ^= 0x10
				if err := os.WriteFile(files[0], b, 0o600); err != nil {
					t.Fatal(err)
				}
				damaged(t, dir)
			})
		}
	}
}

// forget removes the server's index, which is outdated after a crash.
func forget(t *testing.T, dir string) {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if filepath.Base(path) == "index.db" {
			found = true
			return os.Remove(path)
		}
		return err
	})
	if err != nil || !found {
		t.Fatalf("index.db: found %v, %v", found, err)
	}
}

// A file of the queue is truncated or missing.
func TestTornFile(t *testing.T) {
	for name, tear := range map[string]func(string) error{
		"cut":     func(f string) error { return os.Truncate(f, 1<<20) },
		"emptied": func(f string) error { return os.Truncate(f, 0) },
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := fill(t, 40)
			forget(t, dir)
			if err := tear(blocks(t, dir)[0]); err != nil {
				t.Fatal(err)
			}
			damaged(t, dir)
		})
	}
}

func wantError(t *testing.T, err error, kind tidemark.Kind, text string) {
	t.Helper()
	if tidemark.KindOf(err) != kind || !strings.Contains(err.Error(), text) || tidemark.HintOf(err) == "" {
		t.Fatalf("%v (%v, hint %q); want %v with %q", err, tidemark.KindOf(err), tidemark.HintOf(err), kind, text)
	}
}

func TestFolders(t *testing.T) {
	dir := fill(t, 2)
	s := open(t, Options{Queue: "q", Dir: dir})
	_, err := Open(t.Context(), Options{Queue: "q", Dir: dir})
	wantError(t, err, tidemark.Invalid, fmt.Sprintf("process %d on ", os.Getpid()))
	s.Close()
	if err := os.WriteFile(filepath.Join(dir, versionName), []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Queue: "q", Dir: dir})
	wantError(t, err, tidemark.Unsupported, `the format "7" of another version`)

	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.doc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Queue: "q", Dir: other})
	wantError(t, err, tidemark.Invalid, "the folder holds other files, such as thesis.doc")
	_, err = Open(t.Context(), Options{Queue: "q", Dir: filepath.Join(other, "thesis.doc")})
	if err == nil {
		t.Fatal("a file is no folder")
	}
	broken := t.TempDir()
	for name, text := range map[string]string{versionName: version, "jetstream": ""} {
		if err := os.WriteFile(filepath.Join(broken, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err = Open(t.Context(), Options{Queue: "q", Dir: broken})
	wantError(t, err, tidemark.Invalid, "an't start JetStream")
	if _, err = Open(t.Context(), Options{Queue: "a b", Dir: other}); tidemark.KindOf(err) != tidemark.Invalid {
		t.Fatal(err)
	}
}

// A smaller limit never drops stored messages: what is more than it is read first.
func TestLimits(t *testing.T) {
	dir := fill(t, 40)
	s := open(t, Options{Queue: "q", Dir: dir, Limit: 3 << 20})
	holds := func(limit int64, messages uint64) {
		t.Helper()
		st, err := s.State(t.Context())
		if err != nil || st.Limit != limit || st.Last-st.First+1 != messages {
			t.Fatalf("%+v, %v; not %d messages with a limit of %d", st, err, messages, limit)
		}
	}
	holds(3<<20, 40)
	text := [][]byte{make([]byte, 1000)}
	if n, err := s.Put(t.Context(), 41, text); n != 0 || !errors.Is(err, queue.ErrFull) {
		t.Fatalf("%d messages into a queue of more than its limit: %v", n, err)
	}
	holds(3<<20, 40)
	if err := s.Purge(t.Context(), 31); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Put(t.Context(), 41, text); n != 1 || err != nil {
		t.Fatalf("%d messages with room again: %v", n, err)
	}
	holds(3<<20, 11)
	if got := s.limit(); got != 0 {
		t.Errorf("the server does not have its limit: %d", got)
	}
	s.Close()
	s = open(t, Options{Queue: "q", Dir: dir, Limit: 5 << 20})
	holds(5<<20, 11)
}

// A site's server rejects us, and our messages do not contain its password.
func TestSecrets(t *testing.T) {
	addr := startServer(t, &server.Options{Username: "tide", Password: "s3cret"}).Addr().String()
	for _, c := range []struct {
		url  string
		kind tidemark.Kind
	}{
		{"nats://tide:wr0ng-s3cret@" + addr, tidemark.Denied},
		{"nats://t0ken-s3cret@" + addr, tidemark.Denied},
		{"nats://tide:s3cret@127.0.0.1:1", tidemark.Unreachable},
		{"nats://tide:s3cret@no host:1", tidemark.Invalid},
		{"nats://tide:s3cret@" + addr, tidemark.Bug},
	} {
		s, err := Open(t.Context(), Options{Queue: "q", URL: c.url})
		if err == nil {
			err = errors.New(s.Name())
			s.Close()
		}
		if tidemark.KindOf(err) != c.kind || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v (%v)", err, tidemark.KindOf(err))
		}
	}
}

// A foreign stream of that name is left unchanged.
func TestForeignStream(t *testing.T) {
	url := "nats://" + startServer(t, &server.Options{}).Addr().String()
	s := open(t, Options{Queue: "q", URL: url})
	c := s.stream.CachedInfo().Config
	c.MaxAge = time.Hour
	if _, err := s.js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Queue: "q", URL: url})
	wantError(t, err, tidemark.Invalid, "there is a stream TIDEMARK_q with other settings")
}

// A queue is removed, or replaced by an empty one, while it is read and written.
func TestReplaced(t *testing.T) {
	url := "nats://" + startServer(t, &server.Options{}).Addr().String()
	for _, again := range []bool{false, true} {
		s := open(t, Options{Queue: "q", URL: url})
		l := openLog(t, s, queue.Options{})
		if _, _, err := l.Begin(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		appendPlaces(t, l, 1, 5, 100)
		done := make(chan error, 1)
		read := make(chan bool)
		go func() {
			done <- l.Read(t.Context(), 0, func(tx *change.Tx) error {
				if tx.Place == 5 {
					read <- true
				}
				return nil
			})
		}()
		testdb.From(t, "transaction 5 in the reader", read)
		if err := s.js.DeleteStream(t.Context(), "TIDEMARK_q"); err != nil {
			t.Fatal(err)
		}
		want := "stream not found"
		if !again {
			wantError(t, l.Append(t.Context(), []*change.Tx{insertAt(6, 100)}), tidemark.Lost, want)
		} else {
			l := openLog(t, open(t, Options{Queue: "q", URL: url}), queue.Options{})
			if _, _, err := l.Begin(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			appendPlaces(t, l, 6, 6, 100)
			want = ", and message 5 was there" // the reader may look before message 6 is in
		}
		err := testdb.From(t, "the reader's end", done)
		if err != nil && strings.Contains(err.Error(), "stream not found") {
			want = "stream not found" // the reader may look before the queue is there again
		}
		wantError(t, err, tidemark.Lost, want)
		if again {
			err := l.Append(t.Context(), []*change.Tx{insertAt(6, 100)})
			wantError(t, err, tidemark.Lost, "message 6 is not the next one: the queue was replaced")
			if err := s.js.DeleteStream(t.Context(), "TIDEMARK_q"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Other processes reach an embedded queue by its port, and only with its password.
func TestListen(t *testing.T) {
	_, err := Open(t.Context(), Options{Queue: "q", Dir: t.TempDir(), Listen: "0.0.0.0:0"})
	wantError(t, err, tidemark.Invalid, "it can be reached from other hosts, and has no password")
	s := open(t, Options{Queue: "q", Dir: t.TempDir(), Listen: "127.0.0.1:0", User: "tide", Password: "s3cret"})
	l := openLog(t, s, queue.Options{})
	if _, _, err := l.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Queue: "q", URL: "nats://" + s.Addr()}); tidemark.KindOf(err) != tidemark.Denied {
		t.Fatal(err)
	}
	far := openLog(t, open(t, Options{Queue: "q", URL: "nats://tide:s3cret@" + s.Addr()}), queue.Options{})
	done := make(chan error, 1)
	go func() {
		_, err := readPlaces(far, t.Context(), 0, 20, 1000)
		done <- err
	}()
	appendPlaces(t, l, 1, 20, 1000)
	if err := testdb.From(t, "the reader's end", done); err != nil {
		t.Fatal(err)
	}
	if err := far.Trim(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	if st, err := l.Stats(t.Context()); err != nil || st.Messages != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
}

// A connection breaks again and again, also between a message and its acknowledgement: everything
// is there, and once.
func TestBrokenConnection(t *testing.T) {
	p := startProxy(t, startServer(t, &server.Options{}).Addr().String())
	url := "nats://" + p.listener.Addr().String()
	l := openLog(t, open(t, Options{Queue: "q", URL: url}), queue.Options{})
	if _, _, err := l.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := readPlaces(openLog(t, open(t, Options{Queue: "q", URL: url}), queue.Options{}), t.Context(), 0, 300, 20_000)
		done <- err
	}()
	for place := uint64(1); place <= 300; place++ {
		if place%150 == 50 {
			p.answers.Store(false) // it arrives, but its answer does not
			time.AfterFunc(50*time.Millisecond, p.cut)
		}
		appendPlaces(t, l, place, place, 20_000)
	}
	if p.cuts.Load() < 2 {
		t.Fatalf("the connection was cut %d times", p.cuts.Load())
	}
	if err := testdb.From(t, "the reader's end", done); tidemark.KindOf(err) == tidemark.Transient { // which its caller retries
		_, err = readPlaces(l, t.Context(), 0, 300, 20_000)
		done <- err
	} else {
		done <- err
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A proxy is an unreliable network.
type proxy struct {
	listener net.Listener
	answers  atomic.Bool
	cuts     atomic.Int64
	mu       sync.Mutex
	conns    []net.Conn
}

func startProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l}
	p.answers.Store(true)
	t.Cleanup(func() { l.Close(); p.cut() })
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, a, b)
			p.mu.Unlock()
			go io.Copy(b, a)
			go func() {
				buf := make([]byte, 64<<10)
				for {
					n, err := b.Read(buf)
					if err != nil {
						a.Close()
						return
					}
					if p.answers.Load() {
						a.Write(buf[:n])
					}
				}
			}()
		}
	}()
	return p
}

// cut breaks all connections; new ones work.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
	p.cuts.Add(1)
	p.answers.Store(true)
}

// TestLimitStays opens a queue without a limit, as for an inspection: it keeps its present limit.
func TestLimitStays(t *testing.T) {
	s := startServer(t, &server.Options{})
	for i, limit := range []int64{1 << 30, 0, 2 << 30, 0} {
		store := open(t, Options{Queue: "q", URL: s.ClientURL(), Limit: limit})
		st, err := store.State(t.Context())
		if want := int64(1+i/2) << 30; err != nil || st.Limit != want {
			t.Errorf("after %d: limit %d, not %d: %v", i, st.Limit, want, err)
		}
		store.Close()
	}
}

// TestSyncs: the server in this process acknowledges what is on disk, and nothing earlier. A killed
// process does not show that: only a machine without power would.
func TestSyncs(t *testing.T) {
	e, err := embed(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	if c := e.server.JetStreamConfig(); c == nil || !c.SyncAlways {
		t.Errorf("%+v", c)
	}
}
