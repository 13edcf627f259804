package ha

import (
	"testing"
	"time"
)

func TestLoadOfAProfile(t *testing.T) {
	var w writer
	id, at := uint64(1), time.Duration(0)
	commits := func(n int, every time.Duration) {
		for range n {
			w.change(id, 960)
			w.commit(id, at)
			id, at = id+1, at+every
		}
	}
	commits(100, 100*time.Millisecond)
	commits(1000, 10*time.Millisecond)
	at += 40 * time.Second
	commits(100, 100*time.Millisecond)
	p := w.scan(t, Options{Interval: 10 * time.Second})
	l := p.Load(0, Disk{})
	if l.Clients != openClients || len(l.LogRates) != 7 {
		t.Errorf("%d clients, rates %v", l.Clients, l.LogRates)
	}
	nearly(t, "rate", l.Rate, 100, 0.2)
	nearly(t, "bytes", l.Bytes, 1000, 5)
	nearly(t, "step", l.Step, 10, 1e-9)
	l = p.Load(4, Disk{Overhead: 0.002})
	if l.Clients != 4 || l.Rate != 0 {
		t.Errorf("%+v", l)
	}
	nearly(t, "think", l.Think, 0.04-0.002*1.1, 1e-3)
}
