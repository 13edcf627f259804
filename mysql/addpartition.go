package mysql

import (
	"context"
	"errors"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
)

// ChangePartitions does to a table what ADD PARTITION or REORGANIZE PARTITION, in the words of a statement, did to the
// table that it is a copy of. A table that is not partitioned, or has the partition, stays as it is.
func (e *Engine) ChangePartitions(ctx context.Context, id tidemark.TableID, words string) error {
	const notPartitioned, sameName, noSuchPartition = 1505, 1517, 1735
	err := e.Exec(ctx, 0, []string{"ALTER TABLE " + table(id) + " " + words})
	var my *gomysql.MyError
	if errors.As(err, &my) && (my.Code == notPartitioned || my.Code == sameName || my.Code == noSuchPartition) {
		return nil
	}
	return err
}
