package bulk

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// keysOfText are the foreign keys of text of some tables that the server holds for valid. The
// columns that are referred to decide, by their collations, what is equal.
const keysOfText = `SELECT n.nspname, t.relname, c.conname, refs.nspname, ref.relname, min(a.attname),
 string_agg(format('c.%I IS NOT NULL', a.attname), ' AND '),
 string_agg(format('p.%I = c.%I', b.attname, a.attname) || CASE WHEN l.oid IS NULL THEN '' ELSE format(' COLLATE %I.%I', ls.nspname, l.collname) END, ' AND ')
FROM pg_constraint c
JOIN pg_class t ON t.oid = c.conrelid JOIN pg_namespace n ON n.oid = t.relnamespace
JOIN pg_class ref ON ref.oid = c.confrelid JOIN pg_namespace refs ON refs.oid = ref.relnamespace,
unnest(c.conkey, c.confkey) k(own, its)
JOIN pg_attribute a ON a.attnum = own JOIN pg_attribute b ON b.attnum = its
LEFT JOIN pg_collation l ON l.oid = b.attcollation LEFT JOIN pg_namespace ls ON ls.oid = l.collnamespace
WHERE a.attrelid = c.conrelid AND b.attrelid = c.confrelid AND c.contype = 'f' AND c.convalidated AND c.conparentid = 0
AND (n.nspname, t.relname) IN (SELECT * FROM unnest($1::text[], $2::text[]))
GROUP BY 1, 2, 3, 4, 5 HAVING bool_or(l.oid IS NOT NULL) ORDER BY 1, 2, 3`

// Astray counts the rows of these tables that do not fulfil a foreign key of text, by key: a stream
// writes without the checks of foreign keys, and its source may know spellings as equal that this
// server does not. Keys without such rows are left out.
func (v *Reader) Astray(ctx context.Context, tables []tidemark.TableID) (out []tidemark.Doubt, err error) {
	conn, release, err := v.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var schemas, names []string
	for _, t := range tables {
		schemas, names = append(schemas, t.Schema), append(names, t.Name)
	}
	rows, err := conn.Query(ctx, keysOfText, schemas, names)
	if err != nil {
		return nil, v.Fail(ctx, "check", "foreign keys", err)
	}
	var statements []string
	var d tidemark.Doubt
	var ref tidemark.TableID
	var given, same string
	_, err = pgx.ForEachRow(rows, []any{&d.Table.Schema, &d.Table.Name, &d.ForeignKey, &ref.Schema, &ref.Name, &d.Column, &given, &same}, func() error {
		d.What = "no row of " + ref.String() + " that they refer to has the same text"
		out = append(out, d)
		statements = append(statements, fmt.Sprintf("SELECT count(*) FROM %s c WHERE %s AND NOT EXISTS (SELECT FROM %s p WHERE %s)",
			server.QuoteTable(d.Table), given, server.QuoteTable(ref), same))
		return nil
	})
	for i := 0; i < len(out) && err == nil; i++ {
		err = conn.QueryRow(ctx, statements[i], pgx.QueryExecModeSimpleProtocol).Scan(&out[i].Rows)
	}
	if err != nil {
		return nil, v.Fail(ctx, "check", "foreign keys", err)
	}
	return slices.DeleteFunc(out, func(d tidemark.Doubt) bool { return d.Rows == 0 }), nil
}
