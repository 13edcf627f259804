package repo

import (
	"cmp"
	"slices"

	"github.com/zeebo/xxh3"
)

// names are texts, each with a number, by their sums: 24 bytes of memory for each, however long they are.
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

// find gives what was added with a name, to be looked at and changed; nil: nothing was.
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
