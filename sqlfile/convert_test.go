package sqlfile

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/charmap"
	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
)

const manyKinds = "CREATE TABLE `k` (`i` bigint, `t` varchar(100) CHARACTER SET utf8mb4, `b` longblob, `l` text CHARACTER SET latin1, `bits` bit(12), `bin` binary(6), `j` json, `g` int GENERATED ALWAYS AS (`i`+1) VIRTUAL) DEFAULT CHARSET=utf8mb4;\n"

// A sample is one value: as the file writes it, and the expected output.
type sample struct {
	literal    string
	load, copy string // without the escapes of the batch; "\x00NULL" is NULL
}

const nullMark = "\x00NULL"

// quotedGen writes a value as a string literal, with each byte in a randomly chosen form.
func quotedGen(t *rapid.T, v string) string {
	q := rapid.SampledFrom([]string{"'", `"`}).Draw(t, "quote")
	ways := rapid.SliceOfN(rapid.IntRange(0, 1), 1, 7).Draw(t, "ways")
	var b strings.Builder
	b.WriteString(q)
	for i := range len(v) {
		c, way := v[i], ways[i%len(ways)]
		switch {
		case string(c) == q && way == 0:
			b.WriteString(q + q)
		case c == '\\' || string(c) == q || c == '"' && way == 1:
			b.WriteString(`\` + string(c))
		case c == 0:
			b.WriteString(`\0`)
		case strings.IndexByte("\n\r\t\b\x1a", c) >= 0 && way == 1:
			b.WriteString(map[byte]string{'\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, 0x1a: `\Z`}[c])
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + q
}

func textGen(t *rapid.T, alphabet []string, name string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 30).Draw(t, name), "")
}

var textParts = []string{"a", "bcdefghijk", "'", `"`, `\`, "\n", "\r", "\t", "\b", "\v", "\f", "\x1a", "%", "_", "é", "日", "😀", "),(", "NULL", "\\N", "\x1f"}

// samplesOf returns a row of values, in the order of the table's columns.
func samplesOf(t *rapid.T) []sample {
	null := func(name string, s sample) sample {
		if rapid.IntRange(0, 5).Draw(t, name+" null") == 0 {
			return sample{"NULL", nullMark, nullMark}
		}
		return s
	}
	n := fmt.Sprint(rapid.Int64().Draw(t, "int"))
	text := textGen(t, textParts, "text")
	textLit := quotedGen(t, text)
	switch rapid.IntRange(0, 4).Draw(t, "text form") {
	case 0:
		textLit = "_utf8mb4" + textLit
	case 1:
		textLit = "x'" + hex.EncodeToString([]byte(text)) + "'"
	case 2:
		if text != "" {
			textLit = "0x" + hex.EncodeToString([]byte(text))
		}
	}
	blob := string(rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "blob"))
	blobLit := "_binary " + quotedGen(t, blob)
	if rapid.Bool().Draw(t, "hexed") && blob != "" {
		blobLit = "0x" + strings.ToUpper(hex.EncodeToString([]byte(blob)))
	}
	lat := textGen(t, []string{"a", "é", "€", "ß", "'", "\\", "long stretch of plain text"}, "latin")
	inLatin, err := charmap.Windows1252.NewEncoder().String(lat)
	if err != nil {
		t.Fatal(err)
	}
	latLit := quotedGen(t, lat)
	if rapid.Bool().Draw(t, "latin bytes") {
		latLit = "_latin1 x'" + hex.EncodeToString([]byte(inLatin)) + "'"
	}
	num := rapid.IntRange(0, 4095).Draw(t, "bits")
	bitBytes := string([]byte{byte(num >> 8), byte(num)})
	bitLit := rapid.SampledFrom([]string{fmt.Sprintf("b'%012b'", num), fmt.Sprint(num), fmt.Sprintf("0x%04x", num), quotedGen(t, bitBytes)}).Draw(t, "bit form")
	bin := string(rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "bin"))
	return []sample{
		null("i", sample{n, n, n}),
		null("t", sample{textLit, text, text}),
		null("b", sample{blobLit, blob, `\x` + hex.EncodeToString([]byte(blob))}),
		null("l", sample{latLit, inLatin, lat}),
		null("bits", sample{bitLit, bitBytes, fmt.Sprintf("%012b", num)}),
		null("bin", sample{quotedGen(t, bin), bin, `\x` + hex.EncodeToString([]byte(bin+strings.Repeat("\x00", 6-len(bin))))}),
		null("j", sample{quotedGen(t, `{"a": "`+lat+`"}`), `{"a": "` + lat + `"}`, `{"a": "` + lat + `"}`}),
	}
}

// undo parses the batch form back, byte by byte.
func undo(s string) [][]string {
	var rows [][]string
	var row []string
	var v []byte
	isNull := false
	end := func() {
		if isNull {
			v = []byte(nullMark)
		}
		row, v, isNull = append(row, string(v)), nil, false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\t':
			end()
		case '\n':
			end()
			rows, row = append(rows, row), nil
		case '\\':
			i++
			if s[i] == 'N' {
				isNull = true
				continue
			}
			if r, ok := map[byte]byte{'0': 0, 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', 'Z': 0x1a}[s[i]]; ok {
				v = append(v, r)
			} else {
				v = append(v, s[i])
			}
		default:
			v = append(v, c)
		}
	}
	if len(row) > 0 || len(v) > 0 {
		rows = append(rows, append(row, "UNFINISHED "+string(v)))
	}
	return rows
}

// Literals are converted to their values, in both forms, whatever the size of pieces and parts, and
// the order of columns.
func TestConvertValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file strings.Builder
		file.WriteString(manyKinds)
		var load, copied [][]string
		order := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6}).Draw(t, "order")
		if rapid.Bool().Draw(t, "in order") {
			order = []int{0, 1, 2, 3, 4, 5, 6}
		}
		names := []string{"`i`", "`t`", "`b`", "`l`", "`bits`", "`bin`", "`j`", "`g`"}
		columns := make([]string, 0, 8)
		for _, o := range order {
			columns = append(columns, names[o])
		}
		for range rapid.IntRange(1, 6).Draw(t, "rows") {
			row := samplesOf(t)
			var lits []string
			for _, o := range order {
				lits = append(lits, row[o].literal)
			}
			fmt.Fprintf(&file, "INSERT INTO `k` (%s,`g`) VALUES (%s,DEFAULT);\n", strings.Join(columns, ","), strings.Join(lits, ","))
			var a, b []string
			for _, s := range row {
				a, b = append(a, s.load), append(b, s.copy)
			}
			load, copied = append(load, a), append(copied, b)
		}
		opt := Options{Piece: rapid.IntRange(1, 500).Draw(t, "piece")}
		if rapid.Bool().Draw(t, "large") {
			opt.Piece = 1 << 20
		}
		for f, want := range map[tidemark.Format][][]string{tidemark.LoadData: load, tidemark.CopyText: copied} {
			sts, err := read(strings.NewReader(file.String()), opt)
			if err != nil {
				t.Fatal(err)
			}
			var pieces []*Tuples
			for _, st := range sts[1:] {
				pieces = append(pieces, st.Tuples)
			}
			got, rows, err := convert(move(sts[0].Def), f, ConvertOptions{}, pieces...)
			if err != nil {
				t.Fatalf("%v\n%s", err, file.String())
			}
			if diff := cmp.Diff(want, undo(got)); diff != "" || rows != len(want) {
				t.Fatalf("%v: %d rows, %s\nof\n%s", f, rows, diff, file.String())
			}
		}
	})
}

// one converts one value into a column of a type.
func one(t *testing.T, f tidemark.Format, opt ConvertOptions, set, typ, literal string, to tidemark.TypeKind) (string, error) {
	t.Helper()
	sts := all(t, strings.NewReader(set+"CREATE TABLE t (c "+typ+") DEFAULT CHARSET=utf8mb4; INSERT INTO t VALUES ("+literal+");"), Options{Name: "x.sql"})
	st := sts[len(sts)-1]
	m := move(st.Tuples.Def)
	if to != tidemark.Other {
		target := *m.To
		target.Columns = []tidemark.Column{{Name: "c", Type: tidemark.Type{Kind: to}}}
		m.To = &target
	}
	got, _, err := convert(m, f, opt, st.Tuples)
	return strings.TrimSuffix(got, "\n"), err
}

func TestCanonicalText(t *testing.T) {
	const cet, utc = "SET TIME_ZONE='+02:00';", "SET TIME_ZONE='+00:00';"
	for _, c := range []struct {
		set, typ, literal string
		to                tidemark.TypeKind
		want              string
	}{
		{"", "int(8) zerofill", "00000042", 0, "42"},
		{"", "int(8) zerofill", "'00000000'", 0, "0"},
		{"", "int", "0x1F", 0, "31"},
		{"", "int", "TRUE", 0, "1"},
		{"", "int", "- 5", 0, "-5"},
		{"", "bigint unsigned", "18446744073709551615", 0, "18446744073709551615"},
		{"", "decimal(65,30)", "-0.000000000000000000000000000001", 0, "-0.000000000000000000000000000001"},
		{"", "decimal(5,2)", ".5", 0, "0.5"},
		{"", "double", "1.7976931348623157e308", 0, "1.7976931348623157e308"},
		{"", "double", "-1E-5", 0, "-1e-5"},
		{"", "year", "0000", 0, "0"},
		{"", "tinyint(1)", "5", tidemark.Bool, "t"},
		{"", "tinyint(1)", "'0'", tidemark.Bool, "f"},
		{"", "bit(1)", "b'1'", tidemark.Bool, "t"},
		{"", "bit(1)", `'\0'`, tidemark.Bool, "f"},
		{"", "bit(8)", "b'101'", 0, "00000101"},
		{"", "bit(3)", "5", 0, "101"},
		{"", "bit(64)", "0xffffffffffffffff", 0, strings.Repeat("1", 64)},
		{"", "date", "'2024-02-29'", 0, "2024-02-29"},
		{"", "date", "20240131", 0, "2024-01-31"},
		{"", "date", "'24-1-2'", 0, "2024-01-02"},
		{"", "datetime", "'2024-02-29 12:34:56'", 0, "2024-02-29 12:34:56"},
		{"", "datetime(6)", "'2024-02-29 12:34:56.789000'", 0, "2024-02-29 12:34:56.789"},
		{"", "datetime(3)", "'2024-02-29 12:34:56.000'", 0, "2024-02-29 12:34:56"},
		{"", "datetime", "'2024-02-29'", 0, "2024-02-29 00:00:00"},
		{"", "datetime", "20240229123456", 0, "2024-02-29 12:34:56"},
		{utc, "timestamp", "'2024-02-29 12:34:56'", 0, "2024-02-29 12:34:56+00"},
		{cet, "timestamp(3)", "'2024-03-01 01:34:56.500'", 0, "2024-02-29 23:34:56.5+00"},
		{"", "time", "'-838:59:59'", tidemark.Interval, "PT-838H-59M-59S"},
		{"", "time(6)", "'-00:00:00.500000'", tidemark.Interval, "PT-0.5S"},
		{"", "time", "'00:00:00'", tidemark.Interval, "PT0S"},
		{"", "time(3)", "'12:04:56.700'", tidemark.Interval, "PT12H4M56.7S"},
		{"", "time(3)", "'12:04:56.700'", tidemark.Time, "12:04:56.7"},
		{"", "enum('a','it''s')", "'it''s'", 0, "it's"},
		{"", "enum('a','b')", "2", 0, "b"},
		{"", "set('x','y','z')", "5", 0, "x,z"},
		{"", "varchar(9)", "12.50", 0, "12.50"},
		{"", "varchar(9)", `'\%\_\x\N'`, 0, `\\%\\_xN`},
		{"", "varchar(9)", "N'é'", 0, "é"},
		{"", "varchar(9) charset latin1", "x'e980'", 0, "é€"},
		{"", "varchar(9) charset latin1", "x'818d8f909d'", 0, "\u0081\u008d\u008f\u0090\u009d"},
		{"", "varchar(9) charset sjis", "x'815f'", 0, `\\`},
		{"SET NAMES latin1;", "varchar(9)", "'\xe9'", 0, "é"},
		{"SET NAMES binary;", "varchar(9) charset latin1", "'\xe9'", 0, "é"},
		{"", "blob", `'\0\'\\\%'`, 0, `\\x00275c5c25`},
		{"", "binary(4)", "'ab'", 0, `\\x61620000`},
		{"", "binary(4)", "0x61", 0, `\\x61000000`},
		{"", "blob", "''", 0, `\\x`},
		{"", "json", `'{"a":"\\"}'`, 0, `{"a":"\\"}`},
		{"", "point", "0x00000000010100000000000000000000000000000000000000", 0, "010100000000000000000000000000000000000000"},
		{"", "point", "0x00000000010100000000000000000000000000000000000000", tidemark.Blob, `\\x010100000000000000000000000000000000000000`},
		{"", "point", `_binary '\xE6\x10\0\0\x01\x01\0\0\0'`, 0, ""},
		{"", "point", "0xE6100000010100000000000000000000000000000000000000", 0, "0101000020e610000000000000000000000000000000000000"},
		{"", "int", "/*!50705 7,*/ NULL", 0, "!"},
		{"", "int", "/* x */ 7 /*!99999 */", 0, "7"},
		{"", "int DEFAULT 12", "DEFAULT", 0, "12"},
		{"", "varchar(9)", "DEFAULT", 0, `\N`},
		{"SET sql_mode='NO_BACKSLASH_ESCAPES';", "varchar(9)", `'a\''b'`, 0, `a\\'b`},
	} {
		got, err := one(t, tidemark.CopyText, ConvertOptions{}, c.set, c.typ, c.literal, c.to)
		if c.want == "!" || c.want == "" {
			if err == nil {
				t.Errorf("%s %s gives %q, not an error", c.typ, c.literal, got)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s %s: %q, %v, want %q", c.typ, c.literal, got, err, c.want)
		}
	}
}

func TestZeroDates(t *testing.T) {
	for _, lit := range []string{"'0000-00-00'", "'2024-00-00'", "'2023-02-31'", "0"} {
		for policy, want := range map[ZeroDates]string{ZeroNull: `\N`, ZeroEpoch: "1970-01-01"} {
			if lit == "0" {
				continue
			}
			if got, err := one(t, tidemark.CopyText, ConvertOptions{ZeroDates: policy}, "", "date", lit, 0); err != nil || got != want {
				t.Errorf("%s: %q, %v", lit, got, err)
			}
		}
		if got, err := one(t, tidemark.CopyText, ConvertOptions{}, "", "date", lit, 0); tidemark.KindOf(err) != tidemark.BadRow {
			t.Errorf("%s: %q, %v", lit, got, err)
		}
	}
	got, err := one(t, tidemark.LoadData, ConvertOptions{}, "", "datetime", "'0000-00-00 00:00:00'", 0)
	if err != nil || got != "0000-00-00 00:00:00" {
		t.Errorf("LOAD DATA: %q, %v", got, err)
	}
}

func TestConvertErrors(t *testing.T) {
	for _, c := range []struct {
		format    tidemark.Format
		typ, lits string
		kind      tidemark.Kind
		raw       bool
		text      string
	}{
		{tidemark.LoadData, "int", "1,2", tidemark.BadInput, false, "read x.sql: byte 72 (line 1): table t: a row has more values than the table has columns"},
		{tidemark.LoadData, "int, d int", "1", tidemark.BadInput, false, "read x.sql: byte 79 (line 1): table t: a row has 1 values, the table takes 2"},
		{tidemark.LoadData, "datetime", "now()", tidemark.Unsupported, true, `read x.sql: byte 75 (line 1): table t: the expression at "now())": an expression that only the server can evaluate`},
		{tidemark.LoadData, "geometry", "ST_GeomFromText('POINT(1 2)')", tidemark.Unsupported, true, ""},
		{tidemark.LoadData, "int", "1+2", tidemark.Unsupported, true, ""},
		{tidemark.LoadData, "json", "CONVERT('a' USING latin1)", tidemark.Unsupported, true, ""},
		{tidemark.LoadData, "json", "CONVERT(CONVERT('a' USING utf8mb4) USING utf8mb4)", tidemark.Unsupported, true, ""},
		{tidemark.LoadData, "json", "CONVERT('a')", tidemark.Unsupported, true, ""},
		{tidemark.LoadData, "int", "1-2", tidemark.Unsupported, true, ""},
		{tidemark.LoadData, "varchar(9)", "'a' 'b'", tidemark.Unsupported, true, ""},
		{tidemark.LoadData, "varchar(9)", "DEFAULT", tidemark.Unsupported, true, ""},
		{tidemark.LoadData, "varchar(9)", "`x`", tidemark.Unsupported, true, ""},
		{tidemark.LoadData, "varchar(9)", "@x", tidemark.Unsupported, true, ""},
		{tidemark.LoadData, "varchar(9)", "x'4g'", tidemark.BadInput, false, ""},
		{tidemark.LoadData, "varchar(9) charset latin1", "'日'", tidemark.BadRow, false, ""},
		{tidemark.LoadData, "varchar(9) charset ucs2", "'😀'", tidemark.BadRow, false, ""},
		{tidemark.LoadData, "varchar(9) charset klingon", "'a'", tidemark.Unsupported, true, ""},
		{tidemark.CopyText, "varchar(9) charset sjis", "x'4161ed40'", tidemark.BadRow, false, "read x.sql: byte 90 (line 1): table t: column c: the bytes ED40 are no character in sjis"},
		{tidemark.CopyText, "varchar(9) charset big5", "x'a15a'", tidemark.BadRow, false, ""},
		{tidemark.CopyText, "varchar(9) charset ujis", "x'41a1'", tidemark.BadRow, false, "read x.sql: byte 90 (line 1): table t: column c: the text ends inside a character of ujis: A1"},
		{tidemark.CopyText, "varchar(9) charset utf16", "x'd83d0041'", tidemark.BadRow, false, ""},
		{tidemark.CopyText, "varchar(9)", `'a\0b'`, tidemark.BadRow, false, "read x.sql: byte 79 (line 1): table t: a text value holds a NUL byte, which PostgreSQL's text cannot hold"},
		{tidemark.CopyText, "varchar(9)", "_latin1 x'00'", tidemark.BadRow, false, ""},
		{tidemark.CopyText, "int", "'many'", tidemark.BadRow, false, `read x.sql: byte 70 (line 1): table t: column c (int): "many" is not a value of its type`},
		{tidemark.CopyText, "date", "'tomorrow'", tidemark.BadRow, false, ""},
		{tidemark.CopyText, "int auto_increment primary key", "NULL", tidemark.Unsupported, true, ""},
		{tidemark.CopyText, "point", "0x0102", tidemark.BadRow, false, ""},
	} {
		got, err := one(t, c.format, ConvertOptions{}, "", c.typ, c.lits, 0)
		if tidemark.KindOf(err) != c.kind || errors.Is(err, ErrRaw) != c.raw || c.text != "" && err.Error() != c.text {
			t.Errorf("%s %s: %q, %v (%v)", c.typ, c.lits, got, err, tidemark.KindOf(err))
		}
	}
}

// A value of many megabytes is converted in parts, and no batch is larger than a piece.
func TestGiantValues(t *testing.T) {
	big := bytes.Repeat([]byte(`0123456789\'é`+"\n"), 3<<20/15)
	var file bytes.Buffer
	file.WriteString("CREATE TABLE `g` (`a` int, `b` longblob, `c` longtext) DEFAULT CHARSET=latin1;\nINSERT INTO `g` VALUES (1,'x','y'),(2,'")
	file.Write(big)
	file.WriteString("',0x" + strings.Repeat("4a4B", 1<<20) + "),(3,_binary '" + string(big) + "','" + string(big) + "'),(4,NULL,NULL);\n")
	value := strings.ReplaceAll(string(big), `\'`, "'")
	latin, err := charmap.Windows1252.NewEncoder().String(value)
	if err != nil {
		t.Fatal(err)
	}
	hexed := `\x` + hex.EncodeToString([]byte(value))
	jk := strings.Repeat("JK", 1<<20)
	want := map[tidemark.Format][][]string{
		tidemark.LoadData: {{"1", "x", "y"}, {"2", value, jk}, {"3", value, latin}, {"4", nullMark, nullMark}},
		tidemark.CopyText: {{"1", `\x78`, "y"}, {"2", hexed, jk}, {"3", hexed, value}, {"4", nullMark, nullMark}},
	}
	for _, piece := range []int{64 << 10, 1 << 20, 4 << 20} {
		sts := all(t, bytes.NewReader(file.Bytes()), Options{Piece: piece})
		parts := 0
		for f, want := range want {
			var got strings.Builder
			c := NewConverter(move(sts[0].Def), f, ConvertOptions{})
			for _, st := range sts[1:] {
				if st.Tuples.More {
					parts++
				}
				if err := c.Convert(st.Tuples, nil, func(b *tidemark.Batch) error {
					if len(b.Data) > tidemark.PieceSize+tidemark.BatchSize {
						return fmt.Errorf("a batch of %d bytes", len(b.Data))
					}
					got.Write(b.Data)
					b.Release()
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			rows := undo(got.String())
			for i := range want {
				for k := range want[i] {
					if i >= len(rows) || k >= len(rows[i]) || rows[i][k] != want[i][k] {
						t.Fatalf("piece %d, %v: row %d column %d differs", piece, f, i+1, k+1)
					}
				}
			}
		}
		if piece == 64<<10 && parts < 100 {
			t.Errorf("only %d parts", parts)
		}
	}
}

// One scanner feeds several lanes, and every row arrives once.
func TestLanes(t *testing.T) {
	file := shop(4<<20, 40)
	want := bytes.Count(file, []byte("),(")) + bytes.Count(file, []byte("');\n"))
	work := make(chan *Tuples, 2)
	var mu sync.Mutex
	rows, seen := 0, map[string]bool{}
	var lanes sync.WaitGroup
	for range 4 {
		lanes.Go(func() {
			for p := range work {
				c := NewConverter(move(p.Def), tidemark.LoadData, ConvertOptions{})
				err := c.Convert(p, nil, func(b *tidemark.Batch) error {
					mu.Lock()
					defer mu.Unlock()
					rows += b.Rows
					for _, l := range bytes.Split(bytes.TrimSuffix(b.Data, []byte("\n")), []byte("\n")) {
						id, _, _ := bytes.Cut(l, []byte("\t"))
						seen[string(id)] = true
					}
					b.Release()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				p.Release()
			}
		})
	}
	s := NewScanner(bytes.NewReader(file), Options{Piece: 100 << 10})
	for {
		st, err := s.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if st.Tuples != nil {
			work <- st.Tuples
		}
	}
	close(work)
	lanes.Wait()
	if delete(seen, ""); rows != want || len(seen) != want {
		t.Errorf("%d rows, %d different, want %d", rows, len(seen), want)
	}
}

// Files from Windows have other line ends, and mean the same.
func TestLineEnds(t *testing.T) {
	unix := all(t, strings.NewReader(smallDump), Options{})
	windows := all(t, strings.NewReader(strings.ReplaceAll(smallDump, "\n", "\r\n")), Options{})
	if len(unix) != len(windows) {
		t.Fatalf("%d statements, %d", len(unix), len(windows))
	}
	for i := range unix {
		a, b := unix[i], windows[i]
		if a.Kind != b.Kind || string(a.Text) != strings.ReplaceAll(string(b.Text), "\r", "") || a.Line != b.Line {
			t.Errorf("%v, %v", a, b)
		}
		if a.Tuples == nil {
			continue
		}
		x, _, err1 := convert(move(a.Tuples.Def), tidemark.LoadData, ConvertOptions{}, a.Tuples)
		y, _, err2 := convert(move(b.Tuples.Def), tidemark.LoadData, ConvertOptions{}, b.Tuples)
		if x != y || err1 != nil || err2 != nil {
			t.Errorf("%q %v\n%q %v", x, err1, y, err2)
		}
	}
}
