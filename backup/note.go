package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A stopped backup can be resumed from its last checkpoint: from time to time it records in the
// repository what it has stored (repo.Checkpoint), and the server's log position at that moment.
// The resuming backup builds on it as an incremental one does on its parent: the stored files have
// all changes from before the stopped backup began, and what has changed since is read again. So it
// may be stopped any number of times: each resumption asks for the changes since the first one
// began, and takes a file that one of them did not reach from the one before.
//
// In an incremental backup, a file that none of them reached comes from the finished backup they
// build on, plus the changes since that one began. So there are two sets of changes; a file uses
// the first if one of the unfinished backups lists it, else the second. A file that was removed and
// created again under the same name is found in the set that counts: both end where this backup
// begins, and neither begins after the layers below were read.

const (
	// noteEvery is the interval between checkpoints: each ends the current pack of every Writer
	// early, and adds two small objects.
	noteEvery = 30 * time.Second
	// noteWait is the pause between two checks whether suspects are cleared.
	noteWait = suspectWait / 2
	// placeWait is how long the server may take to report its log position.
	placeWait = 5 * time.Minute
)

// notes are the part of a Job that writes checkpoints and resumes from them.
type notes struct {
	stop context.CancelFunc
	over chan struct{}
	last int64 // bytes of files in the last checkpoint

	failed error // why checkpoints have stopped; to be read once over is closed

	of      []*repo.Manifest // the backups that this one resumes, in order
	base    *repo.Manifest   // the finished backup they build on; nil: they are full ones
	release func()           // releases them for others
}

// note starts the checkpoints. fail is called when the backup can no longer succeed.
func (j *Job) note(ctx context.Context, fail context.CancelCauseFunc) {
	n := &j.notes
	placed, ok := j.server.(Resumable)
	if !ok {
		return
	}
	ctx, n.stop = context.WithCancel(ctx)
	n.over = make(chan struct{})
	crash.Go(func() {
		defer close(n.over)
		for flow.Sleep(ctx, j.opt.NoteEvery) == nil {
			err := j.noteOnce(ctx, placed)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && tidemark.KindOf(err) == tidemark.Lost:
				fail(err)
				return
			case err != nil:
				n.failed = err
				return
			}
		}
	})
}

// giveUp releases the backup that was taken over.
func (n *notes) giveUp() {
	if n.release != nil {
		n.release()
		n.release = nil
	}
}

// noted stops the checkpoints.
func (j *Job) noted() {
	n := &j.notes
	if n.stop == nil {
		return
	}
	n.stop()
	<-n.over
	if n.failed != nil {
		j.set.Findings = append(j.set.Findings, tidemark.Finding{Severity: tidemark.Note, Object: j.w.ID,
			Text: "checkpoints of this backup failed, so it could not have been resumed: " + n.failed.Error()})
	}
	n.stop, n.failed = nil, nil
}

// noteOnce writes a checkpoint of what is stored now, if that is more than before.
func (j *Job) noteOnce(ctx context.Context, placed Resumable) error {
	c, err := j.w.Checkpoint()
	if err != nil || c.Plain() == j.notes.last {
		return err
	}
	// A page that failed its check may be damaged: nothing would check it again after a checkpoint.
	for until := j.suspect.newest(); ; {
		open, damaged := j.suspect.open(until)
		if damaged {
			return nil // the last checkpoint does not have it
		}
		if !open {
			break
		}
		if err := flow.Sleep(ctx, noteWait); err != nil {
			return err
		}
	}
	// Not before all of that was read. The query ends on its own: cancelling it would end the
	// session.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), placeWait)
	defer cancel()
	at, err := placed.Place(asking)
	if err != nil {
		return err
	}
	m := j.manifest()
	m.Ranges = ranges([]tidemark.DataLog{at})
	if err := c.Write(ctx, m); err != nil {
		return err
	}
	j.notes.last = c.Plain()
	return nil
}

// goOn finds the unfinished backup to resume. If there is none, this is a new backup, and findings
// say why. Kind Transient: it is still being written.
func (j *basis) goOn(ctx context.Context) error {
	all, err := j.repo.Unfinished(ctx)
	if err != nil {
		return err
	}
	var why []string
	for _, m := range all {
		named := j.opt.Resume != ResumeLast
		if named && !strings.HasPrefix(m.ID, j.opt.Resume) || !named && (m.SystemID != j.set.System || m.Engine != j.set.Engine) {
			continue
		}
		if len(why) == triedMost {
			break
		}
		text, err := j.goOnWith(ctx, m)
		if err != nil || j.since.parent != nil {
			return err
		}
		why = append(why, m.ID+": "+text)
	}
	text := strings.Join(why, "; ")
	if len(why) == 0 {
		text = "there is no unfinished backup of this cluster in " + j.repo.Store().String()
	}
	if j.opt.Resume != ResumeLast {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "resume", Object: j.opt.Resume, Err: errors.New("cannot resume that backup: " + text), Hint: "Choose one that tidemark backups lists as unfinished, or leave out --resume to begin a new backup."}
	}
	j.set.Findings = append(j.set.Findings, tidemark.Finding{Severity: tidemark.Warning, Text: "no earlier backup was resumed, this is a new one: " + text})
	return nil
}

// goOnWith resumes m, or returns why that is impossible.
func (j *basis) goOnWith(ctx context.Context, m *repo.Manifest) (why string, err error) {
	switch {
	case m.SystemID != j.set.System || m.Engine != j.set.Engine:
		return "it is of another cluster", nil
	case m.VersionNum/10000 != j.set.Major:
		return "it is of " + m.Version, nil
	}
	builder, ok := j.server.(Builder)
	if !ok {
		return "it is not known what has changed since", nil
	}
	if why, err = j.asked(ctx, m); why != "" || err != nil {
		return why, err
	}
	m, release, err := j.repo.TakeOver(ctx, m.ID)
	switch {
	case err == nil:
	case repo.IsDamage(err) || tidemark.KindOf(err) == tidemark.Lost:
		return err.Error(), nil
	default:
		return "", err
	}
	if why, err = j.sinceBoth(ctx, builder, m); why == "" && err == nil {
		j.notes.release = release
		return "", nil
	}
	release()
	return why, err
}

// asked returns why an unfinished backup is not of the requested kind; "": it is. A backup that was
// named, with no kind requested, always is.
func (j *basis) asked(ctx context.Context, m *repo.Manifest) (why string, err error) {
	begun, last := m.Started, j.opt.Resume == ResumeLast
	for m.Kind == repo.Partial && m.Parent != "" {
		parent := m.Parent
		if m, err = j.repo.Brief(ctx, parent); tidemark.KindOf(err) == tidemark.NotFound {
			return "its parent " + parent + " is gone", nil
		}
		if repo.IsDamage(err) {
			return err.Error(), nil
		}
		if err != nil {
			return "", err
		}
	}
	full, anew := m.Kind == repo.Partial, j.opt.Basis == Nothing && j.opt.Parent == ""
	switch {
	case j.opt.Parent != "" && (full || m.ID != j.opt.Parent):
		return "it does not build on " + j.opt.Parent, nil
	case full && !anew:
		return "it is a full backup", nil
	case j.opt.Basis == LastFull && m.Kind != repo.Full:
		return "it builds on " + m.ID + ", which is not a full backup", nil
	case !full && anew && last:
		return "it has only the changes since " + m.ID + ", and a full backup was requested", nil
	case !full && j.src == nil:
		return "it builds on " + m.ID + ", and a server that sends its files accepts only one parent", nil
	case full || !last:
		return "", nil
	}
	newest, _, err := j.candidates(ctx)
	if len(newest) > 0 && newest[0].Started.After(begun) {
		why = "a new backup would build on " + newest[0].ID + ", which is newer"
	}
	return why, err
}

// sinceBoth asks for the changes since the first of the resumed backups began, and since the
// finished one they build on, if there is one.
func (j *basis) sinceBoth(ctx context.Context, builder Builder, m *repo.Manifest) (why string, err error) {
	chain, why, err := j.unfit(ctx, m)
	if why != "" || err != nil {
		return why, err
	}
	first := len(chain) - 1
	for first > 0 && chain[first-1].Kind == repo.Partial {
		first--
	}
	ds, err := j.sinceFirst(ctx, chain[first:])
	if err != nil {
		return "", err
	}
	var base *repo.Manifest
	if first > 0 {
		base = chain[first-1]
		below, err := j.sinceParent(ctx, base)
		if err != nil {
			return "", err
		}
		ds.Base = &below
	}
	way, findings, err := builder.Since(ctx, ds)
	if kind := tidemark.KindOf(err); err != nil && (kind == tidemark.Unsupported || kind == tidemark.Invalid) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	j.buildOn(m, builder, way, findings)
	j.notes.of, j.notes.base = chain[first:], base
	return "", nil
}

// sinceFirst returns what an engine must know about a chain of unfinished backups, each resuming
// the one before.
func (j *basis) sinceFirst(ctx context.Context, chain []*repo.Manifest) (tidemark.DataSince, error) {
	m := chain[len(chain)-1]
	ds := tidemark.DataSince{Unfinished: true, Checksums: m.Checksums, Begun: chain[0].Started, Log: j.logOf(m)}
	var layers []earlier // newest first
	for i := len(chain) - 1; i >= 0; i-- {
		was, err := j.filesOf(ctx, chain[i])
		if err != nil {
			return ds, err
		}
		layers = append(layers, was)
	}
	for _, b := range chain {
		for _, r := range dataLogs(b) {
			if n := len(ds.Ranges); n > 0 && ds.Ranges[n-1].Timeline == r.Timeline {
				ds.Ranges[n-1].To, ds.Ranges[n-1].Last = r.To, r.Last
			} else {
				ds.Ranges = append(ds.Ranges, r)
			}
		}
	}
	ds.Was = func(path string) (f tidemark.DataFile, ok bool) {
		for i := 0; i < len(layers) && !ok; i++ {
			f, ok = layers[i].get(path)
		}
		return f, ok
	}
	ds.Each = func(give func(tidemark.DataFile) error) error {
		for i := range layers {
			err := j.eachFile(ctx, chain[len(chain)-1-i], func(f tidemark.DataFile) error {
				for _, newer := range layers[:i] {
					if _, said := newer.get(f.Path); said {
						return nil
					}
				}
				return give(f)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	return ds, nil
}

// goesOn adds to the error of a stopped backup how to resume it.
func (j *Job) goesOn(err error) error {
	kept := j.w.Kept()
	if kept == 0 {
		return err
	}
	hint := fmt.Sprintf("%d MB of files are stored and kept for a day: continue with --resume %s.", kept/1e6, j.w.ID)
	if was := tidemark.HintOf(err); was != "" {
		hint = strings.TrimSuffix(was, ".") + ". " + hint
	}
	var own *tidemark.Error
	if errors.As(err, &own) {
		with := *own
		with.Hint = hint
		return &with
	}
	return &tidemark.Error{Op: "back up", Object: j.w.ID, Kind: tidemark.KindOf(err), Hint: hint, Err: err}
}

// ranges converts parts of the log to a manifest's form.
func ranges(logs []tidemark.DataLog) (out []repo.LogRange) {
	for _, r := range logs {
		out = append(out, repo.LogRange{Timeline: r.Timeline, Start: r.From, End: r.To, First: r.First, Last: r.Last})
	}
	return out
}

// dataLogs converts those of a manifest back.
func dataLogs(m *repo.Manifest) (out []tidemark.DataLog) {
	for _, r := range m.Ranges {
		out = append(out, tidemark.DataLog{Timeline: r.Timeline, From: r.Start, To: r.End, First: r.First, Last: r.Last})
	}
	return out
}
