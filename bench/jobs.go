package main

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// A job is a line of the table of goals.
type job struct {
	name, title string
	goal        float64 // limit of Tidemark's median, as a multiple of the best rival's
	ownCPU      float64 // limit of the share of all CPU that Tidemark's process may use; 0: no goal
	goals       []goal  // further goals
	memory      int64   // bytes the tidemark process may use beyond rssGoal: those of --apply-memory and of two --buffer
	setUp       func(context.Context, *bench, *arena) error
	tools       func(*bench, *arena) []tool
	differs     bool // tidemark compares, and must detect a changed row
	hoards      bool // runs' output is kept until all have finished: for minutes after many files are removed, ext4 is slow to allocate new ones
}

// rssGoal applies to all jobs: peak RSS of the tidemark process, in bytes. streamMemory is what a
// stream keeps in flight with its defaults.
const (
	rssGoal      = 256 << 20
	streamMemory = 80 << 20
)

var jobs = []*job{
	{name: "pg-shop", title: "PostgreSQL 15 to 15, mixed schema of 0.9 GB", goal: 0.70, ownCPU: 0.15, setUp: setUpPgShop, tools: func(b *bench, a *arena) []tool {
		split := b.splitAt(50 << 20)
		return []tool{b.tidemarkTool("copy", a.source.url(database), a.target.url(database), a.target),
			pgcopydb(a, 2, 0), pgcopydb(a, 4, 0), pgcopydb(a, 2, split), pgcopydb(a, 4, split), pgDump(a), pgDump(a, "-Z0")}
	}},
	{name: "pg-big", title: "PostgreSQL 15 to 15, one table of 20 million rows", goal: 0.75, ownCPU: 0.15, setUp: setUpPgBig, tools: func(b *bench, a *arena) []tool {
		split := b.splitAt(200 << 20)
		return []tool{b.tidemarkTool("copy", a.source.url(database), a.target.url(database), a.target), pgcopydb(a, 2, split), pgcopydb(a, 4, split)}
	}},
	{name: "far-tables", title: "PostgreSQL 15 to 15, 500 tables of 20 rows, with a round trip of 20 ms to both", goal: 0.08, setUp: setUpTables(500, 20*time.Millisecond), tools: tablesTools},
	{name: "far-tables-maria", title: "MariaDB 10.11 to 10.11, 500 tables of 20 rows, with a round trip of 20 ms to both", goal: 0.15, setUp: setUpFarMaria("maria", 500, 20*time.Millisecond), tools: func(b *bench, a *arena) []tool {
		return []tool{b.tidemarkTool("copy", a.source.reach(database), a.target.reach(database), a.target), mydumper(a, 0)}
	}},
	{name: "far-tables-cross", title: "MariaDB 10.11 to PostgreSQL 15, 500 tables of 20 rows, with a round trip of 20 ms to both", goal: 0.15, setUp: setUpFarMaria("postgres", 500, 20*time.Millisecond), tools: func(b *bench, a *arena) []tool {
		return []tool{b.tidemarkTool("copy", a.source.reach(database), a.target.reach(database), a.target), pgloader(a)}
	}},
	{name: "far-relay", title: "PostgreSQL 15 to 15, the mixed schema of 0.9 GB, over 100 Mbit/s with a round trip of 20 ms to the target: through a relay, and directly", goal: 0.35, setUp: setUpFarRelay("postgres"), tools: farRelayTools},
	{name: "far-relay-maria", title: "the same, MariaDB 10.11 to 10.11", goal: 0.35, setUp: setUpFarRelay("maria"), tools: farRelayTools},
	{name: "gain-link", title: "pg-shop over a link of 40 MB/s, and without it: the gain that the first advice predicts", goals: []goal{{tool: "tidemark", figure: foretold, least: 0.75, most: 1.25}},
		setUp: setUpGainLink, tools: gainLinkTools},
	{name: "gain-lanes", title: "pg-shop with one lane, and with two: the same", goals: []goal{{tool: "tidemark", figure: foretold, least: 0.75, most: 1.25}},
		setUp: setUpPgShop, tools: gainLanesTools},
	{name: "many-tables", title: "PostgreSQL 15 to 15, 10,000 tables of 20 rows", goal: 0.35, setUp: setUpTables(10_000, 0), tools: tablesTools},
	{name: "many-empty", title: "PostgreSQL 15 to 15, 100,000 empty tables", memory: 144 << 20, setUp: setUpEmpty(100_000), tools: emptyTools},
	{name: "many-stream", title: "catch-up of 1 million rows, 5 a transaction, in a stream of 10,000 tables of which 100 change, against one of 10 tables", memory: streamMemory, goals: []goal{
		{tool: "10,000 tables", figure: committed, of: fewTables, least: 0.9}}, setUp: setUpManyStream, tools: manyStreamTools},
	{name: "maria-pg", title: "MariaDB 10.11 to PostgreSQL 15, the mixed schema", goal: 0.40, setUp: setUpMaria("postgres"), tools: func(b *bench, a *arena) []tool {
		return []tool{b.tidemarkTool("copy", a.source.url(database), a.target.url(database), a.target), pgloader(a)}
	}},
	{name: "maria-maria", title: "MariaDB 10.11 to 10.11, the mixed schema", goal: 0.50, setUp: setUpMaria("maria"), tools: func(b *bench, a *arena) []tool {
		rows := int(max(1000, 250_000*b.scale))
		return []tool{b.tidemarkTool("copy", a.source.url(database), a.target.url(database), a.target), mydumper(a, 0), mydumper(a, rows)}
	}},
	{name: "dump-maria", title: "mysqldump file of the mixed schema into MariaDB 10.11", goal: 0.28, setUp: setUpDump, tools: func(b *bench, a *arena) []tool {
		return []tool{b.tidemarkTool("copy", "file:"+a.file, a.target.url(database), a.target), mariadbImport(a, a.target)}
	}},
	{name: "far-dump", title: "mysqldump file of 500 tables of 20 rows into MariaDB 10.11, with a round trip of 20 ms to it", goal: 0.15, setUp: setUpFarDump(500, 20*time.Millisecond), tools: func(b *bench, a *arena) []tool {
		return []tool{b.tidemarkTool("copy", "file:"+a.file, a.target.reach(database), a.target), mariadbImport(a, a.target)}
	}},
	{name: "wiki-maria", title: "wiki-shaped page dump of 1 million rows into MariaDB 10.11", goal: 0.40, setUp: setUpWiki("maria"), tools: func(b *bench, a *arena) []tool {
		return []tool{b.tidemarkTool("copy", "file:"+a.file, a.target.url(database), a.target), mariadbImport(a, a.target)}
	}},
	{name: "wiki-pg", title: "the same file into PostgreSQL 15, against its import into MariaDB", goal: 1.0, setUp: setUpWiki("postgres"), tools: func(b *bench, a *arena) []tool {
		return []tool{b.tidemarkTool("copy", "file:"+a.file, a.target.url(database), a.target), mariadbImport(a, a.other)}
	}},
	{name: "diff-pg", title: "comparison of two equal databases of 0.9 GB, PostgreSQL 15", goal: 1.3, setUp: setUpDiff, differs: true, tools: func(b *bench, a *arena) []tool {
		return []tool{b.tidemarkTool("diff", a.source.url(database), a.target.url(database), nil), copyToNowhere(a, "'/dev/null'"), copyToNowhere(a, "STDOUT")}
	}},
	{name: "far-diff", title: "diff-pg with a round trip of 20 ms to both, against the same without", goal: 1.3, setUp: setUpFarDiff(20 * time.Millisecond), differs: true, tools: farDiffTools},
	{name: "repl-capture-pg", title: "capture alone of a backlog of 1 million rows, 5 a transaction, PostgreSQL 15", goals: captureGoals(2),
		setUp: setUpBacklog(backlogOf{source: "postgres", target: "postgres", rows: 1_000_000, times: 1}), tools: captureTools},
	{name: "repl-capture-maria", title: "capture alone of a backlog of 1 million rows, 5 a transaction, MariaDB 10.11", goals: captureGoals(3), setUp: setUpBacklog(backlogOf{source: "maria", rows: 1_000_000, times: 1}), tools: captureTools},
	{name: "repl-capture-mysql", title: "capture alone of a backlog of 1 million rows, 5 a transaction, MySQL 8.0", goals: captureGoals(3), setUp: setUpBacklog(backlogOf{source: "mysql", rows: 1_000_000, times: 1}), tools: captureTools},
	{name: "repl-pg-5", title: "catch-up of a backlog of 1 million rows through the durable queue, 5 a transaction, PostgreSQL 15 to 15", memory: streamMemory, goals: catchUpGoals,
		setUp: setUpBacklog(backlogOf{source: "postgres", target: "postgres", rows: 1_000_000, times: 1}), tools: catchUpTools},
	{name: "repl-pg-50", title: "the same, 50 rows a transaction", memory: streamMemory, goals: catchUpGoals,
		setUp: setUpBacklog(backlogOf{source: "postgres", target: "postgres", rows: 1_000_000, times: 10}), tools: catchUpTools},
	{name: "repl-maria-pg-5", title: "catch-up of a backlog of 1 million rows through the durable queue, 5 a transaction, MariaDB 10.11 to PostgreSQL 15", memory: streamMemory, goals: redpaper5,
		setUp: setUpBacklog(backlogOf{source: "maria", target: "postgres", rows: 1_000_000, times: 1}), tools: acrossTools},
	{name: "repl-maria-pg-50", title: "the same, 50 rows a transaction", memory: streamMemory, goals: redpaper50,
		setUp: setUpBacklog(backlogOf{source: "maria", target: "postgres", rows: 1_000_000, times: 10}), tools: acrossTools},
	{name: "repl-pg-maria-5", title: "catch-up of a backlog of 1 million rows through the durable queue, 5 a transaction, PostgreSQL 15 to MariaDB 10.11", memory: streamMemory, goals: redpaper5,
		setUp: setUpBacklog(backlogOf{source: "postgres", target: "maria", rows: 1_000_000, times: 1}), tools: acrossTools},
	{name: "repl-pg-maria-50", title: "the same, 50 rows a transaction", memory: streamMemory, goals: redpaper50,
		setUp: setUpBacklog(backlogOf{source: "postgres", target: "maria", rows: 1_000_000, times: 10}), tools: acrossTools},
	steadyJob("repl-latency", "2,000 transactions of 5 rows a second, PostgreSQL 15 to 15: from commit to commit", "postgres", 2000, 0, latencyGoals),
	steadyJob("repl-latency-1000", "the same, 1,000 a second", "postgres", 1000, 0, latencyGoals),
	steadyJob("far-latency", "the same, with a round trip of 20 ms to the target", "postgres", 1000, 20*time.Millisecond, farLatencyGoals),
	steadyJob("far-latency-maria", "the same, to MariaDB 10.11", "maria", 1000, 20*time.Millisecond, farOtherGoals),
	steadyJob("far-latency-mysql", "the same, to MySQL 8.0", "mysql", 1000, 20*time.Millisecond, farOtherGoals),
	{name: "repl-agents", title: "catch-up of 10,000 transactions of 5 rows with a round trip of 1 ms to the target, by agents", memory: streamMemory, goals: []goal{
		{tool: "8 agents", figure: streamRate, of: "1 agents", least: 7}, {tool: "16 agents", figure: streamRate, of: "1 agents", least: 12},
		{tool: "8 agents, one parent", figure: streamRate, of: "8 agents", least: 0.9}, {tool: "16 agents, one parent", figure: streamRate, of: "16 agents", least: 0.9}},
		setUp: setUpBacklog(backlogOf{source: "postgres", target: "postgres", rows: 50_000, times: 1, delay: time.Millisecond, seeds: oneParentSQL}), tools: agentTools},
	{name: "far-catch-up", title: "catch-up of 500,000 rows, 5 a transaction, with a round trip of 20 ms to the target, PostgreSQL 15 to 15", memory: streamMemory, goals: []goal{
		{tool: "tidemark", figure: streamRate, of: near, least: 0.8}, {tool: transactional, figure: streamRate, of: near + ", transactional", least: 0.8}},
		setUp: setUpBacklog(backlogOf{source: "postgres", target: "postgres", rows: 500_000, times: 1, delay: 20 * time.Millisecond}), tools: farTools},
	{name: "repl-unique", title: "catch-up of 400,000 rows, 5 a transaction, PostgreSQL 15 to 15, by unique indexes on the target", memory: streamMemory, goals: []goal{
		{tool: "3 indexes", figure: streamRate, of: "1 index", least: 0.9}, {tool: "5 indexes", figure: streamRate, of: "1 index", least: 0.8}},
		setUp: setUpBacklog(backlogOf{source: "postgres", target: "postgres", rows: 400_000, times: 1, seeds: uniqueSQL}), tools: uniqueTools},
	{name: "ha-scan-pg", title: "scan of a log of a fill and 200,000 transactions of 5 rows, PostgreSQL 15", goals: []goal{{tool: "tidemark", figure: logRate, least: 1000}},
		setUp: setUpScan, tools: scanTools},
	{name: "backup-pg", title: "backup of all files of a server of PostgreSQL 15, 2.5 GB of pgbench and text", goals: []goal{
		{tool: "tidemark s2", figure: speed, of: "pgBackRest lz4", least: 1.5}, {tool: "tidemark s2", figure: speed, of: "pg_basebackup client-lz4", least: 1.1},
		{tool: "tidemark zstd:3", figure: speed, of: "pg_basebackup server-zstd:3,workers=2", least: 1}},
		setUp: setUpMixed, tools: backupTools},
	{name: "backup-restore", title: "restore of that backup (ours compressed with s2, the others with lz4)", goals: []goal{{tool: "tidemark", figure: speed, of: "pgBackRest", least: 1.2}},
		setUp: setUpRestore(fillMixed, "mixed", smallTools), tools: restoreTools},
	{name: "backup-small", title: "backup of a server of PostgreSQL 15 with 200,000 small files", goals: []goal{
		{tool: "tidemark", figure: speed, of: "pgBackRest", least: 2}, {tool: "tidemark", figure: speed, of: "pgBackRest, bundles", least: 2}},
		setUp: setUpSmall, tools: smallTools},
	{name: "backup-small-restore", title: "restore of that", goals: []goal{
		{tool: "tidemark", figure: speed, of: "pgBackRest", least: 2}, {tool: "tidemark", figure: speed, of: "pgBackRest, bundles", least: 2}},
		setUp: setUpRestore(fillSmall, "small", smallTools), tools: restoreTools, hoards: true},
	{name: "backup-many", title: "backup of a server of PostgreSQL 15 with a million files, and 10 of 1 GB: only memory counts", setUp: setUpMany, tools: manyTools},
	{name: "backup-incr", title: "incremental backup of the server of backup-pg, after 20,000 updates of random rows", goal: 0.3, goals: []goal{
		{tool: "tidemark", figure: changedPart, most: 1.3}, {tool: "tidemark none", figure: changedPart, most: 1.3}},
		setUp: setUpChanged, tools: changedTools},
	{name: "backup-one-table", title: "backup of a server with one table of 10 GB, by one reader and by two", goals: []goal{{tool: "2 readers", figure: speed, of: "1 reader", least: 1.6}},
		setUp: setUpOneTable, tools: readerTools},
	{name: "backup-tune", title: "backup of the server of backup-pg by sizes that tune themselves, and by all of a grid of them", goal: 1.10, setUp: setUpMixed, tools: tuneTools},
	{name: "backup-maria", title: "logical backup of MariaDB 10.11, the mixed schema", goal: 0.7, goals: []goal{
		{tool: plainDump, figure: speed, of: "mydumper -t4", least: 1 / 0.7}, {tool: "tidemark", figure: speed, of: "mydumper -t4 -c", least: 1 / 0.7}},
		setUp: setUpMaria("maria"), tools: dumpTools},
	{name: "backup-maria-restore", title: "restore of that", goal: 0.5, setUp: setUpDumps, tools: loadTools},
	{name: "far-store", title: "backup of the server of backup-pg to an object store with a round trip of 30 ms, and its restore, against the same without", goal: 1.15, setUp: setUpFarStore(30 * time.Millisecond), tools: farStoreTools},
	{name: "archive-pg", title: "archive of a backlog of 2 GB of the log of PostgreSQL 15", goals: []goal{{tool: "tidemark", figure: speed, of: "pg_receivewal", least: 1}},
		setUp: setUpArchive, tools: archiveTools},
	{name: "archive-lag", title: "archive of the log of PostgreSQL 15 while it writes 50 MB a second", goals: []goal{{tool: "tidemark", figure: lagMost, most: 1}}, setUp: setUpLag, tools: lagTools},
	{name: "ha-measure", title: "what ha measure says of a disk and of the loopback", goals: measureGoals(), setUp: setUpMeasure, tools: measureTools},
}

// captureGoals are relative to Debezium's rate.
func captureGoals(times float64) []goal {
	return []goal{{tool: "tidemark", figure: reading, of: "Debezium", least: times}, {tool: "tidemark", figure: rowCPU, most: 4}}
}

var catchUpGoals = []goal{{tool: transactional, figure: rate, of: "subscription", least: 1}, {tool: batch, figure: rate, of: "subscription", least: 2}}

// Figures from IBM's Redpaper REDP-4947 for transactions of 5 and of 50 rows.
var (
	redpaper5  = []goal{{tool: "tidemark", figure: rate, least: 43_300}}
	redpaper50 = []goal{{tool: "tidemark", figure: rate, least: 104_000}}
)

// splitAt returns the size above which pgcopydb splits a table, at this scale.
func (b *bench) splitAt(size int64) int64 { return max(1<<20, int64(float64(size)*b.scale)) }

func setUpPgShop(ctx context.Context, b *bench, a *arena) (err error) {
	a.tables = shopTables("postgres")
	if a.source, a.content, err = b.filled(ctx, a, "postgres", "pg-shop", a.tables, b.script("shop.pg.sql")); err != nil {
		return err
	}
	a.target, err = b.scratchServer(ctx, a, "postgres")
	return err
}

func setUpPgBig(ctx context.Context, b *bench, a *arena) (err error) {
	a.tables = bigTables
	if a.source, a.content, err = b.filled(ctx, a, "postgres", "pg-big", a.tables, b.script("big.pg.sql")); err != nil {
		return err
	}
	a.target, err = b.scratchServer(ctx, a, "postgres")
	return err
}

func setUpMaria(target string) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) (err error) {
		a.tables = shopTables("maria")
		if a.source, a.content, err = b.mariaShop(ctx, a); err != nil {
			return err
		}
		a.target, err = b.scratchServer(ctx, a, target)
		return err
	}
}

// setUpDump needs the source only while it writes the file.
func setUpDump(ctx context.Context, b *bench, a *arena) (err error) {
	a.tables = shopTables("maria")
	var filled arena
	defer filled.close()
	from, c, err := b.mariaShop(ctx, &filled)
	if err != nil {
		return err
	}
	if a.file, c.Bytes, err = b.made("shop-dump", from.dump(ctx)); err != nil {
		return err
	}
	a.content = c
	a.target, err = b.scratchServer(ctx, a, "maria")
	return err
}

// dump writes a dump with mysqldump.
func (s *server) dump(ctx context.Context) func(path string) error {
	return func(path string) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd := exec.CommandContext(ctx, "mariadb-dump", "--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port="+strconv.Itoa(s.port),
			"--user="+account, "--password="+password, "--single-transaction", database)
		cmd.Stdout = f
		if err := cmd.Run(); err != nil {
			return err
		}
		return f.Close()
	}
}

func setUpWiki(target string) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) (err error) {
		a.tables = wikiTables
		rows := max(1000, int(1_000_000*b.scale))
		if a.file, a.Bytes, err = b.made("page", func(path string) error { return writeWiki(path, rows) }); err != nil {
			return err
		}
		a.Facts = map[string]fact{"page": {Rows: int64(rows), Indexes: 5}}
		if a.target, err = b.scratchServer(ctx, a, target); err != nil {
			return err
		}
		if target != "maria" {
			a.other, err = b.scratchServer(ctx, a, "maria")
		}
		return err
	}
}

// setUpDiff fills the second side from a dump, so that it has equal rows, but not equal blocks.
func setUpDiff(ctx context.Context, b *bench, a *arena) (err error) {
	a.tables = shopTables("postgres")
	if a.source, a.content, err = b.filled(ctx, a, "postgres", "pg-shop", a.tables, b.script("shop.pg.sql")); err != nil {
		return err
	}
	a.target, _, err = b.filled(ctx, a, "postgres", "pg-shop-copy", a.tables, func(ctx context.Context, s *server) error {
		return pour(exec.CommandContext(ctx, postgresBin+"/pg_dump", "-d", a.source.url(database)), s.client(ctx, database))
	})
	return err
}
