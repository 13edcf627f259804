package enginetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/internal/escape"
)

// What engines with a log have to do as sources of streams, and those that apply changes as their
// targets. Others have no such part, and pass.

// sql executes statements, each in a transaction of its own; %s is the table.
func (s *subject) sql(db engines.Database, id tidemark.TableID, statements ...string) {
	s.Helper()
	for _, text := range statements {
		s.must(db.Exec(s.Context(), 0, []string{fmt.Sprintf(text, id)}))
	}
}

// A snapshot and the stream from its position have each row once: of rows that were written before
// the log was held, between that and the snapshot, and afterwards. Transactions come whole, in the
// order of their commits, each after the definitions of its tables.
func followed(t *testing.T, s *subject) {
	src, is := s.db.(capture.Source)
	if !is {
		return
	}
	writer := s.another()
	moves, _ := s.create("thing", "other")
	id := moves[0].To.TableID
	_, err := s.write(writer, "", &moves[0], 1, row(1), row(2))
	s.must(err)
	stream, own := s.hold(src, id)
	_, err = s.write(writer, "", &moves[0], 2, row(3))
	s.must(err)
	pos, err := s.db.Freeze(t.Context(), 1)
	s.must(err)
	if pos.Place == 0 {
		t.Fatalf("the snapshot has no place in the log: %+v", pos)
	}
	together, err := s.write(writer, "", &moves[0], 3, row(4), row(5), row(6))
	s.must(err)
	copied := s.read(s.db, 0, &own[0], &tidemark.Range{ID: 1})

	begins, err := src.Begins(t.Context(), stream, time.Now().Add(-time.Hour))
	s.must(err)
	if begins > pos.Place {
		t.Errorf("the log begins at %d, after the snapshot's place %d", begins, pos.Place)
	}
	_, err = s.write(writer, "", &moves[1], 1, row(1))
	s.must(err)
	s.sql(writer, id, "UPDATE %s SET name = NULL WHERE id = 4", "UPDATE %s SET id = 50 WHERE id = 5", "DELETE FROM %s WHERE id = 1",
		"UPDATE %s SET price = price + 1 WHERE id IN (2, 3)", "DELETE FROM %s WHERE id = 6")
	_, err = s.write(writer, "", &moves[0], 4, "1000\ttab\\tline\\nback\\\\slash 海 😀\t-0.50\t0001-01-01\t\\\\x005c0a")
	s.must(err)

	got := s.follow(src, stream, own, pos.Place)
	want := s.all(id)
	s.same("snapshot and stream", s.replay(copied, got, id), want)
	whole := func(tx *change.Tx) bool { return int64(tx.Rows) == together.Rows }
	if !slices.ContainsFunc(got, whole) {
		t.Error("no transaction has the three rows that were written together")
	}
	end, err := src.End(t.Context())
	s.must(err)
	if last := got[len(got)-1].End; end < last {
		t.Errorf("the log ends at %d, its last transaction at %d", end, last)
	}

	// It continues after any of its transactions.
	half := len(got) / 2
	rest := s.follow(src, stream, own, got[half-1].End)
	places := func(txs []*change.Tx) (out []uint64) {
		for _, tx := range txs {
			out = append(out, tx.Place)
		}
		return out
	}
	if want := places(got[half:]); !slices.Equal(places(rest), want) {
		t.Errorf("continued after %d transactions it emits %v, want %v", half, places(rest), want)
	}
}

// hold makes the source keep its log for a stream of a table, and returns the stream's name, and
// the move.
func (s *subject) hold(src capture.Source, id tidemark.TableID) (stream string, own []tidemark.Move) {
	s.Helper()
	own = []tidemark.Move{*s.own(s.db, id)}
	stream = fmt.Sprintf("conform_%d", time.Now().UnixNano()) // unique on the server
	s.must(src.Hold(s.Context(), stream, own))
	later := s.another().(capture.Source)
	s.Cleanup(func() {
		for range 2 { // whether it is held or not
			if err := later.DropHold(context.Background(), stream); err != nil {
				s.Errorf("release the log: %v", err)
			}
		}
	})
	return stream, own
}

// follow returns the transactions of a stream after a place, up to the one that inserts the row
// 1000, in one piece each.
func (s *subject) follow(src capture.Source, stream string, own []tidemark.Move, after uint64) (out []*change.Tx) {
	s.Helper()
	log, err := src.Follow(s.Context(), stream, own, after)
	s.must(err)
	defer log.Close()
	if f, ok := log.(capture.TableFilter); ok {
		f.Only(func(id tidemark.TableID) bool { return id == own[0].From.TableID })
	}
	more := false
	err = log.Run(s.Context(), func(tx *change.Tx) error {
		switch {
		case more:
			whole := out[len(out)-1]
			whole.Changes, whole.Rows, whole.End = append(whole.Changes, tx.Changes...), whole.Rows+tx.Rows, tx.End
		case tx.Rows == 0 && !tx.More:
			return nil
		default:
			out = append(out, tx)
		}
		if more = tx.More; more {
			return nil
		}
		found := false
		s.eachChange(out[len(out)-1], func(c change.Change) {
			found = found || c.Kind == tidemark.InsertChange && strings.HasPrefix(line(c.New), "1000\t")
		})
		if found {
			return errOurs
		}
		return nil
	})
	if !errors.Is(err, errOurs) {
		s.Fatalf("Run returns %v, want emit's own error", err)
	}
	if n := len(out) - 2; n >= 0 && log.Seen() < out[n].End { // emit has not taken the last one
		s.Errorf("the log is read up to %d, the last transaction but one ends at %d", log.Seen(), out[n].End)
	}
	log.Release(after) // nothing: it stays where it is
	return out
}

func (s *subject) eachChange(tx *change.Tx, do func(change.Change)) {
	s.Helper()
	for rest := tx.Changes; len(rest) > 0; {
		c, next, err := change.Next(rest)
		s.must(err)
		do(c)
		rest = next
	}
}

// replay applies transactions to the rows of a table, and returns the rows then.
func (s *subject) replay(rows []string, txs []*change.Tx, id tidemark.TableID) (lines []string) {
	s.Helper()
	key := func(line string) string { k, _, _ := strings.Cut(line, "\t"); return k }
	have := map[string]string{}
	for _, r := range rows {
		have[key(r)] = r
	}
	known := map[uint32]tidemark.TableID{}
	var end uint64
	for _, tx := range txs {
		if tx.Place < end || tx.End <= tx.Place {
			s.Errorf("a transaction at %d that ends at %d comes after one that ends at %d", tx.Place, tx.End, end)
		}
		if end = tx.End; tx.Time.IsZero() || time.Since(tx.Time).Abs() > time.Hour {
			s.Errorf("a transaction was committed at %v", tx.Time)
		}
		n := 0
		s.eachChange(tx, func(c change.Change) {
			switch c.Kind {
			case tidemark.RelationChange:
				r, err := change.ParseRelation(c.Body)
				s.must(err)
				known[r.ID] = r.Table
				return
			case tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange:
				n++
			default:
				s.Errorf("a change of kind %c", c.Kind)
				return
			}
			if known[c.Table] != id {
				s.Errorf("a change of %q, while only %s is followed", known[c.Table], id)
				return
			}
			now := line(c.New)
			was := now
			if c.Old != nil {
				was = line(c.Old)
			}
			if _, there := have[key(was)]; there == (c.Kind == tidemark.InsertChange) {
				s.Errorf("%c of %q: %q is there: %v", c.Kind, now, key(was), there)
			}
			delete(have, key(was))
			if c.New != nil {
				have[key(now)] = now
			}
		})
		if n != tx.Rows {
			s.Errorf("a transaction has %d changes and counts %d", n, tx.Rows)
		}
	}
	for _, l := range have {
		lines = append(lines, l)
	}
	slices.Sort(lines)
	return lines
}

// line is a tuple as a line of COPY text.
func line(t change.Tuple) string {
	var out []string
	for _, v := range t.Values(nil) {
		text := `\N`
		if v.Kind == change.TextValue {
			text = string(escape.Append(nil, v.Data, &escape.Copy))
		} else if v.Kind != change.NullValue {
			text = fmt.Sprintf("a value of kind %c", v.Kind)
		}
		out = append(out, text)
	}
	return strings.Join(out, "\t")
}

// tuple is a line of COPY text as a tuple. A value "=" is one that has not changed.
func tuple(line string) change.Tuple {
	var out []change.Value
	for text := range strings.SplitSeq(line, "\t") {
		switch text {
		case `\N`:
			out = append(out, change.Value{Kind: change.NullValue})
		case "=":
			out = append(out, change.Value{Kind: change.UnchangedValue})
		default:
			out = append(out, change.Value{Kind: change.TextValue, Data: escape.Undo(nil, []byte(text))})
		}
	}
	return change.AppendTuple(nil, out)
}

// An applier is a target with an empty table, and an epoch of a stream.
type applier struct {
	*subject
	apply.Target
	id    tidemark.TableID
	bound change.Bound
	epoch int64
}

const queue = "conform"

func (s *subject) applier() *applier {
	tgt, is := s.db.(apply.Target)
	if !is {
		return nil
	}
	moves, _ := s.create("thing")
	a := &applier{subject: s, Target: tgt, id: moves[0].To.TableID}
	there, err := s.db.Tables(s.Context(), []tidemark.TableID{a.id})
	s.must(err)
	rel := change.Relation{ID: 7, Table: tidemark.TableID{Schema: "elsewhere", Name: "thing"}, Identity: 'd'}
	for i, c := range there[0].Columns {
		rel.Columns = append(rel.Columns, change.RelationColumn{Name: c.Name, Key: i == 0})
		a.bound.Columns = append(a.bound.Columns, i)
	}
	a.bound.Relation, a.bound.Table = rel, there[0]
	a.begin(0)
	return a
}

// begin begins the next epoch, and compares how far the stream is applied.
func (a *applier) begin(low uint64, done ...uint64) {
	a.Helper()
	p, err := a.BeginApply(a.Context(), queue, 3)
	a.must(err)
	if p.Epoch <= a.epoch || p.Low != low || !slices.Equal(p.Done, done) {
		a.Errorf("progress %+v, want Low %d and Done %v in an epoch after %d", p, low, done, a.epoch)
	}
	a.epoch = p.Epoch
}

// group makes a group of one transaction at a place. Its changes are of the form "I row",
// "U row", "U key > row", "D key" and "T".
func (a *applier) group(low, place uint64, changes ...string) *change.Group {
	tx := &change.Tx{Place: place, End: place + 5, Time: time.Now(), Changes: change.Append(nil, a.bound.Relation.Append(nil))}
	id := a.bound.Relation.ID
	for _, c := range changes {
		kind, row, _ := strings.Cut(c, " ")
		message := binary.BigEndian.AppendUint32([]byte(kind), id)
		old, now, moved := strings.Cut(row, " > ")
		switch {
		case kind == "T":
			message = change.Truncation{Tables: []uint32{id}}.Append(nil)
		case kind == "D":
			message = append(append(message, 'K'), tuple(row+strings.Repeat("\t\\N", len(a.bound.Columns)-1))...)
		case moved:
			message = append(append(message, 'K'), tuple(old+strings.Repeat("\t\\N", len(a.bound.Columns)-1))...)
			message = append(append(message, 'N'), tuple(now)...)
		default:
			message = append(append(message, 'N'), tuple(row)...)
		}
		tx.Changes = change.Append(tx.Changes, message)
		tx.Rows++
	}
	return &change.Group{Queue: queue, Epoch: a.epoch, Txs: []*change.Tx{tx}, Low: low, Done: []uint64{place},
		Bounds: []map[uint32]*change.Bound{{id: &a.bound}}}
}

func (a *applier) apply(low, place uint64, changes ...string) error {
	return a.Apply(a.Context(), a.group(low, place, changes...))
}

// Changes arrive as they are in the group, and their progress with them.
func applied(t *testing.T, s *subject) {
	a := s.applier()
	if a == nil {
		return
	}
	odd := "3\ttab\\tline\\nback\\\\slash\\rend O'Hara \"ü\" 海 😀\t-1234567890.12\t0001-01-01\t\\\\x00ff5c0a0927"
	s.must(a.apply(0, 100, "I "+row(1), "I "+row(2), "I "+odd, "I 4\t\\N\t\\N\t\\N\t\\N", "I 5\t\t0.00\t9999-12-31\t\\\\x"))
	s.same("inserted", s.all(a.id), []string{row(1), row(2), odd, "4\t\\N\t\\N\t\\N\t\\N", "5\t\t0.00\t9999-12-31\t\\\\x"})
	a.begin(0, 100)
	s.must(a.apply(0, 200, "U 1 > 10\tmoved\t1.00\t2024-01-01\t\\N", "D 2", "U 3\t=\t7.25\t\\N\t=", "U "+row(4), "D 5", "I "+row(5)))
	moved := []string{"10\tmoved\t1.00\t2024-01-01\t\\N", strings.Replace(odd, "-1234567890.12\t0001-01-01", "7.25\t\\N", 1), row(4), row(5)}
	s.same("changed", s.all(a.id), moved)
	a.begin(0, 100, 200)
	s.must(a.apply(200, 300, "T", "I "+row(9)))
	s.same("truncated", s.all(a.id), []string{row(9)})
	a.begin(200, 300)
	s.must(a.Apply(t.Context(), &change.Group{Queue: queue, Epoch: a.epoch, Low: 400})) // nothing comes: only how far the log is
	a.begin(400)
}

// A change that does not fit ends its group, of which nothing is left, nor of its progress.
func unfit(t *testing.T, s *subject) {
	a := s.applier()
	if a == nil {
		return
	}
	s.must(a.apply(0, 100, "I "+row(1), "I "+row(2)))
	for _, last := range []string{"U " + row(99), "D 99", "I " + row(1), "U 99 > " + row(7), "I 8\tname\tmany\t2024-01-01\t\\N",
		"I 8\t" + strings.Repeat("long", 30) + "\t1.00\t2024-01-01\t\\N", "I 8\tname\t12345678901.00\t2024-01-01\t\\N"} {
		if err := a.apply(0, 200, "I "+row(3), "U 2\tother\t1.00\t2024-01-01\t\\N", "D 1", "I "+row(1), last); tidemark.KindOf(err) != tidemark.BadRow {
			t.Errorf("%q: %v, want an error of Kind BadRow", last, err)
		}
		s.same("after "+last, s.all(a.id), []string{row(1), row(2)})
	}
	a.begin(0, 100)
	s.must(a.apply(0, 200, "I "+row(3)))
}

// A new epoch fences those before: what they send late changes nothing.
func fenced(t *testing.T, s *subject) {
	a := s.applier()
	if a == nil {
		return
	}
	s.must(a.apply(0, 100, "I "+row(1)))
	late := a.group(0, 200, "I "+row(2))
	next := s.another().(apply.Target)
	p, err := next.BeginApply(t.Context(), queue, 3)
	s.must(err)
	if err := a.Apply(t.Context(), late); tidemark.KindOf(err) != tidemark.Lost {
		t.Errorf("a fenced epoch applies: %v, want an error of Kind Lost", err)
	}
	s.same("rows", s.all(a.id), []string{row(1)})
	other, err := next.BeginApply(t.Context(), "beside", 3) // a stream of its own
	s.must(err)
	if other.Low != 0 || len(other.Done) > 0 {
		t.Errorf("another stream is applied up to %+v", other)
	}
	late.Epoch = p.Epoch
	s.must(next.Apply(t.Context(), late))
	s.same("rows", s.all(a.id), []string{row(1), row(2)})
}

// Agents apply side by side, and what each has done is known afterwards.
func sideBySide(t *testing.T, s *subject) {
	a := s.applier()
	if a == nil {
		return
	}
	const agents, each = 3, 20
	errs := make(chan error, agents)
	var want []string
	var places []uint64
	for n := range agents {
		var groups []*change.Group
		var done []uint64
		for i := range each {
			k := n + i*agents + 1
			place := uint64(k * 10)
			want, places, done = append(want, row(k)), append(places, place), append(done, place)
			g := a.group(0, place, "I "+row(k))
			g.Agent, g.Done = n, slices.Clone(done)
			groups = append(groups, g)
		}
		crash.Go(func() {
			for _, g := range groups {
				if err := a.Apply(t.Context(), g); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		})
	}
	for range agents {
		s.must(<-errs)
	}
	s.same("rows", s.all(a.id), want)
	slices.Sort(places)
	a.begin(0, places...)
}
