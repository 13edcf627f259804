package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/history"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// definition returns the definition of a table at the place being read, for logs without column
// names. Kind Lost: it is unknown, and the current definition differs from the one at that place.
func (s *definitions) definition(ctx context.Context, m *event.TableMap) (*schema.Shown, error) {
	h, id := s.journal.history, s.key(m.ID)
	h.On = true
	known := h.At(id, s.group.place)
	if known != nil && known.Unknown == "" && !known.Gone {
		shown := known.Shown(s.e.Options.TinyInt1Bool)
		if why, err := m.Misfit(&s.Charsets, shown, known.Derived); why == "" || err != nil {
			return shown, err
		}
	}
	shown, later, err := s.lookUp(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	why := ""
	switch {
	case later != "":
		why = "by " + server.FirstWords(later)
	case shown.Form == "SEQUENCE" || shown.Form == "" && m.Sequence():
		return shown, nil
	default:
		why, err = m.Misfit(&s.Charsets, shown, false)
	}
	if err != nil {
		return nil, err
	}
	if why != "" {
		if known != nil && known.Unknown != "" {
			why += "; and what it was before is not known: " + known.Unknown
		}
		return nil, &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: m.ID.String(), Err: errors.New("the table was altered after the changes that are read now, and the log has no names of its columns: " + why), Hint: "SET GLOBAL binlog_row_metadata = FULL on the source, for the next time; now leave the table out, or copy it again and follow from then on."}
	}
	s.noteDefs(s.group.place, map[tidemark.TableID]*history.Definition{id: history.DefinitionOf(shown)})
	return shown, nil
}

// lookUp reads a table from information_schema, and checks in the log whether it was altered after
// the place being read: then later is the statement that gave it its current form.
func (s *definitions) lookUp(ctx context.Context, id tidemark.TableID) (shown *schema.Shown, later string, err error) {
	if shown, err = s.e.Show(ctx, id); err != nil {
		return nil, "", err
	}
	if err = s.lookAhead(ctx, shown.End-uint64(s.base)<<32); err != nil {
		return nil, "", err
	}
	return shown, s.ahead.alters(s.key(id), s.place()), nil
}

// noteDefs adds definitions to the history and its journal. What was looked up may get lost with
// the machine: it is then looked up again.
func (s *definitions) noteDefs(place uint64, defs map[tidemark.TableID]*history.Definition) {
	h := s.journal.history
	for id, sh := range defs {
		h.Put(id, place, sh)
	}
	if s.journal.path != "" {
		s.journal.buf = history.AppendDefs(s.journal.buf, place, defs)
	}
}

// reader returns a reader for statements of a session in db.
func (s *definitions) reader(vars queryVars, db string) *history.Reader {
	return &history.Reader{Mariadb: s.e.MariaDB, Version: s.e.Major*10000 + s.e.Minor*100 + s.e.Patch, Mode: vars.mode, DB: db, Key: s.key}
}

// learn applies a statement to the history. The result is on disk before anything after the
// statement is emitted.
func (s *definitions) learn(ctx context.Context, st history.Statement, sql, db string, vars queryVars) error {
	h := s.journal.history
	if !h.On || s.seek != nil || st.Kind != history.Table && st.Kind != history.Schema {
		return nil
	}
	place := s.group.place
	d := s.reader(vars, db)
	d.At = func(id tidemark.TableID) *history.Definition { return h.At(id, place-1) }
	d.Tables = func(db string) []tidemark.TableID { return h.TablesOf(db, place-1) }
	d.Charset = func(db string) (string, error) { return s.schemaCharset(ctx, db) }
	d.Holds = s.holds
	defs, err := d.Read(st, sql)
	if err != nil {
		return err
	}
	for id, sh := range defs {
		if !s.inScope(id) || h.Says(id, place, sh) {
			delete(defs, id)
		}
	}
	if len(defs) == 0 {
		return nil
	}
	s.noteDefs(place, defs)
	return s.journal.sync(nil)
}

// schemaCharset returns the default character set for tables of a database; "" if unknown.
func (s *definitions) schemaCharset(ctx context.Context, db string) (string, error) {
	id := s.key(tidemark.TableID{Schema: db})
	known := s.journal.history.At(id, s.group.place)
	if known != nil && known.Charset != "" {
		return known.Charset, nil
	}
	rows, err := s.Ask("SELECT DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME=" + server.Literal(db))
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
	s.noteDefs(s.group.place, map[tidemark.TableID]*history.Definition{id: {Charset: rows[0][0], Whole: known != nil && known.Whole}})
	return rows[0][0], nil
}

// holds asks the server whether a character set can represent a text: servers replace what it
// cannot represent by a question mark.
func (s *definitions) holds(set, text string) (bool, error) {
	row, err := s.Charsets.Row(fmt.Sprintf("SELECT LOWER(HEX(CONVERT(CONVERT(CONVERT(x'%x' USING utf8mb4) USING %s) USING utf8mb4)))", text, set))
	return len(row) == 1 && row[0] == fmt.Sprintf("%x", text), err
}

// An outlook is the DDL in the log between the place being read and a later one.
type outlook struct {
	to      uint64 // as the server counts
	altered map[tidemark.TableID]laterStmt
}

// A laterStmt is the last statement that reshapes a table.
type laterStmt struct {
	end uint64
	sql string
}

// alters returns the last statement after place that reshapes a table or its database; "" if there
// is none.
func (o *outlook) alters(id tidemark.TableID, place uint64) string {
	for _, id := range []tidemark.TableID{id, {Schema: id.Schema}} {
		if x := o.altered[id]; x.end > place {
			return x.sql
		}
	}
	return ""
}

// readAhead reads the log's statements up to a place that the log has reached, in the server's own
// numbering, on a separate connection. It skips rows.
func (s *Stream) readAhead(ctx context.Context, to uint64) error {
	from := max(s.place(), s.ahead.to)
	if to <= from {
		return nil
	}
	files, err := s.e.Binlogs(ctx)
	if err != nil {
		return err
	}
	name := ""
	for _, f := range files {
		if uint64(f.Number) == from>>32 {
			name = f.Name
		}
	}
	if name == "" {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.name, Err: fmt.Errorf("the server no longer has file %d of its log", from>>32), Hint: "Copy again, and let the source keep its log longer (binlog_expire_logs_seconds)."}
	}
	other := s.e.newStream(s.name, name, from)
	other.seek = &seeking{until: to, heard: func(st history.Statement, sql string) {
		for _, id := range reshaped(st) {
			s.ahead.altered[s.key(id)] = laterStmt{other.place(), sql}
		}
	}}
	if err := other.search(ctx); err != nil {
		return err
	}
	s.ahead.to = to
	return nil
}

// reshaped returns the tables, or the database, whose definition a statement may have changed.
func reshaped(st history.Statement) []tidemark.TableID {
	switch {
	case st.Kind == history.Schema:
		return []tidemark.TableID{{Schema: st.Name}}
	case st.Kind == history.Table && st.Reshapes:
		return st.Tables
	}
	return nil
}

// hasNames reports whether the server writes column names into its log.
func (e *Source) hasNames(ctx context.Context) (bool, error) {
	rows, err := e.Ask(ctx, "SELECT @@GLOBAL.binlog_row_metadata")
	return err == nil && len(rows) == 1 && strings.EqualFold(rows[0][0], "FULL"), err
}

// beginHistory returns the definitions of all tables at the place where a stream begins, which is
// now.
func (e *Source) beginHistory(ctx context.Context, file string, place uint64) (map[tidemark.TableID]*history.Definition, error) {
	s := e.newStream("", file, place)
	rows, err := e.Ask(ctx, "SELECT @@lower_case_table_names")
	if err != nil {
		return nil, err
	}
	s.fold = len(rows) == 1 && rows[0][0] != "0"
	shown, charsets, end, err := e.ShowAll(ctx)
	if err == nil {
		err = s.lookAhead(ctx, end)
	}
	if err != nil {
		return nil, err
	}
	out := map[tidemark.TableID]*history.Definition{}
	for db, set := range charsets {
		id := s.key(tidemark.TableID{Schema: db})
		out[id] = &history.Definition{Charset: set, Whole: true}
		if s.ahead.alters(id, place) != "" {
			delete(out, id)
		}
	}
	for id, t := range shown {
		out[s.key(id)] = history.DefinitionOf(t)
	}
	for id := range s.ahead.altered {
		if id.Name != "" && s.inScope(id) {
			out[id] = nil
		}
	}
	for id := range out {
		if later := s.ahead.alters(id, place); id.Name != "" && later != "" {
			out[id] = &history.Definition{Unknown: "it was altered while the stream was set up, by " + server.FirstWords(later)}
		}
	}
	return out, nil
}

// learnColumns records how a statement changes column names, on disk, before anything after it is
// emitted.
func (s *definitions) learnColumns(st history.Statement, sql, db string, vars queryVars) error {
	if s.seek != nil || st.Kind != history.Table || !st.Reshapes {
		return nil
	}
	place, h := s.group.place, s.journal.columns
	out := h.After(s.reader(vars, db), st, sql, place)
	maps.DeleteFunc(out, func(id tidemark.TableID, _ history.ColumnNames) bool { return !s.inScope(id) })
	if len(out) == 0 {
		return nil
	}
	for id, names := range out {
		h.Put(id, place, names)
	}
	if s.journal.path == "" {
		return nil
	}
	return s.journal.sync(history.AppendColumns(nil, place, out))
}

// Looks returns the column numbers of tables, valid until a statement in the log changes them.
func (e *Source) Looks(ctx context.Context, _ string, tables []tidemark.TableID) (map[tidemark.TableID]*change.CatalogueLook, error) {
	db, err := e.Describe(ctx, func(id tidemark.TableID) bool { return slices.Contains(tables, id) })
	if err != nil {
		return nil, err
	}
	at, err := e.End(ctx)
	out := map[tidemark.TableID]*change.CatalogueLook{}
	for _, t := range db.Tables {
		look := &change.CatalogueLook{At: at}
		for i := range t.Columns {
			look.Columns = append(look.Columns, change.CatalogueColumn{Number: history.ColumnNumber(t.Columns[i].Name, 0), Name: t.Columns[i].Name, Generated: t.Columns[i].Generated != ""})
		}
		out[t.TableID] = look
	}
	return out, err
}
