package sqlfile

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// A twin reads a dump in the slowest and plainest way: byte by byte, with everything in memory. It
// returns statements as their text, and rows of INSERTs as "head|row".
func twin(d []byte) (out []string) {
	delim := ";"
	noBackslash := false
	for {
		for len(d) > 0 {
			if strings.ContainsRune(" \t\r\n", rune(d[0])) {
				d = d[1:]
			} else if bytes.HasPrefix(d, []byte("-- ")) || d[0] == '#' {
				n := bytes.IndexByte(d, '\n')
				d = d[n+1:]
			} else if bytes.HasPrefix(d, []byte("/*")) && !bytes.HasPrefix(d, []byte("/*!")) {
				d = d[bytes.Index(d, []byte("*/"))+2:]
			} else {
				break
			}
		}
		if len(d) == 0 {
			return out
		}
		if rest, ok := bytes.CutPrefix(d, []byte("DELIMITER ")); ok {
			n := bytes.IndexByte(rest, '\n')
			delim = strings.TrimSpace(string(rest[:n]))
			d = rest[n:]
			continue
		}
		var text []byte
		var rows []int // begin and end of each in text
		depth, q := 0, byte(0)
		comment := ""
		for i := 0; ; i++ {
			if q == 0 && comment == "" && bytes.HasPrefix(d[i:], []byte(delim)) {
				text = d[:i]
				d = d[i+len(delim):]
				break
			}
			c := d[i]
			switch {
			case comment != "":
				if bytes.HasSuffix(d[:i+1], []byte(comment)) {
					comment = ""
				}
			case q != 0:
				if c == '\\' && !noBackslash && q != '`' {
					i++
				} else if c == q {
					if d[i+1] == q {
						i++
					} else {
						q = 0
					}
				}
			case c == '\'' || c == '"' || c == '`':
				q = c
			case c == '#' || bytes.HasPrefix(d[i:], []byte("-- ")):
				comment = "\n"
			case bytes.HasPrefix(d[i:], []byte("/*")) && d[i+2] != '!':
				comment = "*/"
				i++
			case c == '(':
				if depth++; depth == 1 {
					rows = append(rows, i)
				}
			case c == ')':
				if depth--; depth == 0 {
					rows = append(rows, i+1)
				}
			}
		}
		head, _, isInsert := strings.Cut(string(text), "VALUES ")
		switch {
		case isInsert && strings.HasPrefix(head, "INSERT"):
			for i := 0; i < len(rows); i += 2 {
				if rows[i] < len(head) {
					continue // the list of columns
				}
				out = append(out, head+"VALUES |"+string(text[rows[i]:rows[i+1]]))
			}
		default:
			if strings.Contains(string(text), "NO_BACKSLASH") {
				noBackslash = true
			}
			out = append(out, strings.TrimRight(string(text), " \t\r\n"))
		}
	}
}

// flat returns a Scanner's output in the twin's form, and checks what each piece says about itself.
func flat(t interface{ Fatalf(string, ...any) }, file []byte, sts []*Statement) (out []string) {
	var row []byte
	index := int64(0)
	depth, q := 0, byte(0)
	for _, st := range sts {
		p := st.Tuples
		if p == nil {
			if st.Kind == Insert {
				index++
			}
			out = append(out, string(st.Text))
			if !bytes.HasPrefix(file[st.Offset:], st.Text) {
				t.Fatalf("statement is not at %d: %q", st.Offset, st.Text)
			}
			continue
		}
		if p.Part == 0 {
			index++
		}
		if p.Index != index {
			t.Fatalf("piece %d has number %d", index, p.Index)
		}
		if want := int64(1 + bytes.Count(file[:p.Offset], []byte("\n"))); p.Line != want {
			t.Fatalf("piece at %d has line %d, not %d", p.Offset, p.Line, want)
		}
		for i, c := range p.Data {
			if f := file[p.Offset+int64(i)]; c != f && c != ' ' && c != ',' {
				t.Fatalf("byte %d of the piece at %d is %q, in the file %q", i, p.Offset, c, f)
			}
		}
		rows := 0
		if p.Part == 0 {
			depth, q = 0, 0
		}
		for i := 0; i < len(p.Data); i++ {
			c := p.Data[i]
			if depth > 0 || c == '(' {
				row = append(row, c)
			}
			switch {
			case q != 0:
				if c == '\\' && !st.Session.NoBackslash {
					i++
					row = append(row, p.Data[i])
				} else if c == q && i+1 < len(p.Data) && p.Data[i+1] == q {
					i++
					row = append(row, c)
				} else if c == q {
					q = 0
				}
			case c == '\'' || c == '"':
				q = c
			case bytes.HasPrefix(p.Data[i:], []byte("/*x*/")):
				row = append(row, "*x*/"...)
				i += 4
			case c == '(':
				depth++
			case c == ')':
				if depth--; depth == 0 {
					out = append(out, p.Head+"|"+string(row))
					row = row[:0]
					rows++
				}
			}
		}
		if rows != p.Rows {
			t.Fatalf("the piece has %d rows and says %d", rows, p.Rows)
		}
		if p.More != (len(row) > 0) {
			t.Fatalf("More is %v with %q left", p.More, row)
		}
	}
	return out
}

// piecesOf formats pieces for comparison.
func piecesOf(sts []*Statement) string {
	var b strings.Builder
	for _, st := range sts {
		fmt.Fprintf(&b, "%v %d %d %q", st.Kind, st.Offset, st.Line, st.Text)
		if p := st.Tuples; p != nil {
			fmt.Fprintf(&b, " %d.%d %v %d %q", p.Index, p.Part, p.More, p.Rows, p.Data)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var stringGen = rapid.Custom(func(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "bc", "''", `\'`, `\\`, `\n`, "\n", "\t", `"`, "`", "(", ")", "),(", ";", "-- ", "#", "/*", "*/", "é", `\"`,
		"long text without anything of interest in it, so that whole words are skipped at once", "0x", ", "}), 0, 12).Draw(t, "parts")
	return "'" + strings.Join(parts, "") + "'"
})

var valueGen = rapid.OneOf(
	rapid.SampledFrom([]string{"NULL", "1", "-5", "3.25e-7", "0xdeadbeef00112233445566778899aabbccddeeff", "0x", "b'101'", "x'00ff'", "_binary 'x'", "_utf8mb4'é'", "now()", "point(1,(2))", `"dq;'"`, "/*x*/ 7", "DEFAULT"}),
	stringGen,
)

var rowGen = rapid.Custom(func(t *rapid.T) string {
	return "(" + strings.Join(rapid.SliceOfN(valueGen, 1, 6).Draw(t, "values"), ",") + ")"
})

var dumpGen = rapid.Custom(func(t *rapid.T) string {
	statement := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return "-- a comment; with 'quotes\n"
		case 1:
			return "/*!40101 SET @x = 'a;b' */;\n"
		case 2:
			return "DELIMITER ;;\nCREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a=';'; SET @b=2; END ;;\nDELIMITER ;\n"
		case 3:
			return "# x\n/* y ; */ UPDATE t SET a=" + stringGen.Draw(t, "s") + " /* c; */ ;\n"
		default:
			table := rapid.SampledFrom([]string{"`t`", "`u``v`", "`t` (`a`, `b`)"}).Draw(t, "table")
			sep := rapid.SampledFrom([]string{",", ",\n", " , "}).Draw(t, "sep")
			rows := strings.Join(rapid.SliceOfN(rowGen, 1, 8).Draw(t, "rows"), sep)
			return "INSERT INTO " + table + " VALUES " + rows + rapid.SampledFrom([]string{";\n", ";", "\n;\r\n"}).Draw(t, "end")
		}
	})
	return strings.Join(rapid.SliceOfN(statement, 1, 12).Draw(t, "statements"), "")
})

// The scanner finds what the twin finds, whatever the sizes of pieces and reads, and the same
// pieces whatever the sizes of reads.
func TestScannerAgainstTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := []byte(dumpGen.Draw(t, "dump"))
		opt := Options{Piece: rapid.IntRange(1, 400).Draw(t, "piece")}
		opt.Longest = opt.Piece + rapid.IntRange(0, 100).Draw(t, "longest")
		want, err := read(bytes.NewReader(file), opt)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := flat(t, file, want), twin(file); strings.Join(got, "\n|\n") != strings.Join(want, "\n|\n") {
			t.Fatalf("scanner:\n%s\ntwin:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		var r io.Reader = &chunks{d: file, sizes: rapid.SliceOfN(rapid.IntRange(1, 60), 1, 5).Draw(t, "reads")}
		if rapid.Bool().Draw(t, "bytewise") {
			r = iotest.OneByteReader(bytes.NewReader(file))
		}
		got, err := read(r, opt)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := piecesOf(want), piecesOf(got); a != b {
			t.Fatalf("pieces depend on reads:\n%s\n%s", a, b)
		}
		whole, err := read(iotest.DataErrReader(bytes.NewReader(file)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := flat(t, file, whole), twin(file); strings.Join(got, "\n|\n") != strings.Join(want, "\n|\n") {
			t.Fatalf("large pieces:\n%s\ntwin:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// chunks is a reader of given sizes, in turn.
type chunks struct {
	d     []byte
	sizes []int
	n     int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.d) == 0 {
		return 0, io.EOF
	}
	n := min(c.sizes[c.n%len(c.sizes)], len(c.d), len(p))
	c.n++
	copy(p, c.d[:n])
	c.d = c.d[n:]
	return n, nil
}
