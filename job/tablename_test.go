package job

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// A spelled is a database of which only the engine's name is known.
type spelled struct {
	Database
	engine string
}

func (s spelled) Name() string { return s.engine }

func TestTableName(t *testing.T) {
	id := tidemark.TableID{Schema: "sh`op", Name: `cus"tomer`}
	for engine, want := range map[string]string{"postgres": "\"sh`op\".\"cus\"\"tomer\"", "mysql": "`sh``op`.`cus\"tomer`", "mariadb": "`sh``op`.`cus\"tomer`"} {
		if got := TableName(spelled{engine: engine}, id); got != want {
			t.Errorf("%s: %s instead of %s", engine, got, want)
		}
	}
}
