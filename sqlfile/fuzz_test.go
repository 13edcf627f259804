package sqlfile

import (
	"bytes"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

func FuzzScanner(f *testing.F) {
	f.Add([]byte(smallDump), uint8(10))
	f.Add([]byte("INSERT INTO t VALUES (1,0xabcdef,'x''y'),(2,b'1');insert into t values(3) on duplicate key update a=1;"), uint8(1))
	f.Add([]byte("--\n-- PostgreSQL database dump\n\nCOPY t (a) FROM stdin;\n1\n\\.\n"), uint8(3))
	f.Fuzz(func(t *testing.T, d []byte, piece uint8) {
		opt := Options{Piece: int(piece) + 1, MaxOther: 1 << 16}
		a, errA := read(bytes.NewReader(d), opt)
		b, errB := read(&chunks{d: bytes.Clone(d), sizes: []int{1, 3, 7}}, opt)
		if piecesOf(a) != piecesOf(b) {
			t.Fatalf("pieces depend on reads:\n%s\n%s", piecesOf(a), piecesOf(b))
		}
		if (errA == nil) != (errB == nil) || errA != nil && errA.Error() != errB.Error() {
			t.Fatalf("errors depend on reads: %v, %v", errA, errB)
		}
	})
}

func FuzzConvert(f *testing.F) {
	f.Add([]byte("(1,'a\\'b',x'00',b'1','2024-01-01 00:00:00','PT','{}')"), true)
	f.Add([]byte("(NULL,_latin1'\xe9',_binary '\\0',5,0,'12:00:00',N'x')"), false)
	def := all(f, bytes.NewReader([]byte("CREATE TABLE t (a int, b varchar(10) CHARACTER SET latin1, c blob, d bit(5), e datetime, f time, g json);")), Options{})[0].Def
	f.Fuzz(func(t *testing.T, d []byte, load bool) {
		format := tidemark.CopyText
		if load {
			format = tidemark.LoadData
		}
		text, rows, err := convert(move(def), format, ConvertOptions{ZeroDates: ZeroNull}, &Tuples{Data: d, Session: &Session{Charset: "utf8mb4"}, Verb: "INSERT"})
		if err != nil {
			if k := tidemark.KindOf(err); k != tidemark.BadInput && k != tidemark.BadRow && k != tidemark.Unsupported {
				t.Fatalf("%v: %v", k, err)
			}
			return
		}
		if bytes.Count([]byte(text), []byte("\n")) != rows || bytes.Count([]byte(text), []byte("\t")) != 6*rows {
			t.Fatalf("%d rows are %q", rows, text)
		}
	})
}

func FuzzCreateTable(f *testing.F) {
	f.Add([]byte(smallDump[bytes.Index([]byte(smallDump), []byte("CREATE TABLE")):]))
	f.Add([]byte("CREATE TABLE `a` (`b` enum('x','y''z') NOT NULL DEFAULT 'x', KEY `k` (`b`(3) DESC), CONSTRAINT `f` FOREIGN KEY (`b`) REFERENCES `c` (`d`) ON DELETE SET NULL) /*!50100 PARTITION BY KEY () */"))
	f.Fuzz(func(t *testing.T, d []byte) {
		def, err := ParseCreateTable(d, &Session{Charset: "utf8mb4"})
		if (def == nil) != (err != nil) {
			t.Fatalf("%v, %v", def, err)
		}
	})
}
