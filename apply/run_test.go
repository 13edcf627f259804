package apply_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/postgres/stream"
)

func TestMain(m *testing.M) { testdb.Main(m) }

const schema = `CREATE TABLE district (id int PRIMARY KEY, name text UNIQUE, total int NOT NULL DEFAULT 0);
	CREATE TABLE customer (id int PRIMARY KEY, district int NOT NULL REFERENCES district ON DELETE CASCADE, email text UNIQUE, balance int NOT NULL DEFAULT 0);
	CREATE TABLE history (customer int, note text); ALTER TABLE history REPLICA IDENTITY FULL;`

// session runs transactions that conflict with each other: hot parents, unique values that change
// hands, children that are inserted and deleted with their parent.
func session(t *testing.T, url string, rnd *rand.Rand, n int) {
	conn, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	for range n {
		d, c := rnd.IntN(4), rnd.IntN(30)
		var sql []string
		for range 1 + rnd.IntN(4) {
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
			}[rnd.IntN(10)])
		}
		// Conflicting sessions may be refused: uncommitted transactions do not count.
		if _, err := conn.Exec(t.Context(), "BEGIN; "+strings.Join(sql, "; ")+"; COMMIT").ReadAll(); err != nil {
			_, _ = conn.Exec(t.Context(), "ROLLBACK").ReadAll()
		}
	}
}

// A rig is a source with a slot and a target with the same tables.
type rig struct {
	src, dst string
	slot     stream.Slot
	link     string                                    // the target's URL over a wire; "": dst
	seen     *seen                                     // what is sent ahead to the target, if not nil
	turn     func(ctx context.Context, run *apply.Run) // beside the agents, if not nil
}

func newRig(t *testing.T) rig {
	t.Helper()
	srv := testdb.Postgres(t, 15)
	r := rig{src: srv.NewDatabase(t, "src"), dst: srv.NewDatabase(t, "dst")}
	testdb.Query(t, r.src, schema)
	testdb.Query(t, r.dst, schema)
	r.slot = stream.Slot{Name: fmt.Sprintf("run_%d", time.Now().UnixNano()), Publication: "run"}
	e := engine(t, r.src)
	if _, err := e.CreateSlot(t.Context(), r.slot, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for try := 0; ; try++ {
			err := e.DropSlot(context.Background(), r.slot)
			if err == nil || try == 1000 {
				if err != nil {
					t.Error(err)
				}
				e.Close()
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	return r
}

func engine(t *testing.T, url string) *postgres.Engine {
	t.Helper()
	e, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// tablesOf returns the tables of a target.
func tablesOf(ctx context.Context, e *postgres.Engine) (map[tidemark.TableID]*tidemark.Table, error) {
	db, err := e.Describe(ctx, nil)
	if err != nil {
		return nil, err
	}
	tables := map[tidemark.TableID]*tidemark.Table{}
	for _, table := range db.Tables {
		tables[table.TableID] = table
	}
	return tables, nil
}

// captured returns the first n transactions of a stream, which a worker of the group reads and
// shows to see.
func captured(g *flow.Group, s interface {
	Run(ctx context.Context, emit func(*change.Tx) error) error
}, n int, see func(*change.Tx)) *flow.Buffer[*change.Tx] {
	in, enough := flow.NewBuffer(9, 1<<20, func(*change.Tx) int64 { return 1 }), errors.New("enough")
	g.Go("Capture", func(ctx context.Context, c *flow.Clock) error {
		defer in.Close()
		left := n
		err := s.Run(ctx, func(tx *change.Tx) error {
			see(tx)
			if left--; left == 0 {
				return errors.Join(in.Put(ctx, c, tx), enough)
			}
			return in.Put(ctx, c, tx)
		})
		if errors.Is(err, enough) {
			return nil
		}
		return err
	})
	return in
}

// follow applies the stream of the slot until ctx ends, or something fails.
func (r rig) follow(t *testing.T, ctx context.Context, opt apply.Options) (apply.Stats, error) {
	t.Helper()
	// This is not the test's goroutine: return errors.
	from, err := postgres.Open(ctx, r.src, postgres.Options{})
	if err != nil {
		return apply.Stats{}, err
	}
	defer from.Close()
	to, err := postgres.Open(ctx, cmp.Or(r.link, r.dst), postgres.Options{})
	if err != nil {
		return apply.Stats{}, err
	}
	defer to.Close()
	tables, err := tablesOf(ctx, to)
	if err != nil {
		return apply.Stats{}, err
	}
	opt.Queue = "run"
	var mu sync.Mutex
	stopped := map[tidemark.TableID]bool{}
	disable := opt.Disable
	if disable != nil {
		opt.Disable = func(table tidemark.TableID, why error) error {
			mu.Lock()
			defer mu.Unlock()
			stopped[table] = true
			return disable(table, why)
		}
	}
	opt.Bind = func(rel change.Relation, _ uint64) (*apply.Binding, error) {
		mu.Lock()
		defer mu.Unlock()
		if stopped[rel.Table] {
			return nil, nil
		}
		b, err := apply.Bind(rel, tables[rel.Table], tables)
		if err == nil && disable != nil {
			b.Conflict.Action = tidemark.DisableOnConflict
		}
		return b, err
	}
	s, err := from.Follow(ctx, r.slot, 0)
	if err != nil {
		return apply.Stats{}, err
	}
	defer s.Close()
	opt.OnApplied = s.Release
	var target apply.Target = to
	if r.seen != nil {
		r.seen.Engine, target = to, r.seen
	}
	run := apply.New(target, opt)
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
	if r.turn != nil {
		r.turn(ctx, run)
	}
	run.Go(g, in, p)
	err = g.Wait()
	return run.Stats(), err
}

func contents(t *testing.T, url string) string {
	t.Helper()
	var out []string
	for _, table := range []string{"district", "customer", "history"} {
		out = append(out, table, testdb.Query(t, url, "SELECT t::text FROM "+table+" t ORDER BY t::text COLLATE \"C\""))
	}
	return strings.Join(out, "\n")
}

// await waits until the target equals the source.
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

// turnAlways sets all possible numbers of agents, and impossible ones, again and again.
func turnAlways(ctx context.Context, run *apply.Run) {
	go func() {
		for ctx.Err() == nil {
			run.SetAgents(rand.IntN(14))
			time.Sleep(time.Millisecond)
		}
	}()
}

// Many agents that get in each other's way produce the source's rows.
func TestParallelApply(t *testing.T) {
	for _, x := range []struct {
		name string
		opt  apply.Options
		late bool // with a large backlog
	}{
		{"16 agents", apply.Options{}, false},
		{"4 agents, 1 a commit", apply.Options{Agents: 4, CommitCount: 1}, false},
		{"4 agents, 10 a commit", apply.Options{Agents: 4, CommitCount: 10}, false},
		{"1 agent", apply.Options{Agents: 1, CommitCount: 3}, false},
		{"little room", apply.Options{Agents: 8, MaxInFlight: 3, MemoryLimit: 100}, false},
		{"16 agents, late", apply.Options{}, true},
		{"source order", apply.Options{Agents: 6, SourceOrder: true}, false},
		{"source order, late", apply.Options{SourceOrder: true}, true},
		{"3 agents, late, 50 a commit", apply.Options{Agents: 3, CommitCount: 50}, true},
		{"1 to 12 agents", apply.Options{Agents: 4, Most: 12}, false},
		{"1 to 12 agents, late", apply.Options{Agents: 4, Most: 12, Mode: apply.Transactional}, true},
		{"1 to 6 agents, source order", apply.Options{Agents: 3, Most: 6, SourceOrder: true}, false},
		{"batches", apply.Options{Mode: apply.Batch}, false},
		{"batches, late", apply.Options{Mode: apply.Batch}, true},
		{"batches, little room", apply.Options{Mode: apply.Batch, MemoryLimit: 20_000}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if x.opt.Most > 0 {
				r.turn = turnAlways
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() { session(t, r.src, rand.New(rand.NewPCG(seed, uint64(i))), 60) })
			}
			if x.late {
				wg.Wait()
			}
			ended := make(chan error, 1)
			var stats apply.Stats
			go func() {
				var err error
				stats, err = r.follow(t, ctx, x.opt)
				ended <- err
			}()
			wg.Wait()
			r.await(t)
			cancel()
			if err := testdb.From(t, "the end of the stream", ended); tidemark.KindOf(err) != tidemark.Cancelled && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			t.Logf("%d transactions, %d rows, %d waited, %d held, %d retried", stats.Transactions, stats.Rows, stats.Waited, stats.Held, stats.Retried)
			if stats.Transactions == 0 {
				t.Error("nothing was applied")
			}
			if batches := x.opt.Mode == apply.Batch; batches != (stats.Batches+stats.Refused > 0) {
				t.Errorf("%d batches", stats.Batches)
			}
			if x.late && x.opt.Mode == apply.Batch {
				t.Logf("%d batches of %d changes, %d refused", stats.Batches, stats.Net, stats.Refused)
			}
		})
	}
}

// However often apply is stopped, its sessions are cut, or a second one takes over, nothing is lost
// and nothing is applied twice.
func TestStoppedAtAnyMoment(t *testing.T) {
	for name, mode := range map[string]apply.Mode{"one by one": apply.Transactional, "batches": apply.Batch} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stopAtAnyMoment(t, newRig(t), apply.Options{Agents: 6, Mode: mode}, nil)
		})
	}
}

// stopAtAnyMoment stops an apply, ends its sessions and cuts its connections on wire, if there is
// one, until everything is applied.
func stopAtAnyMoment(t *testing.T, r rig, opt apply.Options, wire *testdb.Wire) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 99))
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { session(t, r.src, rand.New(rand.NewPCG(seed, uint64(i))), 150) })
	}
	working := make(chan struct{})
	go func() { wg.Wait(); close(working) }()
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
			opt := opt
			opt.CommitCount = 1 + round%3
			_, err := r.follow(t, ctx, opt)
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
			t.Logf("%d rounds", round)
			return
		}
		go func() { ended <- follow() }()
		for range rnd.IntN(3) {
			time.Sleep(time.Duration(100+rnd.IntN(300)) * time.Millisecond)
			if wire == nil {
				continue
			}
			wire.CutNext()
			time.Sleep(30 * time.Millisecond)
			if rnd.IntN(2) == 0 {
				wire.Deliver()
			}
			wire.Lose()
		}
		if wire != nil {
			wire.Spare()
		}
		time.Sleep(time.Duration(100+rnd.IntN(100)) * time.Millisecond)
		if round%2 == 0 {
			testdb.Query(t, r.dst, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tidemark' AND random() < 0.5")
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

// In source order the target never shows a state that the source never had: the second of two
// counters, which run after each other, is never ahead.
func TestSourceOrderIsSeen(t *testing.T) {
	r := newRig(t)
	testdb.Query(t, r.src, "INSERT INTO district VALUES (1, 'a', 0), (2, 'b', 0)")
	session, err := pgconn.Connect(t.Context(), r.src)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(context.Background())
	const n = 1500
	for i := range n { // a backlog, which is applied as fast as possible
		if _, err := session.Exec(t.Context(), fmt.Sprintf("UPDATE district SET total = %d WHERE id = %d", i/2+1, i%2+1)).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := r.follow(t, ctx, apply.Options{Agents: 8, CommitCount: 1, SourceOrder: true})
		ended <- err
	}()
	conn, err := pgconn.Connect(t.Context(), r.dst)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	looks := 0
	for over := false; !over; looks++ {
		if len(ended) > 0 {
			t.Fatalf("it ended with %v", <-ended)
		}
		res, err := conn.Exec(t.Context(), "SELECT a.total, b.total FROM district a, district b WHERE a.id = 1 AND b.id = 2").ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if len(res[0].Rows) == 0 {
			continue
		}
		first, _ := strconv.Atoi(string(res[0].Rows[0][0]))
		second, _ := strconv.Atoi(string(res[0].Rows[0][1]))
		if first != second && first != second+1 {
			t.Fatalf("the target shows %d and %d", first, second)
		}
		over = second == n/2
	}
	t.Logf("%d looks", looks)
	r.await(t)
	cancel()
	testdb.From(t, "the end of the stream", ended)
}
