package preflight

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// sampledRows is the number of rows of a table in a sample: half of them at each end of its key.
const sampledRows = 2000

// Lobs returns the sizes in bytes of the largest values in columns of text, bytes and documents: of
// all rows, or of the first and last ones by key.
func (e *Checks) Lobs(ctx context.Context, moves []tidemark.Move, whole bool) ([]tidemark.LobSize, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	var asked []*tidemark.Move
	var statements []string
	all := func(t *tidemark.Table) bool { return whole || t.Rows >= 0 && t.Rows <= sampledRows && t.Bytes < 64<<20 }
	for i := range moves {
		t := moves[i].From
		if columns := moves[i].LobColumns(); len(columns) > 0 && (t.Form == tidemark.Ordinary || t.Form == tidemark.Partitioned) {
			asked, statements = append(asked, &moves[i]), append(statements, lobSQL(t, columns, all(t)))
		}
	}
	var out []tidemark.LobSize
	var failed error
	err = s.RunMany(ctx, statements, func(i int, r *gomysql.Result, err error) {
		t := asked[i].From
		if err != nil {
			failed = cmp.Or(failed, e.Fail("check", t.String(), err))
			return
		}
		for j, c := range asked[i].LobColumns() {
			bytes, _ := r.GetInt(0, j) // NULL: no values
			out = append(out, tidemark.LobSize{Table: t.String(), Column: c.Name, Type: c.Type.Native, Bytes: bytes, Whole: all(t)})
		}
	})
	if err != nil {
		return nil, e.Fail("check", e.Masked, err)
	}
	return out, failed
}

func lobSQL(t *tidemark.Table, columns []tidemark.Column, all bool) string {
	name := server.Quote(t.Schema) + "." + server.Quote(t.Name)
	each, most := make([]string, len(columns)), make([]string, len(columns))
	for j, c := range columns {
		each[j] = fmt.Sprintf("OCTET_LENGTH(%s) AS c%d", server.Quote(c.Name), j)
		if most[j] = fmt.Sprintf("MAX(c%d)", j); all {
			most[j] = "MAX(OCTET_LENGTH(" + server.Quote(c.Name) + "))"
		}
	}
	if all {
		return "SELECT " + strings.Join(most, ", ") + " FROM " + name
	}
	from := "SELECT " + strings.Join(each, ", ") + " FROM " + name
	sample := fmt.Sprintf("%s LIMIT %d", from, sampledRows)
	if t.Key != nil && len(t.Key.Columns()) > 0 {
		var up, down []string
		for _, c := range t.Key.Columns() {
			up, down = append(up, server.Quote(c)), append(down, server.Quote(c)+" DESC")
		}
		sample = fmt.Sprintf("(%s ORDER BY %s LIMIT %d) UNION ALL (%s ORDER BY %s LIMIT %d)", from, strings.Join(up, ", "), sampledRows/2, from, strings.Join(down, ", "), sampledRows/2)
	}
	return "SELECT " + strings.Join(most, ", ") + " FROM (" + sample + ") sample"
}

// LargestPacket returns the server's max_allowed_packet, in bytes.
func (e *Checks) LargestPacket(ctx context.Context) (int64, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return 0, err
	}
	defer back()
	r, err := s.Query(ctx, "SELECT @@global.max_allowed_packet")
	if err != nil {
		return 0, e.Fail("check", e.Masked, err)
	}
	return r.GetInt(0, 0)
}
