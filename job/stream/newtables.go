package stream

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
)

// newTablesEvery is how often a source is asked for its tables.
const newTablesEvery = 2 * time.Second

// A tableLister is a source that can list its tables quickly.
type tableLister interface {
	TableNames(ctx context.Context) ([]tidemark.TableID, error)
}

// watchTables watches for tables that the rules select and the stream lacks, until ctx ends.
func (r *session) watchTables(ctx context.Context) {
	for flow.Sleep(ctx, newTablesEvery) == nil {
		r.findTables(ctx)
	}
}

// findTables announces new tables, once each, or starts them. A failed check is retried.
func (r *session) findTables(ctx context.Context) {
	l, ok := r.src.(tableLister)
	if !ok || r.catching != nil || r.spec.Role == ApplyHalf || r.spec.Role == BothViaHalves {
		return
	}
	there, err := l.TableNames(ctx)
	if err != nil {
		return
	}
	r.forgetGone(ctx, there)
	(swaps{r}).findReturned(ctx, there)
	var fresh []tidemark.TableID
	for _, id := range there {
		if r.spec.Copy.Rules.Wants(id) && !id.Ours() && r.subs.state(id) == "" && !helps(r.subs, id) {
			fresh = append(fresh, id)
		}
	}
	slices.SortFunc(fresh, func(a, b tidemark.TableID) int { return strings.Compare(a.String(), b.String()) })
	if r.spec.FollowTables {
		for _, id := range fresh {
			r.startTable(ctx, id)
		}
		return
	}
	told := r.process.fresh.set(fresh)
	for _, id := range told {
		r.env.Event(job.Event{Kind: "finding", Object: id.String(), Text: "is new on the source and not in the stream. Add it: " + r.startCommand(id)})
	}
}

// forgetGone forgets stopped tables that neither side has any more. A failed check is retried.
func (r *session) forgetGone(ctx context.Context, there []tidemark.TableID) {
	gone := r.subs.list(func(t *catalog.StreamTable) bool {
		return t.State == catalog.TableStopped && !slices.Contains(there, t.Table)
	})
	if len(gone) == 0 || r.tgt == nil || r.spec.Role != Both {
		return
	}
	on := r.onTarget(gone)
	have, err := r.tgt.Describe(ctx, func(id tidemark.TableID) bool { _, ok := on[id]; return ok })
	if err != nil {
		return
	}
	for _, t := range have.Tables {
		delete(on, t.TableID)
	}
	for _, id := range on {
		if r.subs.forget(ctx, id) == nil {
			r.env.Event(job.Event{Kind: "state", Object: "table " + id.String(), Text: "is neither on the source nor on the target any more, and no longer in the stream"})
		}
	}
}

// onTarget gives tables of the source, which it may have no more, by their names on the target.
func (r *session) onTarget(tables []tidemark.TableID) map[tidemark.TableID]tidemark.TableID {
	db := &tidemark.Database{Engine: r.shape.Name()}
	for _, id := range tables {
		db.Tables = append(db.Tables, &tidemark.Table{TableID: id})
	}
	out := map[tidemark.TableID]tidemark.TableID{}
	moves, _, err := job.ApplyRules(r.spec.Copy.Rules, db, r.shape, r.tgt, r.spec.Copy.TargetSchema)
	if err != nil {
		return out // then nothing is known of them
	}
	for _, m := range moves {
		out[job.ClipID(r.tgt, m.To.TableID)] = m.From.TableID
	}
	return out
}

// helper matches the tables that gh-ost and pt-online-schema-change fill beside one, or leave.
var helper = regexp.MustCompile(`^_+(.+?)_(?:\d+_)?(?:gho|ghc|del|new|old)$`)

// helps reports whether a table is such a helper of one in the stream.
func helps(subs *subscriptions, id tidemark.TableID) bool {
	m := helper.FindStringSubmatch(id.Name)
	return m != nil && subs.state(tidemark.TableID{Schema: id.Schema, Name: m[1]}) != ""
}

// startCommand is the command that adds a table to the stream.
func (r *stream) startCommand(id tidemark.TableID) string {
	return "tidemark sub start " + id.String() + " --name " + r.spec.Name
}

// startTable adds a table to the stream, as tidemark sub start does.
func (r *session) startTable(ctx context.Context, id tidemark.TableID) {
	started := false
	err := r.env.Catalog.EditStreamTable(ctx, r.record(), id, func(t *catalog.StreamTable) error {
		if started = t.State == ""; !started {
			return nil
		}
		err := loading.Act(t, loading.Start, false, r.env.Time())
		loading.Note(t, func(x *loading.Load) { x.Added = true })
		return err
	})
	if err == nil && started {
		r.env.Event(job.Event{Kind: "state", Object: "table " + id.String(), Text: "is new on the source, and was added to the stream"})
	}
}

// newTables are those of the source that the rules select and nobody has added.
type newTables struct {
	mu  sync.Mutex
	all []tidemark.TableID
}

// set takes over the present ones, and gives those that are new.
func (n *newTables) set(all []tidemark.TableID) (more []tidemark.TableID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range all {
		if !slices.Contains(n.all, id) {
			more = append(more, id)
		}
	}
	n.all = all
	return more
}

func (n *newTables) names() (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range n.all {
		out = append(out, id.String())
	}
	return out
}

// findings are for the report.
func (n *newTables) findings(r *stream) (out []tidemark.Finding) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range n.all {
		out = append(out, tidemark.Finding{Severity: tidemark.Warning, Object: id.String(), Text: "is new on the source and not in the stream", Hint: "Add it: " + r.startCommand(id)})
	}
	return out
}
