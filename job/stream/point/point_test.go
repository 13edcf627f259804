package point

import (
	"context"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

func TestParse(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]Point{"": {}, "never": {}, "NOW": {Now: true}, "2026-11-21T10:00:00Z": {Time: at}, "2026-11-21 10:00:00Z": {Time: at},
		"16/B374D848": {Log: "16/B374D848"}, "binlog.000003:1234": {Log: "binlog.000003:1234"}} {
		got, err := Parse(text)
		if err != nil || !got.Time.Equal(want.Time) || got.Now != want.Now || got.Log != want.Log || got.IsZero() != want.IsZero() {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	if _, err := Parse("tomorrow"); tidemark.KindOf(err) != tidemark.Invalid {
		t.Error(err)
	}
}

// A gate lets all through that is before its point, and holds what comes behind it until the
// session ends.
func TestGate(t *testing.T) {
	at := time.Now()
	for name, x := range map[string]struct {
		gate    *Gate
		in, out *change.Tx
	}{
		"place":        {&Gate{Place: 10}, &change.Tx{Place: 9}, &change.Tx{Place: 10}},
		"time":         {&Gate{Time: at}, &change.Tx{Place: 1, Time: at}, &change.Tx{Place: 2, Time: at.Add(1)}},
		"GTID":         {&Gate{GTID: "a:1"}, &change.Tx{Place: 1, GTID: "a:1"}, &change.Tx{Place: 2, GTID: "a:2"}},
		"half of GTID": {&Gate{GTID: "a:1"}, &change.Tx{Place: 1, GTID: "a:1", More: true}, nil},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if err := x.gate.Pass(ctx, x.in); err != nil || x.gate.Last.Load() != x.in.Place {
			t.Errorf("%s: %v, last %d", name, err, x.gate.Last.Load())
		}
		cancel()
		if x.out == nil {
			if x.gate.Shut.Load() {
				t.Errorf("%s: it is shut", name)
			}
			continue
		}
		if err := x.gate.Pass(ctx, x.out); err != context.Canceled || !x.gate.Shut.Load() || x.gate.Last.Load() != x.in.Place {
			t.Errorf("%s: %v, shut %v, last %d", name, err, x.gate.Shut.Load(), x.gate.Last.Load())
		}
	}
	var none *Gate
	if err := none.Pass(t.Context(), &change.Tx{}); err != nil {
		t.Error(err)
	}
	if g, err := NewGate(Point{}, "postgres"); g != nil || err != nil {
		t.Error(g, err)
	}
}

// A skip is open from its point on, and notes that once.
func TestSkip(t *testing.T) {
	at := time.Now()
	for name, x := range map[string]struct {
		skip   *Skip
		before []change.Tx
		open   change.Tx
	}{
		"time": {&Skip{Time: at}, []change.Tx{{Time: at.Add(-1)}}, change.Tx{Time: at}},
	} {
		noted := 0
		x.skip.Done = func(context.Context) error { noted++; return nil }
		for i := range x.before {
			if err := x.skip.Pass(t.Context(), &x.before[i]); err != nil || x.skip.open {
				t.Errorf("%s: %v, open %v", name, err, x.skip.open)
			}
		}
		for range 2 {
			if err := x.skip.Pass(t.Context(), &x.open); err != nil || !x.skip.open || noted != 1 {
				t.Errorf("%s: %v, open %v, noted %d times", name, err, x.skip.open, noted)
			}
		}
	}
}
