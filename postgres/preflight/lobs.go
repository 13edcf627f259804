package preflight

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// sampledRows is about how many rows of a table a sample reads.
const sampledRows = 2000

// largest returns an expression for the size of a column's largest value. The server knows the size
// of text and bytes without reading what is stored out of line; a document it has to convert to
// text.
func largest(c *tidemark.Column) string {
	value := server.QuoteIdent(c.Name)
	if k := c.Type.Kind; k == tidemark.JSON || k == tidemark.XML {
		value += "::text"
	}
	return "coalesce(max(octet_length(" + value + ")), 0)::bigint"
}

// Lobs returns the sizes of the largest values of columns without a length, in bytes of their text,
// from all rows or from a sample of pages. Tables that the user may not read are left out.
func (c *Checks) Lobs(ctx context.Context, moves []tidemark.Move, whole bool) ([]tidemark.LobSize, error) {
	conn, release, err := c.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var out []tidemark.LobSize
	for i := range moves {
		t := moves[i].From
		columns := moves[i].LobColumns()
		if len(columns) == 0 || t.Form != tidemark.Ordinary && t.Form != tidemark.Partitioned {
			continue
		}
		of, all := server.QuoteTable(t.TableID), whole || t.Rows >= 0 && t.Rows <= 2*sampledRows && t.Bytes < 64<<20
		if !all {
			of += fmt.Sprintf(" TABLESAMPLE SYSTEM (%g)", min(100, max(100*sampledRows/float64(max(t.Rows, 2*sampledRows)), 0.001)))
		}
		sizes, exprs := make([]int64, len(columns)), make([]string, len(columns))
		into := make([]any, len(columns))
		for j := range columns {
			exprs[j], into[j] = largest(&columns[j]), &sizes[j]
		}
		if err := conn.QueryRow(ctx, "SELECT "+strings.Join(exprs, ", ")+" FROM "+of).Scan(into...); server.SQLState(err) == "42501" {
			continue // reported elsewhere
		} else if err != nil {
			return nil, c.Fail(ctx, "check", server.QuoteTable(t.TableID), err)
		}
		for j, column := range columns {
			out = append(out, tidemark.LobSize{Table: t.String(), Column: column.Name, Type: column.Type.Native, Bytes: sizes[j], Whole: all})
		}
	}
	return out, nil
}
