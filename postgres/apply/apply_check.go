package apply

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A check is how a column is compared with its value on the source before a change. Both sides have
// the column's own type, scale and length included, so the target's rounding and truncation are no
// difference.
//
//   - 'v', by value: numbers (1.0 is 1, and NaN is NaN), times, enums, bytes, jsonb;
//   - 'j': json by its text, or else as jsonb;
//   - 's', everything else: by its text, byte by byte, even if a collation or type calls two texts
//     equal; so types without an equality operator, such as xml or point, are compared too.
//
// 0: not compared (geometries of MySQL, which have several forms here).
type check struct {
	as  byte
	typ string // the column's, in SQL syntax
}

// same returns the condition that two SQL expressions are the same.
func (k check) same(a, b string) string {
	text := a + "::text COLLATE \"C\" IS NOT DISTINCT FROM " + b + "::text COLLATE \"C\""
	switch k.as {
	case 'v':
		return a + " IS NOT DISTINCT FROM " + b
	case 'j':
		return "CASE WHEN " + text + " THEN true ELSE " + a + "::jsonb IS NOT DISTINCT FROM " + b + "::jsonb END"
	}
	return text
}

// checksOf returns the checks of a change; nil: a row with its key is enough.
func (d *destination) checksOf(c change.Change) []check {
	if !d.bound.Conflict.Rule.Checks(c.Kind) || c.Old == nil || c.OldKey || d.Key == nil {
		return nil
	}
	return d.checks
}

// setTo returns what an update sets column i to: place, the new value; or the column's current
// value, if only changed columns are checked and the change leaves this one as it was.
func setTo(b *change.Bound, checks []check, i int, column, place string, is, was func(int) string) string {
	if checks == nil || checks[i].as == 0 || b.Conflict.Rule != tidemark.CheckChanged {
		return place
	}
	return "CASE WHEN " + checks[i].same(was(i), is(i)) + " THEN " + column + " ELSE " + place + " END"
}

// stillSo returns the conditions that a row still has its old values: in all columns, or in those
// that the change modifies.
func stillSo(b *change.Bound, c change.Change, checks []check, vals []change.Value, table string, is, was func(int) string) (out []string) {
	key := keyColumns(b, true)
	for i, k := range checks {
		if k.as == 0 || slices.Contains(key, i) {
			continue
		}
		cond := k.same(table+server.QuoteIdent(b.Table.Columns[b.Columns[i]].Name), was(i))
		if c.Kind == tidemark.UpdateChange && b.Conflict.Rule == tidemark.CheckChanged {
			if vals[i].Kind == change.UnchangedValue {
				continue
			}
			cond = k.same(was(i), is(i)) + " OR " + cond
		}
		out = append(out, "("+cond+")")
	}
	return out
}

// asTyped returns the new and the old values of a change's row, as parameters cast to the columns'
// types.
func asTyped(checks []check, param func(column int, old bool) string) (is, was func(int) string) {
	of := func(old bool) func(int) string {
		return func(i int) string { return "CAST(" + param(i, old) + " AS " + checks[i].typ + ")" }
	}
	return of(false), of(true)
}

// inRows returns the values of a row of an array (v), and, if there are two arrays, its old values:
// columns then have numbers instead of names.
func (d *destination) inRows(two bool) (is, was func(int) string) {
	if !two {
		is = func(i int) string { return "v." + server.QuoteIdent(d.bound.Table.Columns[d.bound.Columns[i]].Name) }
		return is, is
	}
	of := func(letter string) func(int) string {
		return func(i int) string { return fmt.Sprintf("v.%s%d", letter, slices.Index(d.fill, i)) }
	}
	return of("n"), of("o")
}

// twoRows returns the rows of two arrays: new values, and old values.
func (d *destination) twoRows() string {
	var names []string
	for _, letter := range []string{"n", "o"} {
		for i := range d.fill {
			names = append(names, fmt.Sprintf("%s%d", letter, i))
		}
	}
	return "unnest($1::text[]::" + d.name + "[], $2::text[]::" + d.name + "[]) AS v(" + strings.Join(names, ", ") + ")"
}
