package wal

import (
	"errors"
	"math"
	"math/bits"
	"slices"
)

// A Fork is a part of a relation that has files of its own.
type Fork struct {
	Space, Database, Relation uint32
	Number                    uint8
}

// Numbers of forks (common/relpath.h).
const (
	MainFork = iota
	FreeSpaceFork
	VisibilityFork
	InitFork
)

// NoLimit is the limit of a fork that was neither created, nor truncated, nor removed.
const NoLimit = math.MaxUint32

// Changes are the pages of relations that a part of a log changes, and its truncations. Pages of
// the free space map are not included: it is not logged.
//
// Each page takes 2 bytes; where many of 65536 pages have changed, a bitmap covers them all.
type Changes struct {
	forks   map[Fork]*forkChanges
	minimal bool // wal_level was minimal for a time
	held    int  // approximate memory in bytes
	most    int  // limit of held
	// recent caches some of the forks; most lookups find theirs here.
	recent [256]struct {
		fork Fork
		at   *forkChanges
	}
}

// forkChanges are the changes of one fork.
type forkChanges struct {
	limit  uint32 // pages: the shortest length that the log records
	chunks []chunk
}

const (
	chunkPages = 1 << 16
	chunkList  = 4096 // a list of this many pages takes as much as a bitmap
)

// A chunk is a set of 65536 pages.
type chunk struct {
	list []uint16 // ascending; nil if bits is set
	bits *[chunkPages / 64]uint64
}

// ErrTooMany means that the changes do not fit in memory: 16 million isolated pages, or pages
// spread over nearly all of 2 TB.
var ErrTooMany = errors.New("so many pages have changed that tracking them would take more than 32 MB of memory")

const (
	changesMost = 32 << 20
	forkBytes   = 128 // per map entry and what it points to
	chunkBytes  = 32
)

// NewChanges creates an empty set.
func NewChanges() *Changes { return &Changes{forks: map[Fork]*forkChanges{}, most: changesMost} }

// fits fails if the memory limit is exceeded.
func (c *Changes) fits() error {
	if c.held > c.most {
		return ErrTooMany
	}
	return nil
}

func (c *Changes) fork(f Fork) *forkChanges {
	at := &c.recent[(f.Relation^f.Relation>>8^f.Database<<3^uint32(f.Number)<<5)&255]
	if at.fork == f && at.at != nil {
		return at.at
	}
	x := c.forks[f]
	if x == nil {
		x = &forkChanges{limit: NoLimit}
		c.forks[f] = x
		c.held += forkBytes
	}
	at.fork, at.at = f, x
	return x
}

// mark records that a page was changed.
func (c *Changes) mark(f Fork, page uint32) {
	if f.Number == FreeSpaceFork {
		return
	}
	x := c.fork(f)
	had := len(x.chunks)
	chunk := x.chunk(page / chunkPages)
	was := chunk.size()
	chunk.add(uint16(page % chunkPages))
	c.held += (len(x.chunks)-had)*chunkBytes + chunk.size() - was
}

// cut records that a fork was truncated to limit pages: earlier changes beyond them are dropped.
func (c *Changes) cut(f Fork, limit uint32) {
	x := c.fork(f)
	if f.Number == FreeSpaceFork || limit >= x.limit {
		return
	}
	x.limit = limit
	n := int(limit / chunkPages)
	if n < len(x.chunks) {
		x.chunks[n].cut(uint16(limit % chunkPages))
		for i := range x.chunks[n+1:] {
			c.held -= chunkBytes + x.chunks[n+1+i].size()
		}
		clear(x.chunks[n+1:])
		x.chunks = x.chunks[:n+1]
	}
}

// remake records that all relations of a database in a tablespace were created or removed.
func (c *Changes) remake(space, database uint32) { c.cut(Fork{Space: space, Database: database}, 0) }

// Remade reports whether all relations of a database in a tablespace were created or removed.
func (c *Changes) Remade(space, database uint32) bool {
	_, there := c.forks[Fork{Space: space, Database: database}]
	return there
}

// Of returns the shortest length of a fork in pages, NoLimit if it was only changed or extended.
// there reports whether it was changed at all.
func (c *Changes) Of(f Fork) (limit uint32, there bool) {
	x := c.forks[f]
	if x == nil {
		return NoLimit, false
	}
	return x.limit, true
}

// Pages returns the changed pages in [from, to), ascending and relative to from; nil if there are
// more than most.
func (c *Changes) Pages(f Fork, from, to uint32, most int) []uint32 {
	out := []uint32{}
	x := c.forks[f]
	if x == nil {
		return out
	}
	for n := from / chunkPages; n < uint32(len(x.chunks)) && n*chunkPages < to; n++ {
		out = x.chunks[n].pages(out, n*chunkPages, from, to)
		if len(out) > most {
			return nil
		}
	}
	return out
}

func (x *forkChanges) chunk(n uint32) *chunk {
	if int(n) >= len(x.chunks) {
		x.chunks = append(x.chunks, make([]chunk, int(n)+1-len(x.chunks))...)
	}
	return &x.chunks[n]
}

// size returns the memory in bytes.
func (c *chunk) size() int {
	if c.bits != nil {
		return chunkPages / 8
	}
	return 2 * cap(c.list)
}

func (c *chunk) add(page uint16) {
	if c.bits != nil {
		c.bits[page/64] |= 1 << (page % 64)
		return
	}
	if n := len(c.list); n == 0 || c.list[n-1] < page {
		c.list = append(c.list, page)
	} else if i, there := slices.BinarySearch(c.list, page); !there {
		c.list = slices.Insert(c.list, i, page)
	}
	if len(c.list) >= chunkList {
		c.bits = new([chunkPages / 64]uint64)
		for _, p := range c.list {
			c.bits[p/64] |= 1 << (p % 64)
		}
		c.list = nil
	}
}

// cut removes the pages at and after from.
func (c *chunk) cut(from uint16) {
	if c.bits == nil {
		i, _ := slices.BinarySearch(c.list, from)
		c.list = c.list[:i]
		return
	}
	c.bits[from/64] &= 1<<(from%64) - 1
	clear(c.bits[from/64+1:])
}

// pages appends the pages in [from, to), relative to from, of a chunk that begins at page first.
func (c *chunk) pages(out []uint32, first, from, to uint32) []uint32 {
	take := func(page uint32) {
		if page += first; page >= from && page < to {
			out = append(out, page-from)
		}
	}
	for _, p := range c.list {
		take(uint32(p))
	}
	if c.bits != nil {
		for i, word := range c.bits {
			for ; word != 0; word &= word - 1 {
				take(uint32(i*64 + bits.TrailingZeros64(word)))
			}
		}
	}
	return out
}
