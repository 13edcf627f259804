package promise

import (
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// uniqueKeys has unique keys of all kinds: of MySQL and MariaDB, whose information_schema counts
// them among the constraints.
const uniqueKeys = "CREATE TABLE p (id int PRIMARY KEY, code varchar(20) COLLATE utf8mb4_bin NOT NULL UNIQUE, a int, b int, c varchar(40) COLLATE utf8mb4_bin, UNIQUE KEY about (id, a) COMMENT 'why', UNIQUE KEY `order` (a, b), UNIQUE KEY begins (c(5)), UNIQUE KEY down (b DESC, id), KEY plain (b), CONSTRAINT same CHECK (a > 0)); " +
	"CREATE TABLE q (id int PRIMARY KEY, code varchar(20) COLLATE utf8mb4_bin, n int, UNIQUE KEY `order` (n, id), UNIQUE KEY fk (code), UNIQUE KEY same (n), CONSTRAINT fk FOREIGN KEY (code) REFERENCES p (code), CONSTRAINT twice FOREIGN KEY (n) REFERENCES p (id), CONSTRAINT q_order FOREIGN KEY (id) REFERENCES p (id)); " +
	"INSERT INTO p VALUES (1, 'x', 1, 1, 'one'), (2, 'y', 1, NULL, 'two'), (3, 'z', 1, NULL, NULL); INSERT INTO q VALUES (1, 'x', 1), (2, NULL, 2)"

// A unique key of MySQL and MariaDB is a constraint on PostgreSQL, by its name, where it can be
// one: applications that drop, rename or name it find it. So is one of PostgreSQL whose table a
// rule changes.
func TestUniqueKeysAreConstraints(t *testing.T) {
	const constraints = "SELECT conrelid::regclass || ' ' || conname || ': ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid IN ('p'::regclass, 'q'::regclass) AND contype <> 'n' ORDER BY 1"
	const indexes = "SELECT tablename || ' ' || indexname FROM pg_indexes WHERE tablename IN ('p', 'q') ORDER BY 1"
	const want = "p about: UNIQUE (id, a)\np code: UNIQUE (code)\np order: UNIQUE (a, b)\np p_pkey: PRIMARY KEY (id)\np same: CHECK ((a > 0))\n" +
		"q fk: UNIQUE (code)\nq fk_2: FOREIGN KEY (code) REFERENCES p(code)\nq q_order: UNIQUE (n, id)\nq q_order_2: FOREIGN KEY (id) REFERENCES p(id)\nq q_pkey: PRIMARY KEY (id)\nq same: UNIQUE (n)\nq twice"
	last := map[string]string{"mysql": ": CHECK ((n > 0))\nq twice_2: FOREIGN KEY (n) REFERENCES p(id)", "mariadb": ": FOREIGN KEY (n) REFERENCES p(id)"}
	holds := func(from, way, dst string) {
		t.Helper()
		if got := testdb.Query(t, dst, constraints); got != want+last[from] {
			t.Errorf("%s%s: the constraints are\n%s", from, way, got)
		}
		if got := testdb.Query(t, dst, indexes); got != "p about\np begins\np code\np down\np order\np p_pkey\np plain\nq fk\nq q_order\nq q_pkey\nq same" {
			t.Errorf("%s%s: the indexes are\n%s", from, way, got)
		}
		testdb.Query(t, dst, "INSERT INTO p VALUES (9, 'x', 1, 9, NULL) ON CONFLICT ON CONSTRAINT code DO NOTHING")
	}
	for _, from := range []string{"mysql", "mariadb"} {
		src, pg := testdb.ServerOf(t, from).NewDatabase(t, "src"), testdb.ServerOf(t, "postgres")
		testdb.Query(t, src, uniqueKeys)
		if from == "mysql" { // MariaDB takes no check by the name of a foreign key
			testdb.Query(t, src, "ALTER TABLE q ADD CONSTRAINT twice CHECK (n > 0)")
		}
		dst := pg.NewDatabase(t, "dst")
		testdb.Must(t, "copy", src, dst)
		holds(from, "", dst)
		testdb.Must(t, "diff", src, dst, "--definitions")

		// What is printed makes it a constraint again, also where earlier versions made an index.
		for _, change := range []string{"ALTER TABLE p DROP CONSTRAINT \"order\"", "ALTER TABLE p DROP CONSTRAINT \"order\"; CREATE UNIQUE INDEX \"order\" ON p (a, b)",
			"ALTER TABLE q ADD CONSTRAINT more UNIQUE (id, code)"} {
			testdb.Query(t, dst, change)
			o := testdb.Run(t, "diff", src, dst, "--definitions=only")
			if o.Code != 1 {
				t.Fatalf("%s: diff ends with %d\n%s%s", change, o.Code, o.Out, o.ErrOut)
			}
			testdb.Query(t, dst, o.Out)
			holds(from, ", "+change, dst)
			testdb.Must(t, "diff", src, dst, "--definitions=only")
		}

		dst = pg.NewDatabase(t, "dst")
		testdb.Must(t, "copy", "file:"+testdb.MySQLDump(t, src), dst)
		holds(from, "'s dump", dst)
	}
	// Where a rule changes the table, too.
	src, dst := testdb.ServerOf(t, "postgres").NewDatabase(t, "src"), testdb.ServerOf(t, "postgres").NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE p (id int PRIMARY KEY, a int CONSTRAINT named UNIQUE, b int); CREATE UNIQUE INDEX lone ON p (b); CREATE TABLE q (id int PRIMARY KEY)")
	testdb.Must(t, "copy", src, dst, "--config", testdb.Written(t, "rules.yaml", "tables: {p: {types: {b: bigint}}}\n"))
	if got := testdb.Query(t, dst, constraints); got != "p named: UNIQUE (a)\np p_pkey: PRIMARY KEY (id)\nq q_pkey: PRIMARY KEY (id)" {
		t.Errorf("the constraints of a table whose column has another type are\n%s", got)
	}
	if got := testdb.Query(t, dst, indexes); got != "p lone\np named\np p_pkey\nq q_pkey" {
		t.Errorf("its indexes are\n%s", got)
	}
}
