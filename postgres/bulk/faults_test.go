package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
)

// mustBe checks the whole text of an error, its kind and its hint.
func mustBe(t *testing.T, err error, kind tidemark.Kind, text, hint string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s", text)
		return
	}
	if tidemark.KindOf(err) != kind || err.Error() != text || tidemark.HintOf(err) != hint {
		t.Errorf("got  %v: %s\n     hint %s\nwant %v: %s\n     hint %s", tidemark.KindOf(err), err, tidemark.HintOf(err), kind, text, hint)
	}
}

func with(t *testing.T, raw string, change func(u *url.URL)) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

func TestOpenFails(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	good := srv.NewDatabase(t, "open")
	at := fmt.Sprintf("127.0.0.1:%d", srv.Port)
	name := good[strings.LastIndex(good, "/")+1 : strings.Index(good, "?")]
	testdb.Query(t, good, "DROP ROLE IF EXISTS nobody; CREATE ROLE nobody LOGIN PASSWORD 'x'; REVOKE CONNECT ON DATABASE "+name+" FROM PUBLIC")
	defer testdb.Query(t, srv.URL("postgres"), "DROP ROLE nobody")
	closed := testdb.FreeAddress(t)
	const reach = "Check host and port, that the server runs and listens there (listen_addresses), and that no firewall blocks the connection."
	for _, tt := range []struct {
		name       string
		url        string
		kind       tidemark.Kind
		text, hint string
	}{
		{"wrong password", with(t, good, func(u *url.URL) { u.User = url.UserPassword("tidemark", "wrong-secret") }), tidemark.Denied,
			"connect postgres://tidemark@" + at + "/" + name + `: password authentication failed for user "tidemark"`,
			"Check user and password; the password may stand in the URL, in PGPASSWORD or in the password file."},
		{"missing database", with(t, good, func(u *url.URL) { u.Path = "/no such" }), tidemark.NotFound,
			"connect postgres://tidemark@" + at + `/no%20such: database "no such" does not exist`,
			fmt.Sprintf("Correct the name in the URL; a target's database must exist: createdb -h 127.0.0.1 -p %d -U tidemark 'no such'", srv.Port)},
		{"no privilege", with(t, good, func(u *url.URL) { u.User = url.UserPassword("nobody", "x") }), tidemark.Forbidden,
			"connect postgres://nobody@" + at + "/" + name + `: permission denied for database "` + name + `" (User does not have CONNECT privilege)`,
			"Run this as the owner: GRANT CONNECT ON DATABASE " + name + " TO nobody;"},
		{"no TLS", with(t, good, func(u *url.URL) { u.RawQuery = "sslmode=require" }), tidemark.Unreachable,
			"connect postgres://tidemark@" + at + "/" + name + ": server refused TLS connection",
			"The server, or a proxy before it, has no TLS: switch it on there (ssl = on)."},
		{"no TLS where it is preferred", with(t, good, func(u *url.URL) { u.RawQuery = "sslmode=prefer&target_session_attrs=standby" }), tidemark.Unreachable,
			"connect postgres://tidemark@" + at + "/" + name + ": server is not in hot standby mode", "target_session_attrs asks for another kind of server: give the address of one, or leave it out."},
		{"no password", with(t, good, func(u *url.URL) { u.User, u.RawQuery = url.User("tidemark"), "passfile=/nowhere" }), tidemark.Denied,
			"connect postgres://tidemark@" + at + "/" + name + ": the server asks for a password, and none was given",
			"No line of /nowhere matches " + at + ":" + name + ":tidemark. Add one (HOST:PORT:DATABASE:USER:PASSWORD), or set PGPASSWORD."},
		{"a service", "postgres:///?service=nosvc&servicefile=/nowhere", tidemark.Invalid, "", "Services are read from the file that servicefile or PGSERVICEFILE names, or from ~/.pg_service.conf: check that it is there, and has a part [NAME]."},
		{"a TLS mode", "postgres://h/db?sslmode=verify_full", tidemark.Invalid, "connect postgres://h/db?sslmode=verify_full: sslmode is invalid", "sslmode is disable, allow, prefer, require, verify-ca or verify-full."},
		{"no certificate", "postgres://h/db?sslmode=verify-ca&sslrootcert=/nowhere", tidemark.Invalid, "", "Check the path, and that the file is in PEM form: sslrootcert, sslcert and sslkey, or the variables PGSSLROOTCERT, PGSSLCERT and PGSSLKEY."},
		{"a port", "postgres://h:99999/db", tidemark.Invalid, "connect postgres://...: not a URL: its port is not a number from 1 to 65535",
			"Write it as postgres://user@host:5432/database, with special characters of the password percent-encoded (@ is %40, / is %2F, # is %23, : is %3A); the password may also stand in the password file or in PGPASSWORD."},
		{"nobody listens", with(t, good, func(u *url.URL) { u.Host = closed }), tidemark.Unreachable,
			"connect postgres://tidemark@" + closed + "/" + name + ": dial tcp " + closed + ": connect: connection refused", reach},
		{"no such host", with(t, good, func(u *url.URL) { u.Host = "no-such-host.invalid" }), tidemark.Unreachable,
			"connect postgres://tidemark@no-such-host.invalid:5432/" + name + ": no such host: no-such-host.invalid", "Check the host name in the URL."},
		{"a password with @", "postgresql://tidemark:hid@den-secret@h:5432/db", tidemark.Invalid, "connect postgresql://tidemark@h:5432/db: not a URL: user, password and host cannot be separated",
			"Write it as postgres://user@host:5432/database, with special characters of the password percent-encoded (@ is %40, / is %2F, # is %23, : is %3A); the password may also stand in the password file or in PGPASSWORD."},
		{"not a URL", "postgres://tidemark:hidden-secret@h:port/db", tidemark.Invalid,
			"", "Write it as postgres://user@host:5432/database, with special characters of the password percent-encoded (@ is %40, / is %2F, # is %23, : is %3A); the password may also stand in the password file or in PGPASSWORD."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := Open(t.Context(), tt.url, Options{})
			if err == nil {
				e.Close()
				t.Fatal("no error")
			}
			if strings.Contains(err.Error()+tidemark.HintOf(err), "secret") {
				t.Errorf("a secret in %v", err)
			}
			text := tt.text
			if text == "" {
				text = err.Error()
			}
			mustBe(t, err, tt.kind, text, tt.hint)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(ctx, good, Options{})
	mustBe(t, err, tidemark.Cancelled, "connect postgres://tidemark@"+at+"/"+name+": context canceled", "")
}

// A view is the same on all lanes while another session writes, and after lanes had to reconnect.
func TestSnapshotHoldsWhileOthersWrite(t *testing.T) {
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			db := testdb.Postgres(t, major).NewDatabase(t, "snap")
			testdb.Query(t, db, "CREATE TABLE account (id int PRIMARY KEY, amount int); INSERT INTO account SELECT g, 100 FROM generate_series(1, 20000) g")
			var stop atomic.Bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := 0; !stop.Load(); i++ {
					if _, err := testdb.TryQuery(db, fmt.Sprintf("BEGIN; UPDATE account SET amount = amount - 1 WHERE id = %d; UPDATE account SET amount = amount + 1 WHERE id = %d; COMMIT;"+
						"INSERT INTO account VALUES (%d, 0); DELETE FROM account WHERE id = %d", 1+i*7%20000, 1+i*11%20000, 30000+i, i*3%20000)); err != nil {
						t.Error(err)
						return
					}
				}
			}()
			defer func() { stop.Store(true); testdb.From(t, "the writer's end", done) }()
			e := frozen(t, db, 3)
			m := move(pgtest.Table(t, db, "account"))
			m.Split = tidemark.Split{Target: 64 << 10, Max: 20}
			ranges, err := e.Split(t.Context(), m)
			if err != nil || len(ranges) < 3 {
				t.Fatalf("%d ranges: %v", len(ranges), err)
			}
			var first []byte
			for pass := range 3 {
				var got []byte
				for i := range ranges {
					data, _ := readAll(t, e, (i+pass)%3, m, &ranges[i], tidemark.CopyText)
					got = append(got, data...)
				}
				got = sorted(got)
				if pass == 0 {
					first = got
				}
				if !bytes.Equal(got, first) {
					t.Error("the view has changed")
				}
				// The next pass finds its sessions closed.
				testdb.Query(t, db, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", e.readers[pass].Conn.PID()))
			}
			// Without the leader there is no view to join.
			lead, release, err := e.Leader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			testdb.Query(t, db, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", lead.PgConn().PID()))
			release()
			e.readers[1].Close()
			err = e.Read(t.Context(), 1, tidemark.Read{Move: m, Range: &ranges[0]}, func(b *tidemark.Batch) error { b.Release(); return nil })
			if tidemark.KindOf(err) != tidemark.Lost || !errors.Is(err, tidemark.ErrSnapshotLost) || !strings.Contains(tidemark.HintOf(err), "--resume") {
				t.Errorf("without a leader: %v: %v (%s)", tidemark.KindOf(err), err, tidemark.HintOf(err))
			}
		})
	}
}

func TestStampAndPosition(t *testing.T) {
	db := testdb.Postgres(t, 18).NewDatabase(t, "stamp")
	testdb.Query(t, db, "CREATE TABLE t (id int)")
	freeze := func() tidemark.Position {
		e, err := Open(t.Context(), db, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		pos, err := e.Freeze(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^[0-9A-F]+/[0-9A-F]+$`).MatchString(pos.Text) || pos.Engine != "postgres" {
			t.Errorf("position %+v", pos)
		}
		return pos
	}
	a, b := freeze(), freeze()
	for range 5 { // the server's own autovacuum may have written
		if a.Stamp != b.Stamp {
			a, b = b, freeze()
		}
	}
	if a.Stamp != b.Stamp {
		t.Errorf("nobody has written, and the stamp changed from %s to %s", a.Stamp, b.Stamp)
	}
	testdb.Query(t, db, "INSERT INTO t VALUES (1)")
	if c := freeze(); c.Stamp == b.Stamp {
		t.Errorf("the stamp %s did not change", c.Stamp)
	} else if testdb.Query(t, db, fmt.Sprintf("SELECT '%s'::pg_lsn <= '%s'::pg_lsn", b.Text, c.Text)) != "t" {
		t.Errorf("the position went back from %s to %s", b.Text, c.Text)
	}
	// An idle transaction with an XID delays nobody, and its end changes the stamp although a later
	// one ended before.
	e := open(t, db)
	conn, release, err := e.Control(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO public.t VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	testdb.Query(t, db, "INSERT INTO t VALUES (3)")
	var open tidemark.Position
	for try := 0; ; try++ { // a busy machine may be slow for other reasons, but not every time; a real wait takes five seconds
		start := time.Now()
		open = freeze()
		if took := time.Since(start); took < 2*time.Second {
			break
		} else if try == 5 {
			t.Errorf("Freeze waited %v for an idle transaction", took)
			break
		}
	}
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if after := freeze(); after.Stamp == open.Stamp {
		t.Errorf("the stamp %s did not change", after.Stamp)
	}
}

// A commit that is in the log and waits for a standby is not yet visible: a view that misses it
// must not claim a log position after it.
func TestPositionWaitsForCommitsThatNobodySees(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	db := srv.NewDatabase(t, "sync")
	testdb.Query(t, db, "CREATE TABLE t (id int)")
	set := func(sql string) {
		testdb.Query(t, db, sql)
		testdb.Query(t, db, "SELECT pg_reload_conf()")
	}
	set("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	defer set("ALTER SYSTEM RESET synchronous_standby_names")
	var pending chan struct{}
	insert := func() {
		pending = make(chan struct{})
		go func(done chan struct{}) {
			defer close(done)
			if _, err := testdb.TryQuery(db, "INSERT INTO t VALUES (1)"); err != nil {
				t.Error(err)
			}
		}(pending)
	}
	inserted := 1
	insert()
	testdb.Within(t, "a commit that waits", func() bool {
		select {
		case <-pending: // the setting was not yet in force
			inserted++
			insert()
		default:
		}
		return testdb.Query(t, db, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != "0"
	})
	release := time.AfterFunc(300*time.Millisecond, func() { set("ALTER SYSTEM RESET synchronous_standby_names") })
	defer release.Stop()
	e := frozen(t, db, 1)
	testdb.From(t, "the commit", pending)
	if _, n := readAll(t, e, 0, move(pgtest.Table(t, db, "t")), &tidemark.Range{}, tidemark.CopyText); n != inserted {
		t.Error("the view misses a commit that its position is behind")
	}
}

// A session cut while rows flow is a transient error, and the lane reads the same view again.
func TestKilledInMidRead(t *testing.T) {
	db := testdb.Postgres(t, 18).NewDatabase(t, "kill")
	testdb.Query(t, db, "CREATE TABLE t AS SELECT g AS id, repeat('x', 1000) AS v FROM generate_series(1, 40000) g")
	e := frozen(t, db, 1)
	m := move(pgtest.Table(t, db, "t"))
	n := 0
	err := e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{}}, func(b *tidemark.Batch) error {
		b.Release()
		if n++; n == 2 {
			testdb.Query(t, db, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", e.readers[0].Conn.PID()))
		}
		return nil
	})
	if tidemark.KindOf(err) != tidemark.Transient || n > 39 {
		t.Errorf("%v: %v after %d batches", tidemark.KindOf(err), err, n)
	}
	testdb.Query(t, db, "DELETE FROM t")
	if _, rows := readAll(t, e, 0, m, &tidemark.Range{}, tidemark.CopyText); rows != 40000 {
		t.Errorf("%d rows", rows)
	}
}

func TestReadForbidden(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	db := srv.NewDatabase(t, "priv")
	testdb.Query(t, db, `DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'x'; CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO reader;
		CREATE TABLE s."Secret" (id int); CREATE TABLE s.own (id int); CREATE TABLE s.seen (id int); GRANT SELECT ON s.own, s.seen TO reader;
		INSERT INTO s.seen VALUES (1); ALTER TABLE s.own ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON s.own USING (id > 0);
		CREATE SCHEMA closed; CREATE TABLE closed.t (id int)`)
	defer testdb.Query(t, db, "DROP OWNED BY reader; DROP ROLE reader")
	e := frozen(t, with(t, db, func(u *url.URL) { u.User = url.UserPassword("reader", "x") }), 1)
	read := func(name string) error {
		return e.Read(t.Context(), 0, tidemark.Read{Move: move(pgtest.Table(t, db, name)), Range: &tidemark.Range{}}, func(b *tidemark.Batch) error { b.Release(); return nil })
	}
	mustBe(t, read(`s."Secret"`), tidemark.Forbidden, `read s."Secret": permission denied for table Secret`,
		`Run this as the owner: GRANT SELECT ON TABLE s."Secret" TO reader;`)
	mustBe(t, read("s.own"), tidemark.Forbidden, `read s.own: query would be affected by row-level security policy for table "own"`,
		"The table has row security: run ALTER ROLE reader BYPASSRLS, or connect as its owner.")
	mustBe(t, read("closed.t"), tidemark.Forbidden, "read closed.t: permission denied for schema closed",
		"Run this as the owner: GRANT USAGE ON SCHEMA closed TO reader;")
	if err := read("s.seen"); err != nil {
		t.Errorf("after refusals the lane reads no more: %v", err)
	}
	_, err := e.Inspect(t.Context(), []tidemark.TableID{{Schema: "s", Name: "seen"}, {Schema: "s", Name: "Secret"}})
	mustBe(t, err, tidemark.Forbidden, `inspect s."Secret": permission denied for table Secret`,
		`Run this as the owner: GRANT SELECT ON TABLE s."Secret" TO reader;`)
	mustBe(t, e.Begin(t.Context(), "r"), tidemark.Forbidden, "make marker table tidemark.copied: permission denied for database "+e.Config.Database,
		"Run this as the owner: GRANT CREATE ON DATABASE "+e.Config.Database+" TO reader;")
	w := tidemark.Write{Move: move(pgtest.Table(t, db, "s.seen")), Range: &tidemark.Range{}}
	_, err = e.Write(t.Context(), 0, w, rowBatches("1\n"))
	mustBe(t, err, tidemark.Forbidden, "write s.seen: permission denied for table seen", "Run this as the owner: GRANT INSERT ON TABLE s.seen TO reader;")
}

// rowBatches returns a take that returns text rows, one batch each.
func rowBatches(texts ...string) func() (*tidemark.Batch, error) {
	i := 0
	return func() (*tidemark.Batch, error) {
		if i == len(texts) {
			return nil, errors.New("taken after the last")
		}
		b := tidemark.NewBatch(nil, tidemark.CopyText)
		b.Data = append(b.Data, texts[i]...)
		b.Rows = strings.Count(texts[i], "\n")
		i++
		b.Last = i == len(texts)
		return b, nil
	}
}

// A range whose session is cut in the middle is not on the target at all, and the same lane can
// write it again.
func TestKilledInMidCopy(t *testing.T) {
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			db := testdb.Postgres(t, major).NewDatabase(t, "kill")
			testdb.Query(t, db, "CREATE TABLE t (id int PRIMARY KEY, v text)")
			e := open(t, db)
			if err := e.Begin(t.Context(), "run"); err != nil {
				t.Fatal(err)
			}
			w := tidemark.Write{Run: "run", Move: move(pgtest.Table(t, db, "t")), Range: &tidemark.Range{ID: 5}, Fresh: true}
			n := 0
			big := func() (*tidemark.Batch, error) {
				b := tidemark.NewBatch(w.Range, w.Format)
				for len(b.Data) < 1<<20 {
					n++
					b.Data = fmt.Appendf(b.Data, "%d\t%s\n", n, strings.Repeat("x", 100))
					b.Rows++
				}
				if n > 200_000 {
					testdb.Query(t, db, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", e.writers[0].Conn.PID()))
				}
				b.Last = n > 400_000
				return b, nil
			}
			_, err := e.Write(t.Context(), 0, w, big)
			if tidemark.KindOf(err) != tidemark.Transient {
				t.Errorf("%v: %v", tidemark.KindOf(err), err)
			}
			if got := testdb.Query(t, db, "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM tidemark.copied WHERE range > 0)"); got != "0\t0" {
				t.Errorf("left behind: %s", got)
			}
			out, err := e.Write(t.Context(), 0, w, rowBatches("1\ta\n2\tb\n", "3\t\\N\n"))
			if err != nil || out.Rows != 3 {
				t.Errorf("again: %+v, %v", out, err)
			}
			marks, err := e.Marks(t.Context(), "run")
			if err != nil || !slices.Equal(marks, []tidemark.Mark{{Range: 5, Rows: 3}}) {
				t.Errorf("marks %v, %v", marks, err)
			}
			// A range that is already there is not written twice.
			out, err = e.Write(t.Context(), 1, w, rowBatches("7\ta\n"))
			if err != nil || out.Rows != 3 {
				t.Errorf("the same range on another lane: %+v, %v", out, err)
			}
			if got := testdb.Query(t, db, "SELECT string_agg(id::text, ',' ORDER BY id) FROM t"); got != "1,2,3" {
				t.Errorf("rows %s", got)
			}
		})
	}
}

// take's error is returned unchanged, leaves nothing behind, and the lane continues.
func TestTakeFails(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "take")
	testdb.Query(t, db, "CREATE TABLE t (id int)")
	e := open(t, db)
	w := tidemark.Write{Move: move(pgtest.Table(t, db, "t")), Range: &tidemark.Range{}}
	mine := errors.New("mine")
	for _, batches := range [][]string{nil, {"1\n2\n"}} {
		give := rowBatches(append(batches, "3\n")...)
		i := 0
		_, err := e.Write(t.Context(), 0, w, func() (*tidemark.Batch, error) {
			if i++; i > len(batches) {
				return nil, mine
			}
			return give()
		})
		if err != mine {
			t.Errorf("got %v", err)
		}
	}
	if _, err := e.Write(t.Context(), 0, w, rowBatches("4\n")); err != nil {
		t.Error(err)
	}
	if got := testdb.Query(t, db, "SELECT string_agg(id::text, ',') FROM t"); got != "4" {
		t.Errorf("rows %s", got)
	}
}

// emit's error is returned unchanged, and the lane can read again afterwards.
func TestEmitFails(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "emit")
	testdb.Query(t, db, "CREATE TABLE t AS SELECT g AS id, repeat('x', 1000) AS v FROM generate_series(1, 20000) g")
	e := frozen(t, db, 1)
	m := move(pgtest.Table(t, db, "t"))
	mine := errors.New("mine")
	err := e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{}}, func(b *tidemark.Batch) error { b.Release(); return mine })
	if err != mine {
		t.Errorf("got %v", err)
	}
	if _, n := readAll(t, e, 0, m, &tidemark.Range{}, tidemark.CopyText); n != 20000 {
		t.Errorf("%d rows", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = e.Read(ctx, 0, tidemark.Read{Move: m, Range: &tidemark.Range{}}, func(b *tidemark.Batch) error { b.Release(); cancel(); return nil })
	if tidemark.KindOf(err) != tidemark.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
	if _, n := readAll(t, e, 0, m, &tidemark.Range{}, tidemark.CopyText); n != 20000 {
		t.Errorf("%d rows", n)
	}
}

func TestBadRowSaysWhere(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "bad")
	testdb.Query(t, db, "CREATE TABLE t (id int PRIMARY KEY, d date, v varchar(5))")
	e := open(t, db)
	w := tidemark.Write{Move: move(pgtest.Table(t, db, "t")), Range: &tidemark.Range{}}
	for _, tt := range []struct{ in, text, hint string }{
		{"1\t2020-01-01\ta\n2\t0000-00-00\tb\n", `write public.t: date/time field value out of range: "0000-00-00"`, `It is row 2 of the range, column d: "0000-00-00"; `},
		{"1\t\\N\ta\n1\t\\N\tb\n", `write public.t: duplicate key value violates unique constraint "t_pkey" (Key (id)=(1) already exists)`, "It is row 2 of the range; "},
		{"1\t\\N\tabcdef\n", "write public.t: value too long for type character varying(5)", `It is row 1 of the range, column v: "abcdef"; `},
		{"1\t\\N\ta\x00b\n", `write public.t: invalid byte sequence for encoding "UTF8": 0x00`, "It is row 1 of the range; "},
		{"1\t\\N\n", `write public.t: missing data for column "v"`, `It is row 1 of the range: "1	\N"; `},
	} {
		_, err := e.Write(t.Context(), 0, w, rowBatches(tt.in))
		mustBe(t, err, tidemark.BadRow, tt.text, tt.hint+"correct it at the source, or have bad rows rejected.")
	}
	if got := testdb.Query(t, db, "SELECT count(*) FROM t"); got != "0" {
		t.Errorf("%s rows", got)
	}
}

// TestSuperseded: a process that has lost its run to another one reports this, whatever happens.
func TestSuperseded(t *testing.T) {
	db := testdb.Postgres(t, 16).NewDatabase(t, "superseded")
	testdb.Query(t, db, "CREATE TABLE t (id int PRIMARY KEY)")
	first, second := open(t, db), open(t, db)
	for _, e := range []*Engine{first, second} {
		if err := e.Begin(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
	}
	write := func(e *Engine, id int, reject func([]byte, string) error, rows string) error {
		w := tidemark.Write{Run: "r", Move: move(pgtest.Table(t, db, "t")), Range: &tidemark.Range{ID: id}, Reject: reject}
		_, err := e.Write(t.Context(), 0, w, rowBatches(rows))
		return err
	}
	if err := write(second, 1, nil, "1\n2\n"); err != nil {
		t.Fatal(err)
	}
	set := func([]byte, string) error { return nil }
	superseded := func(err error) {
		t.Helper()
		mustBe(t, err, tidemark.Invalid, "write run r: another process has taken over this run", "End one of the two processes, then resume.")
	}
	superseded(write(first, 1, nil, "1\n2\n")) // the rows exist already
	superseded(write(first, 2, nil, "3\n"))
	superseded(write(first, 1, set, "1\n2\n"))
	if err := second.Forget(t.Context(), "r", nil); err != nil {
		t.Fatal(err)
	}
	superseded(write(first, 2, nil, "3\n"))
	if got := testdb.Query(t, db, "SELECT count(*) FROM t"); got != "2" {
		t.Errorf("%s rows", got)
	}
}

// Rejecting leaves out exactly the bad rows, in both formats; broken connections remain errors.
func TestRejectKeepsGoodRows(t *testing.T) {
	db := testdb.Postgres(t, 18).NewDatabase(t, "reject")
	testdb.Query(t, db, `CREATE TABLE src (id int, v text, c int); CREATE TABLE t (id int PRIMARY KEY, v varchar(40), c int CHECK (c <> 13));
		INSERT INTO src SELECT g, CASE WHEN g % 1111 = 0 THEN repeat('long', 20) ELSE 'v' || g END, CASE WHEN g % 5 = 0 AND g < 300 THEN 13 ELSE 1 END FROM generate_series(1, 30000) g;
		INSERT INTO src SELECT 77, 'twice', 1; INSERT INTO src SELECT 99999, repeat('y', 9000000), 1; INSERT INTO src VALUES (100000, 'end', 1)`)
	from := frozen(t, db, 1)
	m := move(pgtest.Table(t, db, "src"))
	m.To = pgtest.Table(t, db, "t")
	want := testdb.Query(t, db, "SELECT count(*) FROM src WHERE c <> 13 AND length(v) <= 40 AND v <> 'twice'")
	for _, f := range []tidemark.Format{tidemark.CopyText, tidemark.CopyBinary} {
		testdb.Query(t, db, "TRUNCATE t")
		e := open(t, db)
		if err := e.Begin(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		var bad [][]byte
		r := &tidemark.Range{ID: 1 + int(f)}
		w := tidemark.Write{Run: "r", Move: m, Range: r, Format: f, Reject: func(row []byte, reason string) error {
			if reason == "" {
				t.Error("no reason")
			}
			bad = append(bad, bytes.Clone(row))
			return nil
		}}
		out, err := pipe(t.Context(), from, e, 0, tidemark.Read{Move: m, Range: r, Format: f}, w)
		if err != nil {
			t.Fatalf("%v: %v (%s)", f, err, tidemark.HintOf(err))
		}
		got := testdb.Query(t, db, "SELECT count(*) FROM t")
		if got != want || fmt.Sprint(out.Rows) != want || int(out.Rejected) != len(bad) || int(out.Rows)+len(bad) != 30003 {
			t.Errorf("%v: %s rows, %+v, %d rejected, want %s rows", f, got, out, len(bad), want)
		}
		if rest := testdb.Query(t, db, "SELECT count(*) FROM (SELECT id, v, c FROM src WHERE c <> 13 AND length(v) <= 40 AND v <> 'twice' EXCEPT SELECT id, v, c FROM t) x"); rest != "0" {
			t.Errorf("%v: %s good rows are missing", f, rest)
		}
		if f == tidemark.CopyText && !slices.ContainsFunc(bad, func(row []byte) bool { return string(row) == "77\ttwice\t1" }) {
			t.Error("the double row was not rejected as it is")
		}
		if marks, err := e.Marks(t.Context(), "r"); err != nil || !slices.Contains(marks, tidemark.Mark{Range: r.ID, Rows: out.Rows}) {
			t.Errorf("marks %v, %v", marks, err)
		}
		// An error of Reject ends the range.
		testdb.Query(t, db, "TRUNCATE t; DELETE FROM tidemark.copied WHERE range > 0")
		mine := errors.New("mine")
		w.Reject = func([]byte, string) error { return mine }
		if _, err := pipe(t.Context(), from, e, 0, tidemark.Read{Move: m, Range: r, Format: f}, w); err != mine {
			t.Errorf("got %v", err)
		}
		if got := testdb.Query(t, db, "SELECT count(*) FROM t"); got != "0" {
			t.Errorf("%v: %s rows after giving up", f, got)
		}
		w.Reject = func([]byte, string) error { t.Error("a broken connection is no bad row"); return nil }
		n := 0
		_, err = e.Write(t.Context(), 0, w, func() (*tidemark.Batch, error) {
			if n++; n == 2 {
				testdb.Query(t, db, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", e.writers[0].Conn.PID()))
			}
			b := tidemark.NewBatch(r, f)
			b.Last = n == 3
			if f == tidemark.CopyText {
				b.Data, b.Rows = fmt.Appendf(b.Data, "%d\tx\t1\n", n), 1
			} else {
				b.Data, b.Rows = append(b.Data, "\x00\x03\x00\x00\x00\x04\x00\x00\x00"...), 1
				b.Data = append(append(b.Data, byte(n)), "\x00\x00\x00\x01x\x00\x00\x00\x04\x00\x00\x00\x01"...)
			}
			return b, nil
		})
		if tidemark.KindOf(err) != tidemark.Transient {
			t.Errorf("%v: %v: %v", f, tidemark.KindOf(err), err)
		}
	}
}

// A row of 100 MB is copied in pieces, in memory that does not grow with it.
func TestHugeRowInBoundedMemory(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	src, dst := srv.NewDatabase(t, "huge"), srv.NewDatabase(t, "huge")
	testdb.Query(t, src, "CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'small'); INSERT INTO t SELECT 2, repeat(E'0123456789abcdef', 100 << 16); INSERT INTO t VALUES (3, 'after')")
	testdb.Query(t, dst, "CREATE TABLE t (id int, v text)")
	from, into := frozen(t, src, 1), open(t, dst)
	m := move(pgtest.Table(t, src, "t"))
	var peak atomic.Uint64
	ctx, cancel := context.WithCancel(t.Context())
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		for ctx.Err() == nil {
			var ms runtime.MemStats
			runtime.ReadMemStats(&ms)
			peak.Store(max(peak.Load(), ms.HeapInuse))
			time.Sleep(5 * time.Millisecond)
		}
	}()
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // measures what is kept, not how late the collector is
	for _, f := range []tidemark.Format{tidemark.CopyText, tidemark.CopyBinary} {
		runtime.GC()
		peak.Store(0)
		out, err := pipe(ctx, from, into, 0, tidemark.Read{Move: m, Range: &tidemark.Range{}, Format: f}, tidemark.Write{Move: m, Range: &tidemark.Range{}, Format: f, Fresh: true})
		if err != nil || out.Rows != 3 || out.Method != "COPY FREEZE" {
			t.Errorf("%v: %+v, %v", f, out, err)
		}
		if p := peak.Load(); p > 96<<20 {
			t.Errorf("%v: %d MB of heap", f, p>>20)
		}
		const sum = "SELECT string_agg(id || md5(v), ',' ORDER BY id) FROM t"
		if a, b := testdb.Query(t, src, sum), testdb.Query(t, dst, sum); a != b {
			t.Errorf("%v: %s, want %s", f, b, a)
		}
	}
	cancel()
	<-sampled
}

// A cutter is a proxy in front of a server. It drops the connection once the client has sent a
// given text and the server has answered: the client never sees the answer.
type cutter struct {
	listener net.Listener
	armed    atomic.Bool
}

func newCutter(t *testing.T, server, trigger string) *cutter {
	t.Helper()
	c := &cutter{}
	c.listener = testdb.Accept(t, func(client net.Conn) { c.serve(client, server, trigger) })
	return c
}

func (c *cutter) serve(client net.Conn, server, trigger string) {
	defer client.Close()
	back, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer back.Close()
	var deaf atomic.Bool
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := back.Read(buf)
			if deaf.Load() && n > 0 {
				time.Sleep(100 * time.Millisecond) // by then the commit is done
				client.Close()
				return
			}
			if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
				client.Close()
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if c.armed.Load() && bytes.Contains(buf[:n], []byte(trigger)) {
			deaf.Store(true)
			c.armed.Store(false)
		}
		if _, werr := back.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// If the answer to the commit is lost, the marker shows that the range is there.
func TestCommitOutcomeFromMarker(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	db := srv.NewDatabase(t, "outcome")
	testdb.Query(t, db, "CREATE TABLE t (id int)")
	cut := newCutter(t, fmt.Sprintf("127.0.0.1:%d", srv.Port), "COMMIT")
	e := open(t, with(t, db, func(u *url.URL) { u.Host = cut.listener.Addr().String() }))
	if err := e.Begin(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	w := tidemark.Write{Run: "r", Move: move(pgtest.Table(t, db, "t")), Range: &tidemark.Range{ID: 3}}
	if _, err := e.Write(t.Context(), 0, w, rowBatches("1\n")); err != nil {
		t.Fatal(err)
	}
	w.Range = &tidemark.Range{ID: 4}
	cut.armed.Store(true)
	out, err := e.Write(t.Context(), 0, w, rowBatches("2\n3\n"))
	if err != nil || out.Rows != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	if cut.armed.Load() {
		t.Error("nothing was cut")
	}
	if got := testdb.Query(t, db, "SELECT string_agg(id::text, ',' ORDER BY id) FROM t"); got != "1,2,3" {
		t.Errorf("rows %s", got)
	}
	// Without a marker the outcome is unknown, and that is an error.
	w.Run = ""
	cut.armed.Store(true)
	_, err = e.Write(t.Context(), 0, w, rowBatches("9\n"))
	mustBe(t, err, tidemark.Transient, "write public.t: the server closed the connection", "")
}

// Markers that a crash of the server has lost end the run with Lost.
func TestLostCommitIsNoticed(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "lost")
	testdb.Query(t, db, "CREATE TABLE t (id int)")
	e := open(t, db)
	if err := e.Begin(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	w := tidemark.Write{Run: "r", Move: move(pgtest.Table(t, db, "t")), Range: &tidemark.Range{ID: 3}}
	for id := 1; id <= 2; id++ {
		w.Range = &tidemark.Range{ID: id}
		if _, err := e.Write(t.Context(), 0, w, rowBatches("1\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Exec(t.Context(), 0, []string{"SELECT 1"}); err != nil {
		t.Errorf("all is there, and yet %v", err)
	}
	testdb.Query(t, db, "DELETE FROM tidemark.copied WHERE range = 2") // as a crash would
	err := e.Exec(t.Context(), 1, []string{"SELECT 1"})
	mustBe(t, err, tidemark.Lost, "write "+e.Object+": the server has lost 1 ranges that it had committed: it crashed, or a standby took over",
		"Start again with --resume: what is missing is copied again.")
	if err := e.Forget(t.Context(), "r", []int{2}); err != nil {
		t.Error(err)
	}
	if err := e.Exec(t.Context(), 1, []string{"SELECT 1"}); err != nil {
		t.Errorf("after Forget: %v", err)
	}
}

// TestFence: a range of a process that has lost its run is not committed, and gets no marker.
func TestFence(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "fence")
	testdb.Query(t, db, "CREATE TABLE t (id int PRIMARY KEY)")
	first, second := open(t, db), open(t, db)
	for _, e := range []*Engine{first, second} {
		if err := e.Begin(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
	}
	w := tidemark.Write{Run: "r", Move: move(pgtest.Table(t, db, "t")), Range: &tidemark.Range{ID: 1}}
	_, err := first.Write(t.Context(), 0, w, rowBatches("1\n"))
	mustBe(t, err, tidemark.Invalid, "write run r: another process has taken over this run", "End one of the two processes, then resume.")
	if got := testdb.Query(t, db, "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM tidemark.copied WHERE range > 0)"); got != "0\t0" {
		t.Errorf("rows and markers: %s", got)
	}
	if _, err := second.Write(t.Context(), 0, w, rowBatches("1\n")); err != nil {
		t.Error(err)
	}
}
