package sqlfile

import (
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"
)

// encodings holds MySQL's character sets that are not UTF-8. MySQL's latin1 is
// Windows-1252 with its five holes filled, which is what browsers made of it too.
var encodings = map[string]encoding.Encoding{
	"latin1": charmap.Windows1252, "latin2": charmap.ISO8859_2, "latin5": charmap.ISO8859_9, "latin7": charmap.ISO8859_13,
	"cp1250": charmap.Windows1250, "cp1251": charmap.Windows1251, "cp1256": charmap.Windows1256, "cp1257": charmap.Windows1257,
	"cp850": charmap.CodePage850, "cp852": charmap.CodePage852, "cp866": charmap.CodePage866,
	"koi8r": charmap.KOI8R, "koi8u": charmap.KOI8U, "greek": charmap.ISO8859_7, "hebrew": charmap.ISO8859_8,
	"macroman": charmap.Macintosh, "tis620": charmap.Windows874,
	"sjis": japanese.ShiftJIS, "cp932": japanese.ShiftJIS, "ujis": japanese.EUCJP, "eucjpms": japanese.EUCJP,
	"euckr": korean.EUCKR, "gb2312": simplifiedchinese.GBK, "gbk": simplifiedchinese.GBK, "gb18030": simplifiedchinese.GB18030,
	"big5": traditionalchinese.Big5,
	"ucs2": unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), "utf16": unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	"utf16le": unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), "utf32": utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM),
}

// charsetName gives the one name that a character set has here: all of UTF-8 is
// utf8mb4, because the bytes are the same.
func charsetName(name string) string {
	switch name {
	case "utf8", "utf8mb3", "ascii": // ASCII is UTF-8 already
		return "utf8mb4"
	}
	return name
}

// trap reports whether a second byte of this character set can be a backslash or
// a quote, so that its strings cannot be read byte by byte.
func trap(charset string) bool {
	switch charset {
	case "sjis", "cp932", "gbk", "gb18030", "big5", "ucs2", "utf16", "utf16le", "utf32":
		return true
	}
	return false
}

// charsetOf gives the character set that a collation belongs to.
func charsetOf(collation string) string {
	if collation == "binary" {
		return collation
	}
	name, _, _ := strings.Cut(collation, "_")
	return name
}

// transcoder gives what turns text of one character set into another; nil where
// the bytes stay. ok is false if one of them is not known.
func transcoder(from, to string) (t transform.Transformer, ok bool) {
	if from == to || from == "binary" || to == "binary" {
		return nil, true
	}
	var parts []transform.Transformer
	if from != "utf8mb4" {
		e := encodings[from]
		if e == nil {
			return nil, false
		}
		parts = append(parts, e.NewDecoder())
	}
	if to != "utf8mb4" {
		e := encodings[to]
		if e == nil {
			return nil, false
		}
		parts = append(parts, e.NewEncoder())
	}
	if len(parts) == 1 {
		return parts[0], true
	}
	return transform.Chain(parts...), true
}
