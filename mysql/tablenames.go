package mysql

import (
	"context"

	"github.com/tidemarkdb/tidemark"
)

// TableNames returns the tables of the database, or of all, that have rows of their own.
func (e *Engine) TableNames(ctx context.Context) (out []tidemark.TableID, _ error) {
	s, back, err := e.ordinary(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	where := (&describer{e: e}).inScope("TABLE_SCHEMA")
	r, err := s.query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND "+where)
	if err != nil {
		return nil, e.fail("list tables", e.to.masked, err)
	}
	for i := range r.RowNumber() {
		out = append(out, tidemark.TableID{Schema: cell(r, i, 0), Name: cell(r, i, 1)})
	}
	return out, nil
}
