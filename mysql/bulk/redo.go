package bulk

import (
	"context"
	"errors"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Redo repeats an action of ALTER TABLE, in its own words, on the copy of the table that it was run
// on. If the column that it adds or drops, or the partition that it makes, is already there or
// gone, or the table is not partitioned, the table stays unchanged. The statement is marked as
// ours: see [server.Ours].
func (e *Bulk) Redo(ctx context.Context, id tidemark.TableID, words string) error {
	const (
		columnThere, columnGone     = 1060, 1091
		notPartitioned, sameName    = 1505, 1517
		noSuchPart, noPartOfTheName = 1735, 1507
	)
	err := e.Exec(ctx, 0, []string{"ALTER TABLE " + server.QuoteTable(id) + " " + words + server.Ours})
	is := func(verb string) bool { return strings.HasPrefix(strings.ToUpper(words), verb) }
	done := false
	var my *gomysql.MyError
	if errors.As(err, &my) {
		switch my.Code {
		case columnThere:
			done = is("ADD COLUMN ")
		case columnGone:
			done = true
		case notPartitioned, sameName, noSuchPart, noPartOfTheName:
			done = !is("DROP PARTITION") && !is("TRUNCATE PARTITION")
		}
	}
	if done {
		return nil
	}
	return err
}

// Partitions returns how many partitions a table has; 0 if it has none.
func (e *Bulk) Partitions(ctx context.Context, id tidemark.TableID) (n int, err error) {
	rows, err := e.Ask(ctx, "SELECT COUNT(DISTINCT PARTITION_NAME) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA="+server.Literal(id.Schema)+" AND TABLE_NAME="+server.Literal(id.Name))
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return strconv.Atoi(rows[0][0])
}
