package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestConflicts runs on a target that somebody else has changed: the stream stops, skips the
// change, or forces it, and records each conflict once.
func TestConflicts(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		to   func(*testing.T) *testdb.Server
		row  string // as an exception's statement shows it
	}{{"postgres", pg15, "VALUES ('12', '12', '12')"}, {"mysql", mysql8, "VALUES (12,12,12)"}, {"mariadb", maria, "VALUES (12,12,12)"}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := pg15(t).NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), streamName()
			testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, x int, u int UNIQUE); INSERT INTO a VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
			args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
			must(t, args...)
			for _, sql := range []string{"INSERT INTO a VALUES (10, 0, 10)", "DELETE FROM a WHERE id = 2", "DELETE FROM a WHERE id = 3", "INSERT INTO a VALUES (50, 0, 12)"} {
				testdb.Query(t, dst, sql)
			}
			testdb.Query(t, src, "BEGIN; INSERT INTO a VALUES (10, 10, 10), (11, 11, 11); UPDATE a SET x = 22 WHERE id = 2; COMMIT; DELETE FROM a WHERE id = 3; INSERT INTO a VALUES (12, 12, 12); UPDATE a SET x = 7 WHERE id = 1")
			if o := cli(t, args...); o.code != 14 {
				t.Fatalf("exit %d\n%s", o.code, o.errOut)
			}
			if n := testdb.Query(t, dst, "SELECT count(*) FROM a WHERE id = 11"); n != "0" {
				t.Error("half of a transaction is there")
			}
			o := must(t, append(args, "--conflict", "force")...)
			if !strings.Contains(o.out, "4 changes did not fit the target") {
				t.Errorf("the report says\n%s", o.out)
			}
			// 10 became an update, 2 an insert; 3 was already gone; 12 is impossible because of 50.
			if got := testdb.Query(t, dst, "SELECT id, x FROM a ORDER BY id"); got != "1\t7\n2\t22\n10\t10\n11\t11\n50\t0" {
				t.Errorf("the target has\n%s", got)
			}
			o = must(t, "exceptions", dst, "--name", name)
			for _, want := range []string{"DUPLICATE: INSERT of", "NOTFOUND: UPDATE of", "NOTFOUND: DELETE of", "forced", "skipped", x.row} {
				if !strings.Contains(o.out, want) {
					t.Errorf("no %q in\n%s", want, o.out)
				}
			}
			if n := strings.Count(o.out, "(transaction at"); n != 4 {
				t.Errorf("%d exceptions\n%s", n, o.out)
			}
			// Without a target argument the stream's target is used, whose password is not in the
			// catalogue.
			if o := cli(t, "exceptions", "--name", name); o.code != exitCodes[tidemark.Denied] || !strings.Contains(o.errOut, "Name the target") {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
			if named := byName(t, []string{dst}, "exceptions", "--name", name); named.code != 0 || named.out != o.out {
				t.Errorf("exit %d %s\n%s\nnot\n%s", named.code, named.errOut, named.out, o.out)
			}
			// Exceptions are listed by stream, table and time, and removed likewise.
			for _, none := range [][]string{{"--name", "another"}, {"--table", "b"}, {"--since", "2090-01-01"}, {"--table", "x.a"}, {"--table", "_"}, {"--since", "0s"}} {
				if o := must(t, append([]string{"exceptions", dst}, none...)...); o.out != "no exceptions\n" {
					t.Errorf("%v: %s", none, o.out)
				}
			}
			if o := must(t, "exceptions", dst, "--table", "a", "--since", "1d", "--purge", "1h"); !strings.Contains(o.errOut, "0 exceptions removed") {
				t.Error(o.errOut)
			}
			var asJSON []change.Exception
			if o := must(t, "exceptions", dst, "--table", "a", "--since", "1h", "--json"); json.Unmarshal([]byte(o.out), &asJSON) != nil || len(asJSON) != 4 {
				t.Error(o.out)
			} else if o := must(t, "exceptions", dst, "--table", asJSON[0].Table, "--purge", "0s"); !strings.Contains(o.errOut, "4 exceptions removed") {
				t.Error(o.errOut)
			}
			testdb.Query(t, dst, "DELETE FROM a WHERE id = 1")
			testdb.Query(t, src, "UPDATE a SET x = 8 WHERE id = 1; UPDATE a SET x = 9 WHERE id = 2")
			must(t, append(args, "--conflict", "ignore")...)
			if got := testdb.Query(t, dst, "SELECT id, x FROM a WHERE id < 10 ORDER BY id"); got != "2\t9" {
				t.Errorf("the target has\n%s", got)
			}
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}

// TestConflictRules changes the target independently of the stream: each rule reports only
// conflicts in what it checks, whether changes come one by one or in bulk, and whatever types the
// columns have.
func TestConflictRules(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		from, to func(*testing.T) *testdb.Server
	}{{"postgres", pg15, pg15}, {"postgres to mariadb", pg15, maria}, {"mysql to postgres", mysql8, pg15}, {"mariadb", maria, maria}, {"mariadb to mysql", maria, mysql8}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.from(t).NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), streamName()
			insert := func(id int) string {
				return fmt.Sprintf("(%d, %d, 'a''b\\c  ', 1.50, 0.1, 0.1, '2024-02-03 04:05:06.78', '2024-02-03', '{\"b\": [1.0, \"x\"], \"a\": null}', 'pad', NULL, 0)", id, id)
			}
			double := "double precision"
			testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, x int, s varchar(20), d numeric(9,2), f "+double+", r real, ts timestamp(3) NULL, dt date, j json, c char(9), n varchar(9), y int)")
			if x.name[0] == 'p' {
				testdb.Query(t, src, "ALTER TABLE a REPLICA IDENTITY FULL")
			}
			var all []string
			for id := 1; id <= 40; id++ {
				all = append(all, insert(id))
			}
			testdb.Query(t, src, "INSERT INTO a VALUES "+strings.Join(all, ", "))
			args := []string{"replicate", src, dst, "--name", name, "--until", "now"}
			must(t, args...)
			follow := func(rule string, change ...string) string {
				t.Helper()
				for _, sql := range change {
					testdb.Query(t, src, sql)
				}
				must(t, append(args, "--conflict", "ignore", "--conflict-rule", rule)...)
				return testdb.Query(t, dst, "SELECT id, x, y FROM a WHERE id < 10 ORDER BY id")
			}
			// No false alarms: rows untouched on the target never conflict.
			for _, rule := range []string{"changed", "all"} {
				follow(rule, "UPDATE a SET f = f * 3, r = r * 3, d = d + 1, s = concat(s, ' '), c = 'p', n = 'x' WHERE id > 9", "UPDATE a SET n = NULL, j = '{\"a\": 1}', ts = '2024-02-03 04:05:06.789' WHERE id = 10",
					"UPDATE a SET id = id + 1000 WHERE id = 11", "DELETE FROM a WHERE id = 12", "INSERT INTO a VALUES "+insert(12), "UPDATE a SET id = 11 WHERE id = 1011")
			}
			if o := must(t, "exceptions", dst); o.out != "no exceptions\n" {
				t.Errorf("what nobody has touched does not fit\n%s", o.out)
			}
			must(t, "diff", src, dst)
			testdb.Query(t, dst, "UPDATE a SET x = 100 WHERE id IN (1, 2, 3); UPDATE a SET y = 100 WHERE id IN (4, 5, 6)")
			// Only the changed columns are checked and written.
			if got := follow("changed", "UPDATE a SET x = x + 1 WHERE id < 10", "UPDATE a SET y = 7 WHERE id = 1", "DELETE FROM a WHERE id = 6"); got !=
				"1\t100\t7\n2\t100\t0\n3\t100\t0\n4\t5\t100\n5\t6\t100\n7\t8\t0\n8\t9\t0\n9\t10\t0" {
				t.Errorf("changed: the target has\n%s", got)
			}
			// Any column counts.
			if got := follow("all", "UPDATE a SET y = 8 WHERE id < 10", "DELETE FROM a WHERE id IN (5, 9)"); got != "1\t100\t7\n2\t100\t0\n3\t100\t0\n4\t5\t100\n5\t6\t100\n7\t8\t8\n8\t9\t8" {
				t.Errorf("all: the target has\n%s", got)
			}
			o := must(t, "exceptions", dst, "--limit", "100")
			if n := strings.Count(o.out, "CHECKFAILED"); n != 3+6 || strings.Count(o.out, "found a row that differs from the source's") != n {
				t.Errorf("%d checks failed\n%s", n, o.out)
			}
			// And stop names it.
			testdb.Query(t, src, "UPDATE a SET y = 9 WHERE id = 1")
			if o := cli(t, append(args, "--conflict-rule", "all")...); o.code != 14 || !strings.Contains(o.errOut, "an update found a row that differs from the source's") {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
			testdb.Query(t, src, "DELETE FROM a WHERE id IN (2, 3)")
			must(t, append(args, "--conflict", "force", "--conflict-rule", "all")...)
			testdb.Query(t, src, "UPDATE a SET y = 10 WHERE id = 4")
			must(t, append(args, "--conflict", "force", "--conflict-rule", "all")...)
			testdb.Query(t, dst, "DELETE FROM a WHERE id = 5")
			must(t, "diff", src, dst)
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}

// TestUntold requests rules that need more than the log contains.
func TestUntold(t *testing.T) {
	t.Parallel()
	t.Run("untold-postgres", func(t *testing.T) {
		t.Parallel()
		src, dst := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst")
		testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY); ALTER TABLE a REPLICA IDENTITY FULL; CREATE TABLE b (id int PRIMARY KEY) PARTITION BY RANGE (id)")
		testdb.Query(t, src, "ALTER TABLE b REPLICA IDENTITY FULL; CREATE TABLE b1 PARTITION OF b DEFAULT; CREATE TABLE c (id int PRIMARY KEY)")
		args := []string{"replicate", src, dst, "--name", streamName(), "--conflict-rule", "changed"}
		sameText(t, cli(t, args...), 7, args)
		if n := testdb.Query(t, src, "SELECT count(*) FROM pg_publication"); n != "0" {
			t.Errorf("%s publications were made", n)
		}
	})
	t.Run("untold-mariadb", func(t *testing.T) {
		t.Parallel()
		src, dst := testdb.OwnMariaDB(t, "--binlog-row-image=MINIMAL").NewDatabase(t, "src"), maria(t).NewDatabase(t, "dst")
		testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY)")
		args := []string{"replicate", src, dst, "--name", streamName(), "--conflict-rule", "all"}
		sameText(t, cli(t, args...), 7, args)
	})
}

// TestTableConflicts covers rules and actions by table, and tolerated errors.
func TestTableConflicts(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, state string
		to          func(*testing.T) *testdb.Server
	}{{"postgres", "23505", pg15}, {"mariadb", "23000", maria}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := pg15(t).NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), streamName()
			for _, table := range []string{"a", "b", "c"} {
				testdb.Query(t, src, fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, x int, y int); ALTER TABLE %s REPLICA IDENTITY FULL; INSERT INTO %s VALUES (1, 1, 1), (2, 2, 2)", table, table, table))
			}
			task := filepath.Join(t.TempDir(), "task.yaml")
			text := fmt.Sprintf("source: %s\ntarget: %s\ntables:\n  a: {conflict: ignore, conflict-rule: all}\n  b: {conflict: force}\noptions: {name: %s, until: now}\n", src, dst, name)
			if err := os.WriteFile(task, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			must(t, "replicate", "--config", task)
			testdb.Query(t, dst, "UPDATE a SET y = 7 WHERE id = 1")
			testdb.Query(t, dst, "UPDATE b SET y = 7 WHERE id = 1; DELETE FROM b WHERE id = 2")
			testdb.Query(t, dst, "INSERT INTO c VALUES (3, 0, 0)")
			testdb.Query(t, src, "BEGIN; UPDATE a SET x = 5; UPDATE b SET x = 5; UPDATE c SET x = 5; COMMIT; INSERT INTO c VALUES (3, 3, 3), (4, 4, 4)")
			if o := cli(t, "replicate", "--config", task); o.code != 14 {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
			must(t, "replicate", "--config", task, "--ok-sqlstates", "22000,"+x.state)
			for table, want := range map[string]string{"a": "1\t1\t7\n2\t5\t2", "b": "1\t5\t1\n2\t5\t2", "c": "1\t5\t1\n2\t5\t2\n3\t0\t0\n4\t4\t4"} {
				if got := testdb.Query(t, dst, "SELECT * FROM "+table+" ORDER BY id"); got != want {
					t.Errorf("%s has\n%s", table, got)
				}
			}
			o := must(t, "exceptions", dst)
			for _, want := range []string{"CHECKFAILED: UPDATE of", "NOTFOUND: UPDATE of", "OKSQLSTATE: INSERT of"} {
				if strings.Count(o.out, want) != 1 {
					t.Errorf("no %q in\n%s", want, o.out)
				}
			}
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}

// TestNoFalseAlarms changes values of all kinds under the rule all, which finds them unchanged on
// the target, however they got there.
func TestNoFalseAlarms(t *testing.T) {
	t.Parallel()
	const ofPostgres = `a smallint, b bigint, c numeric, d numeric(30,10), e real, f double precision, g boolean, h char(5), i varchar(9), j text, k bytea, l date, m time(2), n timestamp, o timestamptz(3), p interval, q uuid, r json, s jsonb, u int[], v bit(5), w inet`
	const ofMySQL = `a tinyint, b bigint unsigned, c decimal(20,5), d decimal(30,10), e float, f double, g bit(9), h char(5), i varchar(9), j longtext, k blob, l date, m time(2), n datetime(6), o timestamp(3) NULL, p year, q binary(4), r json, s enum('x','y'), u set('x','y'), v varbinary(9), w float(7,3)`
	rows := map[string][2]string{
		"postgres": {`-1, 9007199254740993, 1.10, 1.5, 0.1, 1e-300, true, 'ab', 'x ', 'ä\é', '\x00ff', '2024-02-29', '01:02:03.456', '2024-02-29 01:02:03.456789', '2024-02-29 01:02:03.4567+02', '1 mon 2 days', '00000000-0000-0000-0000-00000000000a', '{"b" : 1, "a":1.0}', '{"b" : 1, "aa":1.0}', '{1,NULL}', B'10101', '10.0.0.1'`,
			`32767, 0, 123456789012345678901234567890.5, -0.0000000001, 3.4e38, 0.30000000000000004, false, '', '', 'A', '', '0001-01-01', '23:59:59.99', '1999-12-31 23:59:59', '2038-01-19 03:14:07Z', '-1 day', NULL, '[]', '"x"', '{}', B'00000', '::1'`},
		"mysql": {`-1, 18446744073709551615, 1.10, 1.5, 0.1, 1e-300, b'101010101', 'ab', 'x ', 'ä\\é', x'00ff', '2024-02-29', '01:02:03.456', '2024-02-29 01:02:03.456789', '2024-02-29 01:02:03.4567', 1999, x'0100', '{"b" : 1, "a":1.0}', 'x', 'x,y', x'20', 1.1`,
			`127, 0, -5.5, -0.0000000001, 3.4e38, 0.30000000000000004, b'0', '', '', 'A', '', '1000-01-01', '-23:59:59.99', '1999-12-31 23:59:59', '2038-01-19 03:14:07', 2155, '', '[]', 'y', '', '', -1234.567`},
	}
	for _, x := range []struct {
		name     string
		from, to func(*testing.T) *testdb.Server
	}{{"postgres", pg15, pg15}, {"postgres to mysql", pg15, mysql8}, {"mysql", mysql8, mysql8}, {"mariadb", maria, maria}, {"mysql to postgres", mysql8, pg15}, {"mysql to mariadb", mysql8, maria}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.from(t).NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), streamName()
			columns, values, full := ofMySQL, rows["mysql"], ""
			if strings.HasPrefix(x.name, "postgres") {
				columns, values, full = ofPostgres, rows["postgres"], "; ALTER TABLE t REPLICA IDENTITY FULL"
			}
			testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, x int, "+columns+")"+full)
			testdb.Query(t, src, fmt.Sprintf("INSERT INTO t VALUES (1, 0, %s), (2, 0, %s), (3, 0, %s)", values[0], values[1], strings.Repeat("NULL, ", strings.Count(columns, ", "))+"NULL"))
			args := []string{"replicate", src, dst, "--name", name, "--until", "now", "--conflict-rule", "all"}
			must(t, args...)
			// First rows from the copy, then rows from the stream; many at once, and one.
			testdb.Query(t, src, fmt.Sprintf("INSERT INTO t VALUES (4, 0, %s), (5, 0, %s)", values[0], values[1]))
			for _, sql := range []string{"UPDATE t SET x = 1", "UPDATE t SET x = 2 WHERE id = 1", "UPDATE t SET x = 2 WHERE id = 2", "UPDATE t SET x = 3 WHERE id > 3", "DELETE FROM t WHERE id IN (1, 5)", "DELETE FROM t WHERE id IN (2, 3, 4)"} {
				testdb.Query(t, src, sql)
			}
			must(t, args...)
			if n := testdb.Query(t, dst, "SELECT count(*) FROM t"); n != "0" {
				t.Errorf("%s rows are left", n)
			}
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}

// TestStopQueue stops a stream with a queue at a conflicting change. Changes captured meanwhile go
// into the queue, so that the source releases its log, until the target is repaired.
func TestStopQueue(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		to   func(*testing.T) *testdb.Server
	}{{"postgres", pg15}, {"mariadb", maria}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := pg15(t).NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), streamName()
			testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, x int); INSERT INTO a VALUES (1, 1); CREATE TABLE b (id int PRIMARY KEY)")
			args := []string{"replicate", src, dst, "--name", name, "--queue", "durable"}
			must(t, append(args, "--until", "now")...)
			args = append(args, "--conflict", "stop-queue")
			f := running(t, args...)
			f.follows(src, dst, "b", 1)
			testdb.Query(t, dst, "DELETE FROM a")
			testdb.Query(t, src, "UPDATE a SET x = 2")
			f.says("stopped: queue of "+name, 1)
			testdb.Query(t, src, "INSERT INTO b VALUES (2)")
			place := testdb.Query(t, src, "SELECT pg_current_wal_lsn()")
			f.await("place that the source may forget", func() bool {
				testdb.Query(t, src, "SELECT pg_logical_emit_message(true, 'x', '')") // otherwise it receives no later message
				return testdb.Query(t, src, "SELECT confirmed_flush_lsn >= '"+place+"' FROM pg_replication_slots WHERE slot_name = 'tidemark_"+name+"'") == "t"
			})
			f.await("status", func() bool { return strings.Contains(must(t, "status").out, "The queue is stopped: ") })
			if n := testdb.Query(t, dst, "SELECT count(*) FROM b"); n != "1" {
				t.Errorf("the target has %s rows", n)
			}
			testdb.Query(t, dst, "INSERT INTO a VALUES (1, 1)")
			must(t, "set", "conflict=stop", "--name", name)
			f.await("row", func() bool { return testdb.Query(t, dst, "SELECT count(*) FROM b") == "2" })
			f.interrupt()
			must(t, append(args, "--until", "now")...)
			must(t, "diff", src, dst)

			// A stopped stream that is to end does so.
			testdb.Query(t, dst, "DELETE FROM a")
			testdb.Query(t, src, "UPDATE a SET x = 3")
			if o := cli(t, append(args, "--until", "now")...); o.code != 14 {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
			must(t, append(args, "--remove")...)
		})
	}
}
