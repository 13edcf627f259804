package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestProgramsWithASemicolon: the text of a program that a client has sent among other statements
// ends with a semicolon, and has none when it is made alone.
func TestProgramsWithASemicolon(t *testing.T) {
	for _, kind := range []string{"mysql", "mariadb"} {
		src, dst := testdb.ServerOf(t, kind).NewDatabase(t, "src"), testdb.ServerOf(t, kind).NewDatabase(t, "dst")
		testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.n = 1; "+
			"CREATE PROCEDURE p() SELECT 1; CREATE FUNCTION f() RETURNS int DETERMINISTIC RETURN 1; CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO SET @x = 1; CREATE VIEW v AS SELECT 1; INSERT INTO t (id) VALUES (1)")
		if text := testdb.Query(t, src, "SHOW CREATE TRIGGER tr"); kind == "mysql" && !strings.Contains(text, "NEW.n = 1;") {
			t.Errorf("the trigger's text has no semicolon: %s", text)
		}
		testdb.Must(t, "copy", src, dst)
		testdb.Must(t, "diff", src, dst, "--definitions")
		if got := testdb.Query(t, dst, "SELECT f(), count(*) FROM t WHERE n = 1"); got != "1\t1" {
			t.Errorf("%s: %s", kind, got)
		}
	}
}
