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

// How many tables one session holds, and how many sessions may hold tables. MariaDB looks up a
// metadata lock in the list of all that the session has, several times a statement: taking 10,000
// of them one by one in one session takes nine seconds, and every catalogue query after that
// thirty. (MySQL has a hash.) For the same reason, a session that holds nothing reads the
// catalogue.
const (
	holdEach = 500
	holdMost = 16
)

// hold takes the metadata locks of tables once there is a frozen view, so that nobody alters or
// drops them before Close. A table that was dropped since Freeze is an error of Kind Lost; so is
// one that was altered since, when its rows are read.
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

// holdersFor returns as many sessions as are needed to hold n tables.
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
			return nil, &tidemark.Error{Kind: tidemark.Lost, Op: "describe", Object: e.Masked, Err: errors.New("a connection that kept the source's tables unchanged broke"), Hint: "Start the copy again."}
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
	var first error
	err := s.RunMany(ctx, statements, func(i int, _ *gomysql.Result, err error) {
		var my *gomysql.MyError
		switch {
		case err == nil || first != nil:
		case errors.As(err, &my) && my.Code == 1146:
			first = &tidemark.Error{Kind: tidemark.Lost, Op: "freeze", Object: tables[i].String(), Err: errors.New("the table was dropped after the source was frozen"), Hint: "Start the copy again."}
		default:
			first = s.Server.Fail("freeze", tables[i].String(), err)
		}
	})
	if err != nil {
		return s.Server.Fail("freeze", s.Server.Masked, err)
	}
	return first
}

// A reading lane also keeps metadata locks on tables it has read, which it does not need. MariaDB
// lets a session roll back to a savepoint before them and keep its view if the session writes
// nothing to the binlog: so our own sessions disable their binlog if the user may (BINLOG ADMIN);
// otherwise reading 10,000 tables takes twice the time.
const (
	keepOut      = "SET SESSION sql_log_bin=0"
	releaseAfter = 200 // reads
)

// toRead prepares a session that will get the view. If somebody waits to alter a held table, new
// readers of it queue behind them: LockWait bounds that wait.
func toRead(ctx context.Context, s *server.Session) error {
	err := s.Exec(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout=%d", max(1, int(s.Server.Options.LockWait.Seconds()))))
	if err != nil || !s.Server.MariaDB {
		return err
	}
	err = s.Exec(ctx, keepOut)
	var my *gomysql.MyError
	if errors.As(err, &my) {
		return nil // missing privilege
	}
	return err
}

// setMark sets the savepoint that releaseLocks rolls back to.
func setMark(ctx context.Context, s *server.Session) error {
	if !s.Server.MariaDB {
		return nil
	}
	s.Marked = true
	return s.Exec(ctx, "SAVEPOINT tidemark")
}

// releaseLocks releases the metadata locks of a lane on the snapshot every releaseAfter reads.
func releaseLocks(ctx context.Context, s *server.Session) error {
	if !s.Marked {
		return nil
	}
	if s.Reads++; s.Reads%releaseAfter != 0 {
		return nil
	}
	return s.Exec(ctx, "ROLLBACK TO SAVEPOINT tidemark")
}
