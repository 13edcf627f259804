package bulk

import (
	"context"
	"errors"
	"strconv"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Redo does to a table what an action of ALTER TABLE, in its own words, did to the table that it is a copy of. Where the
// column or partition is there already, or is gone, or the table is not partitioned, it stays as it is.
func (e *Bulk) Redo(ctx context.Context, id tidemark.TableID, words string) error {
	const (
		columnThere, columnGone     = 1060, 1091
		notPartitioned, sameName    = 1505, 1517
		noSuchPart, noPartOfTheName = 1735, 1507
	)
	err := e.Exec(ctx, 0, []string{"ALTER TABLE " + server.QuoteTable(id) + " " + words})
	var my *gomysql.MyError
	if errors.As(err, &my) {
		switch my.Code {
		case columnThere, columnGone, notPartitioned, sameName, noSuchPart, noPartOfTheName:
			return nil
		}
	}
	return err
}

// Partitions gives how many partitions a table has; 0 if it has none.
func (e *Bulk) Partitions(ctx context.Context, id tidemark.TableID) (n int, err error) {
	rows, err := e.Ask(ctx, "SELECT COUNT(DISTINCT PARTITION_NAME) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA="+server.Literal(id.Schema)+" AND TABLE_NAME="+server.Literal(id.Name))
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return strconv.Atoi(rows[0][0])
}
