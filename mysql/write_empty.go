package mysql

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tidemarkdb/tidemark"
)

// empty removes all rows of a move's target. TRUNCATE begins AUTO_INCREMENT anew: it goes on where the source's does,
// or where the table's own did, whichever is later.
func empty(ctx context.Context, s *session, m *tidemark.Move) error {
	id := m.To.TableID
	r, err := s.query(ctx, "SELECT COALESCE(AUTO_INCREMENT,0) FROM information_schema.TABLES WHERE TABLE_SCHEMA="+literal(id.Schema)+" AND TABLE_NAME="+literal(id.Name))
	if err != nil {
		return err
	}
	next := uint64(0)
	if r.RowNumber() > 0 {
		next, _ = strconv.ParseUint(cell(r, 0, 0), 10, 64)
	}
	for _, t := range []*tidemark.Table{m.From, m.To} {
		for i := range t.Columns {
			if c := &t.Columns[i]; next > 0 && c.Identity != nil {
				next = max(next, c.Identity.Next)
			}
		}
	}
	if err := s.exec(ctx, "TRUNCATE TABLE "+table(id)); err != nil || next <= 1 {
		return err
	}
	return s.exec(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT=%d", table(id), next))
}
