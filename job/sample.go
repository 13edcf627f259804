package job

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/sample"
)

// Servers is what both servers of a job have done for its workers.
type Servers = sample.Account

// A serverWatch watches what both servers do for the workers of a copy. Ends that are no servers
// are left out.
type serverWatch struct {
	subjects []sample.Subject
	sampler  atomic.Pointer[sample.Sampler] // once the workers run
}

func newServerWatch(src, tgt any, opt load.Options) *serverWatch {
	w := &serverWatch{}
	if s, ok := src.(sample.Server); ok {
		w.subjects = append(w.subjects, sample.Subject{Name: "source", Server: s, Side: tidemark.ReadSide, Roles: []string{"Reader"}, Worker: load.ReadsFor})
	}
	if s, ok := tgt.(sample.Server); ok {
		w.subjects = append(w.subjects, sample.Subject{Name: "target", Server: s, Side: tidemark.WriteSide, Roles: []string{"Writer", "Finisher"}, Worker: opt.WritesFor})
	}
	return w
}

// watchFiles returns a serverWatch of a backup of files, and its backup.Options.Watch: readers and
// writers wait in this process, and receivers for what the server does. paced: writes to the place
// are held back.
func watchFiles(src engines.Files, place string, paced bool) (*serverWatch, func(context.Context, *flow.Group)) {
	w, parked := &serverWatch{}, tidemark.WaitNetwork
	switch {
	case paced, strings.Contains(place, " "): // several places are written to by others
		parked = tidemark.WaitUnknown
	case strings.HasPrefix(place, "file:"):
		parked = tidemark.WaitProcessor
	}
	return w, func(ctx context.Context, g *flow.Group) {
		own := func(on, role string, f *sample.Files) {
			f.Threads = func() []int { return g.Threads(role) }
			w.subjects = append(w.subjects, sample.Subject{Name: on, Server: f, Roles: []string{role}, Worker: func(n int) (string, int) { return role, n }})
		}
		if s, ok := src.(sample.Server); ok {
			w.subjects = append(w.subjects, sample.Subject{Name: "source", Server: s, Side: tidemark.SendSide, Roles: []string{"Receiver"}, Worker: func(n int) (string, int) { return "Receiver", n }})
		} else if s, ok := src.(interface {
			Gauges(context.Context) (tidemark.Gauges, error)
		}); ok {
			own("source", "Reader", &sample.Files{Parked: tidemark.WaitProcessor, Counts: s.Gauges})
		}
		own("repository", "Writer", &sample.Files{Parked: parked})
		w.watch(ctx, g.States)
	}
}

// watchSides returns a serverWatch of a comparison, and its diff.Options.Watch.
func watchSides(ctx context.Context, src, tgt any) (*serverWatch, func(func(string) []flow.State) func()) {
	w := &serverWatch{}
	for i, on := range []string{"source", "target"} {
		role := []string{"Source reader", "Target reader"}[i]
		if s, ok := []any{src, tgt}[i].(sample.Server); ok {
			w.subjects = append(w.subjects, sample.Subject{Name: on, Server: s, Side: tidemark.ReadSide, Roles: []string{role}, Worker: func(n int) (string, int) { return role, n }})
		}
	}
	return w, func(states func(string) []flow.State) func() {
		return crash.Beside(ctx, func(ctx context.Context) { w.watch(ctx, states) })
	}
}

// watch is a load.Options.Watch.
func (w *serverWatch) watch(ctx context.Context, states func(role string) []flow.State) {
	s := sample.New(states, w.subjects...)
	w.sampler.Store(s)
	s.Run(ctx)
}

// account divides the workers' I/O; nil if nothing was watched.
func (w *serverWatch) account(rep flow.Report) *sample.Account {
	if w == nil || w.sampler.Load() == nil {
		return nil
	}
	return w.sampler.Load().Account(rep)
}
