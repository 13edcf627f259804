package stream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job"
)

// A progressSource is a target that knows how far streams into it were applied.
type progressSource interface {
	Applied(ctx context.Context) (map[string]change.Progress, error)
}

// freeName refuses a new stream under a name whose progress the target already has: the new stream
// would begin at that position.
func (r *setup) freeName(ctx context.Context) error {
	f, ok := r.tgt.(progressSource)
	if !ok {
		return nil
	}
	applied, err := f.Applied(ctx)
	if _, there := applied[r.spec.Name]; err == nil && there {
		err = &tidemark.Error{Kind: tidemark.Exists, Op: r.spec.Role.Verb(), Object: "stream " + r.spec.Name, Err: errors.New("the target has the progress of a stream of this name, which this catalogue does not know"), Hint: "Name the catalogue that knows it (--state), choose another --name, or use --anew to discard that progress and copy again."}
	}
	return err
}

// KeepsLog tells whether the source of a URL keeps its log for a stream that is not running.
func KeepsLog(source string) string {
	if engine.OfURL(source).KeepsLog {
		return "The source keeps its log until the stream resumes, or until --remove"
	}
	return "The source does not wait: it removes its log at the age that its settings say (binlog_expire_logs_seconds)"
}

// unmade says what is left for a cutover that the stream has not had.
func (r *setup) unmade(ctx context.Context, s catalog.Stream) {
	var p struct{ Held []string }
	run, err := r.env.Catalog.Run(ctx, s.Copy)
	last, lerr := r.env.Catalog.Run(ctx, s.Run)
	if r.spec.Remove && err == nil && json.Unmarshal(run.Plan, &p) == nil && len(p.Held) > 0 && !(lerr == nil && job.HasCutOver(last.Report)) {
		r.env.Event(job.Event{Kind: "finding", Object: "triggers and events", Text: "are left for a cutover, which has not been: " + tidemark.Some(p.Held, 10) + ". diff --definitions prints their SQL"})
	}
}

// forgetCopy removes what an unfinished copy before the stream has left on the target: its markers
// and claims.
func (r *setup) forgetCopy(ctx context.Context, s catalog.Stream) error {
	if s.State != catalog.StreamCopying || s.Copy == "" {
		return nil // it was finished, or did not begin
	}
	if err := r.tgt.Forget(ctx, s.Copy, nil); err != nil {
		return err
	}
	return r.tgt.DropClaim(ctx, s.Copy)
}

// claimTables records which tables a stream feeds, and waits for copies that are filling them now.
func (r *session) claimTables(ctx context.Context, b *binder) error {
	run := tidemark.StreamClaim + r.spec.Name
	if err := r.tgt.DropClaim(ctx, run); err != nil {
		return err
	}
	c, err := r.tgt.Claim(ctx, run)
	if err != nil {
		return err
	}
	defer c.Close()
	tables := make([]tidemark.TableID, 0, len(b.tables))
	for id := range b.tables {
		tables = append(tables, id)
	}
	slices.SortFunc(tables, job.ByTable)
	others, _, err := c.Take(ctx, tables)
	for _, o := range others {
		if _, stream := job.CutStream(o.Run); o.Live && !stream && o.Run != r.rec.Copy && !strings.HasPrefix(o.Run, job.RepairClaim) {
			return &tidemark.Error{Kind: tidemark.Transient, Op: r.spec.Role.Verb(), Object: "table " + o.Table.String(), Err: errors.New("run " + o.Run + " is working on it now"), Hint: "The stream waits until that run ends."}
		}
	}
	return err
}
