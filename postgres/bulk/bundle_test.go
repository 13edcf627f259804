package bulk

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
)

// several returns the writes of n tables t0, t1, ..., and a take for them with the rows of each.
func several(t *testing.T, db, run string, first int, texts ...string) ([]tidemark.Write, func() (*tidemark.Batch, error)) {
	var ws []tidemark.Write
	var takes []func() (*tidemark.Batch, error)
	for i, text := range texts {
		ws = append(ws, tidemark.Write{Run: run, Move: move(pgtest.Table(t, db, fmt.Sprint("t", i))), Range: &tidemark.Range{ID: first + i}})
		takes = append(takes, rowBatches(text))
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
	srv := testdb.Postgres(t, 15)
	db := srv.NewDatabase(t, "bundle")
	for i := range 4 {
		testdb.Query(t, db, fmt.Sprintf("CREATE TABLE t%d (id int PRIMARY KEY, v text)", i))
	}
	testdb.Query(t, db, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.v = ''slow'' THEN PERFORM pg_sleep(20); END IF; RETURN NEW; END';
		CREATE TRIGGER slow BEFORE INSERT ON t1 FOR EACH ROW EXECUTE FUNCTION slow(); ALTER TABLE t1 ENABLE ALWAYS TRIGGER slow`)
	cut := newCutter(t, fmt.Sprintf("127.0.0.1:%d", srv.Port), "COMMIT")
	e := open(t, with(t, db, func(u *url.URL) { u.Host = cut.listener.Addr().String() }))
	if err := e.Begin(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	state := func(want string) {
		t.Helper()
		if got := testdb.Query(t, db, `SELECT (SELECT count(*) FROM t0), (SELECT count(*) FROM t1), (SELECT count(*) FROM t2), (SELECT count(*) FROM t3),
			(SELECT coalesce(string_agg(range || ':' || rows, ' ' ORDER BY range), '') FROM tidemark.copied WHERE range > 0)`); got != want {
			t.Errorf("rows and markers are %q, want %q", got, want)
		}
	}
	fails := func(want tidemark.Kind, text string, texts ...string) {
		t.Helper()
		ws, take := several(t, db, "r", 1, texts...)
		_, err := e.WriteEach(t.Context(), 0, ws, take)
		if tidemark.KindOf(err) != want || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%v: %v, want %v with %q", tidemark.KindOf(err), err, want, text)
		}
		state("0\t0\t0\t0\t")
	}
	fails(tidemark.BadRow, "public.t0 and 3 more tables", "1\ta\n", "2\tb\n", "bad\tc\n", "3\td\n")
	fails(tidemark.BadRow, "duplicate key", "1\ta\n1\tb\n", "2\tb\n", "3\tc\n", "4\td\n")
	// Our sessions have no timeout; a pooler or an extension may set one.
	l := e.writers[0]
	if err := l.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Exec(t.Context(), "SET statement_timeout = '300ms'"); err != nil {
		t.Fatal(err)
	}
	fails(tidemark.Transient, "statement timeout", "1\ta\n", "2\tslow\n", "3\tc\n", "4\td\n")

	ws, take := several(t, db, "r", 1, "1\ta\n", "2\tb\n", "3\tc\n", "4\td\n")
	n, gone := 0, errors.New("the source is gone")
	if _, err := e.WriteEach(t.Context(), 0, ws, func() (*tidemark.Batch, error) {
		if n++; n == 3 {
			return nil, gone
		}
		return take()
	}); err != gone {
		t.Errorf("take's error became %v", err)
	}
	state("0\t0\t0\t0\t")

	ws, take = several(t, db, "r", 1, "1\ta\n", "", "2\tb\n3\tc\n", "4\td\n")
	out, err := e.WriteEach(t.Context(), 0, ws, take)
	rows := func() (n []int64) {
		for _, w := range out {
			n = append(n, w.Rows)
		}
		return n
	}
	if err != nil || !slices.Equal(rows(), []int64{1, 0, 2, 1}) {
		t.Errorf("%+v, %v", out, err)
	}
	state("1\t0\t2\t1\t1:1 2:0 3:2 4:1")

	// The answer to the commit is lost.
	cut.armed.Store(true)
	ws, take = several(t, db, "r", 11, "11\ta\n", "12\tb\n13\tb\n", "14\tc\n")
	if out, err = e.WriteEach(t.Context(), 0, ws, take); err != nil || !slices.Equal(rows(), []int64{1, 2, 1}) || cut.armed.Load() {
		t.Errorf("%+v, %v", out, err)
	}
	state("2\t2\t3\t1\t1:1 2:0 3:2 4:1 11:1 12:2 13:1")

	// What is there is not written twice, by one range or by all of them.
	for _, alone := range []bool{true, false} {
		ws, take = several(t, db, "r", 11, "21\ta\n", "22\tb\n", "23\tc\n")
		if alone {
			ws = ws[:1]
		}
		if _, err = e.WriteEach(t.Context(), 0, ws, take); err != nil {
			t.Error(err)
		}
	}
	state("2\t2\t3\t1\t1:1 2:0 3:2 4:1 11:1 12:2 13:1")
}

// TestReadEach reads several tables that are requested at once, and again after one of them failed.
func TestReadEach(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "ahead")
	var rs []tidemark.Read
	for i := range 5 {
		testdb.Query(t, db, fmt.Sprintf("CREATE TABLE t%d (id int); INSERT INTO t%d SELECT generate_series(1, %d)", i, i, i*3))
		rs = append(rs, tidemark.Read{Move: move(pgtest.Table(t, db, fmt.Sprint("t", i))), Range: &tidemark.Range{ID: i}})
	}
	e := frozen(t, db, 1)
	for pass := range 30 { // more than a lane reads before it joins the view again
		some := slices.Clone(rs)
		if pass%7 == 3 {
			m := *rs[2].Move
			m.Filter = []tidemark.Filter{{SQL: "1 / (id - 1) > 0"}}
			some[2].Move = &m
		}
		rows := map[int]int{}
		err := e.ReadEach(t.Context(), 0, some, func(b *tidemark.Batch) error {
			rows[b.Range.ID] += b.Rows
			b.Release()
			return nil
		})
		if pass%7 == 3 {
			if tidemark.KindOf(err) != tidemark.BadRow || !strings.Contains(err.Error(), "read public.t2") || len(rows) > 2 {
				t.Errorf("pass %d: %v, %v", pass, rows, err)
			}
			continue
		}
		if err != nil || rows[1] != 3 || rows[2] != 6 || rows[3] != 9 || rows[4] != 12 || len(rows) != 5 {
			t.Errorf("pass %d: %v, %v", pass, rows, err)
		}
	}
}

// TestSourceFailsBetweenTables ends the rows of many tables after any of them, while the answers to
// those before arrive: the lane is given up only when nobody reads from it.
func TestSourceFailsBetweenTables(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t, 15).NewDatabase(t, "between")
	const tables = 40
	var create strings.Builder
	for i := range tables {
		fmt.Fprintf(&create, "CREATE TABLE t%d (id int PRIMARY KEY, v text);", i)
	}
	testdb.Query(t, db, create.String())
	e := open(t, db)
	if err := e.Begin(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	ws, _ := several(t, db, "r", 1, slices.Repeat([]string{"1\ta\n"}, tables)...)
	gone, step := errors.New("the source is gone"), 8
	if testdb.Long() {
		step = 1
	}
	for last := 0; last < tables; last += step {
		n := 0
		if _, err := e.WriteEach(t.Context(), 0, ws, func() (*tidemark.Batch, error) {
			if n++; n > last {
				return nil, gone
			}
			return rowBatches("1\ta\n")()
		}); err != gone {
			t.Errorf("take's error became %v", err)
		}
	}
	if got := testdb.Query(t, db, "SELECT (SELECT count(*) FROM t0), (SELECT count(*) FROM tidemark.copied WHERE range > 0)"); got != "0\t0" {
		t.Errorf("rows and markers are %q", got)
	}
}
