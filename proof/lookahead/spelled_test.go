package lookahead

import (
	"net/url"
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

// TestStreamInAnotherSpelling: a stream writes such rows beneath keys that the target holds for
// valid. Its cutover is refused, and so is a comparison, until they have the parents' spelling.
func TestStreamInAnotherSpelling(t *testing.T) {
	t.Parallel()
	for _, server := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
		t.Run(server.Engine, func(t *testing.T) {
			t.Parallel()
			src, dst := server.NewDatabase(t, "spelled"), testdb.Postgres(t, 15).NewDatabase(t, "spelled")
			testdb.Query(t, src, "CREATE TABLE p (code varchar(20) COLLATE utf8mb4_general_ci, x int, n int UNIQUE, PRIMARY KEY (code, x)); "+
				"CREATE TABLE c (id int PRIMARY KEY, `Code` varchar(20) COLLATE utf8mb4_general_ci, x int, n int, CONSTRAINT `c's` FOREIGN KEY (`Code`, x) REFERENCES p (code, x), FOREIGN KEY (n) REFERENCES p (n)); "+
				"INSERT INTO p VALUES ('Ann', 1, 1), ('Ben', 1, 2); INSERT INTO c VALUES (1, 'Ann', 1, 1), (2, 'ann', NULL, 2)")
			stream := []string{src, dst, "--name", "spelled_" + server.Engine}
			testdb.Must(t, append([]string{"replicate", "--until", "now"}, stream...)...)
			testdb.Must(t, append([]string{"cutover"}, stream...)...)
			testdb.Query(t, src, "INSERT INTO c VALUES (3, 'ann', 1, 1), (4, 'BEN', 1, NULL), (5, 'Ben', 1, NULL)")
			const says = "foreign key c's of public.c: 2 rows: no row of public.p that they refer to has the same text"
			if o := testdb.Run(t, append([]string{"cutover"}, stream...)...); o.Code != 1 || !strings.Contains(o.Out, says) || !strings.Contains(o.Out, "are equal, but the target cannot be used as it is") {
				t.Errorf("cutover: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
			if o := testdb.Run(t, "diff", src, dst); o.Code != 1 || !strings.Contains(o.Out, says) {
				t.Errorf("diff: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
			}
			testdb.Query(t, src, "UPDATE c JOIN p ON p.code = c.`Code` SET c.`Code` = p.code")
			byName := testdb.Command(t, "cutover", "--name", stream[3]) // without passwords, which no catalogue stores
			for key, end := range map[string]string{"MYSQL_PWD": src, "PGPASSWORD": dst} {
				u, _ := url.Parse(end)
				password, _ := u.User.Password()
				byName.Env = append(byName.Environ(), key+"="+password)
			}
			if out, err := byName.CombinedOutput(); err != nil || !strings.Contains(string(out), "Both sides are equal") {
				t.Errorf("cutover by name: %v\n%s", err, out)
			}
			testdb.Query(t, dst, "ALTER TABLE c DROP CONSTRAINT \"c's\", ADD FOREIGN KEY (\"Code\", x) REFERENCES p (code, x)")
		})
	}
}
