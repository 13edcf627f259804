package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// TestHostileExpressions: the time to translate an expression is linear in its length.
func TestHostileExpressions(t *testing.T) {
	t.Parallel()
	testdb.Linear(t, tidemark.MaxExpression, func(sql string) {
		newExpr(sql, "mysql", func(string) (value, error) { return value{sql: "a", class: intClass}, nil }).parse()
	})
}

// Columns that refer twice to the one before would double with each: a table of such is short.
func TestColumnsOfColumnsAreBounded(t *testing.T) {
	table := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "t"}, Columns: []tidemark.Column{mysqlColumn("c0", "int")}}
	for i := range 60 {
		c := mysqlColumn(fmt.Sprintf("c%d", i+1), "int")
		c.Generated = fmt.Sprintf("(`c%d` + `c%d`)", i, i)
		table.Columns = append(table.Columns, c)
	}
	db := &tidemark.Database{Engine: "mysql", Tables: []*tidemark.Table{table}}
	objects, findings := (&Schema{Server: &server.Server{}}).Render(db, all(db))
	length := 0
	for _, o := range objects {
		length += len(strings.Join(o.SQL, ""))
	}
	if length > 4*tidemark.MaxExpression || !strings.Contains(strings.Join(findingLines(findings), "\n"), "become too long") {
		t.Errorf("%d bytes, findings %v", length, findingLines(findings))
	}
}
