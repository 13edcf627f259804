package mysql

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// No definition of a file or a server, and no DDL of a log, makes its reader run for longer than its length asks for.
func TestHostileSQL(t *testing.T) {
	t.Parallel()
	a := &tidemark.Column{Name: "a", Type: tidemark.MySQLType("int")}
	t.Run("expression", func(t *testing.T) {
		testdb.Linear(t, tidemark.MaxExpression, func(sql string) {
			translate(sql, func(string) (*tidemark.Column, string) { return a, "a" })
		})
	})
	known := &tableDef{Form: "BASE TABLE", Charset: "utf8mb4", Columns: []defColumn{{Name: "a", Type: "int"}}}
	for _, place := range []string{"CREATE TABLE t (`id` int, `v` varchar(10) DEFAULT %, KEY `k` (`v`)) ENGINE=InnoDB", "CREATE TABLE t (`id` int GENERATED ALWAYS AS (%), `v` int)", "CREATE TABLE t (`id` int, `v` int, %) ENGINE=InnoDB", "CREATE TABLE t (`id` int, `v` int) %"} {
		t.Run(place, func(t *testing.T) {
			testdb.Linear(t, tidemark.MaxExpression, func(sql string) {
				sql = strings.ReplaceAll(place, "%", sql)
				fromDump(t, dialect{true, 10, 11, 14}, "mysql", "8.0.33", sql)
				fromDump(t, dialect{false, 8, 0, 33}, "mariadb", "10.11.14-MariaDB", sql)
				d := &ddlReader{mariadb: true, version: 101100, db: "own", key: func(id tidemark.TableID) tidemark.TableID { return id }, at: func(tidemark.TableID) *tableDef { return known },
					tables:  func(string) []tidemark.TableID { return nil },
					charset: func(string) (string, error) { return "utf8mb4", nil }, holds: func(string, string) (bool, error) { return true, nil }}
				d.read(readStmt(sql, "own"), sql)
			})
		})
	}
}
