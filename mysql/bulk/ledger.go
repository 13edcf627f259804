package bulk

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A Ledger keeps marks of what was copied, next to the rows.
type Ledger struct {
	server *server.Server

	mu     sync.Mutex
	epochs map[string]int64 // of the runs that this process began: see Begin
}

func (e *Ledger) ledgerTable(ctx context.Context) (string, error) {
	return e.server.OwnTable(ctx, server.LedgerName)
}

// Begin creates the marker table and begins a new epoch of the run; the row of range 0 counts
// epochs.
//
// A killed process may have sent a COMMIT that the server is still executing. So each range's
// transaction checks and locks the epoch as it writes its marker: Begin waits for those that have
// checked, and later ones are refused. What Marks returns after Begin is therefore everything that
// earlier epochs will ever have written.
func (e *Ledger) Begin(ctx context.Context, run string) error {
	name, err := e.ledgerTable(ctx)
	if err != nil {
		return err
	}
	return e.server.OnSession(ctx, "make marker table", name, func(s *server.Session) error {
		err := s.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+name+" (run varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, range_id int NOT NULL, "+
			"rows_n bigint NOT NULL, at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (run, range_id)) ENGINE=InnoDB "+
			"COMMENT='marks of what tidemark has copied; goes away with the run'")
		if err == nil {
			err = e.newEpoch(ctx, s, name, run)
		}
		return err
	})
}

func (e *Ledger) newEpoch(ctx context.Context, s *server.Session, name, run string) error {
	if err := s.Exec(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	err := s.Exec(ctx, "INSERT INTO "+name+" (run, range_id, rows_n) VALUES ("+server.Literal(run)+",0,1) ON DUPLICATE KEY UPDATE rows_n=rows_n+1")
	var epoch int64
	if err == nil {
		var r *gomysql.Result
		if r, err = s.Query(ctx, "SELECT rows_n FROM "+name+" WHERE run="+server.Literal(run)+" AND range_id=0"); err == nil {
			epoch, err = r.GetInt(0, 0)
		}
	}
	if err != nil {
		_ = s.Exec(context.WithoutCancel(ctx), "ROLLBACK") // the first error is the one to report
		return err
	}
	if err := s.Exec(ctx, "COMMIT"); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.epochs == nil {
		e.epochs = map[string]int64{}
	}
	e.epochs[run] = epoch
	return nil
}

// markSQL returns the statement that writes the markers of ranges; it writes none once the epoch
// has passed, or if the condition is false.
func (e *Ledger) markSQL(ledger, run string, marks []tidemark.Mark, condition string) string {
	var m strings.Builder
	for i, mark := range marks {
		if i > 0 {
			m.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&m, "SELECT %d i, %d n", mark.Range, mark.Rows)
	}
	e.mu.Lock()
	epoch, ok := e.epochs[run]
	e.mu.Unlock()
	if !ok { // this Engine has not begun it
		return fmt.Sprintf("INSERT INTO %s (run, range_id, rows_n) SELECT %s, m.i, m.n FROM (%s) m WHERE %s", ledger, server.Literal(run), &m, condition)
	}
	return fmt.Sprintf("INSERT INTO %s (run, range_id, rows_n) SELECT e.run, m.i, m.n FROM %s e, (%s) m WHERE e.run=%s AND e.range_id=0 AND e.rows_n=%d AND %s LOCK IN SHARE MODE",
		ledger, ledger, &m, server.Literal(run), epoch, condition)
}

// superseded checks, without locking, whether there is a newer epoch of a run that this Engine
// began.
func (e *Ledger) superseded(ctx context.Context, run string) bool {
	e.mu.Lock()
	epoch, begun := e.epochs[run]
	e.mu.Unlock()
	if !begun || ctx.Err() != nil {
		return false
	}
	name, err := e.ledgerTable(ctx)
	now := int64(-1) // no row: the other process has ended the run
	if err == nil {
		err = e.server.OnSession(ctx, "look", name, func(s *server.Session) error {
			r, err := s.Query(ctx, "SELECT rows_n FROM "+name+" WHERE run="+server.Literal(run)+" AND range_id=0")
			if err == nil && r.RowNumber() > 0 {
				now, err = r.GetInt(0, 0)
			}
			return err
		})
	}
	if err != nil {
		return tidemark.KindOf(err) == tidemark.NotFound // table not found: somebody who removed it has superseded the run too
	}
	return now != epoch
}

// takenOver is the error of a range whose epoch has passed.
func takenOver(run string) error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "write", Object: "run " + run, Err: errors.New("another process has taken over this run"), Hint: "End one of the two processes, then resume."}
}

// Marks lists the ranges of a run that are on the target.
func (e *Ledger) Marks(ctx context.Context, run string) ([]tidemark.Mark, error) {
	name, err := e.ledgerTable(ctx)
	if tidemark.KindOf(err) == tidemark.Invalid {
		return nil, nil // the table does not exist
	}
	if err != nil {
		return nil, err
	}
	var marks []tidemark.Mark
	err = e.server.OnSession(ctx, "read marks", name, func(s *server.Session) error {
		r, err := s.Query(ctx, "SELECT range_id, rows_n FROM "+name+" WHERE run="+server.Literal(run)+" AND range_id>0 ORDER BY range_id")
		if err != nil {
			return err
		}
		marks = make([]tidemark.Mark, r.RowNumber())
		for i := range marks {
			id, _ := r.GetInt(i, 0)
			rows, _ := r.GetInt(i, 1)
			marks[i] = tidemark.Mark{Range: int(id), Rows: rows}
		}
		return nil
	})
	if tidemark.KindOf(err) == tidemark.NotFound {
		return nil, nil
	}
	return marks, err
}

// Forget removes marks of a run.
func (e *Ledger) Forget(ctx context.Context, run string, ranges []int) error {
	name, err := e.ledgerTable(ctx)
	if err != nil {
		return err
	}
	err = e.server.OnSession(ctx, "remove marks", name, func(s *server.Session) error {
		sql := "DELETE FROM " + name + " WHERE run=" + server.Literal(run)
		if ranges == nil {
			if err := s.Exec(ctx, sql); err != nil {
				return err
			}
			r, err := s.Query(ctx, "SELECT 1 FROM "+name+" LIMIT 1")
			if err != nil || r.RowNumber() > 0 {
				return err
			}
			return s.Exec(ctx, "DROP TABLE "+name)
		}
		for len(ranges) > 0 {
			n := min(len(ranges), 1000)
			ids := make([]string, n)
			for i, id := range ranges[:n] {
				ids[i] = strconv.Itoa(id)
			}
			if err := s.Exec(ctx, sql+" AND range_id IN ("+strings.Join(ids, ",")+")"); err != nil {
				return err
			}
			ranges = ranges[n:]
		}
		return nil
	})
	if tidemark.KindOf(err) == tidemark.NotFound {
		return nil
	}
	return err
}

// Clear empties or drops tables, even if others reference them. Dropping a table that does not
// exist succeeds; emptying it is an error.
func (e *Bulk) Clear(ctx context.Context, tables []tidemark.TableID, drop bool) error {
	if len(tables) == 0 {
		return nil
	}
	return e.OnSession(ctx, "clear", "tables", func(s *server.Session) error {
		if err := s.Exec(ctx, "SET foreign_key_checks=0"); err != nil {
			return err
		}
		defer s.Exec(context.WithoutCancel(ctx), "SET foreign_key_checks=1")
		for _, id := range tables {
			var err error
			if drop {
				err = s.Exec(ctx, "DROP TABLE IF EXISTS "+server.QuoteTable(id))
			} else {
				err = truncate(ctx, s, id)
			}
			if err != nil {
				return e.Fail("clear", id.String(), err)
			}
		}
		forgetShapes(e)
		return nil
	})
}

// Inspect reports what exists under these names. It compares names as the server does.
func (e *Bulk) Inspect(ctx context.Context, tables []tidemark.TableID) ([]tidemark.TableState, error) {
	out := make([]tidemark.TableState, len(tables))
	if len(tables) > 0 {
		if _, err := e.ledgerTable(ctx); err != nil {
			e.KeepOwnIn(tables[0].Schema)
		}
	}
	e.mu.Lock()
	for _, id := range tables {
		e.shapes.wanted[id] = struct{}{}
	}
	e.mu.Unlock()
	err := e.OnSession(ctx, "inspect", e.Masked, func(s *server.Session) error {
		for from := 0; from < len(tables); from += 500 {
			if err := inspectSome(ctx, e, s, tables[from:min(from+500, len(tables))], out[from:]); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// inspectSome looks up some tables in one query, and in two others whether those that exist hold a
// row and have triggers.
func inspectSome(ctx context.Context, e *Bulk, s *server.Session, tables []tidemark.TableID, out []tidemark.TableState) error {
	var b strings.Builder
	for i, id := range tables {
		out[i].Table = id
		if schema.Impossible(id.Schema) != "" || schema.Impossible(id.Name) != "" {
			continue // it would refuse to compare such a name
		}
		if b.Len() > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "SELECT %d FROM information_schema.TABLES WHERE TABLE_SCHEMA=%s AND TABLE_NAME=%s", i, e.schemaLiteral(id), server.Literal(id.Name))
	}
	if b.Len() == 0 {
		return nil
	}
	r, err := s.Query(ctx, b.String())
	if err != nil {
		return err
	}
	if r.RowNumber() == 0 {
		return nil
	}
	// A question about each table would take the server longer than all else.
	triggers, err := s.Query(ctx, "SELECT DISTINCT EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS WHERE EVENT_MANIPULATION='INSERT'")
	if err != nil {
		return err
	}
	named := map[string]bool{} // by folded names
	for i := range triggers.RowNumber() {
		named[strings.ToLower(server.Cell(triggers, i, 0))] = true
	}
	b.Reset()
	for i := range r.RowNumber() {
		n, _ := r.GetInt(i, 0)
		id := tables[n]
		out[n].Exists = true
		if i > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "SELECT %d, NULL FROM DUAL WHERE EXISTS (SELECT 1 FROM %s)", n, server.QuoteTable(id))
		if named[strings.ToLower(id.Name)] {
			fmt.Fprintf(&b, " UNION ALL SELECT %d, TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA=%s AND EVENT_OBJECT_TABLE=%s AND EVENT_MANIPULATION='INSERT'", n, e.schemaLiteral(id), server.Literal(id.Name))
		}
	}
	if r, err = s.Query(ctx, b.String()); err != nil {
		return err
	}
	for i := range r.RowNumber() {
		n, _ := r.GetInt(i, 0)
		if trigger := server.Cell(r, i, 1); trigger != "" {
			out[n].Triggers = append(out[n].Triggers, trigger)
		} else {
			out[n].Rows = true
		}
	}
	return nil
}

// Exec runs the statements of one object on a writing lane, in order and outside a transaction: DDL
// commits implicitly here. Foreign key checks are off meanwhile, so that tables can be created in
// any order.
func (e *Bulk) Exec(ctx context.Context, lane int, sql []string) error {
	s, err := e.writer(ctx, lane)
	if err != nil {
		return err
	}
	defer forgetShapes(e, sql...)
	for _, one := range sql {
		if err := s.Exec(ctx, one); err != nil {
			if keys := schema.KeysOf(one); len(keys) > 1 && !s.Dead && ofOneKey(e.Server, err) {
				err = eachKey(ctx, s, keys)
			}
			if s.Dead {
				s.Close()
			}
			if err != nil {
				return e.Fail("run", server.FirstWords(one), err)
			}
		}
	}
	return nil
}

// CloseLane closes a lane's session. The lane opens another when it needs one.
func CloseLane(e *Bulk, lane int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if lane < len(e.writes) && e.writes[lane] != nil {
		e.writes[lane].Close()
	}
}

// ExecEach pipelines, on a lane's own session, the objects that have one statement. The server
// executes them in order, and answers each whatever became of the others. ExecEach calls done for
// each object that was made; it does not try the others.
func (e *Bulk) ExecEach(ctx context.Context, lane int, objects [][]string, done func(object int, took time.Duration)) {
	s, err := e.writer(ctx, lane)
	if err != nil {
		return // Exec reports why
	}
	var sent []int
	var statements []string
	var out []byte
	for i, sql := range objects {
		if len(sql) == 1 {
			sent, statements, out = append(sent, i), append(statements, sql[0]), server.AppendCommand(out, gomysql.COM_QUERY, sql[0])
		}
	}
	defer forgetShapes(e, statements...)
	if s.Wire == nil {
		s.Wire = s.NewWire()
	}
	stop := s.Watch(ctx)
	defer func() {
		if !stop() {
			s.Dead = true
			e.Kill(s.ID)
		}
		if s.Dead {
			s.Close()
		}
	}()
	if s.Dead = s.Wire.Commands(out) != nil; s.Dead {
		return
	}
	last := time.Now()
	for _, i := range sent {
		a, err := s.Wire.Answer()
		var my *gomysql.MyError
		if s.Dead = err == nil && a.More || err != nil && !errors.As(err, &my); s.Dead {
			return
		}
		now := time.Now()
		if err == nil {
			done(i, now.Sub(last))
		}
		last = now
	}
}
