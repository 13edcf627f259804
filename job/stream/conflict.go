package stream

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
)

// conflict tells how to handle changes of a table that do not fit the target.
func (r *stream) conflict(m *tidemark.Move) tidemark.Conflict {
	return m.Conflict.Over(r.spec.Conflict)
}

// checked tells for which tables more than the key is compared.
func (r *stream) checked(moves []tidemark.Move) func(tidemark.TableID) bool {
	out := map[tidemark.TableID]bool{}
	for i := range moves {
		out[moves[i].From.TableID] = r.conflict(&moves[i]).Rule.Checks(tidemark.UpdateChange)
	}
	return func(id tidemark.TableID) bool { return out[id] }
}

// oldTold checks that the log has what the conflict rules compare.
func (r *stream) oldTold(ctx context.Context, moves []tidemark.Move) error {
	var want []tidemark.TableID
	checked := r.checked(moves)
	for _, m := range moves {
		if checked(m.From.TableID) {
			want = append(want, m.From.TableID)
		}
	}
	return capture.NeedsOldRows(ctx, r.from, want)
}
