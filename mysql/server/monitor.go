package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
)

// Monitor appends a row to the monitor table tidemark_NAME, which it creates or extends if needed,
// and deletes rows older than KeepMonitor. The first measure is the time; times are UTC there.
func (e *Server) Monitor(ctx context.Context, name string, row []tidemark.Measure) error {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return err
	}
	defer back()
	at, err := e.OwnTable(ctx, "tidemark_"+name)
	if err != nil {
		return err
	}
	var columns, defined, values []string
	for _, m := range row {
		kind, value := "text", ""
		switch v := m.Value.(type) {
		case time.Time:
			kind, value = "datetime(6)", timeLiteral(v)
		case int64:
			kind, value = "bigint", fmt.Sprint(v)
		case float64:
			kind, value = "double", fmt.Sprint(v)
		default:
			value = Literal(fmt.Sprint(v))
		}
		columns = append(columns, Quote(m.Name))
		defined, values = append(defined, Quote(m.Name)+" "+kind), append(values, value)
	}
	insert := "INSERT INTO " + at + " (" + strings.Join(columns, ",") + ") VALUES (" + strings.Join(values, ",") + ")"
	err = s.Exec(ctx, insert)
	var my *gomysql.MyError
	if errors.As(err, &my) && my.Code == gomysql.ER_NO_SUCH_TABLE {
		if err = s.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+at+" ("+strings.Join(defined, ",")+", KEY ("+columns[0]+"))"); err == nil {
			err = s.Exec(ctx, insert)
		}
	}
	if errors.As(err, &my) && my.Code == gomysql.ER_BAD_FIELD_ERROR { // an earlier version created the table
		if err = widen(ctx, s, at, columns, defined); err == nil {
			err = s.Exec(ctx, insert)
		}
	}
	if err == nil {
		err = s.Exec(ctx, "DELETE FROM "+at+" WHERE "+columns[0]+" < "+timeLiteral(time.Now().Add(-tidemark.KeepMonitor)))
	}
	return e.Fail("write monitor table", at, err)
}

func timeLiteral(t time.Time) string {
	if t.IsZero() {
		return "NULL"
	}
	return Literal(t.UTC().Format("2006-01-02 15:04:05.000000"))
}

// widen adds the missing columns to a table.
func widen(ctx context.Context, s *Session, table string, columns, defined []string) error {
	r, err := s.Query(ctx, "SHOW COLUMNS FROM "+table)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for i := range r.RowNumber() {
		name, err := r.GetString(i, 0)
		if err != nil {
			return err
		}
		has[Quote(name)] = true
	}
	var lacks []string
	for i, c := range columns {
		if !has[c] {
			lacks = append(lacks, "ADD COLUMN "+defined[i])
		}
	}
	return s.Exec(ctx, "ALTER TABLE "+table+" "+strings.Join(lacks, ", "))
}
