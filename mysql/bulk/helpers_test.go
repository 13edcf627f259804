package bulk

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// servers runs a test on both servers.
func servers(t *testing.T, test func(t *testing.T, srv *testdb.Server)) {
	t.Run("mariadb", func(t *testing.T) { test(t, testdb.MariaDB(t)) })
	t.Run("mysql", func(t *testing.T) { test(t, testdb.MySQL(t)) })
}

func open(t *testing.T, rawURL string, opt server.Options) *Engine {
	t.Helper()
	e, err := Open(t.Context(), rawURL, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func databaseOf(rawURL string) string {
	u, _ := url.Parse(rawURL)
	return strings.Trim(u.Path, "/")
}

// tableFrom reads as much of a table's shape as rows need, in its own way, so
// that these tests do not stand on Describe.
func tableFrom(t *testing.T, rawURL, name string) *tidemark.Table {
	t.Helper()
	db := databaseOf(rawURL)
	in := "TABLE_SCHEMA=" + server.Literal(db) + " AND TABLE_NAME=" + server.Literal(name)
	tab := &tidemark.Table{TableID: tidemark.TableID{Schema: db, Name: name}}
	rows := testdb.Query(t, rawURL, "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COALESCE(CHARACTER_SET_NAME,''), COALESCE(GENERATION_EXPRESSION,'') FROM information_schema.COLUMNS WHERE "+in+" ORDER BY ORDINAL_POSITION")
	for _, row := range strings.Split(rows, "\n") {
		f := strings.Split(row, "\t")
		c := tidemark.Column{Name: f[0], Type: mysqltype.Parse(f[1]), NotNull: f[2] == "NO"}
		c.Type.Charset, c.Generated = f[3], f[4]
		tab.Columns = append(tab.Columns, c)
	}
	var last *tidemark.Index
	all := map[string]*tidemark.Index{}
	keys := testdb.Query(t, rawURL, "SELECT INDEX_NAME, COLUMN_NAME, COALESCE(SUB_PART,0), NON_UNIQUE FROM information_schema.STATISTICS WHERE "+in+" ORDER BY INDEX_NAME, SEQ_IN_INDEX")
	for _, row := range strings.Split(keys, "\n") {
		f := strings.Split(row, "\t")
		if len(f) < 4 {
			continue
		}
		if last = all[f[0]]; last == nil {
			last = &tidemark.Index{Name: f[0], Unique: f[3] == "0"}
			all[f[0]] = last
		}
		p := tidemark.IndexPart{Column: f[1]}
		fmt.Sscan(f[2], &p.Prefix)
		last.Parts = append(last.Parts, p)
	}
	for name, x := range all {
		if name == "PRIMARY" {
			tab.Key = x
		} else {
			tab.Indexes = append(tab.Indexes, *x)
		}
	}
	size := strings.Split(testdb.Query(t, rawURL, "SELECT TABLE_ROWS, DATA_LENGTH, ENGINE FROM information_schema.TABLES WHERE "+in), "\t")
	fmt.Sscan(size[0], &tab.Rows)
	fmt.Sscan(size[1], &tab.Bytes)
	tab.Storage = size[2]
	return tab
}

// moveTo makes the Move of a whole table into another database.
func moveTo(from *tidemark.Table, db string) *tidemark.Move {
	to := *from
	to.Schema = db
	m := &tidemark.Move{From: from, To: &to, Direct: true}
	for _, c := range from.Stored() {
		m.Source = append(m.Source, c.Name)
	}
	return m
}

// readAll reads ranges on a lane and gives their rows as one string.
func readAll(t *testing.T, e *Engine, m *tidemark.Move, f tidemark.Format, ranges ...tidemark.Range) string {
	t.Helper()
	if len(ranges) == 0 {
		ranges = []tidemark.Range{{}}
	}
	var b strings.Builder
	for i := range ranges {
		rows, last := 0, false
		err := e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &ranges[i], Format: f}, func(batch *tidemark.Batch) error {
			if last {
				t.Error("a batch after the last")
			}
			b.Write(batch.Data)
			rows, last = rows+batch.Rows, batch.Last
			batch.Release()
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", m.From, err)
		}
		if !last {
			t.Errorf("%s: no last batch", m.From)
		}
	}
	return b.String()
}

// copyRange reads a range and writes it, as a copy does: one goroutine each.
func copyRange(ctx context.Context, src, dst *Engine, lane int, r tidemark.Read, w tidemark.Write) (tidemark.Written, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pipe := make(chan *tidemark.Batch, 4)
	failed := make(chan error, 1)
	go func() {
		failed <- src.Read(ctx, lane, r, func(b *tidemark.Batch) error {
			select {
			case pipe <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(pipe)
	}()
	var readErr error
	out, err := dst.Write(ctx, lane, w, func() (*tidemark.Batch, error) {
		b, ok := <-pipe
		if !ok {
			readErr = <-failed
			return nil, readErr
		}
		return b, nil
	})
	cancel()
	for b := range pipe {
		b.Release()
	}
	return out, err
}

func sameTables(t *testing.T, rawURL, a, b string) {
	t.Helper()
	names := baseTables(t, rawURL, a)
	sums := func(db string) []string { // one query for all: each is a process
		var of, count []string
		for _, name := range names {
			one := server.QuoteTable(tidemark.TableID{Schema: db, Name: name})
			of, count = append(of, one), append(count, "SELECT COUNT(*) FROM "+one)
		}
		out := strings.Split(testdb.Query(t, rawURL, "CHECKSUM TABLE "+strings.Join(of, ",")+"; "+strings.Join(count, " UNION ALL ")), "\n")
		for i := range names {
			out[i] = out[i][strings.IndexByte(out[i], '\t')+1:] + " of " + out[len(names)+i] + " rows"
		}
		return out[:len(names)]
	}
	from, to := sums(a), sums(b)
	for i, name := range names {
		if from[i] != to[i] {
			t.Errorf("table %s: %s at the source, %s at the target", name, from[i], to[i])
		}
	}
}

func baseTables(t *testing.T, rawURL, db string) []string {
	t.Helper()
	s := testdb.Query(t, rawURL, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE='BASE TABLE' AND TABLE_NAME NOT IN ('tidemark_copied','tidemark_applied') AND TABLE_SCHEMA="+server.Literal(db)+" ORDER BY 1")
	return strings.Split(s, "\n")
}

func loadZoo(t *testing.T, srv *testdb.Server, rawURL string) {
	t.Helper()
	if srv.Engine == "mysql" {
		testdb.Load(t, rawURL, testdb.SampleMySQL8(t, "types-zoo/mysql.sql"))
		return
	}
	testdb.Load(t, rawURL, testdb.Sample(t, "types-zoo/mysql.sql"))
}

// likeTables makes the same empty tables in another database.
func likeTables(t *testing.T, rawURL, from, to string) []string {
	t.Helper()
	names := baseTables(t, rawURL, from)
	for _, name := range names {
		a, b := tidemark.TableID{Schema: from, Name: name}, tidemark.TableID{Schema: to, Name: name}
		testdb.Query(t, rawURL, "SET sql_mode='ALLOW_INVALID_DATES'; CREATE TABLE "+server.QuoteTable(b)+" LIKE "+server.QuoteTable(a))
	}
	return names
}

// batches gives a take function over pieces of rows.
func batches(f tidemark.Format, r *tidemark.Range, data ...string) func() (*tidemark.Batch, error) {
	i := 0
	return func() (*tidemark.Batch, error) {
		b := tidemark.NewBatch(r, f)
		b.Data = append(b.Data, data[i]...)
		b.Rows = strings.Count(data[i], "\n")
		i++
		b.Last = i == len(data)
		return b, nil
	}
}

// targetTable makes a table and the Move that fills it from one like it.
func targetTable(t *testing.T, rawURL, name, columns string) *tidemark.Move {
	t.Helper()
	testdb.Query(t, rawURL, "CREATE TABLE "+name+" ("+columns+")")
	return moveTo(tableFrom(t, rawURL, name), databaseOf(rawURL))
}

func tableNamed(t *testing.T, db *tidemark.Database, name string) *tidemark.Table {
	t.Helper()
	for _, x := range db.Tables {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("no table %s", name)
	return nil
}

// await waits until a query says something.
func await(t *testing.T, url, sql, want string) {
	t.Helper()
	got := ""
	for begun := time.Now(); time.Since(begun) < 5*time.Minute; time.Sleep(20 * time.Millisecond) {
		if got, _ = testdb.TryQuery(url, sql); got == want {
			return
		}
	}
	t.Fatalf("%s: %q, want %q", sql, got, want)
}

// A proxy stands between a client and a server, and cuts the connection that says
// COMMIT: before the server hears it, or after.
type proxy struct {
	net.Listener
	server string
	before atomic.Bool
	armed  atomic.Bool
}

func newProxy(t *testing.T, srv *testdb.Server) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, server: fmt.Sprintf("127.0.0.1:%d", srv.Port)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	cut := make(chan struct{})
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil {
				client.Close()
				return
			}
			select {
			case <-cut:
				client.Close()
				return
			default:
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.HasSuffix(buf[:n], []byte("\x03COMMIT")) && p.armed.CompareAndSwap(true, false) {
			if p.before.Load() {
				return
			}
			close(cut)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// An Engine is as much of the engine as rows need.
type Engine struct {
	*server.Server
	*schema.Schema
	*Bulk
}

func Open(ctx context.Context, rawURL string, opt server.Options) (*Engine, error) {
	s, err := server.Open(ctx, rawURL, opt)
	if err != nil {
		return nil, err
	}
	e := &Engine{Server: s, Schema: &schema.Schema{Server: s}}
	e.Bulk = New(e.Schema)
	return e, nil
}

func (e *Engine) Close() error {
	e.Bulk.Close()
	return e.Server.Close()
}

func TestMain(m *testing.M) { testdb.Main(m) }
