package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/sample"
	"github.com/tidemarkdb/tidemark/store"
)

// A BackupSpec says what to back up, and where to.
type BackupSpec struct {
	Source  string // URL
	Repo    *repo.Repo
	Files   engines.FilesOptions
	Options backup.Options
	// Watch is called once, with a source of the backup's progress.
	Watch func(interface{ Status() backup.Status })
}

// A RestoreSpec says which backup to restore, and where to.
type RestoreSpec struct {
	Repo     *repo.Repo
	Manifest *repo.Manifest
	Options  backup.RestoreOptions
	Part     *engines.Partial // nil: all databases
	Watch    func(interface{ Status() backup.Status })
}

// A StorageReport is the report of a backup or a restore.
type StorageReport struct {
	Verb     string             `json:"verb"`
	Backup   string             `json:"backup,omitempty"` // its id
	Origin   string             `json:"origin,omitempty"` // the server it is of
	Bytes    int64              `json:"bytes"`            // of the server's files
	Stored   int64              `json:"stored"`           // in the repository
	Files    int64              `json:"files"`
	Gone     int64              `json:"gone,omitempty"` // files that disappeared while it ran
	Rows     int64              `json:"rows,omitempty"` // of a logical backup
	Tables   int                `json:"tables,omitempty"`
	Position tidemark.Position  `json:"position,omitzero"` // in the server's log, of the view that was backed up
	Report   backup.Report      `json:"report"`
	Store    store.Spent        `json:"store"`             // at the repository, if it is in one place
	Servers  *sample.Account    `json:"servers,omitempty"` // of a backup: what its workers' I/O consisted of
	Limit    string             `json:"limit"`
	Advice   []string           `json:"advice,omitempty"`
	Findings []tidemark.Finding `json:"findings,omitempty"`
	Damaged  []string           `json:"damaged,omitempty"`
	// Increment is set for an incremental backup, and Over for a restore over existing files.
	Increment *backup.Increment `json:"increment,omitempty"`
	Over      *backup.Over      `json:"over,omitempty"`
	PeakRSS   int64             `json:"peak_rss,omitempty"` // bytes
	Spread    bool              `json:"spread,omitempty"`   // the first checkpoint was spread over time
	Targets   []Target          `json:"targets,omitempty"`  // of a backup into several places
	slowest   string            // of them: a sentence of advice
}

// Backup backs up a server's files. Kind Incomplete: the backup is complete, but it has damaged
// pages, or it is only in some of several places.
func Backup(ctx context.Context, env Env, spec BackupSpec) (run string, rep *StorageReport, err error) {
	src, err := engines.OpenFiles(ctx, spec.Source, spec.Files)
	if err != nil {
		return "", nil, err
	}
	defer src.Close()
	spec.Options.Origin = tidemark.MaskURL(spec.Source)
	servers, watch := watchFiles(src, spec.Repo.Store().String(), spec.Files.Rate > 0)
	spec.Options.Watch = watch
	b, err := backup.New(src, spec.Repo, spec.Options)
	if err != nil {
		return "", nil, err
	}
	spec.Watch(b)
	return env.recorded(ctx, "backup", spec.Options.Origin, spec.Repo.Store().String(), spec.Repo, b, func(ctx context.Context) (*StorageReport, error) {
		result, err := b.Run(ctx)
		if err != nil {
			rep := &StorageReport{Verb: "backup", Report: b.Report()}
			rep.Servers = servers.account(rep.Report.Workers)
			return rep.mirrored(spec.Repo, err)
		}
		m := result.Manifest
		rep := &StorageReport{Verb: "backup", Backup: m.ID, Origin: m.Origin(), Bytes: m.Bytes, Stored: m.Stored, Files: m.Count, Gone: result.GoneN,
			Report: result.Report, Servers: servers.account(result.Report.Workers), Findings: result.Findings, Damaged: result.Damaged, Increment: result.Increment, Spread: spec.Files.Spread}
		if len(result.Damaged) > 0 {
			err = &tidemark.Error{Kind: tidemark.Incomplete, Op: "back up", Object: m.ID, Err: errors.New("the backup is complete, but it has damaged pages"), Hint: "Repair the pages that the report names, and back up again."}
		}
		return rep.mirrored(spec.Repo, err)
	})
}

// Restore restores a backup into a folder.
func Restore(ctx context.Context, env Env, spec RestoreSpec) (run string, rep *StorageReport, err error) {
	if spec.Part != nil {
		spec.Options.Leave = spec.Part.Leaves
	}
	x, err := backup.NewRestore(spec.Repo, spec.Manifest, engines.RestoreOptions(spec.Options))
	if err != nil {
		return "", nil, err
	}
	spec.Watch(x)
	m := spec.Manifest
	return env.recorded(ctx, "restore", spec.Repo.Store().String()+" "+m.ID, spec.Options.Dir, spec.Repo, x, func(ctx context.Context) (*StorageReport, error) {
		rep := &StorageReport{Verb: "restore", Backup: m.ID, Origin: m.Origin(), Bytes: m.Bytes, Stored: m.Stored, Files: m.Count}
		err := x.Run(ctx)
		rep.Over, rep.Findings = x.Over()
		rep.Report = x.Report()
		if err != nil {
			return rep, err
		}
		finding, err := engines.RestoredSettings(spec.Options.Dir, m.Standby)
		if finding != nil {
			rep.Findings = append(rep.Findings, *finding)
		}
		if spec.Part != nil {
			now := x.Status()
			rep.Bytes, rep.Stored, rep.Files = now.Total, now.Stored, now.Files
			rep.Findings = append(rep.Findings, spec.Part.Findings(spec.Options.Dir, x.Left())...)
		}
		return rep, err
	})
}

// recorded runs a job that the catalogue records as a run; of reports its progress.
func (e Env) recorded(ctx context.Context, verb, source, target string, r *repo.Repo, of interface{ Status() backup.Status }, do func(context.Context) (*StorageReport, error)) (string, *StorageReport, error) {
	var rep *StorageReport
	meter := store.MeterOf(r.Store())
	before := meter.Spent()
	run, err := e.Record(ctx, verb, source, target, storageWork(of), func(ctx context.Context) (any, error) {
		var err error
		rep, err = do(ctx)
		rep.PeakRSS, rep.Store = PeakRSS(), meter.Spent().Since(before)
		rep.explain()
		if rep.slowest != "" {
			rep.Advice = append(rep.Advice, rep.slowest)
		}
		if tidemark.KindOf(err) == tidemark.Cancelled && err != nil {
			hint := "Nothing of it is listed. Start it again."
			if verb == "restore" && rep.Over != nil {
				hint = "No server can start in the folder now. Start the restore again, with --delta."
			} else if verb == "restore" {
				hint = "The folder is incomplete, and no server can start in it. Empty it, and start the restore again."
			}
			err = &tidemark.Error{Kind: tidemark.Cancelled, Op: verb, Err: errors.New("stopped"), Hint: hint}
		}
		return rep, err
	})
	return run, rep, err
}

// explain finds out what limited the job.
func (rep *StorageReport) explain() {
	if rep.Report.Logical {
		rep.Limit, rep.Advice = advisor.ExplainDump(rep.Report.Workers, advisor.DumpFacts{Lanes: rep.Report.Parallelism, LanesTried: rep.Report.LanesTried, Codec: rep.Report.Codec, Took: rep.Report.Took()})
		return
	}
	f := advisor.StorageFacts{Writing: rep.Store.Writing, Committing: rep.Store.Committing, Commits: rep.Store.Commits,
		Restore: rep.Report.Restore, Parallelism: rep.Report.Parallelism, Sessions: rep.Report.Sessions, Buffers: rep.Report.Buffers,
		Codec: rep.Report.Codec, Prepare: rep.Report.In("prepare"), Server: rep.Report.In("begin") + rep.Report.In("end"), Spread: rep.Spread, Took: rep.Report.Took()}
	if s := rep.Report.Space; s != nil {
		f.Free = advisor.FreeSpace{Bytes: s.Free, Of: s.Of}
		for _, m := range s.Most {
			f.Free.Most = append(f.Free.Most, fmt.Sprintf("%s (%d of %d MB)", m.Name, m.Free>>20, m.Of>>20))
		}
	}
	rep.Limit, rep.Advice = advisor.ExplainStorage(rep.Report.Workers, f)
}
