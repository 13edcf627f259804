package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// sampled lets at most a hundred of n tables, t1 to tn, be verified.
func (a *arena) sampled(n int) {
	for i := range min(100, n) {
		a.tables = append(a.tables, table{fmt.Sprintf("t%d", 1+i*n/min(100, n)), "id:text a:text b:text"})
	}
}

// setUpTables creates this many small tables with a key and an index, and puts a link that adds this
// delay to each round trip in front of both servers. A hundred of the tables are verified.
func setUpTables(tables float64, delay time.Duration) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) (err error) {
		n := max(10, int(tables*b.scale))
		a.sampled(n)
		// Each table created in a transaction takes locks until its end.
		fill := fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP
			EXECUTE format('CREATE TABLE t%%s (id int PRIMARY KEY, a text, b int)', i);
			EXECUTE format('INSERT INTO t%%s SELECT g, ''text '' || g, mod(g, 7) FROM generate_series(1, 20) g', i);
			EXECUTE format('CREATE INDEX ON t%%s (b)', i);
			COMMIT;
		END LOOP; END $$`, n)
		options := []string{"-c", "max_locks_per_transaction=1024"} // for pg_dump, which locks all of them at once
		a.source, a.content, err = b.filled(ctx, a, "postgres", "tables-"+strconv.Itoa(n), a.tables, func(ctx context.Context, s *server) error { return s.exec(ctx, database, fill) }, options...)
		if err != nil {
			return err
		}
		if a.target, err = b.scratchServer(ctx, a, "postgres", options...); err != nil {
			return err
		}
		return a.distance(delay, a.servers()...)
	}
}

func tablesTools(b *bench, a *arena) []tool {
	return []tool{b.tidemarkTool("copy", a.source.reach(database), a.target.reach(database), a.target), pgcopydb(a, 2, 0), pgDump(a)}
}

// smallTables fills a MariaDB server with tables of 20 rows.
func (b *bench) smallTables(ctx context.Context, into *arena, tables float64) (*server, content, error) {
	n := max(10, int(tables*b.scale))
	into.sampled(n)
	var fill strings.Builder
	for i := range n {
		fmt.Fprintf(&fill, "CREATE TABLE t%d (id int PRIMARY KEY, a text, b int, KEY (b));\n"+
			"INSERT INTO t%d SELECT seq, CONCAT('text ', seq), MOD(seq, 7) FROM seq_1_to_20;\n", i+1, i+1)
	}
	return b.filled(ctx, into, "maria", "maria-tables-"+strconv.Itoa(n), into.tables, func(ctx context.Context, s *server) error { return s.exec(ctx, database, fill.String()) })
}

// setUpFarMaria is setUpTables for MariaDB and a target of any engine.
func setUpFarMaria(target string, tables float64, delay time.Duration) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) (err error) {
		if a.source, a.content, err = b.smallTables(ctx, a, tables); err != nil {
			return err
		}
		if a.target, err = b.scratchServer(ctx, a, target); err != nil {
			return err
		}
		return a.distance(delay, a.servers()...)
	}
}

// setUpFarDump needs the source only while it writes the file.
func setUpFarDump(tables float64, delay time.Duration) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) (err error) {
		var filled arena
		defer filled.close()
		from, c, err := b.smallTables(ctx, &filled, tables)
		if err != nil {
			return err
		}
		a.tables, a.content = filled.tables, c
		if a.file, a.Bytes, err = b.made("tables-dump", from.dump(ctx)); err != nil {
			return err
		}
		if a.target, err = b.scratchServer(ctx, a, "maria"); err != nil {
			return err
		}
		return a.distance(delay, a.target)
	}
}
