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

// A relater finds out how it is related to another database of its family. lower: both compare
// names of tables in lower case.
type relater interface {
	Looker
	relate(ctx context.Context, other Looker) (k tidemark.Kinship, lower bool, err error)
}

// Relate reports how two open databases are related, and returns how their servers compare table
// names. Two of different kinds, files, and databases of engines that cannot find out are
// unrelated.
func Relate(ctx context.Context, a, b any) (k tidemark.Kinship, fold func(tidemark.TableID) tidemark.TableID, err error) {
	fold = func(id tidemark.TableID) tidemark.TableID { return id }
	one, ok := a.(relater)
	other, looks := b.(Looker)
	if !ok || !looks || engine.Family(one.Name()) != engine.Family(other.Name()) {
		return k, fold, nil
	}
	k, lower, err := one.relate(ctx, other)
	if lower {
		fold = func(id tidemark.TableID) tidemark.TableID {
			return tidemark.TableID{Schema: strings.ToLower(id.Schema), Name: strings.ToLower(id.Name)}
		}
	}
	return k, fold, err
}
