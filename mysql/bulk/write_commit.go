package bulk

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// resetJudgement lets nothing commit until finishAndCommit's statements have judged the rows.
const resetJudgement = "SET @tidemark_rows = -1, @tidemark_loaded = FALSE, @tidemark_commit = 'DO 0'"

var judged atomic.Uint64 // numbers prepared statements

// finishAndCommit ends LOAD DATA and sends the marker and COMMIT ahead of its answer, so that rows,
// marker and COMMIT take one round trip. The server then judges what verdict would: after an answer
// that differs in rows or warnings it writes no marker, and without a marker it does not commit.
//
// Neither server has a COMMIT with a condition, but both prepare statements from variables. A
// server that allows no more prepared statements gets COMMIT in a round trip of its own.
//
// Each of these statements may fail alone, by KILL QUERY for example, and must not leave an earlier
// range's judgement in force: begin has reset the variables, and the prepared statement's name is
// used once.
func (k *writing) finishAndCommit(ctx context.Context) error {
	ledger, err := k.e.ledgerTable(ctx)
	if err != nil {
		return err
	}
	const load, warning, marker, prepare, execute, all = 0, 2, 4, 6, 7, 9
	name := "tidemark_" + strconv.FormatUint(judged.Add(1), 10)
	k.loading = nil
	err = k.s.Wire.Finish(
		"GET DIAGNOSTICS @tidemark_rows = ROW_COUNT",
		"SHOW WARNINGS LIMIT 1", // any other statement would remove them
		fmt.Sprintf("SET @tidemark_loaded = @tidemark_rows=%d AND @@warning_count=%d", k.sent, k.enums.count),
		k.e.markSQL(ledger, k.w.Run, k.marks(k.sent), "@tidemark_loaded"),
		fmt.Sprintf("SET @tidemark_commit = IF(ROW_COUNT()=%d, 'COMMIT', 'DO 0')", len(k.parts)),
		"PREPARE "+name+" FROM @tidemark_commit",
		"EXECUTE "+name,
		"DEALLOCATE PREPARE "+name)
	var answers [all]server.Answer
	var said [all]error
	var my *gomysql.MyError
	for i := range all {
		if err != nil {
			return k.resolveCommit(ctx, err)
		}
		if i == warning {
			k.warning, err = k.s.Wire.FirstRow()
		} else {
			answers[i], err = k.s.Wire.Answer()
		}
		if errors.As(err, &my) {
			said[i], err = err, nil
		}
	}
	if err != nil {
		return k.resolveCommit(ctx, err)
	}
	if said[load] != nil {
		return said[load]
	}
	if why := k.verdict(answers[load], k.sent); why != nil {
		return why
	}
	k.done.Rows += k.sent
	if said[marker] == nil && answers[marker].Affected == 0 && answers[marker].InTransaction {
		return k.commit(ctx) // the epoch has passed, or the judgement failed or was another than ours
	}
	if done, err := k.marked(answers[marker].Affected, said[marker]); done || err != nil {
		return err
	}
	if said[prepare] != nil || said[execute] == nil && answers[execute].InTransaction {
		return k.commitNow(ctx)
	}
	if said[execute] == nil {
		k.in = false
	}
	return said[execute]
}

// marked judges the answer to the marker's INSERT. done reports that an earlier attempt has written
// the range: then the transaction is rolled back.
func (k *writing) marked(affected uint64, err error) (done bool, _ error) {
	var my *gomysql.MyError
	switch {
	case errors.As(err, &my) && my.Code == 1062 && len(k.parts) == 1:
		// An earlier attempt succeeded after all: once is enough.
		if !k.in {
			return true, nil
		}
		k.in = false
		return true, k.command("ROLLBACK")
	case err != nil:
		return false, err
	case affected == 0:
		return false, takenOver(k.w.Run)
	}
	return false, nil
}

// commit writes the marker row and commits. Outside a transaction the marker commits itself.
func (k *writing) commit(ctx context.Context) error {
	if k.w.Run != "" {
		ledger, err := k.e.ledgerTable(ctx)
		if err != nil {
			return err
		}
		var affected uint64
		r, err := k.s.Client.Execute(k.e.markSQL(ledger, k.w.Run, k.marks(0), "TRUE"))
		if err == nil {
			affected = r.AffectedRows
		}
		if done, err := k.marked(affected, err); done || err != nil {
			return err
		}
	}
	if !k.in {
		return nil
	}
	return k.commitNow(ctx)
}

func (k *writing) commitNow(ctx context.Context) error {
	err := k.command("COMMIT")
	var my *gomysql.MyError
	switch {
	case err == nil:
		k.in = false
		return nil
	case errors.As(err, &my):
		return err
	}
	return k.resolveCommit(ctx, err)
}

// resolveCommit finds out what became of a COMMIT that got no answer. Only the marker shows whether
// the server executed it, once the server has finished with that connection.
func (k *writing) resolveCommit(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	k.in = false
	k.s.Dead = true
	k.s.Close()
	if k.w.Run != "" && k.e.gone(ctx, k.s.ID) {
		marks, merr := k.e.Marks(ctx, k.w.Run)
		if merr == nil {
			there := 0
			for _, m := range marks {
				for _, p := range k.parts {
					if m.Range == p.w.Range.ID {
						p.done.Rows = m.Rows
						there++
					}
				}
			}
			if there == len(k.parts) {
				return nil
			}
			return err
		}
	}
	return &tidemark.Error{Op: "write", Object: k.object, Kind: tidemark.Transient, Err: fmt.Errorf("the connection broke in COMMIT, and whether the rows are there is not known: %w", err)}
}

// gone kills a session of ours on the server and waits until it has ended. It reports whether it
// has.
func (e *Bulk) gone(ctx context.Context, id uint32) bool {
	e.Kill(id)
	for range 100 {
		left := true
		err := e.OnSession(ctx, "look", "", func(s *server.Session) error {
			r, err := s.Query(ctx, "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID="+strconv.FormatUint(uint64(id), 10))
			left = err != nil || r.RowNumber() > 0
			return err
		})
		if err != nil {
			return false
		}
		if !left {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}
