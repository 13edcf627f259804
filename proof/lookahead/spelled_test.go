package lookahead

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestForeignKeysInAnotherSpelling: rows that the source's collation, or a session without checks,
// let refer to a row in another spelling, or to none. check --values counts them if the copy would
// end without the key, and nothing otherwise.
func TestForeignKeysInAnotherSpelling(t *testing.T) {
	t.Parallel()
	const parent, child = "CREATE TABLE p (code varchar(20) PRIMARY KEY, n int UNIQUE) COLLATE %C; ", "CREATE TABLE c (id int PRIMARY KEY, code varchar(20), n int, FOREIGN KEY (code) REFERENCES p (code), FOREIGN KEY (n) REFERENCES p (n)) COLLATE %C; "
	for name, c := range map[string]struct {
		sql  string
		rows string // of which check --values tells; "": none
	}{
		"case":    {"INSERT INTO p VALUES ('Ann', 1), ('bob', 2); INSERT INTO c VALUES (1, 'ann', 1), (2, 'BOB', 2), (3, 'Ann', 1), (4, NULL, NULL)", "2 rows"},
		"blanks":  {"INSERT INTO p VALUES ('Ann', 1); INSERT INTO c VALUES (1, 'Ann ', 1)", "1 row"},
		"missing": {"SET foreign_key_checks = 0; INSERT INTO p VALUES ('Ann', 1); INSERT INTO c VALUES (1, 'Ann', 1), (2, 'Ann', 7)", "1 row"},
		"equal":   {"INSERT INTO p VALUES ('Änn', 1), ('b ', 2), ('', 3); INSERT INTO c VALUES (1, 'Änn', 1), (2, 'b ', 2), (3, '', 3), (4, NULL, 1)", ""},
	} {
		for _, server := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
			collation := "utf8mb4_general_ci"
			if name == "blanks" {
				collation = "utf8mb4_bin"
			}
			src, dst := server.NewDatabase(t, "spelled"), testdb.Postgres(t, 15).NewDatabase(t, "spelled")
			t.Run(server.Engine+" "+name, func(t *testing.T) {
				t.Parallel()
				testdb.Query(t, src, strings.ReplaceAll(parent+child, "%C", collation)+c.sql)
				check, values := testdb.Run(t, "check", src, dst), testdb.Run(t, "check", src, dst, "--values")
				copied := testdb.Run(t, "copy", src, dst)
				stops := c.rows != ""
				if check.Code != 0 || (values.Code == 1) != stops || (copied.Code == 16) != stops || copied.Code != 0 && copied.Code != 16 {
					t.Fatalf("check %d, check --values %d, copy %d\n%s\n%s", check.Code, values.Code, copied.Code, values.Out, copied.ErrOut)
				}
				if stops && !strings.Contains(values.Out, c.rows+": no row of ") {
					t.Errorf("check --values says\n%s", values.Out)
				}
				if ci := collation != "utf8mb4_bin"; ci != strings.Contains(strings.Join(strings.Fields(check.Out), " "), "breaks it: a copy refuses the key") {
					t.Errorf("check says of foreign keys\n%s", check.Out)
				}
				if !stops {
					return
				}
				// What the hint says.
				testdb.Query(t, src, "UPDATE c JOIN p ON p.code = c.code SET c.code = p.code; UPDATE c SET n = 1 WHERE n = 7")
				if values := testdb.Run(t, "check", src, dst, "--values", "--prep", "drop"); values.Code != 0 {
					t.Errorf("with the parents' spelling check --values says\n%s", values.Out)
				}
				testdb.Must(t, "copy", src, dst, "--prep", "drop")
			})
		}
	}
}
