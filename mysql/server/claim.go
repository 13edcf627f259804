package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// claimLook is how often a claim checks that it still holds its lock: a server that restarts
// forgets locks.
const claimLook = 5 * time.Second

// A claim is a tidemark.Claim.
type claim struct {
	e    *Server
	run  string
	stop context.CancelFunc
	done crash.Group
	s    *Session // holds the lock; once the goroutine runs, only it uses the session
}

// Claim begins a run's claim to tables of the target. If a hanging process still holds the lock of
// the same run, Claim takes it once the sessions of that process end.
func (e *Server) Claim(ctx context.Context, run string) (tidemark.Claim, error) {
	c := &claim{e: e, run: run}
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.done.Go(func() {
		defer func() {
			if c.s != nil {
				c.s.Close()
			}
		}()
		for flow.Sleep(ctx, claimLook) == nil {
			_ = c.lock(ctx) // the next check retries
		}
	})
	return c, nil
}

// lock takes the lock of the run. A lock that the session already holds counts.
func (c *claim) lock(ctx context.Context) (err error) {
	if c.s == nil || c.s.Dead {
		if c.s, err = c.e.NewSession(ctx); err != nil {
			return err
		}
	}
	return c.e.Fail("claim", c.e.Masked, c.s.Exec(ctx, "DO GET_LOCK("+runLock(c.run)+", 0)"))
}

// runLock is the name of a run's lock, quoted.
func runLock(run string) string { return Literal("tidemark run " + run) }

func (c *claim) Close() {
	c.stop()
	c.done.Wait()
}

func (c *claim) Take(ctx context.Context, tables []tidemark.TableID) (others []tidemark.Claimant, renewed int, err error) {
	if len(tables) > 0 {
		if _, err := c.e.OwnTable(ctx, ClaimName); err != nil {
			c.e.KeepOwnIn(tables[0].Schema)
		}
	}
	err = c.inTurn(ctx, func(s *Session, name string) error {
		others = nil
		for len(tables) > 0 {
			some := tables[:min(len(tables), 500)]
			tables = tables[len(some):]
			values := make([]string, len(some))
			for i, t := range some {
				values[i] = "(" + Literal(c.run) + "," + Literal(t.Schema) + "," + Literal(t.Name) + ")"
			}
			r, err := s.Query(ctx, "INSERT IGNORE INTO "+name+" (run, tab_schema, tab_name) VALUES "+strings.Join(values, ","))
			if err != nil {
				return err
			}
			renewed += len(some) - int(r.AffectedRows)
			if r, err = s.Query(ctx, "SELECT run, tab_schema, tab_name, IS_USED_LOCK(CONCAT('tidemark run ', run)) IS NOT NULL FROM "+name+
				" WHERE run <> "+Literal(c.run)+" AND (tab_schema, tab_name) IN ("+pairs(some)+") ORDER BY 1, 2, 3"); err != nil {
				return err
			}
			for i := range r.RowNumber() {
				others = append(others, tidemark.Claimant{Run: Cell(r, i, 0), Table: tidemark.TableID{Schema: Cell(r, i, 1), Name: Cell(r, i, 2)}, Live: Cell(r, i, 3) == "1"})
			}
		}
		return nil
	})
	return others, renewed, err
}

// pairs lists tables as values for IN.
func pairs(tables []tidemark.TableID) string {
	out := make([]string, len(tables))
	for i, t := range tables {
		out[i] = "(" + Literal(t.Schema) + "," + Literal(t.Name) + ")"
	}
	return strings.Join(out, ",")
}

func (c *claim) Release(ctx context.Context, run string, tables []tidemark.TableID) error {
	return c.inTurn(ctx, func(s *Session, name string) error {
		for len(tables) > 0 {
			some := tables[:min(len(tables), 500)]
			tables = tables[len(some):]
			if err := s.Exec(ctx, "DELETE FROM "+name+" WHERE run = "+Literal(run)+" AND (tab_schema, tab_name) IN ("+pairs(some)+")"); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *claim) Drop(ctx context.Context) error { return c.e.DropClaim(ctx, c.run) }

// DropClaim releases the claims of a run or stream. Releasing the last one drops the table of
// claims.
func (e *Server) DropClaim(ctx context.Context, run string) error {
	name, err := e.OwnTable(ctx, ClaimName)
	if tidemark.KindOf(err) == tidemark.Invalid {
		return nil // the URL names no database, and none has such a table
	}
	if err != nil {
		return err
	}
	err = e.OnSession(ctx, "give up claims", name, func(s *Session) error {
		return inTurn(ctx, s, func() error {
			if err := s.Exec(ctx, "DELETE FROM "+name+" WHERE run = "+Literal(run)); err != nil {
				return err
			}
			r, err := s.Query(ctx, "SELECT 1 FROM "+name+" LIMIT 1")
			if err != nil || r.RowNumber() > 0 {
				return err
			}
			return s.Exec(ctx, "DROP TABLE "+name)
		})
	})
	if tidemark.KindOf(err) == tidemark.NotFound {
		return nil
	}
	return err
}

// inTurn calls do while no other claim is being made, with the table of claims in place.
func (c *claim) inTurn(ctx context.Context, do func(s *Session, name string) error) error {
	name, err := c.e.OwnTable(ctx, ClaimName)
	if err != nil {
		return err
	}
	return c.e.OnSession(ctx, "claim tables", name, func(s *Session) error {
		return inTurn(ctx, s, func() error {
			create := "CREATE TABLE IF NOT EXISTS " + name + " (run varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, tab_schema varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, " +
				"tab_name varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (run, tab_schema, tab_name)) ENGINE=InnoDB " +
				"COMMENT='which run of tidemark fills which table; goes away with the run'"
			err := s.Exec(ctx, create)
			if IsCode(err, 1049) { // the URL names no database, and the run has not yet created those of its tables
				if err = s.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+Quote(c.e.ownDatabase())); err == nil {
					err = s.Exec(ctx, create)
				}
			}
			if err != nil {
				return err
			}
			return do(s, name)
		})
	})
}

// inTurn runs do under the lock that serializes claims.
func inTurn(ctx context.Context, s *Session, do func() error) error {
	const turn = "tidemark claims"
	r, err := s.Query(ctx, fmt.Sprintf("SELECT GET_LOCK('%s', 60)", turn))
	if err == nil && Cell(r, 0, 0) != "1" {
		err = &tidemark.Error{Kind: tidemark.Transient, Op: "claim tables", Err: errors.New("another process has held the lock of claims for a minute"), Hint: "Wait until it ends."}
	}
	if err != nil {
		return err
	}
	defer s.Exec(context.WithoutCancel(ctx), "DO RELEASE_LOCK('"+turn+"')") // the session's end releases it too
	return do()
}
