package schema

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

const definedSQL = `root AS (SELECT c.oid, n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	JOIN unnest($1::text[], $2::text[]) w (s, t) ON w.s = n.nspname AND w.t = c.relname) `

// DefinedCollationSQL returns the collation of a column a if it is not that of its type, else "".
const DefinedCollationSQL = `coalesce((SELECT format('%I.%I', n.nspname, l.collname) FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace
	JOIN pg_type t ON t.oid = a.atttypid AND t.typcollation <> a.attcollation WHERE l.oid = a.attcollation), '')`

const definedColumnsSQL = "WITH " + definedSQL + `SELECT root.nspname, root.relname, root.relkind = 'p', a.attnum::int4, a.attname, a.attnotnull,
	CASE WHEN a.attgenerated = '' THEN coalesce(pg_get_expr(d.adbin, d.adrelid), '') ELSE '' END,
	CASE WHEN a.attgenerated <> '' THEN coalesce(pg_get_expr(d.adbin, d.adrelid), '') ELSE '' END,
	root.oid, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod), ` + DefinedCollationSQL + `
	FROM root JOIN pg_attribute a ON a.attrelid = root.oid AND a.attnum > 0 AND NOT a.attisdropped
	LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum ORDER BY 1, 2, 4`

// A partition was created as one if its row type, its columns and its link to the parent are of one
// transaction and a column is unchanged since: ATTACH rewrites all columns.
const definedPartsSQL = "WITH RECURSIVE " + definedSQL + `, tree AS (
	SELECT root.nspname AS s, root.relname AS t, root.oid AS rel, 0::oid AS parent, 0 AS level, ''::text AS link, NULL::xid AS xmin FROM root WHERE root.relkind = 'p'
	UNION ALL SELECT tree.s, tree.t, i.inhrelid, i.inhparent, tree.level + 1, i.xmin::text, i.xmin
	FROM tree JOIN pg_class p ON p.oid = tree.rel AND p.relkind = 'p' JOIN pg_inherits i ON i.inhparent = tree.rel
	WHERE NOT coalesce((to_jsonb(i) ->> 'inhdetachpending')::bool, false))
	SELECT tree.s, tree.t, c.oid, cn.nspname, c.relname, pn.nspname, p.relname, coalesce(pg_get_expr(c.relpartbound, c.oid), ''),
	CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) ELSE '' END, tree.link,
	y.xmin = tree.xmin AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.xmin = y.xmin AND a.cmin = y.cmin),
	CASE WHEN c.relkind = 'r' THEN coalesce(pg_relation_filenode(c.oid), 0::oid) ELSE 0::oid END
	FROM tree JOIN pg_class c ON c.oid = tree.rel JOIN pg_namespace cn ON cn.oid = c.relnamespace JOIN pg_class p ON p.oid = tree.parent
	JOIN pg_namespace pn ON pn.oid = p.relnamespace JOIN pg_type y ON y.oid = c.reltype WHERE tree.level > 0 ORDER BY 1, 2, tree.level, c.oid`

const definedLabelsSQL = "WITH " + definedSQL + `SELECT root.nspname, root.relname, e.oid, format('%I.%I', yn.nspname, y.typname), min(a.attname), e.enumlabel
	FROM root JOIN pg_attribute a ON a.attrelid = root.oid AND a.attnum > 0 AND NOT a.attisdropped
	JOIN pg_type t ON t.oid = a.atttypid JOIN pg_type y ON y.oid IN (t.oid, t.typelem, t.typbasetype) AND y.typtype = 'e'
	JOIN pg_namespace yn ON yn.oid = y.typnamespace JOIN pg_enum e ON e.enumtypid = y.oid
	GROUP BY 1, 2, 3, 4, 6, e.enumsortorder, y.oid ORDER BY 1, 2, y.oid, e.enumsortorder`

// Definitions returns the current catalogue entries of tables, by table, without missing tables.
func (s *Schema) Definitions(ctx context.Context, tables []tidemark.TableID) (map[tidemark.TableID]*change.Definition, error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	out := map[tidemark.TableID]*change.Definition{}
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		d := &defining{ctx: ctx, tx: tx, out: out}
		for _, id := range tables {
			d.schemas, d.names = append(d.schemas, id.Schema), append(d.names, id.Name)
		}
		return d.read()
	})
	if err != nil {
		return nil, s.Fail(ctx, "look at", "definitions", err)
	}
	return out, nil
}

// A defining reads definitions.
type defining struct {
	ctx            context.Context
	tx             pgx.Tx
	schemas, names []string
	out            map[tidemark.TableID]*change.Definition
}

func (d *defining) read() error {
	var id tidemark.TableID
	var col change.DefinedColumn
	var parted bool
	var oid uint32
	err := d.rows(definedColumnsSQL, func() {
		if d.out[id] == nil {
			d.out[id] = &change.Definition{ID: oid, Parted: parted}
		}
		d.out[id].Columns = append(d.out[id].Columns, col)
	}, &id.Schema, &id.Name, &parted, &col.Number, &col.Name, &col.NotNull, &col.Default, &col.Generated, &oid, &col.Type, &col.Mod, &col.Native, &col.Collation)
	if err != nil {
		return err
	}
	var part change.DefinedPart
	err = d.rows(definedPartsSQL, func() {
		if t := d.out[id]; t != nil {
			t.Parts = append(t.Parts, part)
		}
	}, &id.Schema, &id.Name, &part.ID, &part.Table.Schema, &part.Table.Name, &part.Of.Schema, &part.Of.Name, &part.Bound, &part.By, &part.Link, &part.Fresh, &part.File)
	if err != nil {
		return err
	}
	var label change.DefinedLabel
	err = d.rows(definedLabelsSQL, func() {
		if t := d.out[id]; t != nil {
			t.Labels = append(t.Labels, label)
		}
	}, &id.Schema, &id.Name, &label.ID, &label.Type, &label.Column, &label.Text)
	if err != nil {
		return err
	}
	var text, horizon string
	var block, segment uint64
	err = d.tx.QueryRow(d.ctx, `SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END)::text, pg_snapshot_xmin(pg_current_snapshot())::xid::text,
		current_setting('wal_block_size')::bigint, pg_size_bytes(current_setting('wal_segment_size'))`).Scan(&text, &horizon, &block, &segment)
	if err != nil {
		return err
	}
	at, err := wal.ParseLSN(text)
	if err != nil {
		return err
	}
	xid, err := strconv.ParseUint(horizon, 10, 32)
	for _, t := range d.out {
		t.At, t.Horizon = recordEnd(at, block, segment), uint32(xid)
	}
	return err
}

// recordEnd returns where the last record ends, given the place where the next one begins: after a
// page's header, if the last one filled its page. Nothing more may be written for long.
func recordEnd(next, block, segment uint64) uint64 {
	header := uint64(24)
	if next%segment < block {
		header = 40
	}
	if next%block == header {
		return next - header
	}
	return next
}

func (d *defining) rows(sql string, do func(), into ...any) error {
	rows, err := d.tx.Query(d.ctx, sql, d.schemas, d.names)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error { do(); return nil })
	return err
}

// Emptied reports whether a partition has lost rows, or may have: only rows that are older than the
// new file, and than the last look at the old one, show that it has not. (The file's age alone is
// not known: whatever changes the catalogue's row of the partition makes that younger.) After a
// TRUNCATE of the whole table the catalogue's rows of all partitions are of one transaction.
func (s *Schema) Emptied(ctx context.Context, slot string, l change.Lost) (bool, error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	var leaves []uint32
	for _, p := range l.Is.Parts {
		if p.File != 0 {
			leaves = append(leaves, p.ID)
		}
	}
	if l.Since == nil {
		l.Since = &change.Definition{}
	}
	table := server.QuoteTable(l.Part.Table)
	var by, transactions uint32
	var yes bool
	err = conn.QueryRow(ctx, "SELECT coalesce(max(xmin::text) FILTER (WHERE oid = $1), '0')::xid, count(DISTINCT xmin::text)::int FROM pg_class WHERE oid = ANY ($2)", l.Part.ID, leaves).Scan(&by, &transactions)
	if err == nil && l.Whole.XID != 0 && (by == l.Whole.XID || transactions == 1 && len(leaves) > 1 && l.Whole.Place > l.Since.At) {
		return false, nil
	}
	if err == nil {
		err = conn.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM `+table+` r WHERE age(r.xmin) > k.file AND age(r.xmin) > k.known) FROM
			(SELECT age(c.xmin) AS file, age(coalesce(nullif($2::text, '0')::xid, (SELECT catalog_xmin FROM pg_replication_slots WHERE slot_name = $3))) AS known FROM pg_class c WHERE c.oid = $1) k`,
			l.Part.ID, fmt.Sprint(l.Since.Horizon), slot).Scan(&yes)
	}
	return yes, s.Fail(ctx, "look at", table, err)
}
