package load

import (
	"sync"
	"testing"

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
