package schema

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// TableNames returns the tables of the database, or of all databases, that have rows of their own.
func (e *Schema) TableNames(ctx context.Context) (out []tidemark.TableID, _ error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	where := e.InScope("TABLE_SCHEMA")
	r, err := s.Query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND "+where)
	if err != nil {
		return nil, e.Fail("list tables", e.Masked, err)
	}
	for i := range r.RowNumber() {
		out = append(out, tidemark.TableID{Schema: server.Cell(r, i, 0), Name: server.Cell(r, i, 1)})
	}
	return out, nil
}
