package lookahead

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Each verb reports an exclude rule that matches nothing, but not one that excludes a table or a
// view.
func TestExcludeWithoutEffect(t *testing.T) {
	t.Parallel()
	const make = "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); CREATE VIEW v AS SELECT id FROM a"
	dump := filepath.Join(t.TempDir(), "d.sql")
	if err := os.WriteFile(dump, []byte("-- MySQL dump 10.13\nCREATE TABLE `a` (id int PRIMARY KEY);\nINSERT INTO a VALUES (1);\nCREATE TABLE `b` (id int PRIMARY KEY);\nINSERT INTO b VALUES (1);\n-- Dump completed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	maria, post := testdb.MariaDB(t).NewDatabase(t, "unused"), testdb.Postgres(t, 17).NewDatabase(t, "unused")
	for _, url := range []string{maria, post} {
		testdb.Query(t, url, make)
	}
	const says = "matches no table or view"
	for i, c := range []struct{ source, schema, name string }{{maria, schema(maria), "maria"}, {post, "public", "post"}, {"file:" + dump, "", "dump"}} {
		tgt := testdb.MariaDB(t).NewDatabase(t, "unused")
		if c.schema == "" {
			c.schema = schema(tgt)
		}
		verbs := []string{"copy --plan", "check", "copy --prep drop", "diff", "repair", "replicate --name unused_" + c.name + " --until now --prep drop"}
		for _, call := range verbs[:[]int{6, 6, 3}[i]] {
			for pattern, effect := range map[string]bool{".b": true, ".nothing*": false} {
				f := strings.Fields(call)
				out := testdb.Run(t, append([]string{f[0], c.source, tgt, "--target-schema", schema(tgt), "--exclude", c.schema + pattern}, f[1:]...)...)
				if out.Code > 1 {
					t.Fatalf("%s %s: %d\n%s\n%s", c.name, call, out.Code, out.Out, out.ErrOut)
				}
				if said := strings.Contains(out.Out+out.ErrOut, says); said == effect {
					t.Errorf("%s %s --exclude %s: told of is %v\n%s\n%s", c.name, call, c.schema+pattern, said, out.Out, out.ErrOut)
				}
				if f[0] == "replicate" {
					testdb.Must(t, "replicate", c.source, tgt, "--name", "unused_"+c.name, "--remove")
				}
			}
		}
		if out := testdb.Run(t, "check", c.source, tgt, "--target-schema", schema(tgt), "--exclude", c.schema+".v"); c.name != "dump" && strings.Contains(out.Out, says) {
			t.Errorf("%s: a view that is left out: %s", c.name, out.Out)
		}
	}
}
