// Command tidemark copies, compares and checks relational databases, and says at
// every moment what it is waiting for. Each verb has a file with its options and
// their table; options.go puts the tables together; exit.go maps kinds of errors to exit codes.
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
