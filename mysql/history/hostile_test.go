package history

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// No DDL in a log makes its reader run longer than its length justifies.
func TestHostileDDL(t *testing.T) {
	t.Parallel()
	known := &Definition{Form: "BASE TABLE", Charset: "utf8mb4", Columns: []Column{{Name: "a", Type: "int"}}}
	for _, place := range []string{"CREATE TABLE t (`id` int, `v` varchar(10) DEFAULT %, KEY `k` (`v`)) ENGINE=InnoDB", "CREATE TABLE t (`id` int GENERATED ALWAYS AS (%), `v` int)", "CREATE TABLE t (`id` int, `v` int, %) ENGINE=InnoDB", "CREATE TABLE t (`id` int, `v` int) %"} {
		t.Run(place, func(t *testing.T) {
			testdb.Linear(t, tidemark.MaxExpression, func(sql string) {
				sql = strings.ReplaceAll(place, "%", sql)
				d := &Reader{Mariadb: true, Version: 101100, DB: "own", Key: func(id tidemark.TableID) tidemark.TableID { return id }, At: func(tidemark.TableID) *Definition { return known },
					Tables:  func(string) []tidemark.TableID { return nil },
					Charset: func(string) (string, error) { return "utf8mb4", nil }, Holds: func(string, string) (bool, error) { return true, nil }}
				d.Read(ReadStatement(sql, "own"), sql)
			})
		})
	}
}
