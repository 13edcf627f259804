package mysql

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A group is what belongs together in the log: a transaction, or one statement of DDL.
type group struct {
	place  uint64
	end    uint64 // if it is known
	gtid   string
	time   time.Time
	begun  bool // BEGIN was read, or is implied
	origin string
	parts  int             // pieces that were given away
	saved  map[string]mark // savepoints
	xid    string          // of XA
}

// A mark is how far a piece was when a savepoint was set.
type mark struct{ parts, size, rows int }

// name is how a message calls the transaction.
func (g *group) name() string {
	if g.gtid != "" {
		return g.gtid
	}
	return placeText(g.place)
}

// beginGroup begins a transaction. Its Place is where its changes begin, behind the event
// that gives it its GTID: the place of its end is not known before it has come, which
// may be gigabytes later. It is larger than the End of the one before, and smaller than
// its own.
func (s *Stream) beginGroup(g group) error {
	err := s.rename(&g)
	s.group, s.open, s.tx = g, true, nil
	return err
}

// piece makes sure that there is a Tx to append to.
func (s *Stream) piece() *tidemark.Tx {
	if s.tx == nil {
		g := &s.group
		s.tx = &tidemark.Tx{Place: g.place, GTID: g.gtid, Time: g.time, Origin: g.origin}
		size := s.usual // as large as the last one, so that it need not grow
		if g.parts > 0 {
			size = tidemark.PieceSize + 1<<16
		}
		s.tx.Changes = make([]byte, 0, size)
	}
	return s.tx
}

// mark notes that the transaction was made by our own apply.
func (s *Stream) mark() {
	s.group.origin = "tidemark"
	if s.tx != nil {
		s.tx.Origin = s.group.origin
	}
}

// say puts a table's description into the stream, if it is not there.
func (s *Stream) say(t *logTable) {
	tx := s.piece()
	if !s.said[t.relID] {
		s.said[t.relID] = true
		tx.Changes = tidemark.AppendChange(tx.Changes, t.relation)
	}
}

// cutPiece gives away what there is of a transaction that goes on.
func (s *Stream) cutPiece(ctx context.Context) error {
	if s.prepared != nil {
		return s.boundPrepared(len(s.tx.Changes)) // it may never be committed
	}
	s.tx.More = true
	return s.give(ctx)
}

func (s *Stream) give(ctx context.Context) error {
	tx := s.tx
	s.tx = nil
	s.usual = min(len(tx.Changes)+len(tx.Changes)/8, 64<<10)
	s.group.parts++
	if err := s.journal.flush(); err != nil {
		return err
	}
	if err := s.emit(tx); err != nil {
		return &emitError{err}
	}
	return ctx.Err()
}

// commit ends the transaction.
func (s *Stream) commit(ctx context.Context) error {
	if s.tx != nil && len(s.tx.Changes) > 0 || s.group.parts > 0 {
		s.piece().End = s.note()
		if err := s.give(ctx); err != nil {
			return err
		}
	}
	s.endGroup()
	return nil
}

func (s *Stream) endGroup() {
	s.note()
	s.open, s.tx, s.prepared = false, nil, nil
}

// rollback drops a transaction: one that has changed tables without transactions is in
// the log all the same.
func (s *Stream) rollback() error {
	if s.group.parts > 0 {
		return tidemark.Errorf(tidemark.Unsupported, "follow", s.group.name(), "a transaction of more than 4 MB was rolled back after tables without transactions had been changed in it",
			"Copy the tables again, and keep MyISAM and InnoDB apart.")
	}
	s.unsay()
	s.endGroup()
	return nil
}

// unsay forgets what was said of tables, when what said it may have been dropped.
func (s *Stream) unsay() {
	clear(s.said)
	clear(s.unfollowed)
}

// implied begins a transaction whose GTID was before the place from which the stream
// was asked for.
func (s *Stream) implied(at time.Time) error {
	if s.open {
		return nil
	}
	return s.beginGroup(group{place: s.eventPlace, time: at})
}

// query takes a statement. Rows are logged as rows, so it is one that begins or ends a
// transaction, or DDL.
func (s *Stream) query(ctx context.Context, body []byte, at time.Time) error {
	r := &reading{p: body}
	r.take(8)
	n := int(r.byte())
	r.take(2) // error
	vars := readQueryVars(r.take(int(r.uint(2))))
	db := string(r.take(n))
	r.take(1)
	if r.bad {
		return errEvent
	}
	sql, err := s.inUTF8(r.p, vars)
	if err != nil {
		return err
	}
	st := readStmt(sql, db)
	if s.seek != nil && s.seek.heard != nil {
		s.seek.heard(st, sql)
		return nil
	}
	switch st.kind {
	case stmtBegin:
		if err := s.implied(at); err != nil {
			return err
		}
		s.group.begun = true
		if st.name != "" {
			s.group.xid, s.prepared = st.name, &preparedTx{}
		}
		return nil
	case stmtCommit:
		if err := s.implied(at); err != nil {
			return err
		}
		return s.commit(ctx)
	case stmtRollback:
		return s.rollback()
	case stmtSave:
		s.savepoint(st.name)
		return nil
	case stmtBack:
		return s.backTo(st.name)
	case stmtXA:
		return s.xa(ctx, st, at)
	}
	if err := s.implied(at); err != nil {
		return err
	}
	switch {
	case s.skips[s.eventPlace]:
		err = s.skipStatement(st, sql, db, vars)
	case st.kind == stmtRows:
		err = s.statement(ctx, sql, db, vars)
	default:
		err = s.ddl(ctx, st, sql, db, vars)
	}
	if err != nil {
		return err
	}
	if st.kind == stmtRows {
		s.group.begun = true
	}
	if s.group.begun {
		return nil // CREATE TABLE ... SELECT, whose rows follow
	}
	return s.commit(ctx)
}

// loadStatement takes LOAD DATA that was logged as a statement: the head of its event is a statement's, with numbers
// about the file between it and the rest.
func (s *Stream) loadStatement(ctx context.Context, body []byte, at time.Time) error {
	const head, file = 13, 13
	if len(body) < head+file {
		return errEvent
	}
	return s.query(ctx, append(slices.Clone(body[:head]), body[head+file:]...), at)
}

// queryVars is what the head of a statement says of its session.
type queryVars struct {
	mode   uint64 // sql_mode
	client uint64 // number of a collation of the text's character set; 0: not said
}

// readQueryVars reads the first of the variables in the head of a statement
// (libbinlogevents/include/statement_events.h): the order of these has never changed.
func readQueryVars(p []byte) (v queryVars) {
	r := &reading{p: p}
	for len(r.p) > 0 && !r.bad {
		switch r.byte() {
		case 0: // options
			r.take(4)
		case 1:
			v.mode = r.uint(8)
		case 2: // catalogue, with a zero
			r.take(int(r.byte()) + 1)
		case 3: // steps of AUTO_INCREMENT
			r.take(4)
		case 4:
			v.client = r.uint(2)
			return v
		case 6: // catalogue
			r.take(int(r.byte()))
		default:
			return v
		}
	}
	return v
}

// inUTF8 gives the text of a statement, which is in its client's character set.
func (s *Stream) inUTF8(text []byte, vars queryVars) (string, error) {
	if vars.client == 0 || !slices.ContainsFunc(text, func(b byte) bool { return b >= 0x80 }) {
		return string(text), nil
	}
	name, err := s.collation(vars.client)
	if err != nil {
		return "", err
	}
	set, err := s.charsetFor(name)
	if err != nil || set == nil || name == "binary" {
		return string(text), err
	}
	out, err := set.decode(nil, text)
	return string(out), err
}

// savepoint notes how far the transaction is. Servers log savepoints only where one has
// changed tables without transactions.
func (s *Stream) savepoint(name string) {
	tx := s.piece()
	if s.group.saved == nil {
		s.group.saved = map[string]mark{}
	}
	s.group.saved[strings.ToLower(name)] = mark{s.group.parts, len(tx.Changes), tx.Rows}
}

func (s *Stream) backTo(name string) error {
	m, ok := s.group.saved[strings.ToLower(name)]
	if !ok || m.parts != s.group.parts {
		return tidemark.Errorf(tidemark.Unsupported, "follow", s.group.name(), "a transaction of more than 4 MB was rolled back to a savepoint after tables without transactions had been changed in it",
			"Copy the tables again, and keep MyISAM and InnoDB apart.")
	}
	tx := s.piece()
	tx.Changes, tx.Rows = tx.Changes[:m.size], m.rows
	s.unsay()
	return nil
}

// ddl says what a statement has done to tables, and forgets how they were.
func (s *Stream) ddl(ctx context.Context, st stmt, sql, db string, vars queryVars) error {
	if st.kind == stmtOther {
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
	for _, id := range st.tables {
		want, _ := s.wanted(id)
		if !want {
			continue
		}
		touched = append(touched, id)
		if t := s.tables[s.key(id)]; t != nil {
			t.stale = t.stale || st.kind != stmtTruncate
		}
	}
	switch {
	case st.kind == stmtSchema:
		if s.e.db != "" && !strings.EqualFold(cmpSchema(st.name, db), s.e.db) {
			return nil
		}
		for _, t := range s.tables {
			t.stale = true
		}
	case len(touched) == 0:
		return nil
	case st.kind == stmtTruncate:
		return s.truncate(ctx, touched)
	}
	return s.sayDDL(tidemark.DDL{Tables: touched, Schema: cmpSchema(st.name, db), SQL: strings.ToValidUTF8(sql, "\uFFFD"), Actions: s.actions(st, sql, db, vars)})
}

// sayDDL puts a statement into the transaction.
func (s *Stream) sayDDL(d tidemark.DDL) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	s.sayMessage(tidemark.DDLPrefix, data)
	return nil
}

// sayMessage puts a message into the transaction.
func (s *Stream) sayMessage(prefix string, data []byte) {
	tx := s.piece()
	m := tidemark.LogicalMessage{Transactional: true, LSN: s.group.place, Prefix: prefix, Data: data}
	tx.Changes = tidemark.AppendChange(tx.Changes, m.Append(nil))
}

// cmpSchema gives the database that a statement names, or else the session's.
func cmpSchema(named, db string) string {
	if named != "" {
		return named
	}
	return db
}

// truncate says that tables were emptied. One that was not met before may not be there
// any more: then nothing but its name is said of it.
func (s *Stream) truncate(ctx context.Context, ids []tidemark.TableID) error {
	m := binary.BigEndian.AppendUint32([]byte{byte(tidemark.TruncateChange)}, uint32(len(ids)))
	m = append(m, 0)
	for _, id := range ids {
		t := s.tables[s.key(id)]
		if t == nil || t.stale {
			var err error
			if t, err = s.byName(ctx, id); err != nil {
				return err
			}
		}
		s.say(t)
		m = binary.BigEndian.AppendUint32(m, t.relID)
	}
	s.tx.Changes = tidemark.AppendChange(s.tx.Changes, m)
	return nil
}

// byName describes a table whose rows were not met, to whoever knows it by its name.
func (s *Stream) byName(ctx context.Context, id tidemark.TableID) (*logTable, error) {
	if known := s.journal.history.at(s.key(id), s.group.place); known != nil && known.Unknown == "" {
		t := known.shown(s.e.opt.TinyInt1Bool).logTable(s.e, id)
		s.relate(t)
		return t, nil
	}
	shown, err := s.e.show(ctx, id)
	if err != nil {
		return nil, err
	}
	t := shown.logTable(s.e, id)
	s.relate(t)
	return t, nil
}
