package diff

import (
	"fmt"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/escape"
)

// BenchmarkHash runs one hasher over a megabyte of rows of 100 bytes: bytes per second of a core.
func BenchmarkHash(b *testing.B) {
	integer, moment := kind(tidemark.Int), kind(tidemark.DateTime)
	integer.Portable, moment.Portable = true, true
	types := []tidemark.Type{integer, integer, text, moment, text}
	cross := []tidemark.Type{integer, integer, text, kind(tidemark.Timestamp), text}
	for _, c := range []struct {
		name   string
		engine string
		types  []tidemark.Type
		key    []int
	}{
		{"text", "", types[:3], []int{0}},
		{"binary", "postgres", types, []int{0}},
		{"loaddata", "mysql", types, []int{0}},
		{"nokey", "mysql", types, nil},
		{"secondkey", "mysql", types, []int{1}},
		{"normalised", "", cross, []int{0}},
	} {
		b.Run(c.name, func(b *testing.B) {
			cmp := newComparison(nil, nil, Options{SourceEngine: c.engine, TargetEngine: c.engine, Hashers: 1})
			other := c.types
			if c.engine == "" && len(c.types) > 3 {
				other = types
			}
			t, err := cmp.newTable(0, pairOf("t", c.types, other, c.key...))
			if err != nil {
				b.Fatal(err)
			}
			cmp.tables = []*table{t}
			t.chooseBuckets(1000)
			s := &sums{comparison: cmp, tables: []*tableSums{{buckets: [2][][]bucket{make([][]bucket, 1), make([][]bucket, 1)}}}}
			k := &task{table: t}
			var data []byte
			rows := 0
			for i := 0; len(data) < 1<<20; i++ {
				row := []*string{str(fmt.Sprint(i)), str(fmt.Sprint(i * 7919 % 100000)), str("some text of a usual length, with a few words"), str("2024-02-29 12:34:56.789012"), str("status")}
				data = append(data, encode(t.format, row[:len(c.types)])...)
				rows++
			}
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if n, err := s.visit(0, k, data); err != nil || n != rows {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
		})
	}
}

func BenchmarkJSON(b *testing.B) {
	form := newJSON()
	field := escape.Append(nil, []byte(`{"name": "Alice \"A\" Doe", "age": 42, "tags": ["x", "y", 1.50], "address": {"zip": "12345", "city": "Prague"}}`), &escape.Copy)
	var out []byte
	b.SetBytes(int64(len(field)))
	b.ReportAllocs()
	for b.Loop() {
		out = form(out[:0], field)
	}
}
