package stream

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/job"
)

// What a session hears of what commands have written.
func TestHeed(t *testing.T) {
	now, id := time.Now(), tidemark.TableID{Schema: "s", Name: "t"}
	for _, x := range []struct {
		was, is      string
		later        time.Duration
		anew, rebind bool
	}{
		{catalog.TableActive, catalog.TableActive, 0, false, false},
		{catalog.TableActive, catalog.TableStopped, 1, false, true},
		{catalog.TableActive, catalog.TableStopped, -1, false, false}, // the session knows more
		{catalog.TableActive, catalog.TableLoading, 1, true, false},
		{catalog.TableLoading, catalog.TableActive, 1, false, true},
		{catalog.TableLoading, catalog.TableLoading, 1, true, false},
		{catalog.TableStopped, catalog.TableLoading, 1, true, false},
		{"", catalog.TableLoading, 1, true, false},
	} {
		l, _ := testLife(Spec{})
		s := &subscriptions{r: l.stream, of: map[tidemark.TableID]*catalog.StreamTable{}}
		if x.was != "" {
			s.of[id] = &catalog.StreamTable{Table: id, State: x.was, Since: now}
		}
		anew, rebind := s.applyCommands([]catalog.StreamTable{{Table: id, State: x.is, Since: now.Add(x.later)}})
		if anew != x.anew || rebind != x.rebind || x.later > 0 && s.state(id) != x.is {
			t.Errorf("%s to %s: anew %v, rebind %v, is %s", x.was, x.is, anew, rebind, s.state(id))
		}
	}
}

// An error of the log that is of one table is no error of the stream.
func TestOwnError(t *testing.T) {
	ctx, id := t.Context(), tidemark.TableID{Schema: "s", Name: "t"}
	of := func(op, object string, kind tidemark.Kind) outcome {
		return outcome{failure, &tidemark.Error{Kind: kind, Op: op, Object: object, Err: errors.New("text")}}
	}
	for _, x := range []struct {
		name string
		in   outcome
		want event
	}{
		{"of the table", of("follow", "s.t", tidemark.Unsupported), anew},
		{"of another one", of("follow", "s.u", tidemark.Unsupported), failure},
		{"of the target", of("apply", "s.t", tidemark.Unsupported), failure},
		{"of another kind", of("follow", "s.t", tidemark.Transient), failure},
		{"none", outcome{event: reached}, reached},
	} {
		env := job.Env{Catalog: newCatalog(t), Watch: deaf{}}
		l := newProcess(env, Spec{Name: "s"})
		if err := env.Catalog.PutStream(ctx, catalog.Stream{Name: "s", State: catalog.StreamFollowing, Started: time.Now()}); err != nil {
			t.Fatal(err)
		}
		subs, _, err := l.subscribe(ctx, []tidemark.Move{{From: &tidemark.Table{TableID: id}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := subs.ownError(ctx, x.in); got.event != x.want || (subs.state(id) == catalog.TableStopped) != (x.want == anew) {
			t.Errorf("%s: %v, the table is %s", x.name, got.event, subs.state(id))
		}
	}
}

// New tables are announced once each.
func TestNewTables(t *testing.T) {
	var n newTables
	a, b := tidemark.TableID{Schema: "s", Name: "a"}, tidemark.TableID{Schema: "s", Name: "b"}
	for _, x := range []struct{ all, more []tidemark.TableID }{{[]tidemark.TableID{a}, []tidemark.TableID{a}}, {[]tidemark.TableID{a, b}, []tidemark.TableID{b}}, {[]tidemark.TableID{b}, nil}} {
		if more := n.set(x.all); !slices.Equal(more, x.more) || len(n.names()) != len(x.all) {
			t.Errorf("%v: %v, now %v", x.all, more, n.names())
		}
	}
	l, _ := testLife(Spec{})
	if f := n.findings(l.stream); len(f) != 1 || f[0].Hint != "Add it: tidemark sub start s.b --name s" {
		t.Errorf("%+v", f)
	}
}

// What the log says of a definition concerns a table by its number, and one without a number by its
// name.
func TestToldOf(t *testing.T) {
	id := tidemark.TableID{Schema: "s", Name: "t"}
	was := &change.Definition{ID: 7, Parts: []change.DefinedPart{{ID: 8}, {ID: 9}}}
	is := change.Definition{ID: 7}
	other := change.Definition{ID: 6}
	table := func(d change.Definition, name string) *change.LoggedDefinition {
		x := &change.LoggedDefinition{Table: &change.LoggedTable{Definition: d}}
		x.Table.TableID = tidemark.TableID{Schema: "s", Name: name}
		return x
	}
	for _, x := range []struct {
		name     string
		was      *change.Definition
		d        *change.LoggedDefinition
		is, gone bool
		parts    int
	}{
		{"itself", was, table(is, "t"), true, false, 0},
		{"itself, renamed", was, table(is, "new"), true, false, 0},
		{"another one of its name", was, table(other, "t"), false, false, 0},
		{"not known before", nil, table(is, "t"), true, false, 0},
		{"dropped", was, &change.LoggedDefinition{Dropped: []uint32{7}}, false, true, 0},
		{"a partition dropped", was, &change.LoggedDefinition{Dropped: []uint32{9}}, true, false, 1},
		{"another one dropped", was, &change.LoggedDefinition{Dropped: []uint32{5}}, false, false, 0},
	} {
		got, gone := ddl.FromLog(id, x.was, x.d)
		if (got != nil) != x.is || gone != x.gone || got != nil && len(got.Parts) != x.parts {
			t.Errorf("%s: %+v, gone %v", x.name, got, gone)
		}
	}
	if len(was.Parts) != 2 {
		t.Error("what was known is changed")
	}
}

// Columns that were received before an outline get the names that they have in it.
func TestEarlierColumns(t *testing.T) {
	o := ddl.Outline{Columns: []ddl.OutlineColumn{{Name: "id", Number: 1}, {Name: "new", Number: 2}}, Gone: []ddl.OutlineColumn{{Name: "old", Number: 2}, {Name: "dropped", Number: 3}}}
	columns := []change.RelationColumn{{Name: "id"}, {Name: "old"}, {Name: "dropped"}}
	gone := make([]bool, len(columns))
	o.Earlier(columns, gone)
	if columns[0].Name != "id" || columns[1].Name != "new" || !slices.Equal(gone, []bool{false, false, true}) {
		t.Errorf("%+v %v", columns, gone)
	}
	if o.Index(2, "whatever") != 1 || o.Index(0, "id") != 0 || o.Index(9, "id") != -1 {
		t.Error("columns are found by their numbers where they have some")
	}
}

func TestReasons(t *testing.T) {
	err := &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: "s.t", Err: errors.New("cannot be")}
	if reasonOf(err) != "cannot be" || reasonOf(errors.New("bare")) != "bare" || !ofTable(err) || ofTable(errors.New("bare")) {
		t.Error(reasonOf(err), ofTable(err))
	}
}
