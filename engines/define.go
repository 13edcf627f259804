package engines

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	pgdefine "github.com/tidemarkdb/tidemark/postgres/define"
)

// Compares reports whether Definitions knows an engine.
func Compares(name string) bool {
	_, ok := dialects[engine.Family(name)]
	return ok
}

// Definitions returns the dialect that turns a target's definitions into a source's. It is for one
// comparison.
func Definitions(source, target *tidemark.Database) define.Dialect {
	return dialects[engine.Family(target.Engine)](source, target, source.Engine != target.Engine)
}

// dialects are those that Compares knows, by the family of the target.
var dialects = map[string]func(source, target *tidemark.Database, across bool) define.Dialect{
	engine.MySQL: func(_, _ *tidemark.Database, across bool) define.Dialect { return &schema.Definitions{Across: across} },
	engine.Postgres: func(source, target *tidemark.Database, across bool) define.Dialect {
		return &pgdefine.Definitions{Major: target.Major, Across: across, Loose: source.Major != target.Major}
	},
}
