package job

import (
	"context"
	"encoding/json"
	"os"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
)

// A BackupSpec says what to back up, and where to.
type BackupSpec struct {
	Source  string // URL
	Repo    *repo.Repo
	Files   engines.FilesOptions
	Options backup.Options
	// Watch is called once, with what tells how far the backup is.
	Watch func(interface{ Status() backup.Status })
}

// A RestoreSpec says which backup to restore, and where to.
type RestoreSpec struct {
	Repo     *repo.Repo
	Manifest *repo.Manifest
	Options  backup.RestoreOptions
	Watch    func(interface{ Status() backup.Status })
}

// A StorageReport is what is kept of a backup or a restore.
type StorageReport struct {
	Verb     string             `json:"verb"`
	Backup   string             `json:"backup,omitempty"` // its id
	Bytes    int64              `json:"bytes"`            // of the server's files
	Stored   int64              `json:"stored"`           // in the repository
	Files    int64              `json:"files"`
	Gone     int64              `json:"gone,omitempty"` // files that were removed while it ran
	Report   backup.Report      `json:"report"`
	Limit    string             `json:"limit"`
	Advice   []string           `json:"advice,omitempty"`
	Findings []tidemark.Finding `json:"findings,omitempty"`
	Damaged  []string           `json:"damaged,omitempty"`
	PeakRSS  int64              `json:"peak_rss,omitempty"` // bytes
}

// Backup backs a server's files up. Kind Incomplete: the backup is there, and has damaged pages.
func Backup(ctx context.Context, env Env, spec BackupSpec) (run string, rep *StorageReport, err error) {
	src, err := engines.OpenFiles(ctx, spec.Source, spec.Files)
	if err != nil {
		return "", nil, err
	}
	defer src.Close()
	spec.Options.Origin = tidemark.MaskURL(spec.Source)
	b, err := backup.New(src, spec.Repo, spec.Options)
	if err != nil {
		return "", nil, err
	}
	spec.Watch(b)
	return env.recorded(ctx, "backup", spec.Options.Origin, spec.Repo.Store().String(), func(ctx context.Context) (*StorageReport, error) {
		result, err := b.Run(ctx)
		if err != nil {
			return &StorageReport{Verb: "backup", Report: b.Report()}, err
		}
		m := result.Manifest
		rep := &StorageReport{Verb: "backup", Backup: m.ID, Bytes: m.Bytes, Stored: m.Stored, Files: m.Count, Gone: result.GoneN,
			Report: result.Report, Findings: result.Findings, Damaged: result.Damaged}
		if len(result.Damaged) > 0 {
			err = tidemark.Errorf(tidemark.Incomplete, "back up", m.ID, "the backup is there, with damaged pages", "The report names them: mend them, and back up again.")
		}
		return rep, err
	})
}

// Restore restores a backup into a folder.
func Restore(ctx context.Context, env Env, spec RestoreSpec) (run string, rep *StorageReport, err error) {
	x, err := backup.NewRestore(spec.Repo, spec.Manifest, spec.Options)
	if err != nil {
		return "", nil, err
	}
	spec.Watch(x)
	m := spec.Manifest
	return env.recorded(ctx, "restore", spec.Repo.Store().String()+" "+m.ID, spec.Options.Dir, func(ctx context.Context) (*StorageReport, error) {
		err := x.Run(ctx)
		return &StorageReport{Verb: "restore", Backup: m.ID, Bytes: m.Bytes, Stored: m.Stored, Files: m.Count, Report: x.Report()}, err
	})
}

// recorded does something that the catalogue keeps as a run.
func (e Env) recorded(ctx context.Context, verb, source, target string, do func(context.Context) (*StorageReport, error)) (string, *StorageReport, error) {
	host, _ := os.Hostname() // for messages only
	run := catalog.Run{ID: catalog.NewRunID(), Verb: verb, Source: source, Target: target, Started: e.now(), State: catalog.Running, PID: os.Getpid(), Host: host}
	lock, err := e.Catalog.Lock(run.ID)
	if err != nil {
		return "", nil, err
	}
	defer lock.Unlock()
	if err := e.Catalog.Begin(ctx, run); err != nil {
		return "", nil, err
	}
	rep, err := do(ctx)
	rep.PeakRSS = peakRSS()
	rep.explain()
	run.Ended, run.State = e.now(), catalog.Done
	switch kind := tidemark.KindOf(err); {
	case err == nil:
	case kind == tidemark.Incomplete:
		run.State = catalog.Incomplete
	case kind == tidemark.Cancelled:
		run.State = catalog.Cancelled
		hint := "Nothing of it is listed: begin again."
		if verb == "restore" {
			hint = "What is in the folder is a part, with which no server starts: empty it, and begin again."
		}
		err = tidemark.Errorf(tidemark.Cancelled, verb, "", "stopped", hint)
	default:
		run.State = catalog.Failed
	}
	if err != nil {
		run.Error, run.Hint = err.Error(), tidemark.HintOf(err)
	}
	if text, jerr := json.Marshal(rep); jerr == nil {
		run.Report = text
	}
	if uerr := e.Catalog.Update(context.WithoutCancel(ctx), run); uerr != nil && err == nil {
		err = uerr
	}
	return run.ID, rep, err
}

// explain says what has limited it.
func (r *StorageReport) explain() {
	f := advisor.StorageFacts{Restore: r.Report.Restore, Parallelism: r.Report.Parallelism, Sessions: r.Report.Sessions, Buffers: r.Report.Buffers,
		Codec: r.Report.Codec, Took: r.Report.Took()}
	for _, p := range r.Report.Phases {
		if p.Name == "prepare" {
			f.Prepare = p.Took
		}
	}
	r.Limit, r.Advice = advisor.ExplainStorage(r.Report.Workers, f)
}
