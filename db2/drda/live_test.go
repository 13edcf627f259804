package drda

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// config returns how to log in at a server of a test.
func config(tb testing.TB, raw string) Config {
	tb.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	password, _ := u.User.Password()
	return Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", u.Host)
		},
		Database: strings.Trim(u.Path, "/"), User: u.User.Username(), Password: password, Accept: []Security{Plain}, Program: "tidemark",
	}
}

// open connects to a new database of a Derby server.
func open(t *testing.T, minor int) *Conn {
	t.Helper()
	c, err := Connect(t.Context(), config(t, testdb.Derby(t, minor).NewDatabase(t, "drda")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func run(t *testing.T, c *Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%.200s: %v", sql, err)
		}
	}
}

// text returns the rows of a query as COPY text.
func text(t *testing.T, c *Conn, sql string) string {
	t.Helper()
	out, _ := copied(t, c, sql, 1<<20)
	return out
}

// copied returns the rows of a query as COPY text, and how often it was handed on.
func copied(t *testing.T, c *Conn, sql string, limit int) (string, int) {
	t.Helper()
	r, err := c.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	rows, pieces := 0, 0
	rest, n, err := r.Copy(t.Context(), nil, limit, limit, func(data []byte, n int, more bool) ([]byte, error) {
		if more == strings.HasSuffix(string(data), "\n") && !more {
			t.Errorf("a row ends with %.20q", data)
		}
		out.Write(data)
		rows += n
		pieces++
		return data[:0], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(rest)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows += n; rows != strings.Count(out.String(), "\n") {
		t.Errorf("%d rows, but %d lines", rows, strings.Count(out.String(), "\n"))
	}
	return out.String(), pieces
}

func eachDerby(t *testing.T, f func(t *testing.T, minor int)) {
	for _, minor := range []int{8, 16} {
		t.Run(fmt.Sprintf("10.%d", minor), func(t *testing.T) { f(t, minor) })
	}
}

func TestValues(t *testing.T) {
	eachDerby(t, func(t *testing.T, minor int) {
		c := open(t, minor)
		t.Logf("%+v unicode %t", c.Server, c.unicode)
		if !c.Server.Derby() {
			t.Error("not recognised as Derby")
		}
		run(t, c, `create table v(id int not null primary key, si smallint, bi bigint, d decimal(10,2), d31 decimal(31,31), d5 decimal(5,0), r real, f double,
			ch char(5), vc varchar(40), lv long varchar, cb char(3) for bit data, vb varchar(9) for bit data, dt date, tm time, ts timestamp, cl clob, bl blob, nn clob not null)`)
		run(t, c, `insert into v values(1, -32768, -9223372036854775808, -12345678.90, -.0000000000000000000000000000001, 100, 1.5, -2.25e-7, 'ab', 'h\éllo€', 'long', X'00ff10', X'', '0001-01-01', '23:59:59',
			'2024-02-29 12:34:56.120', 'c', null, 'n')`)
		run(t, c, `insert into v values(2, 32767, 9223372036854775807, 0, 0, -1, 3.402e38, 1.79769e308, '', '', '', X'000000', X'c1', '9999-12-31', '00:00:00', '9999-12-31 23:59:59.999999', '', cast(X'0001' as blob), '')`)
		run(t, c, `insert into v(id, nn) values(3, 'x')`)
		want := `1	-32768	-9223372036854775808	-12345678.90	-0.0000000000000000000000000000001	100	1.5	-2.25e-07	ab   	h\\éllo€	long	\\x00ff10	\\x	0001-01-01	23:59:59	2024-02-29 12:34:56.12	c	\N	n
2	32767	9223372036854775807	0.00	0.0000000000000000000000000000000	-1	3.402e+38	1.79769e+308	     			\\x000000	\\xc1	9999-12-31	00:00:00	9999-12-31 23:59:59.999999		\\x0001	
3	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	x
`
		if got := text(t, c, "select * from v order by id"); got != want {
			t.Errorf("got\n%q\nwant\n%q", got, want)
		}
		if got := text(t, c, "select vc from v where id = 99"); got != "" {
			t.Errorf("rows of an empty result: %q", got)
		}
		if minor > 8 {
			if got := text(t, c, "select true, false, cast(null as boolean) from sysibm.sysdummy1"); got != "t\tf\t\\N\n" {
				t.Errorf("booleans: %q", got)
			}
		}
	})
}

// TestFloatsAsPostgres has PostgreSQL print the same numbers. Of large ones, the shortest decimal
// may lie halfway between two floats: strconv takes it, PostgreSQL does not.
func TestFloatsAsPostgres(t *testing.T) {
	c := open(t, 16)
	run(t, c, "create table floats(i int not null primary key, r real, f double)")
	var in []string
	for i, f := range []string{"0", "1e-4", "9e-5", "999999", "1e6", "999999999999999", "1e15", "2.44140625e-4", "-5.5405832e7", "4.2630168e7", "7.1052447196814656e16", "-7.010780719700799e18"} {
		in = append(in, fmt.Sprintf("(%d, %s, %s)", i, f, f))
	}
	run(t, c, "insert into floats values "+strings.Join(in, ", "))
	want := testdb.Query(t, testdb.Postgres(t, 15).URL("postgres"), "SELECT i, r::float4, f::float8 FROM (VALUES "+strings.Join(in, ", ")+") x(i, r, f) ORDER BY i")
	if got := text(t, c, "select * from floats order by i"); got != want+"\n" {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestErrorsOfStatements(t *testing.T) {
	eachDerby(t, func(t *testing.T, minor int) {
		c := open(t, minor)
		run(t, c, "create table e(a int not null primary key)")
		n, err := c.Exec(t.Context(), "insert into e values(1),(2)")
		if n != 2 || err != nil {
			t.Errorf("inserted %d, %v", n, err)
		}
		for sql, state := range map[string]string{"insert into e values(1)": "23505", "drop table nosuch": "42Y55", "nonsense": "42X01"} {
			if _, err := c.Exec(t.Context(), sql); StateOf(err) != state {
				t.Errorf("%s: %v", sql, err)
			}
		}
		for range maxSections + 1 { // errors leave nothing open
			_, err = c.Query(t.Context(), "select * from nosuch")
			if StateOf(err) != "42X05" {
				t.Fatal(err)
			}
		}
		_, err = c.Query(t.Context(), "select a/0 from e")
		if err == nil {
			r, err := c.Query(t.Context(), "select a/(a-1) from e")
			if err == nil {
				_, _, err = r.Copy(t.Context(), nil, 1000, 1000, nil)
				r.Close(t.Context())
			}
			if StateOf(err) != "22012" {
				t.Errorf("an error amid the rows: %v", err)
			}
		}
		if err := c.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
		run(t, c, "create table e(a int not null primary key)", "insert into e values(7)")
		if err := c.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		if err := c.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
		if got := text(t, c, "select a from e"); got != "7\n" {
			t.Errorf("after commit: %q", got)
		}
	})
}

// Many rows come in many blocks, of which rows cross the ends.
func TestBlocks(t *testing.T) {
	eachDerby(t, func(t *testing.T, minor int) {
		c := open(t, minor)
		run(t, c, "create table b(a int not null primary key, v varchar(3000))", "insert into b values(0, 'x')")
		for n := 1; n < 8192; n *= 2 {
			run(t, c, fmt.Sprintf("insert into b select a + %d, substr('%s', 1, mod(a, 500) + 1) from b", n, strings.Repeat("abcdefghij", 60)))
		}
		run(t, c, "update b set v = v || v || v || v || v where mod(a, 100) = 0")
		got, pieces := copied(t, c, "select a, v from b order by a", 100<<10)
		if pieces < 3 {
			t.Errorf("%d pieces", pieces)
		}
		sum := 0
		for i, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
			if !strings.HasPrefix(line, fmt.Sprintf("%d\t", i)) {
				t.Fatalf("line %d is %.100q", i, line)
			}
			sum += len(line) - strings.Index(line, "\t") - 1
		}
		if got := text(t, c, "select count(*), sum(length(v)) from b"); got != fmt.Sprintf("8192\t%d\n", sum) {
			t.Errorf("the server counts %q, we %d", got, sum)
		}
		// A query that is closed early leaves the session usable.
		r, err := c.Query(t.Context(), "select a, v from b order by a")
		if err != nil {
			t.Fatal(err)
		}
		stop := errors.New("enough")
		if _, _, err := r.Copy(t.Context(), nil, 1000, 1000, func([]byte, int, bool) ([]byte, error) { return nil, stop }); err != stop {
			t.Errorf("the caller's error came back as %v", err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := text(t, c, "select count(*) from b"); got != "8192\n" {
			t.Errorf("after a query that was closed: %q", got)
		}
	})
}

func TestLargeValues(t *testing.T) {
	eachDerby(t, func(t *testing.T, minor int) {
		c := open(t, minor)
		run(t, c, "create table l(a int not null primary key, c clob, v varchar(10), b blob, n clob not null)",
			"insert into l values(0, 'ä', 'v0', cast(X'00ff' as blob), 'n')", "insert into l values(1, '', 'v1', cast(X'' as blob), '')", "insert into l values(2, null, 'v2', null, 'm')", "insert into l values(5, '', 'v5', null, 'after an empty one'), (6, '', 'v6', cast(X'61' as blob), 'x')")
		big := "cast('" + strings.Repeat("ä\\", 10000) + "' as clob)"
		run(t, c, "insert into l values(3, "+big+"||"+big+"||"+big+"||"+big+", 'v3', null, 'last')",
			"insert into l select 4, c||c||c||c||c||c||c||c||c||c, 'v4', b, c from l where a = 3")
		part := strings.Repeat(`ä\\`, 40000)
		want := "0\tä\tv0\t\\\\x00ff\tn\n1\t\tv1\t\\\\x\t\n2\t\\N\tv2\t\\N\tm\n3\t" + part + "\tv3\t\\N\tlast\n4\t" + strings.Repeat(part, 10) + "\tv4\t\\N\t" + part + "\n5\t\tv5\t\\N\tafter an empty one\n6\t\tv6\t\\\\x61\tx\n"
		for _, limit := range []int{64 << 10, 8 << 20} {
			got, _ := copied(t, c, "select * from l order by a", limit)
			if got != want {
				i := 0
				for i < min(len(got), len(want)) && got[i] == want[i] {
					i++
				}
				t.Errorf("differs at %d of %d and %d: %.60q, want %.60q", i, len(got), len(want), got[i:], want[i:])
			}
		}
	})
}

func TestLogin(t *testing.T) {
	server := testdb.Derby(t, 16)
	cfg := config(t, server.NewDatabase(t, "login"))
	wrong := cfg
	wrong.Password = "wrong"
	if _, err := Connect(t.Context(), wrong); !errors.Is(err, ErrRefused) {
		t.Errorf("wrong password: %v", err)
	}
	wrong = cfg
	wrong.Database = "nosuch"
	if _, err := Connect(t.Context(), wrong); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("no such database: %v", err)
	}
	wrong = cfg
	wrong.Accept = []Security{15}
	if _, err := Connect(t.Context(), wrong); !errors.Is(err, ErrNoWay) {
		t.Errorf("no way to log in: %v", err)
	}
	wrong.Accept = []Security{Encrypted, Plain}
	c, err := Connect(t.Context(), wrong)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	// Silence, and something else than DRDA.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for i := 0; ; i++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if i == 0 {
				conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			}
			defer conn.Close()
		}
	}()
	other := cfg
	other.Dial = func(ctx context.Context) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }
	if _, err := Connect(t.Context(), other); err == nil || !strings.Contains(err.Error(), "not DRDA") {
		t.Errorf("HTTP: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, other); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silence: %v", err)
	}
}

func TestLoginByTLS(t *testing.T) {
	server := testdb.OwnDerby(t, 16, true)
	cfg := config(t, server.NewDatabase(t, "tls"))
	ca, err := os.ReadFile(filepath.Join(server.Dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		raw, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}), nil
	}
	c, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := text(t, c, "select 1 from sysibm.sysdummy1"); got != "1\n" {
		t.Errorf("got %q", got)
	}
}
