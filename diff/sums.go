package diff

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// A bucket holds the number of its rows and the sum of their hashes modulo 2^128. Two sides with
// equal buckets hold the same rows, each equally often, unless 128 bits happen to agree; the order
// of rows does not matter, because a sum does not depend on the order of its terms.
type bucket struct {
	rows   int64
	lo, hi uint64
}

func (b *bucket) add(h xxh3.Uint128) {
	var carry uint64
	b.rows++
	b.lo, carry = bits.Add64(b.lo, h.Lo, 0)
	b.hi, _ = bits.Add64(b.hi, h.Hi, carry)
}

func (b *bucket) merge(c bucket) {
	var carry uint64
	b.rows += c.rows
	b.lo, carry = bits.Add64(b.lo, c.lo, 0)
	b.hi, _ = bits.Add64(b.hi, c.hi, carry)
}

// sums is the first pass, over some tables. Each hasher has its own buckets, so none waits for
// another; they are merged once a table is finished.
type sums struct {
	*comparison
	tables []*tableSums // by table.index
}

type tableSums struct {
	buckets [2][][]bucket // per side and worker; nil if that worker has seen no row
	bytes   atomic.Int64
	open    atomic.Int64 // tasks not finished
}

// rowsPerBucket is a compromise: with more rows the second pass holds more hashes for each
// difference, with fewer the buckets outgrow the processor's cache.
const (
	rowsPerBucket = 4000
	maxBuckets    = 1 << 16
)

// sumAll hashes all rows of the given tables and records in each what differs. again means that
// they were hashed before.
func (c *comparison) sumAll(ctx context.Context, tables []*table, again bool) error {
	s := &sums{comparison: c, tables: make([]*tableSums, len(c.tables))}
	p := &pass{comparison: c, number: 1, visit: s.visit, ended: s.ended}
	for _, t := range tables {
		if again || t.asked {
			c.announce(t)
		}
		t.chooseBuckets(c.opt.Buckets)
		ts := &tableSums{}
		for side := range ts.buckets {
			ts.buckets[side] = make([][]bucket, c.opt.Hashers)
			p.tasks[side] = append(p.tasks[side], t.tasks[side]...)
		}
		ts.open.Store(int64(len(t.tasks[0]) + len(t.tasks[1])))
		s.tables[t.index] = ts
		if ts.open.Load() == 0 {
			s.finish(t)
		}
	}
	return p.run(ctx)
}

// chooseBuckets sets how many buckets both sides of the table use.
func (t *table) chooseBuckets(wanted int) {
	n := int64(wanted)
	if n <= 0 {
		n = t.expected()/rowsPerBucket + 1
	}
	n = min(max(n, 1), maxBuckets)
	t.shift = 64 - bits.Len64(uint64(n-1)) // 64 for one bucket: every hash shifted by it is 0
	t.buckets = 1 << (64 - t.shift)
}

// expected returns the larger of the servers' estimates of the number of rows. A server that knows
// only the size counts a row for 100 bytes.
func (t *table) expected() int64 {
	if t.known > 0 {
		return t.known
	}
	var rows, size int64
	for side := range t.tasks {
		var rs, bs int64
		for _, k := range t.tasks[side] {
			rs += max(k.r.Rows, 0)
			bs += max(k.r.Bytes, 0)
		}
		from := t.move(side).From
		rows, size = max(rows, rs, from.Rows), max(size, bs, from.Bytes)
	}
	if rows <= 0 {
		return size / 100
	}
	return rows
}

// visit is the hot path: about 40 ns for a row of 100 bytes.
func (s *sums) visit(worker int, k *task, data []byte) (rows int, err error) {
	t, ts := k.table, s.tables[k.table.index]
	mine := ts.buckets[k.side][worker]
	if mine == nil {
		mine = make([]bucket, t.buckets)
		ts.buckets[k.side][worker] = mine
	}
	ts.bytes.Add(int64(len(data)))
	h := s.hasher(worker, k.side, t)
	for len(data) > 0 {
		var row []byte
		if row, data, err = nextRow(t.format, data); err != nil {
			return rows, err
		}
		sum, key, ok := h.hash(k.side, row)
		if !ok {
			return rows, errRow
		}
		mine[key>>t.shift].add(sum)
		rows++
	}
	return rows, nil
}

func (s *sums) ended(k *task) error {
	if s.tables[k.table.index].open.Add(-1) == 0 {
		s.finish(k.table)
	}
	return nil
}

// finish merges the workers' buckets of a table, and compares.
func (s *sums) finish(t *table) {
	ts := s.tables[t.index]
	var sides [2][]bucket
	for side := range sides {
		sides[side] = make([]bucket, t.buckets)
		for _, worker := range ts.buckets[side] {
			for i := range worker {
				sides[side][i].merge(worker[i])
			}
		}
	}
	t.suspects = nil
	r := &t.result
	r.SourceRows, r.TargetRows, r.Bytes = 0, 0, ts.bytes.Load()
	for i := range t.buckets {
		a, b := sides[0][i], sides[1][i]
		r.SourceRows += a.rows
		r.TargetRows += b.rows
		if a != b {
			t.suspects = append(t.suspects, suspect{bucket: int32(i), rows: [2]int64{a.rows, b.rows}})
		}
	}
	s.tables[t.index] = nil // frees the memory
	if len(t.suspects) == 0 {
		r.Equal = true
		s.done(t)
	}
}

// A rowHasher hashes rows of one table; it is one worker's.
type rowHasher struct {
	table *table
	key   *keyFinder
	canon *canon // nil: rows are hashed as they are
	row   []byte // the row that was hashed last, in normal form
}

// hash returns the hash of a row and that of its key. Without a key they agree.
func (h *rowHasher) hash(side int, row []byte) (sum xxh3.Uint128, key uint64, ok bool) {
	if h.canon != nil {
		if row, ok = h.canon.line(side, row); !ok {
			return sum, 0, false
		}
	}
	h.row = row
	sum = xxh3.Hash128(row)
	if len(h.table.pair.Key) == 0 {
		return sum, sum.Hi, true
	}
	k := h.key.find(row)
	if k == nil {
		return sum, 0, false
	}
	return sum, xxh3.Hash(k), true
}

// forget releases the normal form of a large row.
func (h *rowHasher) forget() {
	h.row = nil
	if h.canon != nil {
		h.canon.buf = nil
	}
	if h.key != nil {
		h.key.buf = nil
	}
}

// fullKey returns the complete hash of the key of the row that was hashed last.
func (h *rowHasher) fullKey(sum xxh3.Uint128) xxh3.Uint128 {
	if len(h.table.pair.Key) == 0 {
		return sum
	}
	return xxh3.Hash128(h.key.find(h.row))
}
