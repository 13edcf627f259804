package queue

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// stored returns a log with four messages of one transaction each, at the places 101 to 104.
func stored(t *testing.T) (*Log, *Memory) {
	t.Helper()
	s := NewMemory(1 << 20)
	l, err := New(t.Context(), s, Options{MaxMessage: 4096})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Begin(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	for place := uint64(101); place <= 104; place++ {
		tx := &change.Tx{Place: place, End: place + 1, Rows: 1, Changes: append(described(), insert(100)...)}
		if err := l.Append(t.Context(), []*change.Tx{tx}); err != nil {
			t.Fatal(err)
		}
	}
	return l, s
}

// sealed corrects the checksum of a message.
func sealed(b []byte) []byte {
	b = b[:len(b)-sumSize]
	return binary.BigEndian.AppendUint64(b, xxh3.Hash(b))
}

// TestMaxTransactions begins a message once as many transactions have begun in the one before as
// are allowed.
func TestMaxTransactions(t *testing.T) {
	for most, want := range map[int][]uint32{0: {7}, 1: {1, 1, 1, 1, 1, 1, 1}, 3: {3, 3, 1}} {
		s := NewMemory(1 << 20)
		l, err := New(t.Context(), s, Options{MaxMessage: 64 << 10, MaxTransactions: most})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Begin(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		var txs []*change.Tx
		for place := uint64(101); place <= 107; place++ {
			txs = append(txs, &change.Tx{Place: place, End: place + 1, Rows: 1, Changes: append(described(), insert(100)...)})
		}
		if err := l.Append(t.Context(), txs); err != nil {
			t.Fatal(err)
		}
		var got []uint32
		for _, b := range s.held {
			m, err := parse(b)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, uint32(len(m.entries)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("at most %d: messages of %v transactions, want %v", most, got, want)
		}
	}
}

// Messages put into the store without the log are found, and everything before them is emitted.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(held [][]byte)
		kind  tidemark.Kind
		text  string
		begin bool // also found when a capture begins
	}{
		{"a flipped bit", func(h [][]byte) { h[2][200] ^= 1 }, tidemark.Corrupt, "read queue in memory: message 3: it is damaged", false},
		{"exchanged", func(h [][]byte) { h[2], h[3] = h[3], h[2] }, tidemark.Corrupt, "message 3: it has the number 4", true},
		{"doubled", func(h [][]byte) { h[2] = h[1] }, tidemark.Corrupt, "message 3: it has the number 2", false},
		{"of another queue", func(h [][]byte) {
			h[2] = bytes.Clone(h[2])
			binary.BigEndian.PutUint64(h[2][24:], 12345) // its writer
			h[2] = sealed(h[2])
		}, tidemark.Corrupt, "message 4 does not follow the one that was before it", false},
		{"of another version", func(h [][]byte) {
			for i := 2; i < 4; i++ {
				h[i][3] = 9
				h[i] = sealed(h[i])
			}
		}, tidemark.Unsupported, "message 3: it is in the format of another version of the program: 9", true},
		{"emptied", func(h [][]byte) { h[2] = nil }, tidemark.Corrupt, "message 3: it is damaged", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, s := stored(t)
			c.do(s.held)
			var got []uint64
			// Read from the start, so that nothing is looked up before the damage.
			err := l.Read(t.Context(), 0, func(tx *change.Tx) error {
				got = append(got, tx.Place)
				return nil
			})
			if tidemark.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) || tidemark.HintOf(err) == "" {
				t.Errorf("%v (%v)", err, tidemark.KindOf(err))
			}
			if len(got) < 2 || len(got) > 3 || got[0] != 101 || got[1] != 102 {
				t.Errorf("before the damage, the transactions at %d were read", got)
			}
			_, _, err = l.Begin(t.Context(), 1)
			if found := tidemark.KindOf(err) == c.kind && err != nil; found != c.begin {
				t.Errorf("a capture that begins gets %v", err)
			}
		})
	}
}

// Another process trims what is being read.
func TestTrimmedAway(t *testing.T) {
	l, s := stored(t)
	err := l.Read(t.Context(), 100, func(tx *change.Tx) error {
		if tx.Place == 101 {
			for range 6 { // messages read ahead are there already
				b := bytes.Clone(s.held[len(s.held)-1])
				_, _ = s.Put(t.Context(), s.first+uint64(len(s.held)), [][]byte{b})
			}
			return s.Purge(t.Context(), 10)
		}
		return nil
	})
	if tidemark.KindOf(err) != tidemark.Lost && tidemark.KindOf(err) != tidemark.Corrupt {
		t.Fatalf("%v (%v)", err, tidemark.KindOf(err))
	}
}

func TestTooSmall(t *testing.T) {
	_, err := New(t.Context(), NewMemory(1<<20), Options{})
	if tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "a queue of 1048576 bytes does not hold four messages of 1032192") {
		t.Fatal(err)
	}
}

// After Append is cancelled, Begin works.
func TestCancelledAppend(t *testing.T) {
	l, _ := stored(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var err error
	for place := uint64(105); err == nil; place++ {
		err = l.Append(ctx, []*change.Tx{{Place: place, End: place + 1, Changes: append(described(), insert(50_000)...)}})
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	place, end, err := l.Begin(t.Context(), 1)
	if err != nil || place < 105 || end != place+1 {
		t.Fatal(place, end, err)
	}
}

// BenchmarkPack and BenchmarkParse measure the cost of a message apart from the store: bytes of
// changes per second.
func BenchmarkPack(b *testing.B) {
	txs, size := backlog()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		p := packer{max: defaultMessage}
		p.begin(header{}, 0, 1)
		p.hint = size
		for _, tx := range txs {
			if err := p.add(tx); err != nil {
				b.Fatal(err)
			}
		}
		p.drain()
	}
}

func BenchmarkParse(b *testing.B) {
	txs, size := backlog()
	messages := packed(b, defaultMessage, false, txs...)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		r := reader{given: map[uint32][]byte{}, pending: map[uint32][]byte{}, skip: true}
		n := 0
		for _, raw := range messages {
			m, err := parse(raw)
			if err != nil {
				b.Fatal(err)
			}
			if err := r.emitFrom(m, false, func(tx *change.Tx) error { n++; return nil }); err != nil {
				b.Fatal(err)
			}
		}
		if n < len(txs) {
			b.Fatal(n)
		}
	}
}

// backlog returns transactions of five rows of 315 bytes.
func backlog() (txs []*change.Tx, size int) {
	row := insert(300)
	for i := range 5000 {
		tx := &change.Tx{Place: uint64(1000 + 10*i), End: uint64(1005 + 10*i), Rows: 5}
		if i == 0 {
			tx.Changes = described()
		}
		for range 5 {
			tx.Changes = append(tx.Changes, row...)
		}
		size += len(tx.Changes)
		txs = append(txs, tx)
	}
	return txs, size
}

// TestReadBeginsWithItsTransaction: a transaction in several messages is read from the first one.
func TestReadBeginsWithItsTransaction(t *testing.T) {
	l, err := New(t.Context(), NewMemory(1<<20), Options{MaxMessage: 4096})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Begin(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	for place, rows := range []int{1, 40, 1} {
		tx := &change.Tx{Place: uint64(101 + place), End: uint64(102 + place), Rows: rows, Changes: described()}
		for range rows {
			tx.Changes = append(tx.Changes, insert(500)...)
		}
		if err := l.Append(t.Context(), []*change.Tx{tx}); err != nil {
			t.Fatal(err)
		}
	}
	last := l.stored
	for after, want := range map[uint64]uint64{100: 1, 101: 2, 102: last, 103: last + 1} {
		if seq, _, err := l.find(t.Context(), after); err != nil || seq != want {
			t.Errorf("after %d: message %d of %d, %v, want %d", after, seq, last, err, want)
		}
	}
	if last < 5 {
		t.Errorf("only %d messages", last)
	}
}
