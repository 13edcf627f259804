package event

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A charset converts text of a log into UTF-8. It asks the server itself for each character and
// remembers the answer: so the text equals the one that the row reader gets from the server's own
// conversion.
type charset struct {
	name  string
	one   *[256][]byte      // for single-byte character sets
	known map[string][]byte // for the others
	ask   func(sql string) ([]string, error)
}

// Charsets are the character sets of a server that were used so far.
type Charsets struct {
	Ask        func(sql string) ([][]string, error)
	sets       map[string]*charset
	Collations map[uint64]string
}

// Row runs a query for one row.
func (s *Charsets) Row(sql string) ([]string, error) {
	rows, err := s.Ask(sql)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// named returns the charset of a name; nil if the text is UTF-8 already.
func (s *Charsets) named(name string) (*charset, error) {
	name = strings.ToLower(name)
	if name == "" || strings.HasPrefix(name, "utf8") {
		return nil, nil
	}
	if c := s.sets[name]; c != nil {
		return c, nil
	}
	c := &charset{name: name, ask: s.Row}
	size, err := s.Row("SELECT MAXLEN FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME=" + server.Literal(name))
	switch {
	case err != nil:
		return nil, err
	case len(size) == 1 && size[0] == "1":
		err = c.fill()
	default:
		c.known = map[string][]byte{}
	}
	if err == nil {
		if s.sets == nil {
			s.sets = map[string]*charset{}
		}
		s.sets[name] = c
	}
	return c, err
}

// fill queries all characters of a set that has 256.
func (c *charset) fill() error {
	all := make([][]byte, 256)
	for i := range all {
		all[i] = []byte{byte(i)}
	}
	texts, err := c.convert(all)
	if err == nil {
		c.one = (*[256][]byte)(texts)
	}
	return err
}

// convert has the server convert characters.
func (c *charset) convert(chars [][]byte) ([][]byte, error) {
	columns := make([]string, len(chars))
	for i, ch := range chars {
		columns[i] = fmt.Sprintf("IFNULL(HEX(CONVERT(CONVERT(x'%x' USING %s) USING utf8mb4)),'3F')", ch, c.name)
	}
	cells, err := c.ask("SELECT " + strings.Join(columns, ","))
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(chars))
	for i := range out {
		if out[i], err = hex.DecodeString(cells[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decode appends v as UTF-8.
func (c *charset) decode(dst, v []byte) ([]byte, error) {
	switch {
	case c.one != nil:
		for _, b := range v {
			dst = append(dst, c.one[b]...)
		}
		return dst, nil
	case c.name == "ucs2" || c.name == "utf16" || c.name == "utf16le" || c.name == "utf32":
		return c.unicode(dst, v), nil
	}
	at := len(dst)
	for rest := v; len(rest) > 0; {
		n := c.size(rest)
		text, ok := c.known[string(rest[:n])]
		if !ok {
			if err := c.learn(v); err != nil {
				return dst[:at], err
			}
			text = c.known[string(rest[:n])]
		}
		dst, rest = append(dst, text...), rest[n:]
	}
	return dst, nil
}

// learn queries the unknown characters of v.
func (c *charset) learn(v []byte) error {
	const atOnce = 500
	var chars [][]byte
	asked := map[string]bool{}
	for rest := v; len(rest) > 0 && len(chars) < atOnce; {
		n := c.size(rest)
		if ch := string(rest[:n]); c.known[ch] == nil && !asked[ch] {
			asked[ch] = true
			chars = append(chars, rest[:n])
		}
		rest = rest[n:]
	}
	texts, err := c.convert(chars)
	if err != nil {
		return err
	}
	for i, ch := range chars {
		c.known[string(ch)] = texts[i]
	}
	if len(asked) == atOnce {
		return c.learn(v)
	}
	return nil
}

// size returns the length in bytes of the first character of p.
func (c *charset) size(p []byte) int {
	b, n := p[0], 1
	switch c.name {
	case "sjis", "cp932":
		if b >= 0x81 && b <= 0x9f || b >= 0xe0 {
			n = 2
		}
	case "ujis", "eucjpms":
		switch {
		case b == 0x8f:
			n = 3
		case b == 0x8e || b >= 0xa1:
			n = 2
		}
	case "gb18030":
		switch {
		case b < 0x81:
		case len(p) > 1 && p[1] >= '0' && p[1] <= '9':
			n = 4
		default:
			n = 2
		}
	case "gbk", "gb2312", "big5", "euckr":
		if b >= 0x81 {
			n = 2
		}
	default: // unknown character set: the value as a whole
		n = len(p)
	}
	return min(n, len(p))
}

// unicode decodes the wide forms of Unicode.
func (c *charset) unicode(dst, v []byte) []byte {
	size := 2
	if c.name == "utf32" {
		size = 4
	}
	for i := 0; i+size <= len(v); i += size {
		r := rune(big8(v[i : i+size]))
		if c.name == "utf16le" {
			r = rune(Little(v[i : i+size]))
		}
		if size == 2 && utf16.IsSurrogate(r) && i+4 <= len(v) {
			low := rune(big8(v[i+2 : i+4]))
			if c.name == "utf16le" {
				low = rune(Little(v[i+2 : i+4]))
			}
			r = utf16.DecodeRune(r, low)
			i += 2
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// collation returns the character set of a collation's number.
func (s *Charsets) collation(n uint64) (string, error) {
	if s.Collations == nil {
		got, err := s.Ask("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID IS NOT NULL")
		var my *gomysql.MyError
		if errors.As(err, &my) { // MariaDB has that from 10.10 on, where COLLATIONS leaves some out
			got, err = s.Ask("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID IS NOT NULL")
		}
		if err != nil {
			return "", err
		}
		s.Collations = map[uint64]string{}
		for _, row := range got {
			id, _ := strconv.ParseUint(row[0], 10, 64)
			s.Collations[id] = row[1]
		}
	}
	set, ok := s.Collations[n]
	if !ok {
		return "", fmt.Errorf("the log has collation number %d, which the server does not know", n)
	}
	return set, nil
}

// InUTF8 returns the text of a statement, which is in its client's character set.
func (s *Charsets) InUTF8(text []byte, client uint64) (string, error) {
	if client == 0 || !slices.ContainsFunc(text, func(b byte) bool { return b >= 0x80 }) {
		return string(text), nil
	}
	name, err := s.collation(client)
	if err != nil {
		return "", err
	}
	set, err := s.named(name)
	if err != nil || set == nil || name == "binary" {
		return string(text), err
	}
	out, err := set.decode(nil, text)
	return string(out), err
}
