package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stored is the size of a tool's repository after a run, in MB.
const stored = "MB stored"

// filesServer starts a server whose files are backed up. pgBackRest connects to it by a socket.
func (b *bench) filesServer(ctx context.Context, a *arena, name string, fill func(context.Context, *bench, *server) error) (err error) {
	sockets := filepath.Join(b.dir, "sockets")
	if err := errors.Join(os.MkdirAll(sockets, 0o755), os.Chmod(sockets, 0o1777)); err != nil {
		return err
	}
	a.source, a.content, err = b.filled(ctx, a, "postgres", name, nil, func(ctx context.Context, s *server) error { return fill(ctx, b, s) },
		"-c", "unix_socket_directories="+sockets, "-c", "wal_keep_size=1GB", "-c", "max_locks_per_transaction=1000")
	if err != nil {
		return err
	}
	size, err := a.source.query(ctx, "", "SELECT sum(pg_database_size(oid)) FROM pg_database")
	if err != nil {
		return err
	}
	a.Bytes, err = strconv.ParseInt(size, 10, 64)
	return err
}

// fillMixed creates 1.5 GB of pgbench and 1 GB of text that compresses by a half.
func fillMixed(ctx context.Context, b *bench, s *server) error {
	if out, err := exec.CommandContext(ctx, postgresBin+"/pgbench", "-i", "-q", "-s", strconv.Itoa(max(1, int(100*b.scale))), s.url(database)).CombinedOutput(); err != nil {
		return fmt.Errorf("pgbench: %w: %s", err, out)
	}
	return s.fillNotes(ctx, int(3_000_000*b.scale))
}

// fillNotes creates a table of rows of a third of a kB, of digits.
func (s *server) fillNotes(ctx context.Context, rows int) error {
	return s.exec(ctx, database, fmt.Sprintf(`CREATE TABLE note AS SELECT i, (SELECT string_agg(md5((i * 10 + n)::text), '') FROM generate_series(1, 9) n) AS text
		FROM generate_series(1, %d) i`, rows))
}

// fillSmall creates 100,000 tables of one row, with an index each.
func fillSmall(ctx context.Context, b *bench, s *server) error {
	return s.exec(ctx, database, "ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()", fmt.Sprintf(`DO $$ BEGIN
		FOR i IN 1..%d LOOP
			EXECUTE format('CREATE TABLE small_%%s(id int PRIMARY KEY)', i);
			EXECUTE format('INSERT INTO small_%%s VALUES (%%s)', i, i);
			IF i %% 200 = 0 THEN COMMIT; END IF;
		END LOOP; END $$`, max(100, int(100_000*b.scale))))
}

// fillOneTable creates a table of 10 GB.
func fillOneTable(ctx context.Context, b *bench, s *server) error {
	return s.fillNotes(ctx, int(30_000_000*b.scale))
}

func setUpMixed(ctx context.Context, b *bench, a *arena) error {
	return b.filesServer(ctx, a, "mixed", fillMixed)
}

func setUpSmall(ctx context.Context, b *bench, a *arena) error {
	return b.filesServer(ctx, a, "small", fillSmall)
}

func setUpOneTable(ctx context.Context, b *bench, a *arena) error {
	return b.filesServer(ctx, a, "one-table", fillOneTable)
}

// A keeper is a tool's repository, in a folder of its own.
type keeper struct {
	b    *bench
	a    *arena
	name string
}

func (k keeper) dir() string {
	return filepath.Join(k.b.dir, "repositories", strings.NewReplacer(" ", "-", ",", "", ":", "").Replace(k.name))
}

// anew empties the repository.
func (k keeper) anew(context.Context) error {
	return errors.Join(os.RemoveAll(k.dir()), os.MkdirAll(filepath.Dir(k.dir()), 0o755))
}

// forecastError is the largest error of tidemark's forecasts at 10, 25, 50, 75 and 90 percent, in
// percent of the time that actually remained.
const forecastError = "time left, % off"

// forecasts adds the accuracy of the forecasts to figures, if the log has tidemark's report as
// JSON.
func forecasts(log string, figures map[string]float64) error {
	text, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var said struct {
			Event  string
			Report struct {
				Report struct {
					Phases []struct {
						Took time.Duration `json:"took_ns"`
					}
					Forecasts []struct {
						At   time.Duration `json:"at_ns"`
						Left time.Duration `json:"left_ns"`
					}
				}
			}
		}
		if json.Unmarshal([]byte(line), &said) != nil || said.Event != "report" {
			continue
		}
		var took time.Duration
		for _, p := range said.Report.Report.Phases {
			took += p.Took
		}
		for _, f := range said.Report.Report.Forecasts {
			if was := took - f.At; was > 0 {
				figures[forecastError] = max(figures[forecastError], 100*(f.Left-was).Abs().Seconds()/was.Seconds())
			}
		}
	}
	return nil
}

// size returns the size of the repository in bytes, as a figure.
func (k keeper) size(log string) (map[string]float64, error) {
	var sum int64
	err := filepath.WalkDir(k.dir(), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	figures := map[string]float64{stored: float64(sum) / 1e6}
	if err == nil && log != "" {
		err = forecasts(log, figures)
	}
	return figures, err
}

// tool runs commands that write into the repository, which is empty at first.
func (k keeper) tool(rival bool, prepare func(context.Context) error, steps func(scratch string) ([][]step, error)) tool {
	return tool{name: k.name, rival: rival, figures: k.size, steps: steps, before: func(ctx context.Context) error {
		if err := k.anew(ctx); err != nil || prepare == nil {
			return err
		}
		return prepare(ctx)
	}}
}

// tidemark runs a verb with options.
func (k keeper) tidemark(args ...string) step {
	args = append(append([]string{k.b.tidemark}, args...), "--progress", "none", "--json")
	return step{args: append(args, strings.Fields(k.b.tidemarkArgs)...), env: []string{"TIDEMARK_STATE=" + filepath.Join(k.b.dir, "catalog.db")}}
}

func (k keeper) tidemarkTool(options ...string) tool {
	return k.tool(false, nil, func(string) ([][]step, error) {
		return [][]step{{k.tidemark(append([]string{"backup", k.a.source.url("postgres"), k.dir()}, options...)...)}}, nil
	})
}

// pgBackRest runs one of its commands.
func (k keeper) pgBackRest(command string, options ...string) step {
	args := []string{"pgbackrest", "--stanza=bench", "--repo1-path=" + k.dir(), "--lock-path=" + k.dir() + "/lock", "--log-path=" + k.dir() + "/log", "--log-level-file=off", "--log-level-console=warn"}
	if command != "restore" {
		args = append(args, "--pg1-path="+k.a.source.data(), "--pg1-port="+strconv.Itoa(k.a.source.port), "--pg1-socket-path="+filepath.Join(k.b.dir, "sockets"), "--pg1-user="+account, "--pg1-database=postgres")
	}
	return step{args: append(append(args, options...), command), env: []string{"PGPASSWORD=" + password}}
}

func (k keeper) stanza(ctx context.Context) error {
	st := k.pgBackRest("stanza-create")
	return k.b.command(ctx, st.env, st.args...)
}

func (k keeper) pgBackRestBackup(options ...string) step {
	return k.pgBackRest("backup", append([]string{"--process-max=2", "--start-fast", "--no-archive-check", "--type=full"}, options...)...)
}

func (k keeper) pgBackRestTool(options ...string) tool {
	return k.tool(true, k.stanza, func(string) ([][]step, error) { return [][]step{{k.pgBackRestBackup(options...)}}, nil })
}

func (k keeper) basebackupTool(compress string) tool {
	return k.tool(true, nil, func(string) ([][]step, error) {
		return [][]step{one(postgresBin+"/pg_basebackup", "-d", k.a.source.url("postgres"), "-D", k.dir(), "-Ft", "--checkpoint=fast", "--compress="+compress)}, nil
	})
}

func backupTools(b *bench, a *arena) []tool {
	k := func(name string) keeper { return keeper{b, a, name} }
	return []tool{k("tidemark s2").tidemarkTool("--compress", "s2"), k("tidemark lz4").tidemarkTool("--compress", "lz4"), k("tidemark zstd:3").tidemarkTool("--compress", "zstd:3"), k("tidemark zstd:1").tidemarkTool("--compress", "zstd:1"),
		k("pgBackRest lz4").pgBackRestTool("--compress-type=lz4"), k("pgBackRest zst-3").pgBackRestTool("--compress-type=zst", "--compress-level=3"),
		k("pg_basebackup client-lz4").basebackupTool("client-lz4"), k("pg_basebackup server-lz4").basebackupTool("server-lz4"),
		k("pg_basebackup server-zstd:3,workers=2").basebackupTool("server-zstd:level=3,workers=2"), k("pg_basebackup client-zstd:3,workers=2").basebackupTool("client-zstd:level=3,workers=2")}
}

func smallTools(b *bench, a *arena) []tool {
	k := func(name string) keeper { return keeper{b, a, name} }
	return []tool{k("tidemark").tidemarkTool("--compress", "s2"), k("pgBackRest").pgBackRestTool("--compress-type=lz4"), k("pgBackRest, bundles").pgBackRestTool("--compress-type=lz4", "--repo1-bundle")}
}

// setUpRestore creates the backups to restore.
func setUpRestore(fill func(context.Context, *bench, *server) error, name string, tools func(*bench, *arena) []tool) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) error {
		if err := b.filesServer(ctx, a, name, fill); err != nil {
			return err
		}
		if err := b.buildTidemark(ctx); err != nil {
			return err
		}
		return b.runOnce(ctx, tools(b, a))
	}
}

// runOnce runs tools only for what they leave, without options that are meant for measuring, and
// measures nothing.
func (b *bench) runOnce(ctx context.Context, tools []tool) error {
	defer func(args string) { b.tidemarkArgs = args }(b.tidemarkArgs)
	b.tidemarkArgs = ""
	for _, t := range tools {
		if err := t.before(ctx); err != nil {
			return err
		}
		steps, err := t.steps("")
		if err != nil {
			return err
		}
		if err := b.command(ctx, steps[0][0].env, steps[0][0].args...); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

func restoreTools(b *bench, a *arena) []tool {
	ours := keeper{b, a, "tidemark"}
	out := []tool{{name: ours.name, figures: ours.size, steps: func(scratch string) ([][]step, error) {
		return [][]step{{ours.tidemark("restore", ours.dir(), "latest", filepath.Join(scratch, "data"))}}, nil
	}}}
	for _, k := range []keeper{{b, a, "pgBackRest"}, {b, a, "pgBackRest, bundles"}} {
		out = append(out, tool{name: k.name, rival: true, steps: func(scratch string) ([][]step, error) {
			data := filepath.Join(scratch, "data")
			if err := os.Mkdir(data, 0o700); err != nil {
				return nil, err
			}
			return [][]step{{k.pgBackRest("restore", "--pg1-path="+data, "--process-max=2", "--archive-mode=off")}}, nil
		}})
	}
	return out
}

func readerTools(b *bench, a *arena) []tool {
	k := func(name string) keeper { return keeper{b, a, name} }
	return []tool{k("1 reader").tidemarkTool("--parallelism", "1"), k("2 readers").tidemarkTool("--parallelism", "2")}
}

// tuneTools are a backup that tunes itself, and a grid of readers, sessions and buffer sizes, all
// of which write into one place.
func tuneTools(b *bench, a *arena) []tool {
	out := []tool{keeper{b, a, "tidemark"}.tidemarkTool("--compress", "s2")}
	for _, readers := range []string{"1", "2", "4", "8"} {
		for _, sessions := range []string{"1", "2", "4", "8"} {
			for _, size := range []string{"256kB", "1MB", "4MB"} {
				t := keeper{b, a, "grid"}.tidemarkTool("--compress", "s2", "--parallelism", readers, "--sessions", sessions, "--buffer-size", size, "--memory", "1GB")
				t.name, t.rival = readers+" readers, "+sessions+" sessions, "+size, true
				out = append(out, t)
			}
		}
	}
	return out
}

// setUpArchive has a server write a log, and keep it.
func setUpArchive(ctx context.Context, b *bench, a *arena) (err error) {
	if a.source, err = b.scratchServer(ctx, a, "postgres", "-c", "wal_keep_size=16GB", "-c", "max_wal_size=16GB"); err != nil {
		return err
	}
	if err := a.source.exec(ctx, database, "SELECT pg_create_physical_replication_slot('kept', true)"); err != nil {
		return err
	}
	if err := a.source.fillNotes(ctx, int(5_000_000*b.scale)); err != nil {
		return err
	}
	out, err := a.source.query(ctx, database, "SELECT now - restart_lsn, pg_walfile_name(now - 1) FROM pg_replication_slots, pg_switch_wal() now")
	if err != nil {
		return err
	}
	_, err = fmt.Sscan(out, &a.Bytes, &a.file)
	return err
}

// until returns a command line that stops a command once a file exists.
func until(file string, args ...string) []string {
	return append([]string{"sh", "-c", `last=$1; shift; "$@" & while ! [ -e "$last" ]; do sleep 0.02; done; kill -INT $!; wait $!`, "sh", file}, args...)
}

// archiveTools archive everything that a slot has kept. They do not end once they have caught up,
// so they are stopped when the last segment is archived.
func archiveTools(b *bench, a *arena) []tool {
	slot := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return a.source.exec(ctx, database, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name <> 'kept'",
				"SELECT pg_copy_physical_replication_slot('kept', '"+name+"')")
		}
	}
	ours := func(name string, options ...string) tool {
		k := keeper{b, a, name}
		return k.tool(false, slot("tidemark"), func(string) ([][]step, error) {
			st := k.tidemark(append([]string{"archive", a.source.url("postgres"), k.dir(), "--slot", "tidemark"}, options...)...)
			st.args = until(filepath.Join(k.dir(), "wal", a.file[:8], a.file), st.args...)
			return [][]step{{st}}, nil
		})
	}
	theirs := func(name string, suffix string, options ...string) tool {
		k := keeper{b, a, name}
		return k.tool(true, slot("receivewal"), func(string) ([][]step, error) {
			args := append([]string{postgresBin + "/pg_receivewal", "-d", a.source.url("postgres"), "-D", k.dir(), "--slot=receivewal"}, options...)
			return [][]step{one(until(filepath.Join(k.dir(), a.file+suffix), args...)...)}, os.MkdirAll(k.dir(), 0o755)
		})
	}
	return []tool{ours("tidemark"), ours("tidemark, none", "--compress", "none"), ours("tidemark, lz4", "--compress", "lz4"), theirs("pg_receivewal", ""), theirs("pg_receivewal, lz4", ".lz4", "--compress=lz4")}
}

// changedPart is what a tool's incremental backup has stored, relative to the pages that have
// changed.
const changedPart = "stored, of the changed pages"

// setUpChanged makes full backups with every tool, and then changes rows.
func setUpChanged(ctx context.Context, b *bench, a *arena) error {
	if err := setUpRestore(fillMixed, "mixed", changedTools)(ctx, b, a); err != nil {
		return err
	}
	accounts := max(1, int(100*b.scale)) * 100_000
	if err := a.source.exec(ctx, database, "CREATE EXTENSION IF NOT EXISTS pg_walinspect"); err != nil {
		return err
	}
	before, err := a.source.query(ctx, database, "SELECT pg_current_wal_insert_lsn()")
	if err != nil {
		return err
	}
	// Each row in its own transaction, as users do it, so that no page is touched twice in a row.
	if err := a.source.exec(ctx, database, "VACUUM pgbench_accounts", fmt.Sprintf(`DO $$ DECLARE which int; BEGIN PERFORM setseed(0.5); FOR i IN 1..%d LOOP
		which := 1 + (random() * (%d - 1))::int; UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = which; COMMIT; END LOOP; END $$`, max(10, int(20_000*b.scale)), accounts)); err != nil {
		return err
	}
	pages, err := a.source.query(ctx, database, fmt.Sprintf(`SELECT count(DISTINCT m[1]) FROM pg_get_wal_records_info('%s', pg_current_wal_flush_lsn()),
		regexp_matches(block_ref, 'rel (\S+ (?:fork (?!fsm)\S+ )?blk \d+)', 'g') m`, before))
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(pages, 10, 64)
	a.changed = n * 8192
	return err
}

// changedTools returns the tools of full backups, for setUpChanged, and then those of incremental
// ones.
func changedTools(b *bench, a *arena) []tool {
	full := func(name string, tool func(keeper) tool) tool { return tool(keeper{b, a, name}) }
	out := []tool{full("tidemark", func(k keeper) tool { return k.tidemarkTool() }), full("tidemark none", func(k keeper) tool { return k.tidemarkTool("--compress", "none") }),
		full("pgBackRest", func(k keeper) tool { return k.pgBackRestTool("--compress-type=lz4") })}
	if a.changed == 0 {
		return out
	}
	for i, more := range [][]string{{"--incremental"}, {"--incremental"}, {"--type=diff"}} {
		k, t := keeper{b, a, out[i].name}, out[i]
		var was float64
		out[i].before = func(context.Context) error {
			size, err := k.size("")
			was = size[stored]
			return err
		}
		out[i].steps = func(scratch string) ([][]step, error) {
			steps, err := t.steps(scratch)
			last := steps[0][0].args
			if t.rival { // its command comes last, and the last occurrence of an option counts
				last = slices.DeleteFunc(last, func(arg string) bool { return arg == "--type=full" })
				steps[0][0].args = slices.Insert(last, len(last)-1, more...)
			} else {
				steps[0][0].args = append(last, more...)
			}
			return steps, err
		}
		out[i].figures = func(string) (map[string]float64, error) {
			size, err := k.size("")
			return map[string]float64{stored: size[stored] - was, changedPart: (size[stored] - was) * 1e6 / float64(a.changed)}, err
		}
	}
	return out
}

// plainDump is the tool whose backups are uncompressed, as mydumper's are by default.
const plainDump = "tidemark none"

// dumpTools are the tools for logical backups.
func dumpTools(b *bench, a *arena) []tool {
	ours := func(name string, options ...string) tool {
		k := keeper{b, a, name}
		return k.tool(false, nil, func(string) ([][]step, error) {
			return [][]step{{k.tidemark(append([]string{"backup", "--logical", a.source.url(database), k.dir()}, options...)...)}}, nil
		})
	}
	out := []tool{ours("tidemark"), ours(plainDump, "--compress", "none")}
	for _, options := range [][]string{nil, {"-r", strconv.Itoa(int(max(1000, 250_000*b.scale)))}, {"-c"}} {
		k := keeper{b, a, strings.Join(append([]string{"mydumper -t4"}, options...), " ")}
		out = append(out, k.tool(true, nil, func(string) ([][]step, error) {
			return [][]step{one(append(append([]string{"mydumper", "-o", k.dir()}, mydumperLogin(a.source)...), options...)...)}, nil
		}))
	}
	return out
}

func setUpDumps(ctx context.Context, b *bench, a *arena) error {
	if err := setUpMaria("maria")(ctx, b, a); err != nil {
		return err
	}
	if err := b.buildTidemark(ctx); err != nil {
		return err
	}
	return b.runOnce(ctx, dumpTools(b, a))
}

// loadTools restore the dumps. myloader writes nothing to the target's binlog, and neither does
// tidemark where requested.
func loadTools(b *bench, a *arena) []tool {
	ours := func(name string, options ...string) tool {
		k := keeper{b, a, "tidemark"}
		return tool{name: name, into: a.target, steps: func(string) ([][]step, error) {
			return [][]step{{k.tidemark(append([]string{"restore", k.dir(), "latest", a.target.url(database)}, options...)...)}}, nil
		}}
	}
	out := []tool{ours("tidemark"), ours("tidemark, no binlog", "--no-binlog=on")}
	for _, t := range dumpTools(b, a) {
		if !t.rival {
			continue
		}
		k := keeper{b, a, t.name}
		out = append(out, tool{name: strings.Replace(t.name, "mydumper", "myloader", 1), rival: true, into: a.target, steps: func(string) ([][]step, error) {
			return [][]step{one(append([]string{"myloader", "-d", k.dir()}, mydumperLogin(a.target)...)...)}, nil
		}})
	}
	return out
}

const (
	lagSeconds = 30       // at scale 1
	lagRate    = 50 << 20 // bytes of log a second
	lagMost    = "lag of the archive, most of seconds"
	lagMean    = "lag of the archive, mean of seconds"
)

func setUpLag(ctx context.Context, b *bench, a *arena) (err error) {
	if a.source, err = b.scratchServer(ctx, a, "postgres", "-c", "max_wal_size=8GB"); err != nil {
		return err
	}
	a.Bytes = int64(lagSeconds*b.scale) * lagRate
	// It reports a safe position only if a slot needs it.
	return a.source.exec(ctx, database, "SELECT pg_create_physical_replication_slot('receivewal')", `CREATE PROCEDURE write_log(seconds int, rate int) LANGUAGE plpgsql AS $$
		DECLARE begun timestamptz := clock_timestamp(); text text := repeat('0123456789abcdef', 64 * 1024);
		BEGIN
			FOR i IN 1..seconds * rate / (1 << 20) LOOP
				PERFORM pg_logical_emit_message(false, '', text);
				COMMIT;
				PERFORM pg_sleep(greatest(0, extract(epoch FROM begun - clock_timestamp()) + i * (1 << 20)::float / rate));
			END LOOP;
		END $$`)
}

// lagTools archive while the server writes at a rate, and sample how far they lag behind. They
// report safe positions to the server one segment at a time.
func lagTools(b *bench, a *arena) []tool {
	run := func(name string, rival bool, command func(k keeper) step) tool {
		k := keeper{b, a, name}
		t := k.tool(rival, func(context.Context) error { return os.MkdirAll(k.dir(), 0o755) }, func(scratch string) ([][]step, error) {
			over := filepath.Join(scratch, "over")
			archive := command(k)
			archive.args = until(over, archive.args...)
			sql := func(sql string) []string {
				return []string{"sh", "-c", `sleep 1; "$@"; touch "$0"`, over, postgresBin + "/psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", a.source.url(database), "-c", sql}
			}
			seconds := int(lagSeconds * b.scale)
			load := step{args: sql(fmt.Sprintf("CALL write_log(%d, %d)", seconds, lagRate))}
			watch := step{args: sql(fmt.Sprintf(`DO $$ DECLARE l float; BEGIN FOR i IN 1..%d LOOP PERFORM pg_sleep(0.1);
				SELECT (pg_current_wal_flush_lsn() - flush_lsn) / %d.0 INTO l FROM pg_stat_replication; RAISE NOTICE 'lag %%', l; END LOOP; END $$`, seconds*10-20, lagRate))}
			watch.args[2] = `sleep 3; "$@"` // it ends before the load
			return [][]step{{archive, load, watch}}, nil
		})
		t.figures = lagFigures
		return t
	}
	return []tool{run("tidemark", false, func(k keeper) step { return k.tidemark("archive", a.source.url("postgres"), k.dir()) }),
		run("pg_receivewal", true, func(k keeper) step {
			return step{args: []string{postgresBin + "/pg_receivewal", "-d", a.source.url("postgres"), "-D", k.dir(), "--slot=receivewal"}}
		})}
}

// lagFigures parses the samples.
func lagFigures(log string) (map[string]float64, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	var n, sum, most float64
	for line := range strings.Lines(string(text)) {
		_, lag, found := strings.Cut(strings.TrimSpace(line), "lag ")
		if f, err := strconv.ParseFloat(lag, 64); found && err == nil {
			n, sum, most = n+1, sum+f, max(most, f)
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("no samples in %s", log)
	}
	return map[string]float64{lagMost: most, lagMean: sum / n}, nil
}
