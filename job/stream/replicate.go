package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
)

// Replicate copies a source to a target, unless that was done, and then applies the changes of the
// source's log until ctx ends. It reconnects after lost connections; any other error ends it, and
// the same command resumes it.
func Replicate(ctx context.Context, env job.Env, spec Spec) (run string, rep *job.Report, err error) {
	if !engines.StreamName.MatchString(spec.Name) {
		return "", nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "replicate", Object: spec.Name, Err: errors.New("is not a valid name of a stream"), Hint: "Use up to 40 lower-case letters, digits and underscores."}
	}
	if a := spec.Apply; a.Mode == apply.Batch && (a.SourceOrder || len(a.OKStates) > 0 || spec.Conflict.Judges()) {
		return "", nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "replicate", Object: spec.Name, Err: errors.New("batches do not keep the order of commits, and cannot handle conflicts of single changes"), Hint: "Leave out --apply-mode batch, or --commit-order source, --conflict, --conflict-rule and --ok-sqlstates."}
	}
	l := newProcess(env, spec)
	lock, err := alone(env.Catalog, spec, l.record())
	if err != nil {
		return "", nil, err
	}
	defer lock.Unlock()
	if spec.From.Target && (spec.Remove || spec.Anew) {
		return "", nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "replicate", Object: spec.Name, Err: errors.New("--from-target continues a stream, but --anew and --remove discard it"), Hint: "Give only one of them."}
	}
	if spec.Remove || spec.Anew {
		if err := l.setup().remove(ctx, spec.Remove); err != nil || spec.Remove {
			return "", nil, err
		}
	}
	stop, err := l.startMonitor(ctx)
	if err != nil {
		return "", nil, err
	}
	defer stop()
	defer func() {
		for _, f := range slices.Backward(l.cleanup) {
			f()
		}
	}()
	if _, err = l.run(ctx, looking, l.step); l.entry.ID != "" {
		return l.leave(ctx, err)
	}
	return l.copyRun, l.copyReport, err
}

// directQueue is no queue: memory only.
const directQueue = "direct"

// alone takes the lock of a stream's record: one process at a time runs it.
func alone(cat *catalog.Catalog, spec Spec, record string) (*catalog.Lock, error) {
	lock, err := cat.Lock("stream-" + record)
	var held *catalog.Held
	if !errors.As(err, &held) {
		return lock, err
	}
	how := "Ctrl-C there"
	if pid := held.PID(); pid != 0 {
		how += fmt.Sprintf(", or kill -INT %d", pid)
	}
	return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: spec.Role.Verb(), Object: "stream " + spec.Name, Err: errors.New(held.By + " runs it now"), Hint: "Stop that process first (" + how + "), and repeat this command; another stream needs another --name. Nothing was changed."}
}
