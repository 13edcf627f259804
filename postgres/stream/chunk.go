package stream

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/postgres/bulk"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// AddToSlot adds a move's table to a slot's publication. It waits for transactions that may have
// changed the table before to end: the stream has only parts of them.
func (s *Source) AddToSlot(ctx context.Context, slot Slot, m *tidemark.Move) error {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	var there bool
	const listed = "SELECT EXISTS (SELECT FROM pg_publication_tables WHERE pubname = $1 AND schemaname = $2 AND tablename = $3)"
	if err := conn.QueryRow(ctx, listed, slot.Publication, m.From.Schema, m.From.Name).Scan(&there); err != nil || there {
		return s.Fail(ctx, "publish", slot.Publication, err)
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		one := []tidemark.Move{*m}
		if err := s.publishable(ctx, tx, one); err != nil {
			return err
		}
		return s.addTables(ctx, tx, slot, one)
	})
	if err != nil {
		return s.Fail(ctx, "publish", server.QuoteTable(m.From.TableID), err)
	}
	var next string
	if err := conn.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text").Scan(&next); err != nil {
		return s.Fail(ctx, "publish", slot.Publication, err)
	}
	for ended := false; !ended; {
		if err := conn.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8", next).Scan(&ended); err != nil {
			return s.Fail(ctx, "publish", slot.Publication, err)
		}
		if err := flow.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	// Make the server forget what an earlier transaction made it cache about the table (before
	// 13.21, 14.18, 15.13, 16.9 and 17.5 it would not).
	_, err = conn.Exec(ctx, "ALTER PUBLICATION "+server.QuoteIdent(slot.Publication)+" SET (publish_via_partition_root = true)")
	return s.Fail(ctx, "publish", slot.Publication, err)
}

// relationSQL describes a table as pgoutput does, with the position of each column in the index
// that identifies its rows: the replica identity, or else the primary key.
const relationSQL = `SELECT c.oid, c.relreplident::text, a.attname, a.atttypid, a.atttypmod, a.attnum::int4,
	coalesce(array_position((x.indkey::int2[])[0:x.indnkeyatts - 1], a.attnum), -1)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
	LEFT JOIN pg_index x ON x.indrelid = c.oid AND CASE c.relreplident WHEN 'i' THEN x.indisreplident ELSE x.indisprimary END
	WHERE n.nspname = $1 AND c.relname = $2 `

// relation returns a move's table as a stream sends it, and the columns that order its rows.
func (s *Source) relation(ctx context.Context, conn *pgx.Conn, slot Slot, m *tidemark.Move) (r change.Relation, key []int, err error) {
	args := []any{m.From.Schema, m.From.Name}
	sql := relationSQL
	if s.Major >= 15 { // publications have column lists
		sql += "AND a.attname = ANY (SELECT unnest(attnames) FROM pg_publication_tables WHERE pubname = $3 AND schemaname = $1 AND tablename = $2) "
		args = append(args, slot.Publication)
	}
	rows, err := conn.Query(ctx, sql+"ORDER BY a.attnum", args...)
	if err != nil {
		return r, nil, err
	}
	r.Table = m.From.TableID
	var identity string
	var c change.RelationColumn
	var at int
	places := map[int]int{}
	_, err = pgx.ForEachRow(rows, []any{&r.ID, &identity, &c.Name, &c.Type, &c.Mod, &c.Number, &at}, func() error {
		c.Key = identity == "f" || at >= 0
		if at >= 0 {
			places[at] = len(r.Columns)
		}
		r.Columns = append(r.Columns, c)
		return nil
	})
	if err != nil {
		return r, nil, err
	}
	if len(r.Columns) == 0 {
		return r, nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "load", Object: m.From.String(), Err: errors.New("is not in the publication " + slot.Publication), Hint: "Check whether it is still on the source."}
	}
	r.Identity = identity[0]
	for i := range len(r.Columns) + 1 { // PostgreSQL counts the columns of indexes from 0 here
		if at, ok := places[i]; ok {
			key = append(key, at)
		}
	}
	if len(key) == 0 {
		return r, nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: m.From.String(), Err: errors.New("has no primary key, by which it could be read in chunks"), Hint: "Load it yourself: tidemark sub start " + m.From.String() + " --no-load"}
	}
	return r, key, nil
}

// ReadChunk reads rows of a move's table from a key on, in its own snapshot.
func (s *Source) ReadChunk(ctx context.Context, slot Slot, m *tidemark.Move, from []string, rows int, bytes int64) (*change.Chunk, error) {
	object := server.QuoteTable(m.From.TableID)
	conn, release, err := s.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return nil, s.Fail(ctx, "load", object, err)
	}
	whole := false
	defer func() {
		if !whole {
			server.CloseConn(conn) // unread rows may be in transit
		}
	}()
	// A table that was written anew after a snapshot (ALTER TABLE ... TYPE) is empty in it, so
	// nobody may alter it between the snapshot and the rows.
	if _, err := conn.Exec(ctx, "LOCK TABLE "+object+" IN ACCESS SHARE MODE"); err != nil {
		return nil, s.FailGrant(ctx, "load", object, err, "SELECT ON TABLE "+object)
	}
	out := &change.Chunk{}
	var snapshot string
	if err := conn.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&snapshot); err != nil {
		return nil, s.Fail(ctx, "load", object, err)
	}
	if out.Sees, err = parseSnapshot(snapshot); err != nil {
		return nil, s.Fail(ctx, "load", object, err)
	}
	if out.Relation, out.Key, err = s.relation(ctx, conn, slot, m); err != nil {
		return nil, s.Fail(ctx, "load", object, err)
	}
	sql, err := chunkSQL(m, out, from, rows)
	if err != nil {
		return nil, err
	}
	if whole, err = readChunk(ctx, conn.PgConn(), sql, out, bytes); err != nil {
		return nil, s.FailGrant(ctx, "load", object, err, "SELECT ON TABLE "+object)
	}
	out.Whole = whole && len(out.Rows) < rows
	if whole {
		if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
			return nil, s.Fail(ctx, "load", object, err)
		}
	}
	return out, nil
}

func chunkSQL(m *tidemark.Move, c *change.Chunk, from []string, rows int) (string, error) {
	r := &tidemark.Range{Kind: tidemark.Keys, Lower: from}
	var names []string
	for _, col := range c.Relation.Columns {
		names = append(names, server.QuoteIdent(col.Name))
	}
	for _, i := range c.Key {
		r.Columns = append(r.Columns, c.Relation.Columns[i].Name)
	}
	where, err := bulk.WhereSQL(m, r)
	if err != nil {
		return "", err
	}
	return "SELECT " + strings.Join(names, ", ") + bulk.FromSQL(m, r, where) + " ORDER BY " + server.QuoteIdents(r.Columns) + " LIMIT " + strconv.Itoa(rows), nil
}

// readChunk reads rows until none are left or limit bytes are exceeded: then the chunk is not
// whole, and the session is unusable.
func readChunk(ctx context.Context, conn *pgconn.PgConn, sql string, out *change.Chunk, limit int64) (whole bool, err error) {
	results := conn.Exec(ctx, sql)
	var vals []change.Value
	var size int64
	for results.NextResult() {
		rows := results.ResultReader()
		for rows.NextRow() {
			vals = vals[:0]
			for _, v := range rows.Values() {
				if v == nil {
					vals = append(vals, change.Value{Kind: change.NullValue})
					continue
				}
				vals = append(vals, change.Value{Kind: change.TextValue, Data: v})
			}
			row := change.AppendTuple(nil, vals)
			out.Rows = append(out.Rows, row)
			out.Last = out.Last[:0]
			for _, i := range out.Key {
				out.Last = append(out.Last, string(vals[i].Data))
			}
			if size += int64(len(row)); size >= limit && len(out.Rows) > 1 {
				return false, nil
			}
		}
		if _, err := rows.Close(); err != nil {
			return false, err
		}
	}
	return true, results.Close()
}

// parseSnapshot reads xmin:xmax:xip,xip.
func parseSnapshot(text string) (sees func(uint32) bool, err error) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 {
		return nil, errors.New("not a snapshot: " + text)
	}
	next, err := strconv.ParseUint(parts[1], 10, 64)
	var running []uint32
	for one := range strings.SplitSeq(parts[2], ",") {
		if one == "" {
			continue
		}
		xid, perr := strconv.ParseUint(one, 10, 64)
		err = errors.Join(err, perr)
		running = append(running, uint32(xid))
	}
	// XIDs wrap around: earlier ones are the nearer half.
	return func(xid uint32) bool { return int32(xid-uint32(next)) < 0 && !slices.Contains(running, xid) }, err
}

// MarkLog writes a non-transactional message to the log, and returns its position. A later
// transaction makes the server send everything before it.
func (s *Source) MarkLog(ctx context.Context) (mark change.LogMark, err error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return mark, err
	}
	defer release()
	var text string
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = local"); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT pg_logical_emit_message(false, 'tidemark.mark', '')::text").Scan(&text); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT pg_logical_emit_message(true, 'tidemark.mark', '')")
		return err
	})
	if err != nil {
		return mark, s.Fail(ctx, "load", "mark in the log", err)
	}
	end, err := wal.ParseLSN(text)
	return change.LogMark{Place: end - 1, From: end}, s.Fail(ctx, "load", "mark in the log", err)
}
