package engines

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// ToCopyText converts a table's LOAD DATA text to the COPY text that the engine itself returns for
// the table, wherever the batches are split.
func TestToCopyText(t *testing.T) {
	long := strings.Repeat("o'\\\t\nnly \x01ä", 90_000) // about 1 MB, with escapes and quotes at the ends of batches
	for _, of := range []struct {
		name string
		srv  *testdb.Server
		load func(*testing.T, string)
	}{
		{"mysql", testdb.MySQL(t), func(t *testing.T, url string) { testdb.Load(t, url, testdb.SampleMySQL8(t, "types-zoo/mysql.sql")) }},
		{"mariadb", testdb.MariaDB(t), func(t *testing.T, url string) { testdb.Load(t, url, testdb.Sample(t, "types-zoo/mysql.sql")) }},
	} {
		t.Run(of.name, func(t *testing.T) {
			url := of.srv.NewDatabase(t, "loaded")
			of.load(t, url)
			testdb.Load(t, url, strings.NewReader("SET sql_mode='NO_BACKSLASH_ESCAPES';"+
				"CREATE TABLE lang (a int primary key, t longtext character set utf8mb4, l mediumtext character set latin1, b longblob, e enum('','x') not null, s set('a','b'), y year, z bit(13), d bit(1));"+
				"INSERT IGNORE INTO lang VALUES (1, '"+strings.ReplaceAll(long, "'", "''")+"', 'höä€''\\', x'00275c090a1aff', 'x', 'a,b', 0, 4097, 1), (2, '', '', '', 'nothing', '', 2155, 0, 0), (3, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL)"))
			opt := Options{MySQL: server.Options{ZeroDates: server.Null}}
			e, err := Open(t.Context(), url, opt)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			db, err := e.Describe(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			tables := 0
			for _, table := range db.Tables {
				if table.Form == tidemark.View {
					continue
				}
				m := &tidemark.Move{From: table, To: table, Direct: true}
				for _, c := range table.Stored() {
					m.Source = append(m.Source, c.Name)
				}
				want := textOf(t, e, m, tidemark.CopyText)
				loaded := textOf(t, e, m, tidemark.LoadData)
				for range 3 {
					var got []byte
					ends := 0
					put := ToCopyText(tidemark.Read{Move: m, Range: &tidemark.Range{}}, opt, func(b *tidemark.Batch) error {
						if got = append(got, b.Data...); b.Last {
							ends++
						}
						b.Release()
						return nil
					})
					inPieces(t, loaded, put)
					if ends != 1 {
						t.Errorf("%s: %d batches are the last one", table, ends)
					}
					if got, want := shortFloats(m, got), shortFloats(m, want); got != want {
						t.Fatalf("%s: %s", table, firstDifference(got, want))
					}
				}
				tables++
			}
			if tables < 5 {
				t.Errorf("only %d tables were compared", tables)
			}
		})
	}
}

func textOf(t *testing.T, e Database, m *tidemark.Move, f tidemark.Format) []byte {
	t.Helper()
	var out []byte
	if err := e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{}, Format: f}, func(b *tidemark.Batch) error {
		out = append(out, b.Data...)
		b.Release()
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", m.From, err)
	}
	return out
}

// inPieces emits text in batches: of whole rows, or split within a long value, as engines split
// long rows, but never within an escape.
func inPieces(t *testing.T, text []byte, put func(*tidemark.Batch) error) {
	t.Helper()
	for {
		n := len(text)
		if n > 0 {
			n = 1 + rand.IntN(min(n, 1+rand.IntN(200_000)))
		}
		for n < len(text) && text[n-1] != '\n' && (bytes.ContainsAny(text[max(0, n-100):n], "\t\n") || n < 100 || halved(text[:n])) {
			n++
		}
		b := tidemark.NewBatch(&tidemark.Range{}, tidemark.LoadData)
		b.Data = append(b.Data, text[:n]...)
		b.Rows = bytes.Count(b.Data, []byte("\n"))
		text = text[n:]
		b.Last = len(text) == 0
		b.More = !b.Last && b.Data[n-1] != '\n'
		if err := put(b); err != nil {
			t.Fatal(err)
		}
		if len(text) == 0 {
			return
		}
	}
}

// halved reports whether text ends within an escape.
func halved(text []byte) bool {
	n := len(text) - len(bytes.TrimRight(text, `\`))
	return n%2 == 1
}

// shortFloats writes floating point numbers uniformly: those of a dump have more digits.
func shortFloats(m *tidemark.Move, text []byte) string {
	rows := strings.SplitAfter(string(text), "\n")
	for i, c := range m.Columns() {
		if c.Type.Kind != tidemark.Float {
			continue
		}
		for n, row := range rows {
			values := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
			if len(values) <= i {
				continue
			}
			if f, err := strconv.ParseFloat(values[i], c.Type.Bits); err == nil {
				values[i] = strconv.FormatFloat(f, 'g', -1, c.Type.Bits)
			}
			rows[n] = strings.Join(values, "\t") + "\n"
		}
	}
	return strings.Join(rows, "")
}

func firstDifference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	cut := func(s string) string { return s[max(0, min(len(s), i)-80):min(len(s), i+80)] }
	return "got  " + cut(got) + "\nwant " + cut(want)
}
