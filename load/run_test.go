package load

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// TestRunIsLookedAtFromItsFirstMoment: whoever watches a run begins before it does. The race
// detector judges.
func TestRunIsLookedAtFromItsFirstMoment(t *testing.T) {
	for range 20 {
		r := NewRun(nil, nil, &Plan{Moves: []tidemark.Move{}}, nil, Options{Lanes: 2}, nil, nil)
		looking, stop := make(chan struct{}), make(chan struct{})
		var watcher sync.WaitGroup
		watcher.Go(func() {
			for first := true; ; first = false {
				_, _, _ = r.Report(), r.Status.Objects(), r.Failures()
				if first {
					close(looking)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		<-looking
		if err := r.Do(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		close(stop)
		watcher.Wait()
	}
}

// A refusing target creates nothing.
type refusing struct{ err error }

func (r refusing) Exec(context.Context, int, []string) error { return r.err }

func (r refusing) Write(context.Context, int, tidemark.Write, func() (*tidemark.Batch, error)) (tidemark.Written, error) {
	return tidemark.Written{}, r.err
}

// A silent sink hears of a run and keeps nothing.
type silent struct{ Sink }

func (silent) ObjectDone(*tidemark.Object, error, time.Duration) {}

// TestSessionLost: an object that the target refuses is missing at the end; one that nobody tried
// to create, since the session is lost, ends the run, which can be resumed.
func TestSessionLost(t *testing.T) {
	for _, c := range []struct {
		err  error
		want tidemark.Kind
	}{
		{&tidemark.Error{Kind: tidemark.Invalid, Err: errors.New("refused")}, tidemark.Incomplete},
		{&tidemark.Error{Kind: tidemark.Invalid, Err: tidemark.ErrSessionLost}, tidemark.Invalid},
		{&tidemark.Error{Kind: tidemark.Full}, tidemark.Full},
	} {
		p := &Plan{Moves: []tidemark.Move{}, Objects: []tidemark.Object{{ID: "foreign key f", Kind: "foreign key", Phase: tidemark.AfterRows, SQL: []string{"x"}}}}
		err := NewRun(nil, refusing{c.err}, p, silent{}, Options{Lanes: 1}, nil, nil).Do(t.Context(), nil)
		if tidemark.KindOf(err) != c.want || OfOneTable(c.err) != (c.want == tidemark.Incomplete) {
			t.Errorf("%v: %v, %v", c.err, tidemark.KindOf(err), err)
		}
	}
}
