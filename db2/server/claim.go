package server

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// Db2 has no locks by name that others could look at without waiting. So a claim is alive while its
// process renews the time in its rows.
const (
	claimBeat  = 3 * time.Second
	claimAlive = 5 * claimBeat // since the last renewal
)

// A claim is a tidemark.Claim.
type claim struct {
	e    *Server
	run  string
	stop context.CancelFunc
	done crash.Group
}

// Claim begins a run's claim to tables of the target.
func (e *Server) Claim(ctx context.Context, run string) (tidemark.Claim, error) {
	c := &claim{e: e, run: run}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.done.Go(func() {
		for flow.Sleep(ctx, claimBeat) == nil {
			_ = e.Do(ctx, "claim", e.Masked, func(s *Session) error { // the next one tries again
				_, err := s.Exec(ctx, "UPDATE "+e.Own("claims")+" SET beat = CURRENT TIMESTAMP WHERE run = "+Literal(run))
				return err
			})
		}
	})
	return c, nil
}

func (c *claim) Close() {
	c.stop()
	c.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), claimAlive)
	defer cancel()
	_ = c.e.Locked(ctx, "claim", "claims", "", false, func(s *Session, name string) error { // else others wait a little
		_, err := s.Exec(ctx, "UPDATE "+name+" SET beat = '0001-01-01 00:00:00' WHERE run = "+Literal(c.run))
		return err
	})
}

func (c *claim) Take(ctx context.Context, tables []tidemark.TableID) (others []tidemark.Claimant, renewed int, err error) {
	err = c.e.claims(ctx, true, func(s *Session, name string) error {
		rows, err := s.Strings(ctx, "SELECT run, tab_schema, tab_name, beat, CURRENT TIMESTAMP FROM "+name+" ORDER BY run, tab_schema, tab_name")
		if err != nil {
			return err
		}
		others, renewed = nil, 0
		wanted, mine := map[tidemark.TableID]bool{}, map[tidemark.TableID]bool{}
		for _, id := range tables {
			wanted[id] = true
		}
		for _, row := range rows {
			run, id := *row[0], tidemark.TableID{Schema: *row[1], Name: *row[2]}
			switch {
			case run == c.run:
				mine[id] = true
			case wanted[id]:
				others = append(others, tidemark.Claimant{Run: run, Table: id, Live: alive(*row[3], *row[4])})
			}
		}
		for _, id := range tables {
			if mine[id] {
				renewed++
			} else if _, err := s.Exec(ctx, fmt.Sprintf("INSERT INTO %s (run, tab_schema, tab_name, beat) VALUES (%s, %s, %s, CURRENT TIMESTAMP)", name, Literal(c.run), Literal(id.Schema), Literal(id.Name))); err != nil {
				return err
			}
		}
		_, err = s.Exec(ctx, "UPDATE "+name+" SET beat = CURRENT TIMESTAMP WHERE run = "+Literal(c.run))
		return err
	})
	return others, renewed, err
}

// alive compares two timestamps of the server.
func alive(at, now string) bool {
	const layout = "2006-01-02 15:04:05.999999999"
	then, err := time.Parse(layout, at)
	if err != nil {
		return true
	}
	present, err := time.Parse(layout, now)
	return err != nil || present.Sub(then) < claimAlive
}

func (c *claim) Release(ctx context.Context, run string, tables []tidemark.TableID) error {
	return c.e.claims(ctx, true, func(s *Session, name string) error {
		for _, id := range tables {
			if _, err := s.Exec(ctx, "DELETE FROM "+name+" WHERE run = "+Literal(run)+" AND tab_schema = "+Literal(id.Schema)+" AND tab_name = "+Literal(id.Name)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *claim) Drop(ctx context.Context) error { return c.e.DropClaim(ctx, c.run) }

// DropClaim releases the claims of a run. Releasing the last one drops the table of claims.
func (e *Server) DropClaim(ctx context.Context, run string) error {
	return e.claims(ctx, false, func(s *Session, name string) error { return s.DeleteOrDrop(ctx, name, "run = "+Literal(run)) })
}

// DeleteOrDrop deletes rows of a table that is locked, and drops it if none is left.
func (s *Session) DeleteOrDrop(ctx context.Context, name, where string) error {
	if _, err := s.Exec(ctx, "DELETE FROM "+name+" WHERE "+where); err != nil {
		return err
	}
	rows, err := s.Strings(ctx, "SELECT COUNT(*) FROM "+name)
	if err == nil && *rows[0][0] == "0" {
		_, err = s.Exec(ctx, "DROP TABLE "+name)
	}
	return err
}

// claims runs do while no other claim is being made. Without the table it is made, or there is
// nothing to do.
func (e *Server) claims(ctx context.Context, create bool, do func(s *Session, name string) error) error {
	return e.Locked(ctx, "claim tables", "claims", "(run VARCHAR(200) NOT NULL, tab_schema VARCHAR(128) NOT NULL, tab_name VARCHAR(128) NOT NULL, beat TIMESTAMP NOT NULL)", create, do)
}

// Locked runs do on a session that has locked one of Tidemark's own tables, and commits. A table
// that is missing is made if create is set; else there is nothing to do.
func (e *Server) Locked(ctx context.Context, op, own, columns string, create bool, do func(s *Session, name string) error) error {
	name := e.Own(own)
	for try := 0; ; try++ {
		err := e.Do(ctx, op, name, func(s *Session) error {
			if _, err := s.Exec(ctx, "LOCK TABLE "+name+" IN EXCLUSIVE MODE"); err != nil {
				return err
			}
			return do(s, name)
		})
		switch {
		case tidemark.KindOf(err) != tidemark.NotFound || try == 5:
			return err
		case !create:
			return nil
		}
		err = e.Do(ctx, op, name, func(s *Session) error {
			_, err := s.Exec(ctx, "CREATE TABLE "+name+" "+columns)
			return err
		})
		if err != nil && tidemark.KindOf(err) != tidemark.Exists { // another process was first
			return err
		}
	}
}
