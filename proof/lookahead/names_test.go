package lookahead

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestNamesOfPostgreSQL copies names that MySQL and MariaDB cannot have: those of tables and
// columns are found before anything is written, those of keys and constraints become others.
func TestNamesOfPostgreSQL(t *testing.T) {
	t.Parallel()
	src := postgres(t).NewDatabase(t, "src")
	testdb.Load(t, src, strings.NewReader(`CREATE TABLE p (id int CONSTRAINT "😀" PRIMARY KEY, u int CONSTRAINT "u😀" UNIQUE, v int CONSTRAINT "c😀" CHECK (v > 0));
CREATE TABLE c (id int PRIMARY KEY, p int CONSTRAINT " " REFERENCES p (id));
CREATE INDEX "i " ON c (id); CREATE INDEX "i`+"\n"+`" ON c (id); CREATE INDEX i ON c (p, id); CREATE INDEX "i😀" ON c (p); CREATE INDEX "i😁" ON c (id, p);
CREATE SEQUENCE "s😀";
INSERT INTO p VALUES (1, 1, 1); INSERT INTO c VALUES (1, 1);
CREATE SCHEMA odd; CREATE TABLE odd."t😀" (id int PRIMARY KEY); CREATE TABLE odd."t " (id int PRIMARY KEY); CREATE TABLE odd.tab ("`+"a\t"+`" int); CREATE TABLE odd."`+"r\r"+`" (id int); CREATE TABLE odd.t (id int PRIMARY KEY, "a😀" int, b int);`))
	for _, s := range []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)} {
		dst := s.NewDatabase(t, "dst")
		out := testdb.Run(t, "copy", src, dst, "--include", "odd.*", "--target-schema", schema(dst), "-v")
		for _, want := range []string{"table odd.t😀", "table odd.t ", "table odd.tab", `table odd.r\r`, "`a😀`", "no emoji", "cannot end with a space"} {
			if out.Code != 12 && out.Code != 2 || !strings.Contains(out.Out+out.ErrOut, want) {
				t.Errorf("%s: exit %d, without %q\n%s", s.Engine, out.Code, want, out.Out+out.ErrOut)
			}
		}
		if left := tables(t, dst); left != "" {
			t.Errorf("%s: a refused copy has made %s", s.Engine, left)
		}
		testdb.Must(t, "copy", src, dst, "--include", "public.*", "--target-schema", schema(dst))
		keys := testdb.Query(t, dst, "SELECT count(DISTINCT table_name, index_name) FROM information_schema.statistics WHERE table_schema = '"+schema(dst)+"'")
		references := testdb.Query(t, dst, "SELECT count(*) FROM information_schema.referential_constraints WHERE constraint_schema = '"+schema(dst)+"'")
		if keys != "8" || references != "1" {
			t.Errorf("%s has %s keys and %s foreign keys", s.Engine, keys, references)
		}
	}
}
