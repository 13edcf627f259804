package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/flow"
)

// A LiveSpec says what to compare while both sides are written to, and how long to wait.
type LiveSpec struct {
	Diff DiffSpec
	// Name is the stream whose progress on the target tells when the target has caught up.
	Name string
	// Settle is how long a row must stay unchanged if no stream is known.
	Settle time.Duration
	// Timeout is how long rows that still change are checked again.
	Timeout time.Duration
	// Keep is how many rows of a table are tracked at once; 0 is diff's default.
	Keep int
}

// A follower is a database whose rows can be read as they are now, and changed, and that knows how
// far streams into it were applied.
type follower interface {
	Repair(ctx context.Context) (diff.Repairer, error)
	Applied(ctx context.Context) (map[string]change.Progress, error)
}

// DiffLive compares two databases that are being written to, of which the target follows the
// source. Rows that are still changing at the end are reported as such. After a lost connection, it
// starts again.
func DiffLive(ctx context.Context, env Env, spec LiveSpec) (out diff.Result, findings []tidemark.Finding, err error) {
	err = env.persist(ctx, "diff", spec.Diff.RetryFor, func(there func()) error {
		v, err := openLive(ctx, env, spec)
		if err == nil {
			defer v.close()
			there()
			if err = v.first(ctx); err == nil {
				err = v.recheck(ctx)
			}
		}
		if err == nil {
			out, err = v.live.Result(ctx, v.from, v.to)
		}
		out.Equal, findings = out.Equal && !missing(v.findings), v.findings
		return err
	})
	return out, findings, err
}

// A living is a comparison of two databases that are being written to.
type living struct {
	env      Env
	spec     LiveSpec
	src, tgt Database
	done     func() // closes them
	from, to diff.Repairer
	live     *diff.Live
	progress *diffProgress
	findings []tidemark.Finding
	stream   bool               // its progress is on the target
	tables   []tidemark.TableID // of the target
	looks    int
}

// openLive connects to both ends, and finds the stream between them.
func openLive(ctx context.Context, env Env, spec LiveSpec) (v *living, err error) {
	v = &living{env: env, spec: spec}
	if err := needsDatabases("diff", spec.Diff, "does not change, and no stream fills it", "Leave out --live."); err != nil {
		return v, err
	}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if v.src, v.tgt, v.done, err = spec.Diff.openEnds(ctx, env); err != nil {
		return v, err
	}
	for _, end := range []struct {
		db Database
		to *diff.Repairer
	}{{v.src, &v.from}, {v.tgt, &v.to}} {
		f, ok := end.db.(follower)
		if !ok {
			return v, &tidemark.Error{Kind: tidemark.Unsupported, Op: "compare", Err: errors.New(end.db.Name() + " cannot be compared while it is being written to"), Hint: "Compare it while nothing writes to it."}
		}
		if *end.to, err = f.Repair(ctx); err != nil {
			return v, err
		}
	}
	v.stream, err = v.find(ctx)
	return v, err
}

func (v *living) close() {
	for _, m := range []diff.Repairer{v.from, v.to} {
		if m != nil {
			m.Close()
		}
	}
	if v.done != nil {
		v.done()
	}
}

// find reports whether the target knows the stream. If it knows several, one has to be named.
func (v *living) find(ctx context.Context) (bool, error) {
	applied, err := v.tgt.(follower).Applied(ctx)
	if err != nil || len(applied) == 0 {
		return false, err
	}
	if _, ok := applied[v.spec.Name]; ok {
		return true, nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(applied)), ", ")
	return false, &tidemark.Error{Kind: tidemark.NotFound, Op: "compare", Object: "stream " + v.spec.Name, Err: errors.New("the target does not know it, only " + names), Hint: "Name the stream with --name."}
}

// first reads both sides completely, in one snapshot of each.
func (v *living) first(ctx context.Context) error {
	src, tgt, done, err := v.spec.Diff.openEnds(ctx, v.env)
	if err != nil {
		return err
	}
	defer done()
	if err := freezeAll(ctx, &v.spec.Diff, src, tgt); err != nil {
		return err
	}
	if v.live == nil {
		v.env.Phase("reading both sides' definitions")
		pairs, findings, err := pair(ctx, src, tgt, v.spec.Diff)
		v.findings = append(v.findings, findings...)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			v.tables = append(v.tables, p.Target.From.TableID)
		}
		v.progress = newDiffProgress(pairs)
		v.env.Watch.Running(v.progress)
		opt := diffOptions(v.spec.Diff, src.Name(), tgt.Name())
		opt.Progress = v.progress.event
		opt.Keep = v.spec.Keep
		if v.live, err = diff.NewLive(pairs, opt); err != nil {
			return err
		}
	}
	return v.live.First(ctx, src, tgt)
}

// recheck checks the differing rows again until it is known which of them differ, or the time is
// up.
func (v *living) recheck(ctx context.Context) error {
	until := v.env.Time().Add(v.spec.Timeout)
	for pause := time.Second; ; pause = min(2*pause, 10*time.Second) {
		rows, tables := v.live.Unsettled()
		if rows+tables == 0 {
			return nil
		}
		v.looks++
		v.reportWaiting(rows, tables)
		if ok, err := v.wait(ctx, pause, until); err != nil || !ok {
			return err
		}
		// The target needs time to catch up with what First finds before it is checked.
		if err := v.live.Again(ctx, v.from, v.to); err != nil {
			return err
		}
		if _, tables := v.live.Unsettled(); tables > 0 {
			if err := v.first(ctx); err != nil {
				return err
			}
		}
	}
}

// reportWaiting reports what the comparison waits for.
func (v *living) reportWaiting(rows, tables int) {
	what := fmt.Sprintf("rows that differ so far: %d", rows)
	if tables > 0 {
		what += fmt.Sprintf(", tables to be read again: %d", tables)
	}
	object, until := "stream "+v.spec.Name, "once the target has everything that the source has now"
	if !v.stream {
		object, until = "no stream known", "after "+v.spec.Settle.String()
	}
	v.env.Event(Event{Kind: "wait", Object: object, Rows: int64(rows), Text: fmt.Sprintf("%s; check %d follows %s", what, v.looks+1, until)})
}

// wait pauses, and then waits until the target reaches the source's log position; false if that
// would exceed the time.
//
// The pause comes first because the source's log may be behind what the last check has seen there:
// PostgreSQL shows a commit with synchronous_commit = off up to three wal_writer_delay, 0.6 s,
// before it is in the log that LogEnd reports.
func (v *living) wait(ctx context.Context, pause time.Duration, until time.Time) (bool, error) {
	if !v.stream {
		pause = max(pause, v.spec.Settle)
	}
	if v.env.Time().Add(pause).After(until) {
		return false, nil
	}
	if err := flow.Sleep(ctx, pause); err != nil {
		return false, err
	}
	var err error
	if !v.stream { // one that has just begun is known soon
		if v.stream, err = v.find(ctx); err != nil || !v.stream {
			return err == nil, err
		}
	}
	source, ok := v.src.(capture.Source)
	if !ok {
		return false, &tidemark.Error{Kind: tidemark.Unsupported, Op: "compare", Err: errors.New(v.src.Name() + " does not report its log position")}
	}
	end, err := source.End(ctx)
	if err != nil {
		return false, err
	}
	for {
		applied, err := v.tgt.(follower).Applied(ctx)
		if err != nil {
			return false, err
		}
		if applied[v.spec.Name].Low > end+1<<32 { // the numbers of files have an offset
			return false, &tidemark.Error{Kind: tidemark.Unsupported, Op: "compare", Object: "stream " + v.spec.Name, Err: errors.New("has moved to another source server, whose log position alone does not tell where the stream is"), Hint: "Compare while nothing writes to the source."}
		}
		// While idle, progress is written up to just before the log's end.
		if applied[v.spec.Name].Low+1 >= end {
			return true, nil
		}
		if v.env.Time().After(until) {
			v.findings = append(v.findings, tidemark.Finding{Severity: tidemark.Warning, Object: "stream " + v.spec.Name, Text: "has not reached the source's log position in time, so the result is not certain",
				Hint: "Check with tidemark status whether it runs and how far it is behind. --live-timeout gives it more time."})
			return false, nil
		}
		if err := flow.Sleep(ctx, 100*time.Millisecond); err != nil {
			return false, err
		}
	}
}
