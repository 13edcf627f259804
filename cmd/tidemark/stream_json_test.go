package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// patches returns n random updates of documents that the source logs as diffs.
func patches(n int) string {
	var b strings.Builder
	b.WriteString("SET binlog_row_value_options = PARTIAL_JSON;\n")
	pick := func(of ...string) string { return of[rand.IntN(len(of))] }
	for range n {
		column := pick("a", "b")
		path := pick("$.n", "$.list[0]", "$.list[last]", "$.list[99]", "$.in.a", "$.in.bb", `$."x y"`, "$.in.c[1].d", "$.ü")
		value := pick("1", "-2.5", "NULL", "'tëxt'", "REPEAT('z', 2000)", "JSON_ARRAY(1, JSON_OBJECT('bb', 1, 'a', 2))", "JSON_OBJECT()", "CAST('2024-02-03 04:05:06.7' AS DATETIME(1))", "true", "x'beef'")
		switch rand.IntN(5) {
		case 0:
			fmt.Fprintf(&b, "UPDATE docs SET %s = JSON_REMOVE(%[1]s, '%s'), n = n + 1 WHERE id %% 5 = %d;\n", column, path, rand.IntN(5))
		case 1:
			fmt.Fprintf(&b, "UPDATE docs SET a = JSON_SET(a, '%s', %s), b = JSON_REPLACE(b, '%[1]s', %s) WHERE id %% 7 = %d;\n", path, value, rand.IntN(7))
		case 2:
			fmt.Fprintf(&b, "SET binlog_transaction_compression = %s; BEGIN; UPDATE docs SET b = JSON_SET(b, '%s', %s); UPDATE docs SET n = 0 WHERE id = %d; COMMIT;\n", pick("ON", "OFF"), path, value, rand.IntN(20))
		default:
			fmt.Fprintf(&b, "UPDATE docs SET %s = JSON_SET(%[1]s, '%s', %s) WHERE id = %d;\n", column, path, value, rand.IntN(20))
		}
	}
	return b.String()
}

// documents returns those of all rows, as values.
func documents(t *testing.T, url string) []any {
	t.Helper()
	var out []any
	for line := range strings.Lines(testdb.Query(t, url, "SELECT concat(id, ' ', coalesce(a, 'null'), ' ', coalesce(b, 'null')) FROM (SELECT id, CAST(a AS char(60000)) AS a, CAST(b AS char(60000)) AS b FROM docs) x ORDER BY id")) {
		in := json.NewDecoder(strings.NewReader(line))
		for range 3 {
			var v any
			if err := in.Decode(&v); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			out = append(out, v)
		}
	}
	return out
}

// TestStreamJSONDiffs follows a source that logs only the changes to documents: the target has
// equal documents, and detects conflicts without false alarms.
func TestStreamJSONDiffs(t *testing.T) {
	t.Parallel()
	for _, x := range []pair{{"mysql to postgres", mysql8, pg15}, {"mysql to mysql", mysql8, mysql8}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			testdb.Query(t, src, "CREATE TABLE docs (id int PRIMARY KEY, n int NOT NULL, a json, b json)")
			var rows []string
			for i := range 20 {
				pad := strings.Repeat("p", 50*i)
				rows = append(rows, fmt.Sprintf(`(%d, 0, '{"n": %[1]d, "list": [1, 2, {"k": 1}], "in": {"a": 1, "c": [0, {"d": 1}]}, "pad": "%s"}', '{"in": {}, "list": [], "pad": "%[2]s"}')`, i, pad))
			}
			testdb.Query(t, src, "INSERT INTO docs VALUES "+strings.Join(rows, ", ")+", (20, 0, NULL, 'null')")
			args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
			must(t, args...)
			for _, rule := range []string{"changed", "all"} {
				follow := func() string {
					t.Helper()
					must(t, append(args, "--conflict", "ignore", "--conflict-rule", rule)...)
					return must(t, "exceptions", dst, "--name", name).out
				}
				testdb.Load(t, src, strings.NewReader(patches(20)))
				if o := follow(); o != "no exceptions\n" {
					t.Errorf("%s: what nobody has touched does not fit\n%s", rule, o)
				}
				const set = "SET binlog_row_value_options = PARTIAL_JSON; UPDATE docs SET a = JSON_SET(a, '$.pad', '%s') WHERE id = 19"
				testdb.Query(t, dst, `UPDATE docs SET a = '{"pad": "other"}' WHERE id = 19`)
				testdb.Query(t, src, fmt.Sprintf(set, rule))
				if o := follow(); strings.Count(o, "(transaction at") != 1 {
					t.Errorf("%s: a document that is another on the target:\n%s", rule, o)
				}
				must(t, "exceptions", dst, "--name", name, "--purge", "0s")
				testdb.Query(t, src, fmt.Sprintf(set, "again"))
				must(t, append(args, "--conflict", "force", "--conflict-rule", rule)...)
				must(t, "exceptions", dst, "--name", name, "--purge", "0s")
			}
			mode := []string{"batch", "transactional"}[rand.IntN(2)]
			t.Logf("mode %s", mode)
			f := running(t, "replicate", src, dst, "--name", name, "--apply-mode", mode)
			testdb.Load(t, src, strings.NewReader(patches(150)))
			f.interrupt()
			equal(t, src, dst, name)
			if d := cmp.Diff(documents(t, src), documents(t, dst)); d != "" {
				t.Errorf("documents differ: %.3000s", d)
			}
		})
	}
}
