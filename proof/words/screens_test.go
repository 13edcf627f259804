package words

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A screen says what is known, and no more: rows that nobody has counted are not "about 0", and a
// file that is no dump has no report.
func TestScreensSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	pg := testdb.Postgres(t, 17)
	src, dst := pg.NewDatabase(t, "screens"), pg.NewDatabase(t, "screens")
	testdb.Query(t, src, "CREATE TABLE n (id int) WITH (autovacuum_enabled = off); INSERT INTO n SELECT generate_series(1, 1000)")
	if out := testdb.Must(t, "check", src, dst); !strings.Contains(out, "1 table, rows unknown (never analysed), ") {
		t.Error(out)
	}
	testdb.Query(t, src, "ANALYZE n; CREATE TABLE m (id int) WITH (autovacuum_enabled = off)")
	if out := testdb.Must(t, "check", src, dst); !strings.Contains(out, "2 tables, about 1,000 rows beside those of 1 table never analysed, ") {
		t.Error(out)
	}
	file := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(file, []byte("root:x:0:0:root:/root:/bin/bash\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := testdb.Run(t, "copy", file, dst, "-q"); o.Code != 15 || o.Out != "" {
		t.Errorf("exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if o := testdb.Run(t, "copy", "shop", dst); o.Code != 6 || !strings.Contains(o.ErrOut, "write postgres://user@host/shop") {
		t.Errorf("exit %d\n%s", o.Code, o.ErrOut)
	}
	dump := filepath.Join(t.TempDir(), "zero.sql")
	if err := os.WriteFile(dump, []byte("CREATE TABLE z (id int PRIMARY KEY, d date);\nINSERT INTO z VALUES (1,'0000-00-00');\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := testdb.Run(t, "copy", dump, dst); o.Code != 14 || !strings.Contains(o.ErrOut, "--zero-dates null or --zero-dates epoch") {
		t.Errorf("exit %d\n%s", o.Code, o.ErrOut)
	}
	testdb.Must(t, "copy", dump, dst, "--zero-dates", "null", "--prep", "drop") // as the hint says
}
