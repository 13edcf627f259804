package job

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/load"
)

// nothing is the error of a job that finds no table to work on. Whoever gets a success for it takes a wrong URL, or a
// misspelt rule, for a copy.
func nothing(op string, db *tidemark.Database) error {
	if len(db.Tables) > 0 {
		return tidemark.Errorf(tidemark.Empty, op, "source", "no table of it is selected", "Look at --include, --exclude and the rules, and at the names of schemas.")
	}
	return tidemark.Errorf(tidemark.Empty, op, "source", "has no tables", "Look whether the URL names the right database, and whether its user may see the tables.")
}

// idle reports whether a plan moves nothing and makes nothing.
func idle(p *load.Plan) bool {
	if len(p.Moves) > 0 {
		return false
	}
	for _, o := range p.Objects {
		if o.Kind != "schema" && o.Kind != "extension" {
			return false
		}
	}
	return true
}

// emptyFile is nothing for a dump file.
func emptyFile(source string) error {
	return tidemark.Errorf(tidemark.Empty, "import", source, "it has no tables, or none that is selected", "Look whether it is the right file, and at --include and --exclude.")
}
