package mysql

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// boundaryRows is how many events are listed at once.
const boundaryRows = 20_000

// EventBefore gives the last place at or before one at which an event of the log ends: that of a chunk of a load is
// between two of them, where the log cannot be read from. A file that is gone is left to Follow to tell.
func (e *Engine) EventBefore(ctx context.Context, place uint64) (uint64, error) {
	base, err := e.base()
	if err != nil {
		return 0, err
	}
	files, err := e.binlogs(ctx)
	if err != nil {
		return 0, e.fail("look at the log", e.to.masked, err)
	}
	own := place - min(base, place)
	at := slices.IndexFunc(files, func(f logFile) bool { return uint64(f.number) == own>>32 })
	if at < 0 {
		return place, nil
	}
	s, back, err := e.ordinary(ctx)
	if err != nil {
		return 0, err
	}
	defer back()
	pos, limit := uint64(4), own&math.MaxUint32
	for {
		r, err := s.query(ctx, fmt.Sprintf("SHOW BINLOG EVENTS IN %s FROM %d LIMIT %d", literal(files[at].name), pos, boundaryRows))
		if err != nil {
			return 0, e.fail("look at the log", files[at].name, err)
		}
		before := pos
		for i := range r.RowNumber() {
			end, err := strconv.ParseUint(cell(r, i, 4), 10, 64)
			if err != nil {
				return 0, e.fail("look at the log", files[at].name, err)
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
