package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/dump"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mapping"
)

// A LogicalSpec says which tables to back up as rows and definitions, and where to.
type LogicalSpec struct {
	Source string // URL
	Rules  *mapping.Rules
	Spaces []string // tablespaces whose tables are all taken, besides those that Rules select
	Repo   *repo.Repo
	Load   load.Options
	Codec  repo.Codec // none or zstd
	Server string     // its name; "": its present name in the repository
	Label  string
	Tool   string
	Watch  func(interface{ Status() backup.Status })
}

// BackupLogical backs up the rows and definitions of a database, as its clients see them.
func BackupLogical(ctx context.Context, env Env, spec LogicalSpec) (run string, rep *StorageReport, err error) {
	level, ok := spec.Codec.Zstd()
	if !ok && spec.Codec != (repo.Codec{}) {
		return "", nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Err: errors.New("rows and definitions cannot be compressed with " + spec.Codec.String()), Hint: "Use none or zstd:1 to zstd:22, which standard tools can read."}
	}
	src, err := env.Open(ctx, spec.Source)
	if err != nil {
		return "", nil, err
	}
	defer src.Close()
	d := &dumping{spec: spec, src: src, level: level}
	spec.Watch(d)
	return env.recorded(ctx, "backup", tidemark.MaskURL(spec.Source), spec.Repo.Store().String(), spec.Repo, d, d.do)
}

// dumping is one logical backup in progress. It is the load.Sink of its run.
type dumping struct {
	spec  LogicalSpec
	src   Database
	level int

	w        *repo.Writer
	out      *dump.Writer
	content  dump.Content
	run      *load.Run
	servers  *serverWatch
	findings []tidemark.Finding

	phases backup.Phases
	mu     sync.Mutex
	status *load.Status // once rows move
	pace   backup.Pace
}

// do makes the backup; one that fails is not listed.
func (d *dumping) do(ctx context.Context) (*StorageReport, error) {
	d.phases.Enter("begin")
	var err error
	if d.w, err = d.spec.Repo.Begin(ctx, repo.BeginOptions{}); err != nil {
		return d.report(nil), err
	}
	m, err := d.write(d.w.Context())
	if err != nil {
		if cause := context.Cause(d.w.Context()); cause != nil && ctx.Err() == nil {
			err = cause // the lock was lost
		}
		// If this fails too, prune removes what is left.
		_ = d.w.Abort(context.WithoutCancel(ctx))
	}
	d.phases.Enter("")
	return d.report(m).mirrored(d.spec.Repo, err)
}

func (d *dumping) write(ctx context.Context) (*repo.Manifest, error) {
	position, err := d.src.Freeze(ctx, d.spec.Load.LaneCount())
	if err != nil {
		return nil, err
	}
	if d.spec.Server, err = d.spec.Repo.Admit(ctx, &repo.Manifest{Form: repo.Logical, Engine: d.src.Name(), Source: tidemark.MaskURL(d.spec.Source), Position: position}, d.spec.Server); err != nil {
		return nil, err
	}
	d.phases.Enter("plan")
	plan, err := d.plan(ctx, position)
	if err != nil {
		return nil, err
	}
	d.phases.Enter("copy")
	d.out = dump.NewWriter(d.w, d.spec.Repo.Encrypted(), d.level)
	opt := d.spec.Load
	d.servers = newServerWatch(d.src, nil, opt)
	opt.Watch = d.servers.watch
	run := load.NewRun(d.src, d.out, plan, d, opt, nil, nil)
	d.mu.Lock()
	d.run, d.status = run, run.Status
	d.mu.Unlock()
	if err := run.Do(ctx, nil); err != nil {
		return nil, err
	}
	d.phases.Enter("definitions")
	if err := d.out.Finish(ctx, d.content); err != nil {
		return nil, err
	}
	d.phases.Enter("publish")
	return d.publish(ctx)
}

// plan describes the snapshot and decides what is read.
func (d *dumping) plan(ctx context.Context, position tidemark.Position) (*load.Plan, error) {
	if err := d.inSpaces(ctx); err != nil {
		return nil, err
	}
	db, err := d.src.Describe(ctx, d.spec.Rules.Wants)
	if err != nil {
		return nil, err
	}
	moves, findings, err := ApplyRules(d.spec.Rules, db, d.src, d.src, "")
	if err != nil {
		return nil, err
	}
	objects, more := d.src.Render(db, moves)
	d.find(db.Findings...)
	d.find(findings...)
	d.find(more...)
	if err := load.Blocked(d.findings); err != nil {
		return nil, err
	}
	if idle(&load.Plan{Moves: moves, Objects: objects}) {
		return nil, nothing("back up", db)
	}
	script, ok := d.src.(dump.Scripter)
	if !ok {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "back up", Object: db.Engine, Err: errors.New("its client program is not known")}
	}
	d.content = dump.Content{Database: db, Position: position, Moves: moves, Objects: objects, Script: script}
	if d.content.Identity, err = d.spec.Repo.WrappedIdentity(ctx); err != nil {
		return nil, err
	}
	plan, err := load.PlanReading(ctx, d.src, db, moves, dump.FormatOf(db.Engine), load.PlanOptions{Lanes: d.spec.Load.LaneCount()})
	if err != nil {
		return nil, err
	}
	denied, err := d.src.Access(ctx, readBy(plan), nil, nil)
	if err == nil {
		err = load.Blocked(denied)
	}
	return plan, err
}

// inSpaces makes the rules select the tables of tablespaces.
func (d *dumping) inSpaces(ctx context.Context) error {
	if len(d.spec.Spaces) == 0 {
		return nil
	}
	src, ok := d.src.(spacer)
	if !ok {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "back up", Object: d.src.Name(), Err: errors.New("tables can be chosen by tablespace only in PostgreSQL"), Hint: "Choose them by name, with --table or --include."}
	}
	tables, err := src.InTablespaces(ctx, d.spec.Spaces)
	d.spec.Rules = d.spec.Rules.Only("--tablespace", tables)
	return err
}

// publish adds the backup to the repository's list.
func (d *dumping) publish(ctx context.Context) (*repo.Manifest, error) {
	report, err := json.Marshal(d.flow())
	if err != nil {
		return nil, err
	}
	db := d.content.Database
	return d.w.Publish(ctx, repo.Manifest{Form: repo.Logical, Label: d.spec.Label, Tool: d.spec.Tool, Source: tidemark.MaskURL(d.spec.Source), Server: d.spec.Server,
		Engine: db.Engine, Version: db.Version, VersionNum: db.Major * 10000, Database: db.Name, Position: d.content.Position, Tables: len(d.content.Moves), Rows: d.out.Count(), Bytes: d.out.Bytes(), Report: report})
}

// flow reports where the time went so far.
func (d *dumping) flow() backup.Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := backup.Report{Logical: true, Codec: d.spec.Codec.String(), Forecasts: d.pace.Forecasts(), Phases: d.phases.UntilNow()}
	if d.run != nil {
		r.Workers, r.Parallelism, r.LanesTried = d.run.Report(), d.run.Lanes(), d.run.LanesTried()
		r.Sessions = r.Parallelism
	}
	return r
}

func (d *dumping) report(m *repo.Manifest) *StorageReport {
	rep := &StorageReport{Verb: "backup", Report: d.flow(), Findings: d.findings}
	rep.Servers = d.servers.account(rep.Report.Workers)
	if m == nil {
		return rep
	}
	rep.Backup, rep.Bytes, rep.Stored, rep.Files, rep.Position = m.ID, m.Bytes, m.Stored, m.Count, m.Position
	rep.Tables, rep.Rows, rep.Origin = m.Tables, m.Rows, m.Origin()
	return rep
}

// Status reports the progress.
func (d *dumping) Status() backup.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := backup.Status{Left: -1}
	s.Phase, s.Begun = d.phases.Now()
	if d.status == nil {
		return s
	}
	s.Done, s.Total = copyProgress{d.status}.Position()
	if s.Total > 0 {
		s.Percent = 100 * float64(s.Done) / float64(s.Total)
	}
	now := time.Now()
	d.pace.Note(s.Begun, now, s.Done, s.Total)
	s.Left = d.pace.Left(now, s.Done, s.Total)
	return s
}

func (d *dumping) find(f ...tidemark.Finding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.findings = append(d.findings, f...)
}

// RangeDone, TableFull, ObjectDone and Retry make a dumping the load.Sink of its run.

// RangeDone does nothing: the writer has recorded it.
func (*dumping) RangeDone(*tidemark.Range, tidemark.Written) {}

// TableFull does nothing either.
func (*dumping) TableFull(int) {}

// ObjectDone never comes: the plan has no objects.
func (*dumping) ObjectDone(*tidemark.Object, error, time.Duration) {}

// Retry notes a range that is read again.
func (d *dumping) Retry(what string, err error, _ time.Duration) {
	d.find(tidemark.Finding{Severity: tidemark.Note, Object: what, Text: fmt.Sprintf("was read again: %v", err)})
}
