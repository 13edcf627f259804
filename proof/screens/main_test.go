// Package screens runs the program where something goes wrong, or where little room is, and reads
// what it prints: exit codes, hints, streams and widths.
package screens

import (
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }
