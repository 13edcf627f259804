package loading

import (
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
)

// What each action makes of a table in each state.
func TestActions(t *testing.T) {
	const active, loads, stopped = catalog.TableActive, catalog.TableLoading, catalog.TableStopped
	for _, x := range []struct {
		state  string
		manual bool
		action string
		want   string // or, with an error, none
		kind   tidemark.Kind
	}{
		{"", false, Start, loads, 0},
		{"", false, Stop, "", tidemark.NotFound},
		{"", false, Reload, "", tidemark.NotFound},
		{"", false, Done, "", tidemark.NotFound},
		{active, false, Start, "", tidemark.Exists},
		{active, false, Stop, stopped, 0},
		{active, false, Reload, loads, 0},
		{active, false, Done, "", tidemark.Invalid},
		{loads, false, Start, "", tidemark.Exists},
		{loads, false, Stop, stopped, 0},
		{loads, false, Reload, loads, 0},
		{loads, false, Done, "", tidemark.Invalid},
		{loads, true, Done, active, 0},
		{stopped, false, Start, loads, 0},
		{stopped, false, Stop, stopped, 0},
		{stopped, false, Reload, loads, 0},
		{stopped, false, Done, "", tidemark.Invalid},
	} {
		at := time.Now().Add(time.Hour) // the clock was set back since
		row := &catalog.StreamTable{State: x.state, Since: at, Load: Load{Manual: x.manual, Key: []string{"7"}, Heard: 5}.Text()}
		err := Act(row, x.action, false, time.Now())
		if x.kind != 0 {
			if tidemark.KindOf(err) != x.kind || row.State != x.state {
				t.Errorf("%s of one that is %q: %v, is %q", x.action, x.state, err, row.State)
			}
			continue
		}
		same := x.state == stopped && x.want == stopped
		if err != nil || row.State != x.want || row.Since.After(at) == same {
			t.Errorf("%s of one that is %q: %v, is %q since %v", x.action, x.state, err, row.State, row.Since)
		}
		if l := Of(row); x.want == loads && (l.Key != nil || l.Heard != 5) {
			t.Errorf("%s of one that is %q: its load is %+v", x.action, x.state, l)
		}
	}
}

func TestNamed(t *testing.T) {
	id := func(schema, name string) tidemark.TableID { return tidemark.TableID{Schema: schema, Name: name} }
	known := []catalog.StreamTable{{Table: id("a", "t")}, {Table: id("b", "t")}, {Table: id("a", "u")}}
	for _, x := range []struct {
		source, name string
		want         tidemark.TableID
		kind         tidemark.Kind
	}{
		{"postgres://h/db", "a.t", id("a", "t"), 0},
		{"postgres://h/db", "u", id("a", "u"), 0},
		{"postgres://h/db", "t", tidemark.TableID{}, tidemark.Invalid},
		{"postgres://h/db", "new", id("public", "new"), 0},
		{"mysql://h/shop", "new", id("shop", "new"), 0},
		{"mysql://h/shop", "c.new", id("c", "new"), 0},
	} {
		got, err := Named(x.source, known, "start", x.name)
		if got != x.want || x.kind != 0 && tidemark.KindOf(err) != x.kind || x.kind == 0 && err != nil {
			t.Errorf("%s of %s: %v %v", x.name, x.source, got, err)
		}
	}
}
