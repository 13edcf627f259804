package job

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/load"
)

func tableID(name string) tidemark.TableID { return tidemark.TableID{Schema: "s", Name: name} }

// When a copy before a stream resumes, it keeps the tables that are complete and depend on no other
// table.
func TestKeepWhole(t *testing.T) {
	move := func(name string, do func(*tidemark.Table)) tidemark.Move {
		from := &tidemark.Table{TableID: tableID(name)}
		if do != nil {
			do(from)
		}
		return tidemark.Move{From: from}
	}
	child := func(x *tidemark.Table) { x.ForeignKeys = []tidemark.ForeignKey{{Ref: tableID("a")}} }
	acting := func(x *tidemark.Table) {
		x.ForeignKeys = []tidemark.ForeignKey{{Ref: tableID("a"), OnDelete: "CASCADE"}}
	}
	part := func(x *tidemark.Table) { x.PartitionOf = tableID("a") }
	for _, x := range []struct {
		name   string
		second func(*tidemark.Table)
		fresh  bool
		done   []int // ranges done; a has 1 and 2, b has 3
		untold bool
		want   [2]bool
	}{
		{name: "nothing is there", want: [2]bool{}},
		{name: "one is half there", done: []int{1, 3}, want: [2]bool{false, true}},
		{name: "all is there", done: []int{1, 2, 3}, untold: true, second: acting, want: [2]bool{true, true}},
		{name: "a new key is built later", done: []int{1, 3}, second: child, fresh: true, want: [2]bool{false, true}},
		{name: "a key that was there is in force", done: []int{1, 3}, second: child, want: [2]bool{}},
		{name: "keys that act where the log tells", done: []int{1, 3}, second: acting, fresh: true, want: [2]bool{false, true}},
		{name: "keys that act where it does not", done: []int{1, 3}, second: acting, fresh: true, untold: true, want: [2]bool{}},
		{name: "a partition and its root", done: []int{1, 3}, second: part, want: [2]bool{}},
	} {
		p := &load.Plan{Moves: []tidemark.Move{move("a", nil), move("b", x.second)}, Fresh: []bool{x.fresh, x.fresh},
			Ranges: []tidemark.Range{{ID: 1}, {ID: 2}, {ID: 3, Move: 1}}}
		done := map[int]int64{}
		for _, id := range x.done {
			done[id] = 1
		}
		if got := keepWhole(p, done, x.untold); !slices.Equal(got, x.want[:]) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}

// A server's estimates for a table are not part of its definition.
func TestSameDefinition(t *testing.T) {
	a := &tidemark.Table{TableID: tableID("a"), Rows: 1, Bytes: 2, Columns: []tidemark.Column{{Name: "id"}}}
	b := &tidemark.Table{TableID: tableID("a"), Rows: 3, Bytes: 4, Columns: []tidemark.Column{{Name: "id"}}}
	if !sameDefinition(a, b) {
		t.Error("estimates count")
	}
	if b.Columns = append(b.Columns, tidemark.Column{Name: "more"}); sameDefinition(a, b) {
		t.Error("columns do not count")
	}
}

// withoutRefused rejects the tables that the findings, or the error, are about, and keeps the
// others.
func TestWithoutRefused(t *testing.T) {
	moves := []tidemark.Move{}
	for _, name := range []string{"a", "ab", "c", "d"} {
		x := &tidemark.Table{TableID: tableID(name)}
		moves = append(moves, tidemark.Move{From: x, To: x})
	}
	p := &load.Plan{Findings: []tidemark.Finding{
		{Severity: tidemark.Blocker, Object: "column s.a.id", Text: "no"}, {Severity: tidemark.Warning, Object: "table s.ab", Text: "perhaps"}}}
	left, why, rejected := withoutRefused(moves, p, &tidemark.Error{Kind: tidemark.Unmapped, Op: "plan", Object: "table s.c", Err: errors.New("never"), Hint: "Leave it."})
	var names []string
	for i := range left {
		names = append(names, left[i].From.Name)
	}
	if !slices.Equal(names, []string{"ab", "d"}) || len(why) != 2 || len(rejected) != 2 || why[1].Text != "is rejected: never" || why[1].Hint != "Leave it." {
		t.Errorf("%v %+v %+v", names, why, rejected)
	}
}

func TestResumable(t *testing.T) {
	for _, x := range []struct {
		err  error
		want string
	}{
		{&tidemark.Error{Kind: tidemark.Full, Op: "load", Object: "t", Err: errors.New("is full")}, "Add --resume 7 to the same command."},
		{&tidemark.Error{Kind: tidemark.Full, Op: "load", Object: "t", Err: errors.New("is full"), Hint: "Make room."}, "Make room; then add --resume 7 to the same command."},
		{&tidemark.Error{Kind: tidemark.BadInput, Op: "load", Object: "t", Err: errors.New("is broken"), Hint: "Repair it."}, "Repair it."},
		{errors.New("bare"), "Add --resume 7 to the same command."},
	} {
		if got := tidemark.HintOf(resumable(x.err, "7")); got != x.want {
			t.Errorf("%v: %q, want %q", x.err, got, x.want)
		}
	}
}

// named is a side of a copy.
type named struct{ engine, schema string }

func (n named) Name() string    { return n.engine }
func (n named) Default() string { return n.schema }

func TestSchemas(t *testing.T) {
	pg, my, several := named{"postgres", "public"}, named{"mysql", "shop"}, named{"mysql", ""}
	for _, x := range []struct {
		src, tgt     End
		chosen, want string
	}{
		{pg, pg, "", "one"}, {pg, pg, "x", "x"}, {my, pg, "", "public"}, {several, pg, "", "one"}, {pg, my, "", "shop"}, {named{"mariadb", "a"}, my, "", "shop"},
	} {
		if got := schemaDefaults(x.src, x.tgt, x.chosen).Schema("one"); got != x.want {
			t.Errorf("%v to %v, %q: %s, want %s", x.src, x.tgt, x.chosen, got, x.want)
		}
	}
}

func TestNotCarried(t *testing.T) {
	db := &tidemark.Database{Engine: "mysql", Objects: []tidemark.Object{
		{ID: "view s.v", Kind: "view", Table: tidemark.TableID{Schema: "s"}}, {ID: "view s.w", Kind: "view", Table: tidemark.TableID{Schema: "s"}}, {ID: "trigger s.t", Kind: "trigger"}, {ID: "table s.a", Kind: "table"}}}
	moves := []tidemark.Move{{From: &tidemark.Table{TableID: tableID("v")}}}
	var ids []string
	for _, f := range notCarried(db, named{"postgres", ""}, moves) {
		ids = append(ids, f.Object)
	}
	if !slices.Equal(ids, []string{"view s.w", "trigger s.t"}) || notCarried(db, named{"mariadb", ""}, moves) != nil {
		t.Error(ids)
	}
}

func TestSchemaOf(t *testing.T) {
	for id, want := range map[string]string{"function s.f(integer)": "s", `function "a.""b".f()`: `a."b`, "function f": "", "extension x.y": ""} {
		kind, _, _ := strings.Cut(id, " ")
		if got := schemaOf(&tidemark.Object{ID: id, Kind: kind}); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	if schemaOf(&tidemark.Object{ID: "index s.i", Table: tableID("a")}) != "s" {
		t.Error("an object is in the schema of its table")
	}
}

// Results appear in the order of the pairs, whichever pairs were already found equal.
func TestInOrder(t *testing.T) {
	var pairs []diff.Pair
	for _, name := range []string{"a", "b", "c"} {
		pairs = append(pairs, diff.Pair{Source: &tidemark.Move{From: &tidemark.Table{TableID: tableID(name)}}})
	}
	equal := map[tidemark.TableID]diff.TableResult{tableID("b"): {SourceRows: 2, Equal: true}}
	out := inOrder(pairs, []int{0, 2}, []diff.TableResult{{SourceRows: 1}, {SourceRows: 3}}, equal)
	for i, r := range out {
		if r.SourceRows != int64(i+1) {
			t.Errorf("%+v", out)
		}
	}
}

func TestReadBy(t *testing.T) {
	leaf := &tidemark.Part{Table: tableID("leaf")}
	p := &load.Plan{Moves: []tidemark.Move{{From: &tidemark.Table{TableID: tableID("a")}}, {From: &tidemark.Table{TableID: tableID("lo"), Form: tidemark.LargeObjects}}},
		Ranges: []tidemark.Range{{Move: 0}, {Move: 0}, {Move: 0, Part: leaf}, {Move: 1}}}
	if got := readBy(p); !slices.Equal(got, []tidemark.TableID{tableID("a"), tableID("leaf")}) {
		t.Error(got)
	}
}
