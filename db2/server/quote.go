package server

import (
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Quote quotes a name.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// QuoteTable quotes a table's name.
func QuoteTable(t tidemark.TableID) string { return Quote(t.Schema) + "." + Quote(t.Name) }

// Literal spells a text as a string of SQL.
func Literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
