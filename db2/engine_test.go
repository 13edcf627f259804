package db2

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/roundtrip"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func openEngine(t *testing.T, url string) *Engine {
	t.Helper()
	e, err := Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// lockers reports whether a session waits for a lock.
func (e *Engine) lockers(t *testing.T) (bool, error) {
	s, back, err := e.Lend(t.Context())
	if err != nil {
		return false, err
	}
	defer back()
	rows, err := s.Strings(t.Context(), "select state from syscs_diag.lock_table where state = 'WAIT'")
	return len(rows) > 0, err
}

// read returns the rows of a range.
func read(t *testing.T, e *Engine, lane int, m *tidemark.Move, r *tidemark.Range) (string, error) {
	t.Helper()
	var out strings.Builder
	last := false
	err := e.Read(t.Context(), lane, tidemark.Read{Move: m, Range: r}, func(b *tidemark.Batch) error {
		out.Write(b.Data)
		last = b.Last
		b.Release()
		return nil
	})
	if err == nil && !last {
		t.Error("no last batch")
	}
	return out.String(), err
}

// whole is a move of all columns of a table.
func whole(t *testing.T, db *tidemark.Database, name string) *tidemark.Move {
	t.Helper()
	for _, table := range db.Tables {
		if table.Name == name {
			m := &tidemark.Move{From: table, To: table}
			for _, c := range table.Stored() {
				m.Source = append(m.Source, c.Name)
			}
			return m
		}
	}
	t.Fatalf("no table %s", name)
	return nil
}

// From Describe on, writers wait until the engine is closed, and lanes do not wait for writers.
func TestTablesAreLocked(t *testing.T) {
	url := testdb.Derby(t, 16).NewDatabase(t, "locks")
	testdb.Load(t, url, strings.NewReader("create table a(id int not null primary key); insert into a values (1), (2); create table b(id int);"))
	e, writer := openEngine(t, url), openEngine(t, url)
	if _, err := e.Freeze(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	db, err := e.Describe(t.Context(), func(id tidemark.TableID) bool { return id.Name == "A" })
	if err != nil {
		t.Fatal(err)
	}
	s, back, err := writer.Lend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer back()
	if _, err := s.Exec(t.Context(), "insert into b values (1)"); err != nil {
		t.Errorf("a table that is not copied: %v", err)
	}
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Exec(context.WithoutCancel(t.Context()), "insert into a values (3)")
		done <- errors.Join(err, s.Commit(context.WithoutCancel(t.Context())))
	}()
	testdb.Within(t, "the writer's wait", func() bool {
		waits, err := e.lockers(t)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	})
	m := whole(t, db, "A")
	for lane := range 2 {
		for range 2 {
			if got, err := read(t, e, lane, m, nil); got != "1\n2\n" || err != nil {
				t.Errorf("lane %d: %q, %v", lane, got, err)
			}
		}
	}
	m.Split = tidemark.Split{Target: 1, Max: 2}
	if ranges, err := e.Split(t.Context(), m); len(ranges) != 2 || err != nil {
		t.Errorf("split: %v, %v", ranges, err)
	}
	if _, err := read(t, e, 2, m, nil); tidemark.KindOf(err) == tidemark.Transient || err == nil {
		t.Errorf("a lane that Freeze did not open: %v", err)
	}
	select {
	case err := <-done:
		t.Fatalf("a writer did not wait: %v", err)
	case <-time.After(time.Second):
	}
	e.Close()
	if err := testdb.From(t, "the writer's end", done); err != nil {
		t.Errorf("the writer, after the end: %v", err)
	}
}

// Ranges contain each row once, whatever the key's values are.
func TestRanges(t *testing.T) {
	url := testdb.Derby(t, 8).NewDatabase(t, "ranges")
	sql := "create table n(k int, v int); create table k(id bigint not null, x smallint not null, primary key (id, x)); create table one(id int not null primary key);\n"
	for i := range 50 {
		sql += fmt.Sprintf("insert into n values (%d, %d); insert into k values (%d, %d);\n", i%7, i, i*i*i-40000, i%3)
	}
	sql += "insert into n values (null, 50); insert into one values (2147483647); insert into k values (-9223372036854775808, 0), (9223372036854775807, 0);"
	testdb.Load(t, url, strings.NewReader(sql))
	e := openEngine(t, url)
	db, err := e.Describe(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, split := range map[string]tidemark.Split{"K": {Target: 1000, Max: 9}, "ONE": {Target: 1, Max: 5}, "N": {Kind: tidemark.SplitBounds, Columns: []string{"K", "V"}, Bounds: [][]string{{"2", "-1"}, {"3", "20"}, {"6", "0"}}}} {
		m := whole(t, db, name)
		m.Split = split
		all, err := e.Split(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for i := range all {
			got, err := read(t, e, 0, m, &all[i])
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(got) {
				seen[line]++
			}
		}
		want, err := read(t, e, 1, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(want) {
			if seen[line] != 1 {
				t.Errorf("%s: %d times %q in %d ranges", name, seen[line], line, len(all))
			}
		}
		if len(seen) != strings.Count(want, "\n") {
			t.Errorf("%s: %d rows in ranges, %d in all", name, len(seen), strings.Count(want, "\n"))
		}
		if name == "K" && len(all) < 5 || name == "ONE" && len(all) != 1 {
			t.Errorf("%s: %d ranges", name, len(all))
		}
	}
}

// More columns than a group of the description has, and a filter of each kind.
func TestManyColumnsAndFilters(t *testing.T) {
	for _, minor := range []int{8, 16} {
		url := testdb.Derby(t, minor).NewDatabase(t, "wide")
		names, values := "", ""
		for i := range 200 {
			names += fmt.Sprintf(", c%d varchar(9)", i)
			values += fmt.Sprintf(", 'v%d'", i)
		}
		testdb.Load(t, url, strings.NewReader("create table w(id int not null primary key, d date"+names+"); insert into w values (1, '2020-02-29'"+values+"), (2, null"+values+");"))
		e := openEngine(t, url)
		db, err := e.Describe(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		m := whole(t, db, "W")
		row := strings.ReplaceAll(strings.ReplaceAll(values, ", '", "\t"), "'", "") + "\n"
		if got, err := read(t, e, 0, m, nil); got != "1\t2020-02-29"+row+"2\t\\N"+row || err != nil {
			t.Errorf("%.100q, %v", got, err)
		}
		for filter, want := range map[*tidemark.Filter]string{
			{Column: "ID", Conditions: []tidemark.Condition{{Op: "gte", Value: "2"}}}:                                "2",
			{Column: "D", Conditions: []tidemark.Condition{{Op: "between", Start: "2020-02-28", End: "2020-03-01"}}}: "1",
			{Column: "D", Conditions: []tidemark.Condition{{Op: "null"}}}:                                            "2",
			{Column: "C7", Conditions: []tidemark.Condition{{Op: "eq", Value: "it's"}, {Op: "eq", Value: "v7"}}}:     "12",
			{SQL: `"ID" + 1 = 2`}: "1",
		} {
			m.Filter = []tidemark.Filter{*filter}
			got, err := read(t, e, 0, m, nil)
			ids := ""
			for line := range strings.Lines(got) {
				ids += line[:1]
			}
			if ids != want || err != nil {
				t.Errorf("%+v: %q, %v", *filter, ids, err)
			}
		}
	}
}

// Round trips go to the worker that waits for them, whoever has opened the session, and only those
// of a login say how far the server is.
func TestRoundTrips(t *testing.T) {
	near := testdb.Derby(t, 16).NewDatabase(t, "trips")
	testdb.Load(t, near, strings.NewReader("create table a(id int not null primary key); insert into a values (1), (2);"))
	to, err := url.Parse(near)
	if err != nil {
		t.Fatal(err)
	}
	to.Host = "127.0.0.1:" + testdb.NewWire(t, to.Port(), 5*time.Millisecond).Port
	e, frozen := openEngine(t, to.String()), openEngine(t, to.String())
	db, err := e.Describe(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := whole(t, db, "A")
	if _, err := frozen.Freeze(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for _, use := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"a session that is lent", func(ctx context.Context) error { _, err := e.RoundTrip(ctx); return err }},
		{"a lane", func(ctx context.Context) error {
			return e.Read(ctx, 0, tidemark.Read{Move: m}, func(b *tidemark.Batch) error { b.Release(); return nil })
		}},
		{"a writing lane", func(ctx context.Context) error { return e.Exec(ctx, 0, []string{"update a set id = id"}) }},
		{"lanes that lock", func(ctx context.Context) error { return frozen.KeepTables(ctx, []tidemark.TableID{m.From.TableID}) }},
		{"a frozen lane", func(ctx context.Context) error {
			return frozen.Read(ctx, 0, tidemark.Read{Move: m}, func(b *tidemark.Batch) error { b.Release(); return nil })
		}},
		{"the spare session", func(ctx context.Context) error { _, err := frozen.Split(ctx, m); return err }},
	} {
		first, second := flow.NewClock(), flow.NewClock()
		for _, c := range []*flow.Clock{first, second} {
			c.Enter(flow.IO)
		}
		if err := use.do(first.Counting(t.Context())); err != nil {
			t.Fatalf("%s: %v", use.name, err)
		}
		before := first.Snapshot().RoundTrips
		if err := use.do(second.Counting(t.Context())); err != nil {
			t.Fatalf("%s: %v", use.name, err)
		}
		if a, b := first.Snapshot().RoundTrips-before, second.Snapshot().RoundTrips; a != 0 || b == 0 {
			t.Errorf("%s: of the second worker's round trips the first has %d, the second %d", use.name, a, b)
		}
	}
	if trip := e.Server.Distance.RoundTrip(); trip < 10*time.Millisecond {
		t.Errorf("the distance is %s", trip)
	}
	e.Server.Distance = roundtrip.Distance{}
	if _, err := e.RoundTrip(t.Context()); err != nil {
		t.Fatal(err)
	}
	if trip := e.Server.Distance.RoundTrip(); trip != 0 {
		t.Errorf("a statement of %s counts as a login", trip)
	}
}
