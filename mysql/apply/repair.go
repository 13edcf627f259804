package apply

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/mysql/bulk"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A Repair is a session that reads and changes current rows.
type Repair struct {
	e      *Target
	s      *server.Session
	writes literals // writes literals
	begun  bool     // in a transaction, which locks the rows it reads
	ready  bool     // set up for transactions
	mark   string   // the progress table, if there is one
}

// Repair opens a session that reads rows outside of any snapshot. It writes nothing before Begin.
func (e *Target) Repair(ctx context.Context) (*Repair, error) {
	m := &Repair{e: e, writes: literals{srv: e.Server}}
	return m, m.open(ctx)
}

func (m *Repair) open(ctx context.Context) error {
	if m.s != nil && !m.s.Dead {
		return nil
	}
	// Statements report how many rows they matched, not how many they changed.
	s, err := m.e.ConnectFor(ctx, server.Wishes{Capabilities: []uint32{gomysql.CLIENT_FOUND_ROWS}})
	if err != nil {
		return err
	}
	if err := m.e.Prepare(ctx, s); err != nil {
		s.Close()
		return m.e.Fail("repair", m.e.Masked, err)
	}
	m.s, m.begun, m.ready = s, false, false
	return nil
}

// Close ends the session and its transaction.
func (m *Repair) Close() { m.s.Close() }

// Read emits the rows of a range as Engine.Read does, as they are now. Within a transaction it
// locks them; Kind Transient means that others hold some.
func (m *Repair) Read(ctx context.Context, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	lock := ""
	if m.begun {
		lock = " FOR UPDATE"
	} else if err := m.open(ctx); err != nil {
		return err
	}
	return m.e.ReadOn(ctx, m.s, 0, r, lock, emit)
}

// Begin begins a transaction. Triggers fire in it, and foreign keys are checked and act. A stream
// from this database treats it as applied by another stream.
func (m *Repair) Begin(ctx context.Context) error {
	if err := m.open(ctx); err != nil {
		return err
	}
	if !m.ready {
		if err := m.prepare(ctx); err != nil {
			return m.e.Fail("repair", m.e.Masked, err)
		}
	}
	err := m.s.Exec(ctx, "START TRANSACTION")
	m.begun = err == nil
	if m.begun && m.mark != "" {
		// First, because a capture emits large transactions in pieces before it has seen the end.
		err = m.s.Exec(ctx, "INSERT INTO "+m.mark+" (queue, agent, epoch, low, done) VALUES ('"+repaired+"',CONNECTION_ID(),0,0,'')")
	}
	return m.e.Fail("repair", m.e.Masked, err)
}

func (m *Repair) prepare(ctx context.Context) error {
	name, level := "transaction_isolation", "READ-COMMITTED" // gap locks would block a stream
	if m.e.MariaDB {
		name = "tx_isolation"
	}
	r, err := m.s.Query(ctx, "SELECT @@log_bin, @@binlog_format")
	if err != nil {
		return err
	}
	if server.Cell(r, 0, 0) == "1" && server.Cell(r, 0, 1) == "STATEMENT" {
		level = "REPEATABLE-READ" // InnoDB refuses READ-COMMITTED then
	}
	sql := "SET sql_mode=" + strictMode + ", lc_messages='en_US', SESSION innodb_lock_wait_timeout=1, SESSION " + name + "='" + level + "'"
	if m.e.Options.NoBinlog {
		sql += ", sql_log_bin=0"
	}
	if err := m.s.Exec(ctx, sql); err != nil {
		return err
	}
	table, err := m.e.OwnTable(ctx, server.ProgressName)
	if err == nil {
		if _, err := m.s.Query(ctx, "SELECT 1 FROM "+table+" LIMIT 0"); err == nil {
			m.mark = table
		} else if !server.IsCode(err, 1146) {
			return err
		}
	}
	m.ready = true
	return nil
}

// repaired is the stream name in the progress row that marks a transaction as applied for a
// capture.
const repaired = "(repair)"

// End ends the transaction.
func (m *Repair) End(ctx context.Context, commit bool) error {
	if m.begun = false; m.s.Dead {
		return nil // the transaction ended with its session
	}
	sql := []string{"ROLLBACK"}
	if commit {
		sql = []string{"COMMIT"}
		if m.mark != "" {
			sql = []string{"DELETE FROM " + m.mark + " WHERE queue='" + repaired + "' AND agent=CONNECTION_ID()", "COMMIT"}
		}
	}
	for _, one := range sql {
		if err := m.s.Exec(ctx, one); err != nil {
			return m.e.Fail("repair", m.e.Masked, err)
		}
	}
	return nil
}

// Run runs a statement from SQL, and returns how many rows it affected.
func (m *Repair) Run(ctx context.Context, sql string) (met int64, err error) {
	r, err := m.s.Query(ctx, sql)
	if err != nil {
		what, _, _ := strings.Cut(sql, " (")
		what, _, _ = strings.Cut(what, " WHERE ")
		what, _, _ = strings.Cut(what, " SET ")
		return 0, m.e.Fail("repair", what, err)
	}
	return int64(r.AffectedRows), nil
}

// SQL returns the statement of a change.
func (m *Repair) SQL(c change.Repair) (string, error) {
	into := server.QuoteTable(c.Table.TableID)
	where, err := bulk.Listed(c.Table, &tidemark.Range{Columns: c.Key, Values: [][]string{c.Row}})
	if err != nil {
		return "", err
	}
	if c.Kind == tidemark.DeleteChange {
		return "DELETE FROM " + into + " WHERE " + where, nil
	}
	var names, values, sets []string
	for _, s := range c.Set {
		to := c.Table.Column(s.Column)
		if to == nil {
			return "", &tidemark.Error{Kind: tidemark.Bug, Op: "repair", Object: into, Err: errors.New("there is no column " + s.Column)}
		}
		col := newSetCol(change.RelationColumn{}, to)
		col.shape, col.known = bulk.InKindOf(s.From, to.Type), true
		v := change.Value{Kind: change.NullValue}
		if s.Value != nil {
			v = change.Value{Kind: change.TextValue, Data: []byte(*s.Value)}
		}
		value, err := m.literal(&col, v)
		if err != nil {
			return "", &tidemark.Error{Op: "repair", Object: into, Kind: tidemark.BadRow, Err: err}
		}
		names, values, sets = append(names, col.name), append(values, value), append(sets, col.name+"="+value)
	}
	if c.Kind == tidemark.UpdateChange {
		for i := range c.Table.Columns { // an update would set them to the time
			to := &c.Table.Columns[i]
			if name := server.Quote(to.Name); to.OnUpdate && !slices.Contains(names, name) {
				sets = append(sets, name+"="+name)
			}
		}
		return "UPDATE " + into + " SET " + strings.Join(sets, ", ") + " WHERE " + where, nil
	}
	return "INSERT INTO " + into + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")", nil
}

// literal writes a value, bytes as hex, because people read the statement too.
func (m *Repair) literal(c *setCol, v change.Value) (string, error) {
	data, as, err := m.writes.value(c, v)
	switch {
	case err != nil || as == asNull:
		return "NULL", err
	case as == asNumber:
		return string(data), nil
	case as == asText:
		return string(appendText(nil, data)), nil
	}
	return "x'" + hex.EncodeToString(escape.Undo(nil, data)) + "'", nil
}
