package bulk

import (
	"context"
	"errors"
	"math/big"
	"strconv"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/server"
)

// Default sizes for Split if the Move sets none.
const (
	splitTarget = 64 << 20 // bytes of a range
	splitMax    = 10000    // ranges of a table
)

// Split splits a move into ranges: at the user's boundaries, or evenly between the smallest and the
// largest value of a key's first column, if that is an integer. Boundaries decide how even the
// ranges are, not which rows are copied.
func (e *Bulk) Split(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error) {
	whole := []tidemark.Range{{Kind: tidemark.Whole, Rows: m.From.Rows, Bytes: m.From.Bytes}}
	switch m.Split.Kind {
	case tidemark.SplitNone:
		return whole, nil
	case tidemark.SplitPartitions, tidemark.SplitSubparts:
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "split", Object: m.From.String(), Err: errors.New("partitions of Db2 tables are not read one by one yet"), Hint: "Leave parallel-load of this table out, or give it ranges."}
	case tidemark.SplitBounds:
		for _, b := range m.Split.Bounds {
			if len(b) != len(m.Split.Columns) {
				return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: m.From.String(), Err: errors.New("a boundary does not have one value per column")}
			}
		}
		return m.Between(m.Split.Columns, m.Split.Bounds), nil
	}
	column := splitColumn(m.From)
	if column == "" {
		return whole, nil
	}
	s, back, err := e.splitter(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	name := server.Quote(column)
	bytes, counted := m.From.Bytes, ""
	if bytes <= 0 && m.From.Rows < 0 { // an index tells the number of rows in a small part of the time of reading them
		counted = ", SUM(CAST(1 AS BIGINT))"
	}
	rows, err := s.Strings(ctx, "SELECT MIN("+name+"), MAX("+name+")"+counted+" FROM "+server.QuoteTable(m.From.TableID))
	if err != nil {
		return nil, e.Fail("split", m.From.String(), err)
	}
	if len(rows) != 1 || rows[0][0] == nil || rows[0][1] == nil {
		return whole, nil
	}
	if counted != "" && rows[0][2] != nil {
		n, err := strconv.ParseInt(*rows[0][2], 10, 64)
		if err != nil {
			return nil, e.Fail("split", m.From.String(), err)
		}
		bytes = n * unknownRow
	}
	low, ok := new(big.Int).SetString(*rows[0][0], 10)
	high, ok2 := new(big.Int).SetString(*rows[0][1], 10)
	if !ok || !ok2 {
		return whole, nil
	}
	return m.Between([]string{column}, cuts(low, high, count(m, bytes, low, high))), nil
}

// splitter lends a session that need not wait for a lock of a frozen table.
func (e *Bulk) splitter(ctx context.Context) (s *server.Session, back func(), err error) {
	e.mu.Lock()
	spare := e.spare
	e.mu.Unlock()
	if spare == nil {
		return e.Lend(ctx)
	}
	e.splits.Lock()
	spare.Bind(ctx)
	return spare, e.splits.Unlock, nil
}

// splitColumn is the first column of the primary key, or of another key without NULLs, if it is an
// integer.
func splitColumn(t *tidemark.Table) string {
	usable := func(x *tidemark.Index) string {
		if x == nil || len(x.Parts) == 0 {
			return ""
		}
		if c := t.Column(x.Parts[0].Column); c != nil && c.NotNull && c.Type.Kind == tidemark.Int {
			return c.Name
		}
		return ""
	}
	if name := usable(t.Key); name != "" {
		return name
	}
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.Unique {
			if name := usable(x); name != "" {
				return name
			}
		}
	}
	return ""
}

// unknownRow is the bytes of a row where the catalogue has no statistics.
const unknownRow = 200

// count is how many ranges a table of so many bytes should have.
func count(m *tidemark.Move, bytes int64, low, high *big.Int) int64 {
	target, most := m.Split.Target, int64(m.Split.Max)
	if target <= 0 {
		target = splitTarget
	}
	if most <= 0 {
		most = splitMax
	}
	n := min(bytes/target+1, most)
	if values := new(big.Int).Sub(high, low); values.IsInt64() {
		n = min(n, values.Int64()+1)
	}
	return max(n, 1)
}

// cuts are n-1 boundaries at even distances.
func cuts(low, high *big.Int, n int64) [][]string {
	var out [][]string
	span := new(big.Int).Add(new(big.Int).Sub(high, low), big.NewInt(1))
	for i := int64(1); i < n; i++ {
		at := new(big.Int).Mul(span, big.NewInt(i))
		at.Add(at.Div(at, big.NewInt(n)), low)
		out = append(out, []string{at.String()})
	}
	return out
}
