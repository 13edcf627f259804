package bulk

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// TestBadRowsAreErrors: what LOAD DATA LOCAL would make a warning is an error, and no row is kept.
func TestBadRowsAreErrors(t *testing.T) {
	cases := []struct{ name, columns, rows, want string }{
		{"dup", "id int PRIMARY KEY", "1\n2\n1\n", "Duplicate entry '1' for key"},
		{"dup_unique", "id int PRIMARY KEY, u varchar(9) UNIQUE", "1\tx\n2\tX\n", "Duplicate entry 'X' for key"},
		{"long_text", "v varchar(3)", "abc\nabcd\n", "Data truncated for column 'v' at row 2"},
		{"long_spaces", "v varchar(3)", "abc \n", "Data truncated for column 'v' at row 1"},
		{"no_number", "n int", "x\n", "ncorrect integer value: 'x' for column"},
		{"half_number", "n int", "12x\n", "Data truncated for column 'n' at row 1"},
		{"range_", "n tinyint", "128\n", "Out of range value for column 'n' at row 1"},
		{"negative", "n int unsigned", "-1\n", "Out of range value for column 'n' at row 1"},
		{"decimal_", "n decimal(5,2)", "1.234\n", "Data truncated for column 'n' at row 1"},
		{"null_", "n int NOT NULL", "\\N\n", "ULL"},
		{"enum_", "e enum('a','b')", "c\n", "Data truncated for column 'e' at row 1"},
		{"bytes_", "v varchar(9) CHARACTER SET utf8mb4", "\xff\xfe\n", "Incorrect string value"},
		{"moment", "d datetime", "2024-13-01 00:00:00\n", "for column 'd' at row 1"},
		{"few", "a int, b int", "1\n", "doesn't contain data for all columns"},
		{"many", "a int", "1\t2\n", "was truncated; it contained more data"},
		{"check_", "a int CHECK (a > 0)", "1\n0\n", "check_"},
		{"part_", "a int) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (10)", "1\n11\n", "Table has no partition for value"},
		{"json_", "j json", "1\nx\n", "json_"}, // an error of LOAD DATA itself, as of a trigger's
		{"child_", "a int, v int GENERATED ALWAYS AS (10 DIV a) STORED CHECK (v < 5)", "1\n", "child_"},
	}
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "bad")
		e := open(t, to, server.Options{})
		if err := e.Begin(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			m := targetTable(t, to, c.name, c.columns)
			r := &tidemark.Range{ID: 1}
			_, err := e.Write(t.Context(), 0, tidemark.Write{Run: "r", Move: m, Range: r, Format: tidemark.LoadData}, mysqltest.Batches(tidemark.LoadData, r, c.rows))
			if tidemark.KindOf(err) != tidemark.BadRow || !strings.Contains(fmt.Sprint(err), c.want) || tidemark.HintOf(err) == "" {
				t.Errorf("%s: %v (%v; %s)", c.name, err, tidemark.KindOf(err), tidemark.HintOf(err))
			}
			if n := testdb.Query(t, to, "SELECT COUNT(*) FROM "+c.name); n != "0" {
				t.Errorf("%s: %s rows stayed", c.name, n)
			}
		}
		if marks, err := e.Marks(t.Context(), "r"); len(marks) != 0 || err != nil {
			t.Errorf("marks %v, %v", marks, err)
		}
	})
}

// TestSuperseded: a process that has lost its run to another one reports that, whatever happens,
// and removes none of the other's rows, not even from a table that cannot roll back.
func TestSuperseded(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "superseded")
		testdb.Query(t, to, "CREATE TABLE safe (id int PRIMARY KEY); CREATE TABLE isam (id int PRIMARY KEY) ENGINE=MyISAM; CREATE TABLE late (id int PRIMARY KEY) ENGINE=MyISAM")
		first, second := open(t, to, server.Options{}), open(t, to, server.Options{})
		begin := func(e *Engine) {
			t.Helper()
			if err := e.Begin(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
		}
		write := func(e *Engine, id int, table string, before func()) error {
			r := &tidemark.Range{ID: id}
			take := mysqltest.Batches(tidemark.LoadData, r, "1\n", "2\n")
			w := tidemark.Write{Run: "r", Move: mysqltest.MoveTo(mysqltest.TableFrom(t, to, table), mysqltest.DatabaseOf(to)), Range: r, Format: tidemark.LoadData, Fresh: table != "safe"}
			_, err := e.Write(t.Context(), 0, w, func() (*tidemark.Batch, error) { before(); return take() })
			return err
		}
		superseded := func(what string, err error) {
			t.Helper()
			if tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "write run r: another process has taken over this run") {
				t.Errorf("%s: %v: %v", what, tidemark.KindOf(err), err)
			}
		}
		nothing := func() {}
		begin(first)
		n := 0
		superseded("after the first rows", write(first, 3, "late", func() {
			if n++; n == 2 {
				begin(second)
			}
		}))
		for i, table := range []string{"safe", "isam", "late"} {
			if err := write(second, i+1, table, nothing); err != nil {
				t.Fatal(err)
			}
			superseded(table, write(first, i+1, table, nothing))
			if got := testdb.Query(t, to, "SELECT COUNT(*) FROM "+table); got != "2" {
				t.Errorf("%s has %s rows", table, got)
			}
		}
		if err := second.Forget(t.Context(), "r", nil); err != nil {
			t.Fatal(err)
		}
		superseded("a run that has ended", write(first, 2, "isam", nothing))
		if got := testdb.Query(t, to, "SELECT COUNT(*) FROM isam"); got != "2" {
			t.Errorf("isam has %s rows after the run", got)
		}
	})
}

// TestReject: the bad rows are rejected, each with its reason, and the others are written.
func TestReject(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		for _, try := range []struct {
			infile string
			whole  bool // in one batch
		}{{"1", false}, {"0", false}, {"1", true}, {"0", true}} {
			infile := try.infile
			to := srv.NewDatabase(t, "reject")
			testdb.Query(t, to, "SET GLOBAL local_infile="+infile)
			e := open(t, to, server.Options{})
			if err := e.Begin(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
			m := targetTable(t, to, "x", "id int PRIMARY KEY, v varchar(5), at datetime")
			m.From.Columns[2].Type.Kind = tidemark.Timestamp // as from another engine
			var rows [2]strings.Builder
			for i := range 1000 {
				v, at := fmt.Sprintf("v%d", i), "2024-01-01 00:00:00+00"
				switch i {
				case 3, 999:
					v = "too long"
				case 500:
					at = "infinity"
				}
				fmt.Fprintf(&rows[i/600], "%d\t%s\t%s\n", i, v, at)
			}
			rows[1].WriteString("7\tdup\t2024-01-01 00:00:00+00\n")
			batches := []string{rows[0].String(), rows[1].String()}
			if try.whole {
				batches = []string{batches[0] + batches[1]}
			}
			var rejected []string
			r := &tidemark.Range{ID: 5}
			out, err := e.Write(t.Context(), 0, tidemark.Write{Run: "r", Move: m, Range: r, Reject: func(row []byte, reason string) error {
				rejected = append(rejected, strings.SplitN(string(row), "\t", 2)[0]+": "+reason)
				return nil
			}}, mysqltest.Batches(tidemark.CopyText, r, batches...))
			testdb.Query(t, to, "SET GLOBAL local_infile=1")
			if err != nil || out.Rows != 997 || out.Rejected != 4 {
				t.Fatalf("local_infile=%s: %+v %v", infile, out, err)
			}
			for i, want := range []string{"3: Data t", `500: column at holds "infinity", which is outside`, "999: Data t", "7: Duplicate entry '7' for key"} {
				if !strings.HasPrefix(rejected[i], want) {
					t.Errorf("rejected %q, want %q", rejected[i], want)
				}
			}
			if n := testdb.Query(t, to, "SELECT COUNT(*), SUM(id) FROM x"); n != fmt.Sprintf("997\t%d", 999*1000/2-3-999-500) {
				t.Errorf("the table has %s", n)
			}
			marks, err := e.Marks(t.Context(), "r")
			if err != nil || len(marks) != 1 || marks[0] != (tidemark.Mark{Range: 5, Rows: 997}) {
				t.Errorf("marks %v %v", marks, err)
			}
			_, err = e.Write(t.Context(), 0, tidemark.Write{Run: "r", Move: m, Range: &tidemark.Range{ID: 6}}, mysqltest.Batches(tidemark.CopyText, r, "2000\tok\t\\N\n2001\tno\tinfinity\n2002\tok\t\\N\n"))
			if err == nil || !strings.Contains(err.Error(), `x: row id="2001": column at holds "infinity", which is outside`) {
				t.Errorf("a refused value: %v", err)
			}
			stop := errors.New("too many")
			_, err = e.Write(t.Context(), 0, tidemark.Write{Run: "r", Move: m, Range: &tidemark.Range{ID: 6}, Reject: func([]byte, string) error { return stop }},
				mysqltest.Batches(tidemark.CopyText, r, "2000\tok\t\\N\n1\tdup\t\\N\n"))
			if err != stop || testdb.Query(t, to, "SELECT COUNT(*) FROM x") != "997" {
				t.Errorf("reject's error came back as %v", err)
			}
		}
	})
}

// TestWriteStops: take's error and a cancelled context leave nothing behind, and the lane is usable
// afterwards.
func TestWriteStops(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "stops")
		e := open(t, to, server.Options{})
		m := targetTable(t, to, "x", "id int PRIMARY KEY")
		r := &tidemark.Range{}
		enough := errors.New("enough")
		first := mysqltest.Batches(tidemark.LoadData, r, "1\n", "2\n")
		n := 0
		_, err := e.Write(t.Context(), 0, tidemark.Write{Move: m, Range: r, Format: tidemark.LoadData}, func() (*tidemark.Batch, error) {
			if n++; n > 1 {
				return nil, enough
			}
			return first()
		})
		if err != enough {
			t.Errorf("take's error came back as %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, n = mysqltest.Batches(tidemark.LoadData, r, "1\n", "2\n"), 0
		_, err = e.Write(ctx, 0, tidemark.Write{Move: m, Range: r, Format: tidemark.LoadData}, func() (*tidemark.Batch, error) {
			if n++; n > 1 {
				cancel()
				time.Sleep(20 * time.Millisecond)
			}
			return first()
		})
		if tidemark.KindOf(err) != tidemark.Cancelled {
			t.Errorf("cancelled: %v (%v)", err, tidemark.KindOf(err))
		}
		if n := testdb.Query(t, to, "SELECT COUNT(*) FROM x"); n != "0" {
			t.Errorf("%s rows stayed", n)
		}
		out, err := e.Write(t.Context(), 0, tidemark.Write{Move: m, Range: r, Format: tidemark.LoadData}, mysqltest.Batches(tidemark.LoadData, r, "1\n2\n"))
		if err != nil || out.Rows != 2 {
			t.Errorf("%+v %v", out, err)
		}
	})
}

// TestKilledInLoad: one connection is killed in the middle of a load, another before COMMIT, and
// the lane reconnects.
func TestKilledInLoad(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "killed")
		e := open(t, to, server.Options{})
		if err := e.Begin(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		m := targetTable(t, to, "x", "id int PRIMARY KEY, v varchar(2000)")
		for _, at := range []int{2, 5} {
			r := &tidemark.Range{ID: at}
			var rows []string
			for i := range 5 {
				var b strings.Builder
				for j := range 500 {
					fmt.Fprintf(&b, "%d\t%s\n", i*500+j, strings.Repeat("v", 1900))
				}
				rows = append(rows, b.String())
			}
			next, n := mysqltest.Batches(tidemark.LoadData, r, rows...), 0
			_, err := e.Write(t.Context(), 0, tidemark.Write{Run: "r", Move: m, Range: r, Format: tidemark.LoadData}, func() (*tidemark.Batch, error) {
				if n++; n == at {
					testdb.Query(t, srv.URL(""), fmt.Sprintf("KILL %d", e.writes[0].ID))
					time.Sleep(100 * time.Millisecond)
				}
				return next()
			})
			if tidemark.KindOf(err) != tidemark.Transient {
				t.Errorf("killed at batch %d: %v (%v)", at, err, tidemark.KindOf(err))
			}
			if n := testdb.Query(t, to, "SELECT COUNT(*) FROM x"); n != "0" {
				t.Errorf("%s rows stayed", n)
			}
			out, err := e.Write(t.Context(), 0, tidemark.Write{Run: "r", Move: m, Range: r, Format: tidemark.LoadData}, mysqltest.Batches(tidemark.LoadData, r, rows...))
			if err != nil || out.Rows != 2500 {
				t.Errorf("again: %+v %v", out, err)
			}
			testdb.Query(t, to, "TRUNCATE x")
		}
		marks, err := e.Marks(t.Context(), "r")
		if err != nil || len(marks) != 2 {
			t.Errorf("marks %v %v", marks, err)
		}
		if err := e.Forget(t.Context(), "r", []int{2}); err != nil {
			t.Error(err)
		}
		if marks, _ = e.Marks(t.Context(), "r"); len(marks) != 1 || marks[0].Range != 5 {
			t.Errorf("marks %v", marks)
		}
		if err := e.Forget(t.Context(), "r", nil); err != nil {
			t.Error(err)
		}
		if n := testdb.Query(t, to, "SHOW TABLES LIKE 'tidemark_copied'"); n != "" {
			t.Error("the marker table is still there")
		}
		if marks, err = e.Marks(t.Context(), "r"); len(marks) != 0 || err != nil {
			t.Errorf("marks without a table: %v %v", marks, err)
		}
	})
}

// TestGiantRows copies rows of 100 MB, text and bytes, in both formats, in the memory of a few
// pieces.
func TestGiantRows(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		testdb.Query(t, srv.URL(""), "SET GLOBAL max_allowed_packet=1073741824")
		t.Cleanup(func() { testdb.Query(t, srv.URL(""), "SET GLOBAL max_allowed_packet=67108864") })
		from, to := srv.NewDatabase(t, "giant"), srv.NewDatabase(t, "giantcopy")
		testdb.Query(t, from, "CREATE TABLE g (id int PRIMARY KEY, b longblob, t longtext, z int) CHARACTER SET utf8mb4")
		testdb.Query(t, from, `INSERT INTO g VALUES (1, REPEAT(x'00ff5c0a27', 10000000), REPEAT('é\\\n', 13000000), 7), (2, 'small', 'small', 8), (3, REPEAT('x', 16777215 - 13), NULL, 9), (4, REPEAT('y', 33554430 - 12), NULL, NULL)`)
		mysqltest.LikeTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
		src, dst := open(t, from, server.Options{}), open(t, to, server.Options{})
		m := mysqltest.MoveTo(mysqltest.TableFrom(t, from, "g"), mysqltest.DatabaseOf(to))
		for _, f := range []tidemark.Format{tidemark.LoadData, tidemark.CopyText} {
			testdb.Query(t, to, "TRUNCATE g")
			peak := watchHeap()
			r := &tidemark.Range{}
			out, err := mysqltest.CopyRange(t.Context(), src, dst, 0, tidemark.Read{Move: m, Range: r, Format: f}, tidemark.Write{Move: m, Range: r, Format: f})
			if mb := peak() >> 20; mb > 100 {
				t.Errorf("%v: %d MB of heap", f, mb)
			}
			if err != nil || out.Rows != 4 {
				t.Fatalf("%v: %+v %v", f, out, err)
			}
			sum := "SELECT id, LENGTH(b), MD5(b), LENGTH(t), MD5(t), z FROM g ORDER BY id"
			if a, b := testdb.Query(t, from, sum), testdb.Query(t, to, sum); a != b {
				t.Errorf("%v:\n%s\n%s", f, a, b)
			}
		}
	})
}

// watchHeap measures the largest heap until the function is called.
func watchHeap() func() uint64 {
	percent := debug.SetGCPercent(50) // so that it measures what is retained, and not how late the collector is
	runtime.GC()
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var peak uint64
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
			select {
			case <-stop:
				done <- peak
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() uint64 { close(stop); debug.SetGCPercent(percent); return <-done }
}

// TestLimitedLobs: values are cut to the limit in bytes, between characters, and each is reported.
func TestLimitedLobs(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "lobs")
		testdb.Query(t, from, "CREATE TABLE l (a int, b varchar(5), t text, x longblob, c longtext CHARACTER SET latin1, PRIMARY KEY (a,b))")
		testdb.Query(t, from, "SET NAMES utf8mb4; INSERT INTO l VALUES (1,'k','short','short','short'),(2,'k,2',REPEAT('é',10),REPEAT(x'00',2000),REPEAT('é',20)),(3,'k',NULL,REPEAT('y',700000),NULL)")
		e := open(t, from, server.Options{})
		m := mysqltest.MoveTo(mysqltest.TableFrom(t, from, "l"), "x")
		m.Lob = tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: 7}
		var cuts []string
		var data string
		err := e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{}, Cut: func(key, column string, n int64) {
			cuts = append(cuts, fmt.Sprintf("%s %s %d", key, column, n))
		}}, func(b *tidemark.Batch) error {
			data += string(b.Data)
			b.Release()
			return nil
		})
		want := "1\tk\tshort\t\\\\x73686f7274\tshort\n2\tk,2\tééé\t\\\\x00000000000000\tééé\n3\tk\t\\N\t\\\\x79797979797979\t\\N\n"
		if err != nil || data != want {
			t.Errorf("%v\n got %q\nwant %q", err, data, want)
		}
		if got, want := strings.Join(cuts, "; "), "2,k,2 t 20; 2,k,2 x 2000; 2,k,2 c 20; 3,k x 700000"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestTablesWithoutTransactions: a failed Fresh range is emptied, another one reports which rows
// stay.
func TestTablesWithoutTransactions(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "myisam")
		e := open(t, to, server.Options{})
		testdb.Query(t, to, "CREATE TABLE x (id int PRIMARY KEY) ENGINE=MyISAM")
		m := mysqltest.MoveTo(mysqltest.TableFrom(t, to, "x"), mysqltest.DatabaseOf(to))
		for _, fresh := range []bool{true, false} {
			r := &tidemark.Range{}
			_, err := e.Write(t.Context(), 0, tidemark.Write{Move: m, Range: r, Format: tidemark.LoadData, Fresh: fresh}, mysqltest.Batches(tidemark.LoadData, r, "1\n2\n1\n"))
			n := testdb.Query(t, to, "SELECT COUNT(*) FROM x")
			if tidemark.KindOf(err) != tidemark.BadRow || fresh && n != "0" || !fresh && (n != "2" || !strings.Contains(tidemark.HintOf(err), "no transactions")) {
				t.Errorf("fresh %v: %v; %s; %s rows", fresh, err, tidemark.HintOf(err), n)
			}
		}
	})
}

func TestInspectClearExec(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "inspect")
		db := mysqltest.DatabaseOf(to)
		e := open(t, to, server.Options{})
		err := e.Exec(t.Context(), 1, []string{"CREATE TABLE child (id int, p int, FOREIGN KEY (p) REFERENCES parent (id))", "CREATE TABLE parent (id int PRIMARY KEY)", "INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (1,1)", "CREATE TABLE `e m``pty` (a int)"})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Exec(t.Context(), 1, []string{"CREATE TABLE parent (id int)"})
		if tidemark.KindOf(err) != tidemark.Exists || err.Error() != "run CREATE TABLE parent (id int): Table 'parent' already exists (error 1050)" {
			t.Errorf("%v (%v)", err, tidemark.KindOf(err))
		}
		ids := []tidemark.TableID{{Schema: db, Name: "child"}, {Schema: db, Name: "nothing"}, {Schema: db, Name: "e m`pty"}, {Schema: db, Name: "parent"}}
		show := func() string {
			states, err := e.Inspect(t.Context(), ids)
			if err != nil {
				t.Fatal(err)
			}
			s := ""
			for _, x := range states {
				s += fmt.Sprintf("%s %v %v; ", x.Table.Name, x.Exists, x.Rows)
			}
			return s
		}
		if got, want := show(), "child true true; nothing false false; e m`pty true false; parent true true; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if err := e.Clear(t.Context(), []tidemark.TableID{ids[3], ids[0]}, false); err != nil {
			t.Error(err)
		}
		if got, want := show(), "child true false; nothing false false; e m`pty true false; parent true false; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if err := e.Clear(t.Context(), []tidemark.TableID{ids[3], ids[0], ids[1]}, true); err != nil {
			t.Error(err)
		}
		if got, want := show(), "child false false; nothing false false; e m`pty true false; parent false false; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestCutInCommit: the connection breaks in COMMIT, and the marker row decides the outcome.
func TestCutInCommit(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "cut")
		p := mysqltest.NewProxy(t, srv)
		e := open(t, strings.Replace(to, fmt.Sprintf("127.0.0.1:%d", srv.Port), p.Addr().String(), 1), server.Options{})
		if err := e.Begin(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		m := targetTable(t, to, "x", "id int PRIMARY KEY")
		for i, before := range []bool{false, true} {
			p.Before.Store(before)
			p.Armed.Store(true)
			r := &tidemark.Range{ID: i + 1}
			rows := fmt.Sprintf("%d\n%d\n", 10*i+1, 10*i+2)
			out, err := e.Write(t.Context(), 0, tidemark.Write{Run: "r", Move: m, Range: r, Format: tidemark.LoadData}, mysqltest.Batches(tidemark.LoadData, r, rows))
			if before && tidemark.KindOf(err) != tidemark.Transient || !before && (err != nil || out.Rows != 2) {
				t.Errorf("cut before the server heard it %v: %+v %v (%v)", before, out, err, tidemark.KindOf(err))
			}
			if n, want := testdb.Query(t, to, "SELECT COUNT(*) FROM x"), fmt.Sprint(2); n != want {
				t.Errorf("%s rows, not %s", n, want)
			}
		}
		// An attempt whose range is already written adds nothing.
		r := &tidemark.Range{ID: 1}
		if _, err := e.Write(t.Context(), 0, tidemark.Write{Run: "r", Move: m, Range: r, Format: tidemark.LoadData}, mysqltest.Batches(tidemark.LoadData, r, "51\n52\n")); err != nil {
			t.Error(err)
		}
		if n := testdb.Query(t, to, "SELECT COUNT(*) FROM x"); n != "2" {
			t.Errorf("%s rows", n)
		}
	})
}

// TestTLS reads and writes through TLS, which MySQL sets up automatically.
func TestTLS(t *testing.T) {
	srv := testdb.MySQL(t)
	to := srv.NewDatabase(t, "tls")
	e := open(t, to+"?tls=true", server.Options{})
	m := targetTable(t, to, "x", "id int PRIMARY KEY, v longtext")
	r := &tidemark.Range{}
	rows := "1\t" + strings.Repeat("long ", 400000) + "\n2\tshort\n"
	if _, err := e.Write(t.Context(), 0, tidemark.Write{Move: m, Range: r}, mysqltest.Batches(tidemark.CopyText, r, rows)); err != nil {
		t.Fatal(err)
	}
	if got := mysqltest.ReadAll(t, e, m, tidemark.CopyText); got != rows {
		t.Errorf("read %d bytes, wrote %d", len(got), len(rows))
	}
	s, back, err := e.Lend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer back()
	res, err := s.Query(t.Context(), "SHOW STATUS LIKE 'Ssl_cipher'")
	if err != nil || server.Cell(res, 0, 1) == "" {
		t.Error("the session is not encrypted", err)
	}
	if _, err := Open(t.Context(), to+"?tls=verify-full", server.Options{}); tidemark.KindOf(err) != tidemark.Denied || !strings.Contains(fmt.Sprint(err), "its certificate is for another host") {
		t.Errorf("a certificate that nobody vouches for: %v (%v)", err, tidemark.KindOf(err))
	}
}

// TestFence: a range of a process that has lost its run is not committed, and gets no marker.
func TestFence(t *testing.T) {
	to := testdb.MariaDB(t).NewDatabase(t, "fence")
	m := targetTable(t, to, "x", "id int PRIMARY KEY")
	first, second := open(t, to, server.Options{}), open(t, to, server.Options{})
	for _, e := range []*Engine{first, second} {
		if err := e.Begin(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
	}
	r := &tidemark.Range{ID: 1}
	w := tidemark.Write{Run: "r", Move: m, Range: r, Format: tidemark.LoadData}
	_, err := first.Write(t.Context(), 0, w, mysqltest.Batches(tidemark.LoadData, r, "1\n"))
	if tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(fmt.Sprint(err), "another process has taken over this run") {
		t.Errorf("%v", err)
	}
	marks, err := second.Marks(t.Context(), "r")
	if got := testdb.Query(t, to, "SELECT COUNT(*) FROM x"); got != "0" || len(marks) != 0 || err != nil {
		t.Errorf("%s rows, marks %v, %v", got, marks, err)
	}
	if _, err := second.Write(t.Context(), 0, w, mysqltest.Batches(tidemark.LoadData, r, "1\n")); err != nil {
		t.Error(err)
	}
}

// TestRejectWholeRow: a row that spans batches is rejected as a whole, and the rows beside it stay.
func TestRejectWholeRow(t *testing.T) {
	to := testdb.MariaDB(t).NewDatabase(t, "whole")
	m := targetTable(t, to, "x", "id int PRIMARY KEY, v varchar(5)")
	e := open(t, to, server.Options{})
	if err := e.Begin(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	for i, batches := range [][]tidemark.Batch{
		{{Data: []byte("1\ta\n"), Rows: 1}, {Data: []byte("2\tmuch "), More: true}, {Data: []byte("too "), More: true}, {Data: []byte("long\n3\tc\n"), Rows: 2, Last: true}},
		{{Data: []byte("1\ta\n2\tmuch "), Rows: 1, More: true}, {Data: []byte("too "), More: true}, {Data: []byte("long\n3\tc\n"), Rows: 2, Last: true}},
		{{Data: []byte("1\ta\n2\tmuch too long\n3\t"), Rows: 2, More: true}, {Data: []byte("c\n"), Rows: 1, Last: true}},
	} {
		testdb.Query(t, to, "DELETE FROM x")
		r := &tidemark.Range{ID: i + 1}
		var rejected []string
		out, err := e.Write(t.Context(), 0, tidemark.Write{Run: "r", Move: m, Range: r, Format: tidemark.LoadData, Reject: func(row []byte, _ string) error {
			rejected = append(rejected, string(row))
			return nil
		}}, func() (*tidemark.Batch, error) {
			b := tidemark.NewBatch(r, tidemark.LoadData)
			b.Data, b.Rows, b.More, b.Last = append(b.Data, batches[0].Data...), batches[0].Rows, batches[0].More, batches[0].Last
			batches = batches[1:]
			return b, nil
		})
		if err != nil || out.Rows != 2 || len(rejected) != 1 || strings.TrimSpace(rejected[0]) != "2\tmuch too long" {
			t.Errorf("%d: %+v, rejected %q, %v", i, out, rejected, err)
		}
		if got := testdb.Query(t, to, "SELECT id, v FROM x ORDER BY id"); got != "1\ta\n3\tc" {
			t.Errorf("%d: the table has\n%s", i, got)
		}
	}
}
