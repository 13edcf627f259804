package bulk

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
)

// streamEach sends all parts in one transaction, and commits. The LOAD DATA of a part is sent with
// the end of the one before it, so that each takes one round trip.
func (k *writing) streamEach(ctx context.Context) error {
	for _, p := range k.parts {
		if k.part = p; !p.shape.transactional { // another process has made the table, or altered it
			return &tidemark.Error{Op: "write", Object: p.object, Kind: tidemark.Transient, Err: errors.New("the table's storage engine has no transactions")}
		}
	}
	for _, p := range k.parts {
		k.drop()
		k.part = p
		if err := k.next(); err != nil {
			return err
		}
		if k.b.Last && len(k.b.Data) == 0 {
			continue
		}
		if err := k.beginNext(); err != nil {
			return err
		}
		send := k.sendAll
		if k.insert {
			send = func() error { return k.insertAll(ctx) }
		}
		if err := send(); err != nil {
			return err
		}
	}
	k.drop()
	if k.loading == nil {
		return k.commit(ctx)
	}
	k.part = k.loading
	return k.end(ctx)
}

// beginNext starts the LOAD DATA of a part, and judges that of the part before.
func (k *writing) beginNext() error {
	before, next := k.loading, k.part
	switch {
	case before == nil && !k.in:
		return k.begin("START TRANSACTION", resetJudgement)
	case before == nil:
		return k.begin()
	case before.enums.count >= mostWarnings, before.quiet != next.quiet: // only a question of its own tells how many there were
		k.part = before
		if err := k.finishAndJudge(); err != nil {
			return err
		}
		k.part = next
		return k.begin()
	}
	k.loading = nil
	ok, ended, begun := k.s.Wire.FinishAndLoad(next.sql)
	if begun == nil {
		k.loading = next
	}
	k.part = before
	switch {
	case ended != nil:
		return ended
	case int64(ok.Affected) != before.sent || int64(ok.Warnings) != before.enums.count:
		return &tidemark.Error{Op: "write", Object: before.object, Kind: tidemark.BadRow, Hint: correctRow,
			Err: fmt.Errorf("%d rows were sent and %d stored, with %d warnings", before.sent, ok.Affected, ok.Warnings)}
	}
	before.done.Rows += before.sent
	k.part = next
	return begun
}

// marks lists what the transaction brings, with further rows of the part that is written.
func (k *writing) marks(further int64) []tidemark.Mark {
	marks := make([]tidemark.Mark, len(k.parts))
	for i, p := range k.parts {
		marks[i] = tidemark.Mark{Range: p.w.Range.ID, Rows: p.done.Rows}
		if p == k.part {
			marks[i].Rows += further
		}
	}
	return marks
}
