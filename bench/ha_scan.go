package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// logRate is MB of log per second of the tool's CPU time.
const logRate = "MB of log, a CPU second"

// setUpScan has a server write a log, from a fill and then from transactions of five rows, and
// keeps a copy of its segments.
func setUpScan(ctx context.Context, b *bench, a *arena) (err error) {
	if a.source, err = b.scratchServer(ctx, a, "postgres", "-c", "wal_keep_size=16GB"); err != nil {
		return err
	}
	for _, script := range []string{"repl.pg.sql", "repl-traffic.pg.sql"} {
		if err := b.script(script)(ctx, a.source); err != nil {
			return err
		}
	}
	transactions := max(10, int(200_000*b.scale))
	if err := a.source.exec(ctx, database, "SET synchronous_commit = off; SELECT setseed(0.5); "+fmt.Sprintf("CALL traffic(%d, 1)", transactions), "VACUUM ANALYZE", "SELECT pg_switch_wal()"); err != nil {
		return err
	}
	now, err := a.source.query(ctx, "", "SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
	if err != nil {
		return err
	}
	a.file = filepath.Join(b.dir, "log")
	if err := errors.Join(os.RemoveAll(a.file), os.MkdirAll(a.file, 0o755)); err != nil {
		return err
	}
	all, err := filepath.Glob(filepath.Join(a.source.data(), "pg_wal", strings.Repeat("[0-9A-F]", 24)))
	if err != nil {
		return err
	}
	for _, path := range all {
		if name := filepath.Base(path); name < now { // later segments are recycled for future use
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(a.file, name), text, 0o600); err != nil {
				return err
			}
			a.Bytes += int64(len(text))
		}
	}
	if a.Bytes == 0 {
		return fmt.Errorf("no segments before %s in %s", now, a.source.dir)
	}
	return nil
}

func scanTools(b *bench, a *arena) []tool {
	dump := tool{name: "pg_waldump --stats", rival: true, steps: func(string) ([][]step, error) {
		segments, err := os.ReadDir(a.file)
		if err != nil {
			return nil, err
		}
		return [][]step{one(postgresBin+"/pg_waldump", "--stats", "--path", a.file, segments[0].Name(), segments[len(segments)-1].Name())}, nil
	}}
	return []tool{{name: "tidemark", steps: func(string) ([][]step, error) {
		return [][]step{one(append([]string{b.tidemark, "ha", "scan", a.file, "--progress", "none"}, strings.Fields(b.tidemarkArgs)...)...)}, nil
	}}, dump}
}
