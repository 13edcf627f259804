package stream

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
)

// checkLogged compares the tables with what the log has said of them. It finds truncated
// partitions, which no log contains, and what the log lacks because somebody has disabled the event
// triggers.
func (w *definitionWatch) checkLogged(ctx context.Context, now map[tidemark.TableID]*change.Definition, ids []tidemark.TableID) error {
	passed := map[ddl.Change]bool{} // the target had everything before the check that found it: asked before the known definitions are read
	for c, at := range w.first {
		passed[c] = w.reached(at)
	}
	seen := map[ddl.Change]uint64{}
	for _, id := range ids {
		is := now[id]
		was := w.r.subs.load(id).Known
		if was == nil && is != nil {
			if err := w.know(ctx, id, is); err != nil {
				return err
			}
		}
		if was == nil {
			continue
		}
		known := was
		for _, c := range ddl.Diff(id, was, is) {
			if w.r.spec.Role == CaptureHalf && c.Kind != ddl.EmptyPartition {
				continue
			}
			if seen[c] = w.first[c]; seen[c] == 0 && is != nil {
				seen[c] = is.At
			}
			if !passed[c] {
				w.doubt = w.doubt || c.Kind == ddl.EmptyPartition
				continue
			}
			delete(seen, c)
			if c.Kind == ddl.EmptyPartition {
				if kept, err := w.kept(ctx, c, is); err != nil {
					return err
				} else if kept {
					known = ddl.WithFile(known, is, c.Column)
					continue
				}
			}
			known = was // missed has stored another one
			if err := w.missed(ctx, c, was, is); err != nil {
				return err
			}
			break
		}
		if known != was {
			if err := w.know(ctx, id, known); err != nil {
				return err
			}
		}
	}
	w.first = seen
	return nil
}

// missed handles a change that is in no log.
func (w *definitionWatch) missed(ctx context.Context, c ddl.Change, was, is *change.Definition) error {
	from, to := w.r.shape.Name(), w.r.into().Name()
	if rule := ddl.Decide(c.Kind, from, to); rule.Verdict == ddl.Stays {
		return nil
	}
	if c.Kind == ddl.SetNotNull || c.Kind == ddl.SetDefault || c.Kind == ddl.DropDefault { // the rows are the same without it
		if err := w.alter(ctx, c, is); err != nil {
			return nil
		}
		return w.know(ctx, c.Table, ddl.Settled(was, is, c.Column))
	}
	if c.Kind != ddl.EmptyPartition && c.Kind != ddl.DropTable && c.Kind != ddl.ReplaceTable {
		if c.Text == "" {
			c.Text = "was changed: " + string(c.Kind) + " " + c.Column
		}
		c.Text += ", but it is missing in the log, into which event triggers should write it"
	}
	return w.stop(ctx, c.Table, c.Stop(from, to))
}

// know stores the known definition of a table.
func (w *definitionWatch) know(ctx context.Context, id tidemark.TableID, is *change.Definition) error {
	return w.r.subs.edit(ctx, id, func(t *catalog.StreamTable) error {
		if t.State == catalog.TableStopped {
			return nil
		}
		loading.Note(t, func(x *loading.Load) { x.Known = is })
		return nil
	})
}
