package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Repair is a session that reads current rows and changes them.
type Repair struct {
	t       *Target
	l       *server.Lane
	begun   bool                      // in a transaction, which locks the rows it reads
	prepare string                    // the statements that begin a transaction; "" until the first
	owned   map[tidemark.TableID]bool // no foreign code runs when we write to them
}

// Repair opens a session that reads rows outside of any snapshot. It writes nothing before Begin.
func (t *Target) Repair(ctx context.Context) (*Repair, error) {
	m := &Repair{t: t, l: t.NewLane(nil)}
	return m, m.l.Open(ctx)
}

// Close ends the session and its transaction.
func (m *Repair) Close() { m.l.Close() }

// Read emits the rows of a range as Engine.Read does, with their current values. Within a
// transaction it locks them; Kind Transient means that other sessions hold some of them.
func (m *Repair) Read(ctx context.Context, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	if m.begun {
		if err := m.own(ctx, r.Move.From.TableID); err != nil {
			return err
		}
	}
	return m.t.bulk.ReadNow(ctx, m.l, r, m.begun, emit)
}

// lockPatience is how long we wait for a row that another session holds: less than
// deadlock_timeout, after which the server looks for deadlocks, so that it never ends another
// session's transaction in favour of ours.
const lockPatience = "500ms"

// Begin begins a transaction. As in a stream, triggers and foreign keys are disabled in it if the
// user has the privilege; a stream from this database treats it as applied by another stream.
func (m *Repair) Begin(ctx context.Context) error {
	l := m.l
	if err := l.Open(ctx); err != nil {
		return err
	}
	if m.prepare == "" {
		m.prepare = "BEGIN; SET LOCAL lock_timeout = '" + lockPatience + "'; SET LOCAL " + server.StreamSetting + " = on"
		if err := l.Exec(ctx, "BEGIN; SET LOCAL session_replication_role = replica; ROLLBACK"); err == nil {
			m.prepare += "; SET LOCAL session_replication_role = replica"
		} else if err := l.Exec(ctx, "ROLLBACK"); err != nil {
			return m.t.Fail(ctx, "repair", m.t.Object, err)
		}
		level, err := l.Query(ctx, "SHOW wal_level")
		if err != nil {
			return m.t.Fail(ctx, "repair", m.t.Object, err)
		}
		if string(level[0][0]) == "logical" {
			m.prepare += "; SELECT pg_catalog.pg_logical_emit_message(true, '" + server.AppliedPrefix + "', '')"
		}
	}
	err := l.Exec(ctx, m.prepare)
	m.begun = err == nil
	return m.t.Fail(ctx, "repair", m.t.Object, err)
}

// End ends the transaction.
func (m *Repair) End(ctx context.Context, commit bool) error {
	if m.begun = false; m.l.Conn == nil {
		return nil // it ended with its session
	}
	sql := "ROLLBACK"
	if commit {
		sql = "COMMIT"
	}
	return m.t.Fail(ctx, "repair", m.t.Object, m.l.Exec(ctx, sql))
}

// Run runs a statement from SQL, and returns how many rows it affected.
func (m *Repair) Run(ctx context.Context, sql string) (met int64, err error) {
	results, err := m.l.Conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return 0, m.t.Fail(ctx, "repair", server.FirstWords(sql), err)
	}
	return results[len(results)-1].CommandTag.RowsAffected(), nil
}

// SQL writes the statement of a change.
func (m *Repair) SQL(c change.Repair) (string, error) {
	table := server.QuoteTable(c.Table.TableID)
	where, err := bulk.ListedSQL(&tidemark.Move{From: c.Table}, &tidemark.Range{Columns: c.Key, Values: [][]string{c.Row}})
	if err != nil {
		return "", err
	}
	if c.Kind == tidemark.DeleteChange {
		return "DELETE FROM " + table + " WHERE " + where, nil
	}
	var names, values, sets []string
	always := false
	for _, s := range c.Set {
		to := c.Table.Column(s.Column)
		if to == nil {
			return "", &tidemark.Error{Kind: tidemark.Bug, Op: "repair", Object: table, Err: errors.New("there is no column " + s.Column)}
		}
		name, value := server.QuoteIdent(s.Column), "NULL"
		if s.Value != nil {
			value = strings.TrimSpace(server.QuoteLiteral(bulk.ConvertedText(*s.Value, s.From, to.Type)))
		}
		names, values, sets = append(names, name), append(values, value), append(sets, name+" = "+value)
		always = always || to.Identity != nil && to.Identity.Always
	}
	switch {
	case c.Kind == tidemark.UpdateChange:
		return "UPDATE " + table + " SET " + strings.Join(sets, ", ") + " WHERE " + where, nil
	case always:
		return fmt.Sprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)", table, strings.Join(names, ", "), strings.Join(values, ", ")), nil
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(names, ", "), strings.Join(values, ", ")), nil
}

// own checks once that no foreign code runs in a table whose rows we lock to change them.
func (m *Repair) own(ctx context.Context, table tidemark.TableID) error {
	if m.owned[table] {
		return nil
	}
	conn, release, err := m.t.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := m.t.RefuseForeignCodeOf(ctx, conn, "repair", []tidemark.TableID{table}, strings.Contains(m.prepare, "session_replication_role")); err != nil {
		return m.t.Fail(ctx, "repair", server.QuoteTable(table), err)
	}
	if m.owned == nil {
		m.owned = map[tidemark.TableID]bool{}
	}
	m.owned[table] = true
	return nil
}
