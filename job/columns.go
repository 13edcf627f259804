package job

import "github.com/tidemarkdb/tidemark"

// needed finds the columns of a table on the target that every row has to have, and that those of the source lack.
func needed(tgt Database, there, filled *tidemark.Table) []tidemark.Finding {
	has := map[string]bool{}
	for _, c := range filled.Stored() {
		has[clip(tgt, c.Name)] = true
	}
	var out []tidemark.Finding
	for i := range there.Columns {
		c := &there.Columns[i]
		if c.NotNull && c.Default == nil && c.Identity == nil && c.Generated == "" && !c.OnUpdate && !has[c.Name] {
			out = append(out, blocked(there, "is on the target, and its column "+c.Name+" takes no NULL and has no default; the source has no such column",
				"Use --prep drop, or give the column a default."))
		}
	}
	return out
}

// blocked is what stops a copy of one table.
func blocked(t *tidemark.Table, text, hint string) tidemark.Finding {
	return tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Invalid, Object: "table " + t.String(), Text: text, Hint: hint}
}
