package schema

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Columns read in parts are the same as those read in one statement.
func TestColumnsInParts(t *testing.T) {
	t.Parallel()
	for _, srv := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
		t.Run(srv.Engine, func(t *testing.T) {
			t.Parallel()
			url := srv.NewDatabase(t, "parts")
			for i := range 12 {
				testdb.Query(t, url, fmt.Sprintf("CREATE TABLE `T%d é` (id int PRIMARY KEY, a%d varchar(%d), g int AS (id + 1))", i, i, i+1))
			}
			e := schemaOf(t, url)
			var got [2][]*tidemark.Table
			for i, parts := range []int{1, 5} {
				err := e.OnSession(t.Context(), "describe", "", func(s *server.Session) error {
					d := &describer{e: e, c: s.Client, want: func(tidemark.TableID) bool { return true }, tables: map[tidemark.TableID]*tidemark.Table{},
						auto: map[tidemark.TableID]uint64{}, json: map[columnID]bool{}, db: &tidemark.Database{}}
					if err := d.readTables(); err != nil {
						return err
					}
					if err := d.readColumnsIn(parts); err != nil {
						return err
					}
					for _, id := range d.bases {
						got[i] = append(got[i], d.tables[id])
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(got[0]) != 12 || len(got[0][3].Columns) != 3 || !reflect.DeepEqual(got[0], got[1]) {
				t.Errorf("%d tables in one part, %d in five, and they differ", len(got[0]), len(got[1]))
			}
		})
	}
}
