package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestInexactKeys: check names the keys that a nondeterministic collation makes ignore case, which
// they do not on MySQL and MariaDB, and what its hint says makes them do it.
func TestInexactKeys(t *testing.T) {
	for to, collation := range map[string]string{"mysql": "utf8mb4_0900_as_ci", "mariadb": "utf8mb4_uca1400_nopad_as_ci"} {
		src, dst := testdb.ServerOf(t, "postgres").NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
		testdb.Query(t, src, `CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE COLLATION "Free" (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
			CREATE TABLE p (k varchar(9) COLLATE ci PRIMARY KEY, plain varchar(9) UNIQUE, free varchar(9) COLLATE "Free"); CREATE TABLE u (id int PRIMARY KEY, e varchar(9) COLLATE ci UNIQUE);
			CREATE TABLE c (id int PRIMARY KEY, k varchar(9) COLLATE ci REFERENCES p); INSERT INTO p VALUES ('Key', 'x', 'y')`)
		o := testdb.Run(t, "check", src, dst, "-v")
		if o.Code != 0 || strings.Count(o.Out, "its keys compare exactly here") != 1 || !strings.Contains(o.Out, "collation public.ci") || !strings.Contains(o.Out, ".p.k, ") || !strings.Contains(o.Out, ".c.k and 1 more)") || !strings.Contains(o.Out, collation) {
			t.Errorf("%s: exit %d\n%s%s", to, o.Code, o.Out, o.ErrOut)
		}
		if o := testdb.Run(t, "copy", src, dst); o.Code != 0 {
			t.Fatalf("%s: copy: exit %d\n%s%s", to, o.Code, o.Out, o.ErrOut)
		}
		if _, err := testdb.TryQuery(dst, "INSERT INTO c VALUES (1, 'kEY')"); err == nil {
			t.Errorf("%s: the foreign key ignores case", to)
		}
		testdb.Query(t, dst, "ALTER TABLE c DROP FOREIGN KEY c_k_fkey; ALTER TABLE p MODIFY k varchar(9) COLLATE "+collation+" NOT NULL; ALTER TABLE c MODIFY k varchar(9) COLLATE "+collation+", ADD FOREIGN KEY (k) REFERENCES p (k)")
		testdb.Query(t, dst, "INSERT INTO c VALUES (1, 'kEY')")
		if _, err := testdb.TryQuery(dst, "INSERT INTO p VALUES ('KEY', 'z', 'z')"); err == nil {
			t.Errorf("%s: after what the hint says the key distinguishes case", to)
		}
	}
}
