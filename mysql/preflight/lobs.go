package preflight

import (
	"context"
	"fmt"
	"strings"

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
	var out []tidemark.LobSize
	for i := range moves {
		t := moves[i].From
		columns := moves[i].LobColumns()
		if len(columns) == 0 || t.Form != tidemark.Ordinary && t.Form != tidemark.Partitioned {
			continue
		}
		all := whole || t.Rows >= 0 && t.Rows <= sampledRows && t.Bytes < 64<<20
		r, err := s.Query(ctx, lobSQL(t, columns, all))
		if err != nil {
			return nil, e.Fail("check", t.String(), err)
		}
		for j, c := range columns {
			bytes, _ := r.GetInt(0, j) // NULL: no values
			out = append(out, tidemark.LobSize{Table: t.String(), Column: c.Name, Type: c.Type.Native, Bytes: bytes, Whole: all})
		}
	}
	return out, nil
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
