package schema

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// No definition from a file or a server makes its reader run longer than its length justifies.
func TestHostileSQL(t *testing.T) {
	t.Parallel()
	a := &tidemark.Column{Name: "a", Type: mysqltype.Parse("int")}
	t.Run("expression", func(t *testing.T) {
		testdb.Linear(t, tidemark.MaxExpression, func(sql string) {
			translate(sql, false, nil, func(string) (*tidemark.Column, string) { return a, "a" })
		})
	})
	for _, place := range []string{"CREATE TABLE t (`id` int, `v` varchar(10) DEFAULT %, KEY `k` (`v`)) ENGINE=InnoDB", "CREATE TABLE t (`id` int GENERATED ALWAYS AS (%), `v` int)", "CREATE TABLE t (`id` int, `v` int, %) ENGINE=InnoDB", "CREATE TABLE t (`id` int, `v` int) %"} {
		t.Run(place, func(t *testing.T) {
			testdb.Linear(t, tidemark.MaxExpression, func(sql string) {
				sql = strings.ReplaceAll(place, "%", sql)
				fromDump(t, dialect{true, 10, 11, 14}, "mysql", "8.0.33", sql)
				fromDump(t, dialect{false, 8, 0, 33}, "mariadb", "10.11.14-MariaDB", sql)
			})
		})
	}
}
