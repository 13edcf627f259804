package bulk

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// open opens an Engine that is closed when the test ends.
func open(t testing.TB, url string) *Engine {
	t.Helper()
	e, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// frozen opens an Engine and freezes it.
func frozen(t testing.TB, url string, lanes int) *Engine {
	t.Helper()
	e := open(t, url)
	if _, err := e.Freeze(t.Context(), lanes); err != nil {
		t.Fatal(err)
	}
	return e
}

// move returns a move that copies a table unchanged.
func move(from *tidemark.Table) *tidemark.Move {
	m := &tidemark.Move{From: from, To: from, Direct: true}
	for _, c := range from.Stored() {
		m.Source = append(m.Source, c.Name)
	}
	return m
}

// readAll returns a range's bytes and rows, and checks the guarantees of batches.
func readAll(t testing.TB, e *Engine, lane int, m *tidemark.Move, r *tidemark.Range, f tidemark.Format) ([]byte, int) {
	t.Helper()
	var data []byte
	rows, last := 0, false
	err := e.Read(t.Context(), lane, tidemark.Read{Move: m, Range: r, Format: f}, func(b *tidemark.Batch) error {
		if last {
			t.Error("a batch after the last")
		}
		if b.Range != r || b.Format != f {
			t.Errorf("a batch of range %v, format %v", b.Range, b.Format)
		}
		if len(b.Data) > tidemark.PieceSize {
			t.Errorf("a batch of %d bytes", len(b.Data))
		}
		data, rows, last = append(data, b.Data...), rows+b.Rows, b.Last
		b.Release()
		return nil
	})
	if err != nil {
		t.Fatalf("%v (%s)", err, tidemark.HintOf(err))
	}
	if !last {
		t.Error("no last batch")
	}
	return data, rows
}

// pipe copies a range from one Engine to another.
func pipe(ctx context.Context, src, dst *Engine, lane int, r tidemark.Read, w tidemark.Write) (tidemark.Written, error) {
	type item struct {
		b   *tidemark.Batch
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ch := make(chan item, 2)
	go func() {
		err := src.Read(ctx, lane, r, func(b *tidemark.Batch) error {
			select {
			case ch <- item{b: b}:
				return nil
			case <-ctx.Done():
				b.Release()
				return ctx.Err()
			}
		})
		if err != nil {
			ch <- item{err: err}
		}
		close(ch)
	}()
	out, err := dst.Write(ctx, lane, w, func() (*tidemark.Batch, error) {
		it := <-ch
		return it.b, it.err
	})
	cancel()
	for it := range ch { // until the reader has ended: the caller may close its engine
		if it.b != nil {
			it.b.Release()
		}
	}
	return out, err
}

// psql returns a query's or table's COPY output as psql receives it, with the session settings that
// canonical text is made of.
func psql(t testing.TB, url, what, options string) []byte {
	t.Helper()
	script := "SET client_encoding='UTF8'; SET DateStyle='ISO, YMD'; SET TimeZone='UTC'; SET IntervalStyle=iso_8601; SET bytea_output=hex; SET extra_float_digits=3; SET lc_monetary='C';\n"
	cmd := exec.Command("/usr/lib/postgresql/15/bin/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url)
	cmd.Stdin = strings.NewReader(script + "COPY " + what + " TO STDOUT " + options + ";\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("psql: %v: %s", err, stderr.String())
	}
	return out
}

// tuples strips header and trailer of the binary format.
func tuples(data []byte) []byte { return data[19 : len(data)-2] }

// Every table of the types zoo is read exactly as psql's COPY writes it, loads into a table of the
// same definition, and reads the same from there.
func TestZooRoundTrip(t *testing.T) {
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			srv := testdb.Postgres(t, major)
			src, dst := srv.NewDatabase(t, "zoo"), srv.NewDatabase(t, "zoo")
			testdb.Load(t, src, testdb.Sample(t, "types-zoo/pg.sql"))
			testdb.Load(t, dst, testdb.Sample(t, "types-zoo/pg.sql"))
			from := frozen(t, src, 1)
			for _, f := range []tidemark.Format{tidemark.CopyText, tidemark.CopyBinary} {
				into := open(t, dst) // reopened, so that it sees no earlier foreign keys
				truncate := "SET session_replication_role = replica"
				for _, name := range pgtest.Split(testdb.Query(t, src, pgtest.ZooTables)) {
					truncate += "; DELETE FROM " + name
				}
				testdb.Query(t, dst, "DROP RULE IF EXISTS r_nodel ON zoo.parent; "+truncate)
				for _, name := range pgtest.Split(testdb.Query(t, src, pgtest.ZooTables)) {
					checkRoundTrip(t, from, into, src, dst, name, f)
				}
			}
		})
	}
}

func checkRoundTrip(t *testing.T, from, into *Engine, src, dst, name string, f tidemark.Format) {
	t.Helper()
	m := move(pgtest.Table(t, src, name))
	if i := slices.Index(m.Source, "tq"); i >= 0 && f == tidemark.CopyBinary {
		// The server cannot read the binary format of an empty tsquery that it wrote.
		columns := slices.Delete(slices.Clone(m.From.Columns), i, i+1)
		m = move(&tidemark.Table{TableID: m.From.TableID, Columns: columns})
	}
	what := "(SELECT " + server.QuoteIdents(m.Source) + " FROM " + name + ")"
	if m.From.Form == tidemark.Ordinary {
		what = "(SELECT " + server.QuoteIdents(m.Source) + " FROM ONLY " + name + ")"
	}
	want := psql(t, src, what, "")
	if f == tidemark.CopyBinary {
		want = tuples(psql(t, src, what, "(FORMAT binary)"))
	}
	r := &tidemark.Range{ID: 1}
	got, rows := readAll(t, from, 0, m, r, f)
	if !bytes.Equal(got, want) {
		t.Errorf("%s as %v: read %d bytes that are not the %d bytes of psql", name, f, len(got), len(want))
	}
	if n := testdb.Query(t, src, "SELECT count(*) FROM "+what+" s"); fmt.Sprint(rows) != n {
		t.Errorf("%s as %v: %d rows, want %s", name, f, rows, n)
	}
	out, err := pipe(t.Context(), from, into, 0, tidemark.Read{Move: m, Range: r, Format: f}, tidemark.Write{Move: m, Range: r, Format: f})
	if err != nil {
		t.Errorf("%s as %v: %v (%s)", name, f, err, tidemark.HintOf(err))
		return
	}
	if out.Rows != int64(rows) || out.Bytes != int64(len(got)) || out.Method != "COPY" || out.Rejected != 0 {
		t.Errorf("%s as %v: written %+v, want %d rows and %d bytes", name, f, out, rows, len(got))
	}
	want, have := psql(t, src, what, ""), psql(t, dst, what, "")
	if !bytes.Equal(sorted(want), sorted(have)) {
		t.Errorf("%s as %v: the target's rows differ", name, f)
	}
}

// sorted sorts text rows.
func sorted(data []byte) []byte {
	lines := strings.SplitAfter(string(data), "\n")
	sort.Strings(lines)
	return []byte(strings.Join(lines, ""))
}

// Whatever the way to split, the ranges hold each row exactly once.
func TestSplitsHoldEachRowOnce(t *testing.T) {
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			url := testdb.Postgres(t, major).NewDatabase(t, "split")
			testdb.Query(t, url, `CREATE TABLE plain (id int, a int, b text, d date, v text);
				INSERT INTO plain SELECT g, CASE WHEN g % 7 <> 0 THEN g % 100 END, CASE WHEN g % 11 <> 0 THEN 'k' || g % 13 END,
					CASE WHEN g % 5 <> 0 THEN '2020-01-01'::date + g % 300 END, repeat(md5(g::text), 20) FROM generate_series(1, 5000) g;
				DELETE FROM plain WHERE id BETWEEN 1000 AND 1500;
				CREATE TABLE part (id int, at date, v text) PARTITION BY RANGE (at);
				CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM ('2020-01-01') TO ('2020-04-01');
				CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM ('2020-04-01') TO ('2020-08-01') PARTITION BY HASH (id);
				CREATE TABLE part_2_0 PARTITION OF part_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
				CREATE TABLE part_2_1 PARTITION OF part_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
				CREATE TABLE part_rest PARTITION OF part DEFAULT;
				INSERT INTO part SELECT g, CASE WHEN g % 9 <> 0 THEN '2020-01-01'::date + g % 365 END, repeat(md5(g::text), 10) FROM generate_series(1, 6000) g;
				CREATE TABLE empty (id int);
				CREATE VIEW seen AS SELECT id, v FROM plain WHERE a IS NULL`)
			e := frozen(t, url, 2)
			pieces := tidemark.Split{Target: 256 << 10, Max: 50}
			none := []string(nil)
			for _, tt := range []struct {
				table  string
				split  tidemark.Split
				ranges int // 0: more than 3
				filter []tidemark.Filter
			}{
				{"plain", tidemark.Split{}, 1, nil},
				{"plain", pieces, 0, nil},
				{"plain", tidemark.Split{Target: 256 << 10, Max: 3}, 3, nil},
				{"plain", pieces, 0, []tidemark.Filter{{SQL: "a > 50 or a is null -- all of it"}, {Column: "id", Conditions: []tidemark.Condition{{Op: "gte", Value: "7"}}}}},
				{"plain", tidemark.Split{Kind: tidemark.SplitNone}, 1, nil},
				{"plain", tidemark.Split{Kind: tidemark.SplitBounds, Columns: []string{"a"}, Bounds: [][]string{{"10"}, {"50"}, {"51"}}}, 4, nil},
				{"plain", tidemark.Split{Kind: tidemark.SplitBounds, Columns: []string{"a"}}, 1, nil},
				{"plain", tidemark.Split{Kind: tidemark.SplitBounds, Columns: []string{"b", "a", "d"}, Bounds: [][]string{{"k1", "5", "2020-03-01"}, {"k1", "5", "2020-07-01"}, {"k5", "0", "2020-01-01"}}}, 4, nil},
				{"plain", tidemark.Split{Kind: tidemark.SplitBounds, Columns: []string{"d"}, Bounds: [][]string{{"2020-05-05"}}}, 2,
					[]tidemark.Filter{{Column: "b", Conditions: []tidemark.Condition{{Op: "eq", Value: "k1"}, {Op: "null"}, {Op: "between", Start: "k3", End: "k5"}}}}},
				{"part", tidemark.Split{}, 4, nil},
				{"part", pieces, 0, nil},
				{"part", tidemark.Split{Kind: tidemark.SplitPartitions}, 4, nil},
				{"part", tidemark.Split{Kind: tidemark.SplitSubparts}, 4, nil},
				{"part", tidemark.Split{Kind: tidemark.SplitBounds, Columns: []string{"at", "id"}, Bounds: [][]string{{"2020-02-02", "7"}}}, 2, nil},
				{"part", tidemark.Split{Kind: tidemark.SplitNone}, 1, nil},
				{"empty", pieces, 1, nil},
				{"seen", pieces, 1, nil},
			} {
				m := move(pgtest.Table(t, url, tt.table))
				m.Split, m.Filter = tt.split, tt.filter
				ranges, err := e.Split(t.Context(), m)
				if err != nil {
					t.Errorf("%s %+v: %v", tt.table, tt.split, err)
					continue
				}
				if len(ranges) != tt.ranges && (tt.ranges != 0 || len(ranges) <= 3) {
					t.Errorf("%s %+v: %d ranges, want %d: %+v", tt.table, tt.split, len(ranges), tt.ranges, ranges)
				}
				for _, f := range []tidemark.Format{tidemark.CopyText, tidemark.CopyBinary} {
					var got []byte
					rows := 0
					for i := range ranges {
						data, n := readAll(t, e, i%2, m, &ranges[i], f)
						got, rows = append(got, data...), rows+n
					}
					where := ""
					if tt.filter != nil {
						where, _ = FilterSQL(m)
						where = " WHERE " + where
					}
					what := "(SELECT * FROM " + tt.table + where + ")"
					want := psql(t, url, what, "")
					if f == tidemark.CopyText && !bytes.Equal(sorted(got), sorted(want)) {
						t.Errorf("%s %+v: the ranges hold %d bytes, the table %d", tt.table, tt.split, len(got), len(want))
					}
					if rows != bytes.Count(want, []byte("\n")) {
						t.Errorf("%s %+v %v: the ranges hold %d rows, the table %d", tt.table, tt.split, f, rows, bytes.Count(want, []byte("\n")))
					}
				}
			}
			m := move(pgtest.Table(t, url, "part"))
			m.Split = tidemark.Split{Kind: tidemark.SplitPartitions, Parts: []string{"part_2", "public.part_rest"}}
			ranges, err := e.Split(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range ranges {
				none = append(none, r.Part.Table.Name)
			}
			if want := []string{"part_2_0", "part_2_1", "part_rest"}; !slices.Equal(none, want) {
				t.Errorf("named partitions give %v, want %v", none, want)
			}
		})
	}
}

// A leaf that is a foreign table is read too, whether Split has seen it or not.
func TestForeignLeaf(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "foreign")
	testdb.Query(t, db, `CREATE EXTENSION file_fdw; CREATE SERVER f FOREIGN DATA WRAPPER file_fdw; CREATE TABLE root (id int) PARTITION BY LIST (id);
		CREATE TABLE here PARTITION OF root DEFAULT; INSERT INTO root VALUES (2), (3);
		CREATE FOREIGN TABLE there PARTITION OF root FOR VALUES IN (1) SERVER f OPTIONS (program 'echo 1')`)
	m := move(pgtest.Table(t, db, "root"))
	ranges, err := frozen(t, db, 1).Split(t.Context(), m)
	if err != nil || len(ranges) != 2 {
		t.Fatalf("%+v, %v", ranges, err)
	}
	e := frozen(t, db, 1)
	for range 2 {
		var got []byte
		for i := range ranges {
			data, _ := readAll(t, e, 0, m, &ranges[i], tidemark.CopyText)
			got = append(got, data...)
		}
		if string(sorted(got)) != "1\n2\n3\n" {
			t.Errorf("got %q", got)
		}
		if _, err := e.Split(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
}

func TestBadSplits(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "split")
	testdb.Query(t, url, `CREATE TABLE plain (id int, p point); CREATE TABLE part (id int) PARTITION BY RANGE (id); CREATE TABLE part_1 PARTITION OF part DEFAULT`)
	e := frozen(t, url, 1)
	bounds := func(column string, values ...string) tidemark.Split {
		s := tidemark.Split{Kind: tidemark.SplitBounds, Columns: []string{column}}
		for _, v := range values {
			s.Bounds = append(s.Bounds, []string{v})
		}
		return s
	}
	for _, tt := range []struct {
		table string
		split tidemark.Split
		want  string
	}{
		{"part", tidemark.Split{Kind: tidemark.SplitPartitions, Parts: []string{"part_1", "Part 2"}}, `split public.part: there is no partition "Part 2"`},
		{"plain", tidemark.Split{Kind: tidemark.SplitPartitions}, "split public.plain: the table is not partitioned"},
		{"plain", bounds("ID", "1"), `split public.plain: there is no column "ID"`},
		{"plain", bounds("id", "5", "5"), "split public.plain: boundary 2 (5) is not above the one before it"},
		{"plain", bounds("id", "1", "9", "4"), "split public.plain: boundary 3 (4) is not above the one before it"},
		{"plain", bounds("id", "x"), `split public.plain: invalid input syntax for type integer: "x"`},
		{"plain", bounds("p", "(1,1)"), "split public.plain: operator does not exist: point <= point"},
		{"plain", tidemark.Split{Kind: tidemark.SplitBounds, Columns: []string{"id"}, Bounds: [][]string{{"1", "2"}}}, "split public.plain: a boundary has 2 values for 1 columns"},
	} {
		m := move(pgtest.Table(t, url, tt.table))
		m.Split = tt.split
		_, err := e.Split(t.Context(), m)
		if tidemark.KindOf(err) != tidemark.Invalid || err.Error() != tt.want {
			t.Errorf("%+v: %v %v, want %s", tt.split, tidemark.KindOf(err), err, tt.want)
		}
		if tidemark.HintOf(err) == "" {
			t.Errorf("%+v: no hint", tt.split)
		}
	}
	// The view has survived all of this.
	if _, rows := readAll(t, e, 0, move(pgtest.Table(t, url, "plain")), &tidemark.Range{}, tidemark.CopyText); rows != 0 {
		t.Errorf("%d rows", rows)
	}
}

// TestBlocksFollowEachOther: ranges of blocks begin where the one before ends, and the last is
// open.
func TestBlocksFollowEachOther(t *testing.T) {
	for _, blocks := range []int64{2, 3, 7, 100, 1023} {
		m := &tidemark.Move{From: &tidemark.Table{Rows: 1000}, Split: tidemark.Split{Target: 1 << 20, Max: 50}}
		ranges := (&Reader{Server: &server.Server{Major: 15}}).blocks(m, nil, heap{kind: "r", blocks: blocks, bytes: 10 << 20}, 50)
		at := int64(0)
		for i, r := range ranges {
			if r.FromBlock != at || i < len(ranges)-1 && r.ToBlock <= at || i == len(ranges)-1 && r.ToBlock != -1 {
				t.Errorf("of %d blocks, range %d of %d has %d to %d", blocks, i, len(ranges), r.FromBlock, r.ToBlock)
			}
			at = r.ToBlock
		}
		if len(ranges) < 2 {
			t.Errorf("%d ranges of %d blocks", len(ranges), blocks)
		}
	}
}
