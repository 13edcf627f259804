// Package untold finds the tables that lack what foreign keys did to their rows on the source: the
// log of MySQL and MariaDB does not contain it, so the target's own keys do the same, unless the
// table that they reference is stopped.
package untold

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// Stop stops a child of parent. It does nothing to one that is stopped.
type Stop func(child, parent tidemark.TableID, why error) error

// A Watch sees the changes that are not applied.
type Watch struct {
	stop      Stop
	ends      map[tidemark.TableID][]end // by the table referenced
	mu        sync.Mutex
	relations map[uint32]change.Relation
}

// An end is a foreign key that changes rows of its table.
type end struct {
	child tidemark.TableID
	key   tidemark.ForeignKey
}

// New watches the tables of a stream, by the names of the source.
func New(moves map[tidemark.TableID]*tidemark.Move, stop Stop) *Watch {
	w := &Watch{stop: stop, ends: map[tidemark.TableID][]end{}, relations: map[uint32]change.Relation{}}
	for id, m := range moves {
		for _, f := range m.From.ForeignKeys {
			if f.Acts() {
				w.ends[f.Ref] = append(w.ends[f.Ref], end{id, f})
			}
		}
	}
	return w
}

// Received takes note of a relation, which later changes name by its number.
func (w *Watch) Received(rel change.Relation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.relations[rel.ID] = rel
}

// Skipped stops the tables that a change which is not applied may have changed: all that reference
// its table so, since that can be loaded again only while these are stopped, and those below them.
func (w *Watch) Skipped(c change.Change) error {
	w.mu.Lock()
	rel := w.relations[c.Table]
	w.mu.Unlock()
	if !slices.ContainsFunc(w.ends[rel.Table], func(e end) bool { return acts(c, e.key, &rel) }) {
		return nil
	}
	return w.below(rel.Table, rel.Table, map[tidemark.TableID]bool{rel.Table: true})
}

func (w *Watch) below(id, root tidemark.TableID, seen map[tidemark.TableID]bool) error {
	for _, e := range w.ends[id] {
		if seen[e.child] {
			continue
		}
		seen[e.child] = true
		why := fmt.Errorf("rows of %s, which is stopped, were deleted or got other keys, and what foreign keys (CASCADE, SET NULL) did to rows here is not in the source's log", root)
		err := w.stop(e.child, id, &tidemark.Error{Kind: tidemark.Invalid, Op: "apply", Object: e.child.String(), Err: why, Hint: "It is loaded again after it: tidemark sub reload " + root.String()})
		if err != nil {
			return err
		}
		if err := w.below(e.child, root, seen); err != nil {
			return err
		}
	}
	return nil
}

// acts reports whether a foreign key does something when a row that it may reference changes so.
func acts(c change.Change, f tidemark.ForeignKey, rel *change.Relation) bool {
	if c.Kind == tidemark.DeleteChange {
		return tidemark.ForeignKey{OnDelete: f.OnDelete}.Acts()
	}
	if c.Kind != tidemark.UpdateChange || !(tidemark.ForeignKey{OnUpdate: f.OnUpdate}).Acts() {
		return false
	}
	old, now := c.Old.Values(nil), c.New.Values(nil)
	// Without old values, no column that is referenced so has changed.
	return len(old) > 0 && slices.ContainsFunc(f.RefColumns, func(name string) bool {
		i := slices.IndexFunc(rel.Columns, func(x change.RelationColumn) bool { return x.Name == name })
		if i < 0 || i >= len(now) || i >= len(old) {
			return true // not known
		}
		a, b := old[i], now[i]
		return b.Kind != change.UnchangedValue && (a.Kind != b.Kind || !bytes.Equal(a.Data, b.Data))
	})
}

// Wanted selects the tables whose changes a stream needs: its own, and stopped ones whose changes
// may do something to its own.
func Wanted(moves []tidemark.Move, stopped func(tidemark.TableID) bool) func(tidemark.TableID) bool {
	wanted := map[tidemark.TableID]bool{}
	for i := range moves {
		wanted[moves[i].From.TableID] = true
		for _, f := range moves[i].From.ForeignKeys {
			wanted[f.Ref] = wanted[f.Ref] || f.Acts() && stopped(f.Ref)
		}
	}
	return func(id tidemark.TableID) bool { return wanted[id] }
}

// LinksOf gives, by the source's table, the columns at both ends of foreign keys with actions. The
// target's are the same: so it is known which parent a child had, and which key a parent had.
func LinksOf(moves []tidemark.Move) map[tidemark.TableID][]string {
	out := map[tidemark.TableID][]string{}
	for _, m := range moves {
		for _, f := range m.From.ForeignKeys {
			if f.Acts() {
				out[m.From.TableID] = append(out[m.From.TableID], f.Columns...)
				out[f.Ref] = append(out[f.Ref], f.RefColumns...)
			}
		}
	}
	return out
}
