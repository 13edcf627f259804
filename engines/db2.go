package engines

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2"
)

// d2 is a Db2 database: a source and a target of copies.
type d2 struct{ *db2.Engine }

// Db2 is what Open returns for Db2.
type Db2 = d2

// Default returns the user's own schema, whose name is in capitals.
func (e d2) Default() string { return e.Home() }

func (e d2) Tables(ctx context.Context, names []tidemark.TableID) ([]*tidemark.Table, error) {
	return tables(ctx, e, names)
}

// Look sees no lock: two Db2 databases are not compared yet.
func (e d2) Look(context.Context, Lock) (Sight, error) { return Sight{}, nil }
