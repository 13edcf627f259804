package bulk

import (
	"context"
	"errors"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/server"
)

// Read emits the rows of a range, as COPY text. If a lane's connection breaks after Freeze, its
// locks are gone: the Read that notices is Transient, and every later one on that lane is Lost, so
// that the caller gives its ranges to the other lanes.
func (e *Bulk) Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	object := r.Move.From.String()
	sql, err := selectRows(r)
	if err != nil {
		return err
	}
	s, frozen, err := e.lane(ctx, lane)
	if err != nil {
		return err
	}
	q, err := s.Query(ctx, sql)
	if err != nil {
		return e.Fail("read", object, err)
	}
	batch := tidemark.NewBatch(r.Range, tidemark.CopyText)
	var refused error // by emit
	full := func(data []byte, rows int, more bool) ([]byte, error) {
		batch.Data, batch.Rows, batch.More = data, rows, more
		if refused = emit(batch); refused != nil {
			return nil, refused
		}
		batch = tidemark.NewBatch(r.Range, tidemark.CopyText)
		return batch.Data, nil
	}
	rest, rows, err := q.Copy(ctx, batch.Data, tidemark.BatchSize, tidemark.PieceSize, full)
	if e := q.Close(ctx); err == nil {
		err = e
	}
	if err == nil && !frozen {
		err = s.Commit(ctx) // ends what locks there are
	}
	switch {
	case refused != nil:
		return refused
	case err != nil:
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return e.Fail("read", object, err)
	}
	batch.Data, batch.Rows, batch.Last = rest, rows, true
	return emit(batch)
}

// selectRows writes the SELECT of a range.
func selectRows(r tidemark.Read) (string, error) {
	bad := func(kind tidemark.Kind, cause string) error {
		return &tidemark.Error{Kind: kind, Op: "read", Object: r.Move.From.String(), Err: errors.New(cause)}
	}
	if r.Format != tidemark.CopyText {
		return "", bad(tidemark.Bug, "a Db2 source has COPY text only")
	}
	if r.Move.Lob.Mode == tidemark.LimitedLob {
		return "", bad(tidemark.Unsupported, "large values of a Db2 source cannot be cut yet")
	}
	var list []string
	stored := r.Move.To.Stored()
	for i, c := range r.Move.Columns() {
		if c.Type.Kind == tidemark.Time && i < len(stored) && stored[i].Type.Kind == tidemark.Interval {
			return "", bad(tidemark.Unmapped, "the time of day in column "+c.Name+" cannot become an interval")
		}
		list = append(list, expression(c))
	}
	if len(list) == 0 {
		list = []string{"1"}
	}
	where, err := where(r.Move, r.Range)
	if err != nil {
		return "", err
	}
	sql := "SELECT " + strings.Join(list, ", ") + " FROM " + server.QuoteTable(r.Move.From.TableID)
	if where != "" {
		sql += " WHERE " + where
	}
	return sql, nil
}

// expression selects a column in a form that the protocol's level has.
func expression(c tidemark.Column) string {
	name := server.Quote(c.Name)
	switch {
	case c.Type.Kind == tidemark.Bool: // sent as a number at our level of the protocol
		return "CASE WHEN " + name + " = TRUE THEN 't' WHEN " + name + " = FALSE THEN 'f' END"
	case c.Type.Native == "DECFLOAT":
		return "CAST(" + name + " AS VARCHAR(42))"
	case c.Type.Kind == tidemark.XML:
		return "XMLSERIALIZE(" + name + " AS CLOB(2G))"
	}
	return name
}
