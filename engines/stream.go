package engines

import (
	"errors"
	"regexp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/capture"
)

var (
	_ = []capture.Source{pg{}, my{}}
	_ = []capture.Chunker{pg{}, my{}}
	_ = []capture.LogKeeper{pg{}, my{}}
	_ = []apply.Target{pg{}, my{}}
)

// StreamName matches valid stream names: a stream's slot, which is global to the server, has the
// same name after "tidemark_".
var StreamName = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)

// Place parses a position in the log of an engine: a place, or the GTID of one transaction.
func Place(name, text string) (place uint64, gtid string, err error) {
	e := byName(name)
	if e == nil || e.Place == nil {
		return 0, "", &tidemark.Error{Kind: tidemark.Unsupported, Op: "read", Object: text, Err: errors.New("is a position in a log that tidemark does not read")}
	}
	if place, gtid, err = e.Place(text); err != nil {
		err = &tidemark.Error{Op: "read", Object: text, Kind: tidemark.Invalid, Err: err, Hint: "PostgreSQL: 16/B374D848; MySQL and MariaDB: binlog.000003:1234, or the GTID of one transaction."}
	}
	return place, gtid, err
}
