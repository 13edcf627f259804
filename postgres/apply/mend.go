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

// A Mending is a session that reads rows as they are at the moment, and changes them.
type Mending struct {
	t       *Target
	l       *server.Lane
	begun   bool                      // in a transaction, in which rows that are read are locked
	prepare string                    // what a transaction begins with; "" until the first
	owned   map[tidemark.TableID]bool // no code of others runs when we write to them
}

// Mend opens a session on which rows are read outside of any frozen view. It writes
// nothing unless it is told to Begin.
func (t *Target) Mend(ctx context.Context) (*Mending, error) {
	m := &Mending{t: t, l: t.NewLane(nil)}
	return m, m.l.Open(ctx)
}

// Close ends the session, and what it has begun.
func (m *Mending) Close() { m.l.Close() }

// Read emits the rows of a range as Engine.Read does, as they are now. Within a
// transaction it locks them; Kind Transient says that others hold some.
func (m *Mending) Read(ctx context.Context, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	if m.begun {
		if err := m.own(ctx, r.Move.From.TableID); err != nil {
			return err
		}
	}
	return m.t.bulk.ReadNow(ctx, m.l, r, m.begun, emit)
}

// lockPatience is how long a row that somebody else holds is waited for: less than after
// which the server looks for deadlocks (deadlock_timeout), so that it never ends
// somebody else's transaction for the sake of ours.
const lockPatience = "500ms"

// Begin begins a transaction. As in a stream, triggers and foreign keys do nothing in it
// where the user may switch them off; and a stream from this database takes it for
// something that another stream has applied.
func (m *Mending) Begin(ctx context.Context) error {
	l := m.l
	if err := l.Open(ctx); err != nil {
		return err
	}
	if m.prepare == "" {
		m.prepare = "BEGIN; SET LOCAL lock_timeout = '" + lockPatience + "'"
		if err := l.Exec(ctx, "BEGIN; SET LOCAL session_replication_role = replica; ROLLBACK"); err == nil {
			m.prepare += "; SET LOCAL session_replication_role = replica"
		} else if err := l.Exec(ctx, "ROLLBACK"); err != nil {
			return m.t.Fail(ctx, "mend", m.t.Object, err)
		}
		level, err := l.Query(ctx, "SHOW wal_level")
		if err != nil {
			return m.t.Fail(ctx, "mend", m.t.Object, err)
		}
		if string(level[0][0]) == "logical" {
			m.prepare += "; SELECT pg_catalog.pg_logical_emit_message(true, '" + server.AppliedPrefix + "', '')"
		}
	}
	err := l.Exec(ctx, m.prepare)
	m.begun = err == nil
	return m.t.Fail(ctx, "mend", m.t.Object, err)
}

// End ends the transaction.
func (m *Mending) End(ctx context.Context, commit bool) error {
	if m.begun = false; m.l.Conn == nil {
		return nil // it ended with its session
	}
	sql := "ROLLBACK"
	if commit {
		sql = "COMMIT"
	}
	return m.t.Fail(ctx, "mend", m.t.Object, m.l.Exec(ctx, sql))
}

// Run runs a statement that SQL gave, and says how many rows it met.
func (m *Mending) Run(ctx context.Context, sql string) (met int64, err error) {
	results, err := m.l.Conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return 0, m.t.Fail(ctx, "mend", server.FirstWords(sql), err)
	}
	return results[len(results)-1].CommandTag.RowsAffected(), nil
}

// SQL writes the statement of a change.
func (m *Mending) SQL(c change.Mend) (string, error) {
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
			return "", &tidemark.Error{Kind: tidemark.Bug, Op: "mend", Object: table, Err: errors.New("there is no column " + s.Column)}
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

// own looks at a table of which rows are locked to be changed, once.
func (m *Mending) own(ctx context.Context, table tidemark.TableID) error {
	if m.owned[table] {
		return nil
	}
	conn, release, err := m.t.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := m.t.StrangersOf(ctx, conn, "mend", []tidemark.TableID{table}, strings.Contains(m.prepare, "session_replication_role")); err != nil {
		return m.t.Fail(ctx, "mend", server.QuoteTable(table), err)
	}
	if m.owned == nil {
		m.owned = map[tidemark.TableID]bool{}
	}
	m.owned[table] = true
	return nil
}
