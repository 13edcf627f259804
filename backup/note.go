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

// A backup that is stopped can be gone on with, as far as it was noted: from time to time it says
// in the repository what it has stored (repo.Checkpoint), and up to where the server's log was by then. The
// one that goes on builds on that as an incremental one does on its parent: what was read has all changes
// from before it began, and what has changed since that moment is read again. So it does not matter how
// often it is stopped: who goes on with one that went on with another asks for what has changed since the
// first of them began, and a file that one of them did not come to is that of the one before.
//
// Of an incremental one a file that none of them came to is that of the finished backup on which they build,
// with what has changed since that one began. So there are two sets of changes, and which one counts for a
// file is whether one of the unfinished ones lists it: what they do not list has none of their layers. A file
// that was removed, and came again with the same name, is found in whichever set counts, since both go up to
// where this backup begins, and no set begins later than what was read of the layers below.

const (
	// noteEvery is how often: each time ends a pack of each Writer early, and adds two small objects.
	noteEvery = 30 * time.Second
	// noteWait is how long is waited between two looks whether suspects are cleared.
	noteWait = suspectWait / 2
	// placeWait is how long the server may take to say where its log is.
	placeWait = 5 * time.Minute
)

// notes are what of a Job has to do with that.
type notes struct {
	stop context.CancelFunc
	over chan struct{}
	last int64 // bytes of files that were noted

	failed error // why nothing is noted any more; to be read when over is closed

	of      []*repo.Manifest // the backups that this one goes on with, the first one first
	base    *repo.Manifest   // the finished one on which they build; nil: they are full ones
	release func()           // gives them up to whoever needs them
}

// note begins to note what is stored. fail is called when the backup cannot become one any more.
func (j *Job) note(ctx context.Context, fail context.CancelCauseFunc) {
	n := &j.notes
	placed, ok := j.server.(Placed)
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

// giveUp gives up what was taken over to go on with.
func (n *notes) giveUp() {
	if n.release != nil {
		n.release()
		n.release = nil
	}
}

// noted ends that.
func (j *Job) noted() {
	n := &j.notes
	if n.stop == nil {
		return
	}
	n.stop()
	<-n.over
	if n.failed != nil {
		j.set.Findings = append(j.set.Findings, tidemark.Finding{Severity: tidemark.Note, Object: j.w.ID,
			Text: "what is stored was not noted any more, so that nobody could have gone on with this backup: " + n.failed.Error()})
	}
	n.stop, n.failed = nil, nil
}

// noteOnce notes what is stored now, if that is more than before.
func (j *Job) noteOnce(ctx context.Context, placed Placed) error {
	c, err := j.w.Checkpoint()
	if err != nil || c.Plain() == j.notes.last {
		return err
	}
	// A page that was wrong may be a damaged one. Nobody would look at it again.
	for until := j.suspect.newest(); ; {
		open, damaged := j.suspect.open(until)
		if damaged {
			return nil // what was noted before has it not
		}
		if !open {
			break
		}
		if err := flow.Sleep(ctx, noteWait); err != nil {
			return err
		}
	}
	// Not before all of that was read.
	// That ends by itself: the session would be lost with a question that is given up.
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

// goOn finds the unfinished backup that this one goes on with. Where there is none it begins anew, and
// findings say why. Kind Transient: it is still being written.
func (j *basis) goOn(ctx context.Context) error {
	all, err := j.repo.Unfinished(ctx)
	if err != nil {
		return err
	}
	var why []string
	for _, m := range all {
		named := j.opt.Resume != ResumeLast
		if named && !strings.HasPrefix(m.ID, j.opt.Resume) || !named && (m.SystemID != j.set.System || m.Engine != "postgres") {
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
		text = "there is no unfinished one of this cluster in " + j.repo.Store().String()
	}
	if j.opt.Resume != ResumeLast {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "resume", Object: j.opt.Resume, Err: errors.New("that backup cannot be gone on with: " + text), Hint: "tidemark backups lists those that can; without --resume a new one begins."}
	}
	j.set.Findings = append(j.set.Findings, tidemark.Finding{Severity: tidemark.Warning, Text: "no earlier backup was gone on with, this one began anew: " + text})
	return nil
}

// goOnWith goes on with one, or says why that cannot be.
func (j *basis) goOnWith(ctx context.Context, m *repo.Manifest) (why string, err error) {
	switch {
	case m.SystemID != j.set.System || m.Engine != "postgres":
		return "it is of another cluster", nil
	case m.VersionNum/10000 != j.set.Major:
		return "it is of " + m.Version, nil
	}
	builder, ok := j.server.(Builder)
	if !ok {
		return "nobody can say what has changed since", nil
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

// asked says why an unfinished backup is not of the kind that was asked for; "": it is. Any is that was named
// and nothing else was said.
func (j *basis) asked(ctx context.Context, m *repo.Manifest) (why string, err error) {
	begun, last := m.Started, j.opt.Resume == ResumeLast
	for m.Kind == repo.Partial && m.Parent != "" {
		parent := m.Parent
		if m, err = j.repo.Brief(ctx, parent); tidemark.KindOf(err) == tidemark.NotFound {
			return parent + ", on which it builds, is gone", nil
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
		return "it is a full one", nil
	case j.opt.Basis == LastFull && m.Kind != repo.Full:
		return "it builds on " + m.ID + ", which is no full one", nil
	case !full && anew && last:
		return "it has only what has changed since " + m.ID + ", and a full one was asked for", nil
	case !full && j.src == nil:
		return "it builds on " + m.ID + ", and a server that sends its files can be told of one backup only", nil
	case full || !last:
		return "", nil
	}
	newest, _, err := j.candidates(ctx)
	if len(newest) > 0 && newest[0].Started.After(begun) {
		why = newest[0].ID + ", on which one would build now, is younger"
	}
	return why, err
}

// sinceBoth asks what has changed since the first of the backups that one has gone on with, and since the
// finished one on which these build, if they do.
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

// sinceFirst is what an engine has to know of unfinished backups, each of which has gone on with the one
// before.
func (j *basis) sinceFirst(ctx context.Context, chain []*repo.Manifest) (tidemark.DataSince, error) {
	m := chain[len(chain)-1]
	ds := tidemark.DataSince{Unfinished: true, Checksums: m.Checksums, Begun: chain[0].Started, Log: j.logOf(m)}
	var layers []earlier // the newest first
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

// goesOn says of a backup that was stopped that somebody can go on with it.
func (j *Job) goesOn(err error) error {
	kept := j.w.Kept()
	if kept == 0 {
		return err
	}
	hint := fmt.Sprintf("What is stored stays for a day (%d MB of files): --resume %s goes on with it.", kept/1e6, j.w.ID)
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

// ranges are parts of the log as a manifest has them.
func ranges(logs []tidemark.DataLog) (out []repo.LogRange) {
	for _, r := range logs {
		out = append(out, repo.LogRange{Timeline: r.Timeline, Start: r.From, End: r.To, First: r.First, Last: r.Last})
	}
	return out
}

// dataLogs are those of a manifest.
func dataLogs(m *repo.Manifest) (out []tidemark.DataLog) {
	for _, r := range m.Ranges {
		out = append(out, tidemark.DataLog{Timeline: r.Timeline, From: r.Start, To: r.End, First: r.First, Last: r.Last})
	}
	return out
}
