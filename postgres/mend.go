package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A Mending is a session that reads rows as they are at the moment, and changes them.
type Mending struct {
	l       *lane
	begun   bool                      // in a transaction, in which rows that are read are locked
	prepare string                    // what a transaction begins with; "" until the first
	owned   map[tidemark.TableID]bool // no code of others runs when we write to them
}

// Mend opens a session on which rows are read outside of any frozen view. It writes
// nothing unless it is told to Begin.
func (e *Engine) Mend(ctx context.Context) (*Mending, error) {
	m := &Mending{l: &lane{e: e}}
	return m, m.l.open(ctx)
}

// Close ends the session, and what it has begun.
func (m *Mending) Close() { m.l.close() }

// Read emits the rows of a range as Engine.Read does, as they are now. Within a
// transaction it locks them; Kind Transient says that others hold some.
func (m *Mending) Read(ctx context.Context, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	q, err := m.l.e.rangeQuery(ctx, r)
	if err != nil {
		return err
	}
	if m.begun {
		if err := m.own(ctx, r.Move.From.TableID); err != nil {
			return err
		}
		q.copySQL = strings.TrimSuffix(q.copySQL, ") TO STDOUT") + " FOR UPDATE) TO STDOUT"
	}
	if err := m.l.open(ctx); err != nil {
		return err
	}
	_, err = m.l.copyOut(ctx, q, r, emit)
	return err
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
	if err := l.open(ctx); err != nil {
		return err
	}
	if m.prepare == "" {
		m.prepare = "BEGIN; SET LOCAL lock_timeout = '" + lockPatience + "'"
		if err := l.exec(ctx, "BEGIN; SET LOCAL session_replication_role = replica; ROLLBACK"); err == nil {
			m.prepare += "; SET LOCAL session_replication_role = replica"
		} else if err := l.exec(ctx, "ROLLBACK"); err != nil {
			return l.e.fail(ctx, "mend", l.e.object, err)
		}
		level, err := l.query(ctx, "SHOW wal_level")
		if err != nil {
			return l.e.fail(ctx, "mend", l.e.object, err)
		}
		if string(level[0][0]) == "logical" {
			m.prepare += "; SELECT pg_catalog.pg_logical_emit_message(true, '" + appliedPrefix + "', '')"
		}
	}
	err := l.exec(ctx, m.prepare)
	m.begun = err == nil
	return l.e.fail(ctx, "mend", l.e.object, err)
}

// End ends the transaction.
func (m *Mending) End(ctx context.Context, commit bool) error {
	if m.begun = false; m.l.conn == nil {
		return nil // it ended with its session
	}
	sql := "ROLLBACK"
	if commit {
		sql = "COMMIT"
	}
	return m.l.e.fail(ctx, "mend", m.l.e.object, m.l.exec(ctx, sql))
}

// Run runs a statement that SQL gave, and says how many rows it met.
func (m *Mending) Run(ctx context.Context, sql string) (met int64, err error) {
	results, err := m.l.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return 0, m.l.e.fail(ctx, "mend", firstWords(sql), err)
	}
	return results[len(results)-1].CommandTag.RowsAffected(), nil
}

// SQL writes the statement of a change.
func (m *Mending) SQL(c tidemark.Mend) (string, error) {
	table := quoteTable(c.Table.TableID)
	where, err := listedSQL(&tidemark.Move{From: c.Table}, &tidemark.Range{Columns: c.Key, Values: [][]string{c.Row}})
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
			return "", tidemark.Errorf(tidemark.Bug, "mend", table, "there is no column "+s.Column, "")
		}
		name, value := quoteIdent(s.Column), "NULL"
		if s.Value != nil {
			value = strings.TrimSpace(quoteLiteral(valueFor(s, to.Type)))
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

// valueFor gives the text of a value, which is not NULL, in a column of type to: what the
// copy makes of it.
func valueFor(s tidemark.Setting, to tidemark.Type) string {
	switch how := conversionOf(s.From, asWritten(to)); how {
	case asIs:
		return *s.Value
	case hexToBytes:
		return `\x` + strings.TrimPrefix(*s.Value, `\x`)
	default:
		// As a field of COPY text, in which a backslash is escaped.
		field := convertValue(nil, []byte(strings.ReplaceAll(*s.Value, `\`, `\\`)), how)
		return strings.ReplaceAll(string(field), `\\`, `\`)
	}
}
