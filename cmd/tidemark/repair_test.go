package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// spoil gives each row of the tables with a key the values of another one, or deletes it if it
// cannot be renumbered, and returns how many tables there were.
func spoil(t *testing.T, url string) int {
	t.Helper()
	quote, quiet, own := `"`, "SET session_replication_role = replica; ", "table_schema NOT IN ('pg_catalog', 'information_schema')"
	if !strings.HasPrefix(url, "postgres") {
		quote, quiet, own = "`", "SET foreign_key_checks = 0; ", "table_schema = DATABASE()"
	}
	tables := testdb.Query(t, url, "SELECT k.table_schema, k.table_name, min(k.column_name) FROM information_schema.key_column_usage k JOIN information_schema.table_constraints c USING (constraint_name, table_schema, table_name) WHERE constraint_type = 'PRIMARY KEY' AND k."+own+" GROUP BY k.table_schema, k.table_name")
	for line := range strings.Lines(tables) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i := range f {
			f[i] = quote + strings.ReplaceAll(f[i], quote, quote+quote) + quote
		}
		name, key := f[0]+"."+f[1], f[2]
		if _, err := testdb.TryQuery(url, quiet+fmt.Sprintf("UPDATE %s SET %s = %s + 1000", name, key, key)); err == nil {
			testdb.Query(t, url, quiet+fmt.Sprintf("UPDATE %s SET %s = %s - 999", name, key, key))
			continue
		}
		testdb.Query(t, url, quiet+"DELETE FROM "+name)
	}
	return strings.Count(tables, "\n") + 1
}

// noMember excludes the zoo's row with an ENUM value that is no member of the ENUM.
const noMember = "tables: {'*.t_enum': {where: 'id <> 7'}}"

// TestRepairTypes spoils a copy of every type, repairs it, and finds it equal.
func TestRepairTypes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		from, to func(*testing.T) *testdb.Server
		file     string
		args     []string
		task     string
	}{
		{"postgres to postgres", pg15, pg15, "pg.sql", []string{"--exclude", "*.child"}, ""}, // it has no key, and is renumbered with its parent
		{"mariadb to mariadb", maria, maria, "mysql.sql", []string{"--zero-dates", "null"}, noMember},
		{"mariadb to postgres", maria, pg15, "mysql.sql", []string{"--zero-dates", "null", "--exclude", "*.t_str"}, noMember},
		{"postgres to mysql", pg15, mysql8, "pg.sql", []string{"--unrepresentable", "null", "--exclude", "*.zero_cols", "--exclude", "*.fk_*"}, zooInMySQL},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst := filled(t, x.from(t), "types-zoo/"+x.file), x.to(t).NewDatabase(t, "dst")
			args := append([]string{src, dst}, x.args...)
			if x.task != "" {
				args = append(args, "--config", taskFile(t, x.task))
			}
			must(t, append([]string{"copy"}, args...)...)
			if n := spoil(t, dst); n < 5 {
				t.Fatalf("%d tables with a key", n)
			}
			log := t.TempDir() + "/log"
			o := must(t, append([]string{"repair", "--execute", "--print", "--repair-log", log}, args...)...)
			for _, verb := range []string{"INSERT INTO ", "UPDATE ", "DELETE FROM "} {
				if !strings.Contains(o.out, verb) {
					t.Errorf("no %q in\n%s", verb, o.out)
				}
			}
			if text, err := os.ReadFile(log); err != nil || !json.Valid([]byte("["+strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ",")+"]")) {
				t.Errorf("the log is not JSON: %v", err)
			}
			must(t, append([]string{"diff"}, args...)...)
		})
	}
}
