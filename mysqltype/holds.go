package mysqltype

import (
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Holds reports whether a column of type to takes each value of a column of type from as it is, or
// refuses it: the server cuts nothing off with no more than a note, as it does the digits after a
// point, the time of day and trailing blanks (MySQL's manual, "Server SQL Modes", on strict mode).
func Holds(to, from *tidemark.Type) bool {
	switch to.Kind {
	case tidemark.Decimal:
		return from.Kind == tidemark.Int || from.Kind == tidemark.Decimal && from.Precision > 0 && from.Scale <= to.Scale
	case tidemark.Date, tidemark.Time:
		return from.Kind == to.Kind
	case tidemark.Char, tidemark.Varchar:
		return (from.Kind == tidemark.Char || from.Kind == tidemark.Varchar) && from.Length > 0 && from.Length <= to.Length || from.Kind == tidemark.UUID || from.Kind == tidemark.Enum
	case tidemark.Text:
		return from.Native == to.Native || strings.EqualFold(to.Native, "longtext")
	}
	return true
}
