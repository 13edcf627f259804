package job

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// The catalogue has the progress of all runs, for any process to see (tidemark utilities). It is
// updated once a second; if the catalogue cannot be written, the run continues.
const (
	progressEvery = time.Second
	rateOver      = 10 // how many samples a rate covers
)

// recordProgress writes the progress of a run to the catalogue, until stop is called.
func (e Env) recordProgress(ctx context.Context, run string, look func() catalog.Work) (stop func()) {
	ctx = context.WithoutCancel(ctx)
	done := make(chan struct{})
	var wait crash.Group
	wait.Go(func() {
		var seen []sight
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			w := look()
			seen = rated(append(seen, sight{time.Now(), w.Done}), &w)
			_ = e.Catalog.PutWork(ctx, run, e.Time(), w)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wait.Wait()
		_ = e.Catalog.DropWork(ctx, run)
	})
}

// A sight is the amount done at one time.
type sight struct {
	at   time.Time
	done int64
}

// rated fills in the rate and, if it is not known, the estimated time remaining. It gives the
// sights that still count.
func rated(seen []sight, w *catalog.Work) []sight {
	if len(seen) > rateOver {
		seen = seen[len(seen)-rateOver:]
	}
	first, last := seen[0], seen[len(seen)-1]
	if took := last.at.Sub(first.at).Seconds(); took > 0 && last.done >= first.done {
		w.Rate = float64(last.done-first.done) / took
	}
	if w.Left < 0 && w.Rate > 0 && w.Total > 0 {
		w.Left = time.Duration(float64(max(w.Total-w.Done, 0)) / w.Rate * float64(time.Second))
	}
	return seen
}

// storageWork is the progress of a backup or a restore.
func storageWork(of interface{ Status() backup.Status }) func() catalog.Work {
	return func() catalog.Work {
		s := of.Status()
		return catalog.Work{Phase: s.Phase, Unit: "bytes", Total: s.Total, Done: s.Done, Left: s.Left}
	}
}

// progressWork is the progress of a copy.
func progressWork(p Progress) func() catalog.Work {
	return func() catalog.Work {
		w := catalog.Work{Phase: "rows", Unit: "bytes", Left: -1}
		o := p.Objects()
		if o.Defined < o.Definitions {
			w.Phase, w.Unit, w.Done, w.Total = "definitions", "objects", int64(o.Defined), int64(o.Definitions)
			return w
		}
		w.Done, w.Total = p.Position()
		if w.Done >= w.Total && o.Done+o.Failed < o.Total {
			w.Phase = "keys, indexes and the rest"
		}
		return w
	}
}

// withWorkers adds the times of the workers, for whoever watches the run.
func withWorkers(look func() catalog.Work, report func() flow.Report) func() catalog.Work {
	return func() catalog.Work {
		w := look()
		if text, err := json.Marshal(report()); err == nil {
			w.Workers = text
		}
		return w
	}
}

// endState is the state of a run that has ended with an error, or without.
func endState(err error) string {
	switch kind := tidemark.KindOf(err); {
	case err == nil:
		return catalog.Done
	case kind == tidemark.Incomplete:
		return catalog.Incomplete
	case kind == tidemark.Cancelled:
		return catalog.Cancelled
	}
	return catalog.Failed
}

// NewRun is a run of a verb that starts now, in this process.
func (e Env) NewRun(verb, source, target string) catalog.Run {
	host, _ := os.Hostname() // for messages only
	return catalog.Run{ID: catalog.NewRunID(), Verb: verb, Source: source, Target: target, Started: e.Time(), State: catalog.Running, PID: os.Getpid(), Host: host}
}

// Record runs something that the catalogue records as a run of a verb, with the report that it
// gives, and updates its progress meanwhile.
func (e Env) Record(ctx context.Context, verb, source, target string, look func() catalog.Work, do func(context.Context) (report any, err error)) (string, error) {
	run := e.NewRun(verb, source, target)
	lock, err := e.Catalog.Lock(run.ID)
	if err != nil {
		return "", err
	}
	defer lock.Unlock()
	if err := e.Catalog.Begin(ctx, run); err != nil {
		return "", err
	}
	stop := e.recordProgress(ctx, run.ID, look)
	report, err := do(ctx)
	stop()
	run.Ended, run.State = e.Time(), endState(err)
	if err != nil {
		run.Error, run.Hint = err.Error(), tidemark.HintOf(err)
	}
	if text, jerr := json.Marshal(report); jerr == nil && report != nil {
		run.Report = text
	}
	if uerr := e.Catalog.Update(context.WithoutCancel(ctx), run); uerr != nil && err == nil {
		err = uerr
	}
	return run.ID, err
}
