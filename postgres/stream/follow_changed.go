package stream

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// thinned is reusable memory for reduced updates.
type thinned struct {
	message   []byte
	news, old []change.Value
}

// OnlyChanged drops the values that an update leaves unchanged, except those of the columns in
// keep, and updates that change nothing. This works for tables with REPLICA IDENTITY FULL that have
// columns in keep. Call it before Run.
func (s *Stream) OnlyChanged(keep func(tidemark.TableID) []string) {
	s.keep, s.spare = keep, map[uint32][]int{}
}

// onlyChanged records a relation, or returns an update without its unchanged values; nil if it
// changes nothing. The result is valid until the next call.
func (s *Stream) onlyChanged(m []byte) ([]byte, error) {
	c, err := change.Parse(m)
	if err != nil {
		return nil, err
	}
	if c.Kind == tidemark.RelationChange {
		r, err := change.ParseRelation(c.Body)
		if err != nil {
			return nil, err
		}
		delete(s.spare, r.ID)
		if keep := s.keep(r.Table); r.Identity == 'f' && len(keep) > 0 {
			s.spare[r.ID] = []int{}
			for i, column := range r.Columns {
				if !slices.Contains(keep, column.Name) {
					s.spare[r.ID] = append(s.spare[r.ID], i)
				}
			}
		}
		return m, nil
	}
	spare, ok := s.spare[c.Table]
	if !ok || c.Old == nil || c.OldKey {
		return m, nil
	}
	t := &s.thin
	t.news, t.old = c.New.Values(t.news[:0]), c.Old.Values(t.old[:0])
	changed := false
	for i, v := range t.news {
		same := v.Kind == change.UnchangedValue || i < len(t.old) && v.Kind == t.old[i].Kind && bytes.Equal(v.Data, t.old[i].Data)
		changed = changed || !same
		if same && slices.Contains(spare, i) {
			t.news[i] = change.Value{Kind: change.UnchangedValue}
		}
	}
	if !changed {
		return nil, nil
	}
	t.message = append(t.message[:0], 'U')
	t.message = binary.BigEndian.AppendUint32(t.message, c.Table)
	t.message = append(append(t.message, 'O'), c.Old...)
	t.message = change.AppendTuple(append(t.message, 'N'), t.news)
	return t.message, nil
}
