package physical

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// amcheck has the indexes and tables of every database checked by the extension of that name
// (https://www.postgresql.org/docs/current/amcheck.html), even databases that allow no connections:
// it is a copy.
func (t *Trial) amcheck(ctx context.Context, conn *pgx.Conn) error {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_available_extensions WHERE name = 'amcheck'").Scan(&there); err != nil {
		return t.found(ctx, "the list of extensions", err)
	}
	if !there {
		t.out.Notes = append(t.out.Notes, "the extension amcheck is not installed beside that program: tables and indexes were not checked")
		return nil
	}
	rows, err := conn.Query(ctx, "SELECT datname FROM pg_database WHERE datconnlimit <> -2 ORDER BY datname") // -2: a DROP DATABASE was interrupted
	if err != nil {
		return t.found(ctx, "the list of databases", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return t.found(ctx, "the list of databases", err)
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, "ALTER DATABASE "+server.QuoteIdent(name)+" WITH ALLOW_CONNECTIONS true CONNECTION LIMIT -1"); err != nil {
			if err := t.found(ctx, "database "+name, err); err != nil {
				return err
			}
			continue
		}
		if err := t.checkDatabase(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// A checked is a relation to check.
type checked struct {
	oid   uint32
	name  string
	index bool
	sql   string
}

func (t *Trial) checkDatabase(ctx context.Context, name string) error {
	conn, err := t.connect(ctx, name)
	if err != nil {
		return t.found(ctx, "database "+name, err)
	}
	defer server.CloseConn(conn)
	todo, err := listChecked(ctx, conn, t.Major)
	if err != nil {
		return t.found(ctx, "database "+name, err)
	}
	t.out.Databases++
	work, stop := make(chan checked), make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	var failed error
	fail := func(err error) {
		if err != nil {
			mu.Lock()
			failed = err
			mu.Unlock()
			once.Do(func() { close(stop) })
		}
	}
	var workers crash.Group
	for range t.Workers {
		workers.Go(func() {
			own, err := t.connect(ctx, name)
			if err != nil {
				fail(err)
				return
			}
			defer server.CloseConn(own)
			for c := range work {
				bad, err := c.check(ctx, own)
				mu.Lock()
				t.note(c, name, bad)
				if err != nil {
					err = t.found(ctx, name+"."+c.name, err)
				}
				mu.Unlock()
				if fail(err); err != nil {
					return
				}
			}
		})
	}
	for _, c := range todo {
		select {
		case work <- c:
			continue
		case <-stop:
		}
		break
	}
	close(work)
	workers.Wait()
	if failed != nil {
		return t.found(ctx, "database "+name, failed)
	}
	return nil
}

func (t *Trial) note(c checked, database string, bad []string) {
	if c.index {
		t.out.Indexes++
	} else {
		t.out.Tables++
	}
	for _, text := range bad {
		t.out.Damages = append(t.out.Damages, fmt.Sprintf("%s.%s: %s", database, c.name, text))
	}
}

// listChecked creates the extension, and lists what it can check: B-tree indexes, including whether
// they contain all rows of their tables, and heaps, which 13 cannot check. Unlogged ones are empty.
func listChecked(ctx context.Context, conn *pgx.Conn, major int) ([]checked, error) {
	if _, err := conn.Exec(ctx, "CREATE SCHEMA tidemark_verify; DROP EXTENSION IF EXISTS amcheck; CREATE EXTENSION amcheck SCHEMA tidemark_verify"); err != nil {
		return nil, err
	}
	kinds := "'i'"
	if major >= 14 {
		kinds += ", 'r', 't', 'm'"
	}
	rows, err := conn.Query(ctx, `SELECT c.oid, c.oid::regclass::text, c.relkind = 'i', '' FROM pg_class c JOIN pg_am a ON a.oid = c.relam LEFT JOIN pg_index i ON i.indexrelid = c.oid
		WHERE c.relkind IN (`+kinds+`) AND c.relpersistence = 'p' AND a.amname IN ('btree', 'heap') AND coalesce(i.indisvalid AND i.indisready, true)
		ORDER BY c.relpages DESC, c.oid`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c checked, err error) {
		err = row.Scan(&c.oid, &c.name, &c.index, &c.sql)
		c.sql = "SELECT format('block %s, row %s: %s', blkno, offnum, msg) FROM tidemark_verify.verify_heapam($1::oid::regclass) LIMIT 20"
		if c.index {
			c.sql = "SELECT nullif(tidemark_verify.bt_index_check($1::oid::regclass, true)::text, '')"
		}
		return c, err
	})
}

// check returns the faults of a relation; an error of the server is damage too.
func (c checked) check(ctx context.Context, conn *pgx.Conn) (bad []string, err error) {
	rows, err := conn.Query(ctx, c.sql, c.oid)
	if err != nil {
		return nil, err
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[*string])
	for _, text := range texts {
		if text != nil {
			bad = append(bad, *text)
		}
	}
	return bad, err
}
