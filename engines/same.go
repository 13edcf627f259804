package engines

import (
	"context"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/mysql/server"
	pgserver "github.com/tidemarkdb/tidemark/postgres/server"
)

// A Lock is one that a database takes to find out whether another one is the same.
type Lock struct {
	Class, Object int32  // of PostgreSQL
	Name          string // of MySQL and MariaDB
}

// A Sight is what another database sees of it, by the kind of its server.
type Sight struct {
	Postgres pgserver.Sight
	MySQL    server.Sight
}

// A Looker is an open database that looks for a Lock.
type Looker interface {
	Name() string
	Look(ctx context.Context, l Lock) (Sight, error)
}

func (e pg) Look(ctx context.Context, l Lock) (s Sight, err error) {
	s.Postgres, err = e.Server.Look(ctx, l.Class, l.Object)
	return s, err
}

func (e my) Look(ctx context.Context, l Lock) (s Sight, err error) {
	s.MySQL, err = server.Look(ctx, e.Server, l.Name)
	return s, err
}

// Identity distinguishes servers, as that of a PostgreSQL database does.
func (e my) Identity(ctx context.Context) (string, error) { return server.Identity(ctx, e.Server) }

// Relate reports how two open databases are related, and returns how their servers compare table
// names. Two of different kinds, and files, are unrelated.
func Relate(ctx context.Context, a, b any) (k tidemark.Kinship, fold func(tidemark.TableID) tidemark.TableID, err error) {
	fold = func(id tidemark.TableID) tidemark.TableID { return id }
	other, ok := b.(Looker)
	if !ok {
		return k, fold, nil
	}
	switch a := a.(type) {
	case pg:
		if a == b {
			return tidemark.Same, fold, nil
		}
		if other.Name() == "postgres" {
			k, err = a.Relate(ctx, func(ctx context.Context, class, object int32) (pgserver.Sight, error) {
				s, err := other.Look(ctx, Lock{Class: class, Object: object})
				return s.Postgres, err
			})
		}
	case my:
		if engine.Family(other.Name()) == engine.MySQL {
			var lower bool
			k, lower, err = a.Relate(ctx, func(ctx context.Context, name string) (server.Sight, error) {
				s, err := other.Look(ctx, Lock{Name: name})
				return s.MySQL, err
			})
			if lower {
				fold = func(id tidemark.TableID) tidemark.TableID {
					return tidemark.TableID{Schema: strings.ToLower(id.Schema), Name: strings.ToLower(id.Name)}
				}
			}
		}
	}
	return k, fold, err
}
