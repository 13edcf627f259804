package ha

import "testing"

func TestLoadOfAScan(t *testing.T) {
	p := &Profile{IntervalSeconds: 60, Seconds: 120, Bytes: 2_900_000, Headers: 100_000, Transactions: Transactions{Committed: 3000},
		Intervals: []Interval{{Seconds: 60, Ended: 1200, Bytes: 1_000_000, Open: 2.5}, {Seconds: 60, Ended: 1800, Bytes: 1_900_000, Open: 7.2}, {}}}
	l, err := LoadOf(p)
	if err != nil {
		t.Fatal(err)
	}
	if l.Clients != 8 || l.Rate != 30 || l.Bytes != 1000 || len(l.LogRates) != 2 || l.Step != 60 {
		t.Errorf("%+v", l)
	}
	if _, err := Predict(l, pair(0.01)); err != nil {
		t.Error(err)
	}
	if _, err := LoadOf(&Profile{Intervals: []Interval{{Seconds: 60, Bytes: 100}}}); err == nil || err.Error() != "calculate: the scan has no commits" {
		t.Errorf("a scan without commits: %v", err)
	}
}
