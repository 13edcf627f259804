package stream

import (
	"context"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// wanted reports whether changes of a table are emitted, and whether it is the marker table, whose
// rows mark a transaction as ours.
func (s *scope) wanted(id tidemark.TableID) (want, marker bool) {
	if id.Name == server.ProgressName {
		return false, true
	}
	return s.inScope(id) && (s.only == nil || s.only(id)), false
}

// inScope reports whether a table is in the engine's scope.
func (s *scope) inScope(id tidemark.TableID) bool {
	switch {
	case id.Name == server.ProgressName || id.Name == server.LedgerName || id.Name == server.ClaimName:
		return false
	case s.db != "":
		return id.Schema == s.db || s.fold && strings.EqualFold(id.Schema, s.db)
	}
	return !slices.Contains(systemSchemas, strings.ToLower(id.Schema))
}

var systemSchemas = []string{"mysql", "sys", "information_schema", "performance_schema"}

// key returns the key under which a table is remembered.
func (s *scope) key(id tidemark.TableID) tidemark.TableID {
	if s.fold {
		return tidemark.TableID{Schema: strings.ToLower(id.Schema), Name: strings.ToLower(id.Name)}
	}
	return id
}

// tableMap records a TABLE_MAP event; most repeat an earlier one.
func (s *tables) tableMap(ctx context.Context, body []byte) error {
	if len(body) < 8 {
		return event.ErrEvent
	}
	number, rest := event.Little(body[:6]), body[6:]
	if t := s.maps[number]; t != nil && !t.Stale && string(t.Mapped) == string(rest) {
		return nil
	}
	m, err := event.ReadTableMap(rest, s.e.MariaDB)
	if err != nil {
		return err
	}
	t := s.known[s.key(m.ID)]
	if t == nil || t.Stale || string(t.Mapped) != string(rest) {
		if t, err = s.describe(ctx, m); err != nil {
			return err
		}
		t.Mapped = slices.Clone(rest)
		s.known[s.key(m.ID)] = t
	}
	if len(s.maps) > 20_000 { // tables that were reopened have new numbers
		clear(s.maps)
	}
	s.maps[number] = t
	return nil
}

// describe builds a table from its TABLE_MAP and, for what is missing there, from
// information_schema.
//
// The log is right for the rows that follow, but with binlog_row_metadata=MINIMAL (or MariaDB's
// NO_LOG) it has neither names nor labels: then the history supplies them. information_schema is
// right for the present, which may be days later.
func (s *tables) describe(ctx context.Context, m *event.TableMap) (*event.Table, error) {
	t := &event.Table{ID: m.ID}
	want, marker := s.wanted(m.ID)
	if !want {
		t.Skip, t.Marker = true, marker
		return t, nil
	}
	look := func() (*schema.Shown, error) { return s.e.Show(ctx, m.ID) }
	if m.Names == nil {
		look = func() (*schema.Shown, error) { return s.definition(ctx, m) }
	}
	shown, err := look()
	if err != nil {
		return nil, err
	}
	if shown.Form == "SEQUENCE" || shown.Form == "" && m.Sequence() {
		t.Skip = true // MariaDB's sequences, whose rows are their counters
		return t, nil
	}
	return s.build(m, shown)
}

// build combines what the log and information_schema report.
func (s *tables) build(m *event.TableMap, shown *schema.Shown) (*event.Table, error) {
	t := &event.Table{ID: m.ID, Old: s.old != nil && s.old(m.ID)}
	t.Columns = make([]event.Column, len(m.Types))
	names := s.journal.columns.At(s.key(m.ID), s.group.place)
	for i := range t.Columns {
		c := &t.Columns[i]
		c.Type, c.Meta, c.Zero = m.Types[i], m.Metas[i], s.zero
		var now *tidemark.Column
		switch {
		case m.Names == nil && i >= len(shown.Columns):
			c.Name = [event.VersionColumns]string{"row_start", "row_end"}[i-len(shown.Columns)]
		case m.Names == nil:
			now = &shown.Columns[i]
			c.Name = now.Name
		default:
			c.Name = m.Names[i]
			if at := slices.IndexFunc(shown.Columns, func(x tidemark.Column) bool { return x.Name == c.Name }); at >= 0 && m.Fits(i, &shown.Columns[at].Type) {
				now = &shown.Columns[at]
			}
		}
		if err := c.Describe(&s.Charsets, m, i, now); err != nil {
			return nil, err
		}
		c.Number = names.Number(c.Name)
		if c.Type == event.TypeJSON {
			t.Docs = append(t.Docs, i)
		}
	}
	if s.oldOf != nil {
		for _, name := range s.oldOf(m.ID) {
			if at := slices.IndexFunc(t.Columns, func(c event.Column) bool { return c.Name == name }); at >= 0 {
				t.Watched = append(t.Watched, at)
			}
		}
	}
	t.SetVersions(m, shown)
	t.SetKey(m, shown)
	s.setLinks(t)
	s.setSpare(t)
	s.relate(t)
	return t, nil
}

// setSpare finds the columns that updates may leave out.
func (s *tables) setSpare(t *event.Table) {
	if s.keep == nil || t.Full || t.Old {
		return
	}
	keep := s.keep(t.ID)
	if len(keep) == 0 {
		return
	}
	for i := range t.Columns {
		if c := &t.Columns[i]; !c.Key && !c.Hidden && !slices.Contains(keep, c.Name) && !slices.Contains(t.Watched, i) && !slices.Contains(t.Links, i) {
			t.Spare = append(t.Spare, i)
		}
	}
	t.Sparse = true
}

// setLinks finds the columns whose change or deletion adds the old row. A foreign key may spell
// their names in another case than the table.
func (s *tables) setLinks(t *event.Table) {
	if s.links == nil {
		return
	}
	for _, name := range s.links(t.ID) {
		at := slices.IndexFunc(t.Columns, func(c event.Column) bool { return !c.Hidden && strings.EqualFold(c.Name, name) })
		if at >= 0 {
			t.Links = append(t.Links, at)
			t.Apart = t.Apart || !t.Columns[at].Key
		}
	}
}

// relate assigns a number to a table's description: the same one in every stream, unless two
// descriptions collide.
func (s *tables) relate(t *event.Table) {
	for t.RelationID = event.RelationID(t.Relation); ; t.RelationID++ {
		other, taken := s.relations[t.RelationID]
		if !taken || other == string(t.Relation[5:]) {
			break
		}
	}
	s.relations[t.RelationID] = string(t.Relation[5:])
	for i := range 4 {
		t.Relation[1+i] = byte(t.RelationID >> (24 - 8*i))
	}
}
