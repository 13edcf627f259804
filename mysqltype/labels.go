package mysqltype

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// SetWidth returns the most bytes of a character of a character set.
func SetWidth(set string) int64 {
	switch set {
	case "utf8mb4", "utf16", "utf16le", "utf32", "gb18030":
		return 4
	case "utf8mb3", "utf8", "ujis", "eucjpms":
		return 3
	case "ucs2", "gbk", "gb2312", "big5", "sjis", "cp932", "euckr":
		return 2
	}
	return 1
}

// ByteLabels reports whether labels are bytes: servers name no character set then, or binary.
func ByteLabels(t *tidemark.Type) bool { return t.Charset == "" || t.Charset == "binary" }

// MayHideLabel reports whether a type has a label that may be another one than SHOW CREATE TABLE
// shows: as a question mark it shows a character beyond three bytes of UTF-8, such as an emoji, and
// MariaDB each byte of it in a label of bytes.
func MayHideLabel(t *tidemark.Type) bool {
	return (t.Kind == tidemark.Enum || t.Kind == tidemark.Set) && (SetWidth(t.Charset) == 4 || ByteLabels(t)) &&
		slices.ContainsFunc(t.Labels, func(l string) bool { return strings.Contains(l, "?") })
}
