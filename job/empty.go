package job

import (
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/load"
)

// nothing is the error of a job that finds no table to work on. Reported as a success, a wrong URL
// or a misspelt rule would pass for a copy.
func nothing(op string, db *tidemark.Database) error {
	if len(db.Tables) > 0 {
		return &tidemark.Error{Kind: tidemark.Empty, Op: op, Object: "source", Err: errors.New("the rules select none of its tables"), Hint: "Check --include, --exclude and the rules, and the names of schemas."}
	}
	return &tidemark.Error{Kind: tidemark.Empty, Op: op, Object: "source", Err: errors.New("has no tables"), Hint: "Check that the URL names the right database, and that its user can see the tables."}
}

// idle reports whether a plan moves nothing and creates nothing.
func idle(p *load.Plan) bool {
	if len(p.Moves) > 0 {
		return false
	}
	for _, o := range p.Objects {
		if o.Kind != "schema" && o.Kind != "extension" && o.Kind != "setting" {
			return false
		}
	}
	return true
}

// emptyFile is nothing for a dump file.
func emptyFile(source string) error {
	return &tidemark.Error{Kind: tidemark.Empty, Op: "import", Object: source, Err: errors.New("it has no tables, or the rules select none"), Hint: "Check that it is the right file, and check --include and --exclude."}
}
