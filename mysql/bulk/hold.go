package bulk

import (
	"context"
	"errors"
	"fmt"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/mysql/server"
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
// before Close, once there is a frozen view. A table that was dropped since Freeze is an error of Kind Lost; one
// that was altered since is too, when its rows are read.
func (e *Bulk) hold(ctx context.Context, tables []tidemark.TableID) error {
	e.mu.Lock()
	frozen := e.frozen
	e.mu.Unlock()
	if !frozen {
		return nil
	}
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
		wg.Go(func() { errs[i] = holdIn(ctx, s, tables[from:to]) })
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
func (e *Bulk) holdersFor(ctx context.Context, n int) ([]*server.Session, error) {
	want := 1
	if e.MariaDB {
		want = max(1, min((n+holdEach-1)/holdEach, holdMost))
	}
	e.mu.Lock()
	holders := e.holders
	e.mu.Unlock()
	for _, s := range holders {
		if s.Dead {
			return nil, &tidemark.Error{Kind: tidemark.Lost, Op: "describe", Object: e.Masked, Err: errors.New("a connection that kept the source's tables as they are has broken"), Hint: "Start the copy again."}
		}
	}
	for len(holders) < want {
		s, err := e.NewSession(ctx)
		if err == nil {
			err = s.Exec(ctx, "START TRANSACTION READ ONLY")
		}
		if err != nil {
			if s != nil {
				s.Close()
			}
			if ctx.Err() != nil {
				return nil, e.Fail("describe", e.Masked, err)
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

func holdIn(ctx context.Context, s *server.Session, tables []tidemark.TableID) error {
	if len(tables) == 0 {
		return nil
	}
	statements := make([]string, len(tables))
	for i, id := range tables {
		statements[i] = "SELECT 1 FROM " + server.QuoteTable(id) + " LIMIT 0"
	}
	stop := crash.OnDone(ctx, s.Abort)
	var first error
	err := server.RunMany(s.Client, statements, func(i int, _ *gomysql.Result, err error) {
		var my *gomysql.MyError
		switch {
		case err == nil || first != nil:
		case errors.As(err, &my) && my.Code == 1146:
			first = &tidemark.Error{Kind: tidemark.Lost, Op: "freeze", Object: tables[i].String(), Err: errors.New("the table was dropped after the source was frozen"), Hint: "Start the copy again."}
		default:
			first = s.Server.Fail("freeze", tables[i].String(), err)
		}
	})
	if !stop() {
		s.Dead = true
		err = context.Cause(ctx)
	}
	if err != nil {
		s.Dead = s.Dead || server.Broken(err)
		return s.Server.Fail("freeze", s.Server.Masked, err)
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
func toRead(ctx context.Context, s *server.Session) error {
	err := s.Exec(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout=%d", max(1, int(s.Server.Options.LockWait.Seconds()))))
	if err != nil || !s.Server.MariaDB {
		return err
	}
	err = s.Exec(ctx, keepOut)
	var my *gomysql.MyError
	if errors.As(err, &my) {
		return nil // it may not
	}
	return err
}

// setMark is where letGo goes back to.
func setMark(ctx context.Context, s *server.Session) error {
	if !s.Server.MariaDB {
		return nil
	}
	s.Marked = true
	return s.Exec(ctx, "SAVEPOINT tidemark")
}

// letGo gives up the metadata locks of a lane on the frozen view, now and then.
func letGo(ctx context.Context, s *server.Session) error {
	if !s.Marked {
		return nil
	}
	if s.Reads++; s.Reads%letGoAfter != 0 {
		return nil
	}
	return s.Exec(ctx, "ROLLBACK TO SAVEPOINT tidemark")
}
