package promise

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// spelled is what check says of a foreign key that it makes, and copy of what took long on a busy
// machine: an index may have the key's name.
var spelled = regexp.MustCompile(`foreign key \S+ of \S+: ignores case|(?m)^ +[0-9.]+ s  .*$`)

// TestParentThatIsThere: a new table refers to one that the target has already, as its owner has
// made it. A foreign key that the server takes is made; of one that it refuses, check says so, and
// the copy leaves it out.
func TestParentThatIsThere(t *testing.T) {
	foreign := map[string]string{"child_p": "FOREIGN KEY (p) REFERENCES parent (id)", "child_c": "FOREIGN KEY (c) REFERENCES parent (code)"}
	source := "CREATE TABLE parent (id int PRIMARY KEY, code varchar(10) NOT NULL, CONSTRAINT parent_code UNIQUE (code)); CREATE TABLE child (id int PRIMARY KEY, p int, c varchar(10)); " +
		"INSERT INTO parent VALUES (1, '2020-01-02'); INSERT INTO child VALUES (1, 1, '2020-01-02')"
	for name, key := range foreign {
		source += "; ALTER TABLE child ADD CONSTRAINT " + name + " " + key
	}
	parents := []struct {
		has  string // columns and keys
		only string // the engine that can have it
	}{
		{has: "id int PRIMARY KEY, code varchar(10) NOT NULL UNIQUE"},
		{has: "id bigint PRIMARY KEY, code varchar(40) NOT NULL UNIQUE"},
		{has: "id numeric(10) PRIMARY KEY, code char(20) NOT NULL UNIQUE"},
		{has: "id int, code varchar(10)"},
		{has: "id varchar(20) PRIMARY KEY, code date UNIQUE"},
		{has: "id smallint UNIQUE, code varchar(10), UNIQUE (code, id)"},
		{has: "id double precision UNIQUE, code timestamp UNIQUE"},
		{"id int, code varchar(10), KEY (code, id), UNIQUE (id, code)", "mysql"},
		{"id int unsigned PRIMARY KEY, code varchar(10) COLLATE utf8mb4_bin UNIQUE", "mysql"},
		{"id int PRIMARY KEY, code varchar(10) CHARACTER SET latin1 UNIQUE", "mysql"},
		{"id int, code name UNIQUE, EXCLUDE (id WITH =)", "postgres"},
		{"id numeric UNIQUE, code text", "postgres"},
	}
	sources := map[string]string{}
	for _, from := range []string{"postgres", "mysql", "mariadb"} {
		sources[from] = testdb.ServerOf(t, from).NewDatabase(t, "src")
		testdb.Query(t, sources[from], source)
	}
	sources["dump"] = testdb.MySQLDump(t, sources["mysql"])
	for _, to := range []string{"postgres", "mysql", "mariadb"} {
		for from, src := range sources {
			for _, i := range testdb.Draw(t, len(parents), 1) {
				p := parents[i]
				if p.only != "" && (p.only == "postgres") != (to == "postgres") {
					continue
				}
				dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
				testdb.Query(t, dst, "CREATE TABLE parent ("+p.has+")")
				checked, copied := testdb.Run(t, "check", src, dst, "-v"), testdb.Run(t, "copy", src, dst, "-v")
				keysAreForeseen(t, fmt.Sprintf("from %s to %s with parent (%s)", from, to, p.has), to, dst, "child", foreign, checked, copied)
			}
		}
	}
}

// keysAreForeseen demands of the foreign keys of a table that those which the server takes are
// made, and that check and copy, which end with 0, name the others and no more.
func keysAreForeseen(t *testing.T, what, to, dst, table string, foreign map[string]string, checked, copied testdb.Outcome) {
	t.Helper()
	schema := "DATABASE()"
	if to == "postgres" {
		schema = "'public'"
	}
	made := testdb.Query(t, dst, "SELECT constraint_name FROM information_schema.referential_constraints WHERE constraint_schema = "+schema)
	s := testdb.NewSession(dst)
	defer s.Close()
	for name, key := range foreign {
		is := strings.Contains(made, name)
		if _, err := s.Try("ALTER TABLE " + table + " ADD CONSTRAINT again " + key); (err == nil) != is {
			t.Errorf("%s: %s was made: %t, and the server says of it: %v\n%s%s", what, name, is, err, copied.Out, copied.ErrOut)
		} else if err == nil {
			_, _ = s.Try("ALTER TABLE " + table + " DROP CONSTRAINT again")
		}
		for verb, o := range map[string]testdb.Outcome{"check": checked, "copy": copied} {
			if said := strings.Contains(spelled.ReplaceAllString(o.Out+o.ErrOut, ""), name); o.Code != 0 || said == is {
				t.Errorf("%s %s: exit %d, %s was made: %t\n%s%s", verb, what, o.Code, name, is, o.Out, o.ErrOut)
			}
		}
	}
}

// TestCharAndVarchar: a VARCHAR column that refers to a CHAR column, which PostgreSQL compares
// without the blanks at the end, gets a foreign key only where the target compares them so too.
func TestCharAndVarchar(t *testing.T) {
	src := testdb.Postgres(t, 15).NewDatabase(t, "src")
	testdb.Query(t, src, "CREATE TABLE parent (code char(20) PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, c varchar(20) REFERENCES parent, same char(20) REFERENCES parent); "+
		"INSERT INTO parent VALUES ('x'); INSERT INTO child VALUES (1, 'x', 'x')")
	for _, to := range []string{"mysql", "mariadb"} {
		dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
		o := testdb.Run(t, "copy", src, dst, "-v")
		if o.Code != 0 || !strings.Contains(o.Out+o.ErrOut, "child_c_fkey: is not made") || strings.Contains(o.Out+o.ErrOut, "child_same_fkey: is not made") {
			t.Errorf("%s: exit %d\n%s%s", to, o.Code, o.Out, o.ErrOut)
		}
		testdb.Query(t, dst, "INSERT INTO child VALUES (2, 'x', 'x')") // as the source accepts it
	}
}
