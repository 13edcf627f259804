// Package counters tests the generated numbers of rows added to a copy.
package counters

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// In a copy, AUTO_INCREMENT continues where the source's does, with each storage engine, whatever
// rows there are: none, some, or some with the last ones deleted.
func TestAutoIncrement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		source, target *testdb.Server
		engines        []string
	}{
		{"mariadb", testdb.MariaDB(t), testdb.MariaDB(t), []string{"InnoDB", "MyISAM", "Aria"}},
		{"mysql", testdb.MySQL(t), testdb.MySQL(t), []string{"InnoDB", "MyISAM"}},
		{"mysql-mariadb", testdb.MySQL(t), testdb.MariaDB(t), []string{"InnoDB", "MyISAM"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, tgt := c.source.NewDatabase(t, "counters"), c.target.NewDatabase(t, "counters")
			var names []string
			for _, engine := range c.engines {
				for n, rows := range []string{"", "INSERT INTO T (v) VALUES (1), (2)", "INSERT INTO T (v) VALUES (1), (2); DELETE FROM T WHERE v = 2", "INSERT INTO T (v) VALUES (1); DELETE FROM T"} {
					for key, def := range []string{"id int PRIMARY KEY AUTO_INCREMENT, v int", "v int, id bigint unsigned NOT NULL AUTO_INCREMENT, UNIQUE KEY (id), KEY (v)"} {
						name := fmt.Sprintf("%s_%d_%d", strings.ToLower(engine), n, key)
						names = append(names, name)
						testdb.Query(t, src, "CREATE TABLE "+name+" ("+def+") ENGINE="+engine+" AUTO_INCREMENT=500")
						if rows != "" {
							testdb.Query(t, src, strings.NewReplacer("INTO T", "INTO "+name, "FROM T", "FROM "+name).Replace(rows))
						}
					}
				}
			}
			testdb.Must(t, "copy", src, tgt)
			for _, name := range names {
				ask := func(url string) string {
					testdb.Query(t, url, "INSERT INTO "+name+" (v) VALUES (9)")
					return testdb.Query(t, url, "SELECT id, v FROM "+name+" ORDER BY id")
				}
				if a, b := ask(src), ask(tgt); a != b {
					t.Errorf("%s: with one more row\n%s\nat the source and\n%s\non the target", name, a, b)
				}
			}
		})
	}
}
