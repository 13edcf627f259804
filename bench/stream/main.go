// Command stream measures parts of tidemark separately: it follows the log of a server, alone or
// into another database, until a number of transactions has arrived, or generates a steady load for
// a stream of the program.
//
//	stream capture SOURCE STREAM PUBLICATION|FILE:POSITION TRANSACTIONS
//	stream apply SOURCE SLOT PUBLICATION TRANSACTIONS TARGET AGENTS COMMITCOUNT
//	stream steady SOURCE TARGET TRANSACTIONS-A-SECOND TRANSACTIONS TIDEMARK ARGUMENTS...
//
// With TIDEMARK_CPUPROFILE it writes a CPU profile to the file of that name.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/mysql"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/postgres"
	pgstream "github.com/tidemarkdb/tidemark/postgres/stream"
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
	if len(args) < 5 {
		return errors.New("see the source for its arguments")
	}
	if file := os.Getenv("TIDEMARK_CPUPROFILE"); file != "" && args[0] != "steady" { // steady passes it on to tidemark
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
	switch {
	case args[0] == "capture" && len(args) == 5:
		return captureAlone(ctx, args[1], args[2], args[3], transactions)
	case args[0] == "apply" && len(args) == 8:
		return replicate(ctx, args[1:4], transactions, args[5:])
	case args[0] == "steady" && len(args) > 5:
		perSecond, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return steady(ctx, args[1], args[2], perSecond, transactions, args[5:])
	}
	return errors.New("see the source for its arguments")
}

// A source is a stream from either engine.
type source interface {
	Run(ctx context.Context, emit func(*change.Tx) error) error
	Close()
}

func follow(ctx context.Context, url, name, where string) (source, func() error, error) {
	if strings.HasPrefix(url, "postgres:") {
		e, err := postgres.Open(ctx, url, postgres.Options{})
		if err != nil {
			return nil, nil, err
		}
		s, err := e.Follow(ctx, pgstream.Slot{Name: name, Publication: where}, 0)
		return s, e.Close, err
	}
	e, err := mysql.Open(ctx, url, server.Options{})
	if err != nil {
		return nil, nil, err
	}
	file, offset, _ := strings.Cut(where, ":")
	number, err := strconv.ParseUint(file[strings.LastIndexByte(file, '.')+1:], 10, 32)
	if err != nil {
		return nil, nil, err
	}
	pos, err := strconv.ParseUint(offset, 10, 32)
	if err != nil {
		return nil, nil, err
	}
	s, err := e.Follow(ctx, name, number<<32|pos)
	return s, e.Close, err
}

// captureAlone reports how fast rows arrived, from the first to the last.
func captureAlone(ctx context.Context, url, name, where string, transactions int) error {
	s, closeAll, err := follow(ctx, url, name, where)
	if err != nil {
		return err
	}
	defer closeAll()
	defer s.Close()
	var start time.Time
	rows, err := capture(ctx, s, transactions, &start)
	if err != nil {
		return err
	}
	took := time.Since(start)
	fmt.Printf("%d transactions, %d rows, %.2f s\n", transactions, rows, took.Seconds())
	return printFigures(map[string]float64{"rows/s while reading": float64(rows) / took.Seconds()})
}

// printFigures prints them in the form that bench parses.
func printFigures(figures map[string]float64) error {
	text, err := json.Marshal(figures)
	fmt.Printf("figures: %s\n", text)
	return err
}

var errEnough = errors.New("enough")

// capture captures into nothing. began is set to when the first transaction arrived.
func capture(ctx context.Context, s source, transactions int, began *time.Time) (rows int64, err error) {
	err = s.Run(ctx, func(tx *change.Tx) error {
		if rows == 0 {
			*began = time.Now()
		}
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
func replicate(ctx context.Context, of []string, transactions int, args []string) error {
	from, err := postgres.Open(ctx, of[0], postgres.Options{})
	if err != nil {
		return err
	}
	defer from.Close()
	s, err := from.Follow(ctx, pgstream.Slot{Name: of[1], Publication: of[2]}, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	start, wanted := time.Now(), transactions
	opt := apply.Options{Queue: "bench"}
	if opt.Agents, err = strconv.Atoi(args[1]); err != nil {
		return err
	}
	if opt.CommitCount, err = strconv.Atoi(args[2]); err != nil {
		return err
	}
	to, err := postgres.Open(ctx, args[0], postgres.Options{})
	if err != nil {
		return err
	}
	defer to.Close()
	db, err := to.Describe(ctx, nil)
	if err != nil {
		return err
	}
	tables := map[tidemark.TableID]*tidemark.Table{}
	for _, table := range db.Tables {
		tables[table.TableID] = table
	}
	opt.Bind = func(rel change.Relation, _ uint64) (*apply.Binding, error) {
		return apply.Bind(rel, tables[rel.Table], tables)
	}
	opt.OnApplied = s.Release
	r := apply.New(to, opt)
	p, err := r.Start(ctx, 0)
	if err != nil {
		return err
	}
	g := flow.NewGroup(ctx)
	in := flow.NewBuffer(1000, 8<<20, func(tx *change.Tx) int64 { return int64(len(tx.Changes)) })
	g.Go("Capture", func(ctx context.Context, c *flow.Clock) error {
		defer in.Close()
		c.Enter(flow.IO)
		err := s.Run(ctx, func(tx *change.Tx) error {
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
	if err := g.Wait(); err != nil {
		return err
	}
	took, rows := time.Since(start), r.Stats().Rows
	fmt.Printf("%d transactions, %d rows, %.2f s, %.0f rows/s\n", wanted, rows, took.Seconds(), float64(rows)/took.Seconds())
	return nil
}
