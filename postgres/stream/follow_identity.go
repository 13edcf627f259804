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
	truncated map[tidemark.TableID]bool
}

func newCataloguer(e *Source, slot Slot) *cataloguer {
	return &cataloguer{e: e, publication: slot.Publication, tables: map[uint32]tidemark.TableID{}, truncated: map[tidemark.TableID]bool{}}
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
	if r.Catalogue, err = s.names.look(s.ctx, r.ID, s.xid); err != nil {
		return nil, err
	}
	return r.Append(nil), nil
}

const lookColumnsSQL = `SELECT a.attnum::int4, a.attname, a.atttypid, a.atttypmod, a.attisdropped, a.attgenerated <> '', pg_current_snapshot()::text,
	(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END)::text
	FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0`

// lookPublishedSQL excludes columns that the publication does not have.
const lookPublishedSQL = ` AND NOT EXISTS (SELECT FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
	WHERE p.pubname = $2 AND r.prrelid = a.attrelid AND r.prattrs IS NOT NULL AND NOT a.attnum = ANY (r.prattrs))`

// look reads a table's columns. It waits until the transaction xid is visible: its commit is in the
// log before that. It returns nothing for a table that no longer exists.
func (c *cataloguer) look(ctx context.Context, table, xid uint32) (*change.CatalogueLook, error) {
	if c.conn == nil {
		conn, err := c.e.Connect(ctx)
		if err != nil {
			return nil, err
		}
		c.conn = conn
	}
	sql, args := lookColumnsSQL, []any{table}
	if c.e.Major >= 15 {
		sql, args = sql+lookPublishedSQL, append(args, c.publication)
	}
	for {
		out := &change.CatalogueLook{}
		var col change.CatalogueColumn
		var snapshot, at string
		rows, err := c.conn.Query(ctx, sql+" ORDER BY a.attnum", args...)
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&col.Number, &col.Name, &col.Type, &col.Mod, &col.Gone, &col.Generated, &snapshot, &at}, func() error {
				out.Columns = append(out.Columns, col)
				return nil
			})
		}
		if err != nil {
			return nil, c.e.Fail(ctx, "follow", "the catalogue", err)
		}
		if len(out.Columns) == 0 {
			return out, nil
		}
		sees, err := parseSnapshot(snapshot)
		if err == nil {
			out.At, err = wal.ParseLSN(at)
		}
		if err != nil {
			return nil, c.e.Fail(ctx, "follow", "the catalogue", err)
		}
		if xid == 0 || sees(xid) {
			for i := range out.Columns {
				if out.Columns[i].Gone {
					out.Columns[i].Name = ""
				}
			}
			return out, nil
		}
		if err := flow.Sleep(ctx, 2*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// emptied records the tables of a message T.
func (c *cataloguer) emptied(m []byte) error {
	t, err := change.ParseTruncation(m[1:])
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range t.Tables {
		c.truncated[c.tables[id]] = true
	}
	return err
}

// Truncated reports whether the stream contained a TRUNCATE of a whole table; one of a partition
// does not count.
func (s *Stream) Truncated(id tidemark.TableID) bool {
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
	c := &cataloguer{e: s, publication: slot.Publication, conn: conn}
	out := map[tidemark.TableID]*change.CatalogueLook{}
	for _, id := range tables {
		var oid uint32
		err := conn.QueryRow(ctx, "SELECT coalesce((SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2), 0)", id.Schema, id.Name).Scan(&oid)
		if err != nil {
			return nil, s.Fail(ctx, "follow", server.QuoteTable(id), err)
		}
		if oid == 0 {
			continue
		}
		if out[id], err = c.look(ctx, oid, 0); err != nil {
			return nil, err
		}
	}
	return out, nil
}
