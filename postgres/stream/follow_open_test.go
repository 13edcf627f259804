package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// TestOpenTransactions follows large transactions that arrive in blocks, interleaved, with
// subtransactions that are rolled back. The result equals what the server sends to a client that
// does not want them before their commit.
func TestOpenTransactions(t *testing.T) {
	for version, memory := range map[int]int64{14: 100 << 10, 15: 1 << 30, 18: 100 << 10} {
		t.Run(fmt.Sprint(version, " with ", memory>>10, " kB"), func(t *testing.T) {
			url := testdb.Postgres(t, version).NewDatabase(t, "open")
			testdb.Query(t, url, `CREATE TABLE item (id int PRIMARY KEY, name text); CREATE TABLE other (id int PRIMARY KEY, at int); CREATE TABLE third (id int PRIMARY KEY, at int);
					DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET logical_decoding_work_mem = ''64kB'''; END $$`)
			e := open(t, url)
			slot := slotOf(t, e, url, fmt.Sprint("open_", version, "_", memory>>10))
			interleave(t, url)
			got := takeOpen(t, e, slot, memory)
			want := decodedWhole(t, e, slot)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if len(got) != 6 || len(got[3]) < 2500 || len(got[4]) < 2500 {
				t.Errorf("%d transactions, %d and %d changes in the large ones", len(got), len(got[3]), len(got[4]))
			}
			var streamed string
			for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(100 * time.Millisecond) {
				streamed = testdb.Query(t, url, "SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = '"+slot.Name+"'")
				if streamed != "0" {
					break
				}
			}
			if streamed == "0" {
				t.Error("the server has sent no transaction before its commit")
			}
		})
	}
}

// interleave makes six transactions: small ones, large ones that grow in turns, and one large one
// that is rolled back.
func interleave(t *testing.T, url string) {
	t.Helper()
	var txs []*pgx.Conn
	for range 4 {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		txs = append(txs, c)
	}
	do := func(i int, sql string) {
		t.Helper()
		if _, err := txs[i].Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(i, from, n int) {
		do(i, fmt.Sprintf("INSERT INTO item SELECT i, repeat('z', 60) FROM generate_series(%d, %d) i", from, from+n-1))
	}
	for i := range 3 {
		do(i, "BEGIN")
	}
	for round := range 3 {
		for i := range 3 {
			base := 100_000*(i+1) + 10_000*round
			fill(i, base, 600)
			do(i, "SAVEPOINT a")
			fill(i, base+1000, 500)
			do(i, "SAVEPOINT b")
			fill(i, base+2000, 400)
			do(i, "ROLLBACK TO b; SAVEPOINT c")
			fill(i, base+3000, 300)
			do(i, fmt.Sprintf("RELEASE c; UPDATE item SET name = 'u' WHERE id = %d", base+3000))
			if round != 1 {
				do(i, "ROLLBACK TO a")
			}
			do(i, fmt.Sprintf("INSERT INTO other VALUES (%d, %d)", base, round))
		}
		do(3, fmt.Sprintf("INSERT INTO other VALUES (%d, 99)", round))
	}
	// A table that is altered, and the alteration rolled back, in the middle of a streamed
	// transaction.
	do(1, "INSERT INTO third VALUES (-9999, 0); SAVEPOINT d; ALTER TABLE third ADD more int DEFAULT 3; INSERT INTO third SELECT i, 1, 2 FROM generate_series(-3000, -1) i; ROLLBACK TO d; INSERT INTO third VALUES (-1, 0); COMMIT")
	do(2, "ROLLBACK")
	do(0, "COMMIT")
	do(3, "INSERT INTO item VALUES (1, 'end')")
}

var errTaken = errors.New("taken")

// takeOpen returns what a stream emits if its open transactions may use the given memory.
func takeOpen(t *testing.T, e *Engine, slot Slot, memory int64) (out [][]string) {
	t.Helper()
	s, err := e.Follow(t.Context(), slot, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Spool(t.TempDir(), memory)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	relations := map[uint32]change.Relation{}
	more := false
	err = s.Run(ctx, func(tx *change.Tx) error {
		if s.open.taken > memory {
			t.Errorf("%d bytes are taken", s.open.taken)
		}
		lines := pgtest.Lines(t, tx, relations)
		if more {
			out[len(out)-1] = append(out[len(out)-1], lines...)
		} else {
			out = append(out, append([]string{fmt.Sprint(tx.Place, tx.XID, tx.Time)}, lines...))
		}
		if more = tx.More; !more {
			out[len(out)-1] = append(out[len(out)-1], fmt.Sprint("to ", tx.End))
		}
		if strings.Contains(strings.Join(lines, "\n"), "'end'") {
			return errTaken
		}
		return nil
	})
	if err != errTaken {
		t.Fatal(err)
	}
	if len(s.open.txs) > 0 || s.open.taken != 0 {
		t.Errorf("%d transactions are left, of %d bytes", len(s.open.txs), s.open.taken)
	}
	return out
}

// decodedWhole returns what the server decodes in protocol version 1, which streams nothing.
func decodedWhole(t *testing.T, e *Engine, slot Slot) (out [][]string) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), e.Config.Copy())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var rows pgx.Rows
	for try := 0; ; try++ { // until the server notices that the reader has gone
		rows, err = conn.Query(t.Context(), "SELECT data FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', $2)", slot.Name, server.QuoteIdent(slot.Publication))
		if err != nil {
			t.Fatal(err)
		}
		s := &Stream{}
		relations := map[uint32]change.Relation{}
		var m []byte
		more := false
		_, err = pgx.ForEachRow(rows, []any{&m}, func() error {
			return s.message(m, func(tx *change.Tx) error {
				lines := pgtest.Lines(t, tx, relations)
				if !more {
					out = append(out, []string{fmt.Sprint(tx.Place, tx.XID, tx.Time)})
				}
				out[len(out)-1] = append(out[len(out)-1], lines...)
				if more = tx.More; !more {
					out[len(out)-1] = append(out[len(out)-1], fmt.Sprint("to ", tx.End))
				}
				return nil
			})
		})
		if err == nil {
			return out
		}
		if try == 2000 {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// blockMessage is a message of a block.
func blockMessage(kind byte, sub uint32, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, sub), body...)
}

// TestOpenTwin feeds random blocks to a stream and to a twin that keeps lists.
func TestOpenTwin(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		s := &Stream{open: opened{memory: int64(rnd.IntN(60_000))}}
		type twin struct {
			changes []string
			subs    []uint32
			gone    map[uint32]bool
		}
		twins := map[uint32]*twin{}
		var want, got []string
		send := func(m []byte) {
			t.Helper()
			err := s.message(m, func(tx *change.Tx) error {
				got = append(got, fmt.Sprint(tx.XID, tx.Place, tx.End, tx.Rows))
				for rest := tx.Changes; len(rest) > 0; {
					n := 4 + binary.BigEndian.Uint32(rest)
					got, rest = append(got, string(rest[4:n])), rest[n:]
				}
				return nil
			})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if s.open.taken > s.open.memory {
				t.Fatalf("seed %d: %d bytes are taken, of %d", seed, s.open.taken, s.open.memory)
			}
		}
		for range 300 {
			xid := uint32(100 * (1 + rnd.IntN(5)))
			w := twins[xid]
			switch n := rnd.IntN(10); {
			case n < 7:
				first := byte(0)
				if w == nil {
					w, first = &twin{gone: map[uint32]bool{}}, 1
					twins[xid] = w
				}
				send(append(blockMessage('S', xid, ""), first))
				for range rnd.IntN(4) {
					sub := xid + uint32(rnd.IntN(6))
					if w.gone[sub] {
						continue // its number is not used again
					}
					body := strings.Repeat(string(rune('a'+rnd.IntN(26))), 1+rnd.IntN(4000))
					send(blockMessage('I', sub, body))
					w.changes, w.subs = append(w.changes, "I"+body), append(w.subs, sub)
				}
				send([]byte{'E'})
			case n == 7 && w != nil:
				sub := xid + 1 + uint32(rnd.IntN(5))
				send(blockMessage('A', xid, string(binary.BigEndian.AppendUint32(nil, sub))))
				w.gone[sub] = true
			case n == 8:
				send(blockMessage('A', xid, string(binary.BigEndian.AppendUint32(nil, xid))))
				delete(twins, xid)
			case n == 9 && w != nil:
				var kept []string
				for i, c := range w.changes {
					if !w.gone[w.subs[i]] {
						kept = append(kept, c)
					}
				}
				want = append(append(want, fmt.Sprint(xid, 11, 12, len(kept))), kept...)
				delete(twins, xid)
				end := []byte{0}
				for _, x := range []uint64{11, 12, 13} {
					end = binary.BigEndian.AppendUint64(end, x)
				}
				send(blockMessage('c', xid, string(end)))
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
		s.open.dropAll()
		if s.open.taken != 0 || len(s.open.txs) != 0 {
			t.Errorf("seed %d: %d bytes are left", seed, s.open.taken)
		}
	}
}

// FuzzStreamMessages: on any input a stream returns transactions or an error.
func FuzzStreamMessages(f *testing.F) {
	pack := func(ms ...[]byte) (b []byte) {
		for _, m := range ms {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(m))), m...)
		}
		return b
	}
	f.Add(pack(append(blockMessage('S', 7, ""), 1), blockMessage('I', 8, "x"), []byte{'E'}, blockMessage('A', 7, "\x00\x00\x00\x08"), blockMessage('c', 7, strings.Repeat("\x00", 25))))
	f.Add(pack(append([]byte{'B'}, make([]byte, 20)...), []byte("O12345678x\x00"), []byte("Ix"), append([]byte{'C'}, make([]byte, 25)...)))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := &Stream{open: opened{memory: 200}, filtered: map[uint32]tidemark.TableID{}}
		defer s.open.dropAll()
		for len(in) >= 2 {
			n := min(int(binary.BigEndian.Uint16(in)), len(in)-2)
			m := bytes.Clone(in[2 : 2+n])
			in = in[2+n:]
			if len(m) == 0 {
				continue
			}
			err := s.message(m, func(tx *change.Tx) error {
				if tx.More != (len(tx.Changes) >= tidemark.PieceSize) {
					t.Error("a piece that is not of its size")
				}
				return nil
			})
			if err != nil {
				return
			}
		}
	})
}
