package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// A backup must handle this many files with little memory. They belong to no relation, so that
// creating them needs no statement, and they are empty of data.
const (
	manyFiles  = 1_000_000
	largeFiles = 10 // of 1 GB
)

// fillMany creates a million files of a page, and some large ones.
func fillMany(ctx context.Context, b *bench, s *server) error {
	oid, err := s.query(ctx, database, "SELECT oid FROM pg_database WHERE datname = current_database()")
	if err != nil {
		return err
	}
	if err := s.exec(ctx, database, "CREATE TABLE note AS SELECT 1 AS i"); err != nil {
		return err
	}
	folder := filepath.Join(s.data(), "base", oid)
	files, large := max(1000, int(manyFiles*b.scale)), max(1, int(largeFiles*b.scale))
	for i := range files + large {
		size := int64(8 << 10)
		if i >= files {
			size = 1 << 30
		}
		if err := hollow(filepath.Join(folder, fmt.Sprint(3_000_000_000+i)), size); err != nil {
			return err
		}
	}
	return nil
}

// hollow creates a file without data that the server's user may read.
func hollow(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func setUpMany(ctx context.Context, b *bench, a *arena) error {
	if err := b.filesServer(ctx, a, "many", fillMany); err != nil {
		return err
	}
	a.Bytes = int64(max(1, int(largeFiles*b.scale))) << 30
	return nil
}

// manyTools are backups by tidemark only: their memory is what counts.
func manyTools(b *bench, a *arena) []tool {
	k := func(name string) keeper { return keeper{b, a, name} }
	out := []tool{k("tidemark").tidemarkTool("--compress", "s2"), k("tidemark --via protocol").tidemarkTool("--compress", "s2", "--via", "protocol")}
	for _, way := range []string{"log", "pages"} {
		k := k("tidemark --incremental, by " + way)
		full := k.tidemark("backup", a.source.url("postgres"), k.dir(), "--compress", "s2")
		out = append(out, k.tool(false, func(ctx context.Context) error { return b.command(ctx, full.env, full.args...) }, func(string) ([][]step, error) {
			return [][]step{{k.tidemark("backup", a.source.url("postgres"), k.dir(), "--compress", "s2", "--incremental", "--changes-by", way)}}, nil
		}))
	}
	return out
}
