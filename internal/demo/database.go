package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/jackc/pgx/v5"
)

// A database is a session of the tour's own, separate from tidemark, on either engine.
type database interface {
	exec(ctx context.Context, sql string) error
	texts(ctx context.Context, sql string, each func(string)) error // for queries with one column
	close()
}

func (s *server) connect(ctx context.Context) (database, error) {
	if s.engine == "mariadb" {
		c, err := client.Connect(s.addr, account, os.Getenv("MYSQL_PWD"), shop)
		return maria{c}, err
	}
	c, err := pgx.Connect(ctx, s.url+"?sslmode=disable") // the password is in PGPASSWORD
	if err != nil {
		return nil, err
	}
	_, err = c.Exec(ctx, "SET search_path = public, shop")
	return pg{c}, err
}

type pg struct{ c *pgx.Conn }

func (p pg) close() { p.c.Close(context.Background()) }

func (p pg) exec(ctx context.Context, sql string) error {
	_, err := p.c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

func (p pg) texts(ctx context.Context, sql string, each func(string)) error {
	rows, err := p.c.Query(ctx, sql)
	if err != nil {
		return err
	}
	var s string
	_, err = pgx.ForEachRow(rows, []any{&s}, func() error { each(s); return nil })
	return err
}

type maria struct{ c *client.Conn }

func (m maria) close() { m.c.Close() }

func (m maria) exec(_ context.Context, sql string) error {
	_, err := m.c.Execute(sql)
	return err
}

func (m maria) texts(_ context.Context, sql string, each func(string)) error {
	var r mysql.Result
	return m.c.ExecuteSelectStreaming(sql, &r, func(row []mysql.FieldValue) error {
		each(string(row[0].AsString()))
		return nil
	}, nil)
}

// one returns the result of a query with one row.
func one(ctx context.Context, s *server, sql string) (answer string, err error) {
	db, err := s.connect(ctx)
	if err != nil {
		return "", err
	}
	defer db.close()
	err = db.texts(ctx, sql, func(t string) { answer = t })
	return answer, err
}

// A count compares the rows of two servers by their keys, queried from both.
type count struct{ rows, lost, doubled int }

// counted queries both servers for the keys of these tables and compares them, without tidemark.
func counted(ctx context.Context, source, target *server, tables ...string) (count, error) {
	seed := maphash.MakeSeed()
	read := func(s *server, table, key string) ([]uint64, error) {
		db, err := s.connect(ctx)
		if err != nil {
			return nil, err
		}
		defer db.close()
		var out []uint64
		err = db.texts(ctx, "SELECT concat_ws('-', "+key+") FROM "+table, func(k string) { out = append(out, maphash.String(seed, k)) })
		slices.Sort(out)
		return out, err
	}
	var all count
	for _, table := range tables {
		key := keys[table]
		there, err := read(source, table, key)
		if err != nil {
			return all, fmt.Errorf("%s of the source: %w", table, err)
		}
		here, err := read(target, table, key)
		if err != nil {
			return all, fmt.Errorf("%s of the target: %w", table, err)
		}
		lost, doubled := differences(there, here)
		all = count{all.rows + len(here), all.lost + lost, all.doubled + doubled}
	}
	return all, nil
}

// differences counts which of the source's sorted keys the target lacks, and which it has beyond
// them: duplicates, or keys the source does not have.
func differences(source, target []uint64) (lost, doubled int) {
	for len(source) > 0 && len(target) > 0 {
		switch s, t := source[0], target[0]; {
		case s == t:
			source, target = source[1:], target[1:]
		case s < t:
			lost, source = lost+1, source[1:]
		default:
			doubled, target = doubled+1, target[1:]
		}
	}
	return lost + len(source), doubled + len(target)
}

// probes is how many rows measure a latency.
const probes = 20

// latency commits rows on the source, and polls the target for each until it arrives.
func latency(ctx context.Context, source, target *server) (median time.Duration, err error) {
	from, err := source.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer from.close()
	to, err := target.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer to.close()
	var took []time.Duration
	for n := range probes {
		id := 200_000 + n
		if err := from.exec(ctx, fmt.Sprintf("INSERT INTO item VALUES (%d, 'probe', 1, NULL)", id)); err != nil {
			return 0, err
		}
		committed := time.Now()
		for seen := "0"; seen == "0"; {
			if err := to.texts(ctx, fmt.Sprintf("SELECT count(*)::text FROM item WHERE i_id = %d", id), func(s string) { seen = s }); err != nil {
				return 0, err
			}
			if time.Since(committed) > patience {
				return 0, fmt.Errorf("a row that was committed %s ago is not on the target", patience)
			}
		}
		took = append(took, time.Since(committed))
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
