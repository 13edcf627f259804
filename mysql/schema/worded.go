package schema

import (
	"strings"

	"github.com/tidemarkdb/tidemark/mysql/functions"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// Worded writes a program of a dump, which a server of one family wrote, in the words of the other
// (mariadb: of MariaDB). Lacks is what that does not have of what the program calls, or one of the
// views (in lower case) that it selects from.
func Worded(sql string, mariadb bool, views map[string]bool) (out, lacks string) {
	f := functions.MySQL
	if mariadb {
		f = functions.MariaDB
	}
	tokens := f.Calls(sqltext.Scan(sql))
	if what := f.Lacks(tokens, functions.Program, nil); what != "" {
		return sqltext.Join(tokens), f.Name + " has no " + what
	}
	for i, t := range tokens {
		if t.Kind == sqltext.Name && views[strings.ToLower(t.Name())] && !sqltext.At(tokens, i+1).Punct('.') {
			return sqltext.Join(tokens), "view " + t.Name() + " is not"
		}
	}
	return sqltext.Join(tokens), ""
}
