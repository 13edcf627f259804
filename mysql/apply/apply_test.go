package apply

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// untold is a value that an update leaves out.
const untold = "\x00same"

func tupleOf(row ...any) []change.Value {
	out := make([]change.Value, len(row))
	for i, v := range row {
		switch v {
		case nil:
			out[i].Kind = change.NullValue
		case untold:
			out[i].Kind = change.UnchangedValue
		default:
			out[i] = change.Value{Kind: change.TextValue, Data: fmt.Append(nil, v)}
		}
	}
	return out
}

// A hand builds transactions by hand.
type hand struct {
	t      *testing.T
	e      *Engine
	tables map[string]*tidemark.Table
	bounds map[uint32]*change.Bound
	ids    map[string]uint32
	tx     *change.Tx
	place  uint64
}

func newHand(t *testing.T, e *Engine) *hand {
	t.Helper()
	db, err := e.Describe(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &hand{t: t, e: e, tables: map[string]*tidemark.Table{}, bounds: map[uint32]*change.Bound{}, ids: map[string]uint32{}, tx: &change.Tx{}}
	for _, table := range db.Tables {
		l.tables[table.Name] = table
	}
	return l
}

// relation binds a table under a name. Columns are the table's stored columns, of an unspecific
// type; key are those that identify a row, none: all of them.
func (l *hand) relation(name, table string, key ...string) {
	to := l.tables[table]
	if to == nil {
		l.t.Fatalf("there is no table %s", table)
	}
	b := &change.Bound{Table: to, Relation: change.Relation{ID: uint32(len(l.ids) + 1), Table: to.TableID, Identity: 'd'}}
	if len(key) == 0 {
		b.Relation.Identity = 'f'
	}
	for i, c := range to.Columns {
		if c.Generated == "" {
			b.Relation.Columns = append(b.Relation.Columns, change.RelationColumn{Name: c.Name, Type: 1 << 20, Key: len(key) == 0 || slices.Contains(key, c.Name)})
			b.Columns = append(b.Columns, i)
		}
	}
	l.ids[name] = b.Relation.ID
	l.bounds[b.Relation.ID] = b
}

func (l *hand) message(kind byte, table string, tuples ...any) *hand {
	m := binary.BigEndian.AppendUint32([]byte{kind}, l.ids[table])
	for i := 0; i < len(tuples); i += 2 {
		m = change.AppendTuple(append(m, tuples[i].(byte)), tuples[i+1].([]change.Value))
	}
	l.tx.Changes = change.Append(l.tx.Changes, m)
	l.tx.Rows++
	return l
}

func (l *hand) insert(table string, row ...any) *hand {
	return l.message('I', table, byte('N'), tupleOf(row...))
}
func (l *hand) update(table string, row ...any) *hand {
	return l.message('U', table, byte('N'), tupleOf(row...))
}
func (l *hand) change(table string, old, row []any, kind byte) *hand {
	return l.message('U', table, kind, tupleOf(old...), byte('N'), tupleOf(row...))
}
func (l *hand) delete(table string, kind byte, row ...any) *hand {
	return l.message('D', table, kind, tupleOf(row...))
}

func (l *hand) truncate(tables ...string) *hand {
	m := binary.BigEndian.AppendUint32([]byte{'T'}, uint32(len(tables)))
	m = append(m, 0)
	for _, table := range tables {
		m = binary.BigEndian.AppendUint32(m, l.ids[table])
	}
	l.tx.Changes = change.Append(l.tx.Changes, m)
	return l
}

// group ends a transaction and makes it a group.
func (l *hand) group(epoch int64) *change.Group {
	l.place += 100
	l.tx.Place, l.tx.End = l.place, l.place+1
	g := &change.Group{Queue: "q", Epoch: epoch, Txs: []*change.Tx{l.tx}, Bounds: []map[uint32]*change.Bound{l.bounds}, Done: []uint64{l.place}}
	l.tx = &change.Tx{}
	return g
}

func (l *hand) begin() change.Progress {
	l.t.Helper()
	p, err := l.e.BeginApply(l.t.Context(), "q", 2)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// apply applies what was written as a transaction.
func (l *hand) apply(epoch int64) {
	l.t.Helper()
	if err := l.e.Apply(l.t.Context(), l.group(epoch)); err != nil {
		l.t.Fatal(err)
	}
}

// Every kind of change of every kind of table.
func TestApply(t *testing.T) {
	nearAndFar(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "apply")
		testdb.Query(t, to, `CREATE TABLE item (id int PRIMARY KEY, name varchar(20) COLLATE utf8mb4_bin UNIQUE, body longtext, price decimal(9,2), raw varbinary(9), twice int AS (id * 2) STORED, n int NOT NULL AUTO_INCREMENT UNIQUE);
			CREATE TABLE pair (a bigint, b char(4), note varchar(20), PRIMARY KEY (a, b));
			CREATE TABLE loose (x int, y varchar(9), z float, d decimal(30,10), b bit(9), j json);
			CREATE TABLE `+"`Odd ``Name`"+` (`+"`a b`"+` int PRIMARY KEY, `+"`select`"+` text);
			CREATE TABLE parent (id int PRIMARY KEY, up int, FOREIGN KEY (up) REFERENCES parent (id));
			CREATE TABLE child (id int PRIMARY KEY, parent int, FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE)`)
		e := open(t, to, server.Options{})
		l := newHand(t, e)
		l.relation("item", "item", "id")
		l.relation("pair", "pair", "a", "b")
		l.relation("loose", "loose")
		l.relation("odd", "Odd `Name", "a b")
		l.relation("parent", "parent", "id")
		l.relation("child", "child", "id")
		p := l.begin()
		has := func(sql, want string) {
			t.Helper()
			if got := testdb.Query(t, to, sql); got != want {
				t.Errorf("%s:\ngot\n%s\nwant\n%s", sql, got, want)
			}
		}
		item := "SELECT id, name, body, price, HEX(raw), twice, n FROM item ORDER BY id"
		l.insert("item", 1, "a'\\\n\x1a", "b\tä😀\"", "1.50", `\x00275c0aff`, 0).insert("item", 2, nil, nil, nil, nil, 7).insert("item", 3, "c", strings.Repeat("x", 5), "3", `\x`, 8)
		l.apply(p.Epoch)
		has(item, "1\ta'\\\n\x1a\tb\tä😀\"\t1.50\t00275C0AFF\t2\t0\n2\tNULL\tNULL\tNULL\tNULL\t4\t7\n3\tc\txxxxx\t3.00\t\t6\t8")
		// Updates: one that changes nothing, one that leaves columns out, a new key, a unique value
		// that moves to another row, and a row that is changed, deleted and inserted again.
		l.update("item", 1, "a", untold, "1.50", nil, 0).update("item", 2, "z", "b2", "2", nil, 7).update("item", 3, "c", "xxxxx", "3.00", `\x`, 8)
		l.change("item", []any{3, nil, nil, nil, nil, nil}, []any{30, "c", untold, "3", nil, 8}, 'K')
		l.update("item", 1, nil, "b1", "1", nil, 0).insert("item", 4, "a", nil, nil, nil, 9).update("item", 4, "a", "four", nil, nil, 9)
		l.delete("item", 'K', 2, nil, nil, nil, nil, nil).insert("item", 2, "z", "again", nil, nil, 7)
		l.apply(p.Epoch)
		has(item, "1\tNULL\tb1\t1.00\tNULL\t2\t0\n2\tz\tagain\tNULL\tNULL\t4\t7\n4\ta\tfour\tNULL\tNULL\t8\t9\n30\tc\txxxxx\t3.00\tNULL\t60\t8")
		for i := range 5 {
			l.insert("pair", i, "k   ", "n")
		}
		l.update("pair", 0, "k   ", nil).update("pair", 1, "k   ", "m").change("pair", []any{2, "k   ", nil}, []any{2, "y", "moved"}, 'K')
		l.delete("pair", 'K', 3, "k   ", nil).delete("pair", 'K', 4, "k   ", nil).insert("odd", 5, "x").update("odd", 5, nil)
		l.apply(p.Epoch)
		has("SELECT * FROM pair ORDER BY a", "0\tk\tNULL\n1\tk\tm\n2\ty\tmoved")
		has("SELECT * FROM `Odd ``Name`", "5\tNULL")
		// Rows without a key: exactly one of equal rows changes.
		row := []any{1, "Abc", "0.1", "12345678901234567890.1234567890", "000000101", `{"k": 1}`}
		for range 3 {
			l.insert("loose", row...)
		}
		l.insert("loose", 1, "abc", "0.1", "12345678901234567890.1234567890", "000000101", `{"k": 1}`).insert("loose", 1, "Abc", "0.1", "12345678901234567890.1234567891", "000000101", `{"k": 1}`).insert("loose", nil, nil, nil, nil, nil, nil)
		l.apply(p.Epoch)
		l.delete("loose", 'O', row...).change("loose", row, []any{2, "ABC", "-0.25", "0", "1", nil}, 'O').delete("loose", 'O', nil, nil, nil, nil, nil, nil)
		l.apply(p.Epoch)
		has("SELECT x, y, z, d, b+0 FROM loose ORDER BY x, d, CAST(y AS BINARY)", "1\tAbc\t0.1\t12345678901234567890.1234567890\t5\n1\tabc\t0.1\t12345678901234567890.1234567890\t5\n1\tAbc\t0.1\t12345678901234567890.1234567891\t5\n2\tABC\t-0.25\t0.0000000000\t1")
		// Parents and children in the order of the source; a cascade that was applied before.
		l.insert("parent", 1, nil).insert("child", 1, 1).insert("parent", 2, 1).insert("child", 2, 2).insert("child", 3, 2).update("child", 1, 2)
		l.apply(p.Epoch)
		l.delete("parent", 'K', 2, nil).delete("child", 'K', 3, nil).delete("child", 'K', 2, nil).delete("child", 'K', 1, nil).insert("parent", 3, 1).insert("child", 9, 3)
		l.apply(p.Epoch)
		has("SELECT * FROM child", "9\t3")
		l.truncate("loose", "parent", "child").insert("parent", 7, 7)
		l.apply(p.Epoch)
		has("SELECT (SELECT COUNT(*) FROM loose), (SELECT COUNT(*) FROM child), (SELECT GROUP_CONCAT(id) FROM parent)", "0\t0\t7")
		if n := e.agents[0].redone; n > 0 {
			t.Errorf("%d groups were done again", n)
		}
		again := l.begin()
		if again.Epoch != p.Epoch+1 || again.Low != 0 || len(again.Done) != 1 || again.Done[0] != l.place {
			t.Errorf("got %+v; the last transaction was %d", again, l.place)
		}
	})
}

// A group is applied with its progress, or not at all.
func TestApplyIsWholeOrNothing(t *testing.T) {
	nearAndFar(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "whole")
		testdb.Query(t, to, `CREATE TABLE item (id int PRIMARY KEY, name varchar(5) COLLATE utf8mb4_bin UNIQUE, price decimal(5,2), at datetime);
			CREATE TABLE bare (id int, v int); INSERT INTO item (id, name) VALUES (1, 'one')`)
		e := open(t, to, server.Options{})
		l := newHand(t, e)
		l.relation("item", "item", "id")
		l.relation("bare", "bare")
		p := l.begin()
		fill := func() *hand { return l.insert("item", 5, "five", nil, nil).insert("item", 6, "six", nil, nil) }
		fails := func(name string, want tidemark.Kind, text string) {
			t.Helper()
			err := e.Apply(t.Context(), l.group(p.Epoch))
			if tidemark.KindOf(err) != want || !strings.Contains(fmt.Sprint(err), text) || tidemark.HintOf(err) == "" {
				t.Errorf("%s: %v: %v (%s)", name, tidemark.KindOf(err), err, tidemark.HintOf(err))
			}
			if got := testdb.Query(t, to, "SELECT (SELECT GROUP_CONCAT(id, name) FROM item), (SELECT COUNT(*) FROM bare), (SELECT done FROM tidemark_applied WHERE agent = 0)"); got != "1one\t0\t" {
				t.Errorf("%s: left %q", name, got)
			}
		}
		fill().insert("item", 1, "x", nil, nil)
		fails("a row that is in the way", tidemark.BadRow, "Duplicate entry '1' for key")
		fill().insert("item", 2, "one", nil, nil)
		fails("a value that is taken", tidemark.BadRow, "Duplicate entry 'one' for key")
		for _, n := range []int{1, 2, 3} {
			fill()
			for i := range n {
				l.update("item", 10-i, "y"+fmt.Sprint(i), nil, nil)
			}
			fails(fmt.Sprint(n, " rows that are not there"), tidemark.BadRow, "item: an update matched 0 rows, not one")
		}
		fill().update("item", 1, "two", nil, nil).update("item", 9, "one", nil, nil)
		fails("a row that is not there, and whose value is free", tidemark.BadRow, "an update matched 0 rows, not one")
		fill().update("item", 9, "one", nil, nil).update("item", 5, "two", nil, nil)
		fails("a row that is not there, and whose value another has", tidemark.BadRow, "an update matched 0 rows, not one")
		fill().delete("item", 'K', 5, nil, nil, nil).delete("item", 'K', 9, nil, nil, nil)
		fails("a delete", tidemark.BadRow, "a delete matched 0 rows, not one")
		fill().delete("bare", 'O', 1, nil)
		fails("a whole row", tidemark.BadRow, "bare: a delete matched 0 rows, not one")
		fill().update("item", 1, "longer", nil, nil)
		fails("a text that is too long", tidemark.BadRow, "Data too long for column 'name'")
		fill().update("item", 1, "one   ", nil, nil)
		fails("blanks that are too long", tidemark.BadRow, "Data truncated for column 'name'")
		fill().insert("item", 2, "x", "1.234", nil)
		fails("digits", tidemark.BadRow, "Data truncated for column 'price'")
		fill().insert("item", 2, "x", nil, "infinity")
		fails("no date", tidemark.BadRow, `column at holds "infinity", which is outside the years 0000 to 9999`)
		other := l.begin()
		fill()
		fails("another apply", tidemark.Lost, "another apply of this stream has taken over")
		p = other
		fill()
		l.apply(p.Epoch)
		if got := testdb.Query(t, to, "SELECT GROUP_CONCAT(id ORDER BY id) FROM item"); got != "1,5,6" {
			t.Errorf("afterwards there are %s", got)
		}
		nulls := open(t, to, server.Options{Unrepresentable: server.Null})
		l.insert("item", 7, "x", "NaN", "infinity")
		if err := nulls.Apply(t.Context(), l.group(p.Epoch)); err != nil || testdb.Query(t, to, "SELECT price, at FROM item WHERE id = 7") != "NULL\tNULL" {
			t.Errorf("NULL for what cannot be held: %v", err)
		}
	})
}

// A killed agent reports an error that allows a retry, and can continue; a later apply that begins
// waits for an agent whose transaction is under way.
func TestApplyGoesOnWhenKilled(t *testing.T) {
	nearAndFar(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "killed")
		testdb.Query(t, to, "CREATE TABLE item (id int PRIMARY KEY); INSERT INTO item VALUES (1)")
		e := open(t, to, server.Options{})
		l := newHand(t, e)
		l.relation("item", "item", "id")
		p := l.begin()
		l.insert("item", 2)
		l.apply(p.Epoch)
		kill := func() {
			testdb.Query(t, to, fmt.Sprintf("KILL %d", e.agents[0].s.ID))
		}
		kill()
		g := l.insert("item", 3).group(p.Epoch)
		if err := e.Apply(t.Context(), g); tidemark.KindOf(err) != tidemark.Transient {
			t.Errorf("killed before: %v: %v", tidemark.KindOf(err), err)
		}
		if err := e.Apply(t.Context(), g); err != nil {
			t.Error(err)
		}
		// In the middle: it waits for a lock.
		s, err := e.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, sql := range []string{"BEGIN", "INSERT INTO item VALUES (4)"} {
			if err := s.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		g = l.insert("item", 4).group(p.Epoch)
		ended := make(chan error, 1)
		go func() { ended <- e.Apply(t.Context(), g) }()
		waiting := func() bool {
			time.Sleep(200 * time.Millisecond) // asked again within 0.1 s, the server repeats its last answer
			return testdb.Query(t, to, "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'") != "0"
		}
		for start := time.Now(); !waiting() && time.Since(start) < 5*time.Minute; {
		}
		kill()
		if err := testdb.From(t, "the end of the group", ended); tidemark.KindOf(err) != tidemark.Transient {
			t.Errorf("killed in the middle: %v: %v", tidemark.KindOf(err), err)
		}
		// A context that ends does not leave locks behind.
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- e.Apply(ctx, g) }()
		for start := time.Now(); !waiting() && time.Since(start) < 5*time.Minute; {
		}
		cancel()
		if err := testdb.From(t, "the end of the group", ended); tidemark.KindOf(err) != tidemark.Cancelled {
			t.Errorf("cancelled: %v: %v", tidemark.KindOf(err), err)
		}
		if err := s.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if err := e.Apply(t.Context(), g); err != nil {
			t.Error(err)
		}
		if got := testdb.Query(t, to, "SELECT COUNT(*) FROM item"); got != "4" {
			t.Errorf("%s rows", got)
		}
	})
}

// The connection breaks in COMMIT, and the progress row decides the outcome; if that cannot be read
// then, the next attempt finds out.
func TestApplyCutInCommit(t *testing.T) {
	nearAndFar(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "cut")
		testdb.Query(t, to, "CREATE TABLE item (id int)")
		proxy := mysqltest.NewProxy(t, srv)
		e := open(t, strings.Replace(to, fmt.Sprintf("127.0.0.1:%d", srv.Port), proxy.Addr().String(), 1), server.Options{})
		l := newHand(t, e)
		l.relation("item", "item")
		p := l.begin()
		for i, before := range []bool{false, true, false} {
			g := l.insert("item", i).group(p.Epoch)
			proxy.Before.Store(before)
			proxy.Armed.Store(true)
			err := e.Apply(t.Context(), g)
			if before && tidemark.KindOf(err) != tidemark.Transient || !before && err != nil {
				t.Errorf("cut before the server hears it %v: %v: %v", before, tidemark.KindOf(err), err)
			}
			if before {
				err = e.Apply(t.Context(), g)
			}
			if got := testdb.Query(t, to, "SELECT COUNT(*) FROM item"); got != fmt.Sprint(i+1) || err != nil {
				t.Errorf("%s rows, %v", got, err)
			}
		}
		// It did succeed, and the agent could not find out.
		g := l.insert("item", 9).group(p.Epoch)
		if err := e.Apply(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		a := e.agents[0]
		a.inDoubt, a.lostID = true, a.s.ID
		a.s.Close()
		if err := e.Apply(t.Context(), g); err != nil {
			t.Error(err)
		}
		if got := testdb.Query(t, to, "SELECT COUNT(*) FROM item WHERE id = 9"); got != "1" {
			t.Errorf("%s times", got)
		}
		// Its transactions are tried one by one after that, and another one is not there.
		var parts []*change.Group
		all := &change.Group{Queue: "q", Epoch: p.Epoch}
		for i := range 3 {
			one := l.insert("item", 20+i).group(p.Epoch)
			parts = append(parts, one)
			all.Txs, all.Bounds, all.Done = append(all.Txs, one.Txs...), append(all.Bounds, one.Bounds...), append(all.Done, one.Done...)
		}
		if err := e.Apply(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		a.inDoubt, a.lostID = true, a.s.ID
		a.s.Close()
		for _, one := range append(parts, l.insert("item", 23).group(p.Epoch)) {
			if err := e.Apply(t.Context(), one); err != nil {
				t.Error(err)
			}
		}
		if got := testdb.Query(t, to, "SELECT GROUP_CONCAT(id ORDER BY id) FROM item WHERE id >= 20"); got != "20,21,22,23" {
			t.Errorf("there are %s", got)
		}
	})
}

// However changes are combined, the rows end up as if each had been made alone.
func TestApplyTogetherAsAlone(t *testing.T) {
	nearAndFar(t, func(t *testing.T, srv *testdb.Server) {
		schema := `CREATE TABLE plain (id int, k varchar(3) COLLATE utf8mb4_bin, v int, w int DEFAULT 7, PRIMARY KEY (id, k));
			CREATE TABLE uniq (id int PRIMARY KEY, u int UNIQUE, v int);
			CREATE TABLE parent (id int PRIMARY KEY, v int); CREATE TABLE child (id int PRIMARY KEY, parent int, v int, FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE);
			CREATE TABLE boss (id int PRIMARY KEY, v int); CREATE TABLE worker (id int PRIMARY KEY, boss int, v int, FOREIGN KEY (boss) REFERENCES boss (id));
			CREATE TABLE task (id int PRIMARY KEY, worker int NOT NULL, v int, FOREIGN KEY (worker) REFERENCES worker (id) ON UPDATE RESTRICT ON DELETE RESTRICT);
			CREATE TABLE loose (a int, v int)`
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 1))
		var logs [3]*hand // combined, alone, and combined as text
		var urls [3]string
		var epochs [3]int64
		for i := range logs {
			urls[i] = srv.NewDatabase(t, "together")
			testdb.Query(t, urls[i], schema)
			logs[i] = newHand(t, open(t, urls[i], server.Options{}))
			for _, r := range [][]string{{"plain", "id", "k"}, {"uniq", "id"}, {"parent", "id"}, {"child", "id"}, {"boss", "id"}, {"worker", "id"}, {"task", "id"}, {"loose"}} {
				logs[i].relation(r[0], r[0], r[1:]...)
			}
			epochs[i] = logs[i].begin().Epoch
		}
		m := newModel()
		defer func() {
			p := logs[0].e.agents[0].plans[logs[0].tables["plain"]][0]
			if known := srv.Engine == "mariadb"; p.bulkInsert.ready != known || p.bulkUpsert.ready != known || p.bulkUpdate.ready != known {
				t.Errorf("statements are prepared: %v, %v, %v", p.bulkInsert.ready, p.bulkUpsert.ready, p.bulkUpdate.ready)
			}
		}()
		for range 25 {
			for range 1 + rnd.IntN(60) {
				m.step(rnd, func(write func(*hand)) {
					for _, l := range logs {
						write(l)
					}
				})
			}
			for i, l := range logs {
				g := l.group(epochs[i])
				a, _, err := l.e.applierFor(t.Context(), g)
				if err != nil {
					t.Fatal(err)
				}
				a.careful, a.s.Bulk = i == 1, a.s.Bulk && i == 0
				if err := l.e.Apply(t.Context(), g); err != nil {
					t.Fatal(i, err)
				}
			}
		}
		// Only a worker who leaves a boss that is deleted later in the same group needs a redo.
		if n := logs[0].e.agents[0].redone; n > 8 {
			t.Errorf("%d of 25 groups were done again", n)
		}
		filled := 0
		for _, sql := range []string{"SELECT * FROM plain ORDER BY 1,2", "SELECT * FROM uniq ORDER BY 1", "SELECT * FROM parent ORDER BY 1", "SELECT * FROM child ORDER BY 1",
			"SELECT * FROM boss ORDER BY 1", "SELECT * FROM worker ORDER BY 1", "SELECT * FROM task ORDER BY 1", "SELECT * FROM loose ORDER BY 1,2"} {
			if a, b, c := testdb.Query(t, urls[0], sql), testdb.Query(t, urls[1], sql), testdb.Query(t, urls[2], sql); a != b || a != c {
				t.Errorf("%s: together\n%s\nalone\n%s\nas text\n%s", sql, a, b, c)
			} else if a != "" {
				filled++
			}
		}
		if filled < 5 { // by chance a table may have lost all its rows
			t.Errorf("only %d of 8 tables have rows", filled)
		}
	})
}

// A model is the source of such changes: it makes only valid ones.
type model struct {
	plain  map[[2]string]bool
	uniq   map[int]int // id to u
	parent map[int]bool
	child  map[int]int // id to parent
	boss   map[int]bool
	worker map[int]int // id to boss
	task   map[int]int // id to worker
	loose  [][2]int
	n      int
}

func newModel() *model {
	return &model{plain: map[[2]string]bool{}, uniq: map[int]int{}, parent: map[int]bool{}, child: map[int]int{}, boss: map[int]bool{}, worker: map[int]int{}, task: map[int]int{}}
}

func (m *model) step(rnd *rand.Rand, write func(func(*hand))) {
	m.n++
	v := m.n
	id := rnd.IntN(12)
	switch rnd.IntN(7) {
	case 5, 6:
		m.employ(rnd, v, write)
	case 0:
		k := [2]string{fmt.Sprint(id), string(rune('a' + rnd.IntN(2)))}
		switch {
		case !m.plain[k]:
			m.plain[k] = true
			write(func(l *hand) { l.insert("plain", k[0], k[1], v, nil) })
		case rnd.IntN(4) == 0:
			delete(m.plain, k)
			write(func(l *hand) { l.delete("plain", 'K', k[0], k[1], nil, nil) })
		case rnd.IntN(4) == 0 && !m.plain[[2]string{k[0], "c"}]:
			delete(m.plain, k)
			m.plain[[2]string{k[0], "c"}] = true
			write(func(l *hand) { l.change("plain", []any{k[0], k[1], nil, nil}, []any{k[0], "c", v, untold}, 'K') })
		default:
			w := []any{v, untold, nil}[rnd.IntN(3)]
			write(func(l *hand) { l.update("plain", k[0], k[1], v, w) })
		}
	case 1:
		u := rnd.IntN(15)
		_, there := m.uniq[id]
		for other, x := range m.uniq {
			if x == u && other != id {
				if rnd.IntN(2) == 0 { // the value moves to another row
					delete(m.uniq, other)
					write(func(l *hand) { l.delete("uniq", 'K', other, nil, nil) })
				} else {
					m.uniq[other] = 1000 + v
					write(func(l *hand) { l.update("uniq", other, 1000+v, v) })
				}
			}
		}
		m.uniq[id] = u
		if there {
			write(func(l *hand) { l.update("uniq", id, u, v) })
		} else {
			write(func(l *hand) { l.insert("uniq", id, u, v) })
		}
	case 2:
		id %= 4
		switch {
		case !m.parent[id]:
			m.parent[id] = true
			write(func(l *hand) { l.insert("parent", id, v) })
		case rnd.IntN(3) == 0:
			delete(m.parent, id)
			write(func(l *hand) { l.delete("parent", 'K', id, nil) })
			for c := range 30 {
				if p, there := m.child[c]; there && p == id {
					delete(m.child, c)
					write(func(l *hand) { l.delete("child", 'K', c, nil, nil) })
				}
			}
		default:
			write(func(l *hand) { l.update("parent", id, v) })
		}
	case 3:
		c, p := rnd.IntN(30), rnd.IntN(4)
		_, there := m.child[c]
		switch {
		case !m.parent[p]:
		case there && rnd.IntN(4) == 0:
			delete(m.child, c)
			write(func(l *hand) { l.delete("child", 'K', c, nil, nil) })
		case there:
			m.child[c] = p
			write(func(l *hand) { l.update("child", c, p, v) })
		default:
			m.child[c] = p
			write(func(l *hand) { l.insert("child", c, p, v) })
		}
	case 4:
		if n := len(m.loose); n == 0 || rnd.IntN(3) > 0 {
			m.loose = append(m.loose, [2]int{id % 3, 1})
			write(func(l *hand) { l.insert("loose", id%3, 1) })
			return
		}
		i := rnd.IntN(len(m.loose))
		was := m.loose[i]
		if rnd.IntN(2) == 0 {
			m.loose = slices.Delete(m.loose, i, i+1)
			write(func(l *hand) { l.delete("loose", 'O', was[0], was[1]) })
			return
		}
		m.loose[i] = [2]int{was[0], v}
		write(func(l *hand) { l.change("loose", []any{was[0], was[1]}, []any{was[0], v}, 'O') })
	}
}

// MariaDB supports many rows for one statement, and MySQL does not.
func TestBulkIsNegotiated(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		e := open(t, srv.URL(""), server.Options{})
		s, err := e.ConnectFor(t.Context(), server.Wishes{Bulk: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if s.Bulk != (srv.Engine == "mariadb") {
			t.Error(s.Bulk)
		}
		if err := s.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Error(err)
		}
	})
}

// Changes that do not fit are skipped or adapted, and recorded; the others are applied.
func TestResolve(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		for _, force := range []bool{false, true} {
			to := srv.NewDatabase(t, "resolve")
			testdb.Query(t, to, "CREATE TABLE item (id int PRIMARY KEY, u int UNIQUE, name varchar(5), at datetime); INSERT INTO item VALUES (1, 1, 'one', NULL), (2, 2, 'two', NULL)")
			e := open(t, to, server.Options{})
			l := newHand(t, e)
			l.relation("item", "item", "id")
			p := l.begin()
			l.insert("item", 5, 5, "five", nil).insert("item", 1, 10, "x'y", nil).update("item", 3, 3, "three", nil).update("item", 4, 2, "taken", nil)
			l.update("item", 2, 2, "too long", nil).delete("item", 'K', 9, nil, nil, nil).insert("item", 6, 6, nil, "infinity").update("item", 7, untold, "part", nil).update("item", 2, 20, "last", nil)
			g := l.group(p.Epoch)
			g.Txs[0].Time = time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC)
			for _, b := range g.Bounds[0] {
				b.Conflict.Action = map[bool]tidemark.ConflictAction{false: tidemark.IgnoreConflict, true: tidemark.ForceConflict}[force]
			}
			n, err := e.Resolve(t.Context(), g)
			if err != nil || n != 7 {
				t.Fatalf("%d exceptions, %v", n, err)
			}
			want := map[bool]string{false: "1\t1\tone\n2\t20\tlast\n5\t5\tfive", true: "1\t10\tx'y\n2\t20\tlast\n3\t3\tthree\n5\t5\tfive"}[force]
			if got := testdb.Query(t, to, "SELECT id, u, name FROM item ORDER BY id"); got != want {
				t.Errorf("force %v: the target has\n%s", force, got)
			}
			all, err := e.Exceptions(t.Context(), change.ExceptionFilter{Queue: "q"}, 100)
			if err != nil || len(all) != 7 {
				t.Fatal(all, err)
			}
			var told []string
			for i := len(all) - 1; i >= 0; i-- {
				x := all[i]
				told = append(told, fmt.Sprintf("%s %s %v %s", x.Operation, x.Reason, x.Applied, strings.ReplaceAll(x.SQL, "`", "")))
				if x.Message == "" || x.Place != g.Txs[0].Place || !x.Commit.Equal(g.Txs[0].Time) || time.Since(x.Time).Abs() > time.Hour || (x.SQLState == "") != (x.Reason == "NOTFOUND" || x.SQL == "") {
					t.Errorf("%+v", x)
				}
			}
			db := mysqltest.DatabaseOf(to)
			if got, want := strings.Join(told, "\n"), strings.Join([]string{
				"INSERT DUPLICATE " + fmt.Sprint(force) + " INSERT INTO " + db + ".item (id,u,name,at) VALUES (1,10,'x\\'y',NULL)",
				"UPDATE NOTFOUND " + fmt.Sprint(force) + " UPDATE " + db + ".item SET u=3,name='three',at=NULL WHERE (id=3)",
				"UPDATE NOTFOUND false UPDATE " + db + ".item SET u=2,name='taken',at=NULL WHERE (id=4)",
				"UPDATE SQLERROR false UPDATE " + db + ".item SET u=2,name='too long',at=NULL WHERE (id=2)",
				"DELETE NOTFOUND false DELETE FROM " + db + ".item WHERE (id=9)",
				"INSERT SQLERROR false ",
				"UPDATE NOTFOUND false UPDATE " + db + ".item SET name='part',at=NULL WHERE (id=7)"}, "\n"); got != want {
				t.Errorf("noted are\n%s\nwant\n%s", got, want)
			}
			if none, err := e.Exceptions(t.Context(), change.ExceptionFilter{Queue: "another"}, 1); err != nil || len(none) > 0 {
				t.Error(none, err)
			}
			l.insert("item", 8, 8, nil, nil)
			l.apply(p.Epoch) // and it continues, combined
		}
	})
}

// employ changes tables whose foreign keys only refuse: nobody is deleted before those who
// reference them.
func (m *model) employ(rnd *rand.Rand, v int, write func(func(*hand))) {
	b, w, k := rnd.IntN(4), rnd.IntN(8), rnd.IntN(16)
	_, works := m.worker[w]
	_, there := m.task[k]
	switch {
	case !m.boss[b]:
		m.boss[b] = true
		write(func(l *hand) { l.insert("boss", b, v) })
	case !works:
		m.worker[w] = b
		write(func(l *hand) { l.insert("worker", w, b, v) })
	case rnd.IntN(6) == 0: // the boss is deleted, after all workers and their tasks
		for w := range 8 {
			if x, there := m.worker[w]; !there || x != b {
				continue
			}
			for k := range 16 {
				if x, there := m.task[k]; there && x == w {
					delete(m.task, k)
					write(func(l *hand) { l.delete("task", 'K', k, nil, nil) })
				}
			}
			delete(m.worker, w)
			write(func(l *hand) { l.delete("worker", 'K', w, nil, nil) })
		}
		delete(m.boss, b)
		write(func(l *hand) { l.delete("boss", 'K', b, nil) })
	case rnd.IntN(3) == 0:
		m.worker[w] = b
		write(func(l *hand) { l.update("worker", w, b, v) })
	case !there:
		m.task[k] = w
		write(func(l *hand) { l.insert("task", k, w, v) })
	case rnd.IntN(3) == 0:
		delete(m.task, k)
		write(func(l *hand) { l.delete("task", 'K', k, nil, nil) })
	default:
		write(func(l *hand) { l.update("boss", b, v).update("task", k, m.task[k], v) })
	}
}

// typeByte returns the byte that a column's type has in MySQL's log.
func typeByte(t tidemark.Type) uint32 {
	switch t.Kind {
	case tidemark.Int, tidemark.Bool:
		return map[int]uint32{8: 1, 16: 2, 24: 9, 32: 3, 64: 8}[t.Bits]
	case tidemark.Float:
		return uint32(t.Bits/32) + 3
	}
	return map[tidemark.TypeKind]uint32{tidemark.Decimal: 246, tidemark.Bit: 16, tidemark.Date: 10, tidemark.Time: 19, tidemark.DateTime: 18, tidemark.Timestamp: 17,
		tidemark.Year: 13, tidemark.JSON: 245, tidemark.Enum: 247, tidemark.Set: 248, tidemark.Geometry: 255, tidemark.Char: 254, tidemark.Binary: 254,
		tidemark.Varchar: 15, tidemark.Varbinary: 15, tidemark.Text: 252, tidemark.Blob: 252}[t.Kind]
}

// The types zoo arrives as a copy would leave it; rows that a stream writes again stay unchanged,
// and each of them is found by all of its values alone.
func TestApplyZoo(t *testing.T) {
	nearAndFar(t, func(t *testing.T, srv *testdb.Server) {
		from, to := srv.NewDatabase(t, "zoo"), srv.NewDatabase(t, "zooapplied")
		mysqltest.LoadZoo(t, srv, from)
		// Values without a canonical text, or with a shared one; and tables that no stream fills.
		testdb.Query(t, from, "SET sql_mode=''; DELETE FROM t_time WHERE id IN (1,2,5); UPDATE t_enum SET e='a' WHERE id=7; DROP TABLE t_myisam")
		names := mysqltest.LikeTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
		src, dst := open(t, from, server.Options{}), open(t, to, server.Options{})
		l := newHand(t, dst)
		epoch := l.begin().Epoch
		rows := map[string][][]any{}
		apply := func(what, name string) {
			t.Helper()
			if err := dst.Apply(t.Context(), l.group(epoch)); err != nil {
				t.Errorf("%s: %s: %v", what, name, err)
			}
		}
		for n, name := range names {
			m := mysqltest.MoveTo(mysqltest.TableFrom(t, from, name), mysqltest.DatabaseOf(to))
			for _, line := range strings.Split(strings.TrimSuffix(mysqltest.ReadAll(t, src, m, tidemark.CopyText), "\n"), "\n") {
				if line != "" {
					rows[name] = append(rows[name], copyValues(line))
				}
			}
			l.relation(name, name)
			for i, c := range m.From.Stored() {
				if (n%2 == 0) == (srv.Engine == "mysql") { // the others are about types that relations do not specify
					l.bounds[l.ids[name]].Relation.Columns[i].Type = typeByte(c.Type)
				}
			}
			for _, row := range rows[name] {
				l.insert(name, row...)
			}
			apply("inserted", name)
		}
		mysqltest.SameTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
		for _, name := range names {
			for _, row := range rows[name] {
				l.change(name, row, row, 'O')
			}
			apply("written again", name)
		}
		mysqltest.SameTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
		if n := dst.agents[0].redone; n > 0 {
			t.Errorf("%d groups were done again", n)
		}
		for _, name := range names {
			b := l.bounds[l.ids[name]]
			keyless := *b.Table
			keyless.Key = nil
			b.Table = &keyless
			for i, row := range rows[name] {
				if l.delete(name, 'O', row...); i%3 == 2 {
					apply("deleted", name)
				}
			}
			apply("deleted", name)
		}
	})
}

// copyValues splits a row of COPY text.
func copyValues(line string) (out []any) {
	for _, v := range strings.Split(line, "\t") {
		if v == `\N` {
			out = append(out, nil)
			continue
		}
		out = append(out, strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n", `\r`, "\r", `\b`, "\b", `\f`, "\f", `\v`, "\v").Replace(v))
	}
	return out
}

// A transaction of 50 MB in pieces, with a row larger than a packet should be, and one larger than
// the server accepts.
func TestApplyLargeTransaction(t *testing.T) {
	nearAndFar(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "large")
		testdb.Query(t, to, "CREATE TABLE item (id int PRIMARY KEY, v longtext)")
		e := open(t, to, server.Options{})
		l := newHand(t, e)
		l.relation("item", "item", "id")
		p := l.begin()
		g := &change.Group{Queue: "q", Epoch: p.Epoch}
		const n = 50000
		for i := 0; i < n; {
			for ; i < n && len(l.tx.Changes) < tidemark.PieceSize; i++ {
				l.insert("item", i, strings.Repeat("x", 1000))
			}
			one := l.group(p.Epoch)
			one.Txs[0].More = i < n
			g.Txs, g.Bounds, g.Done = append(g.Txs, one.Txs...), append(g.Bounds, one.Bounds...), one.Done
		}
		if err := e.Apply(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if got := testdb.Query(t, to, "SELECT COUNT(*), SUM(LENGTH(v)) FROM item"); got != fmt.Sprintf("%d\t%d", n, n*1000) {
			t.Errorf("got %s", got)
		}
		if a := e.agents[0]; cap(a.sql)+cap(a.whole)+cap(a.part)+cap(a.row) > 8<<20 {
			t.Errorf("the agent keeps %d, %d, %d and %d bytes", cap(a.sql), cap(a.whole), cap(a.part), cap(a.row))
		}
		l.insert("item", -1, strings.Repeat("y", gomysql.MaxPayloadLen+5)).insert("item", -2, "small").update("item", -2, "s")
		l.apply(p.Epoch)
		if got := testdb.Query(t, to, "SELECT LENGTH(v) FROM item WHERE id < 0 ORDER BY id"); got != fmt.Sprintf("1\n%d", gomysql.MaxPayloadLen+5) {
			t.Errorf("got %s", got)
		}
		err := e.Apply(t.Context(), l.insert("item", -3, strings.Repeat("y", 65<<20)).group(p.Epoch))
		if tidemark.KindOf(err) != tidemark.BadRow || !strings.Contains(fmt.Sprint(err), "is larger than max_allowed_packet") {
			t.Errorf("%v: %v", tidemark.KindOf(err), err)
		}
	})
}

// Setting up a stream reports problematic tables.
func TestApplyFindings(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "findings")
		testdb.Query(t, to, "CREATE TABLE quiet (id int PRIMARY KEY); CREATE TABLE fires (id int PRIMARY KEY, v int); CREATE TABLE old (id int PRIMARY KEY) ENGINE=MyISAM; CREATE TRIGGER tr BEFORE INSERT ON fires FOR EACH ROW SET NEW.v = COALESCE(NEW.v, 0) + 1")
		e := open(t, to, server.Options{})
		l := newHand(t, e)
		found, err := e.ApplyFindings(t.Context(), []*tidemark.Table{l.tables["quiet"], l.tables["fires"], l.tables["old"]}, false)
		if err != nil || len(found) != 2 || !strings.Contains(found[0].Text, mysqltest.DatabaseOf(to)+".fires") || !strings.Contains(found[1].Text, mysqltest.DatabaseOf(to)+".old (MyISAM)") {
			t.Errorf("%+v, %v", found, err)
		}
		l.relation("fires", "fires", "id")
		l.relation("old", "old", "id")
		p := l.begin()
		// An insert trigger ignores updates.
		l.insert("fires", 1, 1).insert("fires", 2, 1).update("fires", 1, 5).update("fires", 2, 6)
		l.apply(p.Epoch)
		if got := testdb.Query(t, to, "SELECT GROUP_CONCAT(v ORDER BY id) FROM fires"); got != "5,6" {
			t.Errorf("got %s", got)
		}
		if err := e.Apply(t.Context(), l.insert("old", 1).group(p.Epoch)); tidemark.KindOf(err) != tidemark.Unsupported {
			t.Errorf("%v: %v", tidemark.KindOf(err), err)
		}
	})
}

// A table's description changes within a group and gains columns: the rows are applied in the order
// of the source, and statements of the former description are released.
func TestApplyAcrossVersions(t *testing.T) {
	nearAndFar(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "versions")
		testdb.Query(t, to, "CREATE TABLE item (id int PRIMARY KEY, v int, w int)")
		e := open(t, to, server.Options{})
		l := newHand(t, e)
		p := l.begin()
		for i := range 5 {
			if i > 0 { // as after a new description
				table := *l.tables["item"]
				l.tables["item"] = &table
			}
			wide, narrow := fmt.Sprint("wide", i), fmt.Sprint("narrow", i)
			l.relation(wide, "item", "id")
			l.relation(narrow, "item", "id")
			b := l.bounds[l.ids[narrow]]
			b.Relation.Columns, b.Columns = b.Relation.Columns[:2], b.Columns[:2]
			l.insert(narrow, 1, i).insert(narrow, 2, i).insert(narrow, 3, i).update(wide, 1, i+10, i).update(wide, 2, i+10, i).delete(narrow, 'K', 3, nil).update(narrow, 1, i+20).update(narrow, 2, i+20)
			l.insert(wide, 3, i, nil).update(wide, 3, i+10, i).update(narrow, 3, i+20)
			l.apply(p.Epoch)
			want := fmt.Sprintf("1\t%[1]d\t%[2]d\n2\t%[1]d\t%[2]d\n3\t%[1]d\t%[2]d", i+20, i)
			if got := testdb.Query(t, to, "SELECT * FROM item ORDER BY id"); got != want {
				t.Errorf("round %d: got\n%s", i, got)
			}
			l.truncate(wide)
			l.apply(p.Epoch)
		}
		a := e.agents[0]
		if a.redone > 0 || len(a.plans) != 1 || srv.Engine == "mariadb" && (a.prepared == 0 || a.prepared > 6) {
			t.Errorf("%d groups done again, plans of %d descriptions, %d statements prepared", a.redone, len(a.plans), a.prepared)
		}
	})
}

// Concurrent begins do not conflict, and the progress of all agents is combined.
func TestBeginApply(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "begin")
		testdb.Query(t, to, "CREATE TABLE item (id int PRIMARY KEY)")
		e := open(t, to, server.Options{})
		l := newHand(t, e)
		l.relation("item", "item", "id")
		epochs := make(chan int64, 8)
		for range cap(epochs) {
			go func() {
				p, err := e.BeginApply(context.Background(), "q", 3)
				if err != nil {
					t.Error(err)
				}
				epochs <- p.Epoch
			}()
		}
		var all []int64
		for range cap(epochs) {
			all = append(all, testdb.From(t, "an epoch", epochs))
		}
		slices.Sort(all)
		first := all[0]
		if want := []int64{first, first + 1, first + 2, first + 3, first + 4, first + 5, first + 6, first + 7}; first < 1<<50 || !slices.Equal(all, want) {
			t.Errorf("epochs %v", all)
		}
		for i, g := range []*change.Group{l.insert("item", 1).group(first + 7), l.insert("item", 2).group(first + 7), l.insert("item", 3).group(first + 7)} {
			g.Agent = i
			g.Low = 1<<63 + uint64(i)*10
			g.Done = []uint64{g.Low + 5, g.Low + 25, g.Low + 1<<40}
			if err := e.Apply(t.Context(), g); err != nil {
				t.Fatal(err)
			}
		}
		p, err := e.BeginApply(t.Context(), "q", 1)
		low := uint64(1<<63 + 20)
		want := []uint64{low + 5, low + 15, low + 25, low + 1<<40 - 20, low + 1<<40 - 10, low + 1<<40}
		if err != nil || p.Epoch != first+8 || p.Low != low || !slices.Equal(p.Done, want) {
			t.Errorf("got %+v, want low %d, done %d; %v", p, low, want, err)
		}
		again, err := e.BeginApply(t.Context(), "q", 1)
		if err != nil || again.Low != low || !slices.Equal(again.Done, want) {
			t.Errorf("again: %+v, %v", again, err)
		}
		if err := e.Apply(t.Context(), &change.Group{Queue: "q", Agent: 0, Epoch: again.Epoch, Low: low + 16}); err != nil {
			t.Error(err)
		}
		again, err = e.BeginApply(t.Context(), "q", 1)
		if err != nil || again.Low != low+16 || !slices.Equal(again.Done, want[2:]) {
			t.Errorf("nothing was applied, and got %+v, %v", again, err)
		}
		if other, err := e.BeginApply(t.Context(), "other", 1); err != nil || other.Epoch <= first+20 || other.Low != 0 {
			t.Errorf("another stream: %+v, %v", other, err)
		}
	})
}

// TestUpdateFindsItsOwnRow: an update of a missing row, in a statement for many rows, does not
// change the row that has its value of another unique key.
func TestUpdateFindsItsOwnRow(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		to := srv.NewDatabase(t, "own")
		testdb.Query(t, to, "CREATE TABLE item (id int PRIMARY KEY, u int UNIQUE, v varchar(9)); INSERT INTO item VALUES (1,1,'one'),(3,3,'three'),(9,2,'nine')")
		l := newHand(t, open(t, to, server.Options{}))
		l.relation("item", "item", "id")
		p := l.begin()
		err := l.e.Apply(t.Context(), l.update("item", 1, 1, "x").update("item", 2, 2, "x").update("item", 3, 3, "x").group(p.Epoch))
		if tidemark.KindOf(err) != tidemark.BadRow {
			t.Errorf("%v: %v", tidemark.KindOf(err), err)
		}
		if got := testdb.Query(t, to, "SELECT id, u, v FROM item ORDER BY id"); got != "1\t1\tone\n3\t3\tthree\n9\t2\tnine" {
			t.Errorf("the table has\n%s", got)
		}
	})
}
