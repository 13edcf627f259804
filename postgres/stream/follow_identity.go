package stream

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"

	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A cataloguer reads the definitions of tables for a stream, in its own session: a stream must not
// wait for what else the engine does.
type cataloguer struct {
	e           *Source
	publication string
	conn        *pgx.Conn

	mu        sync.Mutex
	tables    map[uint32]tidemark.TableID
	truncated map[tidemark.TableID]change.Truncated
}

func newCataloguer(e *Source, slot Slot) *cataloguer {
	return &cataloguer{e: e, publication: slot.Publication, tables: map[uint32]tidemark.TableID{}, truncated: map[tidemark.TableID]change.Truncated{}}
}

// identified returns a message R with what the catalogue says about its table. pgoutput identifies
// columns by name alone; a column that was dropped and added again looks the same. Every change of
// a table's definition makes the server send R again before the table's next row, so a look made at
// that moment sees this definition, or a later one.
func (s *Stream) identified(m []byte) ([]byte, error) {
	r, err := change.ParseRelation(m[1:])
	if err != nil {
		return nil, err
	}
	s.names.mu.Lock()
	s.names.tables[r.ID] = r.Table
	s.names.mu.Unlock()
	if r.Catalogue, err = s.names.readColumns(s.ctx, r.ID, s.xid); err != nil {
		return nil, err
	}
	return r.Append(nil), nil
}

const lookColumnsSQL = `SELECT a.attrelid, a.attnum::int4, a.attname, a.atttypid, a.atttypmod, a.attisdropped, a.attgenerated <> '', coalesce(format_type(nullif(a.atttypid, 0), a.atttypmod), ''),
	pg_current_snapshot()::text, (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END)::text
	FROM pg_attribute a WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0`

// lookPublishedSQL excludes columns that the publication does not have.
const lookPublishedSQL = ` AND NOT EXISTS (SELECT FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
	WHERE p.pubname = $2 AND r.prrelid = a.attrelid AND r.prattrs IS NOT NULL AND NOT a.attnum = ANY (r.prattrs))`

// readColumns reads a table's columns. It waits until the transaction xid is visible: its commit is
// in the log before that. It returns nothing for a table that no longer exists.
func (c *cataloguer) readColumns(ctx context.Context, table, xid uint32) (*change.CatalogueLook, error) {
	if c.conn == nil {
		conn, err := c.e.Connect(ctx)
		if err != nil {
			return nil, err
		}
		c.conn = conn
	}
	for {
		looks, sees, err := c.looks(ctx, []uint32{table})
		if err != nil {
			return nil, err
		}
		out := looks[table]
		if out == nil {
			return &change.CatalogueLook{}, nil
		}
		if xid == 0 || sees(xid) {
			for i := range out.Columns {
				out.Columns[i].Native = ""
			}
			return out, nil
		}
		if err := flow.Sleep(ctx, 2*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// looks reads the columns of tables, and returns which transactions it has seen.
func (c *cataloguer) looks(ctx context.Context, tables []uint32) (_ map[uint32]*change.CatalogueLook, sees func(xid uint32) bool, _ error) {
	sql, args := lookColumnsSQL, []any{tables}
	if c.e.Major >= 15 {
		sql, args = sql+lookPublishedSQL, append(args, c.publication)
	}
	out := map[uint32]*change.CatalogueLook{}
	var col change.CatalogueColumn
	var table uint32
	var snapshot, at string
	rows, err := c.conn.Query(ctx, sql+" ORDER BY a.attrelid, a.attnum", args...)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&table, &col.Number, &col.Name, &col.Type, &col.Mod, &col.Gone, &col.Generated, &col.Native, &snapshot, &at}, func() error {
			if out[table] == nil {
				out[table] = &change.CatalogueLook{}
			}
			if col.Gone {
				col.Name = ""
			}
			out[table].Columns = append(out[table].Columns, col)
			return nil
		})
	}
	if err == nil && len(out) > 0 {
		sees, err = parseSnapshot(snapshot)
	}
	var place uint64
	if err == nil && len(out) > 0 {
		place, err = wal.ParseLSN(at)
	}
	if err != nil {
		return nil, nil, c.e.Fail(ctx, "follow", "the catalogue", err)
	}
	for _, look := range out {
		look.At = place
	}
	return out, sees, nil
}

// emptied records the tables of a message T in a transaction.
func (c *cataloguer) emptied(m []byte, xid uint32, place uint64) error {
	t, err := change.ParseTruncation(m[1:])
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range t.Tables {
		c.truncated[c.tables[id]] = change.Truncated{XID: xid, Place: place}
	}
	return err
}

// Truncated returns the newest TRUNCATE of a whole table that the stream has contained; one of a
// partition does not count.
func (s *Stream) Truncated(id tidemark.TableID) change.Truncated {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	return s.names.truncated[id]
}

func (c *cataloguer) close() {
	if c.conn != nil {
		server.CloseConn(c.conn)
		c.conn = nil
	}
}

// Looks returns the current catalogue entries of tables. Missing tables have none.
func (s *Source) Looks(ctx context.Context, slot Slot, tables []tidemark.TableID) (map[tidemark.TableID]*change.CatalogueLook, error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	schemas, names := make([]string, len(tables)), make([]string, len(tables))
	for i, id := range tables {
		schemas[i], names[i] = id.Schema, id.Name
	}
	rows, err := conn.Query(ctx, `SELECT c.oid, w.place FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, place)
		JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name`, schemas, names)
	var oids []uint32
	at := map[uint32]tidemark.TableID{}
	if err == nil {
		var oid uint32
		var place int
		_, err = pgx.ForEachRow(rows, []any{&oid, &place}, func() error {
			oids, at[oid] = append(oids, oid), tables[place-1]
			return nil
		})
	}
	if err != nil {
		return nil, s.Fail(ctx, "follow", "the catalogue", err)
	}
	c := &cataloguer{e: s, publication: slot.Publication, conn: conn}
	looks, _, err := c.looks(ctx, oids)
	out := map[tidemark.TableID]*change.CatalogueLook{}
	for oid, look := range looks {
		out[at[oid]] = look
	}
	return out, err
}
