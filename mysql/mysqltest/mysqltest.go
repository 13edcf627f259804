// Package mysqltest is shared by tests of the engine for MySQL and MariaDB: it describes tables
// without the engine, reads and copies rows, and has a proxy that cuts connections.
package mysqltest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// Servers runs a test on both servers.
func Servers(t *testing.T, test func(t *testing.T, srv *testdb.Server)) {
	t.Run("mariadb", func(t *testing.T) { test(t, testdb.MariaDB(t)) })
	t.Run("mysql", func(t *testing.T) { test(t, testdb.MySQL(t)) })
}

// DatabaseOf returns the database that a URL names.
func DatabaseOf(rawURL string) string {
	u, _ := url.Parse(rawURL)
	return strings.Trim(u.Path, "/")
}

// TableFrom reads the part of a table's shape that rows need, on its own, so that these tests do
// not depend on Describe.
func TableFrom(t *testing.T, rawURL, name string) *tidemark.Table {
	t.Helper()
	db := DatabaseOf(rawURL)
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

// MoveTo returns the Move of a whole table into another database.
func MoveTo(from *tidemark.Table, db string) *tidemark.Move {
	to := *from
	to.Schema = db
	m := &tidemark.Move{From: from, To: &to, Direct: true}
	for _, c := range from.Stored() {
		m.Source = append(m.Source, c.Name)
	}
	return m
}

// A Reader is a source of rows.
type Reader interface {
	Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error
}

// A Writer is a target of rows.
type Writer interface {
	Write(ctx context.Context, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error)
}

// ReadAll reads ranges on a lane and returns their rows as one string.
func ReadAll(t *testing.T, e Reader, m *tidemark.Move, f tidemark.Format, ranges ...tidemark.Range) string {
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

// CopyRange reads a range and writes it, in one goroutine each, as a copy does.
func CopyRange(ctx context.Context, src Reader, dst Writer, lane int, r tidemark.Read, w tidemark.Write) (tidemark.Written, error) {
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

// SameTables compares the tables of two databases of a server, by checksum and row count.
func SameTables(t *testing.T, rawURL, a, b string) {
	t.Helper()
	names := baseTables(t, rawURL, a)
	sums := func(db string) []string { // one query for all: each query starts a process
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

// LoadZoo loads the sample that has every type.
func LoadZoo(t *testing.T, srv *testdb.Server, rawURL string) {
	t.Helper()
	if srv.Engine == "mysql" {
		testdb.Load(t, rawURL, testdb.SampleMySQL8(t, "types-zoo/mysql.sql"))
		return
	}
	testdb.Load(t, rawURL, testdb.Sample(t, "types-zoo/mysql.sql"))
}

// LikeTables creates the same tables, empty, in another database.
func LikeTables(t *testing.T, rawURL, from, to string) []string {
	t.Helper()
	names := baseTables(t, rawURL, from)
	for _, name := range names {
		a, b := tidemark.TableID{Schema: from, Name: name}, tidemark.TableID{Schema: to, Name: name}
		testdb.Query(t, rawURL, "SET sql_mode='ALLOW_INVALID_DATES'; CREATE TABLE "+server.QuoteTable(b)+" LIKE "+server.QuoteTable(a))
	}
	return names
}

// Batches returns a Take function that returns these pieces of rows as batches.
func Batches(f tidemark.Format, r *tidemark.Range, data ...string) func() (*tidemark.Batch, error) {
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

// TableNamed finds a table of a described database.
func TableNamed(t *testing.T, db *tidemark.Database, name string) *tidemark.Table {
	t.Helper()
	for _, x := range db.Tables {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("no table %s", name)
	return nil
}

// Await waits until a query returns want.
func Await(t *testing.T, url, sql, want string) {
	t.Helper()
	got := ""
	for begun := time.Now(); time.Since(begun) < 5*time.Minute; time.Sleep(20 * time.Millisecond) {
		if got, _ = testdb.TryQuery(url, sql); got == want {
			return
		}
	}
	testdb.OnClock(t)
	t.Fatalf("%s: %q, want %q", sql, got, want)
}

// A Proxy forwards between a client and a server, and cuts the connection that sends COMMIT: before
// the server receives it, or after.
type Proxy struct {
	net.Listener
	server string
	Before atomic.Bool // cut before the server receives COMMIT
	Armed  atomic.Bool // cut once
}

// NewProxy runs a proxy in front of a server until the test ends.
func NewProxy(t *testing.T, srv *testdb.Server) *Proxy {
	t.Helper()
	p := &Proxy{server: fmt.Sprintf("127.0.0.1:%d", srv.Port)}
	p.Listener = testdb.Accept(t, p.serve)
	return p
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	var cut atomic.Bool
	answered := make(chan struct{}) // closed when the server has answered everything and hung up
	go func() {
		defer close(answered)
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if cut.Load() {
				continue
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
		if commits := bytes.HasSuffix(buf[:n], []byte("\x03COMMIT")) || bytes.Contains(buf[:n], []byte("'COMMIT'")); commits && p.Armed.CompareAndSwap(true, false) {
			if p.Before.Load() {
				return
			}
			cut.Store(true)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if cut.Load() {
			_ = server.(*net.TCPConn).CloseWrite()
			<-answered
			return
		}
	}
}

// A Forger forwards to a server, and replaces text in what it receives. It can so make a statement
// fail.
type Forger struct {
	net.Listener
	Forge atomic.Pointer[[2]string] // a text, and another of the same length
}

// NewForger runs one in front of a server until the test ends.
func NewForger(t *testing.T, srv *testdb.Server) *Forger {
	t.Helper()
	f := &Forger{}
	f.Listener = testdb.Between(t, fmt.Sprint("127.0.0.1:", srv.Port), func(client, to net.Conn) {
		go f.forward(to, client)
		defer client.Close()
		io.Copy(client, to)
	})
	return f
}

func (f *Forger) forward(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		b := buf[:n]
		if s := f.Forge.Load(); s != nil && s[0] != "" {
			b = bytes.ReplaceAll(b, []byte(s[0]), []byte(s[1]))
		}
		if _, err := to.Write(b); err != nil {
			return
		}
	}
}
