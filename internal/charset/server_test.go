package charset

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

var update = flag.Bool("update", false, "write servers.txt anew, as MySQL has the sets; run again without to compare")

// A server converts as it does for its own clients.
type server struct {
	t       *testing.T
	session *testdb.Session
}

func ask(t *testing.T, s *testdb.Server) *server {
	out := &server{t, testdb.NewSession(s.NewDatabase(t, "charset"))}
	t.Cleanup(out.session.Close)
	var bytes []string
	for i := range 256 {
		bytes = append(bytes, fmt.Sprintf("('%02X')", i))
	}
	out.query("SET SESSION group_concat_max_len = 1000000, sql_mode = ''; CREATE TABLE b (h char(2) CHARACTER SET ascii PRIMARY KEY); INSERT INTO b VALUES " + strings.Join(bytes, ","))
	return out
}

func (s *server) query(sql string) string {
	s.t.Helper()
	out, err := s.session.Try(sql)
	if err != nil {
		s.t.Fatal(err, sql)
	}
	return out
}

// sets lists all sets except binary, ASCII and UTF-8.
func (s *server) sets() []string {
	return strings.Fields(s.query("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME NOT IN ('binary','ascii','utf8','utf8mb3','utf8mb4') ORDER BY 1"))
}

// convert calls do with all sequences of prefix and n more bytes, of which w, x, y and z are the
// last four, and with their conversion; nil for NULL.
func (s *server) convert(from, to, prefix string, n int, where string, do func(seq, text []byte)) {
	s.t.Helper()
	names := []string{"w", "x", "y", "z"}[4-n:]
	seq, tables := "CONCAT('"+prefix+"'", ""
	for i, name := range names {
		if seq += "," + name + ".h"; i > 0 {
			tables += ","
		}
		tables += "b " + name
	}
	head := strings.TrimSuffix(seq, ",z.h") + ",'')"
	rows := s.query("SELECT CONCAT(" + head + ",' ',GROUP_CONCAT(CONCAT(z.h,':',IFNULL(HEX(CONVERT(CONVERT(UNHEX(" + seq + ")) USING " + from + ") USING " + to + ")),'-')) ORDER BY z.h SEPARATOR ' '))" +
		" FROM " + tables + " WHERE " + where + " GROUP BY " + head)
	for row := range strings.Lines(rows) {
		head, rest, _ := strings.Cut(strings.TrimSuffix(row, "\n"), " ")
		for _, answer := range strings.Split(rest, " ") {
			last, text, _ := strings.Cut(answer, ":")
			if text == "-" {
				do(unhex(s.t, head+last), nil)
			} else {
				do(unhex(s.t, head+last), unhex(s.t, text))
			}
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sequences queries what text of a set is in UTF-8: all sequences of one and two bytes, and the
// longer ones that the set has. The short form omits most pairs of single bytes, and most planes.
func (s *server) sequences(set string, do func(seq, text []byte)) {
	sh, many := shapes[set]
	unicode := strings.HasPrefix(set, "u") && set != "ujis"
	if !unicode {
		s.convert(set, UTF8, "", 1, "true", do)
	}
	switch {
	case set == "utf32":
		for _, prefix := range []string{"0000", "0001", "0010", "0011", "FF00"} {
			s.convert(set, UTF8, prefix, 2, "true", do)
		}
		return
	case many || unicode || testdb.Long():
		s.convert(set, UTF8, "", 2, "true", do)
	default:
		s.convert(set, UTF8, "", 2, "y.h LIKE '%7'", do) // pairs of characters
	}
	switch {
	case sh.three:
		s.convert(set, UTF8, "8F", 2, "true", do)
	case sh.four:
		digits := "x.h BETWEEN '30' AND '39' AND z.h BETWEEN '30' AND '39' AND "
		s.convert(set, UTF8, "", 4, digits+"w.h BETWEEN '81' AND '85'", do)
		if testdb.Long() || *update {
			s.convert(set, UTF8, "", 4, digits+"w.h > '85'", do)
		} else {
			s.convert(set, UTF8, "", 4, digits+"(w.h='90' AND x.h='30' OR w.h='E3' AND x.h='32' OR w.h='E4' AND x.h='30')", do)
		}
	case set == "utf16":
		s.convert(set, UTF8, "D83D", 2, "true", do)
	case set == "utf16le":
		s.convert(set, UTF8, "3DD8", 2, "true", do)
	}
}

// characters queries the bytes of characters in a set.
func (s *server) characters(set string, do func(text, seq []byte)) {
	where := "x.h = '00'"
	switch _, many := shapes[set]; {
	case testdb.Long():
		where = "x.h IN ('00','01','02','10')"
	case !many:
		where = "(x.h = '00' AND (y.h < '30' OR y.h > 'F0') OR x.h = '01' AND y.h = 'F6')"
	}
	utf := func(seq, bytes []byte) {
		r := rune(seq[1])<<16 | rune(seq[2])<<8 | rune(seq[3])
		do(utf8.AppendRune(nil, r), bytes)
	}
	s.convert("utf32", set, "00", 3, where+" AND NOT (x.h = '00' AND y.h BETWEEN 'D8' AND 'DF')", utf)
}

// Each byte sequence and each character converts as on the servers, or is an error where they
// return a question mark, U+FFFD, or nothing.
func TestAsTheServers(t *testing.T) {
	for _, start := range []func(testing.TB) *testdb.Server{testdb.MariaDB, testdb.MySQL} {
		s := start(t)
		t.Run(s.Engine, func(t *testing.T) {
			s := ask(t, s)
			if *update && strings.HasSuffix(t.Name(), "mysql") {
				s.write()
				return
			}
			for _, set := range s.sets() {
				t.Run(set, func(t *testing.T) {
					s.t = t
					s.compare(set)
				})
			}
		})
	}
}

func (s *server) compare(set string) {
	read, ok := New(set, UTF8)
	write, ok2 := New(UTF8, set)
	if !ok || !ok2 {
		s.t.Fatal("this set is not known")
	}
	wrong, seen := 0, 0
	check := func(r *Recoder, in, want []byte, refused bool) {
		got, n, err := r.Append(nil, in, true)
		switch seen++; {
		case err == nil && n == len(in) && bytes.Equal(got, want) && (want != nil):
			return
		case err != nil && refused:
			return
		}
		if wrong++; wrong <= 10 {
			s.t.Errorf("%X from %s to %s is %X (%v), on the server %X", in, r.fromName, r.toName, got, err, want)
		}
	}
	alone := map[string][]byte{}
	s.sequences(set, func(seq, text []byte) {
		if len(seq) == 1 {
			alone[string(seq)] = text
		}
		lost := bytes.ContainsRune(text, '?') || !utf8.Valid(text) || bytes.ContainsRune(text, utf8.RuneError)
		cut := len(seq) == 2 && bytes.Equal(text, alone[string(seq[:1])]) // MySQL 8.0 drops half a character of eucjpms
		check(read, seq, text, len(text) == 0 || lost || cut)
	})
	s.characters(set, func(text, seq []byte) {
		// A question mark, or bytes that read as another character: tis620 takes the last byte of a
		// character it lacks, and cp932 writes U+6661 as U+6659.
		back, _, err := read.Append(nil, seq, true)
		lost := err != nil || !bytes.Equal(back, text)
		check(write, text, seq, seq == nil || lost)
	})
	if wrong > 10 {
		s.t.Errorf("and %d more", wrong-10)
	}
	s.t.Logf("%d sequences and characters", seen)
}

// write generates servers.txt.
func (s *server) write() {
	var out strings.Builder
	for _, set := range s.sets() {
		if codingOf(set) != nil && tableOf(set) == nil {
			continue // a form of Unicode
		}
		s.t.Log(set)
		fmt.Fprintf(&out, "[%s]\n%s", set, s.differences(set))
	}
	if err := os.WriteFile("servers.txt", []byte(out.String()), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// differences returns the lines of a set.
func (s *server) differences(set string) string {
	t := newTable(set)
	want := map[uint32]rune{}
	s.sequences(set, func(seq, text []byte) {
		r, n := utf8.DecodeRune(text)
		_, two := want[uint32(seq[0])]
		if two = two && len(seq) > 1; !two && n == len(text) && r != utf8.RuneError && (r != '?' || string(seq) == "?") {
			want[codeOf(seq)] = r
		}
	})
	var lines runs
	t.each(func(code uint32, have rune) {
		r, ok := want[code]
		if !ok {
			r = -1
		}
		if r != have {
			lines.add(code, r)
		}
	})
	t.apply(lines.String())
	var preferred []uint32
	s.characters(set, func(text, seq []byte) {
		r, _ := utf8.DecodeRune(text)
		if code := codeOf(seq); want[code] == r && r <= 0xffff && r > 0 && t.back[r] != code {
			preferred = append(preferred, code)
		}
	})
	slices.Sort(preferred)
	for _, code := range preferred {
		lines.add(code, -2)
	}
	return lines.String()
}

func codeOf(seq []byte) (code uint32) {
	for _, b := range seq {
		code = code<<8 | uint32(b)
	}
	return code
}

// runs joins adjacent entries into one line.
type runs struct {
	lines []string
	low   uint32
	high  uint32
	r     rune
}

func (l *runs) add(code uint32, r rune) {
	if l.high+1 == code && l.low > 0 && (r < 0 && r == l.r || r >= 0 && l.r >= 0 && r == l.r+rune(code-l.low)) {
		l.high = code
		return
	}
	l.end()
	l.low, l.high, l.r = code, code, r
}

func (l *runs) end() {
	if l.low == 0 {
		return
	}
	line := fmt.Sprintf("%X", l.low)
	if l.high > l.low {
		line += fmt.Sprintf("-%X", l.high)
	}
	switch l.r {
	case -1:
		line += " -"
	case -2:
		line += " <"
	default:
		line += fmt.Sprintf(" %X", l.r)
	}
	l.lines = append(l.lines, line+"\n")
	l.low = 0
}

func (l *runs) String() string {
	l.end()
	return strings.Join(l.lines, "")
}
