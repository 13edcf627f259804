package diff

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"math/big"
	"math/rand/v2"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/escape"
)

// A memory is a Side whose tables are slices: a dumb twin of a database, which writes rows in all
// three formats, in any order, in batches of any size, and rows across batches.
type memory struct {
	rows   map[tidemark.TableID][][]*string
	rand   *rand.Rand
	ranges int // per table
	batch  int // bytes after which a batch is handed over
	piece  int // bytes at which a row is cut into pieces; 0: never
	fail   error
	reads  atomic.Int64
}

func (m *memory) Split(_ context.Context, mv *tidemark.Move) ([]tidemark.Range, error) {
	n := max(m.ranges, 1)
	total := len(m.rows[mv.From.TableID])
	out := make([]tidemark.Range, n)
	for i := range out {
		out[i] = tidemark.Range{Kind: tidemark.Blocks, FromBlock: int64(total * i / n), ToBlock: int64(total * (i + 1) / n)}
	}
	return out, nil
}

func (m *memory) Read(_ context.Context, _ int, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	if m.fail != nil {
		return m.fail
	}
	m.reads.Add(1)
	rows := m.rows[r.Move.From.TableID][r.Range.FromBlock:r.Range.ToBlock]
	fresh := func() *tidemark.Batch { return &tidemark.Batch{Range: r.Range, Format: r.Format} } // small ones, unlike NewBatch's
	b := fresh()
	give := func() error {
		old := b
		b = fresh()
		return emit(old)
	}
	for _, row := range rows {
		text := encode(r.Format, row)
		for m.piece > 0 && len(text) > m.piece {
			b.Data = append(b.Data, text[:m.piece]...)
			text = text[m.piece:]
			b.More = true
			if err := give(); err != nil {
				return err
			}
		}
		b.Data = append(b.Data, text...)
		b.Rows++
		if len(b.Data) > m.batch {
			if err := give(); err != nil {
				return err
			}
		}
	}
	b.Last = true
	return emit(b)
}

func encode(f tidemark.Format, row []*string) (out []byte) {
	if f == tidemark.CopyBinary {
		out = binary.BigEndian.AppendUint16(out, uint16(len(row)))
	}
	for i, v := range row {
		switch {
		case f == tidemark.CopyBinary && v == nil:
			out = binary.BigEndian.AppendUint32(out, 0xffffffff)
			continue
		case f == tidemark.CopyBinary:
			out = binary.BigEndian.AppendUint32(out, uint32(len(*v)))
			out = append(out, *v...)
			continue
		case i > 0:
			out = append(out, '\t')
		}
		switch {
		case v == nil:
			out = append(out, `\N`...)
		case f == tidemark.LoadData:
			out = escapeLoad(out, *v)
		default:
			out = escape.Append(out, []byte(*v), &escape.Copy)
		}
	}
	if f != tidemark.CopyBinary {
		out = append(out, '\n')
	}
	return out
}

func escapeLoad(out []byte, v string) []byte {
	for i := range len(v) {
		switch c := v[i]; c {
		case 0:
			out = append(out, `\0`...)
		case '\b':
			out = append(out, `\b`...)
		case '\n':
			out = append(out, `\n`...)
		case '\r':
			out = append(out, `\r`...)
		case '\t':
			out = append(out, `\t`...)
		case 26:
			out = append(out, `\Z`...)
		case '\\':
			out = append(out, `\\`...)
		default:
			out = append(out, c)
		}
	}
	return out
}

func str(s string) *string { return &s }

// pairOf makes a pair of tables with columns a, b, c... of the given types.
func pairOf(name string, a, b []tidemark.Type, key ...int) Pair {
	side := func(types []tidemark.Type) *tidemark.Move {
		t := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: name}, Rows: -1}
		mv := &tidemark.Move{From: t}
		for i, typ := range types {
			col := string(rune('a' + i))
			t.Columns = append(t.Columns, tidemark.Column{Name: col, Type: typ})
			mv.Source = append(mv.Source, col)
		}
		mv.To = t
		return mv
	}
	return Pair{Source: side(a), Target: side(b), Key: key}
}

// A summing is a memory that hashes its rows itself, or reports that it cannot.
type summing struct {
	*memory
	refuses error
}

func (summing) SumRecipe(*tidemark.Move) string { return "fnv" }

func (s summing) Sum(_ context.Context, _ int, m *tidemark.Move, r *tidemark.Range) (rows int64, sum *big.Int, err error) {
	sum = &big.Int{}
	for _, row := range s.rows[m.From.TableID][r.FromBlock:r.ToBlock] {
		h := fnv.New64a()
		h.Write([]byte(cells(row)))
		sum.Add(sum, new(big.Int).SetUint64(h.Sum64()))
		rows++
	}
	return rows, sum, s.refuses
}
