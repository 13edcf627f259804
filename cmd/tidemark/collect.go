package main

import (
	"os"
	runtime "runtime/metrics"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark/internal/crash"
)

// collectNear makes the garbage collector work harder before the process uses that much. The limit
// rises with what is in use, since near it the collector would take half of all time.
func collectNear(limit int64) (stop func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	was, done := collectFrom(limit), make(chan struct{})
	crash.Go(func() {
		live := []runtime.Sample{{Name: "/gc/heap/live:bytes"}}
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				collectFrom(was)
				return
			case <-tick.C:
			}
			runtime.Read(live)
			if need := int64(live[0].Value.Uint64()) * 5 / 4; need > limit {
				limit = need
				collectFrom(limit)
			}
		}
	})
	return sync.OnceFunc(func() { close(done) })
}
