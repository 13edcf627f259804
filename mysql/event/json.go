package event

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
)

// Types of values in MySQL's binary JSON (sql-common/json_binary.h).
const (
	jsonSmallObject = iota
	jsonLargeObject
	jsonSmallArray
	jsonLargeArray
	jsonLiteral
	jsonInt16
	jsonUint16
	jsonInt32
	jsonUint32
	jsonInt64
	jsonUint64
	jsonDouble
	jsonString
	jsonOpaque = 15
)

// jsonDepth is how deep MySQL lets documents nest.
const jsonDepth = 100

// appendJSON appends a document of MySQL's binary form as MySQL prints it.
func appendJSON(dst, v []byte) ([]byte, bool) {
	if len(v) == 0 { // what INSERT IGNORE stores if there is no default
		return append(dst, "null"...), true
	}
	return appendJSONValue(dst, v[0], v[1:], 0)
}

// appendJSONValue appends the value of a kind that is at the beginning of v.
func appendJSONValue(dst []byte, kind byte, v []byte, depth int) ([]byte, bool) {
	size := 0
	switch kind {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
		return appendJSONList(dst, kind, v, depth)
	case jsonLiteral:
		if len(v) < 1 || v[0] > 2 {
			return dst, false
		}
		return append(dst, [3]string{"null", "true", "false"}[v[0]]...), true
	case jsonInt16, jsonUint16:
		size = 2
	case jsonInt32, jsonUint32:
		size = 4
	case jsonInt64, jsonUint64, jsonDouble:
		size = 8
	case jsonString:
		s, ok := jsonBytes(v)
		return appendJSONString(dst, s), ok
	case jsonOpaque:
		return appendJSONOpaque(dst, v)
	}
	if size == 0 || len(v) < size {
		return dst, false
	}
	n := Little(v[:size])
	switch kind {
	case jsonInt16, jsonInt32, jsonInt64:
		shift := 64 - 8*size
		return strconv.AppendInt(dst, int64(n<<shift)>>shift, 10), true
	case jsonDouble:
		return appendJSONDouble(dst, math.Float64frombits(n)), true
	}
	return strconv.AppendUint(dst, n, 10), true
}

// A jsonList is an object or an array of the binary form: the number of its members, its size, for
// an object the offset and length of each key, the type and offset of each value (or the value
// itself if it fits), and then the keys and values.
type jsonList struct {
	v    []byte
	n    int
	word int // bytes of a number or offset
	keys int // bytes per key entry; 0: it is an array
}

func readJSONList(kind byte, v []byte) (l jsonList, ok bool) {
	l.word = 2
	if kind == jsonLargeObject || kind == jsonLargeArray {
		l.word = 4
	}
	if len(v) < 2*l.word {
		return l, false
	}
	size := int(Little(v[l.word : 2*l.word]))
	l.n = int(Little(v[:l.word]))
	if kind == jsonSmallObject || kind == jsonLargeObject {
		l.keys = l.word + 2
	}
	if size > len(v) || l.n > size || 2*l.word+l.n*(l.keys+1+l.word) > size {
		return l, false
	}
	l.v = v[:size]
	return l, true
}

// key returns the name of the i-th member of an object.
func (l *jsonList) key(i int) ([]byte, bool) {
	entry := l.v[2*l.word+i*l.keys:]
	from, length := int(Little(entry[:l.word])), int(Little(entry[l.word:l.word+2]))
	if from > len(l.v) || length > len(l.v)-from {
		return nil, false
	}
	return l.v[from : from+length : from+length], true
}

// value returns the type of the i-th member, and the bytes from its value on.
func (l *jsonList) value(i int) (kind byte, v []byte, ok bool) {
	entry := l.v[2*l.word+l.n*l.keys+i*(1+l.word):]
	kind, v = entry[0], entry[1:1+l.word]
	if jsonInlined(kind, l.word) {
		return kind, v, true
	}
	from := int(Little(v))
	if from > len(l.v) {
		return kind, nil, false
	}
	return kind, l.v[from:], true
}

// jsonBrackets are the brackets of objects and arrays.
var jsonBrackets = [...]string{jsonSmallObject: "{}", jsonLargeObject: "{}", jsonSmallArray: "[]", jsonLargeArray: "[]"}

// appendJSONList appends an object or an array.
func appendJSONList(dst []byte, kind byte, v []byte, depth int) ([]byte, bool) {
	l, ok := readJSONList(kind, v)
	if !ok || depth >= jsonDepth {
		return dst, false
	}
	dst = append(dst, jsonBrackets[kind][0])
	for i := range l.n {
		if i > 0 {
			dst = append(dst, ',', ' ')
		}
		if l.keys > 0 {
			key, ok := l.key(i)
			if !ok {
				return dst, false
			}
			dst = append(appendJSONString(dst, key), ':', ' ')
		}
		kind, v, ok := l.value(i)
		if !ok {
			return dst, false
		}
		if dst, ok = appendJSONValue(dst, kind, v, depth+1); !ok {
			return dst, false
		}
	}
	return append(dst, jsonBrackets[kind][1]), true
}

// jsonInlined reports whether a value is stored in place of its offset.
func jsonInlined(kind byte, word int) bool {
	switch kind {
	case jsonLiteral, jsonInt16, jsonUint16:
		return true
	case jsonInt32, jsonUint32:
		return word == 4
	}
	return false
}

// jsonBytes reads bytes that follow their length, a number of seven bits per byte, lowest first.
func jsonBytes(v []byte) ([]byte, bool) {
	n := 0
	for i := range min(len(v), 5) {
		n |= int(v[i]&0x7f) << (7 * i)
		if v[i]&0x80 == 0 {
			v = v[i+1:]
			return v[:min(n, len(v))], n <= len(v)
		}
	}
	return nil, false
}

func appendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '"', '\\':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, '\\', 'u', '0', '0', HexDigits[c>>4], HexDigits[c&15])
		}
	}
	return append(append(dst, s[start:]...), '"')
}

// appendJSONOpaque appends a value of an SQL type that JSON lacks.
func appendJSONOpaque(dst, v []byte) ([]byte, bool) {
	if len(v) < 1 {
		return dst, false
	}
	kind := v[0]
	v, ok := jsonBytes(v[1:])
	if !ok {
		return dst, false
	}
	switch kind {
	case typeNewDecimal:
		if len(v) < 2 || v[1] > v[0] {
			return dst, false
		}
		dst, err := appendDecimal(dst, v[2:], int(v[0]), int(v[1]))
		return dst, err == nil
	case typeDate, typeDateTime, typeTimestamp, typeTime:
		if len(v) != 8 {
			return dst, false
		}
		return append(appendJSONTime(append(dst, '"'), kind, int64(Little(v))), '"'), true
	}
	dst = strconv.AppendUint(append(dst, `"base64:type`...), uint64(kind), 10)
	dst = append(dst, ':')
	const line = 76 / 4 * 3 // bytes per line of base64; MySQL breaks lines
	for ; len(v) > line; v = v[line:] {
		dst = append(base64.StdEncoding.AppendEncode(dst, v[:line]), '\\', 'n')
	}
	return append(base64.StdEncoding.AppendEncode(dst, v), '"'), true
}

// appendJSONTime appends a date or time from the packed form that servers use in memory.
func appendJSONTime(dst []byte, kind byte, packed int64) []byte {
	if packed < 0 {
		packed = -packed
		dst = append(dst, '-')
	}
	n, micros := uint64(packed)>>24, uint64(packed)&(1<<24-1)
	hour, minute, second := n>>12&31, n>>6&63, n&63
	if kind == typeTime {
		dst = appendHours(dst, n>>12, minute, second)
		return append(dst, padded([]byte{'.'}, micros, 6)...)
	}
	day := n >> 17
	dst = appendDay(dst, day>>5/13, day>>5%13, day&31)
	if kind == typeDate {
		return dst
	}
	dst = appendHour(append(dst, ' '), hour, minute, second)
	return append(dst, padded([]byte{'.'}, micros, 6)...)
}

// appendJSONDouble appends a double as MySQL prints doubles: the shortest digits that read back the
// same, without an exponent from 1e-15 up to 15 digits before the point (16 if there is one after
// it), and always recognizable as a non-integer.
func appendJSONDouble(dst []byte, f float64) []byte {
	at := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	e := bytes.LastIndexByte(dst, 'e')
	exp, _ := strconv.Atoi(AsString(dst[e+1:]))
	if f == 0 || exp >= -15 && exp < 15 || exp == 15 && digitsN(dst[at:e]) > 16 {
		dst = strconv.AppendFloat(dst[:at], f, 'f', -1, 64)
		if bytes.LastIndexByte(dst[at:], '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	return strconv.AppendInt(dst[:e+1], int64(exp), 10)
}

func digitsN(v []byte) (n int) {
	for _, c := range v {
		if c >= '0' && c <= '9' {
			n++
		}
	}
	return n
}
