package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

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

// lobsAtOnce is how many tables are measured in one round trip.
const lobsAtOnce = 100

// Lobs returns the sizes of the largest values of columns without a length, in bytes of their text,
// from all rows or from a sample of pages. Tables that the user may not read are left out.
func (c *Checks) Lobs(ctx context.Context, moves []tidemark.Move, whole bool) ([]tidemark.LobSize, error) {
	conn, release, err := c.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var out []tidemark.LobSize
	var tables []*lobTable
	for i := range moves {
		t := moves[i].From
		if columns := moves[i].LobColumns(); len(columns) > 0 && (t.Form == tidemark.Ordinary || t.Form == tidemark.Partitioned) {
			tables = append(tables, newLobTable(t, columns, whole))
		}
	}
	for some := range slices.Chunk(tables, lobsAtOnce) {
		var batch pgx.Batch
		for _, t := range some {
			batch.Queue(t.sql).QueryRow(func(row pgx.Row) error { return row.Scan(t.into()...) })
		}
		err := conn.SendBatch(ctx, &batch).Close()
		// One of them is not to be read: which one? Or the server has too few locks for so many.
		if state := server.SQLState(err); state == "42501" || state == "53200" || server.Unresolved(state) {
			some, err = eachLob(ctx, conn, some)
		}
		if err != nil {
			return nil, c.Fail(ctx, "check", "the largest values", err)
		}
		for _, t := range some {
			out = append(out, t.sizes...)
		}
	}
	return out, nil
}

// A lobTable is a table whose largest values are looked for.
type lobTable struct {
	sql   string
	sizes []tidemark.LobSize
}

func newLobTable(t *tidemark.Table, columns []tidemark.Column, whole bool) *lobTable {
	of, all := server.QuoteTable(t.TableID), whole || t.Rows >= 0 && t.Rows <= 2*sampledRows && t.Bytes < 64<<20
	if !all {
		of += fmt.Sprintf(" TABLESAMPLE SYSTEM (%g)", min(100, max(100*sampledRows/float64(max(t.Rows, 2*sampledRows)), 0.001)))
	}
	out, exprs := &lobTable{}, make([]string, len(columns))
	for i := range columns {
		exprs[i] = largest(&columns[i])
		out.sizes = append(out.sizes, tidemark.LobSize{Table: t.String(), Column: columns[i].Name, Type: columns[i].Type.Native, Whole: all})
	}
	out.sql = "SELECT " + strings.Join(exprs, ", ") + " FROM " + of
	return out
}

// into returns where its query's row goes.
func (t *lobTable) into() []any {
	out := make([]any, len(t.sizes))
	for i := range t.sizes {
		out[i] = &t.sizes[i].Bytes
	}
	return out
}

// eachLob measures tables one by one, and returns those that the user may read, and whose indexes
// call no function that finds nothing without a search path. The others are reported elsewhere.
func eachLob(ctx context.Context, conn *pgx.Conn, tables []*lobTable) (out []*lobTable, _ error) {
	for _, t := range tables {
		err := conn.QueryRow(ctx, t.sql).Scan(t.into()...)
		if state := server.SQLState(err); err == nil {
			out = append(out, t)
		} else if state != "42501" && !server.Unresolved(state) {
			return nil, err
		}
	}
	return out, nil
}
