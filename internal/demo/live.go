package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// sessions is how many sessions work on the source concurrently.
const sessions = 4

// A workload is a set of sessions that order and pay (TPC-C clauses 2.4 and 2.5, simplified).
type workload struct {
	end   context.CancelFunc
	done  sync.WaitGroup
	mu    sync.Mutex
	err   error
	trans atomic.Int64
}

func begin(ctx context.Context, s *server) *workload {
	ctx, end := context.WithCancel(ctx)
	w := &workload{end: end}
	for n := range sessions {
		w.done.Go(func() {
			if err := w.session(ctx, s, n); err != nil {
				w.mu.Lock()
				w.err = err
				w.mu.Unlock()
			}
		})
	}
	return w
}

// stop lets each session finish its transaction.
func (w *workload) stop() error {
	w.end()
	w.done.Wait()
	return w.err
}

func (w *workload) session(ctx context.Context, s *server, n int) error {
	db, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	d := 1 + n // one district per session: orders are numbered per district
	next := 3001
	for i := 0; ctx.Err() == nil; i++ {
		statements := payment(1+rand.IntN(warehouses), d, 1+rand.IntN(3000), 1+rand.IntN(500), fmt.Sprintf("payment %d-%d", n, i))
		if i%2 == 0 {
			statements = order(1, d, next, 1+rand.IntN(3000))
			next++
		}
		for _, sql := range statements { // an open transaction is finished: the work stops between two
			if err := db.exec(context.WithoutCancel(ctx), sql); err != nil {
				return fmt.Errorf("%.60s: %w", sql, err)
			}
		}
		w.trans.Add(1)
		time.Sleep(time.Duration(5+rand.IntN(30)) * time.Millisecond) // think time
	}
	return nil
}

func payment(w, d, c, amount int, text string) []string {
	return []string{
		"BEGIN",
		fmt.Sprintf("UPDATE district SET d_ytd = d_ytd + %d WHERE d_w_id = %d AND d_id = %d", amount, w, d),
		fmt.Sprintf("UPDATE customer SET c_balance = c_balance - %d WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", amount, w, d, c),
		fmt.Sprintf("INSERT INTO history VALUES (%d, %d, %d, now(), %d, '%s')", w, d, c, amount, text),
		"COMMIT",
	}
}

func order(w, d, id, c int) []string {
	lines := 5 + rand.IntN(11)
	first := 1 + rand.IntN(100000-16)
	var values []string
	for n := range lines {
		values = append(values, fmt.Sprintf("(%d, %d, %d, %d, %d, 5, %d, 'new')", w, d, id, n+1, first+n, 10*n))
	}
	return []string{
		"BEGIN",
		fmt.Sprintf("UPDATE district SET d_next_o_id = %d WHERE d_w_id = %d AND d_id = %d", id+1, w, d),
		fmt.Sprintf("INSERT INTO orders VALUES (%d, %d, %d, %d, now(), NULL, %d)", w, d, id, c, lines),
		fmt.Sprintf("INSERT INTO new_order VALUES (%d, %d, %d)", w, d, id),
		"INSERT INTO order_line VALUES " + strings.Join(values, ", "),
		"COMMIT",
	}
}
