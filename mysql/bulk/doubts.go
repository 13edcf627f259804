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
	copied := map[tidemark.TableID]bool{}
	for i := range moves {
		copied[moves[i].From.TableID] = true
	}
	for i := range moves {
		m := &moves[i]
		doubts, conds := doubtful(m)
		for k := range m.From.ForeignKeys {
			if f := &m.From.ForeignKeys[k]; copied[f.Ref] {
				doubts = append(doubts, tidemark.Doubt{Table: m.From.TableID, Column: f.Columns[0], ForeignKey: f.Name,
					What: "no row of " + f.Ref.String() + " that they refer to has the same text"})
				conds = append(conds, astray(m.From, f))
			}
		}
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
			what, cond = "NUL characters", "LOCATE(0x00, "+exact(name)+") > 0"
		case tidemark.Enum:
			what, cond = "invalid labels", name+" + 0 = 0"
		default:
			continue
		}
		doubts, conds = append(doubts, tidemark.Doubt{Table: m.From.TableID, Column: c.Name, What: what, Policy: policy}), append(conds, cond)
	}
	return doubts, conds
}

// exact is a text whose bytes count, whatever its collation ignores.
func exact(column string) string { return "CAST(CONVERT(" + column + " USING utf8mb4) AS BINARY)" }

// astray is the condition that a row's foreign key fulfils if no row that it refers to has exactly
// its text: the source's collation may ignore case, accents and trailing blanks, and a session with
// foreign_key_checks = 0 everything.
func astray(t *tidemark.Table, f *tidemark.ForeignKey) string {
	var given, same []string
	for i, name := range f.Columns {
		own, its := server.QuoteTable(t.TableID)+"."+server.Quote(name), "parent."+server.Quote(f.RefColumns[i])
		given = append(given, own+" IS NOT NULL")
		same = append(same, its+" = "+own)
		if c := t.Column(name); c != nil && (c.Type.Kind == tidemark.Char || c.Type.Kind == tidemark.Varchar || c.Type.Kind == tidemark.Text) {
			same = append(same, exact(its)+" = "+exact(own))
		}
	}
	return strings.Join(given, " AND ") + " AND NOT EXISTS (SELECT 1 FROM " + server.QuoteTable(f.Ref) + " parent WHERE " + strings.Join(same, " AND ") + ")"
}
