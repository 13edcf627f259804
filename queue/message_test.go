package queue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

var orders = change.Relation{ID: 7, Table: tidemark.TableID{Schema: "public", Name: "orders"}, Identity: 'd',
	Columns: []change.RelationColumn{{Name: "id", Key: true, Type: 23, Mod: -1}, {Name: "text", Type: 25, Mod: -1}}}

// insert returns an insert into orders.
func insert(size int) []byte {
	m := binary.BigEndian.AppendUint32([]byte{'I'}, orders.ID)
	m = append(m, 'N')
	return change.Append(nil, change.AppendTuple(m, []change.Value{
		{Kind: change.TextValue, Data: []byte("1")}, {Kind: change.TextValue, Data: bytes.Repeat([]byte{'x'}, size)}}))
}

func described() []byte { return change.Append(nil, orders.Append(nil)) }

func packed(t testing.TB, maxMessage int, compress bool, txs ...*change.Tx) [][]byte {
	p := packer{max: maxMessage}
	if compress {
		p.compress, _ = zstd.NewWriter(nil)
	}
	p.begin(header{seq: 4, whole: 90, end: 91}, 0xabcdef, 77)
	for _, tx := range txs {
		if err := p.add(tx); err != nil {
			t.Fatal(err)
		}
	}
	return p.drain()
}

func TestHeaders(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_123_456).UTC()
	txs := []*change.Tx{
		{Place: 100, End: 110, XID: 5, Time: at, Put: at.Add(time.Second), Origin: "other", Rows: 1, Changes: append(described(), insert(10)...)},
		{Place: 120, More: true, Rows: 2, Changes: append(insert(3000), insert(1000)...)},
		{Place: 120, End: 130, GTID: "0-1-2", Rows: 1, Changes: insert(2000)},
		{Place: 140, End: 150},
	}
	for _, compress := range []bool{false, true} {
		var prev uint64 = 0xabcdef
		want := []header{
			{seq: 5, after: 90, whole: 100, end: 110, open: 5, entries: 2},
			{seq: 6, after: 100, whole: 140, end: 150, entries: 3, flags: continuesFlag},
		}
		messages := packed(t, 4096, compress, txs...)
		if len(messages) != len(want) {
			t.Fatalf("%d messages", len(messages))
		}
		for i, b := range messages {
			m, err := parse(b)
			if err != nil || len(b) > 4096 {
				t.Fatalf("message %d of %d bytes: %v", i, len(b), err)
			}
			w := want[i]
			w.prev, w.writer, w.changes, w.size = prev, 77, m.changes, m.size
			if compress {
				w.flags |= packedFlag
			}
			if m.header != w {
				t.Errorf("header %+v\n   want %+v", m.header, w)
			}
			if openOf(b) != m.open {
				t.Errorf("openOf gives %d", openOf(b))
			}
			prev = m.sum
		}
		first, _ := parse(messages[0])
		if tx := first.entries[0].tx; tx.Place != 100 || tx.End != 110 || tx.XID != 5 || !tx.Time.Equal(at) || !tx.Put.Equal(at.Add(time.Second)) || tx.Origin != "other" || tx.Rows != 1 || tx.More || !bytes.Equal(tx.Changes, txs[0].Changes) {
			t.Errorf("the first transaction is %+v", tx)
		}
		second, _ := parse(messages[1])
		if len(first.relations) != 0 || !bytes.Equal(second.relations, described()) {
			t.Errorf("relations %q and %q", first.relations, second.relations)
		}
		if tx := second.entries[2].tx; !tx.Time.IsZero() || len(tx.Changes) != 0 || second.entries[1].tx.GTID != "0-1-2" {
			t.Errorf("the last transaction is %+v", tx)
		}
	}
}

// Every flipped bit of a message is found.
func TestFlippedBits(t *testing.T) {
	for _, compress := range []bool{false, true} {
		b := packed(t, 4096, compress, &change.Tx{Place: 100, End: 110, Rows: 1, Changes: append(described(), insert(500)...)})[0]
		for i := range b {
			for bit := range 8 {
				b[i] ^= 1 << bit
				if _, err := parse(b); !errors.Is(err, errDamaged) && !(i == 3 && errors.Is(err, errFormat)) {
					t.Fatalf("byte %d, bit %d: %v", i, bit, err)
				}
				b[i] ^= 1 << bit
			}
			if _, err := parse(b[:i]); !errors.Is(err, errDamaged) {
				t.Fatalf("cut at %d: %v", i, err)
			}
		}
		if _, err := parse(b); err != nil {
			t.Fatal(err)
		}
	}
}

// A table whose description does not fit into a message is rejected, and so are malformed changes.
func TestRefused(t *testing.T) {
	wide := orders
	for range 400 {
		wide.Columns = append(wide.Columns, change.RelationColumn{Name: "a name of a column", Type: 25})
	}
	for want, changes := range map[string][]byte{
		"the description of a table does not fit into a message of 4096 bytes": change.Append(nil, wide.Append(nil)),
		"a change of table number 7, which the stream has not described":       insert(5),
		"a malformed change": {0, 0, 0, 9, 'I'},
		"the transaction at position 90 is not after the last one, at 90": nil,
	} {
		p := packer{max: 4096}
		p.begin(header{whole: 90}, 0, 1)
		tx := &change.Tx{Place: 100, Changes: changes}
		if changes == nil {
			tx.Place = 90
		}
		if err := p.add(tx); err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// Any input is rejected by parse and the reader, or yields transactions within the memory limit.
func FuzzMessage(f *testing.F) {
	for _, compress := range []bool{false, true} {
		for _, b := range packed(f, 4096, compress,
			&change.Tx{Place: 100, End: 110, Rows: 1, GTID: "a", Changes: append(described(), insert(10)...)},
			&change.Tx{Place: 120, More: true, Rows: 2, Changes: append(insert(6000), insert(100)...)},
			&change.Tx{Place: 120, End: 130, Origin: "b", Changes: insert(3000)}) {
			f.Add(b[:len(b)-sumSize])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = binary.BigEndian.AppendUint64(bytes.Clone(b), xxh3.Hash(b)) // otherwise nothing would be accepted
		m, err := parse(b)
		if err != nil {
			return
		}
		r := reader{given: map[uint32][]byte{}, pending: map[uint32][]byte{}}
		size := 0
		err = r.emitFrom(m, false, func(tx *change.Tx) error {
			size += len(tx.Changes)
			return nil
		})
		if limit := int(m.size) * 3; err == nil && size > limit {
			t.Fatalf("%d bytes of changes out of %d", size, m.size)
		}
	})
}

// Anything from a capture is rejected, or comes out again in messages of the requested size.
func FuzzPack(f *testing.F) {
	f.Add(append(described(), insert(10)...), 5000)
	f.Add(append(described(), insert(9000)...), 5000)
	f.Add(append(append(described(), insert(3000)...), insert(2000)...), 4096)
	f.Fuzz(func(t *testing.T, changes []byte, size int) {
		p := packer{max: minMessage + max(0, size)%10000}
		p.begin(header{}, 0, 1)
		if p.add(&change.Tx{Place: 5, End: 6, Changes: changes}) != nil {
			return
		}
		var got []byte
		r := reader{given: map[uint32][]byte{}, pending: map[uint32][]byte{}}
		for i, b := range p.drain() {
			m, err := parse(b)
			if err != nil || len(b) > p.max {
				t.Fatalf("message %d of %d bytes: %v", i, len(b), err)
			}
			// Relations are left out: all of them are among the changes.
			m.relations = nil
			if err := r.emitFrom(m, false, func(tx *change.Tx) error { got = append(got, tx.Changes...); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, changes) {
			t.Fatalf("%d bytes went in, %d came out", len(changes), len(got))
		}
	})
}
