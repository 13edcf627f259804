package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// randomStatement draws a statement on one of three tables: with a key, with a unique index instead
// of one, and with neither.
func randomStatement(t *rapid.T) string {
	n := func(label string, most int) int { return rapid.IntRange(0, most).Draw(t, label) }
	text := rapid.SampledFrom([]string{"NULL", "''", "'a'", "'é\\\\日'", "'tab\t'", "REPEAT('x',3000)"}).Draw(t, "text")
	where := fmt.Sprintf(" WHERE id BETWEEN %d AND %d", n("from", 20), n("to", 20))
	table := rapid.SampledFrom([]string{"keyed", "uniq", "bare"}).Draw(t, "table")
	switch n("kind", 9) {
	case 0, 1, 2, 3:
		return fmt.Sprintf("INSERT IGNORE INTO %s (id,n,v) VALUES (%d,%d,%s),(%d,NULL,'b')", table, n("id", 20), n("n", 5), text, n("id2", 20))
	case 4, 5:
		return fmt.Sprintf("UPDATE %s SET v=%s, n=%d%s", table, text, n("n", 5), where)
	case 6:
		return fmt.Sprintf("UPDATE IGNORE %s SET id=id+%d%s ORDER BY id DESC", table, n("by", 5), where)
	case 7:
		return fmt.Sprintf("DELETE FROM %s%s LIMIT %d", table, where, n("limit", 3))
	case 8:
		return fmt.Sprintf("REPLACE INTO %s (id,n,v) VALUES (%d,9,%s)", table, n("id", 20), text)
	}
	return rapid.SampledFrom([]string{"SAVEPOINT a", "ROLLBACK TO a"}).Draw(t, "savepoint")
}

// Applying a stream's output in order yields the content of the tables, from any starting place.
func TestFollowRandom(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "random")
		e := open(t, url, server.Options{})
		s, err := e.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		exec := func(sql string) error { return s.Exec(t.Context(), sql) }
		for _, sql := range []string{"CREATE TABLE keyed (id int PRIMARY KEY, n int, v text)", "CREATE TABLE uniq (id int NOT NULL, n int, v text, UNIQUE u (id))", "CREATE TABLE bare (id int, n int, v text)", "SET sql_mode=''"} {
			if err := exec(sql); err != nil {
				t.Fatal(err)
			}
		}
		var moves []*tidemark.Move
		for _, name := range []string{"keyed", "uniq", "bare"} {
			moves = append(moves, mysqltest.MoveTo(mysqltest.TableFrom(t, url, name), "x"))
		}
		from := endOf(t, e)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		st := stream(t, e, from)
		txs := make(chan *change.Tx, 10_000)
		ended := make(chan error, 1)
		go func() { ended <- st.Run(ctx, func(tx *change.Tx) error { txs <- tx; return nil }) }()
		twin := newReplica(t)
		var all []*change.Tx
		var told [][]string
		rapid.Check(t, func(rt *rapid.T) {
			for range rapid.IntRange(1, 4).Draw(rt, "transactions") {
				many := rapid.Bool().Draw(rt, "many")
				if many {
					_ = exec("BEGIN")
				}
				for range rapid.IntRange(1, 5).Draw(rt, "statements") {
					_ = exec(randomStatement(rt)) // a missing savepoint, or a duplicate key
				}
				if many {
					_ = exec(rapid.SampledFrom([]string{"COMMIT", "COMMIT", "ROLLBACK"}).Draw(rt, "end"))
				} else if rapid.IntRange(0, 30).Draw(rt, "rare") == 0 {
					_ = exec(rapid.SampledFrom([]string{"FLUSH BINARY LOGS", "TRUNCATE bare", "FLUSH TABLES"}).Draw(rt, "what"))
				}
			}
			until := endOf(t, e)
			for start := time.Now(); st.Seen() < until; time.Sleep(time.Millisecond) {
				if time.Since(start) > 5*time.Minute {
					t.Fatalf("the stream stands at %s before %s: %v", server.PlaceText(st.Seen()), server.PlaceText(until), ended)
				}
			}
			for len(txs) > 0 {
				tx := <-txs
				all, told = append(all, tx), append(told, twin.take(tx))
			}
			for _, m := range moves {
				twin.sameRows(e, m)
			}
			if t.Failed() {
				rt.Fatal("different")
			}
		})
		cancel()
		if err := testdb.From(t, "the end of the stream", ended); tidemark.KindOf(err) != tidemark.Cancelled {
			t.Error(err)
		}
		st.Close()
		if len(all) < 100 {
			t.Errorf("only %d transactions", len(all))
		}
		for i := 0; i < len(all); i += len(all) / 10 {
			again := follow(t, e, all[i].Place)
			if d := cmp.Diff(told[i:], tell(t, again)); d != "" {
				t.Errorf("from %s: %.2000s", server.PlaceText(all[i].Place), d)
			}
		}
	})
}

// Positions are counted if events lack them (MariaDB 11.4 and later, within transactions), and
// after 4 GB.
func TestPlacesAreCounted(t *testing.T) {
	s := sourceOf(&server.Server{}).newStream("", "", 7<<32|4)
	step := func(size, next uint64, want uint64) {
		t.Helper()
		if err := s.advanceBy(size, next, eventXID, false); err != nil {
			t.Fatal(err)
		}
		if s.place() != want {
			t.Errorf("at %s, not %s", server.PlaceText(s.place()), server.PlaceText(want))
		}
	}
	step(96, 100, 7<<32|100)
	step(50, 0, 7<<32|150)
	step(50, 0, 7<<32|200)
	step(31, 231, 7<<32|231)
	s.pos = 1<<32 - 50
	s.placed = true
	step(40, 1<<32-10, 7<<32|(1<<32-10))
	step(40, 30, 8<<32|4) // the file ends with the transaction, so it continues in the next
	step(40, 70, 8<<32|4)
	if s.pos != 1<<32+70 {
		t.Error(s.pos)
	}
	if err := s.rotate(append(binary.LittleEndian.AppendUint64(nil, 4), "binlog.000008"...)); err != nil || s.place() != 8<<32|4 {
		t.Error(server.PlaceText(s.place()), err)
	}
}

// Tagged GTIDs, which the servers of these tests do not have yet, are read from the format that
// MySQL 8.3 writes.
func TestTaggedGTID(t *testing.T) {
	number := func(b []byte, n uint64) []byte {
		extra := 0
		for extra < 8 && n>>(7*(extra+1)) != 0 {
			extra++
		}
		if extra == 8 {
			return binary.LittleEndian.AppendUint64(append(b, 0xff), n)
		}
		all := binary.LittleEndian.AppendUint64(nil, n<<(extra+1)|(1<<extra-1))
		return append(b, all[:extra+1]...)
	}
	event := number(number(number(nil, 1), 0), 0)
	event = number(number(event, 0), 1) // field 0, flags
	event = number(event, 1)
	for i := range 16 {
		event = number(event, uint64(i*17))
	}
	event = number(number(event, 2), 2<<40)
	event = append(number(number(event, 3), 4), "blue"...)
	event = number(number(event, 6), 1_700_000_000_123_456)
	event = number(number(event, 7), 1_600_000_000_654_321)
	event = number(number(event, 8), 1<<63)
	event = append(number(event, 200), "later"...)
	s := sourceOf(&server.Server{}).newStream("", "", 7<<32|4)
	if err := s.gtidTagged(event, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if g := s.group; g.gtid != "00112233-4455-6677-8899-aabbccddeeff:blue:1099511627776" || g.time.UnixMicro() != 1_600_000_000_654_321 {
		t.Errorf("%s %v", g.gtid, g.time)
	}
	for n := range 20 {
		if err := s.gtidTagged(event[:n], time.Unix(1, 0)); err == nil {
			t.Errorf("of %d bytes", n)
		}
	}
}

// TestGTIDs reads the GTIDs of both servers from their events.
func TestGTIDs(t *testing.T) {
	s := sourceOf(&server.Server{}).newStream("", "", 7<<32|4)
	event := []byte{0}
	for i := range byte(16) {
		event = append(event, i*17)
	}
	event = binary.LittleEndian.AppendUint64(event, 1<<40)
	if err := s.gtidMySQL(event, false, time.Unix(1, 0)); err != nil || s.group.gtid != "00112233-4455-6677-8899-aabbccddeeff:1099511627776" {
		t.Errorf("%q, %v", s.group.gtid, err)
	}
	for flags, begun := range map[byte]bool{0: true, 1: false} {
		s := sourceOf(&server.Server{MariaDB: true}).newStream("", "", 7<<32|4)
		event := append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, 99), 3), flags)
		if err := s.gtidMariaDB(event, 7, time.Unix(1, 0)); err != nil || s.group.gtid != "3-7-99" || s.group.begun != begun {
			t.Errorf("%q, begun %v, %v", s.group.gtid, s.group.begun, err)
		}
	}
}

// FuzzRowEvents feeds a stream damaged TABLE_MAP and row events: it may refuse them, and must
// neither do anything worse nor emit anything malformed.
func FuzzRowEvents(f *testing.F) {
	table := func(types, metas string, optional string) string {
		n := len(types)
		return "\x01\x00\x02db\x00\x01t\x00" + string(rune(n)) + types + string(rune(len(metas))) + metas + strings.Repeat("\xff", (n+7)/8) + optional
	}
	f.Add([]byte(table("\x03\x0f\xfc", "\x50\x00\x02", "\x04\x06\x01a\x01b\x01c\x08\x01\x00")), []byte("\x05\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\xff\x04\x01\x00\x00\x00\x03one"), byte(0))
	f.Add([]byte(table("\xf6\x12\x13\x11\x10\xf5", "\x0a\x02\x06\x03\x00\x05\x01\x04", "\x01\x01\x00\x04\x0c\x01a\x01b\x01c\x01d\x01e\x01f")),
		[]byte("\x05\x00\x00\x00\x00\x00\x00\x00\x02\x00\x06\x3f\x00\x80\x00\x00\x7b\x2d\x99\xb2\x82\x10\x83\x00\x00\x01\x80\x00\x00\x00\x00\x65\x00\x00\x00\x1f\xff\x0d\x00\x00\x00\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a"), byte(0))
	f.Add([]byte(table("\xfe\xfe\xff\xf7", "\xf7\x01\xf8\x01\x04\xf7\x01", "\x04\x08\x01a\x01b\x01c\x01d\x06\x08\x02\x01x\x01y\x01\x01z\x05\x03\x01\x01s")), []byte("\x05\x00\x00\x00\x00\x00\x00\x00\x02\x00\x04\x0f\x0f\x00\x01\x01\x00\x00\x00\x00\x01\x00\x02"), byte(1))
	f.Fuzz(func(t *testing.T, mapped, rows []byte, kind byte) {
		s := sourceOf(&server.Server{Options: server.Options{ZeroDates: server.Null}}).newStream("", "", 7<<32|4)
		s.emit = func(*change.Tx) error { return nil }
		s.Collations = map[uint64]string{8: "utf8mb4", 45: "utf8mb4", 63: "binary"}
		m, err := event.ReadTableMap(mapped, false)
		if err != nil || m.Names == nil {
			return
		}
		lt, err := s.build(m, &schema.Shown{})
		if err != nil {
			return
		}
		s.maps[5] = lt
		_ = s.beginGroup(group{place: 7<<32 | 4, begun: true}) // without a journal
		err = s.rows(t.Context(), []tidemark.ChangeKind{tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange}[kind%3], event.RowForm{Version: 1 + int(kind>>2&1), Packed: kind&8 != 0, Diffs: kind&16 != 0}, rows)
		if s.tx == nil {
			return
		}
		n := 0
		for rest := s.tx.Changes; len(rest) > 0; {
			var c change.Change
			var bad error
			if c, rest, bad = change.Next(rest); bad != nil {
				t.Fatal(bad, err)
			}
			if c.Kind != tidemark.RelationChange {
				if n++; len(c.New.Values(nil)) != lt.Emitted && len(c.Old.Values(nil)) != lt.Emitted {
					t.Fatal("a row of another width")
				}
			}
		}
		if n != s.tx.Rows {
			t.Fatal(n, s.tx.Rows)
		}
	})
}

// A server that is killed during transactions, and restarted, has lost none that a stream has
// emitted, and the stream emits none twice.
func TestFollowKilledServer(t *testing.T) {
	srv := testdb.OwnMariaDB(t)
	url := srv.NewDatabase(t, "killed")
	testdb.Query(t, url, "CREATE TABLE item (id int AUTO_INCREMENT PRIMARY KEY, n int, v text)")
	twin := newReplica(t)
	from := endOf(t, open(t, url, server.Options{}))
	for range 3 {
		e := open(t, url, server.Options{})
		var wg sync.WaitGroup
		for range 3 {
			w, err := e.NewSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				for i := 0; ; i++ {
					for _, sql := range []string{"BEGIN", "INSERT INTO item (n,v) VALUES (1,REPEAT('x',500)),(2,'y')", fmt.Sprintf("UPDATE item SET n=n+1 WHERE id=%d", i), fmt.Sprintf("DELETE FROM item WHERE id=%d", 3*i), "COMMIT"} {
						if err := w.Exec(t.Context(), sql); errors.Is(err, io.EOF) || err != nil && w.Dead {
							return
						}
					}
				}
			})
		}
		s := stream(t, e, from)
		ended := make(chan error)
		go func() {
			ended <- s.Run(t.Context(), func(tx *change.Tx) error {
				twin.take(tx)
				from = tx.End
				return nil
			})
		}()
		count := "SELECT COUNT(*) FROM item"
		was, _ := strconv.Atoi(testdb.Query(t, url, count))
		for begun, n := time.Now(), was; n < was+60 && time.Since(begun) < 5*time.Minute; time.Sleep(50 * time.Millisecond) {
			n, _ = strconv.Atoi(testdb.Query(t, url, count))
		}
		srv.Kill(t)
		if err := testdb.From(t, "the end of the stream", ended); tidemark.KindOf(err) != tidemark.Transient {
			t.Errorf("killed: %v", err)
		}
		wg.Wait()
		srv.Restart(t)
	}
	e := open(t, url, server.Options{})
	for _, tx := range follow(t, e, from) {
		twin.take(tx)
	}
	if n := len(twin.lines("item")); n < 100 {
		t.Errorf("only %d rows", n)
	}
	twin.sameTables(e)
}

// sourceOf makes a source without a running server.
func sourceOf(s *server.Server) *Source { return &Source{Bulk: bulk.New(&schema.Schema{Server: s})} }
