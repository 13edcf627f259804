package schema

import (
	"fmt"
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
		k.Unique, k.Name = true, "primary key"
		keys = append([]tidemark.Index{k}, keys...)
	}
	told := map[string]bool{}
	for i := range keys {
		x := &keys[i]
		if !x.Unique {
			continue
		}
		name := "its unique key " + x.Name
		if x.Name == "primary key" {
			name = "the primary key"
		}
		for _, p := range x.Parts {
			c := mk.t.Column(p.Column)
			if c == nil || told[c.Name] || mk.dropped[c.Name] {
				continue
			}
			collation := mk.collationOf(c)
			ignores, hint := ignored(collation)
			if ignores == "" {
				continue
			}
			told[c.Name] = true
			mk.r.find(tidemark.Warning, "column "+mk.t.String()+"."+c.Name,
				fmt.Sprintf("%s ignores %s on the source (%s); here values that differ only in that are distinct, and can be inserted", name, ignores, collation), hint)
		}
	}
}

// collationOf returns the collation of a MySQL text column; "" for others.
func (mk *maker) collationOf(c *tidemark.Column) string {
	switch c.Type.Kind {
	case tidemark.Char, tidemark.Varchar, tidemark.Text:
		if c.Type.Collation != "" {
			return strings.ToLower(c.Type.Collation)
		}
		return strings.ToLower(mk.m.From.Collation)
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
	return "case and accents", "Give the column a nondeterministic ICU collation (locale = 'und-u-ks-level1'), after the copy."
}
