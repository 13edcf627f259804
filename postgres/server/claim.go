package server

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
	made   bool      // the table of claims was there
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
	err = c.inTurn(ctx, func(b *pgx.Batch) {
		b.Queue("INSERT INTO tidemark.claims (run, tab_schema, tab_name) SELECT $1, * FROM unnest($2::text[], $3::text[]) ON CONFLICT DO NOTHING", c.run, schemas, names).
			Exec(func(tag pgconn.CommandTag) error {
				renewed = len(tables) - int(tag.RowsAffected())
				return nil
			})
		b.Queue(`SELECT c.run, c.tab_schema, c.tab_name FROM tidemark.claims c JOIN unnest($2::text[], $3::text[]) w(s, t) ON w.s = c.tab_schema AND w.t = c.tab_name
			WHERE c.run <> $1 ORDER BY 1, 2, 3`, c.run, schemas, names).
			Query(func(rows pgx.Rows) (err error) {
				others, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o tidemark.Claimant, err error) {
					err = row.Scan(&o.Run, &o.Table.Schema, &o.Table.Name)
					return o, err
				})
				return err
			})
	}, func(conn *pgx.Conn) error { return findLive(ctx, conn, others) })
	return others, renewed, err
}

// findLive reports which claimants have a process: these hold their run's lock.
func findLive(ctx context.Context, conn *pgx.Conn, claimants []tidemark.Claimant) error {
	live := map[string]bool{}
	for i := range claimants {
		run := claimants[i].Run
		if _, known := live[run]; !known {
			var free bool
			if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock_shared($1)", runKey(run)).Scan(&free); err != nil {
				return err
			}
			live[run] = !free
		}
		claimants[i].Live = live[run]
	}
	return nil
}

func (c *claim) Release(ctx context.Context, run string, tables []tidemark.TableID) error {
	schemas, names := ByName(tables)
	return c.inTurn(ctx, func(b *pgx.Batch) {
		b.Queue(`DELETE FROM tidemark.claims c USING unnest($2::text[], $3::text[]) w(s, t) WHERE c.run = $1 AND w.s = c.tab_schema AND w.t = c.tab_name`, run, schemas, names)
	}, nil)
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
	err = DropRows(ctx, conn, claimTable, claimTurn, "run = "+QuoteLiteral(run), "to_regclass('tidemark.applied') IS NULL")
	return s.FailGrant(ctx, "give up claims", claimTable, err, "SELECT, INSERT, DELETE ON TABLE "+claimTable)
}

// DropRows deletes rows of one of Tidemark's own tables, in a transaction that first runs turn, so
// that it is alone with the table. With the last row goes the table, if it is ours and may holds,
// and with that the schema, if nothing else is in it. A table that is not there is no error. It
// takes two round trips, or three.
func DropRows(ctx context.Context, conn *pgx.Conn, table, turn, where, may string) error {
	answers, err := conn.PgConn().Exec(ctx, "BEGIN; "+turn+"; DELETE FROM "+table+" WHERE "+where+`;
		SELECT NOT EXISTS (SELECT FROM `+table+") AND pg_has_role(relowner, 'USAGE') AND "+may+`,
		       NOT EXISTS (SELECT FROM pg_class o WHERE o.relnamespace = c.relnamespace AND o.oid <> c.oid AND o.relkind <> 'i')
		FROM pg_class c WHERE oid = '`+table+"'::regclass").ReadAll()
	if err != nil {
		_, _ = conn.Exec(ctx, "ROLLBACK") // the first error is the one to report
		if s := SQLState(err); s == "42P01" || s == "3F000" {
			return nil // dropped already
		}
		return err
	}
	answer := answers[len(answers)-1].Rows[0]
	last, alone := string(answer[0]) == "t", string(answer[1]) == "t"
	end := "COMMIT"
	if last {
		end = "DROP TABLE " + table + "; COMMIT"
	}
	if _, err := conn.Exec(ctx, end, pgx.QueryExecModeSimpleProtocol); err != nil {
		_, _ = conn.Exec(ctx, "ROLLBACK") // as above
		return err
	}
	if !last || !alone {
		return nil
	}
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS tidemark RESTRICT")
	if s := SQLState(err); s == "2BP01" || s == "42501" {
		return nil // it contains something else, or is not ours
	}
	return err
}

// inTurn sends statements, and calls then, in a transaction that is serialized with all other
// claims. The table of claims exists in it.
func (c *claim) inTurn(ctx context.Context, queue func(*pgx.Batch), then func(*pgx.Conn) error) error {
	conn, release, err := c.server.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	for try := 0; ; try++ {
		if err = c.make(ctx, conn); err == nil {
			var b pgx.Batch
			b.Queue("BEGIN")
			b.Queue(claimTurn)
			queue(&b)
			if err = conn.SendBatch(ctx, &b).Close(); err == nil && then != nil {
				err = then(conn)
			}
			end := "COMMIT"
			if err != nil {
				end = "ROLLBACK"
			}
			if _, cerr := conn.Exec(ctx, end); err == nil {
				err = cerr
			}
		}
		c.made = err == nil
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

// make creates the table of claims where it is missing.
func (c *claim) make(ctx context.Context, conn *pgx.Conn) error {
	if c.made {
		return nil
	}
	var there, schema bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL, to_regnamespace('tidemark') IS NOT NULL", claimTable).Scan(&there, &schema); err != nil || there {
		return err
	}
	sql := claimDDL
	if !schema {
		sql = "CREATE SCHEMA IF NOT EXISTS tidemark; " + sql
	}
	_, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}
