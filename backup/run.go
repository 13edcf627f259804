package backup

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/flow"
)

// Options of a backup, and of a restore. The zero value is good.
type Options struct {
	Parallelism int   // workers on the server's side; 0: one for each processor, at least 2
	Sessions    int   // workers on the repository's side; 0: half as many, at least 2
	Buffers     int   // between them; 0: as many as are of use
	BufferSize  int64 // bytes of a piece, a multiple of 64 kB up to repo.MaxPiece; 0: 1 MB
	Codec       repo.Codec

	KeepDamaged bool // take a damaged page into the backup and say so, instead of stopping

	Label, Tool, Origin string // for the backup's manifest
}

const (
	defaultBuffer = 1 << 20
	bufferUnit    = 64 << 10 // whole pages, of whatever size
)

// tuned fills in what was left open. More buffers than workers of both sides and two more
// hold nothing but time: then each can work on one while another waits for him.
func (o Options) tuned() (Options, error) {
	if o.Parallelism <= 0 {
		o.Parallelism = min(max(runtime.GOMAXPROCS(0), 2), 32)
	}
	if o.Sessions <= 0 {
		o.Sessions = max(o.Parallelism/2, 2)
	}
	if o.BufferSize == 0 {
		o.BufferSize = defaultBuffer
	}
	if o.BufferSize < bufferUnit || o.BufferSize > repo.MaxPiece || o.BufferSize%bufferUnit != 0 {
		return o, tidemark.Errorf(tidemark.Invalid, "back up", "", fmt.Sprintf("a buffer of %d bytes", o.BufferSize),
			fmt.Sprintf("Buffers are of 64kB to %dMB, in steps of 64kB.", repo.MaxPiece>>20))
	}
	if o.Buffers <= 0 {
		o.Buffers = max(2*o.Sessions, o.Sessions+o.Parallelism+2)
	}
	return o, nil
}

// A Job is one backup.
type Job struct {
	progress
	src   Source
	pages Pages // nil: pages have no checksums
	repo  *repo.Repo
	opt   Options

	w       *repo.Writer
	set     *tidemark.DataSet
	files   []*file
	work    *flow.Buffer[stretch]
	empty   *flow.Buffer[*block]
	full    *flow.Buffer[*block]
	open    pending
	suspect suspects
	group   *flow.Group
}

// A block is a buffer on its way round.
type block struct {
	room   []byte // for sealed bytes
	sealed repo.Sealed
	files  []*file // whose bytes are in it
	at     int64   // of a large file: the place
}

// A Result is what came of a backup.
type Result struct {
	Manifest *repo.Manifest     `json:"manifest"`
	Report   Report             `json:"report"`
	Findings []tidemark.Finding `json:"findings,omitempty"`
	Damaged  []string           `json:"damaged,omitempty"` // pages, with KeepDamaged
	GoneN    int64              `json:"gone"`              // files that were removed while it ran
}

// New prepares a backup of a source into a repository.
func New(src Source, r *repo.Repo, opt Options) (*Job, error) {
	opt, err := opt.tuned()
	return &Job{src: src, repo: r, opt: opt}, err
}

// Run makes the backup. When it fails nothing of it is listed. Kind Lost: the server has
// ended the backup, or a page is damaged.
func (j *Job) Run(ctx context.Context) (*Result, error) {
	j.enter("begin")
	var err error
	if j.w, err = j.repo.Begin(ctx, repo.BeginOptions{}); err != nil {
		return nil, err
	}
	result, err := j.run(j.w.Context())
	if err != nil {
		if cause := context.Cause(j.w.Context()); cause != nil && ctx.Err() == nil {
			err = cause // the lock was lost
		}
		// What stays when this fails too is removed by prune.
		_ = j.w.Abort(context.WithoutCancel(ctx))
	}
	return result, err
}

func (j *Job) run(ctx context.Context) (*Result, error) {
	var err error
	if j.set, err = j.src.Begin(ctx); err != nil {
		return nil, err
	}
	if j.set.Checksums {
		j.pages, _ = j.src.(Pages)
	}
	j.enter("copy")
	j.start(ctx)
	end, err := j.copy(j.group.Context())
	j.work.Close()
	if gerr := j.group.Wait(); err == nil || tidemark.KindOf(err) == tidemark.Cancelled && gerr != nil {
		err = gerr
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
	j.empty = flow.NewBuffer[*block](o.Buffers, 0, nil)
	j.full = flow.NewBuffer[*block](o.Buffers, 0, nil)
	j.open.done = make(chan struct{}, 1)
	bound := j.w.Sealer(o.Codec).Bound(int(o.BufferSize))
	for range o.Buffers {
		_ = j.empty.Put(ctx, nil, &block{room: make([]byte, 0, bound)}) // there is room for all
	}
	var readers sync.WaitGroup
	readers.Add(o.Parallelism)
	for range o.Parallelism {
		j.group.Go(readerRole, func(ctx context.Context, c *flow.Clock) error {
			defer readers.Done()
			return j.newReader(c).run(ctx)
		})
	}
	for range o.Sessions {
		j.group.Go(writerRole, j.write)
	}
	go func() { readers.Wait(); j.full.Close() }()
}

// copy moves the files, then what is needed beside them.
func (j *Job) copy(ctx context.Context) (*tidemark.DataEnd, error) {
	files := make([]*file, len(j.set.Files))
	for i, f := range j.set.Files {
		files[i] = &file{DataFile: f}
	}
	if err := j.round(ctx, files); err != nil {
		return nil, err
	}
	if err := j.settle(ctx); err != nil {
		return nil, err
	}
	j.enter("end")
	end, err := j.src.End(ctx)
	if err != nil {
		return nil, err
	}
	j.forget(end)
	j.enter("log")
	rest := make([]*file, 0, len(end.Log)+len(end.Made))
	for _, f := range end.Log {
		rest = append(rest, &file{DataFile: f})
	}
	for _, m := range end.Made {
		rest = append(rest, &file{DataFile: m.DataFile, content: m.Content})
	}
	if err := j.round(ctx, rest); err != nil {
		return nil, err
	}
	for _, f := range rest {
		if f.gone != nil {
			return nil, tidemark.Errorf(tidemark.Lost, "read", f.Path, "the server has removed this file of its log, which the backup needs", "Raise wal_keep_size, or max_slot_wal_keep_size if it is set.")
		}
	}
	m := j.src.Manifest(j.sums())
	return end, j.round(ctx, []*file{{DataFile: m.DataFile, content: m.Content}})
}

// round moves files and waits until all of them are in packs.
func (j *Job) round(ctx context.Context, files []*file) error {
	var bytes, n int64
	for _, f := range files {
		if !f.Dir {
			bytes, n = bytes+f.Size, n+1
		}
	}
	j.expect(n, bytes)
	j.files = append(j.files, files...)
	p := newPlan(files, j.opt.BufferSize, j.opt.Parallelism)
	j.open.add(1) // until all is handed out
	for s, ok := p.next(); ok; s, ok = p.next() {
		j.open.add(1)
		if err := j.work.Put(ctx, nil, s); err != nil {
			return err
		}
		if err := j.look(ctx); err != nil {
			return err
		}
	}
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
			if err := j.look(ctx); err != nil {
				return err
			}
		}
	}
}

// pending counts what is under way; done gets a value whenever nothing is any more.
type pending struct {
	n    atomic.Int64
	done chan struct{}
}

func (p *pending) add(n int64) {
	if p.n.Add(n) == 0 {
		p.done <- struct{}{}
	}
}

// write is a Writer: it appends what is in full buffers to its pack.
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
		b.place(ref, j.opt.BufferSize)
		*b = block{room: b.room}
		if err := j.empty.Put(ctx, c, b); err != nil {
			return err
		}
		j.open.add(-1)
	}
}

// place notes where the bytes of a block's files are.
func (b *block) place(ref repo.Ref, size int64) {
	if len(b.files) == 1 && len(b.files[0].pieces) > 0 {
		b.files[0].pieces[b.at/size] = piece{ref, int(ref.Plain)}
		return
	}
	for _, f := range b.files {
		f.pieces = []piece{{ref, int(f.Size)}}
	}
}

// publish lists the files and says that the backup is there.
func (j *Job) publish(ctx context.Context, end *tidemark.DataEnd) (*Result, error) {
	j.enter("publish")
	result := &Result{Findings: j.set.Findings, Damaged: j.suspect.damaged}
	for _, f := range j.files {
		entry, there := f.entry(j.opt.BufferSize)
		if !there {
			result.GoneN++
			continue
		}
		if err := j.w.AddFile(entry); err != nil {
			return nil, err
		}
	}
	result.Report = j.Report()
	report, err := json.Marshal(result.Report)
	if err != nil {
		return nil, err
	}
	set := j.set
	m := repo.Manifest{Kind: repo.Full, Label: j.opt.Label, Tool: j.opt.Tool, Source: j.opt.Origin, Engine: "postgres", Version: set.Version, VersionNum: set.Major * 10000, SystemID: set.System,
		Standby: set.Standby, Checksums: set.Checksums, PageSize: set.PageSize, LogSize: set.LogFile, Owner: repo.Owner(set.Owner), SpaceMap: end.Spaces, Report: report}
	for _, r := range end.Ranges {
		m.Ranges = append(m.Ranges, repo.LogRange{Timeline: r.Timeline, Start: r.From, End: r.To, First: r.First, Last: r.Last})
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
		result.Damaged = append(result.Damaged, fmt.Sprintf("and %d pages more", j.suspect.more))
	}
	for _, d := range result.Damaged {
		m.Notes = append(m.Notes, "damaged page: "+d)
	}
	if result.Manifest, err = j.w.Publish(ctx, m); err != nil {
		return nil, err
	}
	j.enter("")
	result.Report.Phases = j.phasesUntilNow()
	return result, nil
}

// Report says where the time went until now.
func (j *Job) Report() Report {
	r := Report{Phases: j.phasesUntilNow(), Parallelism: j.opt.Parallelism, Sessions: j.opt.Sessions, Buffers: j.opt.Buffers, BufferSize: j.opt.BufferSize, Codec: j.opt.Codec.String()}
	if j.group != nil {
		r.Workers = j.group.Report()
	}
	return r
}
