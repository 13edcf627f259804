package stream

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tidemarkdb/tidemark/mysql/server"
)

// boundaryRows is how many events one query lists.
const boundaryRows = 20_000

// EventBefore returns the last place at or before place at which an event of the log ends: a chunk
// of a load has a place between two events, where the log cannot be read from. Follow reports a
// missing file.
func (e *Source) EventBefore(ctx context.Context, place uint64) (uint64, error) {
	base, err := e.Base()
	if err != nil {
		return 0, err
	}
	files, err := e.Binlogs(ctx)
	if err != nil {
		return 0, e.Fail("look at the log", e.Masked, err)
	}
	own := place - min(base, place)
	at := slices.IndexFunc(files, func(f server.LogFile) bool { return uint64(f.Number) == own>>32 })
	if at < 0 {
		return place, nil
	}
	s, back, err := e.Lend(ctx)
	if err != nil {
		return 0, err
	}
	defer back()
	pos, limit := uint64(4), own&math.MaxUint32
	for {
		r, err := s.Query(ctx, fmt.Sprintf("SHOW BINLOG EVENTS IN %s FROM %d LIMIT %d", server.Literal(files[at].Name), pos, boundaryRows))
		if err != nil {
			return 0, e.Fail("look at the log", files[at].Name, err)
		}
		before := pos
		for i := range r.RowNumber() {
			end, err := strconv.ParseUint(server.Cell(r, i, 4), 10, 64)
			if err != nil {
				return 0, e.Fail("look at the log", files[at].Name, err)
			}
			if end > limit {
				return place - limit + pos, nil
			}
			pos = max(pos, end)
		}
		if r.RowNumber() < boundaryRows || pos == before {
			return place - limit + pos, nil
		}
	}
}
