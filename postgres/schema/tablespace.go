package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

const tablesIn = `
SELECT s.spcname, coalesce(n.nspname, ''), coalesce(c.relname, '')
FROM pg_tablespace s
LEFT JOIN (SELECT coalesce(nullif(l.reltablespace, 0), d.dattablespace) AS space, CASE WHEN l.relispartition THEN pg_partition_root(l.oid)::oid ELSE l.oid END AS root
           FROM pg_class l, pg_database d WHERE l.relkind = 'r' AND l.relpersistence <> 't' AND d.datname = current_database()) x ON x.space = s.oid
LEFT JOIN pg_class c ON c.oid = x.root
LEFT JOIN pg_namespace n ON n.oid = c.relnamespace AND ` + userSchema + `
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`

// InTablespaces returns the tables whose rows are stored in one of these tablespaces; a partitioned
// table is included if a partition's rows are. Kind NotFound means that there is no such
// tablespace, or that it has no table of this database.
func (s *Schema) InTablespaces(ctx context.Context, names []string) (out []tidemark.TableID, err error) {
	conn, release, err := s.Leader(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	found, err := server.Rows[struct{ Space, Schema, Table string }](ctx, conn, tablesIn)
	if err != nil {
		return nil, s.Fail(ctx, "read the tablespaces of", s.Object, err)
	}
	tables, known := map[string]int{}, []string{}
	for _, f := range found {
		if n := len(known); n == 0 || known[n-1] != f.Space {
			known = append(known, f.Space)
		}
		if f.Schema == "" {
			continue // contains only system tables, or nothing
		}
		tables[f.Space]++
		if id := (tidemark.TableID{Schema: f.Schema, Name: f.Table}); slices.Contains(names, f.Space) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	for _, name := range names {
		switch {
		case !slices.Contains(known, name):
			return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "select tables", Object: "tablespace " + name, Err: errors.New("the server has none of that name"), Hint: "It has " + strings.Join(known, ", ") + "."}
		case tables[name] == 0:
			return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "select tables", Object: "tablespace " + name, Err: fmt.Errorf("no table of the database %s lies there", s.Config.Database), Hint: "Tables and partitions count, indexes do not: \\d+ shows where a table lies."}
		}
	}
	return out, nil
}
