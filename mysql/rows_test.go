package mysql

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// servers runs a test on both servers.
func servers(t *testing.T, test func(t *testing.T, srv *testdb.Server)) {
	t.Run("mariadb", func(t *testing.T) { test(t, testdb.MariaDB(t)) })
	t.Run("mysql", func(t *testing.T) { test(t, testdb.MySQL(t)) })
}

func open(t *testing.T, rawURL string, opt Options) *Engine {
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
	in := "TABLE_SCHEMA=" + literal(db) + " AND TABLE_NAME=" + literal(name)
	tab := &tidemark.Table{TableID: tidemark.TableID{Schema: db, Name: name}}
	rows := testdb.Query(t, rawURL, "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COALESCE(CHARACTER_SET_NAME,''), COALESCE(GENERATION_EXPRESSION,'') FROM information_schema.COLUMNS WHERE "+in+" ORDER BY ORDINAL_POSITION")
	for _, row := range strings.Split(rows, "\n") {
		f := strings.Split(row, "\t")
		c := tidemark.Column{Name: f[0], Type: tidemark.MySQLType(f[1]), NotNull: f[2] == "NO"}
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
			one := table(tidemark.TableID{Schema: db, Name: name})
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
	s := testdb.Query(t, rawURL, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE='BASE TABLE' AND TABLE_NAME NOT IN ('tidemark_copied','tidemark_applied') AND TABLE_SCHEMA="+literal(db)+" ORDER BY 1")
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
		testdb.Query(t, rawURL, "SET sql_mode='ALLOW_INVALID_DATES'; CREATE TABLE "+table(b)+" LIKE "+table(a))
	}
	return names
}

// TestZooRoundTrip copies every table of the types zoo between two databases of
// a server and compares them by the server's own checksums.
func TestZooRoundTrip(t *testing.T) {
	servers(t, func(t *testing.T, srv *testdb.Server) {
		from, to := srv.NewDatabase(t, "zoo"), srv.NewDatabase(t, "zoocopy")
		loadZoo(t, srv, from)
		names := likeTables(t, from, databaseOf(from), databaseOf(to))
		if len(names) < 23 {
			t.Fatalf("the zoo has only the tables %q", names)
		}
		src, dst := open(t, from, Options{}), open(t, to, Options{})
		if _, err := src.Freeze(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if err := dst.Begin(t.Context(), "run1"); err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			m := moveTo(tableFrom(t, from, name), databaseOf(to))
			r := &tidemark.Range{ID: i + 1}
			out, err := copyRange(t.Context(), src, dst, i%2, tidemark.Read{Move: m, Range: r, Format: tidemark.LoadData},
				tidemark.Write{Run: "run1", Move: m, Range: r, Format: tidemark.LoadData})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil && out.Rows > 0 && out.Method != "LOAD DATA" {
				t.Errorf("%s: written by %s", name, out.Method)
			}
		}
		sameTables(t, from, databaseOf(from), databaseOf(to))
		marks, err := dst.Marks(t.Context(), "run1")
		if err != nil || len(marks) != len(names) {
			t.Errorf("%d marks for %d tables: %v", len(marks), len(names), err)
		}
	})
}

// TestZooAsCopyText copies the zoo through COPY text, which all engines share.
// What that form cannot say is left out by the zero date policy.
func TestZooAsCopyText(t *testing.T) {
	servers(t, func(t *testing.T, srv *testdb.Server) {
		from, to := srv.NewDatabase(t, "zoo"), srv.NewDatabase(t, "zoocopy")
		loadZoo(t, srv, from)
		// What has no canonical text: dates that are none, and an ENUM without a member.
		testdb.Query(t, from, "SET sql_mode=''; DELETE FROM t_time WHERE id IN (1,2,5); DELETE FROM t_enum WHERE id=7")
		names := likeTables(t, from, databaseOf(from), databaseOf(to))
		src, dst := open(t, from, Options{}), open(t, to, Options{})
		for _, name := range names {
			m := moveTo(tableFrom(t, from, name), databaseOf(to))
			r := &tidemark.Range{}
			if _, err := copyRange(t.Context(), src, dst, 0, tidemark.Read{Move: m, Range: r, Format: tidemark.CopyText},
				tidemark.Write{Move: m, Range: r, Format: tidemark.CopyText}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		sameTables(t, from, databaseOf(from), databaseOf(to))
	})
}

// TestZooByInsert copies the zoo into a server that refuses LOCAL.
func TestZooByInsert(t *testing.T) {
	servers(t, func(t *testing.T, srv *testdb.Server) {
		from, to := srv.NewDatabase(t, "zoo"), srv.NewDatabase(t, "zoocopy")
		loadZoo(t, srv, from)
		// An ENUM without a member cannot be said by INSERT in strict mode.
		testdb.Query(t, from, "DELETE FROM t_enum WHERE id=7")
		names := likeTables(t, from, databaseOf(from), databaseOf(to))
		testdb.Query(t, from, "SET GLOBAL local_infile=0")
		t.Cleanup(func() { testdb.Query(t, srv.URL(""), "SET GLOBAL local_infile=1") })
		src, dst := open(t, from, Options{}), open(t, to, Options{})
		for _, name := range names {
			m := moveTo(tableFrom(t, from, name), databaseOf(to))
			r := &tidemark.Range{}
			out, err := copyRange(t.Context(), src, dst, 0, tidemark.Read{Move: m, Range: r, Format: tidemark.LoadData},
				tidemark.Write{Move: m, Range: r, Format: tidemark.LoadData})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil && out.Rows > 0 && out.Method != "INSERT" {
				t.Errorf("%s: written by %s", name, out.Method)
			}
		}
		sameTables(t, from, databaseOf(from), databaseOf(to))
	})
}

// TestDoublesAreExact copies numbers of all sizes: each comes as the same bits. And the session
// that reads has been told to send much at once.
func TestDoublesAreExact(t *testing.T) {
	servers(t, func(t *testing.T, srv *testdb.Server) {
		from, to := srv.NewDatabase(t, "doubles"), srv.NewDatabase(t, "doublescopy")
		testdb.Query(t, from, `CREATE TABLE d (id int PRIMARY KEY, x double, y float, z double(12,3) unsigned zerofill);
INSERT INTO d VALUES (1,0,0,0), (2,-0e0,-0e0,NULL), (3,1/3e0,1/3e0,1/3), (4,1.7976931348623157e308,3.4028234e38,1), (5,-5e-324,1.4e-45,2), (6,2.2250738585072014e-308,1.17549435e-38,3),
  (7,9007199254740993,16777217,999999999), (8,123456789012345680,1e15,0.001), (9,NULL,NULL,0.5), (10,1e-5,1e-5,0.0001), (11,-999999999999999.9,0.1,12.5), (12,1e21,1e-6,100)`)
		var random strings.Builder
		for i := range 500 {
			if i > 0 {
				random.WriteByte(',')
			}
			fmt.Fprintf(&random, "(%d,(RAND()-0.5)*POW(10,RAND()*600-300),(RAND()-0.5)*POW(10,RAND()*70-35),RAND()*1e8)", 100+i)
		}
		testdb.Query(t, from, "INSERT INTO d VALUES "+random.String())
		likeTables(t, from, databaseOf(from), databaseOf(to))
		src, dst := open(t, from, Options{}), open(t, to, Options{})
		m, r := moveTo(tableFrom(t, from, "d"), databaseOf(to)), &tidemark.Range{}
		if _, err := copyRange(t.Context(), src, dst, 0, tidemark.Read{Move: m, Range: r, Format: tidemark.LoadData}, tidemark.Write{Move: m, Range: r, Format: tidemark.LoadData}); err != nil {
			t.Fatal(err)
		}
		same := testdb.Query(t, from, "SELECT COUNT(*), SUM(a.x <=> b.x AND a.y <=> b.y AND a.z <=> b.z AND IFNULL(CONCAT(a.x+0), '') = IFNULL(CONCAT(b.x+0), '')) FROM d a JOIN "+databaseOf(to)+".d b USING (id)")
		if same != "512\t512" {
			t.Errorf("of the rows are the same: %s", same)
		}
		got, err := src.reads[0].query(t.Context(), "SHOW SESSION STATUS LIKE 'Bytes_received'")
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := got.GetInt(0, 1); n < sendAtOnce {
			t.Errorf("the server has received %d bytes, so its buffer is smaller than %d", n, sendAtOnce)
		}
	})
}
