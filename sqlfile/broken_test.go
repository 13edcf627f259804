package sqlfile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const smallDump = "-- MySQL dump 10.13  Distrib 8.0.33, for Linux (x86_64)\n--\n-- Host: localhost    Database: d\n/*!40101 SET NAMES utf8mb4 */;\n/*!40103 SET TIME_ZONE='+00:00' */;\n" +
	"DROP TABLE IF EXISTS `t`;\nCREATE TABLE `t` (\n  `a` int NOT NULL,\n  `b` varchar(20) DEFAULT 'x;''y',\n  PRIMARY KEY (`a`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='it''s';\n" +
	"LOCK TABLES `t` WRITE;\nINSERT INTO `t` VALUES (1,'a\\'b'),(2,NULL),(3,'x''y\\\\');\nINSERT INTO `t` VALUES (4,'-- /* ; '),(5,\"q\");\nUNLOCK TABLES;\n" +
	"DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`r`@`h`*/ /*!50003 TRIGGER g BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.b='x;'; END */;;\nDELIMITER ;\n-- Dump completed on 2024-01-01  0:00:00\n"

// A dump that is cut anywhere is an error, and its output before that is part of the output of the
// whole file.
func TestCutAnywhere(t *testing.T) {
	whole := all(t, strings.NewReader(smallDump), Options{})
	end := strings.Index(smallDump, "-- Dump completed") + len("-- Dump completed")
	for _, piece := range []int{1, 4 << 20} {
		whole := whole
		if piece == 1 {
			whole = all(t, strings.NewReader(smallDump), Options{Piece: piece})
		}
		want := flat(t, []byte(smallDump), whole)
		for n := range len(smallDump) {
			got, err := read(strings.NewReader(smallDump[:n]), Options{Name: "cut.sql", Piece: piece})
			switch {
			case err == nil && n < end && n > 20: // cut in its first line, it is not recognized as a dump
				t.Errorf("cut at %d: no error", n)
			case err != nil && (tidemark.KindOf(err) != tidemark.BadInput || tidemark.HintOf(err) == "" || !strings.HasPrefix(err.Error(), "read cut.sql: byte ")):
				t.Errorf("cut at %d: %v", n, err)
			}
			if rows := flat(t, []byte(smallDump), got); len(rows) > len(want) || !slices.Equal(want[:len(rows)], rows) {
				t.Errorf("cut at %d gives something else:\n%q", n, rows)
			}
		}
	}
	for n := range len(smallDump) { // without the dump's frame each cut leaves whole statements, or is an error
		text := strings.Join(strings.SplitAfter(smallDump, "\n")[3:], "")
		if n > len(text) {
			break
		}
		got, err := read(strings.NewReader(text[:n]), Options{})
		if last := strings.TrimRight(text[:n], " \n"); err == nil && last != "" && !strings.HasSuffix(last, ";") && !strings.Contains(last[strings.LastIndexByte(last, '\n')+1:], "--") {
			t.Errorf("cut at %d of the bare text: %d statements and no error", n, len(got))
		}
	}
}

func TestErrorsSayWhere(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"SET x=1;\nINSERT INTO t VALUES (1,'abc", "read x.sql: byte 37 (line 2): the file ends inside a string of a row"},
		{"INSERT INTO t VALUES (1,2),(3", "read x.sql: byte 29 (line 1): the file ends inside a row"},
		{"INSERT INTO t VALUES (1,2)", "read x.sql: byte 26 (line 1): the file ends inside an INSERT, after a row"},
		{"INSERT INTO t VALUES (1,2;", "read x.sql: byte 25 (line 1): the statement ends inside a row"},
		{"INSERT INTO t VALUES (1,2) (3,4);", `read x.sql: byte 0 (line 1): `},
		{"INSERT INTO t VALUES (1,2), x;", `read x.sql: byte 28 (line 1): expected another row, found "x;"`},
		{"SET x='a;\n", "read x.sql: byte 6 (line 1): an unterminated string"},
		{"SET x=1 /* y;\n", "read x.sql: byte 8 (line 1): an unterminated comment"},
		{"/* y;\n", "read x.sql: byte 0 (line 1): an unterminated comment"},
		{"SET x=1;\n\nSET y=2", "read x.sql: byte 10 (line 3): the file ends inside this statement, before its ;"},
		{"DELIMITER", "read x.sql: byte 0 (line 1): the file ends inside this statement, before its ;"},
		{"-- MySQL dump 10.13\nSET x=1;\n", "read x.sql: byte 29 (line 3): the file ends between two statements, but without the line that ends a dump"},
		{"COPY t (a) FROM stdin;\n1\n", ""},
	} {
		_, err := read(strings.NewReader(c.text), Options{Name: "x.sql"})
		if c.want == "read x.sql: byte 0 (line 1): " || c.want == "" {
			continue // not rows: a statement for the server
		}
		if err == nil || err.Error() != c.want || tidemark.KindOf(err) != tidemark.BadInput || tidemark.HintOf(err) == "" {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	if _, err := read(strings.NewReader("SET NAMES sjis;\nSELECT 1;"), Options{Name: "x.sql"}); tidemark.KindOf(err) != tidemark.Unsupported {
		t.Errorf("sjis: %v", err)
	}
	long := "INSERT INTO t VALUES (1,2),(3,4),(5,6) ON DUPLICATE KEY UPDATE a=1;"
	if _, err := read(strings.NewReader(long), Options{Piece: 1}); tidemark.KindOf(err) != tidemark.Unsupported {
		t.Errorf("long statement with a suffix: %v", err)
	}
	if _, err := read(strings.NewReader("-- MySQL dump 10.13\nSET x=1;\n"), Options{Partial: true}); err != nil {
		t.Errorf("partial: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := NewScanner(strings.NewReader("SET x=1;"), Options{}).Next(ctx); tidemark.KindOf(err) != tidemark.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
	broken := errors.New("disk on fire")
	if _, err := read(io.MultiReader(strings.NewReader("SET x=1; SET y"), failing{broken}), Options{}); !errors.Is(err, broken) {
		t.Errorf("reader's error: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// write creates a file of bytes.
func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func gz(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zst(t *testing.T, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

func TestOpenUnpacks(t *testing.T) {
	big := append([]byte(smallDump[:strings.Index(smallDump, "UNLOCK")]), shop(3<<20, 100)...)
	big = append(big, "-- Dump completed\n"...)
	for name, b := range map[string][]byte{"a.sql": big, "b.sql": gz(t, big), "c.gz": zst(t, big), "two members": append(gz(t, big[:1000]), gz(t, big[1000:])...), "bom": append([]byte("\xef\xbb\xbf"), big...)} {
		t.Run(name, func(t *testing.T) {
			path := write(t, name, b)
			f, err := Open("file:" + path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := all(t, f, Options{Name: f.Name})
			if n := int64(len(big)); f.Size() != int64(len(b)) || f.Offset() != f.Size() || f.Unpacked() != n && f.Unpacked() != n+3 {
				t.Errorf("size %d offset %d unpacked %d", f.Size(), f.Offset(), f.Unpacked())
			}
			rows := 0
			for _, st := range got {
				if st.Tuples != nil {
					rows += st.Tuples.Rows
				}
			}
			if want := 4 + bytes.Count(big, []byte("'paid'")); rows != want { // the enum has one too
				t.Errorf("%d rows, want %d", rows, want)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	packed := gz(t, shop(1<<20, 100))
	damaged := bytes.Clone(packed)
	damaged[len(damaged)-6] ^= 0xff // in the checksum
	var wide []byte
	for _, u := range utf16.Encode([]rune("\ufeff-- MySQL dump\r\n")) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	for _, c := range []struct {
		name string
		b    []byte
		kind tidemark.Kind
		text string
	}{
		{"custom", []byte("PGDMP\x01\x0e"), tidemark.Unsupported, "it is a pg_dump archive in custom format"},
		{"packed custom", gz(t, []byte("PGDMP\x01\x0e")), tidemark.Unsupported, "it is a pg_dump archive in custom format"},
		{"utf16", wide, tidemark.BadInput, "it is UTF-16 text"},
		{"bare utf16", wide[2:], tidemark.BadInput, "it is UTF-16 text"},
		{"zip", []byte("PK\x03\x04abc"), tidemark.Unsupported, "it is a zip archive"},
		{"xz", []byte("\xfd7zXZ\x00"), tidemark.Unsupported, "it is an xz file"},
		{"cut gzip", packed[:len(packed)/2], tidemark.BadInput, "unexpected EOF"},
		{"no checksum", packed[:len(packed)-4], tidemark.BadInput, "unexpected EOF"},
		{"damaged gzip", damaged, tidemark.BadInput, "invalid checksum"},
		{"cut zstd", zst(t, shop(1<<20, 100))[:5000], tidemark.BadInput, "unexpected EOF"},
	} {
		path := write(t, c.name, c.b)
		f, err := Open(path)
		if err == nil {
			_, err = read(f, Options{Name: f.Name})
			f.Close()
		}
		if tidemark.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) || tidemark.HintOf(err) == "" {
			t.Errorf("%s: %v (%v)", c.name, err, tidemark.HintOf(err))
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none.sql")); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open(t.TempDir()); tidemark.KindOf(err) != tidemark.Unsupported {
		t.Errorf("folder: %v", err)
	}
}

// SkipTo skips what is before the offset, and does not change numbers, session and tables.
func TestSkipTo(t *testing.T) {
	file := append([]byte("SET NAMES latin1;\n"), shop(200<<10, 50)...)
	whole := all(t, bytes.NewReader(file), Options{Piece: 10 << 10})
	for i, st := range whole {
		if st.Tuples == nil {
			continue
		}
		s := NewScanner(bytes.NewReader(file), Options{Piece: 10 << 10})
		s.SkipTo(st.Tuples.Offset + int64(len(st.Tuples.Data)))
		next, err := s.Next(context.Background())
		if i == len(whole)-1 {
			if err != io.EOF {
				t.Errorf("after the last: %v, %v", next, err)
			}
			continue
		}
		want := whole[i+1].Tuples
		if err != nil || next.Tuples == nil || next.Tuples.Index != want.Index || !bytes.Equal(next.Tuples.Data, want.Data) || next.Tuples.Def == nil || next.Session.Charset != "latin1" {
			t.Fatalf("after piece %d: %+v, %v", st.Tuples.Index, next, err)
		}
	}
}

// A pg_dump file yields its COPY blocks unchanged.
func TestCopyBlocks(t *testing.T) {
	r := testdb.Sample(t, "pagila/pg.sql.zst")
	file, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, opt := range []Options{{}, {Piece: 1000}, {Piece: 10, Longest: 64}} {
		var rows []byte
		n := 0
		for _, st := range all(t, bytes.NewReader(file), opt) {
			if p := st.Tuples; p != nil {
				def := &tidemark.Table{TableID: p.Table}
				for _, c := range p.Columns {
					def.Columns = append(def.Columns, tidemark.Column{Name: c})
				}
				rows = append(rows, p.Data...)
				n += p.Rows
				if p.Part > 0 || p.More {
					continue
				}
				text, m, err := convert(move(def), tidemark.CopyText, ConvertOptions{}, p)
				if err != nil || m != p.Rows || text != string(p.Data) {
					t.Fatalf("%d rows of %d, %v", m, p.Rows, err)
				}
			}
		}
		if n != 46273 {
			t.Errorf("%d rows", n)
		}
		var want []byte
		in := false
		for _, l := range bytes.SplitAfter(file, []byte("\n")) {
			switch {
			case bytes.HasPrefix(l, []byte("COPY ")):
				in = true
			case bytes.HasPrefix(l, []byte("\\.")):
				in = false
			case in:
				want = append(want, l...)
			}
		}
		if !bytes.Equal(rows, want) {
			t.Errorf("the rows are not the file's lines")
		}
	}
}
