package server

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// The table of claims records which run fills which table. It is dropped with the last claim.
const (
	claimTable = "tidemark.claims"
	claimDDL   = "CREATE TABLE IF NOT EXISTS tidemark.claims (run text, tab_schema text, tab_name text, at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (run, tab_schema, tab_name))"
	claimTurn  = "SELECT pg_advisory_xact_lock(7305790421)" // claims are made one after the other
)

// claimLook is how often a claim checks that it still has its lock: a server that restarts forgets
// it.
const claimLook = 5 * time.Second

// A claim implements tidemark.Claim.
type claim struct {
	server *Server
	run    string
	stop   context.CancelFunc
	done   crash.Group
	conn   *pgx.Conn // holds the lock; used by the goroutine alone once it runs
}

// Claim begins a run's claim to tables of the target. If a hanging process still has the lock of
// the same run, the lock is taken once that process's sessions end.
func (s *Server) Claim(ctx context.Context, run string) (tidemark.Claim, error) {
	c := &claim{server: s, run: run}
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.done.Go(func() {
		defer func() { CloseConn(c.conn) }()
		for flow.Sleep(ctx, claimLook) == nil {
			_ = c.lock(ctx) // retried at the next check
		}
	})
	return c, nil
}

// lock takes the run's lock. If the session has it already, that counts too.
func (c *claim) lock(ctx context.Context) (err error) {
	if c.conn == nil || c.conn.IsClosed() {
		if c.conn, err = c.server.Connect(ctx); err != nil {
			return err
		}
	}
	_, err = c.conn.Exec(ctx, "SELECT pg_try_advisory_lock($1)", runKey(c.run))
	return c.server.Fail(ctx, "claim", c.server.Object, err)
}

// runKey returns the key of a run's lock.
func runKey(run string) int64 {
	h := fnv.New64a()
	h.Write([]byte("tidemark run " + run))
	return int64(h.Sum64())
}

func (c *claim) Close() {
	c.stop()
	c.done.Wait()
}

func (c *claim) Take(ctx context.Context, tables []tidemark.TableID) (others []tidemark.Claimant, renewed int, err error) {
	schemas, names := ByName(tables)
	err = c.inTurn(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "INSERT INTO tidemark.claims (run, tab_schema, tab_name) SELECT $1, * FROM unnest($2::text[], $3::text[]) ON CONFLICT DO NOTHING", c.run, schemas, names)
		if err != nil {
			return err
		}
		renewed = len(tables) - int(tag.RowsAffected())
		others, err = claimants(ctx, tx, c.run, schemas, names)
		return err
	})
	return others, renewed, err
}

// claimants returns the runs, other than but, that have claims to tables.
func claimants(ctx context.Context, tx pgx.Tx, but string, schemas, names []string) ([]tidemark.Claimant, error) {
	rows, err := tx.Query(ctx, `SELECT c.run, c.tab_schema, c.tab_name FROM tidemark.claims c JOIN unnest($2::text[], $3::text[]) w(s, t) ON w.s = c.tab_schema AND w.t = c.tab_name
		WHERE c.run <> $1 ORDER BY 1, 2, 3`, but, schemas, names)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o tidemark.Claimant, err error) {
		err = row.Scan(&o.Run, &o.Table.Schema, &o.Table.Name)
		return o, err
	})
	live := map[string]bool{}
	for i := range found {
		run := found[i].Run
		if _, known := live[run]; !known && err == nil {
			var free bool
			err = tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock_shared($1)", runKey(run)).Scan(&free)
			live[run] = !free
		}
		found[i].Live = live[run]
	}
	return found, err
}

func (c *claim) Release(ctx context.Context, run string, tables []tidemark.TableID) error {
	schemas, names := ByName(tables)
	return c.inTurn(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM tidemark.claims c USING unnest($2::text[], $3::text[]) w(s, t) WHERE c.run = $1 AND w.s = c.tab_schema AND w.t = c.tab_name`, run, schemas, names)
		return err
	})
}

func (c *claim) Drop(ctx context.Context) error { return c.server.DropClaim(ctx, c.run) }

// DropClaim releases the claims of a run or stream. The last one drops the table of claims, unless
// a stream is applied here: otherwise the table would be created and dropped with each session and
// repair, and a catalogue query in an old snapshot would then fail on the missing index. The schema
// is dropped with the table if it is empty.
func (s *Server) DropClaim(ctx context.Context, run string) error {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", claimTable).Scan(&there); err != nil || !there {
		return s.Fail(ctx, "give up claims", claimTable, err)
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, claimTurn); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM tidemark.claims WHERE run = $1", run); err != nil {
			return err
		}
		var drop bool
		err := tx.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM tidemark.claims) AND to_regclass('tidemark.applied') IS NULL AND pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'tidemark.claims'::regclass").Scan(&drop)
		if err == nil && drop {
			_, err = tx.Exec(ctx, "DROP TABLE tidemark.claims")
		}
		return err
	})
	if s := SQLState(err); s == "42P01" || s == "3F000" {
		return nil // dropped already
	}
	if err != nil {
		return s.FailGrant(ctx, "give up claims", claimTable, err, "SELECT, INSERT, DELETE ON TABLE "+claimTable)
	}
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS tidemark RESTRICT")
	if s := SQLState(err); s == "2BP01" || s == "42501" {
		return nil
	}
	return s.Fail(ctx, "drop schema", "tidemark", err)
}

// inTurn runs do in a transaction that is serialized with all other claims. The table of claims
// exists in it.
func (c *claim) inTurn(ctx context.Context, do func(tx pgx.Tx) error) error {
	conn, release, err := c.server.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	for try := 0; ; try++ {
		var there, schema bool
		err = conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL, to_regnamespace('tidemark') IS NOT NULL", claimTable).Scan(&there, &schema)
		if err == nil && !schema {
			_, err = conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS tidemark")
		}
		if err == nil && !there {
			_, err = conn.Exec(ctx, claimDDL)
		}
		if err == nil {
			err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, claimTurn); err != nil {
					return err
				}
				return do(tx)
			})
		}
		switch SQLState(err) {
		case "23505", "42P06", "42P07", "42710", "42P01", "3F000", "XX000": // another run creates or drops it at this moment
			if try < 5 {
				continue
			}
		}
		var own *tidemark.Error
		if errors.As(err, &own) {
			return err
		}
		return c.server.FailGrant(ctx, "claim tables", claimTable, err, fmt.Sprintf("CREATE ON DATABASE %s", QuoteIdent(c.server.Config.Database)))
	}
}
