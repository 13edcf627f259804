// Command stream follows a slot of PostgreSQL, alone or into another database, until
// so many transactions have come, for measuring parts of tidemark by themselves:
//
//	stream capture SOURCE SLOT PUBLICATION TRANSACTIONS
//	stream apply SOURCE SLOT PUBLICATION TRANSACTIONS TARGET AGENTS COMMITCOUNT
//
// With TIDEMARK_CPUPROFILE it writes a CPU profile to the file of that name.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "stream: %v (%s)\n", err, tidemark.HintOf(err))
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 5 && len(args) != 8 {
		return errors.New("see the source for its arguments")
	}
	if file := os.Getenv("TIDEMARK_CPUPROFILE"); file != "" {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	transactions, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	from, err := postgres.Open(ctx, args[1], postgres.Options{})
	if err != nil {
		return err
	}
	defer from.Close()
	s, err := from.Follow(ctx, postgres.Slot{Name: args[2], Publication: args[3]}, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	start := time.Now()
	var rows int64
	if args[0] == "capture" {
		rows, err = capture(ctx, s, transactions)
	} else {
		rows, err = replicate(ctx, s, transactions, args[5:])
	}
	if err != nil {
		return err
	}
	took := time.Since(start)
	fmt.Printf("%d transactions, %d rows, %.2f s, %.0f rows/s\n", transactions, rows, took.Seconds(), float64(rows)/took.Seconds())
	return nil
}

var errEnough = errors.New("enough")

// capture follows into nothing.
func capture(ctx context.Context, s *postgres.Stream, transactions int) (rows int64, err error) {
	err = s.Run(ctx, func(tx *tidemark.Tx) error {
		rows += int64(tx.Rows)
		if !tx.More {
			transactions--
		}
		if transactions == 0 {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return rows, err
}

// replicate follows into a database, through memory.
func replicate(ctx context.Context, s *postgres.Stream, transactions int, args []string) (rows int64, err error) {
	opt := apply.Options{Queue: "bench"}
	if opt.Agents, err = strconv.Atoi(args[1]); err != nil {
		return 0, err
	}
	if opt.CommitCount, err = strconv.Atoi(args[2]); err != nil {
		return 0, err
	}
	to, err := postgres.Open(ctx, args[0], postgres.Options{})
	if err != nil {
		return 0, err
	}
	defer to.Close()
	db, err := to.Describe(ctx, nil)
	if err != nil {
		return 0, err
	}
	tables := map[tidemark.TableID]*tidemark.Table{}
	for _, table := range db.Tables {
		tables[table.TableID] = table
	}
	opt.Bind = func(rel tidemark.Relation) (*apply.Binding, error) { return apply.Bind(rel, tables[rel.Table], tables) }
	opt.Applied = s.Release
	r := apply.New(to, opt)
	p, err := r.Start(ctx, 0)
	if err != nil {
		return 0, err
	}
	g := flow.NewGroup(ctx)
	in := flow.NewBuffer(1000, 8<<20, func(tx *tidemark.Tx) int64 { return int64(len(tx.Changes)) })
	g.Go("Capture", func(ctx context.Context, c *flow.Clock) error {
		defer in.Close()
		c.Enter(flow.IO)
		err := s.Run(ctx, func(tx *tidemark.Tx) error {
			if err := in.Put(ctx, c, tx); err != nil {
				return err
			}
			if !tx.More {
				transactions--
			}
			if transactions == 0 {
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
	r.Go(g, in, p)
	err = g.Wait()
	return r.Stats().Rows, err
}
