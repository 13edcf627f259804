package promise

import (
	"fmt"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestForeignKeysOfRuledTables: rules give one end of a foreign key, or both, another type. The key
// is made where the server takes it; where it does not, check says so, and nothing fails.
func TestForeignKeysOfRuledTables(t *testing.T) {
	rules := []string{"p: {types: {id: bigint}}", "p: {types: {id: text}}", "p: {types: {id: varchar(20)}}", "p: {types: {id: numeric(12)}}", "c: {types: {p: bigint}}", "c: {types: {p: text}}",
		"p: {types: {id: bigint}}, c: {types: {p: bigint}}", "p: {types: {id: varchar(20)}}, c: {types: {p: varchar(20)}}", "p: {types: {code: text}}", "c: {types: {code: varchar(40)}}", "p: {types: {x: bigint}}", "c: {drop: [x]}"}
	foreign := map[string]string{"c_p": "FOREIGN KEY (p) REFERENCES p (id)", "c_code": "FOREIGN KEY (code) REFERENCES p (code)"}
	source := "CREATE TABLE p (id int PRIMARY KEY, code varchar(20) NOT NULL, x int, CONSTRAINT p_code UNIQUE (code)); CREATE TABLE c (id int PRIMARY KEY, p int, code varchar(20), x int); " +
		"INSERT INTO p VALUES (1, 'one', 1); INSERT INTO c VALUES (1, 1, 'one', 1), (2, NULL, NULL, 2)"
	for name, key := range foreign {
		source += "; ALTER TABLE c ADD CONSTRAINT " + name + " " + key
	}
	for _, from := range []string{"postgres", "mysql", "mariadb"} {
		src := testdb.ServerOf(t, from).NewDatabase(t, "src")
		testdb.Query(t, src, source)
		for _, to := range []string{"postgres", "mysql", "mariadb"} {
			for _, i := range testdb.Draw(t, len(rules), 1) {
				dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
				config := testdb.Written(t, "rules.yaml", "tables: {"+rules[i]+"}\n")
				checked, copied := testdb.Run(t, "check", src, dst, "-v", "--config", config), testdb.Run(t, "copy", src, dst, "-v", "--config", config)
				keysAreForeseen(t, fmt.Sprintf("from %s to %s with %s", from, to, rules[i]), to, dst, "c", foreign, checked, copied)
				if o := testdb.Run(t, "diff", src, dst, "--definitions=only", "--config", config); o.Code != 0 {
					t.Errorf("from %s to %s with %s: diff %d\n%s%s", from, to, rules[i], o.Code, o.Out, o.ErrOut)
				}
			}
		}
	}
}
