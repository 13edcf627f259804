package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// A stopped backup leaves a checkpoint and the packs that it names. To resume it is to take it
// over: the checkpoint becomes a manifest of kind Partial. Like every manifest, this is written
// once, under a unique name, and never changes. So only one of these competitors succeeds: two
// processes that take it over at once; one that takes it over and one that removes it; a new owner
// and an old one, considered dead, that finishes after all. The resuming backup is a separate one,
// with this as its parent.

// checkpoint reads a backup's checkpoint. Kind NotFound, Corrupt, Unsupported.
func (r *Repo) checkpoint(ctx context.Context, id string) (*Manifest, error) {
	name := checkpointName(id)
	text, err := r.readObject(ctx, name, manifestLimit)
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, damaged(name, err)
	}
	if m.Format != 1 {
		return nil, damaged(name, errVersion)
	}
	if m.ID != id || m.Kind != Partial {
		return nil, damaged(name, fmt.Errorf("it belongs to the %s backup %s", m.Kind, m.ID))
	}
	return m, nil
}

// Unfinished returns the backups that can be resumed, newest first, including those being written:
// checkpoints, and backups of kind Partial that are no parent of a newer one. Unreadable ones are
// left out.
func (r *Repo) Unfinished(ctx context.Context) ([]*Manifest, error) {
	ids, err := r.IDs(ctx)
	if err != nil {
		return nil, err
	}
	var all []*Manifest
	known, parents := map[string]bool{}, map[string]bool{}
	for _, id := range ids {
		known[id] = true
		m, err := r.Brief(ctx, id)
		if err != nil && !IsDamage(err) {
			return nil, err
		}
		if m == nil {
			continue
		}
		parents[m.Parent] = true
		if m.Kind == Partial {
			all = append(all, m)
		}
	}
	for i, err := range r.store.List(ctx, unfinishedPrefix) {
		if err != nil {
			return nil, err
		}
		id := strings.TrimPrefix(i.Name, unfinishedPrefix)
		if known[id] {
			continue
		}
		m, err := r.checkpoint(ctx, id)
		if err != nil && !IsDamage(err) {
			return nil, err
		}
		if m != nil {
			parents[m.Parent] = true
			all = append(all, m)
		}
	}
	all = slices.DeleteFunc(all, func(m *Manifest) bool { return parents[m.ID] })
	SortByAge(all)
	slices.Reverse(all)
	return all, nil
}

// TakeOver turns an unfinished backup into one of kind Partial, if it is not yet, and protects it
// from removal until release. Kind Transient: another process is writing it, or has taken it over.
// NotFound: it was finished, or removed. Lost: some of its objects are missing.
func (r *Repo) TakeOver(ctx context.Context, id string) (m *Manifest, release func(), err error) {
	l, err := r.Lock(ctx, LockSpec{Purpose: "backup", Takes: id})
	if err != nil {
		return nil, nil, err
	}
	if m, err = l.takeOver(ctx, id); err != nil {
		l.Release()
		return nil, nil, err
	}
	return m, l.Release, nil
}

func (l *Lock) takeOver(ctx context.Context, id string) (*Manifest, error) {
	places := []*Lock{l}
	if l.sides != nil {
		places = slices.DeleteFunc(slices.Clone(l.sides), func(own *Lock) bool { return own == nil })
	}
	for _, own := range places {
		if err := own.alone(ctx, id); err != nil {
			return nil, err
		}
	}
	m, err := l.r.Manifest(ctx, id)
	if err != nil && tidemark.KindOf(err) != tidemark.NotFound {
		return nil, err
	}
	if m == nil {
		if m, err = l.r.publishPartial(ctx, id, places); err != nil {
			return nil, err
		}
	}
	if m.Kind != Partial {
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "resume", Object: id, Err: errors.New("that backup is finished"), Hint: "Find it with tidemark backups."}
	}
	// If it stays, that has no consequence: it belongs to a backup that exists.
	_ = l.r.store.Delete(ctx, checkpointName(id))
	return m, nil
}

// alone checks that no other process uses an unfinished backup, and removes the locks of dead
// owners, so that they notice if they are alive.
func (l *Lock) alone(ctx context.Context, id string) error {
	others, err := l.others(ctx)
	if err != nil {
		return err
	}
	for _, o := range others {
		if o.Writes != id && o.Takes != id || !o.Live() {
			continue
		}
		hint := "Wait until it ends"
		if o.Owner == "" || o.Host != l.state.Host {
			hint += fmt.Sprintf(", or, if that machine is gone, until its lock expires in %s", max(o.Lease-o.Age, 0).Round(time.Second))
		}
		return &tidemark.Error{Kind: tidemark.Transient, Op: "resume", Object: id, Err: errors.New("it is still in use: " + o.String()), Hint: hint + "."}
	}
	for _, o := range others {
		if o.Writes == id || o.Takes == id {
			if err := l.r.store.Delete(ctx, lockPrefix+o.ID); err != nil && tidemark.KindOf(err) != tidemark.NotFound {
				return err
			}
		}
	}
	return nil
}

// publishPartial turns a checkpoint into a manifest.
func (r *Repo) publishPartial(ctx context.Context, id string, places []*Lock) (*Manifest, error) {
	m, err := r.checkpoint(ctx, id)
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "resume", Object: id, Err: errors.New("there is no unfinished backup of that name in " + r.store.String()), Hint: "Run tidemark backups: it lists the unfinished ones."}
	}
	if err != nil {
		return nil, err
	}
	for _, own := range places {
		if err := own.r.PacksThere(ctx, m); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, &tidemark.Error{Op: "resume", Object: id, Kind: tidemark.Bug, Err: err}
	}
	err = r.writeObject(ctx, manifestName(id), store.New, text)
	if tidemark.KindOf(err) == tidemark.Exists && err != nil {
		return r.Manifest(ctx, id)
	}
	return m, err
}

// removed reports whether another process has removed the lock as dead, as far as is known.
func (l *Lock) removed(ctx context.Context) bool {
	if cause := context.Cause(l.ctx); cause != nil && tidemark.KindOf(cause) == tidemark.Lost {
		return true
	}
	for i, own := range l.sides {
		if own != nil && !l.r.Mirror().IsLost(i) && own.removed(ctx) {
			return true
		}
	}
	if l.sides != nil {
		return false
	}
	_, err := l.r.store.Stat(ctx, l.name())
	return err != nil
}
