package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// computed is a file some of whose rows are SQL: functions, arithmetic, variables, a query over
// rows loaded before, and keys that decide the outcome.
const computed = "SET time_zone = '+05:00';\nSET NAMES latin1;\nSET @half = 21;\n" +
	"CREATE TABLE `log` (`id` int NOT NULL AUTO_INCREMENT, `at` timestamp NOT NULL, `n` int, `name` varchar(20) CHARACTER SET utf8mb4, PRIMARY KEY (`id`)) ENGINE=InnoDB;\n" +
	"INSERT INTO `log` VALUES (1,'2024-01-01 05:00:00',1+1,'caf\xe9'),(2,'2024-01-01 05:00:00',@half*2,upper('x')),(3,NOW(),3,NULL);\n" +
	"INSERT INTO `log` (`n`,`at`) VALUES (7,FROM_UNIXTIME(86400)),(8,'2024-01-01 05:00:00');\n" +
	"SET @half = 50;\nSET time_zone = '+00:00';\n" +
	"CREATE TABLE `twin` (`id` int NOT NULL, `n` int, PRIMARY KEY (`id`), UNIQUE KEY `n` (`n`)) ENGINE=InnoDB;\n" +
	"INSERT INTO `twin` SELECT id, id * 10 FROM `log` WHERE id < 4;\n" +
	"INSERT INTO `twin` VALUES (9,10) ON DUPLICATE KEY UPDATE n = n + 1;\n" +
	"INSERT IGNORE INTO `twin` VALUES (10,20),(11,110);\n" +
	"INSERT INTO `twin` VALUES (12,@half);\n" +
	"INSERT INTO `twin` (`id`,`n`) VALUES (13,130),(14,140);\n"

// tablesOf returns the tables of the last run as recorded in the catalogue.
func tablesOf(t *testing.T) map[string]catalog.TableStat {
	t.Helper()
	cat, err := catalog.Open(statePath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	list, err := cat.Tables(t.Context(), lastRun(t))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]catalog.TableStat{}
	for _, s := range list {
		out[s.Name] = s
	}
	return out
}

// TestRowsThatOnlyAServerEvaluates: such rows are run as SQL, with the settings in effect at their
// place in the file, and counted.
func TestRowsThatOnlyAServerEvaluates(t *testing.T) {
	for name, srv := range map[string]*testdb.Server{"mariadb": maria(t), "mysql": mysql8(t)} {
		t.Run(name, func(t *testing.T) {
			dst := srv.NewDatabase(t, "dst")
			o := must(t, "copy", testdb.Written(t, "computed.sql", computed), dst, "--lanes", "2")
			if strings.Contains(o.errOut, "retrying") {
				t.Errorf("rows were tried in vain:\n%s", o.errOut)
			}
			got := testdb.Query(t, dst, "SET time_zone='+00:00'; SELECT id, n, hex(name), at = '2024-01-01 00:00:00', at > '2024-01-02' FROM log ORDER BY id; SELECT id, n FROM twin ORDER BY id")
			want := "1\t2\t636166C3A9\t1\t0\n2\t42\t58\t1\t0\n3\t3\tNULL\t0\t1\n4\t7\tNULL\t0\t0\n5\t8\tNULL\t1\t0\n" +
				"1\t11\n2\t20\n3\t30\n11\t110\n12\t50\n13\t130\n14\t140"
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			now := tablesOf(t)
			if s := now["log"]; s.FullLoadRows != 5 || s.Method != "SQL of the file" || s.FullLoadBytes == 0 {
				t.Errorf("log: %+v", s)
			}
			// The row that ON DUPLICATE KEY UPDATE changed counts twice, as on the server.
			if s := now["twin"]; s.FullLoadRows != 3+2+1+1+2 || s.Method != "SQL of the file, LOAD DATA" && s.Method != "LOAD DATA, SQL of the file" {
				t.Errorf("twin: %+v", s)
			}
			if !strings.Contains(o.out, "14 rows, ") {
				t.Errorf("the report:\n%s", o.out)
			}
			nothingOfOurs(t, dst)
		})
	}
}

// TestComputedRowsUnderRules: they use the names on the target, or are refused.
func TestComputedRowsUnderRules(t *testing.T) {
	t.Parallel()
	text := "CREATE TABLE `t` (`a` int, `b` int, `g` int GENERATED ALWAYS AS (a+b) STORED);\nINSERT INTO `t` VALUES (1,1+1,DEFAULT);\nINSERT INTO t (b, a) VALUES (abs(-5),4);\n"
	file := testdb.Written(t, "t.sql", text)
	dst := maria(t).NewDatabase(t, "dst")
	must(t, "copy", file, dst, "--config", taskFile(t, "rename: {tables: {'*.t': u}, columns: {a: first}}"), "--prep", "drop")
	if got := testdb.Query(t, dst, "SELECT first, b FROM u ORDER BY 1"); got != "1\t2\n4\t5" {
		t.Errorf("got %q", got)
	}
	for name, sql := range map[string]string{
		"fills column b, which the target does not have":                 "CREATE TABLE t (a int, b int);\nINSERT INTO t VALUES (1,1+1);\n",
		"is SQL, and its table has another name or other columns":        "CREATE TABLE t (a int, b int);\nINSERT INTO t SELECT 1, 2;\n",
		"depends on LAST_INSERT_ID(), and rows are not loaded one after": "CREATE TABLE x (a int, b int);\nINSERT INTO x VALUES (1, LAST_INSERT_ID());\n",
		"depends on a variable that a query has set":                     "CREATE TABLE x (a int, b int);\nSET @m = (SELECT max(a) FROM x);\nINSERT INTO x VALUES (1,@m);\n",
	} {
		dst := maria(t).NewDatabase(t, "dst")
		o := cli(t, "copy", testdb.Written(t, "t.sql", sql), dst, "--config", taskFile(t, "tables: {'*.t': {drop: [b]}}"))
		if o.code != 7 || !strings.Contains(o.errOut, name) {
			t.Errorf("%s: exit %d\n%s", name, o.code, o.errOut)
		}
	}
}

// TestKilledBetweenComputedRows kills imports of rows that are SQL, for tables without a key that
// would reveal a duplicate row.
func TestKilledBetweenComputedRows(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("CREATE TABLE `a` (`i` int, `x` varchar(20), `at` datetime) ENGINE=InnoDB;\nCREATE TABLE `b` (`i` int) ENGINE=InnoDB;\n")
	const n = 150
	for i := range n {
		fmt.Fprintf(&b, "INSERT INTO `a` VALUES (%d,'plain',NULL);\nINSERT INTO `b` VALUES (%d+0);\nINSERT INTO `a` SELECT %d, 'query', NOW();\n", i, i, i)
	}
	file := testdb.Written(t, "computed.sql", b.String())
	seed := testdb.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	dst := maria(t).NewDatabase(t, "dst")
	args := []string{"copy", file, dst, "--json", "--lanes", "2"}
	kills := 0
	for attempt := 0; ; attempt++ {
		line := args
		state := lastState(t)
		if state == catalog.Done {
			break
		}
		if state != "" {
			line = append(args[:len(args):len(args)], "--resume", "last")
		}
		at := -1
		if attempt < 6 {
			at = 2 + rng.IntN(90)
		}
		p := runUntil(t, at, time.Duration(rng.IntN(3000))*time.Microsecond, line...)
		if p.killed {
			kills++
			continue
		}
		if p.code != 0 {
			t.Fatalf("attempt %d: exit %d\n%s%s", attempt, p.code, p.errOut, p.errors)
		}
		break
	}
	t.Logf("killed %d times", kills)
	if kills < 2 {
		t.Errorf("killed only %d times", kills)
	}
	if got := testdb.Query(t, dst, "SELECT count(*), count(DISTINCT i, x) FROM a; SELECT count(*), count(DISTINCT i) FROM b"); got != fmt.Sprintf("%d\t%d\n%d\t%d", 2*n, 2*n, n, n) {
		t.Errorf("rows and different rows: %s", got)
	}
	nothingOfOurs(t, dst)
	var rows int64
	for _, s := range tablesOf(t) {
		rows += s.FullLoadRows
	}
	if rows != 3*n {
		t.Errorf("%d rows are reported", rows)
	}
	var runs []catalog.Run
	if err := json.Unmarshal([]byte(must(t, "runs", "--json").out), &runs); err != nil || len(runs) != 1 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// TestDumpOfTwoDatabasesKilled kills imports of two databases, and resumes them.
func TestDumpOfTwoDatabasesKilled(t *testing.T) {
	for _, to := range []struct {
		name string
		srv  *testdb.Server
	}{{"mysql", testdb.OwnMySQL(t)}, {"postgres", pg15(t)}} {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			a, b := killSource(t, maria(t), 4000), killSource(t, maria(t), 3000)
			file := "file:" + dumpOf(t, maria(t), "--net-buffer-length=16384", "--single-transaction", "--databases", nameOf(a), nameOf(b))
			seed := testdb.Seed(t)
			rng := rand.New(rand.NewPCG(seed, 0))
			dst := to.srv.URL("")
			if to.name == "postgres" {
				dst = to.srv.NewDatabase(t, "dst")
			} else {
				onServer(t, to.srv, a)
				onServer(t, to.srv, b)
			}
			args := []string{"copy", file, dst, "--json", "--range-size", "16kB", "--lanes", "2"}
			kills := 0
			for attempt := 0; ; attempt++ {
				line := args
				state := lastState(t)
				if state == catalog.Done {
					break
				}
				if state != "" {
					line = append(args[:len(args):len(args)], "--resume", "last")
				}
				at := -1
				if attempt < 5 {
					at = 1 + rng.IntN(60)
				}
				p := runUntil(t, at, time.Duration(rng.IntN(3000))*time.Microsecond, line...)
				if p.killed {
					kills++
					continue
				}
				if p.code != 0 {
					t.Fatalf("attempt %d: exit %d\n%s%s", attempt, p.code, p.errOut, p.errors)
				}
				break
			}
			t.Logf("killed %d times", kills)
			if kills < 2 {
				t.Errorf("killed only %d times", kills)
			}
			for _, db := range []string{a, b} {
				if to.name == "mysql" {
					must(t, "diff", db, to.srv.URL(nameOf(db)))
					nothingOfOurs(t, to.srv.URL(nameOf(db)))
					continue
				}
				must(t, "diff", db, dst, "--target-schema", nameOf(db))
				nothingOfOurs(t, dst)
			}
		})
	}
}
