package repo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// PruneOptions are the options of Prune.
type PruneOptions struct {
	Keep   Keep
	DryRun bool // only report what would be done
	// Unfinished is how long an unfinished backup can be resumed, counted from its last sign of
	// life; 0 means 24 hours, negative not at all.
	Unfinished time.Duration
	// Did, if not nil, is called after each step with what was removed.
	Did func(what string, bytes int64)
}

// Orphan is what is left of an unfinished backup.
type Orphan struct {
	ID    string `json:"id"`
	Packs int    `json:"packs"` // and plain objects
	Bytes int64  `json:"bytes"`
}

// A PruneReport describes what was done, or would be.
type PruneReport struct {
	Stay    []Kept      // newest first
	Gone    []*Manifest // newest first
	Orphans []Orphan
	Logs    []Log       // not needed
	Locks   []LockState // of dead owners
	Left    []string    // temporary files of killed writers; unknown in a dry run
	Notes   []string    // why something stays that could have been removed
	Bytes   int64       // freed, or to be freed
}

// Prune removes backups that need not stay, logs that no backup needs, remains of unfinished
// backups, and dead locks. It never removes what a remaining backup needs, nor what a live lock
// lists as used. It can be killed at any moment: whatever is listed then is complete. Kind Corrupt:
// a manifest cannot be read, so it is unknown what is needed. Transient: another prune is running.
func (r *Repo) Prune(ctx context.Context, opt PruneOptions) (*PruneReport, error) {
	l, err := r.lockToRemove(ctx, LockSpec{Purpose: "prune", Removes: !opt.DryRun})
	if err != nil {
		return nil, err
	}
	defer l.Release()
	ctx = l.Context()
	if opt.Unfinished == 0 {
		opt.Unfinished = 24 * time.Hour
	}
	p := &pruner{r: r, lock: l, opt: opt, out: new(PruneReport), waiting: map[string]string{}}
	err = p.plan(ctx)
	if err == nil && !opt.DryRun {
		err = p.act(ctx)
		r.makeSpare(ctx)
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
	now     time.Time // by the place's clock
	oldest  time.Time // since when live locks are held, by the same clock
	buried  []store.Info
	running map[string]bool // backups that are being written, or taken over
	kept    []string        // names of objects that the place retains for now

	waiting map[string]string // unfinished backups that stay because they can be resumed, with the reason
	since   []string          // their first logs
	spent   []string          // unneeded objects: checkpoints, and packs of partial backups
	gaps    []store.Info      // older than all log that stays
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
	used := p.divideLocks(locks)
	var all []*Manifest
	known, parents, times := map[string]bool{}, map[string]bool{}, map[string]time.Time{}
	for i, err := range p.r.store.List(ctx, "backups/") {
		if err != nil {
			return err
		}
		id := strings.TrimPrefix(i.Name, "backups/")
		m, err := p.r.Brief(ctx, id)
		if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
			p.buried = append(p.buried, i)
			continue
		}
		if kind := tidemark.KindOf(err); err != nil && (kind == tidemark.Corrupt || kind == tidemark.Unsupported) {
			return &tidemark.Error{Op: "prune", Kind: kind, Hint: "Put the object back from a copy: without it, prune cannot know what that backup needs. If you give the backup up, remove the object.", Err: err}
		}
		if err != nil {
			return err
		}
		known[id], parents[m.Parent], times[id] = true, true, i.Time
		all = append(all, m)
	}
	for _, m := range all {
		if m.Kind != Partial {
			continue
		}
		if !parents[m.ID] && p.now.Sub(times[m.ID]) <= p.opt.Unfinished {
			p.wait(m)
		}
		if err := p.others(ctx, m); err != nil {
			return err
		}
	}
	if err := p.unfinished(ctx, known); err != nil {
		return err
	}
	if err := p.taken(ctx, known); err != nil {
		return err
	}
	for id, why := range p.waiting {
		used[id] = cmp.Or(used[id], why)
	}
	pinned, err := p.r.Pins(ctx)
	if err != nil {
		return err
	}
	p.out.Stay, p.out.Gone = p.opt.Keep.choose(all, used, pinned, p.now)
	for _, m := range p.out.Gone {
		p.out.Bytes += m.Stored
	}
	if err := p.orphans(ctx, known); err != nil {
		return err
	}
	return p.logs(ctx)
}

// divideLocks divides the others' locks into live and dead, and returns which backups are used.
func (p *pruner) divideLocks(locks []LockState) map[string]string {
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
			used[id] = "in use: " + l.String()
		}
		if l.Takes != "" {
			p.running[l.Takes] = true
			used[l.Takes] = "in use: " + l.String()
		}
		if l.Writes != "" {
			p.running[l.Writes] = true
			p.out.Notes = append(p.out.Notes, "backup "+l.Writes+" is being written: "+l.String())
		}
	}
	return used
}

// orphans finds objects of backups that neither exist nor are being written.
func (p *pruner) orphans(ctx context.Context, known map[string]bool) error {
	at := map[string]int{}
	for _, prefix := range partPrefixes {
		for i, err := range p.r.store.List(ctx, prefix) {
			if err != nil {
				return err
			}
			id, _, _ := strings.Cut(strings.TrimPrefix(i.Name, prefix), "/")
			if known[id] || p.running[id] || p.waiting[id] != "" {
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
	}
	return nil
}

// others finds packs that a Partial backup does not list: its owner wrote them later.
func (p *pruner) others(ctx context.Context, m *Manifest) error {
	if p.running[m.ID] {
		return nil
	}
	m, err := p.r.Manifest(ctx, m.ID)
	if err != nil {
		return err
	}
	there, err := p.r.packsOf(ctx, m.ID)
	for n, size := range there {
		if m.pack(n) == nil {
			p.spent = append(p.spent, packName(m.ID, n))
			p.out.Bytes += size
		}
	}
	return err
}

// unfinished reads the checkpoints of backups that do not exist.
func (p *pruner) unfinished(ctx context.Context, known map[string]bool) error {
	for i, err := range p.r.store.List(ctx, unfinishedPrefix) {
		if err != nil {
			return err
		}
		id := strings.TrimPrefix(i.Name, unfinishedPrefix)
		if p.running[id] {
			continue
		}
		may := !known[id] && p.now.Sub(i.Time) <= p.opt.Unfinished && !slices.ContainsFunc(p.buried, func(b store.Info) bool { return b.Name == manifestName(id) })
		var m *Manifest
		if may {
			if m, err = p.r.checkpoint(ctx, id); err == nil {
				err = p.r.PacksThere(ctx, m)
			}
			if err != nil && !IsDamage(err) && tidemark.KindOf(err) != tidemark.Lost {
				return err
			}
			may = err == nil
		}
		if !may {
			p.spent = append(p.spent, i.Name)
			continue
		}
		p.wait(m)
		p.out.Notes = append(p.out.Notes, "backup "+id+" is not finished: it is kept for now, so that tidemark backup --resume can continue it")
	}
	return nil
}

// taken records what backups build on that are being taken over and had no manifest yet. The
// manifest is written before the checkpoint is removed, so one of the two always exists.
func (p *pruner) taken(ctx context.Context, known map[string]bool) error {
	for id := range p.running {
		if known[id] {
			continue
		}
		m, err := p.r.checkpoint(ctx, id)
		if tidemark.KindOf(err) == tidemark.NotFound {
			m, err = p.r.Brief(ctx, id)
		}
		if err != nil && !IsDamage(err) {
			return err
		}
		if err == nil && m.Parent != "" {
			p.waiting[m.Parent] = cmp.Or(p.waiting[m.Parent], "needed by "+id+", which is not finished")
		}
	}
	return nil
}

// wait records that an unfinished backup can be resumed: it stays, with those it builds on and the
// log since it began.
func (p *pruner) wait(m *Manifest) {
	p.waiting[m.ID] = "not finished, and can be resumed"
	if m.Parent != "" && p.waiting[m.Parent] == "" {
		p.waiting[m.Parent] = "needed by " + m.ID + ", which is not finished"
	}
	for _, g := range m.Ranges {
		p.since = append(p.since, g.First)
	}
}

func (p *pruner) logs(ctx context.Context) error {
	if len(p.running) > 0 {
		p.out.Notes = append(p.out.Notes, "no log is removed while a backup is being written: the backup may need it")
		return nil
	}
	logs, err := p.r.Logs(ctx, "")
	if err != nil {
		return err
	}
	oldest := ""
	for i, needed := range p.opt.Keep.needed(logs, p.out.Stay, p.since, p.now) {
		if !needed {
			p.out.Logs = append(p.out.Logs, logs[i])
			p.out.Bytes += logs[i].Stored
		} else if oldest == "" && strings.Contains(logs[i].Name, "/") {
			oldest = logs[i].Name
		}
	}
	p.gaps, err = p.r.gapsBefore(ctx, oldest)
	return err
}

// buryFor is how long the mark of a removed backup stays: longer than any writer can stall and
// resume.
const buryFor = 7 * 24 * time.Hour

// act removes in an order that keeps everything listed complete: first dead owners' locks, so that
// owners notice; backups before those they need; logs from the oldest on.
//
// What the place retains for now (store.Kept) stays, and so does what it needs; a later prune tries
// again.
func (p *pruner) act(ctx context.Context) error {
	for _, l := range p.out.Locks {
		if _, err := p.remove(ctx, lockPrefix+l.ID, 0); err != nil {
			return err
		}
	}
	for _, o := range p.out.Orphans {
		if err := p.r.bury(ctx, o.ID); err != nil {
			return err
		}
		bytes, _, err := p.r.removeParts(ctx, o.ID)
		if err = p.unlessKept("packs/"+o.ID, o.Bytes-bytes, err); err != nil {
			return err
		}
		p.did("packs/"+o.ID, bytes)
	}
	for _, name := range p.spent {
		if _, err := p.remove(ctx, name, 0); err != nil {
			return err
		}
	}
	if err := p.backups(ctx); err != nil {
		return err
	}
	for i, l := range p.out.Logs {
		kept, err := p.remove(ctx, logPrefix+l.Name, l.Stored)
		if err != nil {
			return err
		}
		if kept { // nor newer ones: so there is no gap
			for _, newer := range p.out.Logs[i+1:] {
				p.out.Bytes -= newer.Stored
			}
			p.out.Logs = p.out.Logs[:i]
			break
		}
	}
	for _, g := range p.gaps {
		if _, err := p.remove(ctx, g.Name, g.Size); err != nil {
			return err
		}
	}
	for _, b := range p.buried {
		if p.now.Sub(b.Time) > buryFor {
			if _, err := p.remove(ctx, b.Name, b.Size); err != nil {
				return err
			}
		}
	}
	// Writers without a lock, such as archive push, take far less than an hour.
	var err error
	p.out.Left, err = p.r.sweep(ctx, p.lock, p.oldest.Add(-time.Hour))
	p.noteKept()
	return err
}

// backups removes those that go. If one is retained, everything it needs stays, and the needed log
// is determined again.
func (p *pruner) backups(ctx context.Context) error {
	gone, needed := p.out.Gone, map[string]string{}
	p.out.Gone = nil
	stays := func(m *Manifest, why string) {
		p.out.Stay = append(p.out.Stay, Kept{m, []string{why}})
		p.out.Bytes -= m.Stored
		needed[m.Parent] = "needed by " + m.ID
	}
	for _, m := range gone { // newest first: before those it needs
		if err := ctx.Err(); err != nil {
			return err
		}
		if why := needed[m.ID]; why != "" {
			stays(m, why)
			continue
		}
		bytes, objects, err := p.r.Delete(ctx, m.ID)
		if store.Kept(err) && objects == 0 {
			p.kept = append(p.kept, manifestName(m.ID))
			stays(m, "the store retains it")
			continue
		}
		if err = p.unlessKept("packs/"+m.ID, m.Stored-bytes, err); err != nil && tidemark.KindOf(err) != tidemark.NotFound {
			return err
		}
		p.out.Gone = append(p.out.Gone, m)
		p.did(manifestName(m.ID), bytes)
	}
	if len(needed) == 0 || len(p.running) > 0 {
		return nil
	}
	slices.SortFunc(p.out.Stay, func(a, b Kept) int { return b.Started.Compare(a.Started) })
	for _, l := range p.out.Logs {
		p.out.Bytes -= l.Stored
	}
	p.out.Logs, p.gaps = nil, nil
	return p.logs(ctx)
}

// remove removes an object, unless the place retains it.
func (p *pruner) remove(ctx context.Context, name string, bytes int64) (kept bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	err = p.r.store.Delete(ctx, name)
	if store.Kept(err) {
		return true, p.unlessKept(name, bytes, err)
	}
	if err != nil && tidemark.KindOf(err) != tidemark.NotFound {
		return false, err
	}
	p.did(name, bytes)
	return false, nil
}

// unlessKept records what the place retains, which is no error.
func (p *pruner) unlessKept(name string, bytes int64, err error) error {
	if !store.Kept(err) {
		return err
	}
	p.kept = append(p.kept, name)
	p.out.Bytes -= max(bytes, 0)
	return nil
}

func (p *pruner) noteKept() {
	if len(p.kept) > 0 {
		p.out.Notes = append(p.out.Notes, "not removed, because of an object lock, a hold or a retention rule; prune again once that expires: "+tidemark.Some(p.kept, 5))
	}
}

func (p *pruner) did(what string, bytes int64) {
	if p.opt.Did != nil {
		p.opt.Did(what, bytes)
	}
}

// bury puts a mark in place of an unfinished backup's manifest, so that the backup never appears.
// Kind Exists: it already has.
func (r *Repo) bury(ctx context.Context, id string) error {
	m, err := json.Marshal(Manifest{Format: 1, ID: id, Buried: true})
	if err != nil {
		return err
	}
	err = r.writeObject(ctx, manifestName(id), store.New, m)
	if err == nil || tidemark.KindOf(err) != tidemark.Exists {
		return err
	}
	if _, merr := r.Brief(ctx, id); tidemark.KindOf(merr) == tidemark.NotFound && merr != nil {
		return nil // it was buried before
	}
	return &tidemark.Error{Op: "prune", Object: id, Kind: tidemark.Transient, Hint: "Run prune again.", Err: errors.New("it was finished by a process whose lock had expired")}
}
