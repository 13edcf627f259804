package wal

import (
	"errors"
	"math"
	"math/bits"
	"slices"
)

// A Fork is one of the parts of a relation that have files of their own.
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

// NoLimit is the limit of a fork that was neither made, nor cut, nor removed.
const NoLimit = math.MaxUint32

// Changes are the pages of relations that a part of a log changes, and what it cuts off them. The
// free space map is not among them: it is not logged.
//
// Each page takes 2 bytes, or where many of 65536 have changed, a bit for all of these.
type Changes struct {
	forks   map[Fork]*forkChanges
	minimal bool // wal_level was, for a time
	held    int  // bytes of memory, about
	most    int  // and how many there may be
	// recent has some of the forks again, where most are found.
	recent [256]struct {
		fork Fork
		at   *forkChanges
	}
}

// forkChanges are those of a fork.
type forkChanges struct {
	limit  uint32 // pages: the least that it is known to have had
	chunks []chunk
}

const (
	chunkPages = 1 << 16
	chunkList  = 4096 // so many pages take as much as a bit for each
)

// A chunk is a set of 65536 pages.
type chunk struct {
	list []uint16 // ascending; or else
	bits *[chunkPages / 64]uint64
}

// ErrTooMany is the error where so much has changed that it does not fit in memory: 16 million pages that lie
// alone, or some of nearly all in 2 TB.
var ErrTooMany = errors.New("so many pages have changed that to note them would take more than 32 MB of memory")

const (
	changesMost = 32 << 20
	forkBytes   = 128 // of an entry of the map, and what it leads to
	chunkBytes  = 32
)

// NewChanges makes an empty set.
func NewChanges() *Changes { return &Changes{forks: map[Fork]*forkChanges{}, most: changesMost} }

// fits says whether there is room for more.
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

// mark says that a page was changed.
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

// cut says that a fork had only so many pages: what was changed behind them before is gone.
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

// remake says that all relations of a database in a tablespace were made or removed.
func (c *Changes) remake(space, database uint32) { c.cut(Fork{Space: space, Database: database}, 0) }

// Remade says whether all relations of a database in a tablespace were made, or removed before.
func (c *Changes) Remade(space, database uint32) bool {
	_, there := c.forks[Fork{Space: space, Database: database}]
	return there
}

// Of gives the least length of a fork in pages, NoLimit if it was only changed or extended. there:
// it was changed at all.
func (c *Changes) Of(f Fork) (limit uint32, there bool) {
	x := c.forks[f]
	if x == nil {
		return NoLimit, false
	}
	return x.limit, true
}

// Pages gives those from one to another that were changed, ascending and as they count from the
// first; nil: more than most.
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

// size is bytes of memory.
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

// cut removes pages from one on.
func (c *chunk) cut(from uint16) {
	if c.bits == nil {
		i, _ := slices.BinarySearch(c.list, from)
		c.list = c.list[:i]
		return
	}
	c.bits[from/64] &= 1<<(from%64) - 1
	clear(c.bits[from/64+1:])
}

// pages appends those of a chunk, which begins at a page, from one to another, as they count from
// the first.
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
