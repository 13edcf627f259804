package schema

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// Actions of foreign keys (CASCADE, SET NULL) conflict with some generated columns and checks that
// read the key's columns, differently by server:
//
//	                                       MySQL      MariaDB
//	CASCADE on the base of a STORED one    refused    ON DELETE accepted, by CREATE TABLE and ALGORITHM=COPY; ON UPDATE refused
//	SET NULL on the base of a STORED one   refused    refused
//	on a generated column itself           both accept only ON DELETE CASCADE
//	on a column that a check reads         both accept only ON DELETE CASCADE
//
// ALTER TABLE in place refuses with error 138 what the second column accepts, regardless of
// foreign_key_checks.

// A computedFrom lists what in a table depends on values that a foreign key's action would change.
type computedFrom struct {
	generated map[string]bool   // columns, in lower case
	bases     map[string]string // base columns of STORED ones: the STORED column by base
	checked   map[string]string // the check's text by the columns it reads
}

// readComputed parses the CREATE TABLE of the target.
func readComputed(create string) computedFrom {
	out := computedFrom{generated: map[string]bool{}, bases: map[string]string{}, checked: map[string]string{}}
	c, _ := parseCreateTable(create)
	reads := map[string][]string{}
	for i := range c.items {
		it := &c.items[i]
		if n := sqltext.Find(it.tokens, "check"); n >= 0 && (it.kind == sqltext.Check || it.kind == sqltext.Column) {
			for _, name := range mentioned(it.tokens[n:]) {
				out.checked[name] = sqltext.Join(it.tokens[n:])
			}
		}
		n := sqltext.Find(it.tokens, "as")
		if it.kind != sqltext.Column || n < 0 {
			continue
		}
		name := strings.ToLower(it.name)
		out.generated[name], reads[name] = true, mentioned(it.tokens[n:])
	}
	for i := range c.items {
		it := &c.items[i]
		if it.kind == sqltext.Column && reads[strings.ToLower(it.name)] != nil && (it.has("stored") || it.has("persistent")) {
			out.base(strings.ToLower(it.name), it.name, reads)
		}
	}
	return out
}

// base records the base columns of a column, also through other generated columns.
func (c *computedFrom) base(name, stored string, reads map[string][]string) {
	for _, from := range reads[name] {
		if c.bases[from] == "" {
			c.bases[from] = stored
			c.base(from, stored, reads)
		}
	}
}

// mentioned returns the names in the first parentheses of tokens, in lower case: columns, and also
// words that are not columns.
func mentioned(tokens []sqltext.Token) []string {
	open := slices.IndexFunc(tokens, isOpen)
	if open < 0 {
		return nil
	}
	var out []string
	for _, t := range tokens[open:sqltext.Closing(tokens, open)] {
		if t.Kind == sqltext.Name || t.Kind == sqltext.Word {
			out = append(out, strings.ToLower(t.Name()))
		}
	}
	return out
}

// algorithm returns the clause to append to ADD FOREIGN KEY, or why the server refuses the key in
// any form.
func (r *renderer) algorithm(c computedFrom, f *tidemark.ForeignKey, cols []string) (clause, refused string) {
	deletes, updates := changing(f.OnDelete), changing(f.OnUpdate)
	harmful := "ON UPDATE " + updates
	if updates == "" {
		harmful = "ON DELETE " + deletes
	}
	for _, col := range cols {
		name := strings.ToLower(col)
		stored, check := c.bases[name], c.checked[name]
		switch changes := updates != "" || deletes == "SET NULL"; {
		case changes && c.generated[name]:
			return "", r.to.name() + " takes no " + harmful + " on a generated column (" + col + ")"
		case changes && check != "":
			return "", r.to.name() + " takes no " + harmful + " on " + col + ", which a check reads: " + check
		case changes && stored != "":
			return "", r.to.name() + " takes no " + harmful + " on " + col + ", from which the stored column " + stored + " is computed"
		case deletes == "CASCADE" && stored != "" && !r.to.mariadb:
			return "", "MySQL takes no ON DELETE CASCADE on " + col + ", from which the stored column " + stored + " is computed"
		case deletes == "CASCADE" && stored != "":
			clause = ", ALGORITHM=COPY"
		}
	}
	return clause, ""
}

// changing returns the action if it changes or deletes rows here.
func changing(action string) string {
	if action == "CASCADE" || action == "SET NULL" {
		return action
	}
	return ""
}
