package schema

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// uniqueText reports, for each column of a unique key, the differences that the source's collation
// ignores and PostgreSQL does not.
func (mk *maker) uniqueText() {
	if mk.r.same {
		return
	}
	keys := slices.Clone(mk.t.Indexes)
	if mk.t.Key != nil {
		k := *mk.t.Key
		k.Unique = true
		keys = append([]tidemark.Index{k}, keys...)
	}
	told := map[string]bool{}
	for i := range keys {
		x := &keys[i]
		if !x.Unique {
			continue
		}
		for _, p := range x.Parts {
			c := mk.t.Column(p.Column)
			if c == nil || told[c.Name] || mk.dropped[c.Name] {
				continue
			}
			ignores, hint := ignored(collationOf(mk.m, c))
			if ignores == "" {
				continue
			}
			told[c.Name] = true
			mk.r.find(tidemark.Warning, "column "+mk.t.String()+"."+c.Name,
				"is in a unique key that ignores "+ignores+" on the source; here values that differ only in that are distinct, and can be inserted", hint)
		}
	}
}

// spelledText reports a foreign key of text in which the source's collation ignores differences.
func (r *renderer) spelledText(m *tidemark.Move, fk *tidemark.ForeignKey, who string) {
	if r.same {
		return
	}
	for _, name := range fk.Columns {
		c := m.To.Column(name)
		if c == nil {
			continue
		}
		if ignores, _ := ignored(collationOf(m, c)); ignores != "" {
			r.find(tidemark.Warning, who, "ignores "+ignores+" on the source; here a row in another spelling than what it refers to breaks it: a copy refuses the key, and a stream does not check it",
				"check --values counts such rows. Give them the spelling of what they refer to, on the source.")
			return
		}
	}
}

// comparedText reports an expression that compares text of these columns, in which the source's
// collation ignores differences.
func (mk *maker) comparedText(columns []string, who, what, hint string) {
	for i := range mk.t.Columns {
		from := &mk.t.Columns[i]
		if !slices.ContainsFunc(columns, func(name string) bool { return strings.EqualFold(name, from.Name) }) {
			continue
		}
		collation := collationOf(mk.m, from)
		ignores, _ := ignored(collation)
		if collation != "" && !tidemark.NoPad(collation) {
			ignores = strings.TrimPrefix(ignores+" and trailing blanks", " and ")
		}
		if ignores != "" {
			mk.r.find(tidemark.Warning, who, "its expression compares text, which ignores "+ignores+" on the source and nothing here: "+what, hint)
			return
		}
	}
}

// collationOf returns the collation of a MySQL text column of a move; "" for others.
func collationOf(m *tidemark.Move, c *tidemark.Column) string {
	switch c.Type.Kind {
	case tidemark.Char, tidemark.Varchar, tidemark.Text:
		if c.Type.Collation != "" {
			return strings.ToLower(c.Type.Collation)
		}
		return strings.ToLower(m.From.Collation)
	}
	return ""
}

// ignored returns the differences that a collation of MySQL or MariaDB ignores, and how to get the
// same on PostgreSQL.
func ignored(collation string) (what, hint string) {
	switch {
	case !strings.HasSuffix(collation, "_ci"):
		return "", ""
	case strings.HasSuffix(collation, "_as_ci"):
		return "case", "Make the column citext, or make a unique index on lower(column)."
	}
	return "case and accents", "Give the column a nondeterministic ICU collation (locale = 'und-u-ks-level1'), after the copy; LIKE fails with one before PostgreSQL 18."
}
