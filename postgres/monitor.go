package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Monitor appends a row to the monitor table tidemark.NAME, which it makes if it is not
// there, or gives the columns that it lacks, and takes out what is older than KeepMonitor. The first measure is the time.
func (e *Engine) Monitor(ctx context.Context, name string, row []tidemark.Measure) error {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return err
	}
	defer release()
	table := "tidemark." + quoteIdent(name)
	var columns, places []string
	var defined []string
	var values []any
	for i, m := range row {
		kind := "text"
		switch v := m.Value.(type) {
		case time.Time:
			if kind = "timestamptz"; v.IsZero() {
				m.Value = nil
			}
		case int64:
			kind = "bigint"
		case float64:
			kind = "double precision"
		}
		columns, places = append(columns, quoteIdent(m.Name)), append(places, fmt.Sprintf("$%d", i+1))
		defined, values = append(defined, quoteIdent(m.Name)+" "+kind), append(values, m.Value)
	}
	insert := "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(places, ", ") + ")"
	if _, err = conn.Exec(ctx, insert, values...); sqlState(err) == "42P01" || sqlState(err) == "3F000" {
		if _, err = conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS tidemark; CREATE TABLE IF NOT EXISTS "+table+" ("+strings.Join(defined, ", ")+"); CREATE INDEX IF NOT EXISTS "+quoteIdent(name+"_time")+" ON "+table+" ("+columns[0]+")"); err == nil {
			_, err = conn.Exec(ctx, insert, values...)
		}
	}
	if sqlState(err) == "42703" { // the table is of an earlier version
		if _, err = conn.Exec(ctx, "ALTER TABLE "+table+" ADD COLUMN IF NOT EXISTS "+strings.Join(defined, ", ADD COLUMN IF NOT EXISTS ")); err == nil {
			_, err = conn.Exec(ctx, insert, values...)
		}
	}
	if err == nil {
		_, err = conn.Exec(ctx, "DELETE FROM "+table+" WHERE "+columns[0]+" < $1", time.Now().Add(-tidemark.KeepMonitor))
	}
	return e.failGrant(ctx, "write monitor table", table, err, "CREATE ON DATABASE "+quoteIdent(e.cfg.Database))
}
