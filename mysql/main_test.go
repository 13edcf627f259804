package mysql

import (
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) {
	bulkFrom = 0
	testdb.Main(m)
}
