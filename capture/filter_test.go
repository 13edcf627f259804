package capture

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// filtered returns a table of which rows with 10 <= a <= 20 or without an a, and b = 'x', are sent.
func filtered() tidemark.Move {
	t := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "t"}, Collation: "utf8mb4_bin", Columns: []tidemark.Column{
		{Name: "id", Type: tidemark.Type{Kind: tidemark.Int, Bits: 32, Native: "integer"}},
		{Name: "a", Type: tidemark.Type{Kind: tidemark.Int, Bits: 32, Native: "integer"}},
		{Name: "b", Type: tidemark.Type{Kind: tidemark.Text, Native: "text"}},
		{Name: "c", Type: tidemark.Type{Kind: tidemark.Text, Native: "text"}},
	}}
	return tidemark.Move{From: t, Filter: []tidemark.Filter{
		{Column: "a", Conditions: []tidemark.Condition{{Op: "between", Start: "10", End: "20"}, {Op: "null"}}},
		{Column: "b", Conditions: []tidemark.Condition{{Op: "eq", Value: "x"}}}}}
}

// A row is a row of the table; "" is NULL.
type row struct{ id, a, b, c string }

func (r row) inside() bool {
	n, err := strconv.Atoi(r.a)
	return (r.a == "" || err == nil && n >= 10 && n <= 20) && r.b == "x"
}

func value(s string) change.Value {
	if s == "" {
		return change.Value{Kind: change.NullValue}
	}
	return change.Value{Kind: change.TextValue, Data: []byte(s)}
}

func (r row) values() []change.Value {
	return []change.Value{value(r.a), value(r.id), value(r.b), value(r.c)} // in another order than in the table
}

// A logger writes changes like an engine's log.
type logger struct {
	engine string // mysql, full or key: PostgreSQL with all columns as the identity, or with the filter's columns in it
	rnd    *rand.Rand
}

func (l logger) relation(id uint32) change.Relation {
	key := l.engine != "mysql"
	r := change.Relation{ID: id, Table: tidemark.TableID{Schema: "s", Name: "t"}, Identity: 'd', Columns: []change.RelationColumn{{Name: "a", Key: key}, {Name: "id", Key: true}, {Name: "b", Key: key}, {Name: "c", Key: l.engine == "full"}}}
	if l.engine == "full" {
		r.Identity = 'f'
	}
	return r
}

// old appends the row before a change as the engine logs it.
func (l logger) old(m []byte, was, is *row) []byte {
	whole := l.engine == "full" || l.engine == "mysql" && (is == nil || was.a != is.a || was.b != is.b)
	switch {
	case whole:
		return change.AppendTuple(append(m, 'O'), was.values())
	case is != nil && was.id == is.id && (l.engine == "mysql" || was.a == is.a && was.b == is.b):
		return m
	}
	vals := was.values()
	vals[3] = value("")
	if l.engine == "mysql" {
		vals[0], vals[2] = value(""), value("")
	}
	return change.AppendTuple(append(m, 'K'), vals)
}

func (l logger) change(id uint32, was, is *row) []byte {
	kind := tidemark.UpdateChange
	switch {
	case was == nil:
		kind = tidemark.InsertChange
	case is == nil:
		kind = tidemark.DeleteChange
	}
	m := []byte{byte(kind), 0, 0, 0, byte(id)}
	if was != nil {
		m = l.old(m, was, is)
	}
	if is != nil {
		vals := is.values()
		if was != nil && was.c == is.c && l.engine == "full" && l.rnd.IntN(2) == 0 {
			vals[3] = change.Value{Kind: change.UnchangedValue}
		}
		m = change.AppendTuple(append(m, 'N'), vals)
	}
	return m
}

// follow applies changes to rows, and is strict about which rows must exist.
func follow(t *testing.T, rows map[string]row, changes []byte) (n int) {
	t.Helper()
	for len(changes) > 0 {
		c, rest, err := change.Next(changes)
		if err != nil {
			t.Fatal(err)
		}
		changes = rest
		if c.Table != 1 {
			if c.Table == 2 && c.Kind != tidemark.RelationChange {
				n++
			}
			continue
		}
		text := func(v change.Value) string { return string(v.Data) }
		news, olds := c.New.Values(nil), c.Old.Values(nil)
		switch c.Kind {
		case tidemark.DeleteChange:
			n++
			if _, ok := rows[text(olds[1])]; !ok {
				t.Fatalf("a row %s is deleted that is not there", olds[1].Data)
			}
			delete(rows, text(olds[1]))
		case tidemark.InsertChange, tidemark.UpdateChange:
			n++
			is := row{text(news[1]), text(news[0]), text(news[2]), text(news[3])}
			at := is.id
			if olds != nil {
				at = text(olds[1])
			}
			was, ok := rows[at]
			if ok == (c.Kind == tidemark.InsertChange) {
				t.Fatalf("%c of a row %s that is there: %v", c.Kind, at, ok)
			}
			if news[3].Kind == change.UnchangedValue {
				if !ok {
					t.Fatalf("a row %s is inserted that is not told whole", at)
				}
				is.c = was.c
			}
			delete(rows, at)
			rows[is.id] = is
		}
	}
	return n
}

// TestFilter compares the result of a filtered stream with the rows that pass the filter, for the
// logs of all engines, over random transactions.
func TestFilter(t *testing.T) {
	for _, engine := range []string{"mysql", "full", "key"} {
		t.Run(engine, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 1))
			l := logger{engine, rnd}
			family := map[bool]string{true: "mysql", false: "postgres"}[engine == "mysql"]
			f, err := NewFilter(family, []tidemark.Move{filtered()})
			if err != nil {
				t.Fatal(err)
			}
			source, target := map[string]row{}, map[string]row{}
			next := 0
			random := func() row {
				next++
				return row{fmt.Sprint(next), []string{"", fmt.Sprint(rnd.IntN(30)), "10", "20"}[rnd.IntN(4)], []string{"x", "y", ""}[rnd.IntN(3)], strings.Repeat("c", rnd.IntN(20))}
			}
			for i := range 3000 {
				tx := &change.Tx{}
				add := func(m []byte) { tx.Changes = change.Append(tx.Changes, m) }
				if i%100 == 0 {
					add(l.relation(1).Append(nil))
					other := l.relation(2)
					other.Table.Name = "other"
					add(other.Append(nil))
				}
				for range rnd.IntN(8) {
					if rnd.IntN(5) == 0 {
						is := random()
						add(l.change(2, nil, &is))
						tx.Rows++
					}
					var was *row
					for _, r := range source { // any
						was = &r
						break
					}
					is := random()
					switch rnd.IntN(4) {
					case 0:
						was = nil
					case 1, 2:
						if was != nil && rnd.IntN(4) > 0 {
							is.id = was.id
						}
						if was != nil && rnd.IntN(3) == 0 {
							is.a, is.b = was.a, was.b
						}
						if was != nil && rnd.IntN(3) == 0 {
							is.c = was.c
						}
					default:
						if was == nil || rnd.IntN(2) == 0 { // so that their number grows
							continue
						}
						add(l.change(1, was, nil))
						tx.Rows++
						delete(source, was.id)
						continue
					}
					add(l.change(1, was, &is))
					tx.Rows++
					if was != nil {
						delete(source, was.id)
					}
					source[is.id] = is
				}
				if err := f.Pass(t.Context(), tx); err != nil {
					t.Fatal(err)
				}
				if n := follow(t, target, tx.Changes); n != tx.Rows {
					t.Fatalf("%d changes are left, and %d are reported", n, tx.Rows)
				}
			}
			want := maps.Clone(source)
			maps.DeleteFunc(want, func(_ string, r row) bool { return !r.inside() })
			if len(want) < 20 || !maps.Equal(want, target) {
				t.Errorf("%d rows are there, and %d should be, of %d", len(target), len(want), len(source))
			}
		})
	}
}

// TestFilterUntold expects an error if the log contains too little.
func TestFilterUntold(t *testing.T) {
	in, out := row{"1", "15", "x", "c"}, row{"1", "30", "x", "c"}
	moved := row{"2", "15", "x", "c"}
	unchanged := change.AppendTuple(append([]byte{'U', 0, 0, 0, 1}, 'N'), []change.Value{{Kind: change.UnchangedValue}, value("1"), value("x"), value("c")})
	partial := func() []byte {
		m := change.AppendTuple([]byte{'U', 0, 0, 0, 1, 'K'}, out.values())
		return change.AppendTuple(append(m, 'N'), []change.Value{value("15"), value("1"), value("x"), {Kind: change.UnchangedValue}})
	}
	keyed := logger{engine: "key"}.relation(1)
	byID := logger{engine: "mysql"}.relation(1)
	renamed := logger{engine: "key"}.relation(1)
	renamed.Columns[0].Name = "z"
	for _, x := range []struct {
		name, family string
		rel          change.Relation
		message      []byte
		want         string
	}{
		{"an update that tells no old row", "postgres", byID, logger{engine: "mysql"}.change(1, &in, &in), "does not have what column a"},
		{"a key that does not have the column", "postgres", byID, logger{engine: "mysql"}.change(1, &in, &moved), "does not have what column a"},
		{"a delete by a key that does not have it", "postgres", byID, change.AppendTuple([]byte{'D', 0, 0, 0, 1, 'K'}, in.values()), "does not have what column a"},
		{"a delete by a key, from MySQL", "mysql", byID, change.AppendTuple([]byte{'D', 0, 0, 0, 1, 'K'}, in.values()), "does not have what column a"},
		{"a value out of line", "postgres", keyed, unchanged, "does not have what column a"},
		{"a value that the image has not", "mysql", byID, unchanged, "does not have what column a"},
		{"a row that comes without a value", "postgres", keyed, partial(), "an update moved a row into the row filter"},
		{"a column that is gone", "postgres", renamed, nil, "uses a, which the log does not have"},
		{"a value of another type", "mysql", byID, logger{engine: "mysql"}.change(1, nil, &row{"1", "abc", "x", ""}), "not in the form of the type"},
	} {
		f, err := NewFilter(x.family, []tidemark.Move{filtered()})
		if err != nil {
			t.Fatal(err)
		}
		tx := &change.Tx{Changes: change.Append(nil, x.rel.Append(nil))}
		if x.message != nil {
			tx.Changes = change.Append(tx.Changes, x.message)
		}
		again := &change.Tx{Changes: append([]byte(nil), tx.Changes...), Rows: 1}
		err = f.Pass(t.Context(), tx)
		if tidemark.KindOf(err) != tidemark.Unsupported || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), "s.t") {
			t.Errorf("%s: %v", x.name, err)
		}
		// Once the table is stopped, what other tables may depend on passes.
		f.Only(func(tidemark.TableID) bool { return false })
		left := 0
		if x.message == nil || tidemark.ChangeKind(x.message[0]) != tidemark.InsertChange {
			left = 1
		}
		if err := f.Pass(t.Context(), again); err != nil || again.Rows != left {
			t.Errorf("%s, stopped: %v, %d rows", x.name, err, again.Rows)
		}
	}
}

// TestFilterRefused expects errors that name what cannot be compared as the source does it.
func TestFilterRefused(t *testing.T) {
	column := func(kind tidemark.TypeKind, native string) tidemark.Column {
		return tidemark.Column{Name: "c", Type: tidemark.Type{Kind: kind, Native: native, Bits: 32, Precision: 5, Scale: 2, Length: 3}}
	}
	coll := func(c tidemark.Column, name string) tidemark.Column { c.Type.Collation = name; return c }
	generated, date, moment := column(tidemark.Int, "integer"), column(tidemark.Date, "date"), column(tidemark.DateTime, "datetime(3)")
	generated.Generated, date.NotNull, moment.Type.Precision = "1", true, 3
	for _, x := range []struct {
		family string
		c      tidemark.Column
		op     string
		value  string
		want   string // "": none
	}{
		{"postgres", column(tidemark.Int, "integer"), "eq", "3000000000", "not an integer"},
		{"postgres", column(tidemark.Int, "integer"), "eq", "1.5", "not an integer"},
		{"postgres", column(tidemark.Int, "integer"), "eq", "-12", ""},
		{"postgres", column(tidemark.Int, "public.positive"), "eq", "1", "values of type public.positive"},
		{"postgres", column(tidemark.Decimal, "numeric(5,2)"), "gte", "1.005", "as it is"},
		{"postgres", column(tidemark.Decimal, "numeric(5,2)"), "gte", "1000", "as it is"},
		{"postgres", column(tidemark.Decimal, "numeric(5,2)"), "gte", "999.990", ""},
		{"postgres", column(tidemark.Float, "real"), "gte", "1", "values of type real"},
		{"postgres", column(tidemark.Float, "real"), "notnull", "", ""},
		{"postgres", column(tidemark.Varchar, "character varying(3)"), "eq", "abcd", "that the column can hold"},
		{"postgres", column(tidemark.Varchar, "character varying(3)"), "gte", "abc", "not for order"},
		{"postgres", coll(column(tidemark.Text, "text"), "public.blind"), "eq", "abc", "its collation public.blind"},
		{"postgres", coll(column(tidemark.Text, "text"), `pg_catalog."C"`), "eq", "abc", ""},
		{"postgres", column(tidemark.Text, "public.citext"), "eq", "abc", "values of type public.citext"},
		{"postgres", column(tidemark.Timestamp, "timestamp(5) with time zone"), "gte", "2026-01-01 00:00:00.123456", "digits of a second"},
		{"postgres", column(tidemark.Timestamp, "timestamp(5) with time zone"), "gte", "2026-01-01", ""},
		{"postgres", date, "gte", "2026-02-30", "not a date"},
		{"postgres", date, "null", "", ""},
		{"postgres", generated, "eq", "1", "it is generated"},
		{"postgres", column(tidemark.Int, "integer"), "like", "1", "the operator like"},
		{"mysql", date, "null", "", "finds 0000-00-00"},
		{"mysql", date, "gte", "0000-00-00", "not a date"},
		{"mysql", moment, "gte", "2026-01-01 00:00:00.1234", "digits of a second"},
		{"mysql", column(tidemark.Bool, "tinyint(1)"), "eq", "t", "write noteq f"},
		{"mysql", column(tidemark.Timestamp, "timestamp"), "gte", "1969-01-01", "not a time"},
		{"mysql", column(tidemark.Year, "year"), "eq", "24", "not a year"},
		{"mysql", column(tidemark.UUID, "uuid"), "gte", "00000000-0000-0000-0000-000000000000", "not for order"},
		{"mysql", column(tidemark.Varchar, "varchar(3)"), "eq", "abc", "its collation utf8mb4_general_ci"},
		{"mysql", coll(column(tidemark.Varchar, "varchar(3)"), "utf8mb4_bin"), "eq", "abc", ""},
		{"mysql", coll(column(tidemark.Varchar, "varchar(3)"), "latin1_bin"), "eq", "é", "in the column's character set"},
		{"mysql", coll(column(tidemark.Varchar, "varchar(3)"), "sjis_bin"), "eq", "a", "in the character set sjis"},
		{"mysql", column(tidemark.JSON, "json"), "eq", "1", "values of type json"},
		{"mysql", column(tidemark.Blob, "vector(3)"), "eq", `\x00`, "values of type vector(3)"},
	} {
		m := tidemark.Move{From: &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "t"}, Collation: "utf8mb4_general_ci", Columns: []tidemark.Column{x.c}},
			Filter: []tidemark.Filter{{Column: "c", Conditions: []tidemark.Condition{{Op: x.op, Value: x.value}}}}}
		_, err := NewFilter(x.family, []tidemark.Move{m})
		if x.want == "" && err != nil || x.want != "" && (tidemark.KindOf(err) != tidemark.Unsupported || !strings.Contains(err.Error(), x.want) || tidemark.HintOf(err) == "") {
			t.Errorf("%s %s %s %q: %v", x.family, x.c.Type.Native, x.op, x.value, err)
		}
	}
	sql := tidemark.Move{From: &tidemark.Table{}, Filter: []tidemark.Filter{{SQL: "a > 1"}}}
	if _, err := NewFilter("mysql", []tidemark.Move{sql}); err == nil || !strings.Contains(err.Error(), "in SQL") {
		t.Errorf("SQL: %v", err)
	}
	if f, err := NewFilter("mysql", []tidemark.Move{{From: &tidemark.Table{}}}); f != nil || err != nil {
		t.Errorf("no filter: %v, %v", f, err)
	}
}

// TestNullPassesNoComparison: as in SQL, NULL is neither equal nor unequal to a value.
func TestNullPassesNoComparison(t *testing.T) {
	for op, want := range map[string]bool{"null": true, "notnull": false, "eq": false, "noteq": false, "gte": false, "ste": false, "between": false, "notbetween": false} {
		x := test{scale: byNumber, any: []condition{{op: op, low: []byte("1"), high: []byte("2")}}}
		if got, err := x.passes(change.Value{Kind: change.NullValue}); err != nil || got != want {
			t.Errorf("%s: %v, %v", op, got, err)
		}
	}
}
