package bulk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// several makes writes of rows into tables, numbered from first, and the batches of all of them.
func several(moves []*tidemark.Move, first int, texts ...string) ([]tidemark.Write, func() (*tidemark.Batch, error)) {
	var ws []tidemark.Write
	var takes []func() (*tidemark.Batch, error)
	for i, text := range texts {
		r := &tidemark.Range{ID: first + i}
		ws = append(ws, tidemark.Write{Run: "r", Move: moves[i], Range: r, Format: tidemark.LoadData})
		takes = append(takes, mysqltest.Batches(tidemark.LoadData, r, text))
	}
	return ws, func() (*tidemark.Batch, error) {
		b, err := takes[0]()
		if err == nil && b.Last {
			takes = takes[1:]
		}
		return b, err
	}
}

// TestWriteEach writes several tables in one transaction: all of them with their markers or none,
// whatever fails, and the same lane continues.
func TestWriteEach(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "bundle")
		f := mysqltest.NewForger(t, srv)
		e, ctx := open(t, strings.Replace(to, fmt.Sprintf("127.0.0.1:%d", srv.Port), f.Addr().String(), 1), server.Options{}), t.Context()
		if err := e.Begin(ctx, "r"); err != nil {
			t.Fatal(err)
		}
		var moves []*tidemark.Move
		for i := range 4 {
			moves = append(moves, targetTable(t, to, fmt.Sprint("t", i), "id int PRIMARY KEY, v varchar(3), c enum('a','b')"))
		}
		state := func() string {
			return testdb.Query(t, to, `SELECT (SELECT COUNT(*) FROM t0), (SELECT COUNT(*) FROM t1), (SELECT COUNT(*) FROM t2), (SELECT COUNT(*) FROM t3),
				(SELECT COALESCE(GROUP_CONCAT(range_id, ':', rows_n ORDER BY range_id SEPARATOR ' '), '') FROM tidemark_copied WHERE range_id > 0)`)
		}
		fails := func(want tidemark.Kind, text string, texts ...string) {
			t.Helper()
			ws, take := several(moves, 1, texts...)
			if _, err := e.WriteEach(ctx, 0, ws, take); tidemark.KindOf(err) != want || !strings.Contains(fmt.Sprint(err), text) {
				t.Errorf("%v: %v, want %v with %q", tidemark.KindOf(err), err, want, text)
			}
			if got := state(); got != "0\t0\t0\t0\t" {
				t.Errorf("rows and markers are %s", got)
			}
		}
		good := func(i int) string { return fmt.Sprintf("%d\tx\ta\n%d\ty\t\n", i*10, i*10+1) } // an ENUM of index 0 warns
		for i := range 4 {
			for _, bad := range []string{"1\ttoo long\ta\n", "1\tx\ta\n1\ty\ta\n", "1\tx\tz\n"} {
				texts := []string{good(1), good(2), good(3), good(4)}
				texts[i] = bad
				fails(tidemark.BadRow, fmt.Sprint("t", i), texts...)
			}
		}
		ws, take := several(moves, 1, good(1), good(2), good(3), good(4))
		n, gone := 0, errors.New("the source is gone")
		if _, err := e.WriteEach(ctx, 0, ws, func() (*tidemark.Batch, error) {
			if n++; n == 3 {
				return nil, gone
			}
			return take()
		}); err != gone {
			t.Errorf("take's error became %v", err)
		}
		ws, take = several(moves, 1, good(1), "", good(3), "")
		out, err := e.WriteEach(ctx, 0, ws, take)
		if rows := []int64{out[0].Rows, out[1].Rows, out[2].Rows, out[3].Rows}; err != nil || !slices.Equal(rows, []int64{2, 0, 2, 0}) {
			t.Errorf("%v, %v", rows, err)
		}
		if got := state(); got != "2\t0\t2\t0\t1:2 2:0 3:2 4:0" {
			t.Errorf("rows and markers are %s", got)
		}
		ws, take = several(moves, 5, "", "", "", "")
		if _, err := e.WriteEach(ctx, 0, ws, take); err != nil || !strings.HasSuffix(state(), "\t1:2 2:0 3:2 4:0 5:0 6:0 7:0 8:0") {
			t.Errorf("%v, %s", err, state())
		}

		// Whichever of the statements fails, all are there or none, also of rows that are bad.
		// What a bundle before it has written does not count.
		id := 100
		count := func(id int) string {
			return testdb.Query(t, to, fmt.Sprintf(`SELECT (SELECT COUNT(*) FROM t0 WHERE id DIV 10 = %[1]d) + (SELECT COUNT(*) FROM t1 WHERE id DIV 10 = %[1]d) + (SELECT COUNT(*) FROM t2 WHERE id DIV 10 = %[1]d),
				(SELECT COUNT(*) FROM tidemark_copied WHERE range_id IN (%[1]d, %[1]d + 1, %[1]d + 2))`, id))
		}
		for _, statement := range []string{"START", "SET @tidemark_rows", "LOAD", "GET", "SHOW", "SET @tidemark_loaded", "INSERT", "SET @tidemark_commit", "PREPARE", "EXECUTE", "DEALLOCATE", "none"} {
			for bad := range 4 { // the last: none
				texts := []string{good(id), good(id), good(id)}
				if bad < 3 {
					texts[bad] = fmt.Sprintf("%d\ttoo long\ta\n", id*10)
				}
				f.Forge.Store(&[2]string{"\x03" + statement, "\x03?" + statement[1:]})
				ws, take := several(moves, id, texts...)
				_, err := e.WriteEach(ctx, 0, ws, take)
				f.Forge.Store(nil)
				if got := count(id); (err == nil) != (got == "6\t3") || err != nil && got != "0\t0" || bad < 3 && err == nil {
					t.Errorf("%s, bad in %d: %v, and rows and markers are %s", statement, bad, err, got)
				}
				if err != nil {
					ws, take = several(moves, id, good(id), good(id), good(id))
					if _, err := e.WriteEach(ctx, 0, ws, take); err != nil || count(id) != "6\t3" {
						t.Errorf("%s, bad in %d, once more: %v, and rows and markers are %s", statement, bad, err, count(id))
					}
				}
				id += 3
			}
		}

		// What is there is not written twice, by one range alone.
		was := state()
		ws, take = several(moves, 1, "91\tx\ta\n")
		if _, err := e.Write(ctx, 0, ws[0], take); err != nil || state() != was {
			t.Errorf("%v, rows and markers are %s, were %s", err, state(), was)
		}
		ws, take = several(moves, 1, "91\tx\ta\n", "92\tx\ta\n")
		if _, err := e.WriteEach(ctx, 0, ws, take); err == nil || state() != was {
			t.Errorf("%v, rows and markers are %s, were %s", err, state(), was)
		}

		// A table that has no transactions.
		testdb.Query(t, to, "ALTER TABLE t1 ENGINE=MyISAM")
		forgetShapes(e.Bulk)
		was = state()
		ws, take = several(moves, 9, "93\tx\ta\n", "93\tx\ta\n")
		if _, err := e.WriteEach(ctx, 0, ws, take); err == nil || state() != was {
			t.Errorf("%v, rows and markers are %s, were %s", err, state(), was)
		}
	})
}

// TestWriteEachElsewhere: a server that refuses LOCAL; one that is cut off in COMMIT; and the round
// trips of many.
func TestWriteEachElsewhere(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "bundles")
		var moves []*tidemark.Move
		var texts []string
		for i := range 30 {
			moves = append(moves, targetTable(t, to, fmt.Sprint("t", i), "id int PRIMARY KEY, j json"))
			texts = append(texts, fmt.Sprintf("%d\t{\"a\": \"é\"}\n%d\t\\N\n", i, i+100))
		}
		texts[3], texts[29] = "", ""
		check := func(when string, out []tidemark.Written, err error, want string) {
			t.Helper()
			rows := int64(0)
			for _, w := range out {
				rows += w.Rows
			}
			if got := testdb.Query(t, to, "SELECT (SELECT COUNT(*) FROM t0), (SELECT COUNT(*) FROM t28), (SELECT COUNT(*) FROM tidemark_copied WHERE range_id > 0)"); err != nil || rows != 56 || got != want {
				t.Errorf("%s: %d rows, %v, and the tables have %s", when, rows, err, got)
			}
			for i := range moves {
				testdb.Query(t, to, fmt.Sprint("DELETE FROM t", i))
			}
		}
		wire := testdb.NewWire(t, fmt.Sprint(srv.Port), 0)
		e := open(t, strings.Replace(to, fmt.Sprint(":", srv.Port), ":"+wire.Port, 1), server.Options{})
		if err := e.Begin(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			ws, take := several(moves, 1+100*i, texts...)
			wire.Turns()
			out, err := e.WriteEach(t.Context(), 0, ws, take)
			check("far away", out, err, fmt.Sprint("2\t2\t", 30*(i+1)))
			if n := wire.Turns(); i == 1 && n > 30 {
				t.Errorf("%d round trips", n)
			}
		}

		p := mysqltest.NewProxy(t, srv)
		e = open(t, strings.Replace(to, fmt.Sprintf("127.0.0.1:%d", srv.Port), p.Addr().String(), 1), server.Options{})
		for i, before := range []bool{true, false} {
			p.Before.Store(before)
			p.Armed.Store(true)
			ws, take := several(moves, 201, texts...)
			out, err := e.WriteEach(t.Context(), 0, ws, take)
			if before {
				if tidemark.KindOf(err) != tidemark.Transient {
					t.Errorf("cut before COMMIT: %v", err)
				}
				continue
			}
			check(fmt.Sprint("cut after COMMIT ", i), out, err, "2\t2\t90")
		}

		testdb.Query(t, to, "SET GLOBAL local_infile=0")
		t.Cleanup(func() { testdb.Query(t, to, "SET GLOBAL local_infile=1") })
		e = open(t, to, server.Options{})
		ws, take := several(moves, 301, texts...)
		out, err := e.WriteEach(t.Context(), 0, ws, take)
		check("without LOCAL", out, err, "2\t2\t120")
		if out[0].Method != "INSERT" {
			t.Errorf("by %s", out[0].Method)
		}
	})
}

// TestZeroIsNotNumbered: a 0 in an AUTO_INCREMENT column stays, beside columns that are converted
// and alone, in both formats.
func TestZeroIsNotNumbered(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "zero")
		e := open(t, to, server.Options{})
		for i, columns := range []string{"id int AUTO_INCREMENT PRIMARY KEY, v varchar(9)", "id int AUTO_INCREMENT PRIMARY KEY, v json", "v varchar(9) CHARACTER SET latin1, id bigint unsigned AUTO_INCREMENT, KEY (id)"} {
			for _, f := range []tidemark.Format{tidemark.LoadData, tidemark.CopyText} {
				name := fmt.Sprintf("t%d_%d", i, f)
				m := targetTable(t, to, name, columns)
				rows := "0\t1\n7\t2\n"
				if strings.HasPrefix(columns, "v") {
					rows = "1\t0\n2\t7\n"
				}
				r := &tidemark.Range{ID: 1}
				if _, err := e.Write(t.Context(), 0, tidemark.Write{Move: m, Range: r, Format: f}, mysqltest.Batches(f, r, rows)); err != nil {
					t.Fatal(err)
				}
				if got := testdb.Query(t, to, "SELECT id, v FROM "+name+" ORDER BY id"); got != "0\t1\n7\t2" {
					t.Errorf("%s, %v: %q", columns, f, got)
				}
			}
		}
	})
}
