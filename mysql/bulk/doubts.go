package bulk

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Doubts reads all rows of moves to another kind of server, and counts those with values that it
// does not take. Columns without any are left out.
func (e *Bulk) Doubts(ctx context.Context, moves []tidemark.Move) (out []tidemark.Doubt, err error) {
	var asked [][]tidemark.Doubt
	var statements []string
	for i := range moves {
		m := &moves[i]
		doubts, conds := doubtful(m)
		if len(doubts) == 0 || m.From.Form != tidemark.Ordinary && m.From.Form != tidemark.Partitioned {
			continue
		}
		where, err := where(m, nil)
		if err != nil {
			return nil, err
		}
		for k, cond := range conds {
			conds[k] = "COALESCE(SUM(" + cond + "), 0)"
		}
		sql := "SELECT " + strings.Join(conds, ", ") + " FROM " + server.QuoteTable(m.From.TableID)
		if where != "" {
			sql += " WHERE " + where
		}
		asked, statements = append(asked, doubts), append(statements, sql)
	}
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	var failed error
	err = s.RunMany(ctx, statements, func(i int, r *gomysql.Result, err error) {
		if err != nil {
			failed = cmp.Or(failed, e.Fail("check the values of", asked[i][0].Table.String(), err))
			return
		}
		for k, d := range asked[i] {
			if d.Rows, _ = r.GetInt(0, k); d.Rows > 0 {
				out = append(out, d)
			}
		}
	})
	if err != nil {
		return nil, e.Fail("check", e.Masked, err)
	}
	return out, failed
}

// doubtful returns the columns of a move that may have values which another kind of server does not
// take, each with the condition that such a value fulfils.
func doubtful(m *tidemark.Move) (doubts []tidemark.Doubt, conds []string) {
	for _, c := range m.Columns() {
		name, what, cond, policy := server.Quote(c.Name), "", "", ""
		switch c.Type.Kind {
		case tidemark.Date, tidemark.DateTime, tidemark.Timestamp:
			what, policy = "zero or impossible dates", "zero-dates"
			cond = fmt.Sprintf("YEAR(%[1]s) = 0 OR MONTH(%[1]s) = 0 OR DAYOFMONTH(%[1]s) = 0 OR DAYOFMONTH(%[1]s) > 28 AND DATE_FORMAT(%[1]s, '%%Y%%m%%d') > DATE_FORMAT(LAST_DAY(DATE_FORMAT(%[1]s, '%%Y-%%m-01')), '%%Y%%m%%d')", name)
		case tidemark.Char, tidemark.Varchar, tidemark.Text:
			what, cond = "NUL characters", "LOCATE(0x00, CAST(CONVERT("+name+" USING utf8mb4) AS BINARY)) > 0"
		case tidemark.Enum:
			what, cond = "invalid labels", name+" + 0 = 0"
		default:
			continue
		}
		doubts, conds = append(doubts, tidemark.Doubt{Table: m.From.TableID, Column: c.Name, What: what, Policy: policy}), append(conds, cond)
	}
	return doubts, conds
}
