package apply

import (
	"cmp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// shop is a parent with a second unique key, and a child that references either.
func shop() map[tidemark.TableID]*tidemark.Table {
	column := func(name string) tidemark.Column {
		return tidemark.Column{Name: name, Type: tidemark.Type{Kind: tidemark.Text, Native: "text"}}
	}
	index := func(name string, columns ...string) tidemark.Index {
		x := tidemark.Index{Name: name, Unique: true}
		for _, c := range columns {
			x.Parts = append(x.Parts, tidemark.IndexPart{Column: c})
		}
		return x
	}
	parentKey, childKey := index("parent_pkey", "id"), index("child_pkey", "id")
	parent := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "parent"}, Key: &parentKey,
		Columns: []tidemark.Column{column("id"), column("x"), column("y")}, Indexes: []tidemark.Index{index("parent_xy", "x", "y")}}
	child := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "child"}, Key: &childKey,
		Columns: []tidemark.Column{column("id"), column("parent"), column("py"), column("px")}, Indexes: []tidemark.Index{index("child_py", "py")},
		ForeignKeys: []tidemark.ForeignKey{{Columns: []string{"parent"}, Ref: parent.TableID, RefColumns: []string{"id"}},
			{Columns: []string{"py", "px"}, Ref: parent.TableID, RefColumns: []string{"y", "x"}}}}
	return map[tidemark.TableID]*tidemark.Table{parent.TableID: parent, child.TableID: child}
}

func relationOf(t *tidemark.Table) change.Relation {
	r := change.Relation{Table: t.TableID, Identity: 'f'}
	for _, c := range t.Columns {
		r.Columns = append(r.Columns, change.RelationColumn{Name: c.Name, Key: true})
	}
	return r
}

func bindings(t *testing.T) map[string]*Binding {
	t.Helper()
	out := map[string]*Binding{}
	tables := shop()
	for id, table := range tables {
		b, err := Bind(relationOf(table), table, tables)
		if err != nil {
			t.Fatal(err)
		}
		out[id.Name] = b
	}
	return out
}

// A dumbRow is a row of one of the two tables; "" is NULL.
type dumbRow struct {
	table  string
	values []string
}

// points returns what a row writes and reads, in words.
func (r dumbRow) points() map[string]bool {
	out := map[string]bool{}
	v := r.values
	put := func(name string, write bool, values ...string) {
		for _, x := range values {
			if x == "" {
				return
			}
			name += " " + x
		}
		out[name] = out[name] || write
	}
	if r.table == "parent" {
		put("parent id", true, v[0])
		put("parent xy", true, v[1], v[2])
	} else {
		put("child id", true, v[0])
		put("child py", true, v[2])
		put("parent id", false, v[1])
		put("parent xy", false, v[3], v[2])
	}
	return out
}

func tuple(values []string) change.Tuple {
	var out []change.Value
	for _, v := range values {
		if v == "" {
			out = append(out, change.Value{Kind: change.NullValue})
		} else {
			out = append(out, change.Value{Kind: change.TextValue, Data: []byte(v)})
		}
	}
	return change.AppendTuple(nil, out)
}

// Two changes conflict exactly if one has a key value that the other has or references; two
// children of one parent do not.
func TestAccessesAgainstDumbTwin(t *testing.T) {
	bound := bindings(t)
	met, passed := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		draw := func(label string) (accesses []Access, points map[string]bool) {
			table := rapid.SampledFrom([]string{"parent", "child"}).Draw(r, label)
			n := map[string]int{"parent": 3, "child": 4}[table]
			row := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "ab"}), n, n)
			c := change.Change{Kind: rapid.SampledFrom([]tidemark.ChangeKind{tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange}).Draw(r, label+" kind")}
			points = map[string]bool{}
			add := func(values []string) change.Tuple {
				for p, write := range (dumbRow{table, values}).points() {
					points[p] = points[p] || write
				}
				return tuple(values)
			}
			if c.Kind != tidemark.InsertChange {
				c.Old = add(row.Draw(r, label+" old"))
			}
			if c.Kind != tidemark.DeleteChange {
				c.New = add(row.Draw(r, label+" new"))
			}
			return bound[table].Accesses(c, nil), points
		}
		a, pa := draw("first")
		b, pb := draw("second")
		want := false
		for p, write := range pa {
			if other, ok := pb[p]; ok && (write || other) {
				want = true
			}
		}
		if got := conflict(a, b); got != want {
			r.Fatalf("met: %v, want %v\n%v\n%v", got, want, pa, pb)
		}
		if want {
			met++
		} else {
			passed++
		}
	})
	if met == 0 || passed == 0 {
		t.Errorf("%d met and %d did not", met, passed)
	}
}

// If keys cannot be computed from the values, all rows conflict on that key; blanks at the end of
// char(n) do not count.
func TestKeysThatAreNotBytes(t *testing.T) {
	for _, x := range []struct {
		typ  tidemark.Type
		a, b string
		meet bool
	}{
		{tidemark.Type{Kind: tidemark.Text, Native: "text"}, "a", "A", false},
		{tidemark.Type{Kind: tidemark.Text, Native: "public.citext"}, "a", "A", true},
		{tidemark.Type{Kind: tidemark.Varchar, Charset: "utf8mb4", Collation: "utf8mb4_general_ci"}, "a", "A", true},
		{tidemark.Type{Kind: tidemark.Varchar, Charset: "utf8mb4", Collation: "utf8mb4_bin"}, "a", "a ", true}, // PAD SPACE
		{tidemark.Type{Kind: tidemark.Varchar, Charset: "utf8mb4", Collation: "utf8mb4_0900_bin"}, "a", "a ", false},
		{tidemark.Type{Kind: tidemark.Varchar, Charset: "utf8mb4", Collation: "utf8mb4_bin"}, "a", "A", false},
		{tidemark.Type{Kind: tidemark.Varchar, Charset: "utf8mb4"}, "a", "A", false}, // with the table's collation
		{tidemark.Type{Kind: tidemark.Varchar, Charset: "utf8mb4"}, "a", "a ", false},
		{tidemark.Type{Kind: tidemark.Decimal}, "1.0", "1.00", true},
		{tidemark.Type{Kind: tidemark.Decimal, Precision: 65, Scale: 30}, "10", "10.000", true},
		{tidemark.Type{Kind: tidemark.Decimal}, "10", "1", false},
		{tidemark.Type{Kind: tidemark.Decimal, Precision: 9, Scale: 2}, "1.00", "2.00", false},
		{tidemark.Type{Kind: tidemark.Float, Bits: 64}, "0", "-0", true},
		{tidemark.Type{Kind: tidemark.Char, Length: 3, Native: "character(3)"}, "a  ", "a", true},
		{tidemark.Type{Kind: tidemark.Char, Length: 3, Native: "character(3)"}, "a  ", "b", false},
		{tidemark.Type{Kind: tidemark.JSON, Native: "jsonb"}, "1.0", "1.00", true},
	} {
		table := &tidemark.Table{TableID: tidemark.TableID{Name: "t"}, Collation: "utf8mb4_nopad_bin", Columns: []tidemark.Column{{Name: "k", Type: x.typ}},
			Key: &tidemark.Index{Name: "t_pkey", Unique: true, Parts: []tidemark.IndexPart{{Column: "k"}}}}
		b, err := Bind(relationOf(table), table, nil)
		if err != nil {
			t.Fatal(err)
		}
		of := func(v string) []Access {
			return b.Accesses(change.Change{Kind: tidemark.InsertChange, New: tuple([]string{v})}, nil)
		}
		if got := conflict(of(x.a), of(x.b)); got != x.meet {
			t.Errorf("%s %q and %q: %v", x.typ.Native+x.typ.Collation, x.a, x.b, got)
		}
	}
	if _, err := Bind(change.Relation{Columns: []change.RelationColumn{{Name: "gone", Key: true}}}, &tidemark.Table{}, nil); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("a key that the target lacks: %v", err)
	}
}

// A table that is truncated, or has no key to identify its rows, is used by one transaction at a
// time.
func TestWholeTables(t *testing.T) {
	b := bindings(t)["parent"]
	insert := b.Accesses(change.Change{Kind: tidemark.InsertChange, New: tuple([]string{"1", "2", "3"})}, nil)
	if !conflict(insert, b.Accesses(change.Change{Kind: tidemark.TruncateChange}, nil)) {
		t.Error("a row passes a TRUNCATE")
	}
	bare := &tidemark.Table{TableID: tidemark.TableID{Name: "bare"}, Columns: []tidemark.Column{{Name: "a", Type: tidemark.Type{Kind: tidemark.Int}}}}
	k, err := Bind(relationOf(bare), bare, nil)
	if err != nil {
		t.Fatal(err)
	}
	one := k.Accesses(change.Change{Kind: tidemark.InsertChange, New: tuple([]string{"1"})}, nil)
	if conflict(one, one) {
		t.Error("inserts into a table without keys wait for each other")
	}
	if gone := k.Accesses(change.Change{Kind: tidemark.DeleteChange, Old: tuple([]string{"7"})}, nil); !conflict(gone, one) || !conflict(gone, gone) {
		t.Error("a delete from a table without keys runs beside others")
	}
}

// The causes of waiting transactions are counted separately.
func TestCauses(t *testing.T) {
	b := bindings(t)
	insert := func(table string, values ...string) []Access {
		return b[table].Accesses(change.Change{Kind: tidemark.InsertChange, New: tuple(values)}, nil)
	}
	parent := insert("parent", "1", "2", "3")
	for what, c := range map[string]struct {
		then []Access
		want Cause
	}{
		"nothing":                         {insert("parent", "4", "5", "6"), 0},
		"the same row":                    {insert("parent", "1", "5", "6"), ByKey},
		"another unique key":              {insert("parent", "4", "2", "3"), ByUnique},
		"both":                            {insert("parent", "1", "2", "3"), ByKey | ByUnique},
		"a child by the key":              {insert("child", "1", "1", "", ""), ByReference},
		"a child by the other unique key": {insert("child", "1", "", "3", "2"), ByReference},
		"a child of another row":          {insert("child", "1", "4", "", ""), 0},
		"the whole table":                 {b["parent"].Accesses(change.Change{Kind: tidemark.TruncateChange}, nil), ByTable},
	} {
		for way, pair := range map[string][2][]Access{"behind": {parent, c.then}, "before": {c.then, parent}} {
			tr, first, second := NewTracker(), &Node{}, &Node{}
			tr.Add(first, pair[0])
			if ready := tr.Add(second, pair[1]); first.Why != 0 || second.Why != c.want || ready != (c.want == 0) {
				t.Errorf("%s %s: waits for %d, and the first for %d; want %d", way, what, second.Why, first.Why, c.want)
			}
		}
	}
	var w Waits
	w.count(ByKey | ByReference)
	w.count(ByTable)
	if want := (Waits{Table: 1, Key: 1, Reference: 1}); w != want {
		t.Errorf("counted %+v, want %+v", w, want)
	}
}

// If foreign keys act and their effects are not in the stream, a row that is deleted, or whose key
// changes, keeps its order before and after changes of rows that depend on its children.
func TestCascades(t *testing.T) {
	tables := shop()
	parent, child := tables[tidemark.TableID{Schema: "s", Name: "parent"}], tables[tidemark.TableID{Schema: "s", Name: "child"}]
	child.ForeignKeys[0].OnDelete = "CASCADE"
	key := tidemark.Index{Name: "grandchild_pkey", Unique: true, Parts: []tidemark.IndexPart{{Column: "id"}}}
	grandchild := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "grandchild"}, Key: &key, Columns: child.Columns[:2],
		ForeignKeys: []tidemark.ForeignKey{{Columns: []string{"parent"}, Ref: child.TableID, RefColumns: []string{"id"}, OnDelete: "SET NULL"}}}
	tables[grandchild.TableID] = grandchild
	bound := func(table *tidemark.Table) *Binding {
		b, err := Bind(relationOf(table), table, tables)
		if err != nil {
			t.Fatal(err)
		}
		b.Cascades(tables, map[Key]bool{})
		return b
	}
	row := func(values ...string) change.Tuple {
		var vals []change.Value
		for _, v := range values {
			vals = append(vals, change.Value{Kind: change.TextValue, Data: []byte(v)})
		}
		return change.AppendTuple(nil, vals)
	}
	above, below := bound(parent), bound(grandchild)
	ch := below.Accesses(change.Change{Kind: tidemark.UpdateChange, Old: row("1", "7"), New: row("1", "8")}, nil)
	for _, x := range []struct {
		name string
		c    change.Change
		want bool
	}{
		{"a delete", change.Change{Kind: tidemark.DeleteChange, Old: row("1", "x", "y")}, true},
		{"another key", change.Change{Kind: tidemark.UpdateChange, Old: row("1", "x", "y"), New: row("2", "x", "y")}, true},
		{"the same key", change.Change{Kind: tidemark.UpdateChange, Old: row("1", "x", "y"), New: row("1", "x", "y")}, false},
		{"an insert", change.Change{Kind: tidemark.InsertChange, New: row("1", "x", "y")}, false},
	} {
		if got := conflict(above.Accesses(x.c, nil), ch); got != x.want {
			t.Errorf("%s of the parent and an update of the grandchild conflict: %v", x.name, got)
		}
	}
}

// If foreign keys act and their effects are not in the stream, the changes of a child, and those
// that remove a key that it references, keep their order, also if the log lacks the child's old
// parent.
func TestCascadesOfParents(t *testing.T) {
	tables := shop()
	child := tables[tidemark.TableID{Schema: "s", Name: "child"}]
	keyed := child.ForeignKeys
	keyed[0].OnDelete, keyed[1].OnUpdate = "CASCADE", "CASCADE"
	row := func(words string) change.Tuple {
		var vals []change.Value
		for _, v := range strings.Fields(words) {
			kind := map[string]byte{"-": change.NullValue, "?": change.UnchangedValue}[v]
			vals = append(vals, change.Value{Kind: cmp.Or(kind, change.TextValue), Data: []byte(v)})
		}
		return change.AppendTuple(nil, vals)
	}
	insert := func(now string) change.Change {
		return change.Change{Kind: tidemark.InsertChange, New: row(now)}
	}
	update := func(was, now string) change.Change {
		c := change.Change{Kind: tidemark.UpdateChange, New: row(now)}
		if was != "" {
			c.Old = row(was)
		}
		return c
	}
	remove := func(id string) change.Change {
		return change.Change{Kind: tidemark.DeleteChange, Old: row(id + " - -")}
	}
	for _, x := range []struct {
		name   string
		of     string // the first change's table, and the second's
		first  change.Change
		second change.Change
		waits  bool
		plain  bool // the child references only x too
	}{
		{name: "a child that gets another parent, and the old one goes", of: "child parent", first: update("1 7 - -", "1 8 - -"), second: remove("7"), waits: true},
		{name: "and the new one goes", of: "child parent", first: update("1 7 - -", "1 8 - -"), second: remove("8"), waits: true},
		{name: "and another one goes", of: "child parent", first: update("1 7 - -", "1 8 - -"), second: remove("9")},
		{name: "a child that loses its parent", of: "child parent", first: update("1 7 - -", "1 - - -"), second: remove("7"), waits: true},
		{name: "a child that keeps its parent", of: "child parent", first: update("", "1 7 - -"), second: remove("7"), waits: true},
		{name: "a child that gets another parent after the old one has got another key", of: "parent child", first: update("7 - -", "6 - -"), second: update("1 6 - -", "1 8 - -"), waits: true},
		{name: "it is not told which parent the child had", of: "child parent", first: update("1 ? ? ?", "1 8 ? ?"), second: remove("9"), waits: true},
		{name: "nor which it has", of: "child parent", first: update("", "1 ? ? x"), second: remove("9"), waits: true},
		{name: "nor which, and the parent goes before", of: "parent child", first: remove("9"), second: update("", "1 ? ? x")},
		{name: "two of which it is not told", of: "child child", first: update("", "1 ? ? x"), second: update("", "2 ? ? x")},
		{name: "a parent that changes nothing of its keys", of: "child parent", first: update("", "1 ? ? x"), second: update("", "9 - -")},
		{name: "a child that comes, and another unique value of its parent goes", of: "child parent", first: insert("1 - y x"), second: update("7 x y", "7 x z"), waits: true},
		{name: "another one's goes", of: "child parent", first: insert("1 - y x"), second: update("7 x y2", "7 x z")},
		{name: "it is not told which value goes with a parent", of: "child parent", first: insert("1 - y x"), second: change.Change{Kind: tidemark.DeleteChange, Old: row("9 - -"), OldKey: true}, waits: true},
		{name: "a child of what is no key, whose parent goes", of: "child parent", first: insert("1 - - 5"), second: remove("9"), plain: true, waits: true},
		{name: "a child of what is no key, which changes", of: "child parent", first: insert("1 - - 5"), second: update("7 5 -", "7 6 -"), plain: true, waits: true},
		{name: "a child of what is no key, and something else changes", of: "child parent", first: insert("1 - - 5"), second: update("7 5 -", "7 5 z"), plain: true},
		{name: "what is no key changes, and then a child", of: "parent child", first: update("7 5 -", "7 6 -"), second: insert("1 - - 5"), plain: true, waits: true},
		{name: "it is not told which value goes", of: "child parent", first: insert("1 - y x"), second: update("7 ? ?", "7 ? z"), waits: true},
	} {
		untold := map[Key]bool{}
		if child.ForeignKeys = keyed; x.plain {
			child.ForeignKeys = []tidemark.ForeignKey{{Columns: []string{"px"}, Ref: keyed[0].Ref, RefColumns: []string{"x"}, OnUpdate: "CASCADE"}}
		}
		bound := func(name string) *Binding {
			table := tables[tidemark.TableID{Schema: "s", Name: name}]
			rel := relationOf(table)
			rel.Identity = 'd'
			for i := range rel.Columns {
				rel.Columns[i].Key = i == 0
			}
			b, err := Bind(rel, table, tables)
			if err != nil {
				t.Fatal(err)
			}
			b.Cascades(tables, untold)
			return b
		}
		first, second, _ := strings.Cut(x.of, " ")
		tracker := NewTracker()
		if !tracker.Add(&Node{}, bound(first).Accesses(x.first, nil)) {
			t.Fatalf("%s: the first one waits", x.name)
		}
		if waits := !tracker.Add(&Node{}, bound(second).Accesses(x.second, nil)); waits != x.waits {
			t.Errorf("%s: waits %v", x.name, waits)
		}
	}
}
