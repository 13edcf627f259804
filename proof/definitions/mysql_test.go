package definitions

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// mysqlBase is the initial state of every round.
var mysqlBase = []string{
	"CREATE TABLE parent (id int NOT NULL AUTO_INCREMENT, name varchar(50) NOT NULL, code varchar(10) DEFAULT NULL, amount decimal(10,2) DEFAULT 0.50, PRIMARY KEY (id), UNIQUE KEY code (code), KEY name (name)) COMMENT='parents'",
	"CREATE TABLE child (id bigint unsigned NOT NULL AUTO_INCREMENT, parent int DEFAULT NULL, m enum('sad','ok','happy') DEFAULT 'ok', n int DEFAULT NULL, note text, at timestamp NULL DEFAULT CURRENT_TIMESTAMP, doubled int GENERATED ALWAYS AS (n * 2) STORED, PRIMARY KEY (id), KEY n (n), KEY parent (parent), CONSTRAINT child_parent FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE, CONSTRAINT n_range CHECK (n < 100))",
	"CREATE TABLE part (id int NOT NULL, day int NOT NULL, v varchar(20), PRIMARY KEY (id, day)) PARTITION BY RANGE (day) (PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (20))",
	"CREATE TABLE log (a int, b text, FULLTEXT KEY b (b))",
	"CREATE VIEW v AS SELECT id, name FROM parent",
	"CREATE VIEW v2 AS SELECT v.id, child.n FROM v JOIN child ON child.parent = v.id",
	"CREATE TRIGGER tr BEFORE INSERT ON child FOR EACH ROW BEGIN SET NEW.n = NEW.n + 1; SET @x = 'a;b'; END",
	"CREATE FUNCTION f(x int) RETURNS int DETERMINISTIC NO SQL RETURN x * 2",
	"CREATE PROCEDURE p(x int) BEGIN SELECT 1; SELECT 2; END",
	"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1",
	"INSERT INTO parent (name, code) VALUES ('a','x'),('b','y')",
	"INSERT INTO child (parent, n, note) VALUES (1,1,'one'),(2,2,'two')",
	"INSERT INTO part VALUES (1,5,'a'),(2,15,'b')",
	"INSERT INTO log VALUES (1,'text')",
}

// mysqlChanges are changes to the source; %d is a number unique to the change.
var mysqlChanges = []string{
	"ALTER TABLE parent ADD COLUMN c%d int NOT NULL DEFAULT 7",
	"ALTER TABLE parent ADD COLUMN c%d varchar(20) CHARACTER SET latin1 DEFAULT 'it''s, (so)' COMMENT 'a, b' FIRST",
	"ALTER TABLE child ADD COLUMN c%d date AFTER parent",
	"ALTER TABLE child ADD COLUMN g%d int GENERATED ALWAYS AS (n + 1) VIRTUAL",
	"ALTER TABLE child DROP COLUMN doubled",
	"ALTER TABLE child MODIFY doubled int GENERATED ALWAYS AS (n * 3) STORED",
	"ALTER TABLE child DROP COLUMN note",
	"ALTER TABLE parent DROP COLUMN amount",
	"ALTER TABLE child MODIFY n bigint DEFAULT 3",
	"ALTER TABLE parent MODIFY code varchar(40) NOT NULL",
	"ALTER TABLE child MODIFY note mediumtext FIRST",
	"ALTER TABLE child RENAME COLUMN note TO remark",
	"ALTER TABLE child MODIFY m enum('sad','ok','happy','v%d')",
	"ALTER TABLE child ALTER COLUMN n SET DEFAULT 5",
	"ALTER TABLE child ALTER COLUMN at DROP DEFAULT",
	"ALTER TABLE parent ADD UNIQUE KEY u%d (name, code)",
	"ALTER TABLE parent ADD KEY k%d (name(10) DESC)",
	"ALTER TABLE parent DROP KEY name, ADD KEY name (name, id)",
	"ALTER TABLE parent DROP KEY code",
	"ALTER TABLE child DROP KEY n",
	"ALTER TABLE log DROP KEY b",
	"ALTER TABLE log ADD FULLTEXT KEY t%d (b)",
	"ALTER TABLE log ADD PRIMARY KEY (a)",
	"ALTER TABLE part DROP PRIMARY KEY",
	"ALTER TABLE child ADD CONSTRAINT k%d CHECK (n > -50)",
	"ALTER TABLE child DROP CONSTRAINT n_range",
	"ALTER TABLE child DROP FOREIGN KEY child_parent",
	"ALTER TABLE child DROP FOREIGN KEY child_parent, ADD CONSTRAINT child_other FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE SET NULL",
	"ALTER TABLE child AUTO_INCREMENT = 5000",
	"ALTER TABLE parent COMMENT = 'other; parents'",
	"ALTER TABLE log ENGINE = MyISAM",
	"ALTER TABLE log ROW_FORMAT = DYNAMIC",
	"ALTER TABLE log CONVERT TO CHARACTER SET latin1",
	"ALTER TABLE part ADD PARTITION (PARTITION p%d VALUES LESS THAN (30))",
	"ALTER TABLE part DROP PARTITION p2",
	"ALTER TABLE part REMOVE PARTITIONING",
	"ALTER TABLE log DROP KEY b; ALTER TABLE log PARTITION BY HASH (a) PARTITIONS 3",
	"CREATE TABLE new%d (id int PRIMARY KEY, p int, CONSTRAINT fk%[1]d FOREIGN KEY (p) REFERENCES parent (id))",
	"CREATE TABLE other%d (a int, b varchar(3), KEY (b))",
	"DROP TABLE log",
	"DROP TABLE part",
	"CREATE OR REPLACE VIEW v AS SELECT id, name, code FROM parent",
	"CREATE VIEW w%d AS SELECT n FROM child WHERE n > 3",
	"DROP VIEW v2",
	"DROP TRIGGER tr",
	"CREATE TRIGGER tr%d AFTER DELETE ON parent FOR EACH ROW SET @gone = 1",
	"DROP FUNCTION f; CREATE FUNCTION f(x int) RETURNS int DETERMINISTIC NO SQL RETURN x * %d",
	"CREATE FUNCTION f%d(x int) RETURNS varchar(10) DETERMINISTIC NO SQL RETURN 'a;b'",
	"DROP PROCEDURE p",
	"DROP EVENT e",
	"ALTER EVENT e ON SCHEDULE EVERY 2 DAY",
}

// TestMySQLChanges is TestPostgresChanges for MySQL and MariaDB, with SHOW CREATE.
func TestMySQLChanges(t *testing.T) {
	for name, server := range map[string]*testdb.Server{"mysql": testdb.MySQL(t), "mariadb": testdb.MariaDB(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rounds := together(mysqlChanges, 1, 17)
			if testdb.Long() {
				rounds = append(each(mysqlChanges), append(rounds, together(mysqlChanges, 2, 4)...)...)
			}
			for i, round := range rounds {
				mysqlRound(t, server, i, round)
			}
		})
	}
}

// TestMySQLNamesTheCharset: a MySQL server shows the character set of a column whose collation a
// statement named, though its own text of the source's column does not: the same column.
func TestMySQLNamesTheCharset(t *testing.T) {
	server := testdb.MySQL(t)
	src, dst := server.NewDatabase(t, "src"), server.NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, a varchar(9) NOT NULL DEFAULT '', b text) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
	testdb.Must(t, "copy", src, dst)
	if a, b := showAll(t, src), showAll(t, dst); a == b {
		t.Fatalf("the server shows both alike:\n%s", a)
	}
	if r := compare(t, src, dst); !r.Definitions.Equal {
		t.Errorf("after a complete copy: %+v", r.Definitions)
	}
	for _, change := range []string{"COLLATE utf8mb4_bin", "CHARACTER SET latin1", "CHARACTER SET utf8mb3 COLLATE utf8mb3_unicode_ci"} {
		testdb.Query(t, dst, "ALTER TABLE t MODIFY a varchar(9) "+change+" NOT NULL DEFAULT ''")
		if r := compare(t, src, dst); r.Definitions.Equal {
			t.Errorf("%s: not reported", change)
		}
	}
}

// TestPartitionedByWhatGoes: a column by which only the target's table is partitioned is dropped.
func TestPartitionedByWhatGoes(t *testing.T) {
	for _, server := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
		for _, as := range []string{"", " PARTITION BY RANGE (day) (PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN MAXVALUE)"} {
			src, dst := server.NewDatabase(t, "src"), server.NewDatabase(t, "dst")
			testdb.Query(t, src, "CREATE TABLE part (id int NOT NULL, day int NOT NULL, PRIMARY KEY (id, day))"+as+"; INSERT INTO part VALUES (1, 5), (2, 50)")
			testdb.Must(t, "copy", src, dst)
			testdb.Query(t, dst, "ALTER TABLE part ADD COLUMN other int NOT NULL DEFAULT 0, DROP PRIMARY KEY, ADD PRIMARY KEY (id, day, other)")
			testdb.Query(t, dst, "ALTER TABLE part PARTITION BY HASH (other) PARTITIONS 3")
			r := compare(t, src, dst)
			sql, err := r.run(dst)
			if err != nil {
				t.Errorf("%v\n%s", err, sql)
			}
			if a, b := showAll(t, src), showAll(t, dst); a != b {
				t.Errorf("after\n%s%s", sql, unlike(a, b))
			}
			testdb.Must(t, "diff", src, dst)
		}
	}
}

func mysqlRound(t *testing.T, server *testdb.Server, i int, round []string) {
	src, dst := server.NewDatabase(t, fmt.Sprint("src", i)), server.NewDatabase(t, fmt.Sprint("dst", i))
	session := testdb.NewSession(src)
	defer session.Close()
	for _, sql := range mysqlBase {
		if _, err := session.Try(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	testdb.Must(t, "copy", src, dst)
	before := showAll(t, src)
	if there := showAll(t, dst); there != before {
		t.Fatalf("the copy differs:\n%s", unlike(before, there))
	}
	for _, change := range round {
		for _, sql := range strings.Split(change, "; ") {
			if strings.Contains(change, "BEGIN") || strings.Contains(change, "'other; ") {
				sql = change
			}
			if _, err := session.Try(sql); err != nil && len(round) == 1 {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
	after := showAll(t, src)
	r := compare(t, src, dst)
	if r.Definitions.Equal && before != after {
		t.Errorf("%q: not reported", round)
	}
	sql, err := r.run(dst)
	if err != nil {
		t.Errorf("%q: %v\n%s", round, err, sql)
		return
	}
	if r := compare(t, src, dst); !r.Definitions.Equal {
		t.Errorf("%q: still different after\n%s: %+v", round, sql, r.Definitions)
	}
	if there := showAll(t, dst); there != after {
		t.Errorf("%q: after\n%s%s", round, sql, unlike(after, there))
	}
}

var ahead = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// showAll returns the server's definitions of all objects of a database, except the order of keys
// and AUTO_INCREMENT values.
func showAll(t *testing.T, url string) string {
	t.Helper()
	name := url[strings.LastIndexByte(url, '/')+1:]
	name, _, _ = strings.Cut(name, "?")
	var out []string
	list := func(sql, show string, column int) {
		for _, n := range strings.Split(testdb.Query(t, url, sql), "\n") {
			if n == "" || strings.HasPrefix(n, "tidemark_") {
				continue
			}
			fields := strings.Split(testdb.Query(t, url, "SHOW CREATE "+show+" `"+n+"`"), "\t")
			text := strings.ReplaceAll(fields[min(column, len(fields)-1)], "`"+name+"`", "`db`")
			text = ahead.ReplaceAllString(strings.ReplaceAll(text, "\\n", "\n"), "")
			lines := strings.Split(text, "\n")
			for i := range lines {
				lines[i] = strings.TrimSuffix(lines[i], ",")
			}
			keys := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, " KEY ") || strings.HasPrefix(l, "  CONSTRAINT") })
			if end := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, ") ") }); show == "TABLE" && keys > 0 && end > keys {
				slices.Sort(lines[keys:end])
			}
			out = append(out, show+" "+n, strings.Join(lines, "\n"))
		}
	}
	where := " = '" + name + "' ORDER BY 1"
	list("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA"+where, "TABLE", 1)
	list("SELECT TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA"+where, "VIEW", 1)
	list("SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA"+where, "TRIGGER", 2)
	list("SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_TYPE = 'FUNCTION' AND ROUTINE_SCHEMA"+where, "FUNCTION", 2)
	list("SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_TYPE = 'PROCEDURE' AND ROUTINE_SCHEMA"+where, "PROCEDURE", 2)
	list("SELECT EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA"+where, "EVENT", 3)
	return strings.Join(out, "\n")
}
