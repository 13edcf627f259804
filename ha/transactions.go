package ha

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// An openTx is a transaction that has not ended.
type openTx struct {
	bytes     int64
	at        int64 // bytes of log before its first record
	begin     int64 // microseconds since 1970
	uncertain int64 // microseconds: largest error of begin
	told      bool  // begin comes from one of its records
	coarse    bool  // in whole seconds
	settled   bool
}

// took returns how long it has taken at t, in seconds. If begin is in whole seconds, half a second
// is subtracted, which is right on average: only then can the result be below 0.
func (x *openTx) took(t int64) float64 {
	d := float64(t-x.begin) / 1e6
	if x.coarse && t%1e6 != 0 {
		d -= 0.5
	}
	return d
}

// transactions are the open ones, by number. Subtransactions are folded into their parents as soon
// as the log names these.
type transactions struct {
	open   map[uint64]*openTx
	last   *openTx // the one of lastID: most records belong to the same transaction as the one before
	lastID uint64
	spare  []*openTx
	begun  []*openTx // since the last timestamp
	time   int64     // of that timestamp
	bytes  int64     // of log then
	listed bool      // the log has listed the open ones
	ended  []uint64  // before it did: the last lastEnded, in a ring
	next   int       // of ended

	folded          int64
	certain         int64
	uncertain, most int64 // microseconds: sum over the certain transactions, and the maximum
}

// lastEnded is more than the transactions that can wait at once for their commit to be on disk.
const lastEnded = 1 << 13

func newTransactions() transactions { return transactions{open: map[uint64]*openTx{}} }

// add counts a record, before which there were so many bytes of log, and reports whether its
// transaction begins with it.
func (t *transactions) add(r *tidemark.LogRecord, before int64) bool {
	began := false
	x := t.last
	if x == nil || t.lastID != r.Tx {
		if x = t.open[r.Tx]; x == nil {
			x, began = t.begin(r.Tx, before), true
		}
		t.last, t.lastID = x, r.Tx
	}
	x.bytes += int64(r.Size)
	if r.Time != 0 && r.Ended == tidemark.StillOpen && (!x.told || r.Time < x.begin) {
		x.begin, x.told, x.coarse = r.Time, true, !r.Exact
		if x.coarse {
			x.uncertain = 1e6
		}
	}
	if r.Ended == tidemark.StillOpen || r.Ended == tidemark.Prepared {
		for _, child := range r.Children {
			t.fold(r.Tx, child, before)
		}
	}
	if r.Parent != 0 && r.Parent != r.Tx {
		began = t.fold(r.Parent, r.Tx, before) && began
		t.last, t.lastID = t.open[r.Parent], r.Parent
	}
	return began
}

func (t *transactions) begin(id uint64, before int64) *openTx {
	x := &openTx{}
	if n := len(t.spare); n > 0 {
		x, t.spare = t.spare[n-1], t.spare[:n-1]
	}
	*x = openTx{at: before}
	t.open[id] = x
	t.begun = append(t.begun, x)
	return x
}

// fold makes child a part of parent, and reports whether parent begins with that.
func (t *transactions) fold(parent, child uint64, before int64) bool {
	c := t.open[child]
	if c == nil {
		return false
	}
	p, began := t.open[parent], false
	if p == nil {
		p, began = t.begin(parent, before), true
		p.begin, p.uncertain, p.told, p.coarse, p.at = c.begin, c.uncertain, c.told, c.coarse, c.at
		p.settled = c.settled
	}
	p.bytes += c.bytes
	if c.settled && c.begin < p.begin {
		p.begin, p.uncertain = c.begin, c.uncertain
	}
	p.at = min(p.at, c.at)
	t.folded++
	t.drop(child)
	return began
}

func (t *transactions) drop(id uint64) {
	if t.lastID == id {
		t.last = nil
	}
	delete(t.open, id)
}

// setBegins sets the begin of transactions that began since the last timestamp: it assumes that the
// log grew evenly over time.
func (t *transactions) setBegins(now, bytes int64) {
	for _, x := range t.begun {
		if x.settled {
			continue
		}
		x.settled = true
		switch {
		case x.told:
		case t.time == 0:
			x.begin = now
		default:
			part := 1.0
			if bytes > t.bytes {
				part = math.Max(0, float64(x.at-t.bytes)/float64(bytes-t.bytes))
			}
			x.begin = t.time + int64(part*float64(now-t.time))
			x.uncertain = now - t.time
		}
	}
	t.begun = t.begun[:0]
	t.time, t.bytes = now, bytes
}

// end removes a transaction; the caller releases it with free. It returns false if the log does not
// tell whether this was a transaction: a rolled back savepoint has a number of its own, and its end
// looks the same.
func (t *transactions) end(r *tidemark.LogRecord, now int64) (*openTx, bool) {
	for _, child := range r.Children {
		t.fold(r.Tx, child, 0)
	}
	x := t.open[r.Tx]
	if x == nil { // it was folded into another
		x = &openTx{begin: now, settled: true}
	}
	if r.Begun != 0 {
		x.begin, x.uncertain, x.told, x.coarse = r.Begun, 1e6, true, true
	}
	t.drop(r.Tx)
	t.note(r)
	if r.Ended == tidemark.RolledBack && t.below(r.Tx) {
		t.free(x)
		return nil, false
	}
	if x.begin > now {
		x.begin = now
	}
	t.certain++
	t.uncertain += x.uncertain
	t.most = max(t.most, x.uncertain)
	return x, true
}

// note remembers ended transactions until the log has a list.
func (t *transactions) note(r *tidemark.LogRecord) {
	if t.listed {
		return
	}
	for _, id := range append([]uint64{r.Tx}, r.Children...) {
		if len(t.ended) < lastEnded {
			t.ended = append(t.ended, id)
			continue
		}
		t.ended[t.next] = id
		t.next = (t.next + 1) % lastEnded
	}
}

// below reports whether a transaction with a lower number is open: the parent, if id is a
// savepoint.
func (t *transactions) below(id uint64) bool {
	for other := range t.open {
		if other < id {
			return true
		}
	}
	return false
}

func (t *transactions) free(x *openTx) {
	if x.settled {
		t.spare = append(t.spare, x)
	}
}

// list processes a list of open transactions: the first one shows which were open before the log
// began; a transaction missing from a later one has ended without a record, such as a rolled back
// savepoint. A list also contains transactions whose end is in the log before it, but not on disk
// yet.
func (t *transactions) list(open []uint64) {
	in := make(map[uint64]bool, len(open))
	for _, id := range open {
		in[id] = true
		if !t.listed && t.open[id] == nil && !slices.Contains(t.ended, id) {
			t.begin(id, 0)
		}
	}
	for id := range t.open {
		if !in[id] && t.listed {
			t.drop(id)
		}
	}
	t.listed, t.ended, t.next = true, nil, 0
}

// forget clears everything.
func (t *transactions) forget() {
	clear(t.open)
	t.begun, t.last, t.lastID, t.time, t.listed = nil, nil, 0, 0, false
}

func (t *transactions) finish(out *Transactions, tell func(Tx)) {
	out.Folded = t.folded
	for _, id := range slices.Sorted(maps.Keys(t.open)) {
		x := t.open[id]
		out.OpenAtEnd++
		out.OpenBytes += x.bytes
		if tell != nil {
			tell(Tx{ID: id, Begin: moment(x.begin), Uncertain: time.Duration(x.uncertain) * time.Microsecond, Bytes: x.bytes})
		}
	}
	if t.certain > 0 {
		out.Uncertainty.Mean = float64(t.uncertain) / float64(t.certain) / 1e6
	}
	out.Uncertainty.Max = float64(t.most) / 1e6
}
