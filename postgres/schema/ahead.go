package schema

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A step reads a part of the catalogue.
type step func(*creator, context.Context) error

// Questions are the queries of steps that go out together, since far away each round trip counts.
// Their answers stay on the connection until the steps ask for them.
type questions struct {
	rehearsal bool
	sent      []string // in a rehearsal: asked so far; else those whose answers are still to come
	pipeline  *pgconn.Pipeline
}

// together runs steps whose queries need one round trip. A rehearsal, without answers, tells which
// queries these are. One that depends on an answer takes a round trip of its own, as do all that
// follow it.
func (c *creator) together(ctx context.Context, steps ...step) (err error) {
	rehearsed := newCatalogue(c.conn, c.opt, c.want)
	rehearsed.num, rehearsed.db.Major, rehearsed.ahead.rehearsal = c.num, c.db.Major, true
	on := newCreator(rehearsed)
	for _, s := range steps {
		if err := s(on, ctx); err != nil {
			return err
		}
	}
	q := &c.ahead
	q.sent, q.pipeline = rehearsed.ahead.sent, c.conn.PgConn().StartPipeline(ctx)
	defer func() {
		if cerr := q.end(); err == nil {
			err = cerr
		}
	}()
	for _, sql := range q.sent {
		q.pipeline.SendQueryParams(sql, nil, nil, nil, nil)
	}
	if err := q.pipeline.Sync(); err != nil {
		return err
	}
	for _, s := range steps {
		if err := s(c, ctx); err != nil {
			return err
		}
	}
	return nil
}

// end skips the answers that nobody has asked for.
func (q *questions) end() error {
	p := q.pipeline
	if q.pipeline, q.sent = nil, nil; p == nil {
		return nil
	}
	return p.Close()
}

// ask returns the answer to a query without parameters.
func (c *catalogue) ask(ctx context.Context, sql string) (pgx.Rows, error) {
	q := &c.ahead
	if q.pipeline == nil || len(q.sent) == 0 || q.sent[0] != sql {
		if err := q.end(); err != nil {
			return nil, err
		}
		return server.Ask(ctx, c.conn, sql)
	}
	q.sent = q.sent[1:]
	results, err := q.pipeline.GetResults()
	if err != nil {
		return nil, err
	}
	reader, is := results.(*pgconn.ResultReader)
	if !is {
		return nil, fmt.Errorf("an unexpected answer %T", results)
	}
	return pgx.RowsFromResultReader(c.conn.TypeMap(), reader), nil
}

// each calls use for each row of a query, whose columns are read into dst.
func (c *catalogue) each(ctx context.Context, sql string, dst []any, use func() error) error {
	if c.ahead.rehearsal {
		c.ahead.sent = append(c.ahead.sent, sql)
		return nil
	}
	r, err := c.ask(ctx, sql)
	if err == nil {
		_, err = pgx.ForEachRow(r, dst, use)
	}
	if err != nil {
		return fmt.Errorf("%w (in: %s)", err, server.Brief(sql))
	}
	return nil
}

// rows returns the rows of a query as structs whose fields are its columns in order.
func rows[T any](ctx context.Context, c *catalogue, sql string) ([]*T, error) {
	if c.ahead.rehearsal {
		c.ahead.sent = append(c.ahead.sent, sql)
		return nil, nil
	}
	r, err := c.ask(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("%w (in: %s)", err, server.Brief(sql))
	}
	out, err := pgx.CollectRows(r, pgx.RowToAddrOfStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("%w (in: %s)", err, server.Brief(sql))
	}
	return out, nil
}

func newCatalogue(conn *pgx.Conn, opt server.Options, want func(tidemark.TableID) bool) *catalogue {
	return &catalogue{conn: conn, opt: opt, want: want, db: &tidemark.Database{Engine: "postgres"},
		types: map[uint32]*pgType{}, relations: map[uint32]*relation{}, sequences: map[uint32]*sequence{}, byName: map[string]*sequence{},
		alike: map[uint64]columns{}, seed: maphash.MakeSeed(), texts: map[address]map[int32]string{}, origins: &origins{member: map[address]uint32{}, alias: map[address]address{}, silent: map[address]bool{}}}
}
