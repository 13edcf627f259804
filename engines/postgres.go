package engines

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/postgres"
	pgdefine "github.com/tidemarkdb/tidemark/postgres/define"
	pgschema "github.com/tidemarkdb/tidemark/postgres/schema"
	pgserver "github.com/tidemarkdb/tidemark/postgres/server"
	pgstream "github.com/tidemarkdb/tidemark/postgres/stream"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

var postgresEngine = Engine{
	Name:  engine.Postgres,
	Open:  openPostgres,
	Types: postgresTypes,
	Dialect: func(source, target *tidemark.Database, across bool) define.Dialect {
		return &pgdefine.Definitions{Major: target.Major, Across: across, Loose: source.Major != target.Major}
	},
	Place: func(text string) (place uint64, gtid string, err error) {
		place, err = wal.ParseLSN(text)
		return place, "", err
	},
	LogFiles: func(paths []string, retrieve string) (*Log, error) {
		f, err := wal.Open(paths, wal.Options{Retrieve: retrieve})
		return &Log{Log: f, Engine: engine.Postgres}, err
	},
	ServerLog: func(ctx context.Context, url string, part tidemark.LogRange, opt Options) (*Log, error) {
		e, err := postgres.Open(ctx, url, opt.Postgres)
		if err != nil {
			return nil, err
		}
		return &Log{Log: e.ScanLog(part), Engine: engine.Postgres, Live: true, close: e.Close}, nil
	},
	Primary: postgresPrimary,
	Files:   postgresFiles,
	Logical: true,
}

// pg is an open PostgreSQL database.
type pg struct{ *postgres.Engine }

func openPostgres(ctx context.Context, url string, opt Options) (Database, error) {
	e, err := postgres.Open(ctx, url, opt.Postgres)
	if err != nil {
		return nil, err
	}
	return pg{e}, nil
}

func postgresTypes() TypeMap {
	m := TypeMap{Title: "MySQL, MariaDB and Db2 to PostgreSQL"}
	for _, r := range pgschema.TypeMap(false) {
		m.Rules = append(m.Rules, TypeRule{r.Source, r.Target, r.Why})
	}
	return m
}

func postgresPrimary(ctx context.Context, url, replica string, opt Options) (p measure.Primary, behind func(context.Context) (float64, error), close func() error, err error) {
	if replica != "" {
		return nil, nil, nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "check", Object: tidemark.MaskURL(replica), Err: errors.New("a PostgreSQL primary reports the positions of its standbys itself"), Hint: "Leave out --replica."}
	}
	e, err := postgres.Open(ctx, url, opt.Postgres)
	if err != nil {
		return nil, nil, nil, err
	}
	return e, nil, e.Close, nil
}

func (e pg) Defined(ctx context.Context, names []tidemark.TableID) (*tidemark.Database, error) {
	return e.Describe(ctx, among(names))
}

func (e pg) Follow(ctx context.Context, stream string, moves []tidemark.Move, after uint64) (capture.Stream, error) {
	if err := e.CheckPublication(ctx, pgstream.SlotOf(stream), moves); err != nil {
		return nil, err
	}
	if err := e.Continues(ctx, after); err != nil {
		return nil, err
	}
	return streamOf(e.Engine.Follow(ctx, pgstream.SlotOf(stream), after))
}

func (e pg) TargetNeeds(ctx context.Context, stream string, moves []tidemark.Move, have *tidemark.Database) ([]tidemark.Need, error) {
	there := map[tidemark.TableID]bool{}
	for _, t := range have.Tables {
		there[t.TableID] = true
	}
	var create, fill []tidemark.TableID
	for i := range moves {
		if id := moves[i].To.TableID; there[id] {
			fill = append(fill, id)
		} else {
			create = append(create, id)
		}
	}
	return e.Engine.TargetNeeds(ctx, stream, create, fill)
}

func (e pg) LargestValue(_ context.Context, bytes bool) (most int64, remedy string, err error) {
	if bytes {
		return 1<<29 - 1<<10, "", nil // as hex digits they are text
	}
	return 1<<30 - 1<<10, "", nil
}

func (e pg) Repair(ctx context.Context) (diff.Repairer, error) {
	return repairer(e.Engine.Repair(ctx))
}

func (e pg) Look(ctx context.Context, l Lock) (s Sight, err error) {
	s.Postgres, err = e.Server.Look(ctx, l.Class, l.Object)
	return s, err
}

func (e pg) relate(ctx context.Context, other Looker) (k tidemark.Kinship, lower bool, err error) {
	if other == Looker(e) {
		return tidemark.Same, false, nil
	}
	k, err = e.Relate(ctx, func(ctx context.Context, class, object int32) (pgserver.Sight, error) {
		s, err := other.Look(ctx, Lock{Class: class, Object: object})
		return s.Postgres, err
	})
	return k, false, err
}
