// Command tidemark copies, replicates, backs up, compares and sizes relational databases, and
// always shows what it is waiting for. Each verb has a file with its options and their table;
// options.go combines the tables; exit.go maps kinds of errors to exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
