package text

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// clean gives a line as UTF-8 with plain blanks: tabs are expanded, so that columns stay under
// their headings; bytes that are not UTF-8 are taken for Windows-1252, which includes Latin-1.
func clean(line []byte) string {
	plain := true
	for _, b := range line {
		if b < ' ' || b >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return string(line)
	}
	var out strings.Builder
	column := 0
	write := func(r rune) {
		out.WriteRune(r)
		column++
	}
	valid := utf8.Valid(line)
	for len(line) > 0 {
		r, n := rune(line[0]), 1
		if valid {
			r, n = utf8.DecodeRune(line)
		} else if r == 0x96 || r == 0x97 { // en and em dash
			r += '–' - 0x96
		}
		line = line[n:]
		switch {
		case r == '\t':
			for write(' '); column%8 != 0; {
				write(' ')
			}
		case r == '\ufeff' || r == '\u200b' || r == '\u200e' || r == '\u200f':
		case unicode.IsSpace(r) || unicode.IsControl(r):
			write(' ')
		default:
			write(r)
		}
	}
	return out.String()
}

// isDash reports whether r is one of the characters that stand for a minus or make a rule.
func isDash(r rune) bool {
	return r == '-' || r == '−' || r == '\u00ad' || r == '─' || r == '━' || r == '⎯' || unicode.Is(unicode.Pd, r)
}

// isRule reports whether a word is part of a line under headings.
func isRule(word string) bool {
	for _, r := range word {
		if !isDash(r) && r != '=' && r != '_' && r != '+' && r != ':' {
			return false
		}
	}
	return word != ""
}

// A word is a word of a line, with the columns that it has.
type word struct {
	text       string
	start, end int // end is the column after it
}

// words are the words of a line. Bars separate them, as in tables of web pages.
func words(s string) (out []word) {
	column, begin := 0, -1
	var text strings.Builder
	end := func() {
		if begin >= 0 {
			out = append(out, word{text.String(), begin, column})
			text.Reset()
			begin = -1
		}
	}
	for _, r := range s {
		if r == ' ' || r == '|' || r == '│' {
			end()
		} else {
			if begin < 0 {
				begin = column
			}
			text.WriteRune(r)
		}
		column++
	}
	end()
	return out
}

// number reads 140.23, 2,960,720, 140,23, and a dash of any kind before it. A dash alone, and "Not
// applicable", are no number.
func number(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	sign := 1.0
	if r, n := utf8.DecodeRuneInString(s); isDash(r) {
		sign, s = -1, s[n:]
	}
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	if strings.Contains(s, ",") {
		groups := strings.Split(s, ",")
		thousands := len(groups[0]) <= 3 && strings.Trim(groups[0], "0") != "" && !strings.Contains(groups[0], ".")
		for _, g := range groups[1:] {
			whole, _, _ := strings.Cut(g, ".")
			thousands = thousands && len(whole) == 3
		}
		switch {
		case thousands:
			s = strings.ReplaceAll(s, ",", "")
		case len(groups) == 2 && !strings.Contains(s, "."):
			s = groups[0] + "." + groups[1]
		default:
			return 0, false
		}
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && c != '.' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return sign * f, err == nil && f < 1e18
}

// maxSeconds is 23 days: sums of the times of maxWorkers fit into a time.Duration.
const maxSeconds = 2e6

// duration reads seconds, as a number, or as hours, minutes and seconds.
func duration(s string) (time.Duration, bool) {
	s = strings.TrimSuffix(strings.TrimSpace(s), "s")
	var sum float64
	for _, part := range strings.Split(s, ":") {
		f, ok := number(part)
		if !ok || f > 1e9 {
			return 0, false
		}
		sum = sum*60 + f
	}
	if sum > maxSeconds {
		return 0, false
	}
	return time.Duration(max(sum, 0) * float64(time.Second)), true
}

// moments are the forms in which Db2 prints a time.
var moments = []string{
	"2006-01-02-15.04.05.999999", "01/02/2006 15:04:05.999999", "2006-01-02 15:04:05.999999", "2006-01-02T15:04:05.999999",
	"02.01.2006 15:04:05.999999", "Mon Jan _2 15:04:05 2006", "Jan _2 15:04:05 2006",
}

// moment reads a time as the clock of the server shows it: the zone is left out.
func moment(s string) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if i := strings.Index(s, " ("); i > 0 { // its seconds since 1970
		s = s[:i]
	}
	for _, form := range moments {
		if t, err := time.Parse(form, s); err == nil && t.Year() > 1990 && t.Year() < 2200 {
			return t, true
		}
	}
	return time.Time{}, false
}

// packed are the first bytes of compressed files.
var packed = []string{"\x1f\x8b", "\x28\xb5\x2f\xfd", "\xfd7zXZ", "BZh", "PK\x03\x04"}

// binary reports whether a file begins with what no text has. Further on a log may have anything.
func binary(head []byte) bool {
	for _, p := range packed {
		if bytes.HasPrefix(head, []byte(p)) {
			return true
		}
	}
	return bytes.IndexByte(head[:min(512, len(head))], 0) >= 0
}

// wideText reports whether a text is UTF-16, as PowerShell writes redirected output: by its mark,
// or by the zeros beside its first letters.
func wideText(head []byte) (is, bigEndian bool) {
	if len(head) < 4 {
		return false, false
	}
	switch a, b := head[0], head[1]; {
	case a == 0xff && b == 0xfe, b == 0 && head[3] == 0 && a != 0 && head[2] != 0:
		return true, false
	case a == 0xfe && b == 0xff, a == 0 && head[2] == 0 && b != 0 && head[3] != 0:
		return true, true
	}
	return false, false
}

// narrow gives UTF-16 as UTF-8. Pairs of surrogates become what is no letter: no text of Db2 that
// is read has any.
func narrow(in io.Reader, bigEndian bool) io.Reader { return &narrowed{in: in, big: bigEndian} }

type narrowed struct {
	in   io.Reader
	big  bool
	rest []byte
}

func (n *narrowed) Read(to []byte) (int, error) {
	for len(n.rest) == 0 {
		var raw [4096]byte
		got, err := io.ReadFull(n.in, raw[:])
		for i := 0; i+1 < got; i += 2 {
			u := uint16(raw[i]) | uint16(raw[i+1])<<8
			if n.big {
				u = uint16(raw[i])<<8 | uint16(raw[i+1])
			}
			r := rune(u)
			if utf16.IsSurrogate(r) || u == 0 {
				r = utf8.RuneError
			}
			n.rest = utf8.AppendRune(n.rest, r)
		}
		if got == 0 && err != nil {
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			return 0, err
		}
	}
	k := copy(to, n.rest)
	n.rest = n.rest[k:]
	return k, nil
}
