package repo

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// PruneOptions of Prune.
type PruneOptions struct {
	Keep   Keep
	DryRun bool // only say what would be done
	// Did, if not nil, is called after each step with what was removed.
	Did func(what string, bytes int64)
}

// Orphan is what is left of a backup that was not finished.
type Orphan struct {
	ID    string `json:"id"`
	Packs int    `json:"packs"`
	Bytes int64  `json:"bytes"`
}

// A PruneReport says what was done, or would be.
type PruneReport struct {
	Stay    []Kept      // newest first
	Gone    []*Manifest // newest first
	Orphans []Orphan
	Logs    []Log       // that nobody needs
	Locks   []LockState // of dead owners
	Left    []string    // files that killed writers left; not known in a dry run
	Notes   []string    // why something stays that might have gone
	Bytes   int64       // freed, or to be freed
}

// Prune removes backups that need not stay, logs that no backup needs, what backups that were not
// finished have left, and dead locks. It never removes what a backup that stays needs, nor
// what a live lock says is used. It can be killed at any moment: whatever is listed then is whole.
// Kind Corrupt: a manifest cannot be read, so nobody can say what is needed. Transient: another one
// runs.
func (r *Repo) Prune(ctx context.Context, opt PruneOptions) (*PruneReport, error) {
	l, err := r.Lock(ctx, LockSpec{Purpose: "prune", Removes: !opt.DryRun})
	if err != nil {
		return nil, err
	}
	defer l.Release()
	ctx = l.Context()
	p := &pruner{r: r, lock: l, opt: opt, out: new(PruneReport)}
	err = p.plan(ctx)
	if err == nil && !opt.DryRun {
		err = p.act(ctx)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return p.out, err
}

type pruner struct {
	r       *Repo
	lock    *Lock
	opt     PruneOptions
	out     *PruneReport
	now     time.Time // the place's
	oldest  time.Time // since when live locks are held, by its clock
	buried  []store.Info
	running map[string]bool // backups that are being written
}

func (p *pruner) plan(ctx context.Context) error {
	var err error
	if p.now, err = p.lock.now(ctx); err != nil {
		return err
	}
	locks, err := p.r.locks(ctx, p.now, p.lock.name())
	if err != nil {
		return err
	}
	used := p.look(locks)
	var all []*Manifest
	known := map[string]bool{}
	for i, err := range p.r.store.List(ctx, "backups/") {
		if err != nil {
			return err
		}
		id := strings.TrimPrefix(i.Name, "backups/")
		m, err := p.r.Manifest(ctx, id)
		if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
			p.buried = append(p.buried, i)
			continue
		}
		if kind := tidemark.KindOf(err); err != nil && (kind == tidemark.Corrupt || kind == tidemark.Unsupported) {
			return &tidemark.Error{Op: "prune", Kind: kind, Hint: "nobody can say what that backup needs: put the object back from a copy, or remove it if the backup is given up", Err: err}
		}
		if err != nil {
			return err
		}
		known[id] = true
		all = append(all, m)
	}
	p.out.Stay, p.out.Gone = p.opt.Keep.choose(all, used, p.now)
	for _, m := range p.out.Gone {
		p.out.Bytes += m.Stored
	}
	if err := p.orphans(ctx, known); err != nil {
		return err
	}
	return p.logs(ctx)
}

// look sorts the others' locks into live and dead, and says which backups are used.
func (p *pruner) look(locks []LockState) map[string]string {
	used := map[string]string{}
	p.running = map[string]bool{}
	p.oldest = p.now
	for _, l := range locks {
		if !l.Live() {
			p.out.Locks = append(p.out.Locks, l)
			continue
		}
		if since := p.now.Add(-l.Age - l.Held); since.Before(p.oldest) {
			p.oldest = since
		}
		for _, id := range l.Needs {
			used[id] = l.String()
		}
		if l.Writes != "" {
			p.running[l.Writes] = true
			p.out.Notes = append(p.out.Notes, "backup "+l.Writes+" is being written: "+l.String())
		}
	}
	return used
}

// orphans finds packs of backups that do not exist and are not being written.
func (p *pruner) orphans(ctx context.Context, known map[string]bool) error {
	at := map[string]int{}
	for i, err := range p.r.store.List(ctx, "packs/") {
		if err != nil {
			return err
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(i.Name, "packs/"), "/")
		if known[id] || p.running[id] {
			continue
		}
		n, ok := at[id]
		if !ok {
			n = len(p.out.Orphans)
			at[id] = n
			p.out.Orphans = append(p.out.Orphans, Orphan{ID: id})
		}
		p.out.Orphans[n].Packs++
		p.out.Orphans[n].Bytes += i.Size
		p.out.Bytes += i.Size
	}
	return nil
}

func (p *pruner) logs(ctx context.Context) error {
	if len(p.running) > 0 {
		p.out.Notes = append(p.out.Notes, "no log is removed while a backup is being written, which may need it")
		return nil
	}
	logs, err := p.r.Logs(ctx, "")
	if err != nil {
		return err
	}
	for i, needed := range p.opt.Keep.needed(logs, p.out.Stay, p.now) {
		if !needed {
			p.out.Logs = append(p.out.Logs, logs[i])
			p.out.Bytes += logs[i].Stored
		}
	}
	return nil
}

// buryFor is how long the mark of a removed backup stays: longer than any writer can stand still
// and go on.
const buryFor = 7 * 24 * time.Hour

// act removes, in an order in which nothing that is listed lacks something: first the locks of
// the dead, so that they notice; backups before those that they need; logs from the oldest on.
func (p *pruner) act(ctx context.Context) error {
	remove := func(name string, bytes int64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := p.r.store.Delete(ctx, name)
		if err != nil && tidemark.KindOf(err) != tidemark.NotFound {
			return err
		}
		p.did(name, bytes)
		return nil
	}
	for _, l := range p.out.Locks {
		if err := remove(lockPrefix+l.ID, 0); err != nil {
			return err
		}
	}
	for _, o := range p.out.Orphans {
		if err := p.r.bury(ctx, o.ID); err != nil {
			return err
		}
		bytes, _, err := p.r.removePacks(ctx, o.ID)
		if err != nil {
			return err
		}
		p.did("packs/"+o.ID, bytes)
	}
	for _, m := range p.out.Gone {
		if err := ctx.Err(); err != nil {
			return err
		}
		bytes, _, err := p.r.Delete(ctx, m.ID)
		if err != nil && tidemark.KindOf(err) != tidemark.NotFound {
			return err
		}
		p.did(manifestName(m.ID), bytes)
	}
	for _, l := range p.out.Logs {
		if err := remove(logPrefix+l.Name, l.Stored); err != nil {
			return err
		}
	}
	for _, b := range p.buried {
		if p.now.Sub(b.Time) > buryFor {
			if err := remove(b.Name, b.Size); err != nil {
				return err
			}
		}
	}
	// Who writes without a lock, such as archive push, takes far less than an hour.
	left, err := store.Sweep(ctx, p.r.store, p.oldest.Add(-time.Hour))
	p.out.Left = left
	return err
}

func (p *pruner) did(what string, bytes int64) {
	if p.opt.Did != nil {
		p.opt.Did(what, bytes)
	}
}

// bury puts a mark where an unfinished backup's manifest would be, so that it never appears. Kind
// Exists: it has.
func (r *Repo) bury(ctx context.Context, id string) error {
	m, err := json.Marshal(Manifest{Format: 1, ID: id, Buried: true})
	if err != nil {
		return err
	}
	err = r.writeObject(ctx, manifestName(id), store.New, m)
	if err == nil || tidemark.KindOf(err) != tidemark.Exists {
		return err
	}
	if _, merr := r.Manifest(ctx, id); tidemark.KindOf(merr) == tidemark.NotFound && merr != nil {
		return nil // it was buried before
	}
	return &tidemark.Error{Op: "prune", Object: id, Kind: tidemark.Transient, Hint: "run it again", Err: errors.New("it was finished by somebody whose lock had run out")}
}
