package stream

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/history"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Skip leaves out the events at these log positions, in the server's own notation, and reports in
// the stream what they held. Events that begin or end a transaction are still read. Call it before
// Run.
func (s *decoder) Skip(places []string) {
	s.skips = map[uint64]bool{}
	for _, p := range places {
		s.skips[server.PlaceOf(p)] = true
	}
}

// skipStatement describes a skipped statement: DDL, or one logged instead of rows.
func (s *decoder) skipStatement(st history.Statement, sql, db string, vars queryVars) error {
	tables := st.Tables
	if st.Kind == history.Rows {
		tables, _ = writtenTables(sql, db, vars.mode)
	}
	var names []string
	for _, id := range tables {
		names = append(names, id.String())
	}
	name := strings.Join(names, ", ")
	if len(name) > 255 || name == "" {
		name = "the log"
	}
	return s.skipped(change.Exception{Operation: "STATEMENT", Table: name, SQL: clipped(sql)}, nil)
}

// skipRows describes a skipped row event as far as it can be read.
func (s *decoder) skipRows(ctx context.Context, kind tidemark.ChangeKind, form event.RowForm, body []byte) error {
	x := change.Exception{Table: "the log", Operation: map[tidemark.ChangeKind]string{tidemark.InsertChange: "INSERT", tidemark.UpdateChange: "UPDATE", tidemark.DeleteChange: "DELETE"}[kind]}
	if len(body) >= 6 {
		if t := s.maps[event.Little(body[:6])]; t != nil {
			if t.Skip {
				return nil // it held nothing for this stream
			}
			x.Table, x.SQL = t.ID.String(), s.rowsText(ctx, t, kind, form, body)
		}
	}
	return s.skipped(x, body)
}

// rowsText returns the rows of an event as text; "" if they are unreadable or too many.
func (s *decoder) rowsText(ctx context.Context, t *event.Table, kind tidemark.ChangeKind, form event.RowForm, body []byte) string {
	if len(body) > mostSkipped || form.Packed {
		return ""
	}
	tx, said, parts := s.tx, s.said[t.RelationID], s.group.parts
	s.tx, s.said[t.RelationID] = &change.Tx{}, true
	defer func() { s.tx, s.said[t.RelationID], s.group.parts = tx, said, parts }()
	if err := s.rows(ctx, kind, form, body); err != nil {
		return ""
	}
	var names []string
	for i := range t.Columns {
		if !t.Columns[i].Hidden {
			names = append(names, t.Columns[i].Name)
		}
	}
	var lines []string
	for rest := s.tx.Changes; len(rest) > 0; {
		c, next, err := change.Next(rest)
		if err != nil {
			return ""
		}
		rest = next
		line := ""
		if c.Old != nil {
			line = " before: " + tupleText(names, c.Old, c.OldKey)
		}
		if c.New != nil {
			line += " row: " + tupleText(names, c.New, false)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// tupleText returns a row as {name=value, ...}; for a key, only the columns that it includes.
func tupleText(names []string, t change.Tuple, key bool) string {
	var parts []string
	for i, v := range t.Values(nil) {
		switch {
		case i >= len(names) || v.Kind == change.UnchangedValue || key && v.Kind == change.NullValue:
		case v.Kind == change.NullValue:
			parts = append(parts, names[i]+"=NULL")
		default:
			parts = append(parts, names[i]+"="+server.Literal(string(v.Data)))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// mostSkipped is how much of an event is kept.
const mostSkipped = 16 << 10

// skipped reports in the stream that an event was skipped. If it could not be read, its bytes are
// shown.
func (s *assembly) skipped(x change.Exception, body []byte) error {
	if x.SQL == "" {
		x.SQL = fmt.Sprintf("%d bytes, in base64: %s", len(body), base64.StdEncoding.EncodeToString(body[:min(len(body), mostSkipped)]))
	}
	x.SQL = strings.ToValidUTF8(x.SQL, "\uFFFD")
	x.Reason, x.Place, x.Commit = "SKIPPED", s.group.place, s.group.time
	x.Message = "the event at " + s.placeName(s.eventPlace) + " was skipped"
	data, err := json.Marshal(x)
	if err != nil {
		return err
	}
	s.sayMessage(change.SkipPrefix, data)
	return nil
}

// unreadable makes the error for an event that cannot be processed, with how to continue without
// it.
func (s *assembly) unreadable(kind tidemark.Kind, why error, hint string) error {
	place := s.placeName(s.eventPlace)
	return &tidemark.Error{Op: "follow", Object: "the log at " + place, Kind: kind, Err: why, Hint: strings.TrimSpace(hint + " To continue without this event: tidemark skip " + place + ", then the same command again.")}
}
