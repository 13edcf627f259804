package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// Rows runs a query and gives its rows as structs, whose fields are its columns in order.
func Rows[T any](ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]*T, error) {
	r, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%w (in: %s)", err, Brief(sql))
	}
	out, err := pgx.CollectRows(r, pgx.RowToAddrOfStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("%w (in: %s)", err, Brief(sql))
	}
	return out, nil
}

// Brief is enough of a query to know it by.
func Brief(sql string) string {
	s := strings.Join(strings.Fields(sql), " ")
	return s[:min(len(s), 120)]
}

// Texts gives the one column of a query.
func Texts(ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]string, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// ByName gives tables as the two array parameters of a query.
func ByName(tables []tidemark.TableID) (schemas, names []string) {
	schemas, names = make([]string, len(tables)), make([]string, len(tables))
	for i, t := range tables {
		schemas[i], names[i] = t.Schema, t.Name
	}
	return schemas, names
}

// WantedSQL is the join of a query's tables with the catalogue; $1 and $2 are names.
const WantedSQL = ` FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, i)
	JOIN pg_namespace n ON n.nspname = w.schema LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name `
