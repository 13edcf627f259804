package screen

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// steps is a job whose tables get on at each look.
type steps struct {
	mu     sync.Mutex
	looks  int64
	tables int
}

func (s *steps) Totals() load.Totals { return load.Sum(s.tablesNow()) }
func (s *steps) Moving() []load.TableStatus {
	return slices.DeleteFunc(s.tablesNow(), func(t load.TableStatus) bool { return t.State != load.FullLoad })
}

func (s *steps) tablesNow() []load.TableStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	out := make([]load.TableStatus, s.tables)
	for i := range out {
		out[i] = load.TableStatus{Move: i, State: load.FullLoad, Expected: 1000, Bytes: min(s.looks*100, 900), Rows: s.looks}
		if s.looks > int64(4+i) {
			out[i].State, out[i].Bytes = load.TableCompleted, 700 // less than expected, as estimates are
		}
	}
	return out
}

func (s *steps) Objects() load.Build           { return load.Build{Total: 3, Done: 1} }
func (s *steps) Elapsed() time.Duration        { return time.Second }
func (s *steps) Position() (done, total int64) { return 500, 1000 }
func (s *steps) retry(w Watcher, n int) {
	for range n {
		w.Event(job.Event{Kind: "retry", Object: "range 1", Error: "cut"})
	}
}

// TestBarsEnd draws bars for tables that end below and above what was expected of
// them; the display must end when the job does, whatever state a bar is in.
func TestBarsEnd(t *testing.T) {
	for _, looks := range []time.Duration{0, 400 * time.Millisecond, 2 * time.Second} {
		var out bytes.Buffer
		w := Watch(View{Progress: "bars"}, &out, &out)
		p := &steps{tables: 12}
		w.Running(p)
		time.Sleep(looks)
		p.retry(w, 2)
		ended := make(chan struct{})
		go func() { w.Stop(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			t.Fatalf("the bars did not end after %s", looks)
		}
		if looks > time.Second && !strings.Contains(out.String(), "retrying: range 1: cut") {
			t.Errorf("no word of the retries in\n%s", out.String())
		}
	}
}
