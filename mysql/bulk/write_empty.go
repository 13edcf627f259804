package bulk

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// empty removes all rows of a move's target. TRUNCATE resets AUTO_INCREMENT: it continues at the
// source's value or the table's own, whichever is greater.
func empty(ctx context.Context, s *server.Session, m *tidemark.Move) error {
	id := m.To.TableID
	r, err := s.Query(ctx, "SELECT COALESCE(AUTO_INCREMENT,0) FROM information_schema.TABLES WHERE TABLE_SCHEMA="+server.Literal(id.Schema)+" AND TABLE_NAME="+server.Literal(id.Name))
	if err != nil {
		return err
	}
	next := uint64(0)
	if r.RowNumber() > 0 {
		next, _ = strconv.ParseUint(server.Cell(r, 0, 0), 10, 64)
	}
	for _, t := range []*tidemark.Table{m.From, m.To} {
		for i := range t.Columns {
			if c := &t.Columns[i]; next > 0 && c.Identity != nil {
				next = max(next, c.Identity.Next)
			}
		}
	}
	if err := truncate(ctx, s, id); err != nil || next <= 1 {
		return err
	}
	return s.Exec(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT=%d", server.QuoteTable(id), next))
}

// noTruncate is MariaDB's error for TRUNCATE of a system-versioned table.
const noTruncate = 4137

// truncate removes all rows of a table, and the history of a system-versioned one.
func truncate(ctx context.Context, s *server.Session, id tidemark.TableID) error {
	err := s.Exec(ctx, "TRUNCATE TABLE "+server.QuoteTable(id))
	var my *gomysql.MyError
	if !errors.As(err, &my) || my.Code != noTruncate {
		return err
	}
	if err = s.Exec(ctx, "DELETE FROM "+server.QuoteTable(id)); err == nil {
		err = s.Exec(ctx, "DELETE HISTORY FROM "+server.QuoteTable(id))
	}
	return err
}
