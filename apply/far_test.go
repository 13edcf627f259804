package apply_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres"
)

// farRig is a rig whose target is a round trip of 20 ms away.
func farRig(t *testing.T) (rig, *testdb.Wire) {
	t.Helper()
	r := newRig(t)
	u, err := url.Parse(r.dst)
	if err != nil {
		t.Fatal(err)
	}
	wire := testdb.NewWire(t, u.Port(), 10*time.Millisecond)
	u.Host = u.Hostname() + ":" + wire.Port
	r.link = u.String()
	return r, wire
}

// However often connections are cut with several groups on their way, sessions end, or a second
// apply takes over, nothing is lost and nothing is applied twice.
func TestFarStoppedAtAnyMoment(t *testing.T) {
	for name, opt := range map[string]apply.Options{"one by one": {Agents: 2, Mode: apply.Transactional}, "many agents": {Agents: 8, Mode: apply.Transactional}, "turned agents": {Agents: 2, Most: 20, Mode: apply.Transactional}, "batches": {Mode: apply.Batch, MemoryLimit: 20_000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, wire := farRig(t)
			if opt.Most > 0 {
				r.turn = turnAlways
			}
			stopAtAnyMoment(t, r, opt, wire)
		})
	}
}

// Agents beyond the number that is set take nothing, and those below it do.
func TestSetAgents(t *testing.T) {
	for _, n := range []int{1, 3, 6} {
		r, _ := farRig(t)
		r.seen = &seen{}
		r.turn = func(_ context.Context, run *apply.Run) { run.SetAgents(n) }
		r.each(t, "INSERT INTO district VALUES (1, 'a')")
		testdb.Query(t, r.src, "DO $$BEGIN FOR i IN 1..600 LOOP INSERT INTO customer VALUES (i, 1, NULL, i); COMMIT; END LOOP; END$$")
		r.all(t, apply.Options{Agents: 4, Most: 6, CommitCount: 1, Mode: apply.Transactional})
		if r.seen.sessions != n {
			t.Errorf("%d agents: %d have worked at once", n, r.seen.sessions)
		}
	}
}

// small makes batches small, so that there are many.
var small = apply.Options{Mode: apply.Batch, MemoryLimit: 4 << 20}

// Batches are on their way side by side. The target shows only states that the source has had: a
// counter that the source raises with each transaction equals the number of transactions.
func TestFarBatchesInOrder(t *testing.T) {
	r, _ := farRig(t)
	r.each(t, "INSERT INTO district VALUES (1, 'a'), (2, 'b')")
	r.inBatches(t)
	const txs, rows = 150, 400
	testdb.Query(t, r.src, fmt.Sprintf("DO $$BEGIN FOR i IN 1..%d LOOP INSERT INTO customer SELECT %d * i + j, 1, NULL, i FROM generate_series(0, %[2]d - 1) j; UPDATE district SET total = i WHERE id = 2; COMMIT; END LOOP; END$$", txs, rows))
	over, wrong := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(wrong)
		for {
			select {
			case <-over:
				return
			default:
			}
			s, err := testdb.TryQuery(r.dst, fmt.Sprintf("SELECT d.total, (SELECT count(*) FROM customer), (SELECT coalesce(max(balance), 0) FROM customer) FROM district d WHERE id = 2 AND (d.total * %d <> (SELECT count(*) FROM customer) OR d.total <> (SELECT coalesce(max(balance), 0) FROM customer))", rows))
			if err != nil || s != "" {
				wrong <- fmt.Sprint(s, err)
				return
			}
		}
	}()
	stats := r.all(t, small)
	close(over)
	if s := testdb.From(t, "the last look at the target", wrong); s != "" {
		t.Errorf("the target has shown %s", s)
	}
	if stats.Transactions != txs || stats.Refused > 0 || stats.Batches < 5 {
		t.Errorf("%d transactions, %d batches, %d refused", stats.Transactions, stats.Batches, stats.Refused)
	}
}

// A change in the middle of several batches does not fit the target: everything before its
// transaction is applied; the transaction and everything after it is not.
func TestFarBatchConflict(t *testing.T) {
	r, _ := farRig(t)
	r.each(t, "INSERT INTO district VALUES (1, 'a'), (2, 'b')")
	r.inBatches(t)
	testdb.Query(t, r.dst, "DELETE FROM district WHERE id = 2")
	const rows = 60_000
	testdb.Query(t, r.src, fmt.Sprintf("DO $$BEGIN FOR i IN 0..%d LOOP INSERT INTO customer SELECT 500 * i + j, 1, NULL, j FROM generate_series(0, 499) j; COMMIT; END LOOP; END$$", rows/500-1))
	r.each(t, "UPDATE customer SET balance = 7000 WHERE id < 5000", "INSERT INTO history VALUES (1, 'in the same'); UPDATE district SET total = 1 WHERE id = 2", "UPDATE customer SET balance = 8000 WHERE id < 5000")
	r.each(t, slices.Repeat([]string{"UPDATE customer SET balance = balance + 1 WHERE id > 55000"}, 5)...)
	_, err := r.follow(t, t.Context(), small)
	if tidemark.KindOf(err) != tidemark.BadRow || err.Error() != `apply public.district: an update matched 0 rows, not one` {
		t.Errorf("%v: %v", tidemark.KindOf(err), err)
	}
	if got := testdb.Query(t, r.dst, "SELECT count(*), count(*) FILTER (WHERE balance = 7000), max(balance), (SELECT count(*) FROM history) FROM customer"); got != fmt.Sprintf("%d\t5000\t7000\t0", rows) {
		t.Errorf("the target has %s", got)
	}
	testdb.Query(t, r.dst, "INSERT INTO district VALUES (2, 'b')")
	r.all(t, small)
}

// A seen is a target that notes how many groups are on their way to it, without an answer.
type seen struct {
	*postgres.Engine
	mu       sync.Mutex
	now      map[int]int // by session
	most     int         // in one session
	sessions int         // with some at once, at most
}

func (s *seen) SendGroup(ctx context.Context, g *change.Group) (bool, error) {
	s.mu.Lock()
	if s.now == nil {
		s.now = map[int]int{}
	}
	s.now[g.Agent]++
	s.most, s.sessions = max(s.most, s.now[g.Agent]), max(s.sessions, len(s.now))
	s.mu.Unlock()
	sent, err := s.Engine.SendGroup(ctx, g)
	if !sent {
		s.gone(g.Agent)
	}
	return sent, err
}

func (s *seen) AwaitGroup(ctx context.Context, agent int) error {
	err := s.Engine.AwaitGroup(ctx, agent)
	if err == nil {
		s.gone(agent)
	}
	return err
}

func (s *seen) gone(agent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now[agent]--; s.now[agent] == 0 {
		delete(s.now, agent)
	}
}

// One agent has many groups on their way.
func TestFarGroupsOverlap(t *testing.T) {
	r, _ := farRig(t)
	r.each(t, "INSERT INTO district VALUES (0, 'a')")
	r.all(t, apply.Options{Agents: 1})
	const txs = 300
	testdb.Query(t, r.src, fmt.Sprintf("DO $$BEGIN FOR i IN 1..%d LOOP INSERT INTO district VALUES (i, i); COMMIT; END LOOP; END$$", txs))
	r.seen = &seen{}
	stats := r.all(t, apply.Options{Agents: 1, CommitCount: 1, Mode: apply.Transactional})
	if r.seen.most < 8 {
		t.Errorf("%d transactions, of which at most %d were on their way", stats.Transactions, r.seen.most)
	}
}

// Transactions that change one row follow each other in one session, before they are answered.
func TestFarFollowers(t *testing.T) {
	for _, agents := range []int{2, 16} {
		t.Run(fmt.Sprint(agents), func(t *testing.T) {
			r, _ := farRig(t)
			r.each(t, "INSERT INTO district VALUES (0, 'a')")
			r.all(t, apply.Options{Agents: 1})
			const txs = 300
			testdb.Query(t, r.src, fmt.Sprintf("DO $$BEGIN FOR i IN 1..%d LOOP UPDATE district SET total = 2 * total %% 1000 + i WHERE id = 0; COMMIT; END LOOP; END$$", txs))
			r.seen = &seen{}
			stats := r.all(t, apply.Options{Agents: agents, CommitCount: 1, Mode: apply.Transactional})
			if stats.Waited == 0 || r.seen.most < 2 || r.seen.sessions != 1 {
				t.Errorf("%d transactions, %d waited, at most %d were on their way in one session, %d sessions had some at once", stats.Transactions, stats.Waited, r.seen.most, r.seen.sessions)
			}
		})
	}
}

// A transaction comes too early, because of a value that the stream does not tell, and others have
// followed it in its session: they are not applied before it.
func TestFarFollowersOfOneTooEarly(t *testing.T) {
	r, _ := farRig(t)
	r.each(t, "INSERT INTO district VALUES (1, 'a'), (2, 'b')")
	for round := 1; ; round++ {
		// Many, so that each session knows the tables.
		warm := fmt.Sprintf("DO $$BEGIN FOR i IN 1..60 LOOP INSERT INTO district VALUES (%d + i, %[1]d + i); INSERT INTO customer VALUES (%[1]d + i, 1, %[1]d + i); COMMIT; END LOOP; END$$", 1000*round)
		r.each(t, "DELETE FROM customer", fmt.Sprintf("INSERT INTO customer VALUES (1, 1, 'taken %d'), (2, 1, NULL)", round))
		r.all(t, apply.Options{})
		testdb.Query(t, r.src, warm)
		r.each(t, "UPDATE customer SET email = NULL WHERE id = 1", fmt.Sprintf("UPDATE customer SET email = 'taken %d' WHERE id = 2; UPDATE district SET total = 1 WHERE id = 2", round))
		r.each(t, slices.Repeat([]string{"UPDATE district SET total = 2 * total + 1 WHERE id = 2", "UPDATE district SET total = 3 * total WHERE id = 2"}, 5)...)
		other, err := pgconn.Connect(t.Context(), r.dst)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Exec(t.Context(), "BEGIN; SELECT FROM customer WHERE id = 1 FOR UPDATE").ReadAll(); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer other.Close(context.Background())
			waits := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if n, err := testdb.TryQuery(r.dst, waits); err != nil || n != "0" {
					break
				}
			}
			time.Sleep(200 * time.Millisecond) // what comes too early does so meanwhile
		}()
		stats := r.all(t, apply.Options{CommitCount: 1, Mode: apply.Transactional})
		if stats.Exceptions > 0 || stats.Held > 1 || round == 20 {
			if stats.Exceptions > 0 || stats.Held < 2 {
				t.Errorf("%d exceptions, %d held in round %d", stats.Exceptions, stats.Held, round)
			}
			return
		}
	}
}
