// Package pgtest is shared by the tests of PostgreSQL's packages: it describes tables, prints
// transactions, reads a slot to an end, and binds relations to the tables with their names.
package pgtest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Table describes a table, as far as its rows require.
func Table(t testing.TB, url, name string) *tidemark.Table {
	t.Helper()
	if !strings.Contains(name, ".") {
		name = "public." + name
	}
	literal := server.QuoteLiteral(name)
	kind := testdb.Query(t, url, "SELECT relkind FROM pg_class WHERE oid = "+literal+"::regclass")
	id := strings.SplitN(testdb.Query(t, url, "SELECT nspname || E'\\n' || relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = "+literal+"::regclass"), "\n", 2)
	out := &tidemark.Table{TableID: tidemark.TableID{Schema: id[0], Name: id[1]}, Rows: -1}
	out.Bytes, _ = strconv.ParseInt(testdb.Query(t, url, "SELECT pg_relation_size("+literal+"::regclass)"), 10, 64)
	switch kind {
	case "p":
		out.Form = tidemark.Partitioned
	case "v", "m":
		out.Form = tidemark.View
	}
	columns := testdb.Query(t, url, "SET search_path = pg_catalog; SELECT attname, format_type(atttypid, atttypmod), attgenerated::text <> '' FROM pg_attribute WHERE attrelid = "+literal+
		"::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum")
	for _, line := range Split(columns) {
		f := strings.Split(line, "\t")
		c := tidemark.Column{Name: f[0], Type: tidemark.Type{Native: f[1], Kind: kindByType[f[1]]}}
		if f[2] == "t" {
			c.Generated = "x"
		}
		out.Columns = append(out.Columns, c)
	}
	if key := testdb.Query(t, url, "SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY k(n, o) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n WHERE i.indisprimary AND i.indrelid = "+literal+"::regclass ORDER BY o"); key != "" {
		out.Key = &tidemark.Index{Unique: true}
		for _, name := range Split(key) {
			out.Key.Parts = append(out.Key.Parts, tidemark.IndexPart{Column: name})
		}
	}
	leaves := testdb.Query(t, url, "SELECT nspname, relname FROM pg_partition_tree("+literal+"::regclass) JOIN pg_class c ON c.oid = relid JOIN pg_namespace n ON n.oid = relnamespace WHERE isleaf AND level > 0 ORDER BY 1, 2")
	for _, line := range Split(leaves) {
		f := strings.Split(line, "\t")
		out.Partitions = append(out.Partitions, tidemark.Part{Table: tidemark.TableID{Schema: f[0], Name: f[1]}})
	}
	return out
}

func Split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// ZooTables selects the tables of the types zoo.
const ZooTables = `SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
	WHERE nspname IN ('zoo', 'Mixed Case') AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1`

var kindByType = map[string]tidemark.TypeKind{"text": tidemark.Text, "bytea": tidemark.Blob, "json": tidemark.JSON, "jsonb": tidemark.JSON,
	"xml": tidemark.XML, "boolean": tidemark.Bool, "money": tidemark.Money, "integer": tidemark.Int, "bigint": tidemark.Int, "uuid": tidemark.UUID}
