package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// Options of a backup and of a restore. The zero value is good.
type Options struct {
	Parallelism int   // workers on the server's side; 0: one per processor, at least 2, and more where that helps
	Sessions    int   // workers on the repository's side; 0: half as many, at least 2, and more where that helps
	Buffers     int   // between them; 0: as many as are useful
	BufferSize  int64 // bytes of a piece, a multiple of 64 kB up to repo.MaxPiece; 0: 1 MB, or less where memory is short
	Memory      int64 // limit for workers and buffers, as far as their numbers were left open; 0: 96 MB
	Direct      bool  // read and write the server's files without the system's cache
	Codec       repo.Codec

	Resume    string        // resume the unfinished backup whose id begins with this, or ResumeLast; "": none
	NoteEvery time.Duration // interval between checkpoints; 0: 30 s

	Basis  Basis  // which backup this one builds on
	Parent string // its id, if it was named

	KeepDamaged bool // back up a damaged page and report it, instead of stopping

	// Watch, if set, is called beside the workers, whose roles are Reader, Writer and, for what a
	// Stream sends, Receiver; it returns once ctx ends. Readers and writers are pinned to threads.
	Watch func(ctx context.Context, g *flow.Group)

	Server              string // its name; "": the one it has in the repository, which then must have no other server's files
	Label, Tool, Origin string // for the backup's manifest
}

// ResumeLast is the last unfinished backup of the cluster.
const ResumeLast = "last"

// A Job is one backup.
type Job struct {
	progress
	basis
	stream Stream // nil: the server is a Source
	pages  Pages  // nil: pages have no checksums

	w       *repo.Writer
	left    []repo.Path // listed, but not in the backup
	goneN   atomic.Int64
	work    *flow.Buffer[stretch]
	raw     *flow.Buffer[[]byte] // for what a Stream sends
	empty   *flow.Buffer[*block]
	full    *flow.Buffer[*block]
	open    pending
	suspect suspects
	spaces  spaces
	tuned   tuned
	group   *flow.Group
	crew    *crew
}

// A block is a circulating buffer.
type block struct {
	room   []byte // room for sealed bytes; its first user allocates it
	sealed repo.Sealed
	files  []*file // whose bytes are in it
	at     int64   // offset in a large file
	runs   []run   // of files backed up by page; then there are no files
}

// A Result is the outcome of a backup.
type Result struct {
	Manifest *repo.Manifest     `json:"manifest"`
	Report   Report             `json:"report"`
	Findings []tidemark.Finding `json:"findings,omitempty"`
	Damaged  []string           `json:"damaged,omitempty"` // pages, with KeepDamaged
	GoneN    int64              `json:"gone"`              // files that were removed while it ran
	// Increment is set if the backup has only what changed.
	Increment *Increment `json:"increment,omitempty"`
}

// damagedNote begins the notes of damaged pages in a backup's manifest.
const damagedNote = "damaged page: "

// New prepares a backup of a Source or a Stream to a repository.
func New(s Server, r *repo.Repo, opt Options) (*Job, error) {
	t, err := opt.tuned(r.Store(), 0)
	opt.NoteEvery = cmp.Or(opt.NoteEvery, noteEvery)
	j := &Job{basis: basis{server: s, repo: r, opt: t.set(opt)}, tuned: t}
	j.src, _ = s.(Source)
	j.stream, _ = s.(Stream)
	return j, err
}

// Run makes the backup. If it fails, nothing of it is listed. Kind Lost: the server has ended the
// backup, or a page is damaged.
func (j *Job) Run(ctx context.Context) (*Result, error) {
	j.enter("begin")
	var err error
	if j.set, err = j.server.Begin(ctx); err != nil {
		return nil, err
	}
	m := j.manifest()
	if j.opt.Server, err = j.repo.Admit(ctx, &m, j.opt.Server); err != nil {
		return nil, err
	}
	if err := j.choose(ctx); err != nil {
		return nil, err
	}
	defer j.notes.giveUp()
	if j.stream != nil {
		if err := j.stream.Start(ctx); err != nil {
			return nil, err
		}
	}
	begin := repo.BeginOptions{}
	if j.since.parent != nil {
		begin.Parent = j.since.parent.ID
	}
	j.w, err = j.repo.Begin(ctx, begin)
	j.notes.giveUp() // this backup needs it now
	if err != nil {
		return nil, err
	}
	result, err := j.run(j.w.Context())
	if err != nil {
		if cause := context.Cause(j.w.Context()); cause != nil && ctx.Err() == nil {
			err = cause // the lock was lost
		}
		// If this fails too, prune removes what is left.
		_ = j.w.Abort(context.WithoutCancel(ctx))
		err = j.goesOn(err)
	}
	return result, err
}

func (j *Job) run(ctx context.Context) (*Result, error) {
	if j.set.Checksums {
		j.pages, _ = j.server.(Pages)
	}
	j.spaces.src, _ = j.src.(FreeSpaceReader)
	j.enter("copy")
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	j.start(ctx)
	defer j.opt.watched(ctx, j.group)()
	j.note(ctx, fail)
	copy := j.copy
	if j.stream != nil {
		copy = j.receive
	}
	end, err := copy(j.group.Context())
	j.noted()
	j.work.Close()
	if gerr := j.group.Wait(); err == nil || tidemark.KindOf(err) == tidemark.Cancelled && gerr != nil {
		err = gerr
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && tidemark.KindOf(cause) == tidemark.Lost {
		err = cause
	}
	if err != nil {
		return nil, err
	}
	return j.publish(ctx, end)
}

// start starts the workers.
func (j *Job) start(ctx context.Context) {
	o := j.opt
	j.group = flow.NewGroup(ctx)
	j.work = flow.NewBuffer[stretch](o.Parallelism, 0, nil)
	j.empty = flow.NewBuffer[*block](j.tuned.most.buffers, 0, nil)
	j.full = flow.NewBuffer[*block](j.tuned.most.buffers, 0, nil)
	j.open.done = make(chan struct{}, 1)
	j.crew = &crew{group: j.group, tuned: j.tuned, pinned: o.Watch != nil, closeFull: j.full.Close, place: j.write,
		server: func(ctx context.Context, c *flow.Clock) error { return j.newReader(c).run(ctx) },
		buffer: func() { _ = j.empty.Put(ctx, nil, &block{}) }} // there is room for all
	j.crew.start()
}

// watched lets Watch look at workers until the returned function is called.
func (o Options) watched(ctx context.Context, g *flow.Group) (stop func()) {
	if o.Watch == nil {
		return func() {}
	}
	return crash.Beside(ctx, func(ctx context.Context) { o.Watch(ctx, g) })
}

// copy moves the files, then what else the backup needs.
func (j *Job) copy(ctx context.Context) (*tidemark.DataEnd, error) {
	var changes func(put func(stretch) error) error
	if j.since.parent != nil {
		looks, paged, err := j.sorted()
		if err != nil {
			return nil, err
		}
		changes = func(put func(stretch) error) error { return j.handOutChanges(looks, paged, put) }
	}
	if err := j.round(ctx, &j.set.Files, newFile, changes); err != nil {
		return nil, err
	}
	j.set.Files = tidemark.DataList{}
	if err := j.recheckSuspects(ctx); err != nil {
		return nil, err
	}
	j.noted()
	j.enter("end")
	end, err := j.src.End(ctx)
	if err != nil {
		return nil, err
	}
	if err := j.forget(ctx, end); err != nil {
		return nil, err
	}
	j.enter("log")
	if err := j.round(ctx, &end.Log, neededFile, nil); err != nil {
		return nil, err
	}
	if err := j.made(ctx, end.Made); err != nil {
		return nil, err
	}
	if j.since.parent != nil {
		return end, nil // the restore that combines the files writes the manifest
	}
	f, write := j.src.Manifest()
	return end, j.spool(ctx, f, func(w io.Writer) error { return write(w, j.sums(ctx)) })
}

// made moves files made by an engine.
func (j *Job) made(ctx context.Context, files []tidemark.MadeFile) error {
	for _, m := range files {
		err := j.spool(ctx, m.DataFile, func(w io.Writer) error {
			_, err := w.Write(m.Content)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// round moves files and what more hands out, and waits until all of it is in packs.
func (j *Job) round(ctx context.Context, files *tidemark.DataList, of func(tidemark.DataFile) *file, more func(put func(stretch) error) error) error {
	n, bytes := files.Count()
	j.expect(n, n, bytes)
	j.open.add(1) // until everything is handed out
	put := func(s stretch) error {
		if len(s.files) == 0 || !s.files[0].nothing() {
			if err := j.handOut(ctx, nil, s); err != nil {
				return err
			}
		} else if !s.files[0].Dir {
			j.expect(0, -1, 0) // nobody opens it
		}
		if s.last {
			if err := j.releaseAll(s.files); err != nil {
				return err
			}
		}
		return j.checkSuspects(ctx)
	}
	p := &plan{piece: j.opt.BufferSize, readers: j.opt.Parallelism, put: put}
	if err := p.list(files, of); err != nil {
		return err
	}
	if more != nil {
		if err := more(put); err != nil {
			return err
		}
	}
	return j.drained(ctx)
}

// handOut gives a stretch to the readers.
func (j *Job) handOut(ctx context.Context, c *flow.Clock, s stretch) error {
	for _, f := range s.files {
		f.open.Add(1)
	}
	j.open.add(1)
	return j.work.Put(ctx, c, s)
}

// spool moves a file whose content write produces, and waits until it is in packs.
func (j *Job) spool(ctx context.Context, d tidemark.DataFile, write func(io.Writer) error) error {
	f := newFile(d)
	f.large = true
	j.expect(1, 1, 0)
	j.open.add(1)
	if err := j.handOut(ctx, nil, stretch{files: []*file{f}, write: write}); err != nil {
		return err
	}
	if err := j.release(f); err != nil {
		return err
	}
	return j.drained(ctx)
}

// drained waits until all that was handed out is in packs; nothing more may be handed out.
func (j *Job) drained(ctx context.Context) error {
	j.open.add(-1)
	ticker := time.NewTicker(suspectWait)
	defer ticker.Stop()
	for {
		select {
		case <-j.open.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			if err := j.checkSuspects(ctx); err != nil {
				return err
			}
		}
	}
}

// pending counts what is under way; done receives a value whenever the count reaches 0.
type pending struct {
	n    atomic.Int64
	done chan struct{}
}

func (p *pending) add(n int64) {
	if p.n.Add(n) == 0 {
		p.done <- struct{}{}
	}
}

// write is a Writer: it appends the content of full buffers to its pack.
func (j *Job) write(ctx context.Context, c *flow.Clock) error {
	pack := j.w.NewPack(ctx)
	defer pack.Abort()
	for {
		b, ok, err := j.full.Take(ctx, c)
		if err != nil {
			return err
		}
		if !ok {
			defer c.Enter(c.Enter(flow.IO))
			return pack.Close()
		}
		was := c.Enter(flow.IO)
		ref, err := pack.Append(b.sealed)
		c.Enter(was)
		if err != nil {
			return err
		}
		c.Count(1, int64(ref.Stored), 0)
		j.stored(int64(ref.Stored))
		if err := j.placed(b, ref); err != nil {
			return err
		}
		*b = block{room: b.room}
		if err := j.empty.Put(ctx, c, b); err != nil {
			return err
		}
		j.open.add(-1)
	}
}

// placed records where the bytes of a block are, and lists files that are complete.
func (j *Job) placed(b *block, ref repo.Ref) error {
	for i := range b.runs {
		r := &b.runs[i]
		r.ref = ref
		r.f.inc.add(*r)
		if err := j.release(r.f); err != nil {
			return err
		}
	}
	for _, f := range b.files {
		if f.large {
			f.put(int(b.at/j.opt.BufferSize), piece{ref, int(ref.Plain)})
		} else {
			f.put(0, piece{ref, int(f.Size)})
		}
	}
	return j.releaseAll(b.files)
}

// publish lists the files and publishes the backup.
func (j *Job) publish(ctx context.Context, end *tidemark.DataEnd) (*Result, error) {
	j.enter("publish")
	result := &Result{Findings: j.set.Findings, Damaged: j.suspect.damaged, GoneN: j.goneN.Load(), Increment: j.increment()}
	result.Report = j.Report()
	result.Report.Space = j.spaces.found(ctx)
	report, err := json.Marshal(result.Report)
	if err != nil {
		return nil, err
	}
	set := j.set
	m := j.manifest()
	m.SpaceMap, m.Report, m.Left, m.Ranges = end.Spaces, report, j.left, ranges(end.Ranges)
	if j.since.parent != nil && (j.notes.of == nil || j.notes.base != nil) {
		m.Kind = repo.Incremental
	}
	for _, f := range end.Made {
		if strings.HasSuffix(f.Path, "backup_label") {
			m.BackupLabel = string(f.Content)
		}
	}
	for _, t := range set.Tablespaces {
		m.Tablespaces = append(m.Tablespaces, repo.Tablespace{OID: t.OID, Path: t.Path})
	}
	if j.suspect.more > 0 {
		result.Damaged = append(result.Damaged, fmt.Sprintf("and %d more pages", j.suspect.more))
	}
	for _, d := range result.Damaged {
		m.Notes = append(m.Notes, damagedNote+d)
	}
	if result.Manifest, err = j.w.Publish(ctx, m); err != nil {
		return nil, err
	}
	j.enter("")
	result.Report.Phases = j.phases.UntilNow()
	return result, nil
}

// manifest returns what is known from the beginning.
func (j *Job) manifest() repo.Manifest {
	set := j.set
	return repo.Manifest{Kind: repo.Full, Label: j.opt.Label, Tool: j.opt.Tool, Source: j.opt.Origin, Server: j.opt.Server, Engine: set.Engine, Version: set.Version, VersionNum: set.Major * 10000, SystemID: set.System,
		Standby: set.Standby, Checksums: set.Checksums, PageSize: set.PageSize, LogSize: set.LogFile, Owner: repo.Owner(set.Owner), Databases: set.Databases}
}

// Report returns where the time went so far.
func (j *Job) Report() Report {
	r := Report{Phases: j.phases.UntilNow(), Codec: j.opt.Codec.String(), Forecasts: j.forecasts()}
	r.of(j.crew, j.tuned)
	return r
}
