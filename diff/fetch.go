package diff

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
)

// A captured is a column of a row that is shown: enough to tell whether it is the same on both
// sides, and the beginning of its text. Values of 100 MB can differ too.
type captured struct {
	hash xxh3.Uint128 // of its normal form
	text *string
}

// A hunt is what fetch looks for in one table: the rows by their hash.
type hunt struct {
	mu    sync.Mutex // guards what the finds get
	keep  bool       // their keys are needed too
	finds [2]map[xxh3.Uint128][]*find
}

// fetch reads the ranges in which the rows to be shown were seen, for their text, and adds the rows
// to the results.
func (c *comparison) fetch(ctx context.Context, tables []*table) error {
	hunts := make([]*hunt, len(c.tables))
	p := &pass{comparison: c, number: 2}
	chosen := make([][]find, len(c.tables))
	for _, t := range tables {
		chosen[t.index] = choose(t.finds, c.wanted(), c.opt.MaxPrinted)
		t.finds = [3][]find{}
		finds := chosen[t.index]
		h := &hunt{keep: c.opt.Keep > 0 && len(t.pair.Key) > 0}
		hunts[t.index] = h
		for side := range p.tasks {
			h.finds[side] = map[xxh3.Uint128][]*find{}
			var need []int32
			for i := range finds {
				f := &finds[i]
				if f.tasks[side] >= 0 {
					h.finds[side][f.rows[side]] = append(h.finds[side][f.rows[side]], f)
					need = append(need, f.tasks[side])
				}
			}
			slices.Sort(need)
			for _, i := range slices.Compact(need) {
				p.tasks[side] = append(p.tasks[side], t.tasks[side][i])
			}
		}
	}
	p.visit = func(worker int, k *task, data []byte) (int, error) {
		return hunts[k.table.index].visit(c.hasher(worker, k.side, k.table), k, data)
	}
	if err := p.run(ctx); err != nil {
		return err
	}
	for _, t := range tables {
		for i := range chosen[t.index] {
			f := &chosen[t.index][i]
			if row, ok := t.shown(f); ok {
				t.result.Rows = append(t.result.Rows, row)
			}
			switch {
			case f.key != nil || c.opt.Keep > 0 && len(t.pair.Key) == 0:
				t.result.Found = append(t.result.Found, Found{id: f.id, key: f.key, rows: f.rows, count: f.count})
			case hunts[t.index].keep:
				t.result.Partial = true // it was not found again, in a table without a view
			}
		}
	}
	return nil
}

// choose returns n finds, taking each kind in turn so that all kinds are represented, and marks in
// the same way those to be shown.
func choose(byKind [3][]find, n, shown int) (out []find) {
	there := [3]int{len(byKind[0]), len(byKind[1]), len(byKind[2])}
	take, show := inTurn(there, n), inTurn(there, shown)
	for i, finds := range byKind {
		for j := range take[i] {
			finds[j].shown = j < show[i]
		}
		out = append(out, finds[:take[i]]...)
	}
	return out
}

func inTurn(there [3]int, n int) (take [3]int) {
	for left := min(n, there[0]+there[1]+there[2]); left > 0; {
		for i := range there {
			if left > 0 && take[i] < there[i] {
				take[i]++
				left--
			}
		}
	}
	return take
}

func (h *hunt) visit(rh *rowHasher, k *task, data []byte) (rows int, err error) {
	for len(data) > 0 {
		var row []byte
		if row, data, err = nextRow(k.table.format, data); err != nil {
			return rows, err
		}
		rows++
		sum, _, ok := rh.hash(k.side, row)
		if !ok {
			return rows, errRow
		}
		if finds := h.finds[k.side][sum]; finds != nil {
			h.mu.Lock()
			for _, f := range finds {
				if f.shown {
					f.text[k.side] = capture(k.table, k.side, row, rh.row)
				}
				if h.keep && (k.side == 0 || f.kind == Extra) {
					f.id, f.key = rh.fullKey(sum), keyText(k.table, row)
				}
			}
			h.mu.Unlock()
		}
	}
	return rows, nil
}

// keyText returns the key's values of a row in a text form, in canonical text, without trailing
// blanks, which only some engines return.
func keyText(t *table, row []byte) []string {
	out := make([]string, len(t.pair.Key))
	spans, _ := fields(t.format, row, len(t.columns[0]), nil)
	for i, at := range t.pair.Key {
		value, _ := unescape(nil, row[spans[at].from:spans[at].to])
		if t.columns[0][at].Type.Kind == tidemark.Char || t.columns[1][at].Type.Kind == tidemark.Char {
			value = bytes.TrimRight(value, " ")
		}
		out[i] = string(value)
	}
	return out
}

// capture captures the columns of a row, in the form in which it was read and in normal form.
func capture(t *table, side int, row, norm []byte) []captured {
	n := len(t.columns[side])
	out := make([]captured, n)
	if n == 0 {
		return out
	}
	as, _ := fields(t.format, row, n, nil)
	bs, _ := fields(t.format, norm, n, nil)
	for i := range out {
		out[i] = captured{
			hash: xxh3.Hash128(norm[bs[i].from:bs[i].to]),
			text: display(t.columns[side][i].Type, t.format, row[as[i].from:as[i].to]),
		}
	}
	return out
}

// maxShown is how many bytes of a value are shown.
const maxShown = 80

// display returns the text of a field in a text form, shortened; nil for NULL.
func display(t tidemark.Type, f tidemark.Format, field []byte) *string {
	if isNull(field) {
		return nil
	}
	// Each byte of the value is at most two bytes of the field.
	value, _ := unescape(nil, field[:min(len(field), 2*maxShown+2)])
	size := len(field)
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' {
			size--
			i++
		}
	}
	long := size > maxShown
	if long {
		value = value[:maxShown]
	}
	raw := f == tidemark.LoadData && (t.Kind.Bytes() || t.Kind == tidemark.Bit || t.Kind == tidemark.Geometry)
	for long && !raw && len(value) > maxShown-utf8.UTFMax && !utf8.Valid(value) {
		value = value[:len(value)-1]
	}
	text := string(value)
	if raw || !utf8.Valid(value) {
		text = "0x" + hex.EncodeToString(value)
	}
	if long {
		text += fmt.Sprintf("... (%d bytes)", size)
	}
	return &text
}

// shown returns the row of a find; false if it was not seen again.
func (t *table) shown(f *find) (Row, bool) {
	row := Row{Kind: f.kind, Count: f.count}
	side := 0
	if f.kind == Extra {
		side = 1
	}
	if f.text[side] == nil || f.kind == Different && f.text[1] == nil {
		return row, false
	}
	names := t.columns[0]
	key := t.pair.Key
	if len(key) == 0 {
		for i := range names {
			key = append(key, i)
		}
	}
	for _, i := range key {
		row.Values = append(row.Values, Value{Column: names[i].Name, Text: f.text[side][i].text})
	}
	if f.kind == Different {
		for i := range names {
			if a, b := f.text[0][i], f.text[1][i]; a.hash != b.hash {
				row.Changes = append(row.Changes, Change{Column: names[i].Name, Source: a.text, Target: b.text})
			}
		}
	}
	return row, true
}
