package bulk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// splitTarget is how many bytes a range should hold by default: large enough that its transaction
// costs almost nothing, small enough that a killed run loses little.
const splitTarget = 128 << 20

// A heap is a relation's storage on the server.
type heap struct {
	id     tidemark.TableID
	kind   string // pg_class.relkind
	blocks int64  // of the heap
	bytes  int64  // of the heap with its out-of-line values
	names  []string
}

// foreignTables remembers foreign tables, which COPY accepts only within a query.
type foreignTables struct {
	mu  sync.Mutex
	ids map[tidemark.TableID]bool
}

func (v *Reader) foreign(id tidemark.TableID) bool {
	v.foreigns.mu.Lock()
	defer v.foreigns.mu.Unlock()
	return v.foreigns.ids[id]
}

func (v *Reader) noteForeign(id tidemark.TableID) {
	v.foreigns.mu.Lock()
	defer v.foreigns.mu.Unlock()
	if v.foreigns.ids == nil {
		v.foreigns.ids = map[tidemark.TableID]bool{}
	}
	v.foreigns.ids[id] = true
}

// Split splits a move into ranges that together hold each row once. Automatic ranges are heap
// blocks, which need no index and are even for any keys; the last one is open-ended, since the
// table may have grown.
func (v *Reader) Split(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error) {
	if m.From.Form == tidemark.LargeObjects {
		return v.splitLargeObjects(ctx, m)
	}
	if m.From.Form == tidemark.Partitioned && len(m.From.Partitions) == 0 {
		return nil, nil // no leaf, or only foreign tables, whose rows are not ours
	}
	switch m.Split.Kind {
	case tidemark.SplitBounds:
		return v.splitBounds(ctx, m)
	case tidemark.SplitPartitions, tidemark.SplitSubparts:
		return v.splitParts(ctx, m)
	case tidemark.SplitNone:
		return []tidemark.Range{whole(m, nil)}, nil
	}
	switch m.From.Form {
	case tidemark.View, tidemark.Foreign:
		return []tidemark.Range{whole(m, nil)}, nil
	case tidemark.Partitioned:
		return v.splitLeaves(ctx, m)
	}
	// Saves asking the server about each of thousands of small or empty tables.
	if m.From.Bytes < rangeBytes(m)/2 {
		return []tidemark.Range{whole(m, nil)}, nil
	}
	rels, err := v.heaps(ctx, m, []tidemark.TableID{m.From.TableID})
	if err != nil {
		return nil, err
	}
	return v.blocks(m, nil, rels[0], maxRanges(m)), nil
}

func rangeBytes(m *tidemark.Move) int64 {
	if m.Split.Target > 0 {
		return m.Split.Target
	}
	return splitTarget
}

func maxRanges(m *tidemark.Move) int64 {
	if m.Split.Max > 0 {
		return int64(m.Split.Max)
	}
	return 1 << 30
}

func whole(m *tidemark.Move, part *tidemark.Part) tidemark.Range {
	r := tidemark.Range{Kind: tidemark.Whole, Part: part, Rows: max(m.From.Rows, 0), Bytes: m.From.Bytes}
	if part != nil {
		r.Rows, r.Bytes = max(part.Rows, 0), part.Bytes
	}
	return r
}

// blocks cuts one relation into at most limit ranges of about the same number of bytes.
func (v *Reader) blocks(m *tidemark.Move, part *tidemark.Part, rel heap, limit int64) []tidemark.Range {
	n := min((rel.bytes+rangeBytes(m)-1)/rangeBytes(m), limit, rel.blocks)
	if v.Major < 14 {
		// Before PostgreSQL 14 finding a range of ctids reads the whole table.
		n = min(n, 4)
	}
	rows := m.From.Rows
	if part != nil {
		rows = part.Rows
	}
	if n <= 1 || rel.kind != "r" && rel.kind != "m" {
		r := whole(m, part)
		r.Bytes = rel.bytes
		return []tidemark.Range{r}
	}
	out := make([]tidemark.Range, n)
	for i := range n {
		r := tidemark.Range{Kind: tidemark.Blocks, Part: part, FromBlock: rel.blocks * i / n, ToBlock: rel.blocks * (i + 1) / n,
			Bytes: rel.bytes / n, Rows: max(rows, 0) / n}
		if i == n-1 {
			r.ToBlock = -1
		}
		out[i] = r
	}
	return out
}

// splitLeaves splits each leaf of a partitioned table separately.
func (v *Reader) splitLeaves(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error) {
	rels, err := v.heaps(ctx, m, leafIDs(m))
	if err != nil {
		return nil, err
	}
	var total int64
	for _, rel := range rels {
		total += rel.bytes
	}
	var out []tidemark.Range
	for i, rel := range rels {
		// The limit applies to the table: each leaf gets its share of it, and at least one range.
		limit := max(1, maxRanges(m)*rel.bytes/max(total, 1))
		out = append(out, v.blocks(m, &m.From.Partitions[i], rel, limit)...)
	}
	return out, nil
}

func leafIDs(m *tidemark.Move) []tidemark.TableID {
	ids := make([]tidemark.TableID, len(m.From.Partitions))
	for i, p := range m.From.Partitions {
		ids[i] = p.Table
	}
	return ids
}

// splitParts creates one range for each leaf. A name in Parts selects the leaf of that name, with
// or without schema, and the leaves below a partition of that name.
func (v *Reader) splitParts(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error) {
	object := server.QuoteTable(m.From.TableID)
	if m.From.Form != tidemark.Partitioned {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: object, Err: errors.New("the table is not partitioned"), Hint: "Split it automatically, or by boundaries."}
	}
	rels, err := v.heaps(ctx, m, leafIDs(m))
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	var out []tidemark.Range
	for i, rel := range rels {
		take := len(m.Split.Parts) == 0
		for _, name := range rel.names {
			for _, wanted := range m.Split.Parts {
				if wanted == name {
					found[wanted], take = true, true
				}
			}
		}
		if take {
			r := whole(m, &m.From.Partitions[i])
			r.Bytes = rel.bytes
			out = append(out, r)
		}
	}
	for _, wanted := range m.Split.Parts {
		if !found[wanted] {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: object, Err: errors.New("there is no partition " + server.QuoteIdent(wanted)), Hint: "Name partitions as the source does, with or without their schema."}
		}
	}
	return out, nil
}

const heapsSQL = `SELECT w.n, coalesce(c.relkind::text, ''), coalesce(pg_relation_size(c.oid), 0), coalesce(pg_table_size(c.oid), 0),
	coalesce((SELECT array_agg(x.name) FROM pg_partition_ancestors(c.oid) a(relid)
		JOIN pg_class pc ON pc.oid = a.relid JOIN pg_namespace pn ON pn.oid = pc.relnamespace
		CROSS JOIN LATERAL (VALUES (pc.relname::text), (pn.nspname || '.' || pc.relname)) x(name)
		WHERE pc.relispartition), ARRAY[c.relname::text])
	FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, n)
	LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace) ON n.nspname = w.schema AND c.relname = w.name
	ORDER BY w.n`

// heaps looks tables up, in the order of ids.
func (v *Reader) heaps(ctx context.Context, m *tidemark.Move, ids []tidemark.TableID) ([]heap, error) {
	conn, release, err := v.Leader(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	schemas, names := server.ByName(ids)
	rows, err := conn.Query(ctx, heapsSQL, schemas, names)
	if err != nil {
		return nil, v.Fail(ctx, "split", server.QuoteTable(m.From.TableID), err)
	}
	rels, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (rel heap, err error) {
		var n, heap int64
		err = row.Scan(&n, &rel.kind, &heap, &rel.bytes, &rel.names)
		rel.id, rel.blocks = ids[n-1], heap/v.BlockSize
		return rel, err
	})
	if err != nil {
		return nil, v.Fail(ctx, "split", server.QuoteTable(m.From.TableID), err)
	}
	for _, rel := range rels {
		if rel.kind == "" {
			return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "split", Object: server.QuoteTable(rel.id), Err: errors.New("there is no such table"), Hint: server.StateHints["42P01"]}
		}
		if rel.kind == "f" {
			v.noteForeign(rel.id)
		}
	}
	return rels, nil
}

func noColumn(m *tidemark.Move, name string) error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: server.QuoteTable(m.From.TableID), Err: errors.New("there is no column " + server.QuoteIdent(name)), Hint: "Name columns of the source table; names are case sensitive."}
}

// splitBounds splits at the user's boundaries. Rows with a NULL among the columns are in the first
// range.
func (v *Reader) splitBounds(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error) {
	s := &m.Split
	if len(s.Columns) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: server.QuoteTable(m.From.TableID), Err: errors.New("boundaries without columns"), Hint: "Name the columns of the boundaries."}
	}
	if err := v.checkBounds(ctx, m); err != nil {
		return nil, err
	}
	n := int64(len(s.Bounds) + 1)
	out := make([]tidemark.Range, n)
	for i := range out {
		r := tidemark.Range{Kind: tidemark.Keys, Columns: s.Columns, Nulls: i == 0, Rows: max(m.From.Rows, 0) / n, Bytes: m.From.Bytes / n}
		if i > 0 {
			r.Lower = s.Bounds[i-1]
		}
		if i < len(s.Bounds) {
			r.Upper = s.Bounds[i]
		}
		out[i] = r
	}
	return out, nil
}

// checkBounds has the server compare the boundaries as it will compare the rows with them:
// boundaries out of order would copy rows twice. It uses a separate session, because an error would
// end the frozen transaction.
func (v *Reader) checkBounds(ctx context.Context, m *tidemark.Move) error {
	object := server.QuoteTable(m.From.TableID)
	var rows []string
	for i, bound := range m.Split.Bounds {
		r := tidemark.Range{Kind: tidemark.Keys, Columns: m.Split.Columns, Lower: bound}
		if _, err := keysSQL(m, &r); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		rows = append(rows, fmt.Sprintf("(%d, (%s) < (%s))", i, boundSQL(m, m.Split.Bounds[i-1]), boundSQL(m, bound)))
	}
	if len(m.Split.Bounds) == 0 {
		return nil
	}
	if len(rows) == 0 {
		one := boundSQL(m, m.Split.Bounds[0])
		rows = append(rows, fmt.Sprintf("(0, (%s) <= (%s))", one, one))
	}
	conn, release, err := v.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	var at int
	err = conn.QueryRow(ctx, "SELECT coalesce(min(n), -1) FROM (VALUES "+strings.Join(rows, ", ")+") v(n, ok) WHERE ok IS NOT TRUE").Scan(&at)
	if err != nil {
		out := v.Fail(ctx, "split", object, err)
		if te, ok := out.(*tidemark.Error); ok && te.Kind != tidemark.Transient && te.Kind != tidemark.Cancelled {
			te.Kind, te.Hint = tidemark.Invalid, "A boundary is not a valid value of its column: correct the boundaries."
		}
		return out
	}
	if at >= 0 {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: object, Err: fmt.Errorf("boundary %d (%s) is not above the one before it", at+1, strings.Join(m.Split.Bounds[at], ", ")), Hint: "Give boundaries in the column's ascending order."}
	}
	return nil
}

func boundSQL(m *tidemark.Move, bound []string) string {
	out := make([]string, len(bound))
	for i, v := range bound {
		out[i] = typed(v, m.From.Column(m.Split.Columns[i]))
	}
	return strings.Join(out, ", ")
}
