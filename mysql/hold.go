package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// How many tables one session holds, and how many sessions there are for that at
// most. MariaDB looks a metadata lock up in the list of all that the session has,
// several times a statement: to take 10,000 of them one after the other in one session
// is nine seconds, and every query of the catalogue is thirty after that. (MySQL has a hash.)
// The catalogue is read by a session that holds nothing, for the same reason.
const (
	holdEach = 500
	holdMost = 16
)

// hold takes the metadata locks of tables, so that nobody alters or drops them
// before Close. A table that was dropped since Freeze is an error of Kind Lost; one
// that was altered since is too, when its rows are read.
func (e *Engine) hold(ctx context.Context, tables []tidemark.TableID) error {
	e.holdMu.Lock()
	defer e.holdMu.Unlock()
	holders, err := e.holdersFor(ctx, len(tables))
	if err != nil {
		return err
	}
	each := (len(tables) + len(holders) - 1) / len(holders)
	errs := make([]error, len(holders))
	var wg crash.Group
	for i, s := range holders {
		from, to := min(i*each, len(tables)), min((i+1)*each, len(tables))
		wg.Go(func() { errs[i] = s.hold(ctx, tables[from:to]) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// holdersFor gives the sessions that hold tables, as many as n tables need.
func (e *Engine) holdersFor(ctx context.Context, n int) ([]*session, error) {
	want := 1
	if e.mariadb {
		want = max(1, min((n+holdEach-1)/holdEach, holdMost))
	}
	e.mu.Lock()
	holders := e.holders
	e.mu.Unlock()
	for _, s := range holders {
		if s.dead {
			return nil, tidemark.Errorf(tidemark.Lost, "describe", e.to.masked, "a connection that kept the source's tables as they are has broken", "Start the copy again.")
		}
	}
	for len(holders) < want {
		s, err := e.session(ctx)
		if err == nil {
			err = s.exec(ctx, "START TRANSACTION READ ONLY")
		}
		if err != nil {
			if s != nil {
				s.close()
			}
			if ctx.Err() != nil {
				return nil, e.fail("describe", e.to.masked, err)
			}
			break
		}
		holders = append(holders, s)
	}
	e.mu.Lock()
	e.holders = holders
	e.mu.Unlock()
	return holders, nil
}

func (s *session) hold(ctx context.Context, tables []tidemark.TableID) error {
	if len(tables) == 0 {
		return nil
	}
	statements := make([]string, len(tables))
	for i, id := range tables {
		statements[i] = "SELECT 1 FROM " + table(id) + " LIMIT 0"
	}
	stop := crash.OnDone(ctx, s.abort)
	var first error
	err := runMany(s.c, statements, func(i int, _ *gomysql.Result, err error) {
		var my *gomysql.MyError
		switch {
		case err == nil || first != nil:
		case errors.As(err, &my) && my.Code == 1146:
			first = tidemark.Errorf(tidemark.Lost, "freeze", tables[i].String(), "the table was dropped after the source was frozen", "Start the copy again.")
		default:
			first = s.e.fail("freeze", tables[i].String(), err)
		}
	})
	if !stop() {
		s.dead = true
		err = context.Cause(ctx)
	}
	if err != nil {
		s.dead = s.dead || broken(err)
		return s.e.fail("freeze", s.e.to.masked, err)
	}
	return first
}

// A reading lane holds what it has read too, without need. MariaDB lets a session go
// back behind that and keep its view, if it would write nothing to the binlog: that
// is forbidden to our own sessions as far as the user may (BINLOG ADMIN); elsewhere
// reading 10,000 tables takes twice the time.
const (
	keepOut    = "SET SESSION sql_log_bin=0"
	letGoAfter = 200 // reads
)

// toRead sets a session up that is to get the view. Where somebody waits to alter a
// table that is held, whoever begins to read it waits behind them: LockWait bounds
// that.
func (s *session) toRead(ctx context.Context) error {
	err := s.exec(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout=%d", max(1, int(s.e.opt.LockWait.Seconds()))))
	if err != nil || !s.e.mariadb {
		return err
	}
	err = s.exec(ctx, keepOut)
	var my *gomysql.MyError
	if errors.As(err, &my) {
		return nil // it may not
	}
	return err
}

// setMark is where letGo goes back to.
func (s *session) setMark(ctx context.Context) error {
	if !s.e.mariadb {
		return nil
	}
	s.marked = true
	return s.exec(ctx, "SAVEPOINT tidemark")
}

// letGo gives up the metadata locks of a lane on the frozen view, now and then.
func (s *session) letGo(ctx context.Context) error {
	if !s.marked {
		return nil
	}
	if s.reads++; s.reads%letGoAfter != 0 {
		return nil
	}
	return s.exec(ctx, "ROLLBACK TO SAVEPOINT tidemark")
}

// manyAtOnce is how many statements travel together.
const manyAtOnce = 100

// runMany runs statements that give one result each, several in one round trip.
// row gets a statement's number and result, or its error.
func runMany(c *statements, statements []string, row func(i int, r *gomysql.Result, err error)) error {
	if err := multiStatements(c, true); err != nil {
		return err
	}
	for done := 0; done < len(statements); {
		batch := statements[done:min(done+manyAtOnce, len(statements))]
		_, err := c.ExecuteMultiple(strings.Join(batch, ";"), func(r *gomysql.Result, err error) {
			row(done, r, err)
			if r != nil {
				r.Close()
			}
			done++ // what follows a failed one was not run, and comes with the next batch
		})
		if err != nil {
			return err
		}
	}
	return multiStatements(c, false)
}

// multiStatements is the protocol's COM_SET_OPTION; without it a server takes
// one statement at a time.
func multiStatements(c *statements, on bool) error {
	option := byte(1)
	if on {
		option = 0
	}
	c.ResetSequence()
	if err := c.WritePacket([]byte{0, 0, 0, 0, gomysql.COM_SET_OPTION, option, 0}); err != nil {
		return err
	}
	answer, err := c.ReadPacket()
	if err == nil && len(answer) > 0 && answer[0] == gomysql.ERR_HEADER {
		return c.HandleErrorPacket(answer)
	}
	return err
}
