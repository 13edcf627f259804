package event

import (
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// Sequence reports whether a table that no longer exists was a MariaDB sequence.
func (m *TableMap) Sequence() bool {
	const types = "\x08\x08\x08\x08\x08\x08\x01\x08"
	return string(m.Types) == types && (m.Names == nil || m.Names[0] == "next_not_cached_value")
}

// Misfit reports why rows of the log cannot belong to a definition; "" if they can. A derived
// definition has to fit everything that the log says.
func (m *TableMap) Misfit(sets *Charsets, shown *schema.Shown, derived bool) (string, error) {
	switch {
	case shown.Form == "":
		return "the table no longer exists", nil
	case len(shown.Columns) != len(m.Types) && (shown.Form != "SYSTEM VERSIONED" || len(shown.Columns)+VersionColumns != len(m.Types)):
		return fmt.Sprintf("it has %d columns now, and %d in the log", len(shown.Columns), len(m.Types)), nil
	}
	for i := range min(len(m.Types), len(shown.Columns)) {
		c := &shown.Columns[i]
		ok := m.Fits(i, &c.Type)
		if ok && derived {
			var err error
			if ok, err = m.fitsWhole(sets, i, &c.Type); err != nil {
				return "", err
			}
		}
		if !ok {
			return fmt.Sprintf("its column %s is %s now, and of another type in the log", c.Name, c.Type.Native), nil
		}
	}
	return "", nil
}

// fitsWhole checks what Fits does not: signs, character sets, and the length of text.
func (m *TableMap) fitsWhole(sets *Charsets, i int, t *tidemark.Type) (bool, error) {
	if m.signs != nil && isNumber(m.Types[i]) && m.Types[i] != typeYear && m.signs[i] != t.Unsigned {
		return false, nil
	}
	if m.charsets != nil && m.charsets[i] != 0 && (isText(m.Types[i]) && t.Kind != tidemark.UUID && t.Kind != tidemark.Other) {
		set, err := sets.collation(m.charsets[i])
		if err != nil {
			return false, err
		}
		if want := t.Charset; set != want && !(set == "binary" && want == "") && strings.Replace(set, "utf8mb3", "utf8", 1) != want {
			return false, nil
		}
	}
	if t.Kind == tidemark.Varchar && m.Types[i] == typeVarchar {
		return int64(m.Metas[i]) == t.Length*mysqltype.SetWidth(t.Charset), nil
	}
	return true, nil
}

// Fits reports whether column i of the log can have type t.
func (m *TableMap) Fits(i int, t *tidemark.Type) bool {
	typ, meta := m.Types[i], m.Metas[i]
	switch t.Kind {
	case tidemark.Int, tidemark.Bool:
		return typ == map[int]byte{8: typeTiny, 16: typeShort, 24: typeInt24, 32: typeLong, 64: typeLongLong}[t.Bits]
	case tidemark.Float:
		return typ == typeFloat && t.Bits == 32 || typ == typeDouble && t.Bits == 64
	case tidemark.Decimal:
		return typ == typeNewDecimal && int(meta>>8) == t.Precision && int(meta&0xff) == t.Scale
	case tidemark.Year:
		return typ == typeYear
	case tidemark.Date:
		return typ == typeDate || typ == typeNewDate
	case tidemark.Time:
		return typ == typeTime || typ == typeTime2 && int(meta) == t.Precision
	case tidemark.DateTime:
		return typ == typeDateTime || typ == typeDateTime2 && int(meta) == t.Precision
	case tidemark.Timestamp:
		return typ == typeTimestamp || typ == typeTimestamp2 && int(meta) == t.Precision
	case tidemark.Bit:
		return typ == typeBit && int64(meta) == max(t.Length, 1)
	case tidemark.Enum:
		return typ == typeEnum && (len(t.Labels) > 255) == (meta == 2)
	case tidemark.Set:
		n := (len(t.Labels) + 7) / 8
		return typ == typeSet && (int(meta) == n || n > 4 && meta == 8)
	case tidemark.Geometry:
		return typ == typeGeometry
	case tidemark.Char, tidemark.Binary, tidemark.UUID:
		return typ == typeString
	case tidemark.Varchar, tidemark.Varbinary:
		return typ == typeVarchar || typ == typePackedVarchar
	case tidemark.Text, tidemark.Blob:
		return typ == typeBlob && t.Length>>(8*meta) == 0 && (meta == 1 || t.Length>>(8*(meta-1)) > 0) || typ == typePackedBlob || typ == typeVector
	case tidemark.JSON:
		return typ == TypeJSON || typ == typeBlob
	}
	return typ == typeString || typ == typeVarchar // inet4, inet6 and later types
}
