package repo

import (
	"cmp"
	"slices"

	"github.com/zeebo/xxh3"
)

// names maps texts to numbers, by the texts' hashes: 24 bytes of memory each, however long they
// are.
type names struct {
	all    []named
	sorted bool
}

type named struct {
	sum xxh3.Uint128
	n   int64
}

func (a named) compare(b named) int {
	return cmp.Or(cmp.Compare(a.sum.Hi, b.sum.Hi), cmp.Compare(a.sum.Lo, b.sum.Lo))
}

func (s *names) add(name string, n int64) {
	s.all = append(s.all, named{xxh3.HashString128(name), n})
	s.sorted = false
}

// find returns a name's number, to read and change; nil: the name was not added.
func (s *names) find(name string) *int64 {
	if !s.sorted {
		slices.SortFunc(s.all, named.compare)
		s.sorted = true
	}
	if i, ok := slices.BinarySearchFunc(s.all, named{sum: xxh3.HashString128(name)}, named.compare); ok {
		return &s.all[i].n
	}
	return nil
}
