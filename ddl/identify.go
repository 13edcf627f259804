package ddl

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/tidemarkdb/tidemark/change"
)

// mostUnsure is how many columns with unknown presence Identify accepts before it gives up.
const mostUnsure = 12

// Identify returns the numbers of a relation's columns, in order. A log without numbers has columns
// in the order of their numbers; the catalogue entry that comes with the relation is at or after
// it, and before is an earlier one (nil: there is none). If more than one set of columns is
// possible, regardless of names, doubt explains why. Neither numbers nor doubt: only names are
// known.
func Identify(r change.Relation, before []change.CatalogueColumn) (numbers []int32, doubt string) {
	for _, c := range r.Columns {
		numbers = append(numbers, c.Number)
	}
	switch {
	case !slices.Contains(numbers, 0):
		return numbers, ""
	case r.Catalogue == nil:
		return nil, ""
	}
	live := told(r.Catalogue.Columns)
	switch {
	case len(live) == 0 && alike(r.Columns, told(before)):
		return numbersOf(told(before)), "" // dropped since, otherwise unchanged
	case len(live) == 0:
		return nil, "the table is no longer on the source, and its columns were changed before it was dropped"
	case len(before) == 0 && alike(r.Columns, live):
		return numbersOf(live), ""
	}
	return identify(r, before)
}

// told are the columns whose values are in the log.
func told(all []change.CatalogueColumn) (out []change.CatalogueColumn) {
	for _, c := range all {
		if !c.Gone && !c.Generated {
			out = append(out, c)
		}
	}
	return out
}

func numbersOf(all []change.CatalogueColumn) (out []int32) {
	for _, c := range all {
		out = append(out, c.Number)
	}
	return out
}

func alike(columns []change.RelationColumn, are []change.CatalogueColumn) bool {
	return slices.EqualFunc(columns, are, func(c change.RelationColumn, a change.CatalogueColumn) bool {
		return c.Name == a.Name && c.Type == a.Type
	})
}

// identify tries all sets of columns that the table may have had.
func identify(r change.Relation, before []change.CatalogueColumn) (numbers []int32, doubt string) {
	was, is := map[int32]change.CatalogueColumn{}, map[int32]bool{}
	generated := map[int32]bool{}
	last := int32(0)
	for _, c := range before {
		generated[c.Number] = c.Generated
		if last = max(last, c.Number); !c.Gone && !c.Generated {
			was[c.Number] = c
		}
	}
	var must, may []change.CatalogueColumn
	for _, c := range r.Catalogue.Columns {
		is[c.Number] = true
		old, had := was[c.Number]
		switch {
		case had && !c.Gone:
			must = append(must, c)
		case had:
			may = append(may, old) // dropped before or after the relation
		case !c.Generated && (c.Number > last || generated[c.Number]):
			may = append(may, c) // added, or no longer generated, before or after it
		}
	}
	for number, c := range was {
		if !is[number] {
			may = append(may, c)
		}
	}
	slices.SortFunc(may, func(a, b change.CatalogueColumn) int { return int(a.Number) - int(b.Number) })
	n := len(r.Columns) - len(must)
	if n < 0 || n > len(may) {
		return nil, "its columns match neither its earlier nor its present definition"
	}
	if len(may) > mostUnsure && n > 0 && n < len(may) {
		return nil, fmt.Sprintf("%d of its columns were added or dropped while the stream was behind", len(may))
	}
	var found []int32
	for set := range 1 << len(may) {
		if bits.OnesCount(uint(set)) != n || !inOrder(may, set, last) {
			continue
		}
		if found != nil {
			return nil, "columns were dropped and added while the stream was behind, and its log does not show which of them these rows have"
		}
		all := slices.Clone(must)
		for i, c := range may {
			if set>>i&1 == 1 {
				all = append(all, c)
			}
		}
		slices.SortFunc(all, func(a, b change.CatalogueColumn) int { return int(a.Number) - int(b.Number) })
		found = numbersOf(all)
	}
	if found == nil {
		return nil, "its columns match neither its earlier nor its present definition"
	}
	return found, ""
}

// inOrder reports whether a set can have existed at one moment: a column that was added later, and
// still exists, implies all that were added before it. (Except if one of these was generated then
// and is no longer: its name differs, which a comparison of names with numbers detects.)
func inOrder(may []change.CatalogueColumn, set int, last int32) bool {
	for i, c := range may {
		if set>>i&1 == 0 && !c.Gone && c.Number > last && set>>(i+1) != 0 {
			return false
		}
	}
	return true
}
