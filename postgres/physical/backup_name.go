package physical

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// NamePage returns the relation that the page at an offset of a file belongs to, as far as the
// server knows: "public.item (base/5/16384) block 12".
func (d *dataFolder) NamePage(ctx context.Context, f *tidemark.DataFile, at int64) string {
	where := fmt.Sprintf("%s block %d", f.Path, d.block(f, at))
	r, ok := parseRelation(path.Base(f.Path))
	if !ok {
		return where
	}
	words := strings.Split(f.Path, "/")
	space, database := "0", words[len(words)-2] // 0: the database's own tablespace
	switch words[0] {
	case "global":
		space, database = "1664", ""
	case spaceFolder:
		space = words[1]
	}
	name, err := d.relationName(ctx, database, space, r.number)
	if err != nil || name == "" {
		return where // dropped in the meantime, or the damage is in its name
	}
	fork := ""
	if r.fork != "" {
		fork = ", " + r.fork
	}
	return fmt.Sprintf("%s (%s%s) block %d", name, f.Path, fork, d.block(f, at))
}

// relationName asks in the relation's own database: no other one knows its name.
func (d *dataFolder) relationName(ctx context.Context, database, space, number string) (name string, err error) {
	d.namesMu.Lock()
	defer d.namesMu.Unlock()
	conn := d.names[database]
	if conn == nil {
		if conn, err = d.connectTo(ctx, database); err != nil {
			return "", err
		}
		d.names[database] = conn
	}
	err = conn.QueryRow(ctx, `SELECT coalesce((SELECT current_database() || '.' || n.nspname || '.' || c.relname
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = pg_filenode_relation($1::oid, $2::oid)), '')`, space, number).Scan(&name)
	return name, err
}

// connectTo opens a session in the database with this number; "" is our own.
func (d *dataFolder) connectTo(ctx context.Context, database string) (*pgx.Conn, error) {
	conn, err := d.e.Connect(ctx)
	if err != nil || database == "" {
		return conn, err
	}
	defer server.CloseConn(conn)
	cfg := d.e.Config.Copy()
	if err := conn.QueryRow(ctx, "SELECT datname FROM pg_database WHERE oid = $1::oid AND datallowconn", database).Scan(&cfg.Database); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, cfg)
}
