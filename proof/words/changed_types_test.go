package words

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestChangedTypesAreTold: check says once, with a count, which columns applications and their
// frameworks read in another way after a copy, and nothing of those that a rule or type spares.
func TestChangedTypesAreTold(t *testing.T) {
	t.Parallel()
	const fromMySQL = `CREATE TABLE item (id int PRIMARY KEY, code varchar(20) COLLATE utf8mb4_bin UNIQUE, plain varchar(20) COLLATE utf8mb4_bin, fixed char(9) COLLATE utf8mb4_bin UNIQUE,
		doc json, extra json, uid char(32) COLLATE utf8mb4_bin, hits int unsigned, place point, name varchar(20) COLLATE utf8mb4_general_ci);
		CREATE TABLE exact (code varchar(20) COLLATE %s PRIMARY KEY)`
	const fromPostgres = `CREATE TABLE item (id uuid PRIMARY KEY, other uuid, code text UNIQUE, plain text, price real, precise double precision, doc jsonb, extra json)`
	mysqlNotices := map[string]string{
		"unique keys ignore trailing blanks": "(1 column: public.item.code)", "JSON becomes json": "(2 columns: public.item.doc, public.item.extra)", "char(32) stays text": "(1 column: public.item.uid)",
		"int unsigned, here bigint, as text": "(1 column: public.item.hits)", "geometry becomes bytea": "(1 column: public.item.place)", "LIKE fails before PostgreSQL 18": "",
	}
	postgresNotices := map[string]string{"keys of text have a binary collation": "(1 column: dst.item.code)", "six digits": "(1 column: dst.item.price)"}
	for _, x := range []struct {
		from, to, sql string
		said          map[string]string
		also, unsaid  string
	}{
		{"mysql", "postgres", strings.Replace(fromMySQL, "%s", "utf8mb4_0900_bin", 1), mysqlNotices, "JSON becomes json", "JSON numbers"},
		{"mariadb", "postgres", strings.Replace(fromMySQL, "%s", "utf8mb4_nopad_bin", 1), mysqlNotices, "JSON becomes json", "JSON numbers"},
		{"postgres", "mysql", fromPostgres, postgresNotices, "JSON numbers are parsed again", "uuid stays uuid"},
		{"postgres", "mariadb", fromPostgres, postgresNotices, "a char(36) column that is added cannot refer to it (1 column: dst.item.id)", "JSON numbers"},
	} {
		src, dst := testdb.ServerOf(t, x.from).NewDatabase(t, "src"), testdb.ServerOf(t, x.to).NewDatabase(t, "dst")
		testdb.Query(t, src, x.sql)
		o := testdb.Run(t, "check", src, dst, "-v")
		for what, where := range x.said {
			n := 0
			for line := range strings.Lines(o.Out) {
				if strings.Contains(line, what) && strings.Contains(line, named(where, dst)) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s to %s: %q %q is said %d times", x.from, x.to, what, where, n)
			}
		}
		if o.Code != 0 || !strings.Contains(o.Out, named(x.also, dst)) || strings.Contains(o.Out, x.unsaid) || t.Failed() {
			t.Errorf("%s to %s: exit %d\n%s%s", x.from, x.to, o.Code, o.Out, o.ErrOut)
		}
	}
	src, dst := testdb.ServerOf(t, "mysql").NewDatabase(t, "src"), testdb.ServerOf(t, "postgres").NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE item (id int PRIMARY KEY, doc json, hits int unsigned)")
	task := testdb.Written(t, "task.yaml", "tables: {'*': {types: {'*@json': jsonb, '*@uint4': integer}}}")
	if o := testdb.Run(t, "check", src, dst, "-v", "--config", task); o.Code != 0 || strings.Contains(o.Out, "JSON becomes") || strings.Contains(o.Out, "here bigint") {
		t.Errorf("with the rules that the hints give: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	src, dst = testdb.ServerOf(t, "postgres").NewDatabase(t, "src"), testdb.ServerOf(t, "mariadb").NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE item (id uuid PRIMARY KEY, price real); INSERT INTO item VALUES ('00112233-4455-6677-8899-aabbccddeeff', 1234567.8)")
	task = testdb.Written(t, "task.yaml", "tables: {'*': {types: {'*@uuid': char(36), price: double}}}")
	if o := testdb.Run(t, "copy", src, dst, "--config", task); o.Code != 0 || strings.Contains(o.Out, "uuid stays") || strings.Contains(o.Out, "six digits") {
		t.Errorf("with the rules that the hints give: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	testdb.Query(t, dst, "CREATE TABLE child (item char(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, FOREIGN KEY (item) REFERENCES item (id))")
	if got := strings.TrimSpace(testdb.Query(t, dst, "SELECT price FROM item")); got != "1234567.8" {
		t.Errorf("the price is shown as %s", got)
	}
}

// named gives a notice the name of the target's database.
func named(text, url string) string {
	name := url[strings.LastIndex(url, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	return strings.ReplaceAll(text, "dst.item", name+".item")
}
