package repo

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// unfinishedPrefix is below what the checkpoints of backups are. One is the document of a manifest of
// kind Partial: it becomes that when somebody goes on with the backup (unfinished.go).
const unfinishedPrefix = "unfinished/"

func checkpointName(id string) string { return unfinishedPrefix + id }

// A Checkpoint is what a backup had at a moment: the files that were listed, and of which all
// pieces were in packs that were closed.
type Checkpoint struct {
	w                           *Writer
	lists                       []Ref
	packs                       []PackStat
	count, bytes, plain, stored int64
}

// Checkpoint takes one. Packs that are open now end with the next piece that is appended to them,
// so that the next checkpoint has what is in them.
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

// Plain gives the bytes of files that it has.
func (c *Checkpoint) Plain() int64 { return c.plain }

// Write notes it, in place of the one before: what it has stays when the backup is not finished. m is
// what Publish would be given; its ranges end where the server's log was when all of this had been read.
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
	w.unsure = true // which of two is there, while one is written
	w.mu.Unlock()
	if err := w.repo.writeObject(ctx, checkpointName(w.ID), store.Replace, text); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsure, w.kept = false, c
	return nil
}

// Kept gives the bytes of files that stay when the backup is not finished.
func (w *Writer) Kept() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept == nil {
		return 0
	}
	return w.kept.plain
}

// forgetCheckpoint removes the checkpoint of a backup that is there. That it fails has no
// consequence: prune removes it.
func (w *Writer) forgetCheckpoint(ctx context.Context) {
	w.mu.Lock()
	is := w.kept != nil || w.unsure
	w.mu.Unlock()
	if is {
		_ = w.repo.store.Delete(ctx, checkpointName(w.ID))
	}
}

// Abort gives up the lock, and removes what was written but for what the last checkpoint has: that
// can be gone on with. After Publish it does nothing.
func (w *Writer) Abort(ctx context.Context) error {
	if w.published {
		return nil
	}
	defer w.lock.Release()
	w.files.abort()
	ctx = context.WithoutCancel(ctx)
	if w.lock.removed(ctx) {
		return nil // others have taken what is there, or remove it
	}
	// A Publish that failed may have written the manifest all the same.
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
		return nil // prune knows which objects nobody needs
	}
	if kept == nil {
		_, _, err := w.repo.removeParts(ctx, w.ID)
		return err
	}
	return w.repo.removeOthers(ctx, w.ID, kept.packs)
}

// removeOthers removes the packs of a backup that are not among those given.
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
