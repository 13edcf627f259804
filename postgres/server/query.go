package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// Ask runs a query. Without parameters it costs one round trip and keeps no prepared statement: the
// types are known without asking.
func Ask(ctx context.Context, conn *pgx.Conn, sql string, args ...any) (pgx.Rows, error) {
	if len(args) == 0 {
		return conn.Query(ctx, sql, pgx.QueryExecModeExec)
	}
	return conn.Query(ctx, sql, args...)
}

// Rows runs a query and returns its rows as structs whose fields are its columns in order.
func Rows[T any](ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]*T, error) {
	r, err := Ask(ctx, conn, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%w (in: %s)", err, Brief(sql))
	}
	out, err := pgx.CollectRows(r, pgx.RowToAddrOfStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("%w (in: %s)", err, Brief(sql))
	}
	return out, nil
}

// Brief returns enough of a query to identify it.
func Brief(sql string) string {
	s := strings.Join(strings.Fields(sql), " ")
	return s[:min(len(s), 120)]
}

// Texts returns the values of a query's only column.
func Texts(ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]string, error) {
	rows, err := Ask(ctx, conn, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// ByName splits tables into two array parameters for a query.
func ByName(tables []tidemark.TableID) (schemas, names []string) {
	schemas, names = make([]string, len(tables)), make([]string, len(tables))
	for i, t := range tables {
		schemas[i], names[i] = t.Schema, t.Name
	}
	return schemas, names
}

// WantedSQL joins a query's tables with the catalogue; $1 and $2 are the arrays from ByName.
const WantedSQL = ` FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(schema, name, i)
	JOIN pg_namespace n ON n.nspname = w.schema LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name `
