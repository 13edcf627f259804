package bulk

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Doubts reads all rows of moves to another kind of server, and counts those with values that it
// does not take. Columns without any are left out.
func (v *Reader) Doubts(ctx context.Context, moves []tidemark.Move) ([]tidemark.Doubt, error) {
	conn, release, err := v.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var out []tidemark.Doubt
	for i := range moves {
		m := &moves[i]
		doubts, conds := doubtful(m)
		if len(doubts) == 0 || m.From.Form != tidemark.Ordinary && m.From.Form != tidemark.Partitioned {
			continue
		}
		where, err := FilterSQL(m)
		if err != nil {
			return nil, err
		}
		into := make([]any, len(doubts))
		for k, cond := range conds {
			conds[k], into[k] = "count(*) FILTER (WHERE "+cond+")", &doubts[k].Rows
		}
		sql := "SELECT " + strings.Join(conds, ", ") + FromSQL(m, &tidemark.Range{}, where)
		if err := conn.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(into...); err != nil {
			return nil, v.Fail(ctx, "check the values of", m.From.String(), err)
		}
		for _, d := range doubts {
			if d.Rows > 0 {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

// doubtful returns the columns of a move that may have values which another kind of server does not
// take, each with the condition that such a value fulfils.
func doubtful(m *tidemark.Move) (doubts []tidemark.Doubt, conds []string) {
	for i, c := range m.Columns() {
		to := m.To.Stored()[i].Type
		add := func(what, cond, policy string) {
			doubts, conds = append(doubts, tidemark.Doubt{Table: m.From.TableID, Column: c.Name, What: what, Policy: policy}), append(conds, cond)
		}
		name := server.QuoteIdent(c.Name)
		switch c.Type.Kind {
		case tidemark.Float:
			add("NaN or infinity", name+" IN ('NaN', 'Infinity', '-Infinity')", "unrepresentable")
		case tidemark.Decimal:
			add("NaN or infinity", name+"::text IN ('NaN', 'Infinity', '-Infinity')", "unrepresentable")
			if c.Type.Precision == 0 && to.Kind == tidemark.Decimal {
				add("more than 35 digits before the point", fmt.Sprintf("abs(CASE WHEN %[1]s::text IN ('NaN', 'Infinity', '-Infinity') THEN 0 ELSE %[1]s END) >= 1e35", name), "")
			}
		case tidemark.Date, tidemark.DateTime, tidemark.Timestamp:
			if to.Kind == c.Type.Kind || to.Kind == tidemark.DateTime {
				add("dates outside of the years 1 to 9999", fmt.Sprintf("NOT isfinite(%[1]s) OR %[1]s < '0001-01-01' OR %[1]s >= '10000-01-01'", name), "unrepresentable")
			}
		case tidemark.Char, tidemark.Varchar, tidemark.Text:
			if n := to.Length; n > 0 && (to.Kind == tidemark.Varchar || to.Kind == tidemark.Char) && (c.Type.Length == 0 || c.Type.Length > n) {
				add(fmt.Sprintf("texts of more than %d characters", n), fmt.Sprintf("char_length(%s) > %d", name, n), "")
			}
		}
	}
	return doubts, conds
}
