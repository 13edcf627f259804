package schema

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// TableNames returns the tables of the database that a stream can include: logged tables, and
// partitioned tables only under their own name.
func (s *Schema) TableNames(ctx context.Context) (out []tidemark.TableID, _ error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	rows, err := conn.Query(ctx, `SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition AND `+userSchema+" AND "+notMember(classClass, "c.oid"))
	if err != nil {
		return nil, s.Fail(ctx, "list tables", s.Config.Database, err)
	}
	var id tidemark.TableID
	_, err = pgx.ForEachRow(rows, []any{&id.Schema, &id.Name}, func() error { out = append(out, id); return nil })
	return out, s.Fail(ctx, "list tables", s.Config.Database, err)
}
