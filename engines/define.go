package engines

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/define"
)

// Compares reports whether Definitions knows an engine.
func Compares(name string) bool {
	e := byName(name)
	return e != nil && e.Dialect != nil
}

// Definitions returns the dialect that turns a target's definitions into a source's. It is for one
// comparison, and for targets that Compares knows.
func Definitions(source, target *tidemark.Database) define.Dialect {
	return byName(target.Engine).Dialect(source, target, source.Engine != target.Engine)
}
