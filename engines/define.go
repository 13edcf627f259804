package engines

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	pgdefine "github.com/tidemarkdb/tidemark/postgres/define"
)

// Compares reports whether Definitions knows an engine.
func Compares(engine string) bool {
	family := tidemark.Family(engine)
	return family == "mysql" || family == "postgres"
}

// Definitions returns the dialect that turns a target's definitions into a source's. It is for one
// comparison.
func Definitions(source, target *tidemark.Database) define.Dialect {
	across := source.Engine != target.Engine
	if tidemark.Family(target.Engine) == "mysql" {
		return &schema.Definitions{Across: across}
	}
	return &pgdefine.Definitions{Major: target.Major, Across: across, Loose: source.Major != target.Major}
}
