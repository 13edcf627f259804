package repo

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// randomFile returns one of any type, with values at the limits.
func randomFile(r *rand.Rand) File {
	number := func(bits int) uint64 { return r.Uint64() >> (64 - bits) >> r.IntN(bits) }
	f := File{Path: Path([]string{"base/1/2", "a b", `q"\`, "\xff", "ümläut", "<&>\u2028"}[r.IntN(6)]), Type: []string{"", "", Folder, Link}[r.IntN(4)],
		Size: int64(number(63)), Mode: uint32(number(32)), MTime: int64(number(63)), CRC: uint32(number(32))}
	if r.IntN(4) == 0 {
		f.MTime = -f.MTime
	}
	if f.Type == Link {
		f.To = "/elsewhere"
	}
	for range r.IntN(4) {
		f.Extents = append(f.Extents, Extent{At: int64(number(63)), Length: uint32(number(32)), Skip: uint32(number(32)), Ref: Ref{Pack: uint32(number(32)), Codec: uint8(number(8)),
			Offset: int64(number(63)), Stored: uint32(number(32)), Plain: uint32(number(32)), CRC: uint32(number(32)), Number: number(64)}})
	}
	if r.IntN(3) == 0 {
		f.Blocks = &Blocks{PageSize: 8192, Truncate: int64(number(40))}
	}
	if r.IntN(8) == 0 {
		f.Object = &Object{Stored: int64(number(63)), SHA256: "ab", Age: true}
	}
	return f
}

// What AddFile writes is read as encoding/json reads it, and nearly all of it by our own parser.
func TestLines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var p fileParser
	own := 0
	for range 3000 {
		want := randomFile(r)
		line := must(json.Marshal(want))
		got, err := p.parse(line)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%s: %v\n%s", line, err, diff)
		}
		if _, ok := p.own(&cursor{line}); ok {
			own++
		}
		cut := line[:r.IntN(len(line))]
		if f, err := p.parse(cut); err == nil {
			t.Fatalf("%s is taken for %+v", cut, f)
		}
	}
	if own < 500 {
		t.Errorf("the parser took %d of 3000 lines", own)
	}
}

// Lines of any length are read with reads of any length; the last one may have no end.
func TestLinesOfText(t *testing.T) {
	want := []string{"", "a", strings.Repeat("b", 300<<10), "c", strings.Repeat("d", 3<<20), "", "e"}
	for name, text := range map[string]string{"ended": strings.Join(want, "\n") + "\n", "open": strings.Join(want, "\n")} {
		for _, in := range []io.Reader{strings.NewReader(text), iotest.HalfReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
			l := lines{in: in}
			var got []string
			for {
				line, err := l.next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(line))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: other lines come out", name)
			}
		}
	}
}

// For any line, our own parser returns what encoding/json does, or nothing.
func FuzzLine(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		f.Add(must(json.Marshal(randomFile(r))))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var p fileParser
		got, ok := p.own(&cursor{line})
		if !ok {
			return
		}
		var want File
		if len(got.Extents) == 0 {
			got.Extents = []Extent{} // an empty list equals none
		}
		err := json.Unmarshal(line, &want)
		if err != nil && !strings.Contains(err.Error(), "invalid character") { // in a string: it is written with a backslash
			t.Fatalf("%q: %v", line, err)
		}
		if want.Extents == nil {
			want.Extents = []Extent{}
		}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Errorf("%q:\n%s", line, diff)
		}
	})
}

func BenchmarkLine(b *testing.B) {
	f := File{Path: "base/16384/2619", Size: 16384, Mode: 0o600, MTime: 1732262400123456789, CRC: 3735928559, Extents: []Extent{{Length: 16384, Skip: 311296, Ref: Ref{Pack: 12, Offset: 123456789, Stored: 301234, Plain: 1 << 20, CRC: 123456789, Number: 4711, Codec: 1}}}}
	line := must(json.Marshal(f))
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	var p fileParser
	for b.Loop() {
		if _, err := p.parse(line); err != nil {
			b.Fatal(err)
		}
	}
}
