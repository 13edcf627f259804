package schema

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// The server refuses each foreign key that Render predicts it refuses, and accepts every other one
// as Render writes it, without ALGORITHM=COPY where Render omits that: each action with each kind
// of column and check.
func TestActionsBesideComputedColumns(t *testing.T) {
	t.Parallel()
	bodies := []string{
		"pid int", "pid int, g int as (pid+1) stored", "pid int, g int as (pid+1) virtual", "pid int, g int as (pid+1) virtual, key(g)",
		"pid int, g int as (pid+1) virtual, h int as (g+1) stored", "pid int, g int as (pid+1) stored, h int as (g+1) virtual",
		"o int, pid int as (o+1) stored", "pid int, check (pid > 0)", "pid int, o int, check (o > 0)", "pid int check (pid <> 7)",
		"o int, pid int, g varchar(9) as (concat('pid', o)) stored", "pid int, g int as (`PiD`+1) stored",
	}
	actions := []string{"", "CASCADE", "SET NULL"}
	for _, server := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
		t.Run(server.Engine, func(t *testing.T) {
			t.Parallel()
			url := server.NewDatabase(t, "actions")
			testdb.Query(t, url, "CREATE TABLE p (id int PRIMARY KEY)")
			r := &renderer{to: dialectOf(server.Engine, server.Version)}
			copies, refusals := 0, 0
			for _, body := range bodies {
				for _, del := range actions {
					for _, upd := range actions {
						testdb.Query(t, url, "DROP TABLE IF EXISTS c; CREATE TABLE c (id int PRIMARY KEY, "+body+")")
						_, create, _ := strings.Cut(testdb.Query(t, url, "SHOW CREATE TABLE c"), "CREATE")
						clause, refused := r.algorithm(readComputed("CREATE"+create), &tidemark.ForeignKey{OnDelete: del, OnUpdate: upd}, []string{"pid"})
						add := "SET foreign_key_checks = 0; ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (pid) REFERENCES p (id)"
						for when, action := range map[string]string{" ON DELETE ": del, " ON UPDATE ": upd} {
							if action != "" {
								add += when + action
							}
						}
						if clause != "" {
							copies++
							if _, err := testdb.TryQuery(url, add); err == nil {
								t.Errorf("%s: %s is taken without %s", body, add, clause)
							}
						}
						_, err := testdb.TryQuery(url, add+clause)
						if (err != nil) != (refused != "") {
							t.Errorf("%s: %s%s: said to be refused for %q, the server says %v", body, add, clause, refused, err)
						}
						if err != nil {
							refusals++
						}
					}
				}
			}
			if refusals == 0 || (copies > 0) != (server.Engine == "mariadb") {
				t.Errorf("%d refused, %d copied", refusals, copies)
			}
		})
	}
}
