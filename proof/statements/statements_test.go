// Package statements tests streams from a source that logs statements instead of rows, and skipping
// events of its log.
package statements

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

const schema = `
CREATE TABLE a1 (id int PRIMARY KEY, v varchar(90)); CREATE TABLE a2 (id int PRIMARY KEY, v varchar(90));
CREATE TABLE a3 (id int PRIMARY KEY, v varchar(90)); CREATE TABLE a4 (id int PRIMARY KEY, v varchar(90));
CREATE TABLE a5 (id int PRIMARY KEY, v varchar(90)); CREATE TABLE a6 (id int PRIMARY KEY, v varchar(90));
CREATE TABLE a7 (id int PRIMARY KEY, v varchar(90)); CREATE TABLE a8 (id int PRIMARY KEY, v varchar(90));
CREATE TABLE a9 (id int PRIMARY KEY, v varchar(90)); CREATE TABLE b1 (id int PRIMARY KEY, v varchar(90));
CREATE TABLE written (id int PRIMARY KEY, v varchar(90)); CREATE TABLE called (id int PRIMARY KEY, v varchar(90));
CREATE TABLE parent (id int PRIMARY KEY, v varchar(90));
CREATE TABLE child (id int PRIMARY KEY, v varchar(90), pid int, FOREIGN KEY (pid) REFERENCES parent (id) ON DELETE CASCADE);
CREATE TABLE ` + "`odd name`" + ` (id int PRIMARY KEY, v varchar(90)); CREATE TABLE loaded (id int PRIMARY KEY, v varchar(90));
CREATE TABLE viewed (id int PRIMARY KEY, v varchar(90)); CREATE TABLE quiet (id int PRIMARY KEY, v varchar(90));
CREATE VIEW seen AS SELECT id, v FROM viewed;
CREATE TRIGGER follows AFTER INSERT ON b1 FOR EACH ROW INSERT INTO written VALUES (NEW.id, NEW.v);
CREATE FUNCTION writes(n int) RETURNS int MODIFIES SQL DATA BEGIN INSERT INTO called VALUES (n, 'called'); RETURN n; END;
`

var tables = strings.Fields("a1 a2 a3 a4 a5 a6 a7 a8 a9 b1 written called parent child loaded viewed quiet")

// A step is what a session does while it logs statements, and which tables that stops.
type step struct {
	sql   string
	stops []string
}

var steps = []step{
	{"INSERT INTO a1 VALUES (10, 'grün, it''s')", []string{"a1"}},
	{"REPLACE INTO a2 (id, v) VALUES (1, 'x')", []string{"a2"}},
	{"UPDATE a3 x JOIN quiet q ON q.id = x.id SET x.v = 'y'", []string{"a3", "quiet"}}, // the program does not check which of them it changes
	{"DELETE x FROM a4 AS x JOIN a5 AS y ON x.id = y.id", []string{"a4"}},
	{"INSERT INTO a5 SELECT id + 100, v FROM a9", []string{"a5"}},
	{"DELETE FROM parent WHERE id = 1", []string{"parent", "child"}},
	{"INSERT INTO b1 VALUES (10, 'fires')", []string{"b1", "written"}},
	{"UPDATE a6 SET v = writes(1) WHERE id = 1", []string{"a6", "called"}},
	{"INSERT INTO seen VALUES (10, 'through a view')", []string{"viewed"}},
	{"BEGIN; INSERT INTO a9 VALUES (50, 'kept'); DELETE FROM a7 WHERE id = 2; COMMIT", []string{"a7", "a9"}},
	{"UPDATE `odd name` SET v = 'odd'", []string{"odd name"}},
	{"LOAD DATA LOCAL INFILE 'PATH' INTO TABLE loaded FIELDS TERMINATED BY ','", []string{"loaded"}},
}

func TestMariaDBIntoMariaDB(t *testing.T) {
	t.Parallel()
	statements(t, testdb.MariaDB(t), testdb.MariaDB(t), append(slices.Clone(steps), step{"DELETE FROM a8 WHERE id = 1 RETURNING v", []string{"a8"}}))
}

func TestMySQLIntoMySQL(t *testing.T) {
	t.Parallel()
	statements(t, testdb.MySQL(t), testdb.MySQL(t), steps)
}

func TestMySQLIntoPostgreSQL(t *testing.T) {
	t.Parallel()
	statements(t, testdb.MySQL(t), testdb.Postgres(t, 15), steps)
}

// A statement stops the tables that it has changed, and only those: active tables equal the source,
// and untouched tables stay active.
func statements(t *testing.T, source, target *testdb.Server, steps []step) {
	src, tgt := source.NewDatabase(t, "st"), target.NewDatabase(t, "st")
	testdb.Load(t, src, strings.NewReader(strings.ReplaceAll(schema, "BEGIN INSERT INTO called VALUES (n, 'called'); RETURN n; END;", "RETURN n;")))
	testdb.Query(t, src, "DROP FUNCTION writes")
	testdb.Query(t, src, "CREATE FUNCTION writes(n int) RETURNS int MODIFIES SQL DATA BEGIN INSERT INTO called VALUES (n, 'called'); RETURN n; END")
	for _, name := range append(slices.Clone(tables), "`odd name`") {
		if name != "child" && name != "written" && name != "called" {
			testdb.Query(t, src, "INSERT INTO "+name+" VALUES (1, 'one'), (2, 'two')")
		}
	}
	testdb.Query(t, src, "DELETE FROM written; INSERT INTO child VALUES (1, 'one', 1), (2, 'two', 2)")
	stream := []string{"replicate", src, tgt, "--name", "st" + strings.ToLower(target.Engine[:2]) + source.Engine[:2], "--until", "now", "--exclude", "*.seen"}
	testdb.Must(t, stream...)
	file := filepath.Join(t.TempDir(), "rows")
	if err := os.WriteFile(file, []byte("10,ten\n11,eleven\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stopped := map[string]bool{}
	for i, s := range steps {
		testdb.Query(t, src, fmt.Sprintf("INSERT INTO a1 VALUES (%d, 'row'); UPDATE a9 SET v = '%d' WHERE id = 2", 1000+i, i))
		sql := "SET binlog_format = STATEMENT; " + strings.ReplaceAll(s.sql, "PATH", file)
		if strings.HasPrefix(s.sql, "LOAD") {
			testdb.Load(t, src, strings.NewReader(sql+";"), "--local-infile=1")
		} else {
			testdb.Query(t, src, sql)
		}
		testdb.Must(t, stream...)
		for _, name := range s.stops {
			stopped[name] = true
		}
		check(t, s.sql, src, tgt, states(t, stream), stopped)
	}
}

// states returns the state of each table.
func states(t *testing.T, stream []string) map[string]string {
	t.Helper()
	var known []struct {
		Table struct{ Name string }
		State string
	}
	if err := json.Unmarshal([]byte(testdb.Must(t, "sub", "--name", stream[4], "--json")), &known); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, x := range known {
		out[x.Table.Name] = x.State
	}
	return out
}

func check(t *testing.T, sql, src, tgt string, states map[string]string, stopped map[string]bool) {
	t.Helper()
	for _, name := range append(slices.Clone(tables), "odd name") {
		want := "active"
		if stopped[name] {
			want = "stopped"
		}
		if states[name] != want {
			t.Fatalf("behind %s: %s is %s, not %s", sql, name, states[name], want)
		}
		if want == "stopped" {
			continue
		}
		ask := func(url string) string {
			if name == "odd name" && strings.HasPrefix(url, "postgres") {
				return testdb.Query(t, url, `SELECT id, v FROM "odd name" ORDER BY id`)
			}
			return testdb.Query(t, url, "SELECT id, v FROM `odd name` ORDER BY id")
		}
		if name != "odd name" {
			ask = func(url string) string { return testdb.Query(t, url, "SELECT id, v FROM "+name+" ORDER BY id") }
		}
		if a, b := ask(src), ask(tgt); a != b {
			t.Fatalf("behind %s: %s is active, and has\n%s\nat the source and\n%s\non the target", sql, name, a, b)
		}
	}
}

// An event named by its log position is skipped, the rest of its transaction is applied, and its
// content is recorded once among the exceptions.
func TestSkipByPosition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		source, target *testdb.Server
		queue          string
	}{
		{"mariadb", testdb.MariaDB(t), testdb.MariaDB(t), "direct"},
		{"mysql", testdb.MySQL(t), testdb.Postgres(t, 15), "durable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, tgt := c.source.NewDatabase(t, "sk"), c.target.NewDatabase(t, "sk")
			testdb.Query(t, src, "CREATE TABLE x (id int PRIMARY KEY, v varchar(90)); CREATE TABLE y (id int PRIMARY KEY, v varchar(90))")
			stream := []string{"replicate", src, tgt, "--name", "sk" + c.name, "--until", "now", "--queue", c.queue}
			testdb.Must(t, stream...)
			testdb.Query(t, src, "SET binlog_format = STATEMENT; INSERT INTO x VALUES (1, 'as a statement')")
			testdb.Query(t, src, "BEGIN; INSERT INTO y VALUES (1, 'before'); INSERT INTO x VALUES (2, 'as rows'); INSERT INTO y VALUES (2, 'behind'); COMMIT")
			places := events(t, src)
			for _, p := range places {
				testdb.Must(t, "skip", "--name", stream[4], p)
			}
			if got := testdb.Must(t, "skip", "--name", stream[4]); got != strings.Join(slices.Sorted(slices.Values(places)), "\n")+"\n" {
				t.Errorf("skip lists %q, not %q", got, places)
			}
			for range 2 {
				testdb.Must(t, stream...)
			}
			if got := testdb.Query(t, tgt, "SELECT id, v FROM x") + "|" + testdb.Query(t, tgt, "SELECT id, v FROM y ORDER BY id"); got != "|1\tbefore\n2\tbehind" {
				t.Errorf("the target has %q", got)
			}
			if s := states(t, stream); s["x"] != "active" {
				t.Errorf("x is %s", s["x"])
			}
			var noted []struct{ Reason, Operation, Text, Message string }
			if err := json.Unmarshal([]byte(testdb.Must(t, "exceptions", tgt, "--json")), &noted); err != nil {
				t.Fatal(err)
			}
			if len(noted) != 2 || noted[0].Reason != "SKIPPED" || !strings.Contains(noted[0].Text, "as rows") || !strings.Contains(noted[0].Message, places[1]) ||
				noted[1].Operation != "STATEMENT" || !strings.Contains(noted[1].Text, "as a statement") {
				t.Errorf("exceptions: %+v", noted)
			}
		})
	}
}

// events finds the last statement event and the last row event of table x, in the server's own list
// of log events.
func events(t *testing.T, src string) []string {
	t.Helper()
	binlogs := strings.Split(testdb.Query(t, src, "SHOW BINARY LOGS"), "\n")
	file, _, _ := strings.Cut(binlogs[len(binlogs)-1], "\t")
	db := src[strings.LastIndexByte(src, '/')+1:]
	statement, rows, number := "", "", ""
	for _, line := range strings.Split(testdb.Query(t, src, "SHOW BINLOG EVENTS IN '"+file+"'"), "\n") {
		f := strings.Split(line, "\t")
		if len(f) < 6 {
			continue // continuation of a multi-line statement
		}
		at := file + ":" + f[1]
		switch m := regexp.MustCompile(`table_id: (\d+)`).FindStringSubmatch(f[5]); {
		case f[2] == "Query" && strings.Contains(f[5], "use `"+db+"`; INSERT INTO x"):
			statement = at
		case f[2] == "Table_map" && strings.Contains(f[5], "("+db+".x)"):
			number = m[1]
		case strings.HasPrefix(f[2], "Write_rows") && m != nil && m[1] == number && number != "":
			rows, number = at, ""
		}
	}
	if statement == "" || rows == "" {
		t.Fatalf("events of x: %q, %q", statement, rows)
	}
	return []string{statement, rows}
}
