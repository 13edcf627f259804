package charset

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// A shape describes a multi-byte set before servers.txt is applied.
type shape struct {
	base  encoding.Encoding
	trail byte // lowest second byte
	three bool // 8F begins a character of three bytes
	four  bool // a digit as second byte belongs to a four-byte character
}

var shapes = map[string]shape{
	"sjis": {base: japanese.ShiftJIS, trail: 0x40}, "cp932": {base: japanese.ShiftJIS, trail: 0x40},
	"ujis": {base: japanese.EUCJP, trail: 0xa1, three: true}, "eucjpms": {base: japanese.EUCJP, trail: 0xa1, three: true},
	"euckr": {base: korean.EUCKR, trail: 0x41}, "big5": {base: traditionalchinese.Big5, trail: 0x40},
	"gb2312": {base: simplifiedchinese.GBK, trail: 0xa1}, "gbk": {base: simplifiedchinese.GBK, trail: 0x40},
	"gb18030": {base: simplifiedchinese.GB18030, trail: 0x40, four: true},
}

// A table is a set whose characters are numbered by their bytes, read as one number.
//
// Four-byte characters (gb18030) are found by their index, ((b0*10 + b1)*126 + b2)*10 + b3, with
// each byte counted from its lowest value. The first 39420 are those of the first plane without a
// shorter form; the other planes follow in order from 189000.
type table struct {
	shape
	one, two, eight []rune   // by byte; by both bytes; by the bytes after 8F; -1: none
	quad            []rune   // by index
	back            []uint32 // the number of a character of the first plane; 0: none, but for U+0000
}

const (
	quads  = 39420  // characters of the first plane with four bytes
	beyond = 189000 // index of the first character of the other planes
)

// fourth returns the index of a four-byte character; -1 for invalid bytes.
func fourth(p []byte) int {
	if p[0] < 0x81 || p[0] == 0xff || p[1]-'0' > 9 || p[2] < 0x81 || p[2] == 0xff || p[3]-'0' > 9 {
		return -1
	}
	return ((int(p[0]-0x81)*10+int(p[1]-'0'))*126+int(p[2]-0x81))*10 + int(p[3]-'0')
}

// bytesOf is the inverse of fourth.
func bytesOf(n int) [4]byte {
	return [4]byte{byte(n/12600) + 0x81, byte(n/1260%10) + '0', byte(n/10%126) + 0x81, byte(n%10) + '0'}
}

func (t *table) first(p []byte) (rune, int) {
	if r := t.one[p[0]]; r >= 0 {
		return r, 1
	}
	switch {
	case t.two == nil:
		return -1, 1
	case len(p) < 2:
		return -1, 0
	case t.four && p[1]-'0' <= 9:
		return t.firstOfFour(p)
	case t.three && p[0] == 0x8f:
		if len(p) < 3 {
			return -1, 0
		}
		return t.eight[int(p[1])<<8|int(p[2])], 3
	}
	return t.two[int(p[0])<<8|int(p[1])], 2
}

func (t *table) firstOfFour(p []byte) (rune, int) {
	if len(p) < 4 {
		return -1, 0
	}
	switch n := fourth(p); {
	case n >= 0 && n < quads:
		return t.quad[n], 4
	case n >= beyond && n-beyond <= utf8.MaxRune-0x10000:
		return rune(n - beyond + 0x10000), 4
	}
	return -1, 4
}

func (t *table) add(dst []byte, r rune) ([]byte, bool) {
	if t.four && r >= 0x10000 {
		b := bytesOf(int(r-0x10000) + beyond)
		return append(dst, b[:]...), true
	}
	if r > 0xffff {
		return dst, false
	}
	code := t.back[r]
	switch {
	case code == 0 && r != 0:
		return dst, false
	case code > 0xffffff:
		dst = append(dst, byte(code>>24), byte(code>>16), byte(code>>8))
	case code > 0xffff:
		dst = append(dst, byte(code>>16), byte(code>>8))
	case code > 0xff:
		dst = append(dst, byte(code>>8))
	}
	return append(dst, byte(code)), true
}

// place returns where the character of a number is stored; nil if no character has that form.
func (t *table) place(code uint32) *rune {
	switch {
	case code <= 0xff:
		return &t.one[code]
	case code <= 0xffff && t.two != nil:
		return &t.two[code]
	case code>>16 == 0x8f && t.three:
		return &t.eight[code&0xffff]
	case t.four:
		if n := fourth([]byte{byte(code >> 24), byte(code >> 16), byte(code >> 8), byte(code)}); n >= 0 && n < quads {
			return &t.quad[n]
		}
	}
	return nil
}

var (
	tablesMu sync.Mutex
	tables   = map[string]*table{}
)

// tableOf builds a set's table on first use; nil for an unknown set.
func tableOf(name string) *table {
	tablesMu.Lock()
	defer tablesMu.Unlock()
	if t := tables[name]; t != nil {
		return t
	}
	rules, ok := section(servers, name)
	if !ok {
		return nil
	}
	t := newTable(name)
	t.apply(rules)
	tables[name] = t
	return t
}

// newTable returns a set as it is before servers.txt is applied.
func newTable(name string) *table {
	t := &table{shape: shapes[name], one: none(256)}
	ascii := 256
	if t.base != nil {
		ascii = 128
		t.fill()
	}
	for i := range ascii {
		t.one[i] = rune(i)
	}
	return t
}

func none(n int) []rune {
	out := make([]rune, n)
	for i := range out {
		out[i] = -1
	}
	return out
}

// fill copies the characters of the base.
func (t *table) fill() {
	t.two = none(1 << 16)
	decoder := t.base.NewDecoder()
	decoded := func(p ...byte) rune {
		var text [16]byte
		decoder.Reset()
		n, _, err := decoder.Transform(text[:], p, true)
		if r, size := utf8.DecodeRune(text[:n]); err == nil && size == n && r != utf8.RuneError {
			return r
		}
		return -1
	}
	for lead := 0x81; lead <= 0xfe; lead++ {
		if t.trail == 0xa1 && lead < 0xa1 && lead != 0x8e {
			continue
		}
		for trail := int(t.trail); trail <= 0xfe; trail++ {
			t.two[lead<<8|trail] = decoded(byte(lead), byte(trail))
		}
	}
	if t.three {
		t.eight = none(1 << 16)
		for i := 0xa1a1; i <= 0xfefe; i++ {
			t.eight[i] = decoded(0x8f, byte(i>>8), byte(i))
		}
	}
	if t.four {
		t.quad = none(quads)
		for i := range t.quad {
			b := bytesOf(i)
			t.quad[i] = decoded(b[:]...)
		}
	}
}

// servers has for each set a line "[name]" and what differs from its base: of single bytes Latin 1,
// of others the library. A line is the number of a character, or of a first and last one, in hex,
// and
//
//	U  the first one's character; the others' are those after it
//	-  that there is none
//	<  that text is written in these bytes, though others are read as the same characters
//
//go:embed servers.txt
var servers string

// section returns the lines of a set.
func section(text, name string) (string, bool) {
	_, rest, ok := strings.Cut(text, "["+name+"]\n")
	lines, _, _ := strings.Cut(rest, "[")
	return lines, ok
}

// apply applies the lines of a set, and builds the reverse mapping.
func (t *table) apply(rules string) {
	var preferred []uint32
	for line := range strings.Lines(rules) {
		span, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		from, to, ranged := strings.Cut(span, "-")
		if !ranged {
			to = from
		}
		low, high := number(from), number(to)
		for code := low; code <= high; code++ {
			p := t.place(code)
			switch what {
			case "<":
				preferred = append(preferred, code)
			case "-":
				*p = -1
			default:
				*p = rune(number(what) + code - low)
			}
		}
	}
	t.back = make([]uint32, 1<<16)
	note := func(code uint32, r rune) {
		if r >= 0 && r <= 0xffff && t.back[r] == 0 {
			t.back[r] = code
		}
	}
	for _, code := range preferred {
		note(code, *t.place(code))
	}
	t.each(note)
}

// each calls do with each character, in the order of their numbers.
func (t *table) each(do func(code uint32, r rune)) {
	for i, r := range t.one {
		do(uint32(i), r)
	}
	for i, r := range t.two {
		if i > 0xff { // smaller ones have one byte
			do(uint32(i), r)
		}
	}
	for i, r := range t.eight {
		do(0x8f0000|uint32(i), r)
	}
	for i, r := range t.quad {
		b := bytesOf(i)
		do(uint32(b[0])<<24|uint32(b[1])<<16|uint32(b[2])<<8|uint32(b[3]), r)
	}
}

// number parses a number of the text embedded in this package.
func number(hex string) uint32 {
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		panic(fmt.Sprintf("servers.txt: %v", err))
	}
	return uint32(n)
}
