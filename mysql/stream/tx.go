package stream

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/history"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A group is a unit of the log: a transaction, or one statement of DDL.
type group struct {
	place  uint64
	end    uint64 // if known
	gtid   string
	time   time.Time
	begun  bool // BEGIN was read, or is implied
	origin string
	parts  int             // pieces already emitted
	saved  map[string]mark // savepoints
	xid    string          // of an XA transaction
}

// A mark is the size of a piece when a savepoint was set.
type mark struct{ parts, size, rows int }

// name returns the transaction's name for messages.
func (g *group) name() string {
	if g.gtid != "" {
		return g.gtid
	}
	return server.PlaceText(g.place)
}

// beginGroup begins a transaction. Its Place is where its changes begin, after the event with its
// GTID: the place of its end is unknown until it arrives, which may be gigabytes later. Place is
// greater than the End of the transaction before, and less than its own End.
func (s *assembly) beginGroup(g group) error {
	if s.seek != nil && s.seek.begun != nil {
		s.seek.begun(g.gtid)
	}
	err := s.rename(&g)
	s.group, s.open, s.tx = g, true, nil
	return err
}

// piece returns the Tx to append to, and creates it if necessary.
func (s *assembly) piece() *change.Tx {
	if s.tx == nil {
		g := &s.group
		s.tx = &change.Tx{Place: g.place, GTID: g.gtid, Time: g.time, Origin: g.origin}
		size := s.usual // as large as the last one, so that it need not grow
		if g.parts > 0 {
			size = tidemark.PieceSize + 1<<16
		}
		s.tx.Changes = make([]byte, 0, size)
	}
	return s.tx
}

// mark records that our own apply made the transaction.
func (s *assembly) mark() {
	s.group.origin = "tidemark"
	if s.tx != nil {
		s.tx.Origin = s.group.origin
	}
}

// addRelation adds a table's description to the stream, unless it was added before.
func (s *assembly) addRelation(t *event.Table) {
	tx := s.piece()
	if !s.said[t.RelationID] {
		s.said[t.RelationID] = true
		tx.Changes = change.Append(tx.Changes, t.Relation)
	}
}

// cutPiece emits the pending part of a transaction that continues.
func (s *assembly) cutPiece(ctx context.Context) error {
	if s.prepared != nil {
		return s.boundPrepared(len(s.tx.Changes)) // it may never be committed
	}
	s.tx.More = true
	return s.emitPiece(ctx)
}

func (s *assembly) emitPiece(ctx context.Context) error {
	tx := s.tx
	s.tx = nil
	s.usual = min(len(tx.Changes)+len(tx.Changes)/8, 64<<10)
	s.group.parts++
	if err := s.journal.flush(); err != nil {
		return err
	}
	if err := s.emit(tx); err != nil {
		return &server.EmitError{Err: err}
	}
	return ctx.Err()
}

// commit ends the transaction.
func (s *assembly) commit(ctx context.Context) error {
	if s.tx != nil && len(s.tx.Changes) > 0 || s.group.parts > 0 || s.named[s.group.gtid] {
		s.piece().End = s.note()
		if err := s.emitPiece(ctx); err != nil {
			return err
		}
	}
	s.endGroup()
	return nil
}

func (s *assembly) endGroup() {
	s.note()
	s.open, s.tx, s.prepared = false, nil, nil
}

// rollback drops a transaction: the log includes it if it changed non-transactional tables.
func (s *assembly) rollback(ctx context.Context) error {
	if s.group.parts > 0 {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: s.group.name(), Err: errors.New("a transaction of more than 4 MB was rolled back after non-transactional tables had been changed in it"), Hint: "Copy the tables again, and keep MyISAM and InnoDB apart."}
	}
	s.unsay()
	return s.drop(ctx)
}

// drop ends a group without what it has changed.
func (s *assembly) drop(ctx context.Context) error {
	if s.tx = nil; s.named[s.group.gtid] {
		return s.commit(ctx)
	}
	s.endGroup()
	return nil
}

// unsay forgets which tables were described, because those descriptions may have been dropped.
func (s *assembly) unsay() {
	clear(s.said)
	clear(s.unfollowed)
}

// implied begins a transaction whose GTID precedes the place where the stream was opened.
func (s *assembly) implied(at time.Time) error {
	if s.open {
		return nil
	}
	return s.beginGroup(group{place: s.eventPlace, time: at})
}

// query processes a statement. Rows are logged as rows, so it begins or ends a transaction, or is
// DDL.
func (s *decoder) query(ctx context.Context, body []byte, at time.Time) error {
	r := &event.Reader{Rest: body}
	r.Take(8)
	n := int(r.Byte())
	r.Take(2) // error
	vars := readQueryVars(r.Take(int(r.Uint(2))))
	db := string(r.Take(n))
	r.Take(1)
	if r.Bad {
		return event.ErrEvent
	}
	sql, err := s.InUTF8(r.Rest, vars.client)
	if err != nil {
		return err
	}
	st := history.ReadStatement(sql, db)
	if s.seek != nil && s.seek.heard != nil {
		s.seek.heard(st, sql)
		return nil
	}
	switch st.Kind {
	case history.Begin:
		if err := s.implied(at); err != nil {
			return err
		}
		s.group.begun = true
		if st.Name != "" {
			s.group.xid, s.prepared = st.Name, &preparedTx{}
		}
		return nil
	case history.Commit:
		if err := s.implied(at); err != nil {
			return err
		}
		return s.commit(ctx)
	case history.Rollback:
		return s.rollback(ctx)
	case history.Savepoint:
		s.savepoint(st.Name)
		return nil
	case history.RollbackTo:
		return s.backTo(st.Name)
	case history.XA:
		return s.xa(ctx, st, at)
	}
	if err := s.implied(at); err != nil {
		return err
	}
	switch {
	case s.skips[s.eventPlace]:
		err = s.skipStatement(st, sql, db, vars)
	case st.Kind == history.Rows:
		err = s.statement(ctx, sql, db, vars)
	default:
		err = s.ddl(ctx, st, sql, db, vars)
	}
	if err != nil {
		return err
	}
	if st.Kind == history.Rows {
		s.group.begun = true
	}
	if s.group.begun {
		return nil // CREATE TABLE ... SELECT, whose rows follow
	}
	return s.commit(ctx)
}

// loadStatement processes LOAD DATA that was logged as a statement: its event begins like a
// statement's, followed by numbers about the file and then the rest.
func (s *decoder) loadStatement(ctx context.Context, body []byte, at time.Time) error {
	const head, file = 13, 13
	if len(body) < head+file {
		return event.ErrEvent
	}
	return s.query(ctx, append(slices.Clone(body[:head]), body[head+file:]...), at)
}

// queryVars are the session variables in the head of a statement.
type queryVars struct {
	mode   uint64 // sql_mode
	client uint64 // number of a collation of the text's character set; 0: absent
}

// readQueryVars reads the first variables in the head of a statement
// (libbinlogevents/include/statement_events.h): their order has never changed.
func readQueryVars(p []byte) (v queryVars) {
	r := &event.Reader{Rest: p}
	for len(r.Rest) > 0 && !r.Bad {
		switch r.Byte() {
		case 0: // options
			r.Take(4)
		case 1:
			v.mode = r.Uint(8)
		case 2: // catalogue, with a zero
			r.Take(int(r.Byte()) + 1)
		case 3: // steps of AUTO_INCREMENT
			r.Take(4)
		case 4:
			v.client = r.Uint(2)
			return v
		case 6: // catalogue
			r.Take(int(r.Byte()))
		default:
			return v
		}
	}
	return v
}

// savepoint records the size of the transaction so far. Servers log savepoints only if a
// transaction has changed non-transactional tables.
func (s *assembly) savepoint(name string) {
	tx := s.piece()
	if s.group.saved == nil {
		s.group.saved = map[string]mark{}
	}
	s.group.saved[strings.ToLower(name)] = mark{s.group.parts, len(tx.Changes), tx.Rows}
}

func (s *assembly) backTo(name string) error {
	m, ok := s.group.saved[strings.ToLower(name)]
	if !ok || m.parts != s.group.parts {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: s.group.name(), Err: errors.New("a transaction of more than 4 MB was rolled back to a savepoint after non-transactional tables had been changed in it"), Hint: "Copy the tables again, and keep MyISAM and InnoDB apart."}
	}
	tx := s.piece()
	tx.Changes, tx.Rows = tx.Changes[:m.size], m.rows
	s.unsay()
	return nil
}

// ddl adds what a statement did to tables, and forgets their earlier definitions.
func (s *decoder) ddl(ctx context.Context, st history.Statement, sql, db string, vars queryVars) error {
	if st.Kind == history.Other {
		return nil
	}
	err := s.learnColumns(st, sql, db, vars)
	if err == nil {
		err = s.learn(ctx, st, sql, db, vars)
	}
	if err != nil {
		return err
	}
	var touched []tidemark.TableID
	for _, id := range st.Tables {
		want, _ := s.wanted(id)
		if !want {
			continue
		}
		touched = append(touched, id)
		if t := s.known[s.key(id)]; t != nil {
			t.Stale = t.Stale || st.Kind != history.Truncate
		}
	}
	switch {
	case st.Kind == history.Schema:
		if s.db != "" && !strings.EqualFold(history.SchemaOf(st.Name, db), s.db) {
			return nil
		}
		for _, t := range s.known {
			t.Stale = true
		}
	case len(touched) == 0:
		return nil
	case st.Kind == history.Truncate:
		return s.truncate(ctx, touched)
	}
	if strings.HasSuffix(sql, server.Ours) {
		s.mark()
	}
	return s.sayDDL(change.DDL{Tables: touched, Schema: history.SchemaOf(st.Name, db), SQL: strings.ToValidUTF8(sql, "\uFFFD"), Actions: s.reader(vars, db).Actions(st, sql)})
}

// sayDDL adds a statement to the transaction.
func (s *assembly) sayDDL(d change.DDL) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	s.sayMessage(change.DDLPrefix, data)
	return nil
}

// sayMessage adds a message to the transaction.
func (s *assembly) sayMessage(prefix string, data []byte) {
	tx := s.piece()
	m := change.LogicalMessage{Transactional: true, LSN: s.group.place, Prefix: prefix, Data: data}
	tx.Changes = change.Append(tx.Changes, m.Append(nil))
}

// truncate adds that tables were emptied. One that was not seen before may no longer exist: then
// only its name is emitted.
func (s *tables) truncate(ctx context.Context, ids []tidemark.TableID) error {
	m := binary.BigEndian.AppendUint32([]byte{byte(tidemark.TruncateChange)}, uint32(len(ids)))
	m = append(m, 0)
	for _, id := range ids {
		t := s.known[s.key(id)]
		if t == nil || t.Stale {
			var err error
			if t, err = s.byName(ctx, id); err != nil {
				return err
			}
		}
		s.addRelation(t)
		m = binary.BigEndian.AppendUint32(m, t.RelationID)
	}
	s.tx.Changes = change.Append(s.tx.Changes, m)
	return nil
}

// byName describes a table whose rows were not seen, for targets that know it by name.
func (s *tables) byName(ctx context.Context, id tidemark.TableID) (*event.Table, error) {
	if known := s.journal.history.At(s.key(id), s.group.place); known != nil && known.Unknown == "" {
		t := event.TableOf(id, known.Shown(s.e.Options.TinyInt1Bool), s.e.MariaDB)
		s.relate(t)
		return t, nil
	}
	shown, err := s.e.Show(ctx, id)
	if err != nil {
		return nil, err
	}
	t := event.TableOf(id, shown, s.e.MariaDB)
	s.relate(t)
	return t, nil
}
