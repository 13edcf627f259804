package job

import (
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// TableName is the name of a table in statements for a database.
func TableName(db Database, t tidemark.TableID) string {
	q := engine.Of(db.Name()).Quote
	quoted := func(name string) string { return q + strings.ReplaceAll(name, q, q+q) + q }
	return quoted(t.Schema) + "." + quoted(t.Name)
}
