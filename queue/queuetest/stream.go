package queuetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// A source generates transactions as a capture emits them.
type source struct {
	rnd   *rand.Rand
	place uint64
	known map[uint32]change.Relation // relations that the capture has described
	all   map[uint32]change.Relation // as they are now
}

func newSource(seed uint64) *source {
	s := &source{rnd: rand.New(rand.NewPCG(seed, 1)), place: 1000, known: map[uint32]change.Relation{}, all: map[uint32]change.Relation{}}
	for id := uint32(1); id <= 4; id++ {
		s.all[id] = change.Relation{ID: 16384 + id, Table: tidemark.TableID{Schema: "public", Name: fmt.Sprintf("t%d", id)}, Identity: 'd',
			Columns: []change.RelationColumn{{Name: "id", Key: true, Type: 23, Mod: -1}, {Name: "v", Type: 25, Mod: -1}}}
	}
	return s
}

// restart does what a restarted capture does: it describes all tables again.
func (s *source) restart() { clear(s.known) }

// describe returns the descriptions of all tables.
func (s *source) describe() []byte {
	var b []byte
	for id, rel := range s.all {
		b = change.Append(b, rel.Append(nil))
		s.known[id] = rel
	}
	return b
}

// add adds to tx a change of table id with size bytes, and the table's description if
// that is due.
func (s *source) add(tx *change.Tx, id uint32, size int) {
	rel := s.all[id]
	if s.rnd.IntN(40) == 0 {
		rel.Columns = append(rel.Columns[:len(rel.Columns):len(rel.Columns)], change.RelationColumn{Name: fmt.Sprintf("c%d", s.rnd.IntN(1000)), Type: 23, Mod: -1})
		if len(rel.Columns) > 8 {
			rel.Columns = rel.Columns[:2]
		}
		s.all[id] = rel
		delete(s.known, id)
	}
	if _, ok := s.known[id]; !ok {
		tx.Changes = change.Append(tx.Changes, rel.Append(nil))
		s.known[id] = rel
	}
	if s.rnd.IntN(50) == 0 {
		m := binary.BigEndian.AppendUint32([]byte{'T'}, 1)
		m = append(m, 0)
		tx.Changes = change.Append(tx.Changes, binary.BigEndian.AppendUint32(m, rel.ID))
	}
	text := make([]byte, size)
	for i := range text {
		text[i] = byte('a' + s.rnd.IntN(26))
	}
	m := binary.BigEndian.AppendUint32([]byte{'I'}, rel.ID)
	m = append(m, 'N')
	m = change.AppendTuple(m, []change.Value{{Kind: change.TextValue, Data: []byte("1")}, {Kind: change.TextValue, Data: text}})
	tx.Changes = change.Append(tx.Changes, m)
	tx.Rows++
}

// next creates a transaction in pieces, of rows changes of up to size bytes each.
func (s *source) next(pieces, rows, size int) []*change.Tx {
	s.place += 1 + uint64(s.rnd.IntN(50))
	at := time.UnixMicro(1_700_000_000_000_000 + int64(s.place)).UTC()
	var out []*change.Tx
	for i := range pieces {
		tx := &change.Tx{Place: s.place, XID: uint32(s.place), Time: at, Put: at.Add(time.Millisecond), More: i < pieces-1}
		if s.place%3 == 0 {
			tx.GTID, tx.Origin = fmt.Sprintf("0-1-%d", s.place), "elsewhere"
		}
		if !tx.More {
			tx.End = s.place + 1
		}
		for range rows {
			s.add(tx, 1+uint32(s.rnd.IntN(4)), s.rnd.IntN(size+1))
		}
		out = append(out, tx)
	}
	return out
}

// some creates a few small transactions, and now and then one in pieces or an empty one.
func (s *source) some(n int) []*change.Tx {
	var out []*change.Tx
	for range n {
		switch s.rnd.IntN(10) {
		case 0:
			out = append(out, s.next(1, 0, 0)...)
		case 1:
			out = append(out, s.next(1+s.rnd.IntN(4), 1+s.rnd.IntN(20), 900)...)
		default:
			out = append(out, s.next(1, 1+s.rnd.IntN(6), 200)...)
		}
	}
	return out
}

// flat lists whole transactions in a form that does not depend on how they are cut into pieces, or
// when a table is described, as long as that is before its use: each change is listed with its
// table's definition at that moment.
func flat(tb judge, txs []*change.Tx) []string {
	tb.Helper()
	known := map[uint32]string{}
	var out []string
	var b strings.Builder
	rows, amid := 0, uint64(0)
	for _, tx := range txs {
		if amid != 0 && amid != tx.Place {
			tb.Fatalf("the transaction at place %d has not ended when that at %d begins", amid, tx.Place)
		}
		rows += tx.Rows
		for rest := tx.Changes; len(rest) > 0; {
			c, next, err := change.Next(rest)
			if err != nil {
				tb.Fatalf("the transaction at place %d: %v", tx.Place, err)
			}
			rest = next
			of := ""
			switch c.Kind {
			case tidemark.RelationChange:
				known[c.Table] = string(c.Body)
				continue
			case tidemark.TruncateChange:
				tr, err := change.ParseTruncation(c.Body)
				if err != nil {
					tb.Fatal(err)
				}
				of = known[tr.Tables[0]]
			default:
				of = known[c.Table]
			}
			if of == "" {
				tb.Fatalf("the transaction at place %d changes a table that was not described", tx.Place)
			}
			fmt.Fprintf(&b, "%c %q %q\n", c.Kind, of, c.Body)
		}
		if amid = tx.Place; tx.More {
			continue
		}
		amid = 0
		out = append(out, fmt.Sprintf("%d %d %s %d %v %v %s %d\n", tx.Place, tx.End, tx.GTID, tx.XID, tx.Time.UnixMicro(), tx.Put.UnixMicro(), tx.Origin, rows)+b.String())
		b.Reset()
		rows = 0
	}
	return out
}

// equal compares what was read with what was appended.
func equal(tb judge, got, want []string) {
	tb.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			tb.Fatalf("transaction %d of %d is %.300s\nand was %.300s", i, len(want), got[i], want[i])
		}
	}
	if len(got) != len(want) {
		tb.Fatalf("%d transactions were read, and %d were appended", len(got), len(want))
	}
}

// keep copies what Append gets, since the log then owns it.
func keep(txs []*change.Tx) []*change.Tx {
	var out []*change.Tx
	for _, tx := range txs {
		c := *tx
		c.Changes = bytes.Clone(tx.Changes)
		out = append(out, &c)
	}
	return out
}
