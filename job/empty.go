package job

import (
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/load"
)

// nothing is the error of a job that finds no table to work on. Whoever gets a success for it takes a wrong URL, or a
// misspelt rule, for a copy.
func nothing(op string, db *tidemark.Database) error {
	if len(db.Tables) > 0 {
		return &tidemark.Error{Kind: tidemark.Empty, Op: op, Object: "source", Err: errors.New("no table of it is selected"), Hint: "Look at --include, --exclude and the rules, and at the names of schemas."}
	}
	return &tidemark.Error{Kind: tidemark.Empty, Op: op, Object: "source", Err: errors.New("has no tables"), Hint: "Look whether the URL names the right database, and whether its user may see the tables."}
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
	return &tidemark.Error{Kind: tidemark.Empty, Op: "import", Object: source, Err: errors.New("it has no tables, or none that is selected"), Hint: "Look whether it is the right file, and at --include and --exclude."}
}
