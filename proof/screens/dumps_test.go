package screens

import (
	"os"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A file that holds no SQL is not "truncated": to make it again would not help. One that is cut is.
func TestNoDump(t *testing.T) {
	t.Parallel()
	target := testdb.Postgres(t, 15).NewDatabase(t, "target")
	for text, want := range map[string]string{
		"root:x:0:0:root:/root:/bin/bash\nme:x:1:1:\n": `it is not SQL, but begins with "root:x:0:0`,
		"Dear all,\nthis is a letter":                  `it is not SQL, but begins with "Dear all,"`,
		"{\"a\": 1}\n":                                 "it is not SQL",
		"CREATE TABLE t (id int":                       "The file is truncated",
		"-- a comment\nCREATE TABLE t (id int); CREA":  "The file is truncated",
	} {
		file := t.TempDir() + "/file.sql"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := testdb.Run(t, "copy", file, target, "--prep", "drop", "--state", t.TempDir()+"/c.db")
		if o.Code != 15 || !strings.Contains(o.ErrOut, want) || strings.Contains(o.ErrOut, "not SQL") == strings.Contains(o.ErrOut, "is truncated") {
			t.Errorf("%q: exit %d, not 15 with %q\n%s", text, o.Code, want, o.ErrOut)
		}
	}
}
