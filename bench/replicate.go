package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A backlog is changes that wait in the source's log for whoever gets to its slot. Each
// tool gets the same ones: a copy of the slot, and of the target as it was.
type backlog struct {
	transactions int
	times        int    // five rows each, in a transaction
	rows         int    // in all
	end          string // of the log behind it
	through      string // the target's URL for tidemark
	catalog      string // of the stream, as it was before
	program      string // of bench/stream
}

const (
	slotKept    = "backlog" // nobody reads from it
	slotUsed    = "tidemark_main"
	publication = "tidemark_main"
	template    = "seed" // the target before any change
)

var replTables = []table{
	{"account", "id:text branch:text kind:text state:text holder:text street:text city:text zip:text country:text phone:text mail:text " +
		"balance:cents credit:cents rate:text fee:cents opened:text closed:text changed:time visited:time moves:text " +
		"c1:text c2:text c3:text c4:text c5:text f1:bool f2:bool score:float tag:text note:text"},
	{"finish", "id:text"},
}

// setUpBacklog fills a source and a target, has tidemark copy the one to the other, and
// then changes so many rows, five times so many in each transaction. delay is how much
// later what tidemark says reaches the target.
func setUpBacklog(rows, times int, delay func(*server) (string, io.Closer, error)) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) (err error) {
		n := max(20, int(float64(rows)*b.scale))
		log := &backlog{transactions: n / 5 / times, times: times, catalog: filepath.Join(b.dir, "stream.db"), program: filepath.Join(b.dir, "stream")}
		log.rows = log.transactions * times * 5
		a.backlog, a.tables = log, replTables
		if err := command(ctx, "go", "build", "-o", log.program, "./bench/stream"); err != nil {
			return err
		}
		if a.source, err = b.scratchServer(ctx, a, "postgres", "-c", "wal_level=logical"); err != nil {
			return err
		}
		if a.target, err = b.scratchServer(ctx, a, "postgres"); err != nil {
			return err
		}
		log.through = a.target.url(database)
		if delay != nil {
			var c io.Closer
			if log.through, c, err = delay(a.target); err != nil {
				return err
			}
			a.closers = append(a.closers, c)
		}
		b.say("filling the source with a backlog of %d transactions", log.transactions)
		if err := b.script("repl.pg.sql")(ctx, a.source); err != nil {
			return err
		}
		if err := b.copyOnce(ctx, a); err != nil {
			return err
		}
		traffic, err := b.workload("repl-traffic.pg.sql")
		if err != nil {
			return err
		}
		if err := a.source.exec(ctx, database, "SELECT pg_copy_logical_replication_slot('"+slotUsed+"', '"+slotKept+"')",
			traffic+fmt.Sprintf("CALL traffic(%d, %d);", log.transactions-1, times),
			fmt.Sprintf("INSERT INTO finish VALUES (%d)", 1), "VACUUM ANALYZE"); err != nil {
			return err
		}
		log.rows -= 5*times - 1 // the last one is the row that says so
		if log.end, err = a.source.query(ctx, "", "SELECT pg_current_wal_insert_lsn()"); err != nil {
			return err
		}
		if a.content, err = a.source.content(ctx, a.tables); err != nil {
			return err
		}
		a.Rows = int64(log.rows)
		return nil
	}
}

// copyOnce has tidemark copy the source and set up its stream, and keeps the target as
// it is then.
func (b *bench) copyOnce(ctx context.Context, a *arena) error {
	if err := errors.Join(os.RemoveAll(a.backlog.catalog), os.RemoveAll(a.backlog.catalog+".files")); err != nil {
		return err
	}
	if _, err := os.Stat(b.tidemark); err != nil {
		if err := command(ctx, "go", "build", "-o", b.tidemark, "./cmd/tidemark"); err != nil {
			return err
		}
	}
	if err := b.command(ctx, []string{"TIDEMARK_STATE=" + a.backlog.catalog}, b.tidemark, "replicate", a.source.url(database), a.backlog.through, "--until", "now", "--progress", "none"); err != nil {
		return err
	}
	return a.target.exec(ctx, "", "CREATE DATABASE "+template+" TEMPLATE "+database)
}

// rewind brings slot and target back to where they were before the backlog.
func (a *arena) rewind(ctx context.Context) error {
	if out, err := a.target.query(ctx, database, "SELECT 1 FROM pg_subscription"); err != nil {
		return err
	} else if out != "" {
		if err := a.target.exec(ctx, database, "ALTER SUBSCRIPTION native DISABLE", "ALTER SUBSCRIPTION native SET (slot_name = NONE)", "DROP SUBSCRIPTION native"); err != nil {
			return err
		}
	}
	if err := a.target.exec(ctx, "", "DROP DATABASE "+database+" WITH (FORCE)", "CREATE DATABASE "+database+" TEMPLATE "+template); err != nil {
		return err
	}
	// A reader that has just gone may hold the slot for a moment.
	return a.source.exec(ctx, database, "DO $$BEGIN FOR i IN 1..100 LOOP EXIT WHEN NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = '"+slotUsed+"' AND active); PERFORM pg_sleep(0.1); END LOOP; END$$",
		"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '"+slotUsed+"'",
		"SELECT pg_copy_logical_replication_slot('"+slotKept+"', '"+slotUsed+"')")
}

// followTool brings the target up to date by tidemark.
func (b *bench) followTool(a *arena, name string, options ...string) tool {
	return tool{name: name, into: a.target, before: a.rewind, steps: func(scratch string) ([][]step, error) {
		state := filepath.Join(scratch, "stream.db")
		text, err := os.ReadFile(a.backlog.catalog)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(state, text, 0o600); err != nil {
			return nil, err
		}
		args := append([]string{b.tidemark, "replicate", a.source.url(database), a.backlog.through, "--until", "now", "--progress", "none"}, options...)
		args = append(args, strings.Fields(b.tidemarkArgs)...)
		return [][]step{{{args: args, env: []string{"TIDEMARK_STATE=" + state}}}}, nil
	}}
}

// subscription brings it up to date by PostgreSQL's own replication, with its defaults.
func subscription(a *arena) tool {
	return tool{name: "subscription", rival: true, into: a.target, before: a.rewind, steps: func(string) ([][]step, error) {
		source := fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s dbname=%s", a.source.port, account, password, database)
		return [][]step{one(postgresBin+"/psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", a.target.url(database),
			"-c", "CREATE SUBSCRIPTION native CONNECTION '"+source+"' PUBLICATION "+publication+" WITH (create_slot = false, slot_name = '"+slotUsed+"', copy_data = false)",
			"-c", "DO $$BEGIN LOOP EXIT WHEN EXISTS (SELECT FROM finish); PERFORM pg_sleep(0.01); END LOOP; END$$")}, nil
	}}
}

// captureTool follows into nothing.
func captureTool(a *arena) tool {
	return tool{name: "tidemark", before: a.rewind, steps: func(string) ([][]step, error) {
		return [][]step{one(a.backlog.program, "capture", a.source.url(database), slotUsed, publication, strconv.Itoa(a.backlog.transactions))}, nil
	}}
}

// recvlogical is PostgreSQL's own client for streams, into nothing.
func recvlogical(a *arena) tool {
	return tool{name: "pg_recvlogical", rival: true, before: a.rewind, steps: func(string) ([][]step, error) {
		return [][]step{one(postgresBin+"/pg_recvlogical", "-d", a.source.url(database), "--slot", slotUsed, "--start", "--no-loop", "--endpos", a.backlog.end,
			"-o", "proto_version=1", "-o", "publication_names="+publication, "-f", os.DevNull)}, nil
	}}
}

// command runs a program with a log of its own, in an environment.
func (b *bench) command(ctx context.Context, env []string, args ...string) error {
	log := filepath.Join(b.dir, "logs", "setup.log")
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return err
	}
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := runStep(ctx, step{args: args, env: env}, nil, out); err != nil {
		return fmt.Errorf("%w: %s", err, lastLines(log))
	}
	return nil
}

// later lets what is said to a server reach it a millisecond later, through a proxy of
// this process: a round trip of a millisecond and what it takes otherwise.
func later(s *server) (string, io.Closer, error) {
	p, err := delayed("127.0.0.1:" + strconv.Itoa(s.port))
	if err != nil {
		return "", nil, err
	}
	return strings.Replace(s.url(database), strconv.Itoa(s.port), strconv.Itoa(p.port()), 1), p, nil
}

func catchUpTools(b *bench, a *arena) []tool {
	return []tool{b.followTool(a, "tidemark"), b.followTool(a, "tidemark, 8 agents", "--agents", "8"),
		b.followTool(a, "tidemark, 4 agents", "--agents", "4"), subscription(a)}
}

func agentTools(b *bench, a *arena) (out []tool) {
	for _, n := range []int{16, 8, 4, 1} {
		out = append(out, b.followTool(a, fmt.Sprintf("%d agents", n), "--agents", strconv.Itoa(n), "--commit-count", "1"))
	}
	return out
}
