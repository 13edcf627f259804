package far

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/relay"
)

func TestMain(m *testing.M) { testdb.Main(m) }

const secret = "5d1f0a7bfe9b4c6d"

// served runs a relay for a database, and returns its port.
func served(t *testing.T, program, db string) string {
	t.Helper()
	at := make(chan string, 1)
	note := func(text string) {
		if addr, is := strings.CutPrefix(text, "listening on "); is {
			at <- addr
		}
		if strings.Contains(text, "s3cret") {
			t.Errorf("a password was noted: %s", text)
		}
	}
	copies := &Server{Program: program, Targets: []string{db}, Note: note}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- relay.Listen(ctx, relay.Spec{Addr: "127.0.0.1:0", Identity: relay.Identity{Secret: secret}, Program: program, Note: note,
			Open: copies.Or(func(context.Context, string) (func(net.Conn) error, error) { return nil, errors.New("no queues") })})
	}()
	t.Cleanup(func() {
		cancel()
		copies.Close()
		if err := testdb.From(t, "the relay's end", done); err != nil {
			t.Error(err)
		}
	})
	_, port, _ := net.SplitHostPort(testdb.From(t, "the relay's address", at))
	return port
}

func through(port, program, db string) Options {
	peer := &relay.Peer{Addr: "127.0.0.1:" + port, Identity: relay.Identity{Secret: secret}, Program: program}
	return Options{Dial: peer.Dial, Relay: peer.String(), Program: program, URL: db}
}

// A relay of another version of the program is refused, by exit code 7.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t, 15).NewDatabase(t, "dst")
	port := served(t, "theirs", db)
	_, err := Open(t.Context(), through(port, "ours", db))
	if tidemark.KindOf(err) != tidemark.Unsupported || !strings.Contains(err.Error(), `it is tidemark "theirs", and this program "ours"`) {
		t.Errorf("%v", err)
	}
}

// A deaf connection ends once it is armed: what was sent arrives, what comes back does not.
type deaf struct {
	net.Conn
	armed *atomic.Bool
	there func() bool // the rest is sent, and committed
}

func (d deaf) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	if d.armed.CompareAndSwap(true, false) {
		for begun := time.Now(); !d.there() && time.Since(begun) < 2*time.Minute; {
			time.Sleep(10 * time.Millisecond)
		}
		d.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// TestCutWrite cuts the link as the last rows of a range are sent: they arrive, are committed, and
// the answer is lost; or they never arrive. And it cuts it as the first rows are sent.
func TestCutWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		at     int    // the batch that is on its way
		answer bool   // it is the answer that is lost
		there  string // rows on the target
	}{
		{"between commit and answer", 3, true, "3000"},
		{"before the last rows", 3, false, "0"},
		{"in the middle", 1, false, "0"},
		{"at the beginning", 0, false, "0"},
	} {
		for engine, server := range map[string]*testdb.Server{"postgres": testdb.Postgres(t, 15), "mariadb": testdb.MariaDB(t)} {
			t.Run(c.name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				db := server.NewDatabase(t, "dst")
				testdb.Load(t, db, strings.NewReader("CREATE TABLE t (id int, v varchar(80));"))
				wire := testdb.NewWire(t, served(t, "same", db), 0)
				opt, armed := through(wire.Port, "same", db), &atomic.Bool{}
				dial := opt.Dial
				opt.Dial = func(ctx context.Context, want string) (net.Conn, error) {
					c, err := dial(ctx, want)
					return deaf{c, armed, func() bool {
						n, _ := testdb.TryQuery(db, "SELECT count(*) FROM t")
						return strings.TrimSpace(n) == "3000"
					}}, err
				}
				d, err := Open(t.Context(), opt)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				if err := d.Begin(t.Context(), "run"); err != nil {
					t.Fatal(err)
				}
				schema := d.Default()
				table := &tidemark.Table{TableID: tidemark.TableID{Schema: schema, Name: "t"}, Columns: []tidemark.Column{{Name: "id", Type: tidemark.Type{Kind: tidemark.Int, Bits: 32}}, {Name: "v", Type: tidemark.Type{Kind: tidemark.Varchar, Length: 80}}}}
				w := tidemark.Write{Run: "run", Range: &tidemark.Range{ID: 1}, Move: &tidemark.Move{From: table, To: table, Source: []string{"id", "v"}}}
				write := func(before func(n int)) (tidemark.Written, error) {
					n := 0
					return d.Write(t.Context(), 0, w, func() (*tidemark.Batch, error) {
						before(n)
						b := tidemark.NewBatch(w.Range, tidemark.CopyText)
						if n < 3 {
							b.Rows, b.Data = 1000, append(b.Data, strings.Repeat("7\tseven\n", 1000)...)
						}
						b.Last = n == 3
						n++
						return b, nil
					})
				}
				written, err := write(func(n int) {
					if n != c.at {
						return
					}
					if c.answer {
						armed.Store(true)
						return
					}
					wire.CutNext()
				})
				wire.Deliver() // too late: the relay has been asked for the call's end, or it would be the whole of it
				if c.there == "0" {
					if tidemark.KindOf(err) != tidemark.Transient {
						t.Fatalf("%+v, %v", written, err)
					}
				} else if err != nil || written.Rows != 3000 {
					t.Fatalf("%+v, %v", written, err)
				}
				count := func() string { return strings.TrimSpace(testdb.Query(t, db, "SELECT count(*) FROM t")) }
				if got := count(); got != c.there {
					t.Fatalf("%s rows are there", got)
				}
				if err != nil { // as a copy does
					if written, err = write(func(int) {}); err != nil || written.Rows != 3000 {
						t.Fatalf("the second try: %+v, %v", written, err)
					}
				}
				marks, err := d.Marks(t.Context(), "run")
				if err != nil || len(marks) != 1 || marks[0].Rows != 3000 || count() != "3000" {
					t.Errorf("marks %v, %v, and %s rows", marks, err, count())
				}
			})
		}
	}
}

// What a source says of its rows comes back unchanged, and nothing is committed.
func TestTakeFails(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t, 15).NewDatabase(t, "dst")
	testdb.Load(t, db, strings.NewReader("CREATE TABLE t (id int);"))
	d, err := Open(t.Context(), through(served(t, "same", db), "same", db))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	table := &tidemark.Table{TableID: tidemark.TableID{Schema: "public", Name: "t"}, Columns: []tidemark.Column{{Name: "id", Type: tidemark.Type{Kind: tidemark.Int, Bits: 32}}}}
	w := tidemark.Write{Range: &tidemark.Range{ID: 1}, Move: &tidemark.Move{From: table, To: table, Source: []string{"id"}}}
	own, n := errors.New("the source has gone"), 0
	_, err = d.Write(t.Context(), 0, w, func() (*tidemark.Batch, error) {
		if n++; n == 3 {
			return nil, own
		}
		b := tidemark.NewBatch(w.Range, tidemark.CopyText)
		b.Rows, b.Data = 1, append(b.Data, "1\n"...)
		return b, nil
	})
	if err != own {
		t.Errorf("%v", err)
	}
	// A row that the target refuses is shown here, and skipped or not as this side says.
	for _, stop := range []error{nil, own} {
		var refused []string
		w.Reject = func(row []byte, reason string) error { refused = append(refused, string(row)); return stop }
		written, err := d.Write(t.Context(), 0, w, func() (*tidemark.Batch, error) {
			b := tidemark.NewBatch(w.Range, tidemark.CopyText)
			b.Rows, b.Last, b.Data = 3, true, append(b.Data, "1\nnone\n3\n"...)
			return b, nil
		})
		if err != stop || stop == nil && (written.Rows != 2 || written.Rejected != 1) || len(refused) != 1 || strings.TrimSpace(refused[0]) != "none" {
			t.Errorf("%+v, %v, refused %q", written, err, refused)
		}
	}
	if got := strings.TrimSpace(testdb.Query(t, db, "SELECT count(*) FROM t")); got != "2" {
		t.Errorf("%s rows", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := d.Exec(ctx, 0, []string{"SELECT pg_sleep(600)"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that is cancelled: %v", err)
	}
	testdb.Within(t, "the end of what was cancelled", func() bool { // much sooner than it would end by itself
		return strings.TrimSpace(testdb.Query(t, db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep%' AND state = 'active' AND pid <> pg_backend_pid()")) == "0"
	})
}

// Only what an operator names is connected to.
func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		targets, url string
		may          bool
	}{
		{"", "postgres://me@localhost/shop", false},
		{"postgres://localhost", "postgres://me:pw@localhost:5432/shop?sslmode=disable", true},
		{"postgres://localhost", "postgres://me@localhost.evil/shop", false},
		{"postgres://localhost", "postgres://localhost@evil/shop", false},
		{"postgres://localhost", "postgres://me@localhost:5433/shop", false},
		{"postgres://localhost", "mysql://me@localhost:5432/shop", false},
		{"postgres://localhost", "postgres://me@localhost,evil/shop", false},
		{"postgres://localhost", "postgres://me@/shop", false},
		{"postgres://localhost", "postgres://me@localhost/shop?host=evil", false},
		{"postgres://localhost", "postgres://me@localhost/shop?service=evil", false},
		{"postgres://localhost", "postgres://me@localhost/shop?passfile=/etc/shadow", false},
		{"postgres://localhost/shop", "postgres://me@localhost/other", false},
		{"postgres://localhost/shop", "postgres://me@localhost/shop?dbname=other", false},
		{"mariadb://localhost mysql://db:3307", "mysql://me@DB:3307/shop", true},
		{"mariadb://localhost?socket=/run/m.sock", "mariadb://me@localhost/shop?socket=/run/m.sock", true},
		{"mariadb://localhost", "mariadb://me@localhost/shop?socket=/run/m.sock", false},
	} {
		err := allowed(strings.Fields(c.targets), c.url)
		if (err == nil) != c.may || err != nil && (tidemark.KindOf(err) != tidemark.Forbidden || strings.Contains(err.Error(), "pw")) {
			t.Errorf("%q, %s: %v", c.targets, c.url, err)
		}
	}
}
