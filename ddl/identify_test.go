package ddl

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemarkdb/tidemark/change"
)

// A history is a table whose definition changes.
type history struct {
	rnd     *rand.Rand
	begun   int32 // existing columns at the start
	columns []change.CatalogueColumn
}

func (h *history) step() {
	at := func(yes func(change.CatalogueColumn) bool) *change.CatalogueColumn {
		var is []int
		for i, c := range h.columns {
			if !c.Gone && yes(c) {
				is = append(is, i)
			}
		}
		if len(is) == 0 {
			return &change.CatalogueColumn{}
		}
		return &h.columns[is[h.rnd.IntN(len(is))]]
	}
	switch h.rnd.IntN(6) {
	case 0, 1:
		h.columns = append(h.columns, change.CatalogueColumn{Number: int32(len(h.columns) + 1), Name: h.name(), Type: 20 + uint32(h.rnd.IntN(2)), Generated: h.rnd.IntN(4) == 0})
	case 2:
		c := at(func(c change.CatalogueColumn) bool { return c.Number > 1 })
		*c = change.CatalogueColumn{Number: c.Number, Gone: true}
	case 3:
		at(func(c change.CatalogueColumn) bool { return true }).Name = h.name()
	case 4:
		at(func(c change.CatalogueColumn) bool { return c.Generated && c.Number <= h.begun }).Generated = false
	case 5:
		at(func(c change.CatalogueColumn) bool { return !c.Generated }).Type = 20 + uint32(h.rnd.IntN(2))
	}
}

// name draws one of few names that is not another column's.
func (h *history) name() string {
	for {
		name := string(rune('a' + h.rnd.IntN(6)))
		if !slices.ContainsFunc(h.columns, func(c change.CatalogueColumn) bool { return !c.Gone && c.Name == name }) || h.rnd.IntN(20) == 0 {
			return name + fmt.Sprint(h.rnd.IntN(2))
		}
	}
}

// Whatever happened to a table before and after a relation, its columns are identified correctly or
// not at all.
func TestIdentify(t *testing.T) {
	sure := 0
	for seed := range uint64(50_000) {
		h := &history{rnd: rand.New(rand.NewPCG(seed, 1))}
		h.columns = []change.CatalogueColumn{{Number: 1, Name: "id", Type: 20}}
		for range h.rnd.IntN(6) {
			h.step()
		}
		before := slices.Clone(h.columns)
		h.begun = int32(len(before))
		for range h.rnd.IntN(4) {
			h.step()
		}
		var r change.Relation
		var truth []int32
		for _, c := range told(h.columns) {
			r.Columns = append(r.Columns, change.RelationColumn{Name: c.Name, Type: c.Type})
			truth = append(truth, c.Number)
		}
		behind := h.rnd.IntN(4)
		for range behind {
			h.step()
		}
		r.Catalogue = &change.CatalogueLook{Columns: h.columns}
		got, doubt := Identify(r, before)
		switch {
		case doubt == "" && !slices.Equal(got, truth):
			t.Fatalf("seed %d: %v, not %v\nbefore %+v\nthere %+v\nnow %+v", seed, got, truth, before, r.Columns, h.columns)
		case doubt == "":
			sure++
		}
	}
	if sure < 25_000 {
		t.Errorf("only %d of 50000 were sure", sure)
	}
}

// Without numbers and without a catalogue read only names are known; numbers that come with the
// relation are trusted.
func TestIdentifyAsTold(t *testing.T) {
	r := change.Relation{Columns: []change.RelationColumn{{Name: "id"}, {Name: "x"}}}
	if numbers, doubt := Identify(r, nil); numbers != nil || doubt != "" {
		t.Errorf("%v %q", numbers, doubt)
	}
	r.Columns[0].Number, r.Columns[1].Number = 4, 7
	if numbers, _ := Identify(r, nil); !slices.Equal(numbers, []int32{4, 7}) {
		t.Errorf("%v", numbers)
	}
}
