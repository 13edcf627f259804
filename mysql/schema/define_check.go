package schema

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/sqltext"
)

// dropSameChecks removes the checks that two tables of different engines have in common. MariaDB
// keeps one in its column and without a name, MySQL makes it one of the table and names it.
// One of a column that the source lacks is none of these: what drops the column may drop it too
// (MariaDB), or be refused.
func dropSameChecks(want, have *createTable) {
	checksApart(want)
	checksApart(have)
	var lost []string // columns that the source lacks
	of := columnItems(want)
	for _, c := range columnItems(have) {
		if findItem(of, c.name) < 0 {
			lost = append(lost, c.name)
		}
	}
	gone := func(it *tableItem) bool { return slices.ContainsFunc(lost, it.mentions) }
	drop := func(c *createTable, i int) { c.items = slices.Delete(slices.Clone(c.items), i, i+1) }
	pair := func(same func(w, h *tableItem) bool) {
		for i := 0; i < len(want.items); i++ {
			w := &want.items[i]
			if w.kind != sqltext.Check {
				continue
			}
			j := slices.IndexFunc(have.items, func(h tableItem) bool { return h.kind == sqltext.Check && same(w, &h) })
			if j >= 0 {
				drop(want, i)
				drop(have, j)
				i--
			}
		}
	}
	pair(func(w, h *tableItem) bool { return w.name == h.name && w.condition() == h.condition() })
	pair(func(w, h *tableItem) bool { return w.condition() == h.condition() })
	pair(func(w, h *tableItem) bool { return w.name != "" && w.name == h.name && !gone(h) }) // servers write expressions in their own ways
	pair(func(w, h *tableItem) bool { return (w.name == "") != (h.name == "") && !gone(h) })
	have.items = slices.DeleteFunc(have.items, func(it tableItem) bool { return it.kind == sqltext.Check && it.name == "" && gone(&it) }) // it goes with its column
}

// mentions reports whether a check names a column.
func (it *tableItem) mentions(column string) bool {
	return slices.ContainsFunc(it.tokens, func(t sqltext.Token) bool { return t.Kind == sqltext.Name && strings.EqualFold(t.Name(), column) })
}

// condition returns a check without its name, as plainly does.
func (it *tableItem) condition() string {
	return plainly(sqltext.Join(it.tokens[max(sqltext.Find(it.tokens, "check"), 0):]))
}

// checksApart makes the checks of columns checks of the table. That of a JSON column, which on
// MariaDB is part of the type, stays.
func checksApart(c *createTable) {
	items := slices.Clone(c.items)
	for i := range items {
		it := &items[i]
		at := sqltext.Find(it.tokens, "check")
		if it.kind != sqltext.Column || at < 0 || slices.ContainsFunc(it.tokens[at:], func(t sqltext.Token) bool { return t.Is("json_valid") }) {
			continue
		}
		open := sqltext.Skip(it.tokens, at+1)
		end := min(sqltext.Closing(it.tokens, open)+1, len(it.tokens))
		check := newTableItem(slices.Clone(it.tokens[at:end]))
		it.tokens = sqltext.Trim(slices.Concat(sqltext.Trim(it.tokens[:at]), it.tokens[end:]))
		items = append(items, check)
	}
	c.items = items
}
