// Command demo is the tour that `make demo` gives: two throw-away PostgreSQL
// servers, TPC-C-like data in one, a copy into the other, proof that they are
// equal, and the report of where the time went; then a stream that follows while
// the source is busy, and its cutover. It needs Go and the package
// registry, nothing else; what it starts it stops, and what it writes it removes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// warehouses is the scale of the data: about half a million rows each.
const warehouses = 4

func main() {
	if os.Getenv(serverEnv) != "" {
		serve()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := tour(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func tour(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tidemark-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the servers run as another user
		return err
	}
	say("building tidemark")
	bin := filepath.Join(dir, "tidemark")
	if err := command(ctx, "go", "build", "-o", bin, "./cmd/tidemark").Run(); err != nil {
		return err
	}
	say("starting two PostgreSQL servers of our own (the first time, their programs are fetched)")
	old, err := start(ctx, dir, "old")
	if err != nil {
		return err
	}
	defer old.stop()
	fresh, err := start(ctx, dir, "new")
	if err != nil {
		return err
	}
	defer fresh.stop()
	say("filling the old one with TPC-C-like data, " + strconv.Itoa(warehouses) + " warehouses")
	began := time.Now()
	if err := fill(ctx, old.url); err != nil {
		return err
	}
	say(fmt.Sprintf("filled in %.1f s", time.Since(began).Seconds()))
	os.Setenv("TIDEMARK_STATE", filepath.Join(dir, "state", "catalog.db"))
	err = show(ctx, bin, [][]string{
		{"check", old.url, fresh.url},
		{"copy", old.url, fresh.url},
		{"diff", old.url, fresh.url},
		{"report", "last"},
		{"runs"},
	})
	if err != nil {
		return err
	}
	say("both servers hold the same rows")
	if err := live(ctx, bin, old.url, fresh.url); err != nil {
		return err
	}
	say("stopping the servers")
	return nil
}

// show runs command lines as a user would.
func show(ctx context.Context, bin string, lines [][]string) error {
	for _, args := range lines {
		if err := program(ctx, bin, args...).Run(); err != nil {
			return fmt.Errorf("tidemark %s: %w", args[0], err)
		}
	}
	return nil
}

func say(text string) { fmt.Printf("\n== %s\n", text) }

// program shows a command line of tidemark, and prepares it.
func program(ctx context.Context, bin string, args ...string) *exec.Cmd {
	fmt.Printf("\n$ tidemark %s", args[0])
	for _, a := range args[1:] {
		fmt.Printf(" %s", tidemark.MaskURL(a))
	}
	fmt.Println()
	return command(ctx, bin, args...)
}

func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// fill creates and fills the tables of TPC-C (tpc.org, TPC-C 5.11, clause 1.3),
// with values that are made up but repeat from run to run.
func fill(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range append(tables, fills(warehouses)...) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%.60s: %w", sql, err)
		}
	}
	return nil
}
