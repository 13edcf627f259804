package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// emptyTables is the statement that creates n tables with a key.
func emptyTables(n int) string {
	return fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP
			EXECUTE format('CREATE TABLE t%%s (id int PRIMARY KEY, a text, b int)', i);
			IF mod(i, 100) = 0 THEN COMMIT; END IF;
		END LOOP; END $$`, n)
}

// setUpEmpty creates this many empty tables with a key.
func setUpEmpty(tables float64) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) (err error) {
		n := max(10, int(tables*b.scale))
		a.sampled(n)
		options := []string{"-c", "max_locks_per_transaction=4096"} // for pg_dump, which locks all of them at once
		a.source, a.content, err = b.filled(ctx, a, "postgres", fmt.Sprintf("empty-%d", n), a.tables, func(ctx context.Context, s *server) error { return s.exec(ctx, database, emptyTables(n)) }, options...)
		if err != nil {
			return err
		}
		a.target, err = b.scratchServer(ctx, a, "postgres", options...)
		return err
	}
}

// emptyTools are a copy, the plan of one alone, and pg_dump with pg_restore.
func emptyTools(b *bench, a *arena) []tool {
	plan := b.tidemarkTool("copy", a.source.reach(database), a.target.reach(database), nil)
	plan.name = "tidemark --plan"
	whole := plan.steps
	plan.before = a.target.empty
	plan.steps = func(scratch string) ([][]step, error) {
		steps, err := whole(scratch)
		if err == nil {
			steps[0][0].args = append(steps[0][0].args, "--plan")
		}
		return steps, err
	}
	return []tool{b.tidemarkTool("copy", a.source.reach(database), a.target.reach(database), a.target), plan, pgDump(a)}
}

// busyTables are those that transactions change in a stream of many tables.
const busyTables = 100

// setUpManyStream starts two servers. Each tool creates tables of its own number.
func setUpManyStream(ctx context.Context, b *bench, a *arena) (err error) {
	options := []string{"-c", "wal_level=logical", "-c", "max_locks_per_transaction=1024", "-c", "track_commit_timestamp=on"}
	if a.source, err = b.scratchServer(ctx, a, "postgres", options...); err != nil {
		return err
	}
	if a.target, err = b.scratchServer(ctx, a, "postgres", options...); err != nil {
		return err
	}
	a.Rows = int64(b.manyTransactions() * 5)
	return b.buildTidemark(ctx)
}

func (b *bench) manyTransactions() int { return max(100, int(200_000*b.scale)) }

// manyStream is the catch-up of transactions of five rows in a stream of so many tables.
func (b *bench) manyStream(a *arena, name string, tables int) tool {
	state := filepath.Join(b.dir, "many-stream")
	env := []string{"TIDEMARK_STATE=" + filepath.Join(state, "catalog.db")}
	args := []string{b.tidemark, "replicate", a.source.url(database), a.target.url(database), "--until", "now"}
	busy := min(busyTables, tables)
	rows := fmt.Sprintf(`SELECT sum((xpath('/row/c/text()', query_to_xml(format('SELECT count(*) AS c FROM t%%s', i), false, true, '')))[1]::text::int) FROM generate_series(1, %d) i`, busy)
	prepare := func(ctx context.Context) error {
		if err := a.source.dropSlots(ctx); err != nil {
			return err
		}
		for _, s := range a.servers() {
			if err := s.empty(ctx); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(state); err != nil {
			return err
		}
		if err := a.source.exec(ctx, database, emptyTables(tables), "VACUUM ANALYZE"); err != nil {
			return err
		}
		if err := b.command(ctx, env, append(args, "--progress", "none")...); err != nil {
			return err
		}
		return a.source.exec(ctx, database, fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP
			EXECUTE format('INSERT INTO t%%s SELECT %%s + g, ''text '' || g, g FROM generate_series(1, 5) g', 1 + mod(i, %d), 5 * i);
			COMMIT;
		END LOOP; END $$`, b.manyTransactions(), busy))
	}
	figures := func(log string) (map[string]float64, error) {
		for _, s := range []*server{a.source, a.target} {
			got, err := s.query(context.Background(), database, rows)
			if err != nil {
				return nil, err
			}
			if got != fmt.Sprint(a.Rows) {
				return nil, fmt.Errorf("%s rows instead of %d", got, a.Rows)
			}
		}
		out, err := streamFigures(log)
		if err != nil {
			return nil, err
		}
		var times []string
		for i := range min(busy, 10) {
			times = append(times, fmt.Sprintf("SELECT pg_xact_commit_timestamp(xmin) FROM t%d", i+1))
		}
		took, err := a.target.query(context.Background(), database, "SELECT extract(epoch FROM max(at) - min(at)) FROM ("+strings.Join(times, " UNION ALL ")+") commits (at)")
		if err != nil {
			return nil, err
		}
		seconds, err := strconv.ParseFloat(took, 64)
		out[committed] = float64(a.Rows) / seconds
		return out, err
	}
	return tool{name: name, before: prepare, figures: figures, steps: func(string) ([][]step, error) {
		all := append(append([]string{}, args...), "--json")
		return [][]step{{{args: append(all, strings.Fields(b.tidemarkArgs)...), env: env}}}, nil
	}}
}

const (
	fewTables = "10 tables"
	// committed is rows/s between the target's first commit and its last: it excludes what a stream
	// of many tables does at its start and end.
	committed = "rows/s between commits"
)

func manyStreamTools(b *bench, a *arena) []tool {
	n := max(busyTables, int(10_000*b.scale))
	return []tool{b.manyStream(a, "10,000 tables", n), b.manyStream(a, fewTables, 10)}
}
