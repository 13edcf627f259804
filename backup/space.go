package backup

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
)

// Space is the free space found within what was read of large relations. Small ones always have
// some, which cannot be reclaimed.
type Space struct {
	Free int64           `json:"free"` // bytes
	Of   int64           `json:"of"`
	Most []RelationSpace `json:"most,omitempty"` // those with the most, if it is more than a quarter of them
}

// A RelationSpace is the free space of a table or an index.
type RelationSpace struct {
	Name string `json:"name"`
	Free int64  `json:"free"`
	Of   int64  `json:"of"`
}

const (
	// spaceFile is the minimum size of a file that counts.
	spaceFile = 1 << 20
	// spaceRelations limits how many relations are counted separately: the largest files are read
	// first.
	spaceRelations = 10_000
	spaceNamed     = 3
)

// spaces collects it.
type spaces struct {
	src FreeSpaceReader // nil: nothing is known

	mu    sync.Mutex
	total RelationSpace
	by    map[string]*RelationSpace
}

// countFree counts the free bytes of a part of a file.
func (s *spaces) countFree(f *file, at int64, content []byte) {
	if s.src == nil || f.Size < spaceFile {
		return
	}
	relation, free, of := s.src.Free(&f.DataFile, at, content)
	if of == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total.Free, s.total.Of = s.total.Free+free, s.total.Of+of
	r := s.by[relation]
	if r == nil {
		if len(s.by) >= spaceRelations {
			return
		}
		if s.by == nil {
			s.by = map[string]*RelationSpace{}
		}
		r = &RelationSpace{Name: relation}
		s.by[relation] = r
	}
	r.Free, r.Of = r.Free+free, r.Of+of
}

// found returns the result.
func (s *spaces) found(ctx context.Context) *Space {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total.Of == 0 {
		return nil
	}
	out := &Space{Free: s.total.Free, Of: s.total.Of}
	for _, r := range s.by {
		if r.Free*4 >= r.Of {
			out.Most = append(out.Most, *r)
		}
	}
	slices.SortFunc(out.Most, func(a, b RelationSpace) int {
		if c := cmp.Compare(b.Free, a.Free); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	out.Most = out.Most[:min(len(out.Most), spaceNamed)]
	for i := range out.Most {
		if name := s.src.NameRelation(ctx, out.Most[i].Name); name != "" {
			out.Most[i].Name = name
		}
	}
	return out
}
