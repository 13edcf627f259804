package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// definition gives what a table of the log is at the place that is read, where the log has no
// names of its columns. Kind Lost: that is not known, and what there is of it now is not what
// was then.
func (s *Stream) definition(ctx context.Context, m *tableMap) (*shownTable, error) {
	h, id := s.journal.history, s.key(m.id)
	h.on = true
	known := h.at(id, s.group.place)
	if known != nil && known.Unknown == "" && !known.Gone {
		shown := known.shown(s.e.opt.TinyInt1Bool)
		if why, err := s.misfit(m, shown, known.Derived); why == "" || err != nil {
			return shown, err
		}
	}
	shown, later, err := s.lookUp(ctx, m.id)
	if err != nil {
		return nil, err
	}
	why := ""
	switch {
	case later != "":
		why = "by " + firstWords(later)
	case shown.form == "SEQUENCE" || shown.form == "" && m.sequence():
		return shown, nil
	default:
		why, err = s.misfit(m, shown, false)
	}
	if err != nil {
		return nil, err
	}
	if why != "" {
		if known != nil && known.Unknown != "" {
			why += "; and what it was before is not known: " + known.Unknown
		}
		return nil, tidemark.Errorf(tidemark.Lost, "follow", m.id.String(), "the table was altered after the changes that are read now, and the log has no names of its columns: "+why,
			"SET GLOBAL binlog_row_metadata = FULL on the source, for the next time; now leave the table out, or copy it again and follow from then on.")
	}
	s.noteDefs(s.group.place, map[tidemark.TableID]*tableDef{id: defOf(shown)})
	return shown, nil
}

// lookUp asks information_schema for a table, and the log whether it was another one at the
// place that is read: then later is the statement that made it what it is now.
func (s *Stream) lookUp(ctx context.Context, id tidemark.TableID) (shown *shownTable, later string, err error) {
	if shown, err = s.e.show(ctx, id); err != nil {
		return nil, "", err
	}
	if err = s.lookAhead(ctx, shown.end-uint64(s.base)<<32); err != nil {
		return nil, "", err
	}
	return shown, s.ahead.alters(s.key(id), s.place()), nil
}

// noteDefs takes definitions into the history and its journal. What was looked up may get
// lost with the machine: it is looked up again then.
func (s *Stream) noteDefs(place uint64, defs map[tidemark.TableID]*tableDef) {
	h := s.journal.history
	for id, sh := range defs {
		h.put(id, place, sh)
	}
	if s.journal.path != "" {
		s.journal.buf = appendDefs(s.journal.buf, place, defs)
	}
}

// learn carries the history over a statement. It is on the disk before anything behind the
// statement is given away.
func (s *Stream) learn(ctx context.Context, st stmt, sql, db string, vars queryVars) error {
	h := s.journal.history
	if !h.on || s.seek != nil || st.kind != stmtTable && st.kind != stmtSchema {
		return nil
	}
	place := s.group.place
	d := &ddlReader{
		mariadb: s.e.mariadb, version: s.e.major*10000 + s.e.minor*100 + s.e.patch, mode: vars.mode, db: db,
		key:     s.key,
		at:      func(id tidemark.TableID) *tableDef { return h.at(id, place-1) },
		tables:  func(db string) []tidemark.TableID { return h.tablesOf(db, place-1) },
		charset: func(db string) (string, error) { return s.schemaCharset(ctx, db) },
		holds:   s.holds,
	}
	defs, err := d.read(st, sql)
	if err != nil {
		return err
	}
	for id, sh := range defs {
		if !s.inScope(id) || h.says(id, place, sh) {
			delete(defs, id)
		}
	}
	if len(defs) == 0 {
		return nil
	}
	s.noteDefs(place, defs)
	return s.journal.sync(nil)
}

// schemaCharset gives the character set that tables of a database have if they name none;
// "" if that is not known.
func (s *Stream) schemaCharset(ctx context.Context, db string) (string, error) {
	id := s.key(tidemark.TableID{Schema: db})
	known := s.journal.history.at(id, s.group.place)
	if known != nil && known.Charset != "" {
		return known.Charset, nil
	}
	rows, err := s.askAll("SELECT DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME=" + literal(db))
	if err != nil || len(rows) != 1 {
		return "", err
	}
	end, err := s.e.End(ctx)
	if err == nil {
		err = s.lookAhead(ctx, end-uint64(s.base)<<32)
	}
	if err != nil || s.ahead.alters(id, s.place()) != "" {
		return "", err
	}
	s.noteDefs(s.group.place, map[tidemark.TableID]*tableDef{id: {Charset: rows[0][0], Whole: known != nil && known.Whole}})
	return rows[0][0], nil
}

// holds asks the server whether a character set has all of a text: servers put a question mark
// in place of what it has not.
func (s *Stream) holds(set, text string) (bool, error) {
	row, err := s.ask(fmt.Sprintf("SELECT LOWER(HEX(CONVERT(CONVERT(CONVERT(x'%x' USING utf8mb4) USING %s) USING utf8mb4)))", text, set))
	return len(row) == 1 && row[0] == fmt.Sprintf("%x", text), err
}

// An outlook is what the log has of DDL between the place that is read and a later one.
type outlook struct {
	to      uint64 // as the server counts
	altered map[tidemark.TableID]laterStmt
}

// A laterStmt is the last statement that reshapes a table.
type laterStmt struct {
	end uint64
	sql string
}

// alters gives the last statement behind a place that reshapes a table, or its database; ""
// if there is none.
func (o *outlook) alters(id tidemark.TableID, place uint64) string {
	for _, id := range []tidemark.TableID{id, {Schema: id.Schema}} {
		if x := o.altered[id]; x.end > place {
			return x.sql
		}
	}
	return ""
}

// lookAhead reads the log's statements up to a place that it has reached, as the server counts
// it, by a connection of its own. Rows are passed over.
func (s *Stream) lookAhead(ctx context.Context, to uint64) error {
	from := max(s.place(), s.ahead.to)
	if to <= from {
		return nil
	}
	files, err := s.e.binlogs(ctx)
	if err != nil {
		return err
	}
	name := ""
	for _, f := range files {
		if uint64(f.number) == from>>32 {
			name = f.name
		}
	}
	if name == "" {
		return tidemark.Errorf(tidemark.Lost, "follow", s.name, fmt.Sprintf("the server has no file %d of its log any more", from>>32), "Copy again, and let the source keep its log longer (binlog_expire_logs_seconds).")
	}
	other := s.e.newStream(s.name, name, from)
	other.seek = &seeking{until: to, heard: func(st stmt, sql string) {
		for _, id := range reshaped(st) {
			s.ahead.altered[s.key(id)] = laterStmt{other.place(), sql}
		}
	}}
	if err := other.connect(ctx, false); err != nil {
		return err
	}
	defer other.Close()
	if err := other.Run(ctx, func(*tidemark.Tx) error { return nil }); !errors.Is(err, errFound) {
		return err
	}
	s.ahead.to = to
	return nil
}

// reshaped gives the tables, or the database, that a statement may have made others.
func reshaped(st stmt) []tidemark.TableID {
	switch {
	case st.kind == stmtSchema:
		return []tidemark.TableID{{Schema: st.name}}
	case st.kind == stmtTable && st.reshapes:
		return st.tables
	}
	return nil
}

// hasNames reports whether the server writes names of columns into its log.
func (e *Engine) hasNames(ctx context.Context) (bool, error) {
	rows, err := e.askAll(ctx, "SELECT @@GLOBAL.binlog_row_metadata")
	return err == nil && len(rows) == 1 && strings.EqualFold(rows[0][0], "FULL"), err
}

// beginHistory gives what all tables are at the place where a stream begins, which is now.
func (e *Engine) beginHistory(ctx context.Context, file string, place uint64) (map[tidemark.TableID]*tableDef, error) {
	s := e.newStream("", file, place)
	rows, err := e.askAll(ctx, "SELECT @@lower_case_table_names")
	if err != nil {
		return nil, err
	}
	s.fold = len(rows) == 1 && rows[0][0] != "0"
	shown, charsets, end, err := e.showAll(ctx)
	if err == nil {
		err = s.lookAhead(ctx, end)
	}
	if err != nil {
		return nil, err
	}
	out := map[tidemark.TableID]*tableDef{}
	for db, set := range charsets {
		id := s.key(tidemark.TableID{Schema: db})
		out[id] = &tableDef{Charset: set, Whole: true}
		if s.ahead.alters(id, place) != "" {
			delete(out, id)
		}
	}
	for id, t := range shown {
		out[s.key(id)] = defOf(t)
	}
	for id := range s.ahead.altered {
		if id.Name != "" && s.inScope(id) {
			out[id] = nil
		}
	}
	for id := range out {
		if later := s.ahead.alters(id, place); id.Name != "" && later != "" {
			out[id] = &tableDef{Unknown: "it was altered while the stream was set up, by " + firstWords(later)}
		}
	}
	return out, nil
}
