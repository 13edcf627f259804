package apply

import (
	"time"

	"github.com/tidemarkdb/tidemark/change"
)

// Underway is the oldest transaction that a Run has begun to read and has not applied. Place 0:
// there is none.
type Underway struct {
	Low   uint64 // the target has everything up to here
	Place uint64
	Time  time.Time // its commit time, by the source's clock
	Rows  int       // rows read of it
	// Alone: it is too large for memory, or arrives in pieces, so nothing else is applied at the
	// same time.
	Alone bool
	// Reading: its end has not arrived.
	Reading bool
}

// A front is what the browser holds and has not yet put in order.
type front struct {
	arriving *change.Tx // first piece of a transaction that arrives in pieces
	rows     int        // in the pieces that have arrived
	gathered *item      // first of the batch being gathered
}

// Underway reports the oldest transaction that is not applied. Any goroutine may call it.
func (r *Run) Underway() Underway {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first *item
	switch {
	case len(r.order) > 0:
		if first = r.order[0]; first.batch != nil {
			first = first.batch.items[0]
		}
	case r.front.gathered != nil:
		first = r.front.gathered
	case r.front.arriving != nil:
		return Underway{r.low, r.front.arriving.Place, r.front.arriving.Time, r.front.rows, true, true}
	default:
		return Underway{Low: r.low}
	}
	return Underway{r.low, first.place, first.time, first.rows, first.spool != nil, false}
}

// noteArriving records a piece of a transaction. Transactions that arrive whole are put in order at
// once.
func (r *runner) noteArriving(tx *change.Tx) {
	if !tx.More && r.front.arriving == nil { // only the browser writes it
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.front.arriving == nil {
		head := *tx
		head.Changes = nil
		r.front.arriving, r.front.rows = &head, 0
	}
	r.front.rows += tx.Rows
}

// clearArriving notes that a transaction was put in order. The lock is held.
func (r *runner) clearArriving() { r.front.arriving, r.front.rows = nil, 0 }
