package job

import (
	"context"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/dump"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/load"
)

// A RefillSpec says which logical backup to restore, into which database, and how. Its Source is
// derived from the other fields.
type RefillSpec struct {
	CopySpec
	Repo     *repo.Repo
	Manifest *repo.Manifest
	Engine   engines.Options
}

// Refill restores a logical backup into a database: a copy whose source is the backup, with a
// copy's plan, checks, progress, report, and resumption. Kind Corrupt: an object of the backup is
// damaged; nothing of it was committed.
func Refill(ctx context.Context, env Env, spec RefillSpec) (string, *Report, error) {
	d, err := dump.Open(ctx, spec.Repo, spec.Manifest)
	if err != nil {
		return "", nil, err
	}
	src := &backupOrigin{Source: dump.NewSource(d), m: spec.Manifest}
	defer src.Close()
	src.Convert = func(r tidemark.Read, emit func(*tidemark.Batch) error) func(*tidemark.Batch) error {
		return engines.ToCopyText(r, spec.Engine, emit)
	}
	tgt, err := env.Open(ctx, spec.Target)
	if err != nil {
		return "", nil, err
	}
	defer tgt.Close()
	spec.Source = RefillSource(spec.Repo, spec.Manifest.ID)
	return CopyBetween(ctx, env, "restore", spec.CopySpec, src, tgt)
}

// RefillSource is what the catalogue calls the source of a restore.
func RefillSource(r *repo.Repo, backup string) string { return r.Store().String() + " " + backup }

// A backupOrigin is a backup as a copy's origin.
type backupOrigin struct {
	*dump.Source
	m *repo.Manifest
}

var _ load.FormatHolder = (*backupOrigin)(nil)

// Name is the engine that the backup is of.
func (s *backupOrigin) Name() string { return s.Database.Engine }

// Default is the database that unqualified names were in; "" if a whole server was backed up.
func (s *backupOrigin) Default() string {
	if of := engine.Of(s.Name()); !of.SchemasAreDatabases {
		return of.DefaultSchema
	}
	return s.m.Database
}

// Access finds nothing: who can read the repository can read all of it.
func (*backupOrigin) Access(context.Context, []tidemark.TableID, []tidemark.TableID, []tidemark.TableID) ([]tidemark.Finding, error) {
	return nil, nil
}

// Describe also reports which server the backup is of, and from when.
func (s *backupOrigin) Describe(ctx context.Context, wants func(tidemark.TableID) bool) (*tidemark.Database, error) {
	db, err := s.Source.Describe(ctx, wants)
	if err != nil {
		return nil, err
	}
	of := *db
	of.Findings = append(slices.Clone(db.Findings), tidemark.Finding{Severity: tidemark.Note, Object: "backup " + s.m.ID,
		Text: "is of " + s.m.Origin() + ", as it was at " + s.m.Started.UTC().Format("2006-01-02 15:04:05 UTC")})
	return &of, nil
}
