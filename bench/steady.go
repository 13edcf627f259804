package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const steadySeconds = 24 // at scale 1; so 48,000 of 200,000 rows are deleted at 2,000 transactions a second

var latencyGoals = []goal{
	{tool: "durable queue", figure: "end to end, p50 ms", most: 20}, {tool: "durable queue", figure: "end to end, p99 ms", most: 100},
	{tool: "durable queue", figure: "commit to commit, p50 ms", most: 20}, {tool: "durable queue", figure: "commit to commit, p99 ms", most: 100},
	{tool: "direct queue", figure: "end to end, p50 ms", most: 5}, {tool: "direct queue", figure: "commit to commit, p50 ms", most: 5},
}

// With a round trip of 20 ms, half of one passes before the target commits.
var farLatencyGoals = []goal{{tool: "direct queue", figure: "end to end, p50 ms", most: 26}, {tool: "direct queue", figure: "commit to commit, p50 ms", most: 26}}

var farOtherGoals = farLatencyGoals[:1]

// steadyJob returns a job with a load of perSecond transactions a second, and a link that adds this
// delay to each round trip to the target, which is of this engine.
func steadyJob(name, title, engine string, perSecond int, delay time.Duration, goals []goal) *job {
	return &job{name: name, title: title, memory: streamMemory, goals: goals,
		setUp: func(ctx context.Context, b *bench, a *arena) error {
			if err := setUpSteady(ctx, b, a, engine, b.steadyTransactions(perSecond)); err != nil {
				return err
			}
			return a.distance(delay, a.target)
		},
		tools: func(b *bench, a *arena) []tool { return steadyTools(b, a, perSecond) }}
}

// setUpSteady starts two servers, which record commit times if they can, and fills the first.
func setUpSteady(ctx context.Context, b *bench, a *arena, engine string, transactions int) (err error) {
	a.tables = replTables
	keep := []string{"-c", "track_commit_timestamp=on", "-c", "wal_level=logical"}
	if a.source, err = b.scratchServer(ctx, a, "postgres", keep...); err != nil {
		return err
	}
	if engine == "mysql" {
		if err := installMySQL(ctx); err != nil {
			return err
		}
	}
	if engine != "postgres" {
		keep = nil
	}
	if a.target, err = b.scratchServer(ctx, a, engine, keep...); err != nil {
		return err
	}
	if err := command(ctx, "go", "build", "-C", "bench", "-o", filepath.Join(b.dir, "stream"), "./stream"); err != nil {
		return err
	}
	if err := b.buildTidemark(ctx); err != nil {
		return err
	}
	if err := b.script("repl.pg.sql")(ctx, a.source); err != nil {
		return err
	}
	if err := a.source.analyze(ctx, a.tables); err != nil {
		return err
	}
	a.content, err = a.source.content(ctx, a.tables)
	a.Rows = int64(transactions * 5)
	return err
}

func (b *bench) steadyTransactions(perSecond int) int {
	return max(100, int(float64(perSecond)*steadySeconds*b.scale))
}

func steadyTools(b *bench, a *arena, perSecond int) (out []tool) {
	for _, queue := range []string{"durable", "direct"} {
		state := filepath.Join(b.dir, "steady-"+queue)
		env := []string{"TIDEMARK_STATE=" + filepath.Join(state, "catalog.db")}
		replicate := []string{b.tidemark, "replicate", a.source.url(database), a.target.reach(database), "--queue", queue}
		out = append(out, tool{name: queue + " queue", figures: printedFigures,
			before: func(ctx context.Context) error {
				if err := a.source.dropSlots(ctx); err != nil {
					return err
				}
				if err := a.source.exec(ctx, database, "DROP PUBLICATION IF EXISTS "+publication); err != nil {
					return err
				}
				if err := a.target.empty(ctx); err != nil {
					return err
				}
				if err := os.RemoveAll(state); err != nil {
					return err
				}
				return b.command(ctx, env, append(replicate, "--until", "now", "--progress", "none")...)
			},
			steps: func(string) ([][]step, error) {
				args := []string{filepath.Join(b.dir, "stream"), "steady", a.source.url(database), a.target.url(database), strconv.Itoa(perSecond), fmt.Sprint(b.steadyTransactions(perSecond))}
				args = append(append(args, replicate...), "--json", "--monitor-interval", "1s")
				return [][]step{{{args: append(args, strings.Fields(b.tidemarkArgs)...), env: env}}}, nil
			}})
	}
	return out
}
