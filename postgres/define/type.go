package define

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// alterType changes an enum by its labels and a composite type by its attributes; other types are
// recreated, if nothing holds values of them.
func alterType(want *tidemark.Object, w, h, what []string) tidemark.Redefinition {
	if a, b := withoutMultirange(w[0]), withoutMultirange(h[0]); a == b && (a == w[0]) != (b == h[0]) {
		return tidemark.Redefinition{} // a server before 14 has no multiranges
	}
	name := strings.TrimPrefix(want.ID, "type ")
	list := func(sql []string, prefix string) ([]string, bool) {
		if len(sql) != 1 {
			return nil, false
		}
		_, rest, ok := strings.Cut(sql[0], prefix)
		if !ok {
			return nil, false
		}
		in, _ := inner(rest)
		return splitList(in), true
	}
	if a, ok := list(w, " AS ENUM "); ok {
		if b, ok := list(h, " AS ENUM "); ok {
			return alterEnum(name, a, b)
		}
	}
	if strings.Contains(w[0], " AS (") && strings.Contains(h[0], " AS (") {
		a, _ := list(w, " AS ")
		b, _ := list(h, " AS ")
		return alterComposite(name, a, b)
	}
	return tidemark.Redefinition{What: what, Rebuild: true}
}

// alterEnum adds labels at their position, and renames labels that have another name there. A label
// cannot be removed.
func alterEnum(name string, want, have []string) tidemark.Redefinition {
	out := tidemark.Redefinition{}
	have = slices.Clone(have)
	if len(want) == len(have) {
		for i := range want {
			if want[i] != have[i] && !slices.Contains(have, want[i]) && !slices.Contains(want, have[i]) {
				out.What = append(out.What, "label "+have[i]+" is "+want[i]+" on the source")
				out.SQL = append(out.SQL, "ALTER TYPE "+name+" RENAME VALUE "+have[i]+" TO "+want[i])
				have[i] = want[i]
			}
		}
	}
	for i, label := range want {
		if slices.Contains(have, label) {
			continue
		}
		out.What = append(out.What, "lacks the label "+label)
		place := ""
		if i > 0 {
			place = " AFTER " + want[i-1]
		} else if len(have) > 0 {
			place = " BEFORE " + have[0]
		}
		out.SQL = append(out.SQL, "ALTER TYPE "+name+" ADD VALUE "+label+place)
		at := 0
		if i > 0 {
			at = slices.Index(have, want[i-1]) + 1
		}
		have = slices.Insert(have, at, label)
	}
	for _, label := range have {
		if !slices.Contains(want, label) {
			out.What = append(out.What, "has the label "+label+" besides")
			out.Manual = "PostgreSQL cannot remove a label: leave it, or make a new type and convert the columns"
		}
	}
	if out.What == nil && !slices.Equal(want, have) {
		out.What, out.Manual = []string{"its labels are in another order"}, "PostgreSQL cannot move a label: make a new type and convert the columns"
	}
	return out
}

func alterComposite(name string, want, have []string) tidemark.Redefinition {
	out := tidemark.Redefinition{}
	there := map[string]string{}
	for _, a := range have {
		n, typ := cutIdent(a)
		there[n] = typ
	}
	var names []string
	for _, a := range want {
		n, typ := cutIdent(a)
		names = append(names, n)
		switch old, ok := there[n]; {
		case !ok:
			out.What, out.SQL = append(out.What, "lacks the attribute "+n), append(out.SQL, "ALTER TYPE "+name+" ADD ATTRIBUTE "+a+" CASCADE")
		case old != typ:
			out.What, out.SQL = append(out.What, "attribute "+n+" is "+old+", "+typ+" on the source"), append(out.SQL, "ALTER TYPE "+name+" ALTER ATTRIBUTE "+n+" TYPE "+typ+" CASCADE")
		}
	}
	for _, a := range have {
		if n, _ := cutIdent(a); !slices.Contains(names, n) {
			out.What, out.SQL = append(out.What, "has the attribute "+n+" besides"), append(out.SQL, "ALTER TYPE "+name+" DROP ATTRIBUTE "+n+" CASCADE")
		}
	}
	if out.What == nil {
		out.What, out.Manual = []string{"its attributes are in another order"}, "make a new type and convert the columns"
	}
	return out
}

// A domainText is a CREATE DOMAIN, parsed with the ALTER DOMAIN ... ADD after it.
type domainText struct {
	base, def, notNull string
	checks             map[string]string // definition by name
}

func parseDomain(sql []string) domainText {
	t := domainText{checks: map[string]string{}}
	for i, s := range sql {
		if i > 0 {
			if _, add, ok := strings.Cut(s, " ADD CONSTRAINT "); ok {
				name, rest := cutIdent(add)
				t.checks[name] = rest
			}
			continue
		}
		_, s, _ = strings.Cut(s, " AS ")
		pending := ""
		for j, c := range clauses(s, "DEFAULT", "CONSTRAINT", "NOT", "CHECK") {
			switch {
			case j == 0:
				t.base = c
			case strings.HasPrefix(c, "DEFAULT "):
				t.def = c
			case strings.HasPrefix(c, "CONSTRAINT "):
				pending, _ = cutIdent(c[len("CONSTRAINT "):])
			case strings.HasPrefix(c, "NOT NULL"):
				t.notNull = c
				if pending != "" {
					t.notNull, pending = "CONSTRAINT "+pending+" "+c, ""
				}
			case strings.HasPrefix(c, "NOT VALID"), strings.HasPrefix(c, "NOT ENFORCED"):
			case strings.HasPrefix(c, "CHECK"):
				t.checks[pending], pending = c, ""
			}
		}
	}
	return t
}

func alterDomain(want *tidemark.Object, w, h, what []string) tidemark.Redefinition {
	a, b := parseDomain(w), parseDomain(h)
	if a.base != b.base {
		return tidemark.Redefinition{What: what, Rebuild: true}
	}
	alter := "ALTER DOMAIN " + strings.TrimPrefix(want.ID, "domain ") + " "
	out := tidemark.Redefinition{}
	if a.def != b.def {
		out.What = append(out.What, "its default")
		if a.def == "" {
			out.SQL = append(out.SQL, alter+"DROP DEFAULT")
		} else {
			out.SQL = append(out.SQL, alter+"SET "+a.def)
		}
	}
	if a.notNull != b.notNull {
		out.What = append(out.What, "whether it can be NULL")
		if b.notNull != "" {
			out.SQL = append(out.SQL, alter+"DROP NOT NULL")
		}
		if a.notNull != "" {
			add := "SET NOT NULL"
			if strings.HasPrefix(a.notNull, "CONSTRAINT ") {
				add = "ADD " + a.notNull
			}
			out.SQL = append(out.SQL, alter+add)
		}
	}
	for _, k := range sortedKeys(b.checks) {
		if a.checks[k] != b.checks[k] {
			out.What, out.SQL = append(out.What, "the constraint "+k), append(out.SQL, alter+"DROP CONSTRAINT "+k)
		}
	}
	for _, k := range sortedKeys(a.checks) {
		if a.checks[k] != b.checks[k] {
			if b.checks[k] == "" {
				out.What = append(out.What, "the constraint "+k)
			}
			out.SQL = append(out.SQL, alter+"ADD CONSTRAINT "+k+" "+a.checks[k])
		}
	}
	if out.What == nil {
		out.What, out.Manual = what, "change it by hand"
	}
	return out
}

// withoutMultirange returns the definition of a range type without the name of its multirange.
func withoutMultirange(sql string) string {
	before, rest, found := strings.Cut(sql, ", multirange_type_name = ")
	if !found {
		return sql
	}
	return before + ")" + rest[strings.LastIndexByte(rest, ')')+1:]
}
