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

// A backup that was stopped leaves a checkpoint and the packs that it names. Whoever goes on with it
// takes it over: the checkpoint becomes a manifest of kind Partial, which is written as all are, once
// and under a name that nobody else has, and never changes. So of two who do it at once, of one who
// removes it and one who takes it, and of an owner who was taken for dead and finishes it after all,
// one is refused. The backup that goes on is another one, whose parent this is.

// checkpoint reads that of a backup. Kind NotFound, Corrupt, Unsupported.
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
		return nil, damaged(name, fmt.Errorf("it is that of the %s backup %s", m.Kind, m.ID))
	}
	return m, nil
}

// Unfinished gives what can be gone on with, the newest first, and that of backups that are being
// written: checkpoints, and backups of kind Partial on which none builds that is younger. Those of
// which nothing can be read are left out.
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

// TakeOver makes an unfinished backup one of kind Partial, if it is not yet, and keeps it from being removed
// until release. Kind Transient: somebody still writes it, or has taken it over. NotFound: it was finished, or
// removed. Lost: what it had is not all there.
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
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "resume", Object: id, Err: errors.New("that backup was finished"), Hint: "tidemark backups lists it"}
	}
	// That it stays has no consequence: it belongs to a backup that is there.
	_ = l.r.store.Delete(ctx, checkpointName(id))
	return m, nil
}

// alone looks whether nobody else uses an unfinished backup, and removes the locks of dead owners,
// so that they notice if they are not.
func (l *Lock) alone(ctx context.Context, id string) error {
	others, err := l.others(ctx)
	if err != nil {
		return err
	}
	for _, o := range others {
		if o.Writes != id && o.Takes != id || !o.Live() {
			continue
		}
		hint := "wait until it has ended"
		if o.Owner == "" || o.Host != l.state.Host {
			hint += fmt.Sprintf("; if that machine is gone, its lock runs out in %s", max(o.Lease-o.Age, 0).Round(time.Second))
		}
		return &tidemark.Error{Kind: tidemark.Transient, Op: "resume", Object: id, Err: errors.New("it is still in use: " + o.String()), Hint: hint}
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

// publishPartial makes a manifest of a checkpoint.
func (r *Repo) publishPartial(ctx context.Context, id string, places []*Lock) (*Manifest, error) {
	m, err := r.checkpoint(ctx, id)
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "resume", Object: id, Err: errors.New("there is no unfinished backup of that name in " + r.store.String()), Hint: "tidemark backups lists what can be gone on with"}
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

// removed says whether somebody has taken the lock for dead, as far as can be known.
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
