package promise

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

var (
	creates  = regexp.MustCompile("(?m)^CREATE TABLE (`[^`]+`) \\($")
	numbers  = regexp.MustCompile("(?m)^  (`[^`]+` .*) AUTO_INCREMENT(.*?),?$")
	numbered = regexp.MustCompile(` AUTO_INCREMENT=(\d+)`)
)

// keysMoved writes a dump of mysqldump as phpMyAdmin would have written it: tables without keys,
// and these, the numbering and the foreign keys in ALTER TABLEs at the end.
func keysMoved(t *testing.T, text string) string {
	t.Helper()
	var out, keys, counters, foreign strings.Builder
	table, column, n := "", "", 0
	var lines, adds, refs []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := creates.FindStringSubmatch(line); m != nil {
			table, column, lines, adds, refs = m[1], "", nil, nil, nil
			out.WriteString(line + "\n")
			continue
		}
		if table == "" {
			out.WriteString(line + "\n")
			continue
		}
		def := strings.TrimSuffix(strings.TrimSpace(line), ",")
		switch first, _, _ := strings.Cut(def, " "); {
		case strings.HasPrefix(def, ")"):
			option := ""
			if m := numbered.FindStringSubmatch(def); m != nil {
				def, option = strings.Replace(def, m[0], "", 1), ", AUTO_INCREMENT="+m[1]
			}
			out.WriteString("  " + strings.Join(lines, ",\n  ") + "\n" + def + "\n")
			if len(adds) > 0 {
				keys.WriteString("ALTER TABLE " + table + "\n  ADD " + strings.Join(adds, ",\n  ADD ") + ";\n\n")
			}
			if column != "" {
				counters.WriteString("ALTER TABLE " + table + "\n  MODIFY " + column + option + ";\n\n")
			}
			if len(refs) > 0 {
				foreign.WriteString("ALTER TABLE " + table + "\n  ADD " + strings.Join(refs, ",\n  ADD ") + ";\n\n")
			}
			table = ""
		case first == "CONSTRAINT" && strings.Contains(def, "FOREIGN KEY"):
			refs, n = append(refs, def), n+1
		case strings.HasSuffix(first, "KEY") || first == "PRIMARY" || first == "UNIQUE" || first == "FULLTEXT" || first == "SPATIAL":
			adds, n = append(adds, def), n+1
		default:
			if m := numbers.FindStringSubmatch(line); m != nil {
				column, def, n = m[1]+" AUTO_INCREMENT"+m[2], m[1]+m[2], n+1
			}
			lines = append(lines, def)
		}
	}
	if n == 0 {
		t.Fatal("the dump has no keys")
	}
	return out.String() + "SET SQL_MODE = \"NO_AUTO_VALUE_ON_ZERO\";\n" + keys.String() + counters.String() + foreign.String()
}

// TestKeysMovedIntoAlterTables copies dumps to PostgreSQL as mysqldump writes them, and as
// phpMyAdmin does, with all keys after the rows. pg_dump must see no difference.
func TestKeysMovedIntoAlterTables(t *testing.T) {
	t.Parallel()
	for _, sample := range []string{"sakila/mysql.sql.zst", "chinook/mysql.sql.zst", "northwind/mysql.sql.zst", "world/mysql.sql.zst", "types-zoo/mysql.sql"} {
		t.Run(filepath.Dir(sample), func(t *testing.T) {
			t.Parallel()
			src := testdb.MariaDB(t).NewDatabase(t, "src")
			testdb.Load(t, src, testdb.Sample(t, sample))
			plain := testdb.MySQLDump(t, src, "--skip-triggers")
			text, err := os.ReadFile(strings.TrimPrefix(plain, "file:"))
			if err != nil {
				t.Fatal(err)
			}
			other := keysMoved(t, string(text))
			moved := testdb.Written(t, "moved.sql", other)
			// The files are of one server: MariaDB loads the other one again.
			again := testdb.MariaDB(t).NewDatabase(t, "again")
			testdb.Load(t, again, strings.NewReader(other))

			var schemas [2]string
			for i, file := range []string{plain, moved} {
				dst := testdb.Postgres(t, 16).NewDatabase(t, "dst")
				args := []string{file, dst, "--target-schema", "public", "--zero-dates", "null", "--exclude", "*.t_str", "--exclude", "*.t_enum"}
				for _, verb := range []string{"check", "copy"} {
					o := testdb.Run(t, append([]string{verb, "-v"}, args...)...)
					if o.Code != 0 || strings.Contains(o.Out+o.ErrOut, "ALTER TABLE") {
						t.Fatalf("%s %s: exit %d\n%s%s", verb, file, o.Code, o.Out, o.ErrOut)
					}
				}
				schemas[i] = testdb.PgDump(t, dst)
				testdb.Must(t, "diff", again, dst, "--target-schema", "public", "--zero-dates", "null", "--exclude", "*.t_str", "--exclude", "*.t_enum")
			}
			if schemas[0] != schemas[1] {
				t.Errorf("with the keys in ALTER TABLEs:\n%s", testdb.FirstDifference(schemas[0], schemas[1]))
			}
		})
	}
}
