package bulk

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Default sizes for Split if the Move sets none.
const (
	splitTarget = 64 << 20 // bytes of a range
	splitMax    = 10000    // ranges of a table
)

// Split splits a move into ranges. Automatic ranges follow the primary key, or else a unique key
// without NULLs, as far as its columns have an order that a constant can be compared with. A table
// without such a key is one range; so is a table whose target storage engine has no transactions,
// because a failed range can be removed there only by emptying the table. Boundaries decide how
// even the ranges are, not which rows are copied: any boundary splits a table in two, because the
// server does all comparing.
func (e *Bulk) Split(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error) {
	whole := []tidemark.Range{{Kind: tidemark.Whole, Rows: m.From.Rows, Bytes: m.From.Bytes}}
	switch m.Split.Kind {
	case tidemark.SplitNone:
		return whole, nil
	case tidemark.SplitPartitions, tidemark.SplitSubparts:
		return partitions(m)
	case tidemark.SplitBounds:
		return bounds(m)
	}
	if m.From.Form == tidemark.View || !schema.Transactional(m.To.Storage) {
		return whole, nil
	}
	sp := &splitter{e: e, m: m, cols: splitColumns(m.From)}
	n := sp.count()
	if n < 2 || len(sp.cols) == 0 {
		return whole, nil
	}
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	sp.s = s
	cuts, err := sp.cuts(ctx, n)
	if err != nil {
		return nil, e.Fail("split", m.From.String(), err)
	}
	return m.Between(sp.cols, cuts), nil
}

// partitions returns a range per partition or subpartition.
func partitions(m *tidemark.Move) ([]tidemark.Range, error) {
	type group struct {
		part tidemark.Part
		used bool
	}
	var all []group
	index := map[string]int{}
	for _, p := range m.From.Partitions {
		name := p.Name
		if m.Split.Kind == tidemark.SplitPartitions && p.Parent != "" {
			name = p.Parent
		}
		i, known := index[name]
		if !known {
			i = len(all)
			index[name] = i
			part := tidemark.Part{Name: name}
			if name == p.Name {
				part.Parent = p.Parent
			}
			all = append(all, group{part: part})
		}
		all[i].part.Rows += p.Rows
		all[i].part.Bytes += p.Bytes
	}
	if len(all) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: m.From.String(), Err: errors.New("the table has no partitions"), Hint: "Leave parallel-load of this table out, or give it ranges."}
	}
	for _, name := range m.Split.Parts {
		i, known := index[name]
		if !known {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: m.From.String(), Err: errors.New("there is no partition " + name)}
		}
		all[i].used = true
	}
	var out []tidemark.Range
	for _, g := range all {
		if g.used || len(m.Split.Parts) == 0 {
			part := g.part
			out = append(out, tidemark.Range{Kind: tidemark.Whole, Part: &part, Rows: part.Rows, Bytes: part.Bytes})
		}
	}
	return out, nil
}

// bounds returns the ranges between the user's boundaries.
func bounds(m *tidemark.Move) ([]tidemark.Range, error) {
	for _, name := range m.Split.Columns {
		if m.From.Column(name) == nil {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: m.From.String(), Err: errors.New("there is no column " + name)}
		}
	}
	for _, b := range m.Split.Bounds {
		if len(b) != len(m.Split.Columns) {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: m.From.String(), Err: fmt.Errorf("the boundary (%s) does not have one value per column", strings.Join(b, ", "))}
		}
	}
	return m.Between(m.Split.Columns, m.Split.Bounds), nil
}

// splitColumns are the leading columns of the best key whose values can be boundaries. ENUM and SET
// are ordered by number and compared by name; BIT and columns without a kind end the list.
func splitColumns(t *tidemark.Table) []string {
	usable := func(x *tidemark.Index) []string {
		var names []string
		for _, p := range x.Parts {
			c := t.Column(p.Column)
			if c == nil || p.Prefix != 0 || !c.NotNull {
				break
			}
			switch c.Type.Kind {
			case tidemark.Other, tidemark.Enum, tidemark.Set, tidemark.Bit, tidemark.VarBit, tidemark.Bool, tidemark.JSON, tidemark.Geometry:
				return names
			}
			names = append(names, c.Name)
		}
		return names
	}
	if t.Key != nil {
		return usable(t.Key)
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if names := usable(x); x.Unique && len(names) == len(x.Parts) && (x.Method == "" || strings.EqualFold(x.Method, "btree")) {
			return names
		}
	}
	return nil
}

// A splitter looks for boundaries in a table's key.
type splitter struct {
	e    *Bulk
	s    *server.Session
	m    *tidemark.Move
	cols []string
}

// count returns the number of ranges that a table's size calls for.
func (sp *splitter) count() int64 {
	target, most := sp.m.Split.Target, int64(sp.m.Split.Max)
	if target <= 0 {
		target = splitTarget
	}
	if most <= 0 {
		most = splitMax
	}
	n := (sp.m.From.Bytes + target - 1) / target
	if rows := sp.m.From.Rows; rows > 0 && n > rows {
		n = rows
	}
	return min(n, most)
}

// cuts returns at most n-1 boundaries, ascending as the server orders them.
func (sp *splitter) cuts(ctx context.Context, n int64) ([][]string, error) {
	first := sp.m.From.Column(sp.cols[0])
	if first.Type.Kind == tidemark.Int {
		cuts, ok, err := sp.even(ctx, n, len(sp.cols) == 1)
		if ok || err != nil {
			return cuts, err
		}
	}
	return sp.walk(ctx, n)
}

// even steps through integers if they are dense enough: their span is at most four times the number
// of rows. Of several columns the first alone is used if it has many more values than there are
// ranges.
func (sp *splitter) even(ctx context.Context, n int64, alone bool) ([][]string, bool, error) {
	col := server.Quote(sp.cols[0])
	r, err := sp.s.Query(ctx, "SELECT MIN("+col+"), MAX("+col+") FROM "+server.QuoteTable(sp.m.From.TableID))
	if err != nil {
		return nil, false, err
	}
	low, high := server.Cell(r, 0, 0), server.Cell(r, 0, 1)
	if low == "" {
		return nil, true, nil // empty
	}
	unsigned := !strings.HasPrefix(low, "-")
	var from, span uint64
	if unsigned {
		from, _ = strconv.ParseUint(low, 10, 64)
		to, _ := strconv.ParseUint(high, 10, 64)
		span = to - from
	} else {
		a, _ := strconv.ParseInt(low, 10, 64)
		b, _ := strconv.ParseInt(high, 10, 64)
		from, span = uint64(a), uint64(b)-uint64(a)
	}
	rows := uint64(max(sp.m.From.Rows, 1))
	if alone && span/4 > rows || !alone && (span < uint64(n)*20 || span > rows) {
		return nil, false, nil
	}
	step := span/uint64(n) + 1
	sp.cols = sp.cols[:1]
	var cuts [][]string
	for at := step; at <= span && at >= step; at += step {
		if unsigned {
			cuts = append(cuts, []string{strconv.FormatUint(from+at, 10)})
		} else {
			cuts = append(cuts, []string{strconv.FormatInt(int64(from+at), 10)})
		}
	}
	return cuts, true, nil
}

// walk takes every n-th key by walking the index from one boundary to the next: exact, and as fast
// as the server counts.
func (sp *splitter) walk(ctx context.Context, n int64) ([][]string, error) {
	t := sp.m.From
	step := max(t.Rows/n, 1)
	cols := make([]*tidemark.Column, len(sp.cols))
	exprs, order := make([]string, len(cols)), make([]string, len(cols))
	for i, name := range sp.cols {
		cols[i] = t.Column(name)
		exprs[i], order[i] = keyText(cols[i]), server.Quote(name)
	}
	from := " FROM " + server.QuoteTable(t.TableID)
	if t.Key != nil {
		from += " FORCE INDEX (PRIMARY)"
	}
	var cuts [][]string
	where, offset := "", step
	for int64(len(cuts)) < 2*n { // the estimate of rows may be far too low
		r, err := sp.s.Query(ctx, fmt.Sprintf("SELECT %s%s%s ORDER BY %s LIMIT 1 OFFSET %d",
			strings.Join(exprs, ","), from, where, strings.Join(order, ","), offset))
		if err != nil {
			return nil, err
		}
		if r.RowNumber() == 0 {
			break
		}
		cut := make([]string, len(cols))
		for i := range cut {
			cut[i] = server.Cell(r, 0, i)
		}
		next := " WHERE " + compare(cols, cut, ">", ">=")
		if next == where {
			// More rows than fit a range share these columns: continue after them.
			where, offset = " WHERE "+compare(cols, cut, ">", ">"), 0
			continue
		}
		cuts, where, offset = append(cuts, cut), next, step
	}
	return cuts, nil
}

// keyText selects a key's value in the text form that constant takes.
func keyText(c *tidemark.Column) string {
	switch c.Type.Kind {
	case tidemark.Binary, tidemark.Varbinary, tidemark.Blob:
		return `CONCAT('\\x',HEX(` + server.Quote(c.Name) + "))"
	case tidemark.Float:
		if c.Type.Bits == 32 {
			return "(" + server.Quote(c.Name) + "+0e0)"
		}
	}
	return server.Quote(c.Name)
}
