package apply_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/postgres/stream"
)

const (
	sourceSchema = `CREATE TABLE district (id int PRIMARY KEY, name text UNIQUE, total int NOT NULL DEFAULT 0);
		CREATE TABLE customer (id int PRIMARY KEY, district int NOT NULL REFERENCES district ON DELETE CASCADE, email text UNIQUE, balance int NOT NULL DEFAULT 0);
		CREATE TABLE history (customer int, note text); ALTER TABLE history REPLICA IDENTITY FULL;
		CREATE TABLE account (id int PRIMARY KEY, seat int UNIQUE, note text)`
	targetSchema = `CREATE TABLE district (id int PRIMARY KEY, name varchar(20) COLLATE utf8mb4_bin UNIQUE, total int NOT NULL);
		CREATE TABLE customer (id int PRIMARY KEY, district int NOT NULL, email varchar(20) COLLATE utf8mb4_bin UNIQUE, balance int NOT NULL, FOREIGN KEY (district) REFERENCES district (id) ON DELETE CASCADE);
		CREATE TABLE history (customer int, note varchar(20));
		CREATE TABLE account (id int PRIMARY KEY, seat int UNIQUE, note text)`
)

// work makes transactions that interfere with each other: hot parents, unique values that move to
// other rows, children that are inserted and deleted with their parent.
func work(url string, rnd *rand.Rand, n int) {
	s := testdb.NewSession(url)
	defer s.Close()
	for range n {
		d, c := rnd.IntN(4), rnd.IntN(30)
		var sql []string
		for range 1 + rnd.IntN(5) {
			sql = append(sql, []string{
				fmt.Sprintf("INSERT INTO district VALUES (%d, 'd%d') ON CONFLICT DO NOTHING", d, rnd.IntN(6)),
				fmt.Sprintf("INSERT INTO customer SELECT %d, id, 'e%d' FROM district WHERE id = %d ON CONFLICT DO NOTHING", c, rnd.IntN(40), d),
				fmt.Sprintf("UPDATE district SET total = total + 1 WHERE id = %d", d),
				fmt.Sprintf("UPDATE customer SET balance = balance + 1 WHERE id = %d", c),
				fmt.Sprintf("UPDATE customer SET email = NULL WHERE id = %d; UPDATE customer SET email = 'e%d' WHERE id = %d AND NOT EXISTS (SELECT FROM customer WHERE email = 'e%d')", c, d, c, d),
				fmt.Sprintf("UPDATE customer SET id = id + 1000 WHERE id = %d AND NOT EXISTS (SELECT FROM customer WHERE id = %d)", c, c+1000),
				fmt.Sprintf("DELETE FROM customer WHERE id %% 1000 = %d", c),
				fmt.Sprintf("DELETE FROM district WHERE id = %d", d),
				fmt.Sprintf("INSERT INTO history VALUES (%d, 'x')", c%5),
				fmt.Sprintf("DELETE FROM history WHERE ctid = (SELECT ctid FROM history WHERE customer = %d LIMIT 1)", c%5),
				fmt.Sprintf("INSERT INTO account SELECT %d, max(seat) + 1, 'it''s' FROM account ON CONFLICT DO NOTHING", c),
				// Two seats are swapped by way of a third value.
				fmt.Sprintf("UPDATE account SET seat = -seat WHERE id = %[1]d; UPDATE account SET seat = -(SELECT seat FROM account WHERE id = %[1]d) WHERE id = %[2]d AND (SELECT seat FROM account WHERE id = %[1]d) < 0; "+
					"UPDATE account SET seat = 1000 - seat WHERE id = %[1]d AND seat < 0", c, (c+1)%30),
				fmt.Sprintf("UPDATE account SET note = repeat('n', %d) WHERE id < %d", c, c),
				fmt.Sprintf("DELETE FROM account WHERE id %% 7 = %d", c%7),
			}[rnd.IntN(14)])
		}
		// Sessions that conflict may be refused: uncommitted work does not count.
		_, _ = s.Try("BEGIN; " + strings.Join(sql, "; ") + "; COMMIT")
	}
}

// A rig is a source with a slot and a target with the same tables.
type rig struct {
	src, dst string
	reach    string // the target, as the stream reaches it
	slot     stream.Slot
}

func newRig(t *testing.T, to *testdb.Server) rig {
	t.Helper()
	r := rig{src: testdb.Postgres(t, 15).NewDatabase(t, "src"), dst: to.NewDatabase(t, "dst")}
	r.reach = r.dst
	testdb.Query(t, r.src, sourceSchema)
	testdb.Query(t, r.src, "INSERT INTO account SELECT i, i * 10 FROM generate_series(0, 29) i")
	testdb.Query(t, r.dst, targetSchema)
	testdb.Query(t, r.dst, "INSERT INTO account (id, seat) VALUES "+strings.Join(func() (out []string) {
		for i := range 30 {
			out = append(out, fmt.Sprintf("(%d,%d)", i, i*10))
		}
		return out
	}(), ","))
	r.slot = stream.Slot{Name: fmt.Sprintf("my_%d", time.Now().UnixNano()), Publication: "run"}
	e := source(t, r.src)
	if _, err := e.CreateSlot(t.Context(), r.slot, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer e.Close()
		for try := 0; ; try++ {
			err := e.DropSlot(context.Background(), r.slot)
			if err == nil {
				return
			}
			if try == 1000 {
				t.Error(err)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	return r
}

func source(t *testing.T, url string) *postgres.Engine {
	t.Helper()
	e, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// follow applies the stream of the slot until ctx ends, or something fails.
func (r rig) follow(t *testing.T, ctx context.Context, opt apply.Options) (apply.Stats, error) {
	from := source(t, r.src)
	defer from.Close()
	to, err := mysql.Open(ctx, r.reach, server.Options{})
	if err != nil {
		return apply.Stats{}, err
	}
	defer to.Close()
	db, err := to.Describe(ctx, nil)
	if err != nil {
		return apply.Stats{}, err
	}
	tables, byName := map[tidemark.TableID]*tidemark.Table{}, map[string]*tidemark.Table{}
	for _, table := range db.Tables {
		tables[table.TableID], byName[table.Name] = table, table
	}
	opt.Queue = "run"
	opt.Bind = func(rel change.Relation, _ uint64) (*apply.Binding, error) {
		return apply.Bind(rel, byName[rel.Table.Name], tables)
	}
	s, err := from.Follow(ctx, r.slot, 0)
	if err != nil {
		return apply.Stats{}, err
	}
	defer s.Close()
	opt.OnApplied = s.Release
	run := apply.New(to, opt)
	p, err := run.Start(ctx, 0)
	if err != nil {
		return apply.Stats{}, err
	}
	g := flow.NewGroup(ctx)
	in := flow.NewBuffer(1000, 8<<20, func(tx *change.Tx) int64 { return int64(len(tx.Changes)) })
	g.Go("Capture", func(ctx context.Context, c *flow.Clock) error {
		c.Enter(flow.IO)
		return s.Run(ctx, func(tx *change.Tx) error { return in.Put(ctx, c, tx) })
	})
	run.Go(g, in, p)
	err = g.Wait()
	return run.Stats(), err
}

// contents returns all rows, in the format that both ends share.
func contents(t *testing.T, url string) string {
	t.Helper()
	var out []string
	for _, sql := range []string{"SELECT id, name, total FROM district ORDER BY 1", "SELECT id, district, email, balance FROM customer ORDER BY 1",
		"SELECT customer, note, count(*) FROM history GROUP BY 1, 2 ORDER BY 1", "SELECT id, seat, note FROM account ORDER BY 1"} {
		out = append(out, sql, testdb.Query(t, url, sql))
	}
	return strings.Join(out, "\n")
}

// await waits until the target has the source's rows.
func (r rig) await(t *testing.T) {
	t.Helper()
	var a, b string
	for start := time.Now(); time.Since(start) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
		if a, b = contents(t, r.src), contents(t, r.dst); a == b {
			return
		}
	}
	t.Errorf("the source has\n%s\nthe target\n%s", a, b)
}

// PostgreSQL's types arrive through a stream as the copy converts them.
func TestStreamedTypesAsCopied(t *testing.T) {
	tables := []string{"t_numeric", "t_text", "t_time", "t_net_geo", "t_json", "t_array", "t_range", "t_composite", "t_generated"}
	src := testdb.Postgres(t, 15).NewDatabase(t, "zoo")
	testdb.Load(t, src, testdb.SamplePostgres(t, 15, "types-zoo/pg.sql"))
	// What MySQL refuses, and MariaDB in part.
	testdb.Query(t, src, "DELETE FROM zoo.t_numeric WHERE id IN (6, 8); DELETE FROM zoo.t_json WHERE id = 3")
	from := source(t, src)
	slot := stream.Slot{Name: fmt.Sprintf("zoo_%d", time.Now().UnixNano()), Publication: "zoo_all"}
	if _, err := from.CreateSlot(t.Context(), slot, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Freeze(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var sql []string
	for _, name := range tables {
		set := map[string]string{"t_generated": "a = a", "t_text": "t = t || '', b = b || ''", "t_json": "j = j::text::json, jb = jb::text::jsonb"}[name]
		if set == "" {
			set = "id = id"
		}
		sql = append(sql, "UPDATE zoo."+name+" SET "+set) // out-of-line values would not be sent again
	}
	testdb.Query(t, src, strings.Join(sql, ";")) // one transaction
	ctx, cancel := context.WithCancel(t.Context())
	s, err := from.Follow(ctx, slot, 0)
	if err != nil {
		t.Fatal(err)
	}
	var txs []*change.Tx
	_ = s.Run(ctx, func(tx *change.Tx) error {
		txs = append(txs, tx)
		if !tx.More {
			cancel()
		}
		return nil
	})
	s.Close()
	cancel()
	defer from.Close()
	defer func() {
		for range 1000 {
			if from.DropSlot(context.Background(), slot) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Error("the slot is still there")
	}()
	db, err := from.Describe(t.Context(), func(id tidemark.TableID) bool { return slices.Contains(tables, id.Name) })
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []func(testing.TB) *testdb.Server{testdb.MariaDB, testdb.MySQL} {
		srv := server(t)
		t.Run(srv.Engine, func(t *testing.T) {
			copied, streamed := srv.NewDatabase(t, "copied"), srv.NewDatabase(t, "streamed")
			copyAll(t, from, db, copied, true)
			copyAll(t, from, db, streamed, false)
			insertAll(t, streamed, txs)
			for _, name := range tables {
				sum := func(url string) string {
					text := testdb.Query(t, url, "CHECKSUM TABLE "+name)
					return text[strings.IndexByte(text, '\t')+1:] + " of " + testdb.Query(t, url, "SELECT COUNT(*) FROM "+name)
				}
				a, b := sum(copied), sum(streamed)
				if a != b || strings.HasSuffix(a, " of 0") {
					t.Errorf("%s: %s copied, %s streamed:\n%s\n%s", name, a, b, testdb.Query(t, copied, "SELECT * FROM "+name+" ORDER BY id"), testdb.Query(t, streamed, "SELECT * FROM "+name+" ORDER BY id"))
				}
			}
		})
	}
}

// copyAll creates the tables of a source, and copies their rows if wanted.
func copyAll(t *testing.T, from *postgres.Engine, db *tidemark.Database, url string, rows bool) {
	t.Helper()
	to, err := mysql.Open(t.Context(), url, server.Options{Unrepresentable: server.Null})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	var moves []tidemark.Move
	for _, table := range db.Tables {
		target := *table
		target.Schema = url[strings.LastIndexByte(url, '/')+1:]
		m := tidemark.Move{From: table, To: &target}
		for _, c := range table.Stored() {
			m.Source = append(m.Source, c.Name)
		}
		moves = append(moves, m)
	}
	objects, _ := to.Render(db, moves)
	for _, o := range objects {
		if o.Phase == tidemark.BeforeRows {
			if err := to.Exec(t.Context(), 0, o.SQL); err != nil {
				t.Fatal(o.ID, err)
			}
		}
	}
	for i := range moves {
		if !rows {
			break
		}
		r := &tidemark.Range{}
		var batches []*tidemark.Batch
		err := from.Read(t.Context(), 0, tidemark.Read{Move: &moves[i], Range: r, Format: tidemark.CopyText}, func(b *tidemark.Batch) error {
			batches = append(batches, b)
			return nil
		})
		if err == nil {
			_, err = to.Write(t.Context(), 0, tidemark.Write{Move: &moves[i], Range: r}, func() (*tidemark.Batch, error) {
				b := batches[0]
				batches = batches[1:]
				return b, nil
			})
		}
		if err != nil {
			t.Fatal(moves[i].From, err)
		}
	}
}

// insertAll applies transactions of updates as if they were inserts.
func insertAll(t *testing.T, url string, txs []*change.Tx) {
	t.Helper()
	to, err := mysql.Open(t.Context(), url, server.Options{Unrepresentable: server.Null})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	db, err := to.Describe(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := to.BeginApply(t.Context(), "q", 1)
	if err != nil {
		t.Fatal(err)
	}
	bounds := map[uint32]*change.Bound{}
	for _, tx := range txs {
		made := &change.Tx{Place: tx.Place, End: tx.End, More: tx.More}
		for rest := tx.Changes; len(rest) > 0; {
			var c change.Change
			if c, rest, err = change.Next(rest); err != nil {
				t.Fatal(err)
			}
			switch c.Kind {
			case tidemark.RelationChange:
				r, err := change.ParseRelation(c.Body)
				if err != nil {
					t.Fatal(err)
				}
				b := &change.Bound{Relation: r}
				for _, table := range db.Tables {
					if table.Name == r.Table.Name {
						b.Table = table
					}
				}
				for _, col := range r.Columns {
					b.Columns = append(b.Columns, slices.IndexFunc(b.Table.Columns, func(c tidemark.Column) bool { return c.Name == col.Name }))
				}
				bounds[r.ID] = b
			case tidemark.UpdateChange:
				made.Changes = change.Append(made.Changes, append([]byte{'I'}, c.Body...))
			}
		}
		if err := to.Apply(t.Context(), &change.Group{Queue: "q", Epoch: p.Epoch, Txs: []*change.Tx{made}, Bounds: []map[uint32]*change.Bound{bounds}, Done: []uint64{tx.Place}}); err != nil {
			t.Fatal(err)
		}
	}
}

// 16 agents apply what PostgreSQL streams. However often they are stopped, their sessions are
// killed, connections break with what is on its way, or others take over, nothing is lost and
// nothing is applied twice. With a distant target a COMMIT goes out with the changes.
func TestStreamStoppedAtAnyMoment(t *testing.T) {
	for _, to := range []struct {
		name   string
		server func(testing.TB) *testdb.Server
		delay  time.Duration
	}{{"mariadb", testdb.MariaDB, 0}, {"mysql", testdb.MySQL, 0}, {"mariadb far away", testdb.MariaDB, 2 * time.Millisecond}, {"mysql far away", testdb.MySQL, 2 * time.Millisecond}} {
		t.Run(to.name, func(t *testing.T) {
			srv := to.server(t)
			r := newRig(t, srv)
			wire := testdb.NewWire(t, fmt.Sprint(srv.Port), to.delay)
			if to.delay > 0 {
				r.reach = strings.Replace(r.dst, fmt.Sprint(":", srv.Port), ":"+wire.Port, 1)
			}
			stopAtAnyMoment(t, r, wire)
		})
	}
}

func stopAtAnyMoment(t *testing.T, r rig, wire *testdb.Wire) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 99))
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { work(r.src, rand.New(rand.NewPCG(seed, uint64(i))), 120) })
	}
	working := make(chan struct{})
	go func() { wg.Wait(); close(working) }()
	var stats apply.Stats
	for round := 0; ; round++ {
		over := false
		select {
		case <-working:
			over = true
		default:
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		follow := func() error {
			one, err := r.follow(t, ctx, apply.Options{Agents: 16, CommitCount: 1 + round%3*4})
			stats.Transactions += one.Transactions
			stats.Held += one.Held
			stats.Retried += one.Retried
			return err
		}
		if over {
			go func() {
				err := follow()
				for ctx.Err() == nil && passes(err) { // the last session may not have ended yet
					time.Sleep(100 * time.Millisecond)
					err = follow()
				}
				ended <- err
			}()
			r.await(t)
			cancel()
			if err := testdb.From(t, "the end of the stream", ended); !passes(err) {
				t.Errorf("round %d: %v: %v", round, tidemark.KindOf(err), err)
			}
			t.Logf("%d rounds, %d transactions, %d held, %d retried", round, stats.Transactions, stats.Held, stats.Retried)
			if stats.Transactions == 0 {
				t.Error("nothing was applied")
			}
			return
		}
		go func() { ended <- follow() }()
		time.Sleep(time.Duration(100+rnd.IntN(600)) * time.Millisecond)
		if round%2 == 0 {
			for _, id := range strings.Fields(testdb.Query(t, r.dst, "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID() AND RAND() < 0.5")) {
				_, _ = testdb.TryQuery(r.dst, "KILL "+id) // it may have ended
			}
			time.Sleep(100 * time.Millisecond)
		} else if r.reach != r.dst {
			wire.CutNext()
			time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
			wire.Spare()
			if rnd.IntN(2) == 0 {
				wire.Deliver()
			}
			wire.Lose()
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		if err := testdb.From(t, "the end of the stream", ended); !passes(err) {
			t.Fatalf("round %d: %v: %v", round, tidemark.KindOf(err), err)
		}
	}
}

// passes tells whether a stream that ended so may be started again.
func passes(err error) bool {
	return slices.Contains([]tidemark.Kind{tidemark.Cancelled, tidemark.Transient, tidemark.Unreachable}, tidemark.KindOf(err)) || errors.Is(err, context.Canceled)
}
