package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	sessions = 4                // that work on the source
	liveFor  = 20 * time.Second // how long the stream follows them
)

// live lets a stream follow a busy source into a database of its own, and cuts over.
func live(ctx context.Context, bin, source, server string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE live")
	conn.Close(ctx)
	if err != nil {
		return err
	}
	target := strings.Replace(server, "/demo?", "/live?", 1)
	say(fmt.Sprintf("%d sessions begin to order and pay on the old one; a stream copies it and follows, for %.0f seconds", sessions, liveFor.Seconds()))
	working, rest := context.WithCancel(ctx)
	defer rest()
	var wg sync.WaitGroup
	failures := make(chan error, sessions)
	for range sessions {
		wg.Go(func() { failures <- work(working, source) })
	}
	if err := follow(ctx, bin, source, target); err != nil {
		return err
	}
	rest()
	wg.Wait()
	for range sessions {
		if err := <-failures; err != nil {
			return err
		}
	}
	say("the sessions have ended; what they did since the stream was stopped is in the log")
	return show(ctx, bin, [][]string{
		{"status"},
		{"cutover", source, target},
		{"replicate", source, target, "--remove"},
	})
}

// follow replicates until it has followed for liveFor, and stops it as a user would.
func follow(ctx context.Context, bin, source, target string) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	cmd := program(following, bin, "replicate", source, target, "--monitor-interval", "2s")
	begun := &watched{w: os.Stderr, word: "following", seen: func() { time.AfterFunc(liveFor, stop) }}
	cmd.Stderr = begun
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 { // it was interrupted, as it should be
		return fmt.Errorf("it did not follow until it was stopped: %w", err)
	}
	return nil
}

// watched passes on what is written, and calls seen once a line begins with word.
type watched struct {
	w    io.Writer
	word string
	seen func()
}

func (w *watched) Write(b []byte) (int, error) {
	if w.seen != nil && bytes.HasPrefix(b, []byte(w.word)) {
		w.seen()
		w.seen = nil
	}
	return w.w.Write(b)
}

// work makes payments and orders (TPC-C clauses 2.4 and 2.5, in short) until ctx ends.
func work(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		w, d, c, amount := 1+rand.IntN(warehouses), 1+rand.IntN(10), 1+rand.IntN(3000), 1+rand.IntN(500)
		// A transaction that has begun is finished: the work ends between two.
		err := pgx.BeginFunc(context.WithoutCancel(ctx), conn, func(tx pgx.Tx) error {
			if rand.IntN(2) == 0 {
				return payment(tx, w, d, c, amount)
			}
			return order(tx, w, d, c)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func payment(tx pgx.Tx, w, d, c, amount int) error {
	ctx := context.Background()
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{"UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2", []any{amount, w}},
		{"UPDATE district SET d_ytd = d_ytd + $1 WHERE (d_w_id, d_id) = ($2, $3)", []any{amount, w, d}},
		{"UPDATE customer SET c_balance = c_balance - $1 WHERE (c_w_id, c_d_id, c_id) = ($2, $3, $4)", []any{amount, w, d, c}},
		{"INSERT INTO history (h_w_id, h_d_id, h_c_id, h_date, h_amount, h_data) VALUES ($1, $2, $3, now(), $4, 'payment')", []any{w, d, c, amount}},
	} {
		if _, err := tx.Exec(ctx, step.sql, step.args...); err != nil {
			return err
		}
	}
	return nil
}

func order(tx pgx.Tx, w, d, c int) error {
	ctx := context.Background()
	var id int
	if err := tx.QueryRow(ctx, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE (d_w_id, d_id) = ($1, $2) RETURNING d_next_o_id", w, d).Scan(&id); err != nil {
		return err
	}
	lines := 5 + rand.IntN(11)
	if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2, $3, $4, now(), NULL, $5)", w, d, id, c, lines); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO new_order VALUES ($1, $2, $3)", w, d, id); err != nil {
		return err
	}
	first := 1 + rand.IntN(100000-16)
	_, err := tx.Exec(ctx, "UPDATE stock SET s_quantity = s_quantity - 5, s_order_cnt = s_order_cnt + 1 WHERE s_w_id = $1 AND s_i_id BETWEEN $2 AND $3", w, first, first+lines-1)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO order_line SELECT $1, $2, $3, n, $4 + n, NULL, 5, 10 * n, 'x' FROM generate_series(1, $5::int) n", w, d, id, first, lines)
	return err
}
