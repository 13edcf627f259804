package diff

import (
	"context"

	"github.com/tidemarkdb/tidemark"
)

// Side is what a comparison needs of a database. The caller has opened the lanes
// (on one consistent view, as far as the engine has one) and closes the side
// after. Lanes are numbered from 0. Every load.Source is a Side.
type Side interface {
	// Split cuts a move into ranges that together hold each of its rows once.
	Split(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error)
	// Read emits the rows of a range; the last batch has Last set, also when the
	// range is empty. It does not touch a batch after emit took it, and returns
	// emit's error as it is.
	Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error
}
