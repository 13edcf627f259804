package bulk

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/server"
)

const markColumns = "(run VARCHAR(64) NOT NULL, range_id INTEGER NOT NULL, rows_n BIGINT NOT NULL, PRIMARY KEY (run, range_id))"

// Begin creates the marker table and begins a new epoch of the run; the row of range 0 counts
// epochs.
//
// A killed process may have sent a COMMIT that the server is still executing. So each range's
// transaction reads the epoch before it writes its marker, and keeps a lock on it (WITH RS): Begin
// waits for those that have read it, and later ones see that it has passed. What Marks returns
// after Begin is therefore everything that earlier epochs will ever have written.
func (e *Bulk) Begin(ctx context.Context, run string) error {
	return e.Locked(ctx, "make marker table", "copied", markColumns, true, func(s *server.Session, name string) error {
		where := " WHERE run = " + server.Literal(run) + " AND range_id = 0"
		n, err := s.Exec(ctx, "UPDATE "+name+" SET rows_n = rows_n + 1"+where)
		if err == nil && n == 0 {
			_, err = s.Exec(ctx, "INSERT INTO "+name+" (run, range_id, rows_n) VALUES ("+server.Literal(run)+", 0, 1)")
		}
		if err != nil {
			return err
		}
		epoch, err := one(ctx, s, "SELECT rows_n FROM "+name+where)
		if err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.epochs == nil {
			e.epochs = map[string]int64{}
		}
		e.epochs[run] = epoch
		return nil
	})
}

// one runs a query of one number; -1 if it has no row.
func one(ctx context.Context, s *server.Session, sql string) (int64, error) {
	rows, err := s.Strings(ctx, sql)
	if err != nil || len(rows) == 0 || rows[0][0] == nil {
		return -1, err
	}
	return strconv.ParseInt(*rows[0][0], 10, 64)
}

// fence reads the epoch of a run, and keeps it until the transaction ends. An outdated one is an
// error.
func (e *Bulk) fence(ctx context.Context, s *server.Session, run string) error {
	e.mu.Lock()
	epoch, begun := e.epochs[run]
	e.mu.Unlock()
	if !begun {
		return nil
	}
	now, err := one(ctx, s, "SELECT rows_n FROM "+e.Own("copied")+" WHERE run = "+server.Literal(run)+" AND range_id = 0 WITH RS")
	if tidemark.KindOf(e.Fail("write", "", err)) == tidemark.NotFound {
		now, err = -1, nil // the other process has ended the run
	}
	if err == nil && now != epoch {
		err = &tidemark.Error{Kind: tidemark.Invalid, Op: "write", Object: "run " + run, Err: errors.New("another process has taken over this run"), Hint: "End one of the two processes, then resume."}
	}
	return err
}

// Marks lists the ranges of a run that are on the target.
func (e *Bulk) Marks(ctx context.Context, run string) (marks []tidemark.Mark, err error) {
	err = e.Do(ctx, "read marks", e.Own("copied"), func(s *server.Session) error {
		rows, err := s.Strings(ctx, "SELECT range_id, rows_n FROM "+e.Own("copied")+" WHERE run = "+server.Literal(run)+" AND range_id > 0 ORDER BY range_id WITH RS")
		for _, row := range rows {
			id, _ := strconv.Atoi(*row[0])
			n, _ := strconv.ParseInt(*row[1], 10, 64)
			marks = append(marks, tidemark.Mark{Range: id, Rows: n})
		}
		return err
	})
	if tidemark.KindOf(err) == tidemark.NotFound {
		return nil, nil // no table, no marks
	}
	return marks, err
}

// Forget removes marks of a run; nil means all of it, and then also the marker table if it is
// empty.
func (e *Bulk) Forget(ctx context.Context, run string, ranges []int) error {
	return e.Locked(ctx, "remove marks", "copied", markColumns, false, func(s *server.Session, name string) error {
		where := "run = " + server.Literal(run)
		if ranges == nil {
			return s.DeleteOrDrop(ctx, name, where)
		}
		for len(ranges) > 0 {
			n := min(len(ranges), 1000)
			ids := strings.Trim(strings.ReplaceAll(fmt.Sprint(ranges[:n]), " ", ","), "[]")
			if _, err := s.Exec(ctx, "DELETE FROM "+name+" WHERE "+where+" AND range_id IN ("+ids+")"); err != nil {
				return err
			}
			ranges = ranges[n:]
		}
		return nil
	})
}

// Clear empties or drops tables; foreign keys between those that are dropped go first.
func (e *Bulk) Clear(ctx context.Context, tables []tidemark.TableID, drop bool) error {
	if len(tables) == 0 {
		return nil
	}
	cleared := map[tidemark.TableID]bool{}
	for _, id := range tables {
		cleared[id] = true
	}
	db, err := e.Describe(ctx, nil)
	if err != nil {
		return err
	}
	return e.Do(ctx, "clear", e.Masked, func(s *server.Session) error {
		for _, t := range db.Tables {
			for _, f := range t.ForeignKeys {
				if !cleared[f.Ref] || !drop {
					continue
				}
				if !cleared[t.TableID] { // Db2 would drop the foreign key without a word
					return &tidemark.Error{Kind: tidemark.NotEmpty, Op: "drop", Object: "table " + f.Ref.String(), Err: errors.New("table " + t.String() + ", which is not part of the copy, references it"), Hint: "Drop the foreign key " + f.Name + " first, or copy that table too."}
				}
				if _, err := s.Exec(ctx, "ALTER TABLE "+server.QuoteTable(t.TableID)+" DROP CONSTRAINT "+server.Quote(f.Name)); err != nil {
					return e.Fail("drop", "foreign key "+t.String()+"."+f.Name, err)
				}
			}
		}
		for _, t := range order(db.Tables, cleared) {
			sql := "DELETE FROM "
			if drop {
				sql = "DROP TABLE "
			}
			if _, err := s.Exec(ctx, sql+server.QuoteTable(t.TableID)); err != nil {
				return e.Fail("clear", "table "+t.String(), err)
			}
		}
		return nil
	})
}

// order returns the tables that are cleared, those that reference others first. In a circle the
// server decides.
func order(all []*tidemark.Table, cleared map[tidemark.TableID]bool) (out []*tidemark.Table) {
	byID, done := map[tidemark.TableID]*tidemark.Table{}, map[tidemark.TableID]bool{}
	for _, t := range all {
		byID[t.TableID] = t
	}
	var visit func(t *tidemark.Table)
	visit = func(t *tidemark.Table) { // what t references is put first, and the whole reversed
		if t == nil || done[t.TableID] {
			return
		}
		done[t.TableID] = true
		for _, f := range t.ForeignKeys {
			visit(byID[f.Ref])
		}
		if cleared[t.TableID] {
			out = append([]*tidemark.Table{t}, out...)
		}
	}
	for _, t := range all {
		visit(t)
	}
	return out
}
