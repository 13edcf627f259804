package repo

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// unfinishedPrefix is the folder of the checkpoints. A checkpoint has the form of a manifest of
// kind Partial, and becomes one when the backup is resumed (unfinished.go).
const unfinishedPrefix = "unfinished/"

func checkpointName(id string) string { return unfinishedPrefix + id }

// A Checkpoint is what a backup had at one moment: the listed files whose pieces were all in closed
// packs.
type Checkpoint struct {
	w                           *Writer
	lists                       []Ref
	packs                       []PackStat
	count, bytes, plain, stored int64
}

// Checkpoint takes one. Packs that are open now end with the next piece appended to them, so that
// the next checkpoint includes them.
func (w *Writer) Checkpoint() (*Checkpoint, error) {
	l := &w.files
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	if l.err == nil {
		l.err = l.pack.Close()
	}
	if l.err != nil {
		return nil, l.err
	}
	w.ends.Add(1)
	w.mu.Lock()
	closed := make(map[uint32]PackStat, len(w.packs))
	for _, p := range w.packs {
		closed[p.Number] = p
	}
	w.mu.Unlock()
	c := &Checkpoint{w: w}
	named := map[uint32]bool{}
	for _, g := range l.past {
		if slices.ContainsFunc(g.packs, func(n uint32) bool { _, is := closed[n]; return !is }) {
			continue
		}
		c.lists = append(c.lists, g.refs...)
		c.count, c.bytes, c.plain = c.count+g.count, c.bytes+g.bytes, c.plain+g.plain
		for _, n := range g.packs {
			if !named[n] {
				named[n] = true
				c.packs = append(c.packs, closed[n])
				c.stored += closed[n].Size
			}
		}
	}
	slices.SortFunc(c.packs, comparePacks)
	return c, nil
}

// Plain returns the bytes of files that it has.
func (c *Checkpoint) Plain() int64 { return c.plain }

// Write stores it in place of the one before: what it has survives if the backup is not finished. m
// is what Publish would receive; its ranges end at the server's log position after all of this was
// read.
func (c *Checkpoint) Write(ctx context.Context, m Manifest) error {
	w := c.w
	if err := w.lock.check(ctx); err != nil {
		return err
	}
	m.Format, m.ID, m.Kind, m.Parent, m.Started, m.Ended = 1, w.ID, Partial, w.parent, w.begun, time.Now().UTC()
	m.Packs, m.Lists, m.Count, m.Bytes, m.Plain, m.Stored = c.packs, c.lists, c.count, c.bytes, c.plain, c.stored
	text, err := json.Marshal(m)
	if err != nil {
		return &tidemark.Error{Op: "note what is stored", Object: w.ID, Kind: tidemark.Bug, Err: err}
	}
	w.mu.Lock()
	w.unsure = true // during a write, either of the two may exist
	w.mu.Unlock()
	if err := w.repo.writeObject(ctx, checkpointName(w.ID), store.Replace, text); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsure, w.kept = false, c
	return nil
}

// Kept returns the bytes of files that survive if the backup is not finished.
func (w *Writer) Kept() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept == nil {
		return 0
	}
	return w.kept.plain
}

// forgetCheckpoint removes the checkpoint of a published backup. If that fails, prune removes it
// later.
func (w *Writer) forgetCheckpoint(ctx context.Context) {
	w.mu.Lock()
	is := w.kept != nil || w.unsure
	w.mu.Unlock()
	if is {
		_ = w.repo.store.Delete(ctx, checkpointName(w.ID))
	}
}

// Abort releases the lock, and removes what was written except the last checkpoint's objects: the
// backup can be resumed from those. After Publish it does nothing.
func (w *Writer) Abort(ctx context.Context) error {
	if w.published {
		return nil
	}
	defer w.lock.Release()
	w.files.abort()
	ctx = context.WithoutCancel(ctx)
	if w.lock.removed(ctx) {
		return nil // others have taken over what is there, or remove it
	}
	// A failed Publish may have written the manifest all the same.
	switch m, err := w.repo.Brief(ctx, w.ID); {
	case err == nil && m.Kind != Partial:
		if err := w.repo.store.Delete(ctx, manifestName(w.ID)); err != nil && tidemark.KindOf(err) != tidemark.NotFound {
			return err
		}
	case err == nil, tidemark.KindOf(err) != tidemark.NotFound:
		return err
	}
	w.mu.Lock()
	kept, unsure := w.kept, w.unsure
	w.mu.Unlock()
	if unsure {
		return nil // prune knows which objects are not needed
	}
	if kept == nil {
		_, _, err := w.repo.removeParts(ctx, w.ID)
		return err
	}
	return w.repo.removeOthers(ctx, w.ID, kept.packs)
}

// removeOthers removes a backup's packs that are not among those given.
func (r *Repo) removeOthers(ctx context.Context, id string, packs []PackStat) error {
	there, err := r.packsOf(ctx, id)
	if err != nil {
		return err
	}
	for n := range there {
		if _, named := slices.BinarySearchFunc(packs, PackStat{Number: n}, comparePacks); named {
			continue
		}
		if err := r.store.Delete(ctx, packName(id, n)); err != nil && tidemark.KindOf(err) != tidemark.NotFound {
			return err
		}
	}
	return nil
}
