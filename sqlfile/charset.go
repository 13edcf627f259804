package sqlfile

import "strings"

// charsetName returns the canonical name of a character set: all of UTF-8 is utf8mb4, because the
// bytes are the same.
func charsetName(name string) string {
	switch name {
	case "utf8", "utf8mb3", "ascii": // ASCII is UTF-8 already
		return "utf8mb4"
	}
	return name
}

// trap reports whether a second byte of this character set can be a backslash or a quote, so that
// its strings cannot be read byte by byte.
func trap(charset string) bool {
	switch charset {
	case "sjis", "cp932", "gbk", "gb18030", "big5", "ucs2", "utf16", "utf16le", "utf32":
		return true
	}
	return false
}

// charsetOf returns the character set that a collation belongs to.
func charsetOf(collation string) string {
	if collation == "binary" {
		return collation
	}
	name, _, _ := strings.Cut(collation, "_")
	return name
}
