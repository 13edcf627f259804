package postgres

import "github.com/jackc/pgx/v5/pgconn"

// A lane is a session that moves rows or runs statements.
type lane struct {
	id   int
	conn *pgconn.PgConn
}

func (l *lane) close() {}
