// Package enginetest is what every engine has to do as the source and target of copies and, if it
// has these parts, of streams, tested by behaviour: the sentences of load.Source, load.Target,
// load.Ledger, engines.Destination, capture.Source and apply.Target. A new engine runs it first.
package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/mapping"
)

// Run runs the suite. fresh makes an empty database, and returns a function that opens it: each
// call is a process of its own, as far as the server can tell.
func Run(t *testing.T, fresh func(t *testing.T) (open func() engines.Database)) {
	for _, x := range []struct {
		name string
		test func(t *testing.T, s *subject)
	}{
		{"Definitions", definitions}, {"Values", values}, {"Split", split}, {"Empty", empty}, {"View", view}, {"Emit", emitFails},
		{"Take", takeFails}, {"Rejected", rejected}, {"Marks", marks}, {"Claims", claims}, {"Clear", clearing},
		{"Follow", followed}, {"Apply", applied}, {"Unfit", unfit}, {"Fenced", fenced}, {"SideBySide", sideBySide},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := &subject{T: t, open: fresh(t)}
			s.db = s.another()
			x.test(t, s)
		})
	}
}

// A subject is a database under test.
type subject struct {
	*testing.T
	open func() engines.Database
	db   engines.Database
}

func (s *subject) another() engines.Database {
	db := s.open()
	s.Cleanup(func() { _ = db.Close() }) // it may be closed already
	return db
}

func (s *subject) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// thing is a table with a column of each kind that every engine has.
func thing(name string) *tidemark.Table {
	return &tidemark.Table{TableID: tidemark.TableID{Schema: "elsewhere", Name: name}, Rows: -1,
		Columns: []tidemark.Column{
			{Name: "id", Type: tidemark.Type{Kind: tidemark.Int, Bits: 64}, NotNull: true},
			{Name: "name", Type: tidemark.Type{Kind: tidemark.Varchar, Length: 100}},
			{Name: "price", Type: tidemark.Type{Kind: tidemark.Decimal, Precision: 12, Scale: 2}},
			{Name: "day", Type: tidemark.Type{Kind: tidemark.Date}},
			{Name: "raw", Type: tidemark.Type{Kind: tidemark.Varbinary, Length: 20}},
		},
		Key: &tidemark.Index{Name: name + "_pkey", Parts: []tidemark.IndexPart{{Column: "id"}}, Unique: true},
	}
}

// create creates tables that another engine has described, and returns their moves.
func (s *subject) create(names ...string) (moves []tidemark.Move, objects []tidemark.Object) {
	s.Helper()
	db := &tidemark.Database{Engine: "other"}
	for _, n := range names {
		db.Tables = append(db.Tables, thing(n))
	}
	moves, _, err := mapping.All().Apply(db, mapping.Defaults{Translated: true, Schema: func(string) string { return s.db.Default() }})
	s.must(err)
	if len(moves) != len(names) {
		s.Fatalf("%d moves of %d tables", len(moves), len(names))
	}
	slices.SortFunc(moves, func(a, b tidemark.Move) int {
		return slices.Index(names, a.From.Name) - slices.Index(names, b.From.Name)
	})
	objects, findings := s.db.Render(db, moves)
	for _, f := range findings {
		if f.Severity == tidemark.Blocker {
			s.Fatalf("%s: %s", f.Object, f.Text)
		}
	}
	for _, phase := range []tidemark.Phase{tidemark.BeforeRows, tidemark.AfterTable, tidemark.AfterRows} {
		for _, o := range objects {
			if o.Phase == phase {
				s.must(s.db.Exec(s.Context(), 0, o.SQL))
			}
		}
	}
	return moves, objects
}

// own returns the move by which a table is read as the engine describes it.
func (s *subject) own(db engines.Database, id tidemark.TableID) *tidemark.Move {
	s.Helper()
	described, err := db.Describe(s.Context(), func(x tidemark.TableID) bool { return x == id })
	s.must(err)
	if len(described.Tables) != 1 || described.Tables[0].TableID != id {
		s.Fatalf("%d tables described, want %s alone", len(described.Tables), id)
	}
	t := described.Tables[0]
	m := &tidemark.Move{From: t, To: t}
	for _, c := range t.Stored() {
		m.Source = append(m.Source, c.Name)
	}
	return m
}

// write writes lines of COPY text as a range of a run.
func (s *subject) write(db engines.Database, run string, m *tidemark.Move, id int, lines ...string) (tidemark.Written, error) {
	w := tidemark.Write{Run: run, Move: m, Range: &tidemark.Range{ID: id}}
	return db.Write(s.Context(), 0, w, batches(w.Range, nil, lines...))
}

// batches gives lines, a batch each, and then the last one; or instead of that an error.
func batches(r *tidemark.Range, err error, lines ...string) func() (*tidemark.Batch, error) {
	return func() (*tidemark.Batch, error) {
		b := tidemark.NewBatch(r, tidemark.CopyText)
		if len(lines) == 0 {
			b.Last = true
			if err != nil {
				b.Release()
				return nil, err
			}
			return b, nil
		}
		b.Data, b.Rows = append(append(b.Data, lines[0]...), '\n'), 1+strings.Count(lines[0], "\n")
		lines = lines[1:]
		return b, nil
	}
}

// read returns the lines of a range, in COPY text.
func (s *subject) read(db engines.Database, lane int, m *tidemark.Move, r *tidemark.Range) (lines []string) {
	s.Helper()
	var data []byte
	rows, last := 0, 0
	s.must(db.Read(s.Context(), lane, tidemark.Read{Move: m, Range: r}, func(b *tidemark.Batch) error {
		if last > 0 {
			s.Error("a batch after the last one")
		}
		data, rows = append(data, b.Data...), rows+b.Rows
		if b.Last {
			last++
		}
		b.Release()
		return nil
	}))
	for line := range bytes.Lines(data) {
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
	}
	if last != 1 || rows != len(lines) {
		s.Errorf("%d last batches, %d rows counted, %d read", last, rows, len(lines))
	}
	return lines
}

// all returns the rows of a table as a new process finds them, in order.
func (s *subject) all(id tidemark.TableID) (lines []string) {
	s.Helper()
	db := s.another()
	defer db.Close()
	_, err := db.Freeze(s.Context(), 1)
	s.must(err)
	m := s.own(db, id)
	ranges, err := db.Split(s.Context(), m)
	s.must(err)
	for i := range ranges {
		lines = append(lines, s.read(db, 0, m, &ranges[i])...)
	}
	if len(ranges) > len(lines)+10 {
		s.Errorf("%d ranges of %d rows", len(ranges), len(lines))
	}
	slices.Sort(lines)
	return lines
}

func (s *subject) same(what string, got, want []string) {
	s.Helper()
	want = slices.Clone(want)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.Errorf("%s\ngot  %q\nwant %q", what, got, want)
	}
}

func (s *subject) inspect(id tidemark.TableID) tidemark.TableState {
	s.Helper()
	states, err := s.db.Inspect(s.Context(), []tidemark.TableID{id})
	s.must(err)
	if len(states) != 1 || states[0].Table != id {
		s.Fatalf("the state of %v is asked for, and %+v returned", id, states)
	}
	return states[0]
}

// Tables come into being as they were described, and show what they are.
func definitions(t *testing.T, s *subject) {
	id := tidemark.TableID{Schema: s.db.Default(), Name: "thing"}
	if st := s.inspect(id); st.Exists || st.Rows {
		t.Errorf("before it is created: %+v", st)
	}
	moves, objects := s.create("thing", "other")
	if st := s.inspect(id); !st.Exists || st.Rows {
		t.Errorf("created: %+v", st)
	}
	for _, o := range objects {
		if o.Kind == "table" {
			if err := s.db.Exec(t.Context(), 0, o.SQL); tidemark.KindOf(err) != tidemark.Exists {
				t.Errorf("%s made again: %v, want an error of Kind Exists", o.ID, err)
			}
		}
	}
	_, err := s.write(s.db, "", &moves[0], 1, row(1))
	s.must(err)
	if st := s.inspect(id); !st.Exists || !st.Rows {
		t.Errorf("with a row: %+v", st)
	}
	db := s.another()
	_, err = db.Freeze(t.Context(), 1)
	s.must(err)
	is := s.own(db, id).From
	want := thing("thing")
	if len(is.Columns) != len(want.Columns) || is.Key == nil || !slices.Equal(is.Key.Columns(), []string{"id"}) {
		t.Fatalf("described as %+v", is)
	}
	for i, c := range is.Columns {
		if w := want.Columns[i]; c.Name != w.Name || c.NotNull != w.NotNull {
			t.Errorf("column %d is %+v, want %+v", i+1, c, w)
		}
	}
	if c := is.Columns[2].Type; c.Kind != tidemark.Decimal || c.Precision != 12 || c.Scale != 2 {
		t.Errorf("a decimal is described as %+v", c)
	}
	there, err := s.db.Tables(t.Context(), []tidemark.TableID{id, {Schema: id.Schema, Name: "missing"}})
	s.must(err)
	if len(there) != 1 || there[0].TableID != id {
		t.Errorf("Tables: %d, want the one that exists", len(there))
	}
	defined, err := s.db.Defined(t.Context(), []tidemark.TableID{id})
	s.must(err)
	if len(defined.Tables) != 1 || engine.Family(defined.Engine) != engine.Family(s.db.Name()) {
		t.Errorf("Defined: %d tables of %s", len(defined.Tables), defined.Engine)
	}
}

func row(id int) string { return fmt.Sprintf("%d\tname %d\t%d.50\t2024-02-29\t\\\\x00ff", id, id, id) }

// Values arrive as they were.
func values(t *testing.T, s *subject) {
	moves, _ := s.create("thing")
	lines := []string{
		"1\t\\N\t\\N\t\\N\t\\N",
		"2\t\t0.00\t1970-01-01\t\\\\x",
		"3\ttab\\tline\\nback\\\\slash\\rend\t-1234567890.12\t0001-01-01\t\\\\x00ff5c0a0927",
		"4\tO'Hara \"ü\" 海 😀 \\\\N\t9999999999.99\t9999-12-31\t\\\\x00000000000000000000",
		"9223372036854775807\t  blanks  \t1.00\t2000-02-29\t\\\\x20",
		"-9223372036854775808\tNULL\t-0.01\t1999-12-31\t\\\\x5c4e",
	}
	done, err := s.write(s.db, "", &moves[0], 1, lines...)
	s.must(err)
	if done.Rows != int64(len(lines)) || done.Rejected != 0 || done.Method == "" {
		t.Errorf("written: %+v", done)
	}
	s.same("values", s.all(moves[0].To.TableID), lines)
}

// Ranges, read side by side, have each row once.
func split(t *testing.T, s *subject) {
	moves, _ := s.create("thing")
	var lines []string
	for i := range 2000 {
		lines = append(lines, row(i*3-1000))
	}
	_, err := s.write(s.db, "", &moves[0], 1, strings.Join(lines, "\n"))
	s.must(err)
	_, err = s.db.Freeze(t.Context(), 2)
	s.must(err)
	m := s.own(s.db, moves[0].To.TableID)
	m.Split = tidemark.Split{Target: 1, Max: 7}
	ranges, err := s.db.Split(t.Context(), m)
	s.must(err)
	if len(ranges) == 0 || len(ranges) > 7 {
		t.Errorf("%d ranges", len(ranges))
	}
	parts := make([][]string, 2)
	done := make(chan bool)
	for lane := range 2 {
		crash.Go(func() {
			defer func() { done <- true }()
			for i := lane; i < len(ranges); i += 2 {
				parts[lane] = append(parts[lane], s.read(s.db, lane, m, &ranges[i])...)
			}
		})
	}
	<-done
	<-done
	got := slices.Concat(parts...)
	slices.Sort(got)
	s.same("two lanes", got, lines)
}

// An empty table has ranges too, with a last batch each.
func empty(t *testing.T, s *subject) {
	moves, _ := s.create("thing")
	if got := s.all(moves[0].To.TableID); len(got) > 0 {
		t.Errorf("rows of an empty table: %q", got)
	}
	done, err := s.write(s.db, "", &moves[0], 1)
	if err != nil || done.Rows != 0 {
		t.Errorf("no rows written: %+v, %v", done, err)
	}
}

// All lanes see the database as it was when they were opened: later rows either wait until they are
// closed, or are not seen.
func view(t *testing.T, s *subject) {
	moves, _ := s.create("thing")
	_, err := s.write(s.db, "", &moves[0], 1, row(1), row(2))
	s.must(err)
	reader := s.another()
	pos, err := reader.Freeze(t.Context(), 2)
	s.must(err)
	if engine.Family(pos.Engine) != engine.Family(reader.Name()) {
		t.Errorf("the position is of %q, the database of %q", pos.Engine, reader.Name())
	}
	m := s.own(reader, moves[0].To.TableID)
	written := make(chan error, 1)
	crash.Go(func() {
		_, err := s.write(s.db, "", &moves[0], 2, row(3))
		written <- err
	})
	for lane := range 2 {
		got := s.read(reader, lane, m, &tidemark.Range{ID: 1})
		slices.Sort(got)
		s.same(fmt.Sprintf("lane %d", lane), got, []string{row(1), row(2)})
	}
	s.must(reader.Close())
	s.must(<-written)
	s.same("afterwards", s.all(moves[0].To.TableID), []string{row(1), row(2), row(3)})
}

var errOurs = errors.New("an error of the caller's")

// The caller's error ends a read, and comes back as it is.
func emitFails(t *testing.T, s *subject) {
	moves, _ := s.create("thing")
	_, err := s.write(s.db, "", &moves[0], 1, row(1))
	s.must(err)
	_, err = s.db.Freeze(t.Context(), 1)
	s.must(err)
	m := s.own(s.db, moves[0].To.TableID)
	err = s.db.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{ID: 1}}, func(b *tidemark.Batch) error {
		b.Release()
		return errOurs
	})
	if err != errOurs {
		t.Errorf("Read returns %v, want emit's own error", err)
	}
	s.same("the same lane afterwards", s.read(s.db, 0, m, &tidemark.Range{ID: 1}), []string{row(1)})
}

// The caller's error ends a transaction, of which nothing is left, and comes back as it is.
func takeFails(t *testing.T, s *subject) {
	moves, _ := s.create("thing")
	s.must(s.db.Begin(t.Context(), "run"))
	w := tidemark.Write{Run: "run", Move: &moves[0], Range: &tidemark.Range{ID: 1}}
	if _, err := s.db.Write(t.Context(), 0, w, batches(w.Range, errOurs, row(1), row(2))); err != errOurs {
		t.Errorf("Write returns %v, want take's own error", err)
	}
	s.same("rows", s.all(moves[0].To.TableID), nil)
	s.marked("run")
	_, err := s.write(s.db, "run", &moves[0], 1, row(1))
	s.must(err)
	s.same("the same lane afterwards", s.all(moves[0].To.TableID), []string{row(1)})
	s.marked("run", tidemark.Mark{Range: 1, Rows: 1})
}

// A row that the table does not take is given back as it came; the others are written. If nobody
// takes it back, nothing is written.
func rejected(t *testing.T, s *subject) {
	moves, _ := s.create("thing")
	const bad = "2\tname\tmany\t2024-01-01\t\\N"
	var back []string
	w := tidemark.Write{Move: &moves[0], Range: &tidemark.Range{ID: 1}, Reject: func(row []byte, reason string) error {
		if reason == "" {
			t.Error("a row without a reason")
		}
		back = append(back, strings.TrimSuffix(string(row), "\n"))
		return nil
	}}
	done, err := s.db.Write(t.Context(), 0, w, batches(w.Range, nil, row(1), bad, row(3)))
	s.must(err)
	if done.Rows != 2 || done.Rejected != 1 {
		t.Errorf("written: %+v", done)
	}
	s.same("rejected", back, []string{bad})
	s.same("rows", s.all(moves[0].To.TableID), []string{row(1), row(3)})
	if _, err := s.write(s.db, "", &moves[0], 2, row(4), bad); tidemark.KindOf(err) != tidemark.BadRow {
		t.Errorf("%v, want an error of Kind BadRow", err)
	}
	s.same("rows", s.all(moves[0].To.TableID), []string{row(1), row(3)})
	w.Reject = func([]byte, string) error { return errOurs }
	if _, err := s.db.Write(t.Context(), 0, w, batches(w.Range, nil, row(5), bad)); err != errOurs {
		t.Errorf("Write returns %v, want Reject's own error", err)
	}
	s.same("rows", s.all(moves[0].To.TableID), []string{row(1), row(3)})
}

func (s *subject) marked(run string, want ...tidemark.Mark) {
	s.Helper()
	db := s.another()
	defer db.Close()
	got, err := db.Marks(s.Context(), run)
	s.must(err)
	slices.SortFunc(got, func(a, b tidemark.Mark) int { return a.Range - b.Range })
	if !slices.Equal(got, want) {
		s.Errorf("marks of %s: %v, want %v", run, got, want)
	}
}

// Marks are there with their rows, and go away as asked.
func marks(t *testing.T, s *subject) {
	s.marked("nobody")
	moves, _ := s.create("thing")
	for range 2 {
		s.must(s.db.Begin(t.Context(), "run"))
	}
	s.must(s.db.Begin(t.Context(), "beside"))
	for id := 1; id <= 3; id++ {
		_, err := s.write(s.db, "run", &moves[0], id, row(id))
		s.must(err)
	}
	_, err := s.write(s.db, "beside", &moves[0], 1, row(4), row(5))
	s.must(err)
	s.marked("run", tidemark.Mark{Range: 1, Rows: 1}, tidemark.Mark{Range: 2, Rows: 1}, tidemark.Mark{Range: 3, Rows: 1})
	s.marked("beside", tidemark.Mark{Range: 1, Rows: 2})
	s.must(s.db.Forget(t.Context(), "run", []int{1, 3}))
	s.marked("run", tidemark.Mark{Range: 2, Rows: 1})
	s.must(s.db.Forget(t.Context(), "run", nil))
	s.marked("run")
	s.marked("beside", tidemark.Mark{Range: 1, Rows: 2})
	s.must(s.db.Forget(t.Context(), "beside", nil))
	described, err := s.another().Describe(t.Context(), nil)
	s.must(err)
	for _, x := range described.Tables {
		if x.TableID.Name != "thing" && !x.TableID.Ours() {
			t.Errorf("%s is left", x.TableID)
		}
	}
}

// Two runs that claim one table see each other, and whether the other one lives.
func claims(t *testing.T, s *subject) {
	moves, _ := s.create("thing")
	tables := []tidemark.TableID{moves[0].To.TableID}
	take := func(c tidemark.Claim, renewed int, want ...tidemark.Claimant) {
		t.Helper()
		others, again, err := c.Take(t.Context(), tables)
		s.must(err)
		if !slices.Equal(others, want) || again != renewed {
			t.Errorf("others %+v, %d renewed; want %+v, %d", others, again, want, renewed)
		}
	}
	begin := func(run string) tidemark.Claim {
		c, err := s.another().Claim(t.Context(), run)
		s.must(err)
		return c
	}
	one := begin("one")
	take(one, 0)
	take(one, 1)
	two := begin("two")
	take(two, 0, tidemark.Claimant{Run: "one", Table: tables[0], Live: true})
	s.must(two.Drop(t.Context()))
	one.Close()
	three := begin("three")
	take(three, 0, tidemark.Claimant{Run: "one", Table: tables[0]})
	s.must(three.Release(t.Context(), "one", tables))
	take(three, 1)
	three.Close()
	three = begin("three")
	take(three, 1)
	three.Close()
	s.must(s.db.DropClaim(t.Context(), "three"))
	take(begin("four"), 0)
}

// Tables are emptied and dropped together.
func clearing(t *testing.T, s *subject) {
	moves, _ := s.create("thing", "other")
	var ids []tidemark.TableID
	for i := range moves {
		ids = append(ids, moves[i].To.TableID)
		_, err := s.write(s.db, "", &moves[i], i+1, row(1))
		s.must(err)
	}
	s.must(s.db.Clear(t.Context(), ids, false))
	for _, id := range ids {
		if st := s.inspect(id); !st.Exists || st.Rows {
			t.Errorf("%s emptied: %+v", id, st)
		}
	}
	s.must(s.db.Clear(t.Context(), ids, true))
	for _, id := range ids {
		if st := s.inspect(id); st.Exists {
			t.Errorf("%s dropped: %+v", id, st)
		}
	}
}
