package mapping

import (
	"math/big"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// move combines a shape and the settings of its table.
func (a *applier) move(s *shape) tidemark.Move {
	m := tidemark.Move{From: s.from, To: s.to, Source: s.source, Lob: a.d.Lob}
	m.Direct = !a.d.Translated && !s.altered && (s.to.Schema == s.from.Schema || a.d.DirectAcrossSchemas)
	if !m.Direct {
		m = m.Logical()
	}
	if s.from.Form == tidemark.LargeObjects {
		m.Lob = tidemark.Lob{} // its rows are pages of values; truncating them would corrupt them
		return m
	}
	var filtering []rule
	var split, lob bool
	for _, i := range a.rules.settingsOf.of(s.from.TableID) {
		set := &a.rules.settings[i]
		if !set.matches(s.from) {
			continue
		}
		a.set[i] = true
		if len(set.filters) > 0 {
			filtering = append(filtering, set.rule)
			m.Filter = append(m.Filter, a.filters(s, set)...)
		}
		if m.Order == 0 {
			m.Order = set.order
		}
		m.Conflict = m.Conflict.Over(set.conflict)
		if set.split != nil && !split {
			split = true
			m.Split = a.split(s, set)
		}
		if set.lob != nil && !lob {
			lob, m.Lob = true, *set.lob
		}
	}
	if len(filtering) > 1 {
		a.p.warn(tableOf(s.from.TableID), "Put all conditions into one rule to make the intent clear.",
			"%s filter its rows; a row must pass all of them", names(filtering...))
	}
	return m
}

// filters returns a rule's filters for a table, which must have their columns.
func (a *applier) filters(s *shape, set *setting) []tidemark.Filter {
	out := make([]tidemark.Filter, 0, len(set.filters))
	for _, f := range set.filters {
		if f.SQL == "" && s.from.Column(f.Column) == nil {
			a.p.fail(tidemark.Invalid, set.name, "Names are case-sensitive.", "%s has no column %q to filter by%s",
				s.from.ID(), f.Column, didYouMean(f.Column, columnNames(s.from.Columns)))
		}
		f.Conditions = slices.Clone(f.Conditions)
		out = append(out, f)
	}
	return out
}

// split adapts the user's request to a table.
func (a *applier) split(s *shape, set *setting) tidemark.Split {
	w := set.split
	out := w.Split
	out.Parts, out.Columns = slices.Clone(w.Parts), slices.Clone(w.Columns)
	out.Bounds = slices.Clone(w.Bounds)
	switch out.Kind {
	case tidemark.SplitPartitions, tidemark.SplitSubparts:
		if len(s.from.Partitions) == 0 && !w.list {
			a.p.warn(tableOf(s.from.TableID), "", "%s splits it by partitions, but it has none; it is split automatically", set.name)
			return tidemark.Split{}
		}
		a.partsExist(s, set)
	case tidemark.SplitBounds:
		a.boundsFit(s, set)
	}
	return out
}

// partsExist checks a list of partitions against those of the table.
func (a *applier) partsExist(s *shape, set *setting) {
	var known, full []string
	for _, p := range s.from.Partitions {
		switch {
		case p.Name == "":
			known, full = append(known, p.Table.Name), append(full, p.Table.String())
		case p.Parent != "" && set.split.Kind == tidemark.SplitPartitions:
			if !slices.Contains(known, p.Parent) {
				known = append(known, p.Parent)
			}
		default:
			known = append(known, p.Name)
		}
	}
	for _, t := range a.db.Tables { // PostgreSQL: one between the table and its leaves represents those below it
		if t.Form == tidemark.Partition && t.PartitionOf == s.from.TableID {
			full = append(full, t.Name, t.String())
		}
	}
	for _, name := range set.split.Parts {
		if !slices.Contains(known, name) && !slices.Contains(full, name) {
			a.p.fail(tidemark.Invalid, set.name, "", "%s has no partition %q%s", s.from.ID(), name, listed(known))
		}
	}
	if set.split.list {
		a.p.find(tidemark.Note, tableOf(s.from.TableID), "", "only the rows of its partitions %s are copied, as %s says", strings.Join(set.split.Parts, ", "), set.name)
	}
}

// maxListed is how many names a message lists.
const maxListed = 8

// listed formats a list of names.
func listed(names []string) string {
	if len(names) == 0 {
		return "; it has none"
	}
	return "; it has " + tidemark.Some(names, maxListed)
}

// boundsFit checks boundaries against the table: its columns exist, and the boundaries ascend, as
// far as that can be decided without the database's collation.
func (a *applier) boundsFit(s *shape, set *setting) {
	w := set.split
	columns := make([]*tidemark.Column, len(w.Columns))
	for i, name := range w.Columns {
		if columns[i] = s.from.Column(name); columns[i] == nil {
			a.p.fail(tidemark.Invalid, set.name, "Names are case-sensitive.", "%s has no column %q to split it by%s",
				s.from.ID(), name, didYouMean(name, columnNames(s.from.Columns)))
			return
		}
	}
	for i, b := range w.Bounds {
		for j, v := range b {
			if _, number := comparable(columns[j].Type.Kind); number && rat(v) == nil {
				a.p.fail(tidemark.Invalid, set.name, "", "boundary %d of %s has %q for %q, which needs a number", i+1, s.from.ID(), v, w.Columns[j])
				return
			}
		}
		if i == 0 {
			continue
		}
		if order, sure := compareBounds(w.Bounds[i-1], b, columns); sure && order >= 0 {
			a.p.fail(tidemark.Invalid, set.name, "Put the boundaries in ascending order.", "boundary %d of %s (%s) is not greater than boundary %d (%s)",
				i+1, s.from.ID(), strings.Join(b, ", "), i, strings.Join(w.Bounds[i-1], ", "))
			return
		}
	}
}

// comparable reports whether values of a kind can be ordered without a collation: as numbers, or as
// texts if they have the same form.
func comparable(k tidemark.TypeKind) (yes, number bool) {
	switch k {
	case tidemark.Int, tidemark.Decimal, tidemark.Year:
		return true, true
	case tidemark.Date, tidemark.DateTime, tidemark.Timestamp:
		return true, false
	}
	return false, false
}

// maxNumber bounds the length of a number that is compared, so that 1e999999999 does not become a
// billion digits.
const maxNumber = 200

func rat(s string) *big.Rat {
	if len(s) > maxNumber || strings.ContainsAny(s, "eE/xXpP_") {
		return nil
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return r
}

// compareBounds compares two boundaries column by column; sure is false if the answer depends on an
// order that only the database knows.
func compareBounds(x, y []string, columns []*tidemark.Column) (order int, sure bool) {
	for i := range columns {
		if x[i] == y[i] {
			continue
		}
		yes, number := comparable(columns[i].Type.Kind)
		switch {
		case number:
			if order = rat(x[i]).Cmp(rat(y[i])); order != 0 {
				return order, true
			}
		case yes && sameForm(x[i], y[i]):
			return strings.Compare(x[i], y[i]), true
		default:
			return 0, false
		}
	}
	return 0, true
}

// sameForm reports whether two ISO dates or times have their digits at the same positions.
func sameForm(x, y string) bool {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	n := min(len(x), len(y))
	if n < len("2006-01-02") {
		return false
	}
	for i := range n {
		if digit(x[i]) != digit(y[i]) || !digit(x[i]) && x[i] != y[i] {
			return false
		}
	}
	return digit(x[0]) && strings.IndexByte(x, '-') == len("2006")
}
