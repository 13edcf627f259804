package job

import (
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// TableName is the name of a table in statements for a database.
func TableName(db Database, t tidemark.TableID) string {
	q := `"`
	if tidemark.Family(db.Name()) == "mysql" {
		q = "`"
	}
	quoted := func(name string) string { return q + strings.ReplaceAll(name, q, q+q) + q }
	return quoted(t.Schema) + "." + quoted(t.Name)
}
