package schema

import (
	"strings"

	"github.com/tidemarkdb/tidemark/mysql/functions"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// Worded writes a statement of a dump about a program or a sequence (kind: "view"), which a server
// of one family wrote, in the words of the other (mariadb: of MariaDB). Lacks says what that does
// not have of what is called, or which of the views (in lower case) that are not made a view needs;
// made: the statement runs for all that.
func Worded(kind, sql string, mariadb bool, views map[string]bool) (out, lacks string, made bool) {
	f := functions.MySQL
	if mariadb {
		f = functions.MariaDB
	} else if kind == "sequence" {
		return sql, f.Name + " has no sequences", false
	}
	tokens, lacks, made := f.InProgram(kind, sqltext.Scan(sql))
	if out = sqltext.Join(tokens); lacks != "" {
		return out, f.Name + " has no " + lacks, made
	}
	for i, t := range tokens {
		if kind == "view" && t.Kind == sqltext.Name && views[strings.ToLower(t.Name())] && !sqltext.At(tokens, i+1).Punct('.') {
			return out, "view " + t.Name() + " is not", false
		}
	}
	return out, "", true
}
