package bulk

import (
	"context"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Large objects travel as rows (loid, pageno, data) of 2048-byte pages, as pg_largeobject stores
// them; an empty one is a row whose pageno and data are NULL.

// largeObjectSQL returns the query for them. Only a superuser may read pg_largeobject; other users
// read the objects that they may, one by one.
func (v *Reader) largeObjectSQL(ctx context.Context, where string) (string, error) {
	direct, err := v.readsLargeObjects(ctx)
	if err != nil {
		return "", err
	}
	ids := "(SELECT oid AS loid FROM pg_largeobject_metadata) m"
	if where != "" {
		where = " WHERE " + where
	}
	ids = "(SELECT * FROM " + ids + where + ") m"
	if direct {
		return "SELECT m.loid, l.pageno, l.data FROM " + ids + " LEFT JOIN pg_largeobject l ON l.loid = m.loid ORDER BY 1, 2", nil
	}
	return `SELECT m.loid, p.pageno, CASE WHEN p.pageno IS NOT NULL THEN substring(d.data from p.pageno * 2048 + 1 for 2048) END
		FROM ` + ids + ` CROSS JOIN LATERAL (SELECT lo_get(m.loid) AS data OFFSET 0) d
		LEFT JOIN LATERAL generate_series(0, (octet_length(d.data) - 1) / 2048) p(pageno) ON octet_length(d.data) > 0`, nil
}

func (v *Reader) readsLargeObjects(ctx context.Context) (yes bool, err error) {
	conn, release, err := v.Leader(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	err = conn.QueryRow(ctx, "SELECT has_table_privilege('pg_largeobject', 'SELECT')").Scan(&yes)
	return yes, v.Fail(ctx, "read", "large objects", err)
}

// splitLargeObjects splits large objects by number, at the quantiles of their numbers.
func (v *Reader) splitLargeObjects(ctx context.Context, m *tidemark.Move) ([]tidemark.Range, error) {
	conn, release, err := v.Leader(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var bytes int64
	if err := conn.QueryRow(ctx, "SELECT pg_relation_size('pg_largeobject')").Scan(&bytes); err != nil {
		return nil, v.Fail(ctx, "split", "large objects", err)
	}
	n := min((bytes+rangeBytes(m)-1)/rangeBytes(m), maxRanges(m))
	if m.Split.Kind == tidemark.SplitNone || n <= 1 {
		return []tidemark.Range{{Kind: tidemark.Whole, Bytes: bytes}}, nil
	}
	bounds, err := server.Texts(ctx, conn, `SELECT oid::text FROM (SELECT oid, bucket, lag(bucket) OVER (ORDER BY oid) AS before
		FROM (SELECT oid, ntile($1::int) OVER (ORDER BY oid) AS bucket FROM pg_largeobject_metadata) t) u WHERE before <> bucket ORDER BY u.oid`, n)
	if err != nil {
		return nil, v.Fail(ctx, "split", "large objects", err)
	}
	out := make([]tidemark.Range, len(bounds)+1)
	for i := range out {
		r := tidemark.Range{Kind: tidemark.Keys, Columns: []string{"loid"}, Bytes: bytes / int64(len(out))}
		if i > 0 {
			r.Lower = []string{bounds[i-1]}
		}
		if i < len(bounds) {
			r.Upper = []string{bounds[i]}
		}
		out[i] = r
	}
	return out, nil
}

// Rows of large objects are collected in a temporary table and written into objects by the server's
// own functions, which everybody may call; only superusers can write pg_largeobject itself.
const (
	largeObjectStage = `CREATE TEMP TABLE tidemark_lo(loid oid, pageno int4, data bytea) ON COMMIT DROP`
	largeObjectCopy  = `pg_temp.tidemark_lo (loid, pageno, data)`
)

var largeObjectStore = strings.Join([]string{
	`SELECT count(lo_create(loid)) FROM (SELECT DISTINCT loid FROM pg_temp.tidemark_lo) s
		WHERE NOT EXISTS (SELECT 1 FROM pg_largeobject_metadata m WHERE m.oid = s.loid)`,
	`SELECT count(lo_put(loid, pageno::bigint * 2048, data)) FROM pg_temp.tidemark_lo WHERE pageno IS NOT NULL`,
}, "; ")

// LoadStatements load rows of a range from psql's standard input.
func (b *Bulk) LoadStatements(m *tidemark.Move, r *tidemark.Range) []string {
	if m.From.Form == tidemark.LargeObjects {
		return []string{strings.TrimSuffix(largeObjectStage, " ON COMMIT DROP"), "COPY " + largeObjectCopy + " FROM STDIN", largeObjectStore}
	}
	var cols []string
	for _, name := range m.Source {
		cols = append(cols, server.QuoteIdent(name))
	}
	list := ""
	if len(cols) > 0 {
		list = " (" + strings.Join(cols, ", ") + ")"
	}
	return []string{"COPY " + server.QuoteTable(sourceTable(m, r)) + list + " FROM STDIN"}
}
