package define

import (
	"slices"
	"strings"
)

// columns compares columns. A partition's columns change with the partitioned table's, except for
// their defaults.
func (a *altering) columns() {
	// Generated columns are dropped before the columns that they are computed from.
	for _, generated := range []bool{true, false} {
		for i := range a.have.columns {
			c := &a.have.columns[i]
			if (c.generated != "") != generated {
				continue
			}
			if a.want.column(c.name) == nil {
				a.note("has the column %s besides", c.name)
				a.dropColumn(c)
			} else if a.remade(c.name) {
				a.note("the column %s is %s, on the source %s", c.name, c.line, a.want.column(c.name).line)
				a.dropColumn(c)
			}
		}
	}
	for i := range a.want.columns {
		c := &a.want.columns[i]
		old := a.have.column(c.name)
		if old == nil && a.inherited(c.name) {
			continue
		}
		if old == nil {
			a.note("lacks the column %s", c.name)
			a.addColumn(c)
			continue
		}
		if a.d.Loose || a.d.Across {
			a.looseColumn(c, old)
		} else {
			a.column(c, old)
		}
	}
	if order := a.inOrder(); !order {
		a.note("its columns are in another order")
		a.out.Manual = "PostgreSQL cannot move a column: copy the table again with --prep drop if the order matters"
	}
}

// inherited reports whether a column exists already because the table inherits it from a table that
// it will no longer inherit from.
func (a *altering) inherited(name string) bool {
	in, _ := inner(a.have.inherits)
	for _, parent := range splitList(in) {
		if t := a.d.wanted[parent]; t != nil && t.column(name) != nil && !strings.Contains(a.want.inherits, parent) {
			return true
		}
	}
	return false
}

// ofParents returns the columns that a table has from the tables whose child or partition it is. In
// whatever order the source has them, a table created as a child has them first.
func (a *altering) ofParents() map[string]bool {
	in, _ := inner(a.want.inherits)
	out := map[string]bool{}
	for _, parent := range append(splitList(in), a.want.parent) {
		if t := a.d.wanted[parent]; t != nil {
			for _, n := range t.names() {
				out[n] = true
			}
		}
	}
	return out
}

// inOrder reports whether the columns are in the source's order after missing ones are appended.
func (a *altering) inOrder() bool {
	ofParents := a.ofParents()
	own := slices.DeleteFunc(a.want.names(), func(n string) bool { return ofParents[n] })
	var after []string
	for _, n := range own {
		if a.have.column(n) == nil && a.inherited(n) {
			after = append(after, n)
		}
	}
	for _, n := range a.have.names() {
		if a.want.column(n) != nil && !a.remade(n) && !ofParents[n] {
			after = append(after, n)
		}
	}
	for _, n := range own {
		if a.have.column(n) == nil && !a.inherited(n) || a.remade(n) {
			after = append(after, n)
		}
	}
	return slices.Equal(after, own)
}

// remade reports whether a column is dropped and added again, and so becomes the last.
func (a *altering) remade(name string) bool {
	w, h := a.want.column(name), a.have.column(name)
	if w == nil || h == nil || a.d.Loose || a.d.Across {
		return false
	}
	return w.generated != h.generated && !(w.generated == "" && h.generated != "") && !(h.generated != "" && a.d.Major >= 17 && storedSuffix(w.generated) == storedSuffix(h.generated))
}

// storedSuffix returns STORED or VIRTUAL.
func storedSuffix(generated string) string {
	return generated[strings.LastIndexByte(generated, ')')+1:]
}

func (a *altering) dropColumn(c *columnText) {
	a.out.Shakes = append(a.out.Shakes, c.name)
	if a.under == nil {
		a.do("ALTER TABLE " + a.want.name + " DROP COLUMN IF EXISTS " + c.name)
	}
}

func (a *altering) addColumn(c *columnText) {
	if a.under == nil {
		a.do("ALTER TABLE " + a.want.name + " ADD COLUMN " + c.line)
	}
}

func (a *altering) column(c, old *columnText) {
	if a.remade(c.name) {
		a.addColumn(c)
		return
	}
	only := "ALTER TABLE ONLY " + a.want.name + " ALTER COLUMN " + c.name + " "
	all := "ALTER TABLE " + a.want.name + " ALTER COLUMN " + c.name + " "
	newType := c.typ != old.typ || c.collate != old.collate
	if newType {
		a.note("the column %s is %s, on the source %s", c.name, strings.TrimSpace(old.typ+" "+old.collate), strings.TrimSpace(c.typ+" "+c.collate))
		a.out.Shakes = append(a.out.Shakes, c.name)
		if old.def != "" {
			a.do(only + "DROP DEFAULT")
		}
		if a.under == nil {
			collate := ""
			if c.collate != "" {
				collate = " " + c.collate
			}
			a.do(all + "TYPE " + c.typ + collate + " USING " + cast(c, old))
		}
	}
	a.generation(c, old, all)
	if c.def != old.def || newType && c.def != "" {
		if c.def != old.def {
			a.note("the default of %s is %q, on the source %q", c.name, strings.TrimPrefix(old.def, "DEFAULT "), strings.TrimPrefix(c.def, "DEFAULT "))
		}
		if c.def == "" {
			a.do(only + "DROP DEFAULT")
		} else {
			a.do(only + "SET " + c.def)
		}
	}
	if c.notNull != old.notNull && (c.notNull == "") {
		a.note("the column %s is %s, on the source it can be NULL", c.name, old.notNull)
		if old.identity != "" {
			a.do(all + "DROP IDENTITY")
		}
		a.do(all + "DROP NOT NULL")
	} else if c.notNull != old.notNull {
		a.note("the column %s is not %s", c.name, c.notNull)
		a.notNull(c, old, all)
	}
	a.identity(c, old, only)
	if c.options != old.options {
		a.note("the options of %s are %q, on the source %q", c.name, old.options, c.options)
		a.out.Manual = "set them with ALTER FOREIGN TABLE"
	}
}

func (a *altering) notNull(c, old *columnText, all string) {
	if old.notNull != "" {
		a.do(all + "DROP NOT NULL")
	}
	if k, ok := strings.CutPrefix(c.notNull, "CONSTRAINT "); ok {
		name, rest := cutIdent(k)
		a.do("ALTER TABLE " + a.want.name + " ADD CONSTRAINT " + name + " NOT NULL " + c.name + strings.TrimPrefix(rest, "NOT NULL"))
		return
	}
	a.do(all + "SET NOT NULL")
}

// generation changes how a column is computed, if the column need not be added again.
func (a *altering) generation(c, old *columnText, all string) {
	if c.generated == old.generated {
		return
	}
	a.note("the column %s is %q, on the source %q", c.name, old.generated, c.generated)
	if c.generated == "" {
		a.do(all + "DROP EXPRESSION")
		return
	}
	_, expr, _ := strings.Cut(c.generated, " AS ")
	in, _ := inner(expr)
	a.do(all + "SET EXPRESSION AS (" + in + ")")
}

// identity changes the sequence of an identity column.
func (a *altering) identity(c, old *columnText, only string) {
	if c.identity == old.identity {
		return
	}
	a.note("the identity of %s is %q, on the source %q", c.name, old.identity, c.identity)
	how, list, _ := strings.Cut(c.identity, " AS IDENTITY")
	options, _ := inner(strings.TrimSpace(list))
	seq, options := cutIdent(strings.TrimPrefix(options, "SEQUENCE NAME "))
	_, was, _ := strings.Cut(old.identity, "SEQUENCE NAME ")
	oldSeq, _ := cutIdent(was)
	switch {
	case c.identity == "":
		if old.notNull == "" || c.notNull != "" {
			a.do(only + "DROP IDENTITY")
		}
	case old.identity == "":
		a.do(only + "ADD " + c.identity)
	case seq != "" && seq == oldSeq:
		if !strings.HasSuffix(options, " CYCLE") {
			options += " NO CYCLE"
		}
		a.do(only+"SET "+how, "ALTER SEQUENCE "+seq+" "+options)
	default:
		a.do(only+"DROP IDENTITY", only+"ADD "+c.identity)
	}
}

// cast turns a column's values into its new type. Types that were created, such as two enums, have
// no cast between them, but texts.
func cast(c, old *columnText) string {
	if strings.Contains(c.typ, ".") && strings.Contains(old.typ, ".") {
		return c.name + "::text::" + c.typ
	}
	return c.name + "::" + c.typ
}

// looseColumn compares a column described by another engine or another version.
func (a *altering) looseColumn(c, old *columnText) {
	newType, plain := c.typ != old.typ, c.generated == "" && old.generated == ""
	if newType {
		a.note("the column %s is %s, and would be %s", c.name, old.typ, c.typ)
		if plain && old.def != "" { // it may be none of the new type
			a.do("ALTER TABLE ONLY " + a.want.name + " ALTER COLUMN " + c.name + " DROP DEFAULT")
		}
		a.do("ALTER TABLE " + a.want.name + " ALTER COLUMN " + c.name + " TYPE " + c.typ + " USING " + cast(c, old))
		a.out.Shakes = append(a.out.Shakes, c.name)
	}
	differs := !sameDefault(c.def, old.def, c.typ) && !c.defaultLeft // then it was set by hand
	if plain && differs {
		a.note("the default of %s is %q, and would be %q", c.name, old.def, c.def)
	}
	if plain && (differs || newType && c.def != "") {
		if c.def == "" {
			a.do("ALTER TABLE ONLY " + a.want.name + " ALTER COLUMN " + c.name + " DROP DEFAULT")
		} else {
			a.do("ALTER TABLE ONLY " + a.want.name + " ALTER COLUMN " + c.name + " SET " + c.def)
		}
	}
	if (c.generated == "") != (old.generated == "") {
		a.note("the column %s is %q, and would be %q", c.name, old.generated, c.generated)
		a.out.Manual = "drop the column and add it again, or copy the table again with --prep drop"
	}
	if nn := c.notNull != ""; nn != (old.notNull != "") && c.identity == "" {
		a.note("the column %s is %q, and would be %q", c.name, old.notNull, c.notNull)
		verb := "DROP"
		if nn {
			verb = "SET"
		}
		a.do("ALTER TABLE " + a.want.name + " ALTER COLUMN " + c.name + " " + verb + " NOT NULL")
	}
	if (c.identity == "") != (old.identity == "") {
		a.note("the identity of %s is %q, and would be %q", c.name, old.identity, c.identity)
		if c.identity == "" {
			a.do("ALTER TABLE ONLY " + a.want.name + " ALTER COLUMN " + c.name + " DROP IDENTITY")
		} else {
			a.do("ALTER TABLE ONLY " + a.want.name + " ALTER COLUMN " + c.name + " ADD " + c.identity)
		}
	}
}

// sameDefault reports whether two defaults of a column of a type give the same.
func sameDefault(a, b, typ string) bool {
	plain := func(s string) string {
		s = loosely(s)
		name, digits, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(s, "default ")), " ")
		moment := slices.Contains([]string{"now", "transaction_timestamp", "current_timestamp", "localtimestamp"}, name)
		if moment && strings.HasPrefix(typ, "timestamp") && (digits == "" || strings.Contains(typ, "("+digits+")")) {
			return "now"
		}
		return s
	}
	return plain(a) == plain(b)
}
