package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Monitor appends a row to the monitor table tidemark.NAME, which it creates or extends if needed,
// and deletes rows older than KeepMonitor. The first measure is the time.
func (s *Server) Monitor(ctx context.Context, name string, row []tidemark.Measure) error {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	table := "tidemark." + QuoteIdent(name)
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
		columns, places = append(columns, QuoteIdent(m.Name)), append(places, fmt.Sprintf("$%d", i+1))
		defined, values = append(defined, QuoteIdent(m.Name)+" "+kind), append(values, m.Value)
	}
	insert := "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(places, ", ") + ")"
	if _, err = conn.Exec(ctx, insert, values...); SQLState(err) == "42P01" || SQLState(err) == "3F000" {
		if _, err = conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS tidemark; CREATE TABLE IF NOT EXISTS "+table+" ("+strings.Join(defined, ", ")+"); CREATE INDEX IF NOT EXISTS "+QuoteIdent(name+"_time")+" ON "+table+" ("+columns[0]+")"); err == nil {
			_, err = conn.Exec(ctx, insert, values...)
		}
	}
	if SQLState(err) == "42703" { // the table is of an earlier version
		if _, err = conn.Exec(ctx, "ALTER TABLE "+table+" ADD COLUMN IF NOT EXISTS "+strings.Join(defined, ", ADD COLUMN IF NOT EXISTS ")); err == nil {
			_, err = conn.Exec(ctx, insert, values...)
		}
	}
	if err == nil {
		_, err = conn.Exec(ctx, "DELETE FROM "+table+" WHERE "+columns[0]+" < $1", time.Now().Add(-tidemark.KeepMonitor))
	}
	return s.FailGrant(ctx, "write monitor table", table, err, "CREATE ON DATABASE "+QuoteIdent(s.Config.Database))
}
