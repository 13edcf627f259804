// Package values tests streams whose target refuses values: each stops its own table, everything
// else of the same transactions arrives, and the command in the hint restores the table.
package values

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A refusal is a row that a target refuses, in a table of its own.
type refusal struct {
	table  string
	typ    string // of its column v at the source
	good   string // a value that both sides hold
	alter  string // SQL for the target's table before the row arrives; ";" separates statements
	bad    string // the change at the source
	reason string // part of the reported reason
	heal   string // run on the source before the table is loaded again
	widen  string // or on the target
}

// fromPostgres are rows that MySQL and MariaDB refuse.
var fromPostgres = []refusal{
	{table: "nan", typ: "double precision", good: "1.5", bad: "INSERT INTO nan VALUES (7, 'NaN')", reason: "insert of the row id=7: column v holds \"NaN\"", heal: "DELETE FROM nan WHERE id = 7"},
	{table: "infinite", typ: "numeric(12,2)", good: "1.50", bad: "UPDATE infinite SET v = 'NaN' WHERE id = 1", reason: "update of the row id=1", heal: "UPDATE infinite SET v = 3"},
	{table: "forever", typ: "date", good: "'2020-01-02'", bad: "UPDATE forever SET v = 'infinity'", reason: "infinity", heal: "UPDATE forever SET v = '2020-01-03'"},
	{table: "caesar", typ: "timestamp", good: "'2020-01-02 03:04:05'", bad: "INSERT INTO caesar VALUES (7, '0044-03-15 12:00 BC')", reason: "BC", heal: "DELETE FROM caesar WHERE id = 7"},
	{table: "narrow", typ: "text", good: "'abc'", alter: "ALTER TABLE narrow MODIFY v varchar(3)", bad: "INSERT INTO narrow VALUES (7, 'abcd')", reason: "Data too long", widen: "ALTER TABLE narrow MODIFY v text"},
	{table: "small", typ: "integer", good: "12", alter: "ALTER TABLE small MODIFY v tinyint", bad: "INSERT INTO small VALUES (7, 300)", reason: "Out of range", widen: "ALTER TABLE small MODIFY v int"},
	{table: "wanted", typ: "integer", good: "12", alter: "ALTER TABLE wanted MODIFY v int NOT NULL", bad: "INSERT INTO wanted VALUES (7, NULL)", reason: "cannot be null", heal: "UPDATE wanted SET v = 3 WHERE id = 7"},
	{table: "checked", typ: "integer", good: "12", alter: "ALTER TABLE checked ADD CHECK (v < 100)", bad: "INSERT INTO checked VALUES (7, 100)", reason: "", heal: "UPDATE checked SET v = 3 WHERE id = 7"},
	{table: "label", typ: "varchar(9)", good: "'a'", alter: "ALTER TABLE label MODIFY v enum('a','b')", bad: "INSERT INTO label VALUES (7, 'c')", reason: "Data truncated", widen: "ALTER TABLE label MODIFY v enum('a','b','c')"},
	{table: "script", typ: "text", good: "'abc'", alter: "ALTER TABLE script MODIFY v varchar(90) CHARACTER SET latin1", bad: "INSERT INTO script VALUES (7, '日本')", reason: "Incorrect string value", widen: "ALTER TABLE script MODIFY v text CHARACTER SET utf8mb4"},
	{table: "parted", typ: "integer", good: "12", alter: "ALTER TABLE parted PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))", bad: "INSERT INTO parted VALUES (50, 1)", reason: "no partition", widen: "ALTER TABLE parted ADD PARTITION (PARTITION p1 VALUES LESS THAN (100))"},
	{table: "guarded", typ: "integer", good: "12", alter: "CREATE TRIGGER guard BEFORE INSERT ON guarded FOR EACH ROW IF NEW.v = 13 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not 13'; END IF", bad: "INSERT INTO guarded VALUES (7, 13)", reason: "not 13", heal: "UPDATE guarded SET v = 3 WHERE id = 7"},
}

// fromMySQL are rows that PostgreSQL refuses.
var fromMySQL = []refusal{
	{table: "zero", typ: "date", good: "'2020-01-02'", bad: "INSERT INTO zero VALUES (7, '0000-00-00')", reason: "insert of the row id=7: date/time field value out of range", heal: "UPDATE zero SET v = '2020-01-03' WHERE id = 7"},
	{table: "zerotime", typ: "datetime", good: "'2020-01-02 03:04:05'", bad: "UPDATE zerotime SET v = '0000-00-00 00:00:00'", reason: "0000-00-00", heal: "UPDATE zerotime SET v = '2020-01-03 00:00:01'"},
	{table: "zerostamp", typ: "timestamp NULL", good: "'2020-01-02 03:04:05'", bad: "INSERT INTO zerostamp VALUES (7, 0)", reason: "0000-00-00", heal: "DELETE FROM zerostamp WHERE id = 7"},
	{table: "thirtieth", typ: "date", good: "'2020-01-02'", bad: "INSERT INTO thirtieth VALUES (7, '2021-02-30')", reason: "2021-02-30", heal: "DELETE FROM thirtieth WHERE id = 7"},
	{table: "nul", typ: "varchar(20)", good: "'abc'", bad: "INSERT INTO nul VALUES (7, CONCAT('a', CHAR(0), 'b'))", reason: "invalid byte sequence", heal: "UPDATE nul SET v = 'ab' WHERE id = 7"},
	{table: "narrow", typ: "varchar(20)", good: "'abc'", alter: "ALTER TABLE narrow ALTER v TYPE varchar(3)", bad: "INSERT INTO narrow VALUES (7, 'abcd')", reason: "too long", widen: "ALTER TABLE narrow ALTER v TYPE text"},
	{table: "small", typ: "int", good: "12", alter: "ALTER TABLE small ALTER v TYPE smallint", bad: "INSERT INTO small VALUES (7, 70000)", reason: "out of range", widen: "ALTER TABLE small ALTER v TYPE bigint"},
	{table: "wanted", typ: "int", good: "12", alter: "ALTER TABLE wanted ALTER v SET NOT NULL", bad: "INSERT INTO wanted VALUES (7, NULL)", reason: "not-null", heal: "UPDATE wanted SET v = 3 WHERE id = 7"},
	{table: "checked", typ: "int", good: "12", alter: "ALTER TABLE checked ADD CHECK (v < 100)", bad: "INSERT INTO checked VALUES (7, 100)", reason: "check constraint", heal: "UPDATE checked SET v = 3 WHERE id = 7"},
	{table: "domained", typ: "int", good: "12", alter: "CREATE DOMAIN few AS int CHECK (value < 100); ALTER TABLE domained ALTER v TYPE few", bad: "INSERT INTO domained VALUES (7, 100)", reason: "domain", heal: "UPDATE domained SET v = 3 WHERE id = 7"},
	{table: "label", typ: "varchar(9)", good: "'a'", alter: "CREATE TYPE mood AS ENUM ('a', 'b'); ALTER TABLE label ALTER v TYPE mood USING v::mood", bad: "INSERT INTO label VALUES (7, 'c')", reason: "enum", widen: "ALTER TYPE mood ADD VALUE 'c'"},
	{table: "parted", typ: "int", good: "12", alter: "DROP TABLE parted; CREATE TABLE public.parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE public.parted1 PARTITION OF parted FOR VALUES FROM (0) TO (10); INSERT INTO parted VALUES (1, 12), (2, 12)", bad: "INSERT INTO parted VALUES (50, 1)", reason: "no partition", widen: "CREATE TABLE public.parted2 PARTITION OF parted DEFAULT"},
	{table: "guarded", typ: "int", good: "12", alter: "CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.v = 13 THEN RAISE ''not 13''; END IF; RETURN NEW; END'; CREATE TRIGGER guard BEFORE INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION guard(); ALTER TABLE guarded ENABLE ALWAYS TRIGGER guard",
		bad: "INSERT INTO guarded VALUES (7, 13)", reason: "not 13", heal: "UPDATE guarded SET v = 3 WHERE id = 7"},
	{table: "indexed", typ: "mediumtext", good: "'abc'", alter: "CREATE INDEX ON indexed (v)", bad: "SET group_concat_max_len = 100000; INSERT INTO indexed WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT 7, group_concat(md5(i)) FROM n", reason: "index row", heal: "DELETE FROM indexed WHERE id = 7"},
}

// fromOwn are rows that a server of the source's own kind refuses.
var fromOwn = []refusal{
	{table: "narrow", typ: "varchar(20)", good: "'abc'", alter: "ALTER TABLE narrow MODIFY v varchar(3)", bad: "INSERT INTO narrow VALUES (7, 'abcd')", reason: "Data too long", widen: "ALTER TABLE narrow MODIFY v text"},
	{table: "checked", typ: "int", good: "12", alter: "ALTER TABLE checked ADD CHECK (v < 100)", bad: "UPDATE checked SET v = 100 WHERE id = 2", reason: "update of the row id=2", heal: "UPDATE checked SET v = 3 WHERE id = 2"},
	{table: "parted", typ: "int", good: "12", alter: "ALTER TABLE parted PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))", bad: "UPDATE parted SET id = 50 WHERE id = 2", reason: "no partition", widen: "ALTER TABLE parted ADD PARTITION (PARTITION p1 VALUES LESS THAN (100))"},
	{table: "child", typ: "int", good: "1", alter: "ALTER TABLE child ADD FOREIGN KEY (v) REFERENCES other (id)", bad: "INSERT INTO child VALUES (7, 4711)", reason: "foreign key", heal: "UPDATE child SET v = 1 WHERE id = 7"},
}

var fromOwnPostgres = []refusal{fromMySQL[5], fromMySQL[6], fromMySQL[8], fromMySQL[9]}

type open func(testing.TB) *testdb.Server

func postgres(tb testing.TB) *testdb.Server { return testdb.Postgres(tb, 15) }

// TestValuesRefused mixes bad rows with good ones in transactions, for each way of applying
// changes.
func TestValuesRefused(t *testing.T) {
	for n, x := range []struct {
		name     string
		from, to open
		rows     []refusal
		halves   bool
		options  []string
		long     bool
	}{
		{name: "postgres-mysql", from: postgres, to: testdb.MySQL, rows: fromPostgres},
		{name: "postgres-mariadb/batch", from: postgres, to: testdb.MariaDB, rows: fromPostgres, options: []string{"--apply-mode", "batch", "--queue", "durable"}},
		{name: "mysql-postgres/batch", from: testdb.MySQL, to: postgres, rows: fromMySQL, options: []string{"--apply-mode", "batch"}},
		{name: "mariadb-postgres/halves", from: testdb.MariaDB, to: postgres, rows: []refusal{fromMySQL[0], fromMySQL[4], fromMySQL[8]}, halves: true},
		{name: "postgres-postgres", from: postgres, to: postgres, rows: fromOwnPostgres, options: []string{"--commit-order", "source"}},
		{name: "mysql-mariadb", from: testdb.MySQL, to: testdb.MariaDB, rows: fromOwn},
		{name: "mariadb-mysql/batch", from: testdb.MariaDB, to: testdb.MySQL, rows: fromOwn, options: []string{"--apply-mode", "batch"}, long: true},
		{name: "postgres-mysql/halves", from: postgres, to: testdb.MySQL, rows: fromPostgres[:6], halves: true, long: true},
		{name: "mysql-postgres/ordered", from: testdb.MySQL, to: postgres, rows: fromMySQL, options: []string{"--commit-order", "source", "--queue", "durable"}, long: true},
	} {
		if x.long && !testdb.Long() {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			if !testdb.Long() { // alternate halves of the rows for each pair
				var half []refusal
				for i := n % 2; i < len(x.rows); i += 2 {
					half = append(half, x.rows[i])
				}
				x.rows = half
			}
			w := begin(t, x.from(t), x.to(t), x.rows, x.halves, x.options...)
			w.flow()
			said := ""
			for i := range x.rows {
				w.change(&x.rows[i], i)
			}
			said = w.flow()
			w.judge(said)
			w.change(nil, 100)
			w.heal(said)
		})
	}
}

// A way is a stream of refused rows.
type way struct {
	t        *testing.T
	src, tgt string
	rows     []refusal
	stream   []string // its current command line
	apply    []string // that of its second half, if there is one
	name     string
}

func begin(t *testing.T, from, to *testdb.Server, rows []refusal, halves bool, options ...string) *way {
	w := &way{t: t, src: from.NewDatabase(t, "val_s"), tgt: to.NewDatabase(t, "val_t"), rows: rows}
	w.name, _, _ = strings.Cut(w.src[strings.LastIndexByte(w.src, '/')+1:], "?")
	var all []string
	for _, r := range rows {
		all = append(all, fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, v %s); INSERT INTO %s VALUES (1, %s), (2, %s)", r.table, r.typ, r.table, r.good, r.good))
	}
	// Rows applied twice show in both of these tables: as an error in one, as a row in the other.
	all = append(all, "CREATE TABLE other (id int PRIMARY KEY, v int); INSERT INTO other VALUES (1, 0)", "CREATE TABLE journal (n int)")
	if from.Engine == "postgres" {
		all = append(all, "ALTER TABLE journal REPLICA IDENTITY FULL")
	}
	for _, sql := range all {
		testdb.Query(t, w.src, sql)
	}
	verb := "replicate"
	if halves {
		s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, SyncAlways: true})
		if err != nil {
			t.Fatal(err)
		}
		go s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("the NATS server does not start")
		}
		verb, options = "capture", append(options, "--queue", s.ClientURL())
	}
	w.stream = append([]string{verb, w.src, w.tgt, "--name", w.name, "--until", "now"}, options...)
	if halves {
		w.apply = append([]string{"apply"}, w.stream[1:]...)
		testdb.Must(t, w.stream...)
		testdb.Must(t, w.apply...)
	} else {
		testdb.Must(t, w.stream...)
	}
	for _, r := range rows {
		if r.alter != "" {
			testdb.Query(t, w.tgt, r.alter)
		}
	}
	return w
}

// change runs one transaction of a bad row, if there is one, with good rows before and after it.
func (w *way) change(r *refusal, i int) {
	w.t.Helper()
	bad := ""
	if r != nil {
		bad = r.bad + "; "
	}
	sql := fmt.Sprintf("BEGIN; INSERT INTO other VALUES (%d, 1); %sUPDATE other SET v = %d WHERE id = 1; INSERT INTO journal VALUES (%d); COMMIT", 10+i, bad, i, i)
	if !strings.HasPrefix(w.src, "postgres") {
		sql = "SET sql_mode = 'ALLOW_INVALID_DATES'; " + sql
	}
	testdb.Query(w.t, w.src, sql)
}

// flow lets the stream reach the source's end; it must not stop on the way.
func (w *way) flow() (said string) {
	w.t.Helper()
	for _, args := range [][]string{w.stream, w.apply} {
		if args == nil {
			continue
		}
		o := testdb.Run(w.t, args...)
		if o.Code != 0 {
			w.t.Fatalf("%s ended with %d:\n%s%s", args[0], o.Code, o.ErrOut, o.Out)
		}
		said += o.ErrOut + o.Out
	}
	return said
}

// judge requires that each bad row has stopped its own table and no other, for its reason, and that
// everything else equals the source.
func (w *way) judge(said string) {
	w.t.Helper()
	var known []struct {
		Table         struct{ Name string }
		State, Reason string
	}
	if err := json.Unmarshal([]byte(testdb.Must(w.t, "sub", "--name", w.name, "--json")), &known); err != nil {
		w.t.Fatal(err)
	}
	state := map[string]string{}
	for _, k := range known {
		state[k.Table.Name] = k.State + ": " + k.Reason
	}
	for _, r := range w.rows {
		if got := state[r.table]; !strings.HasPrefix(got, "stopped: ") || !strings.Contains(got, r.reason) {
			w.t.Errorf("%s is %q, and not stopped for %q", r.table, got, r.reason)
		}
	}
	for _, name := range []string{"other", "journal"} {
		if got := state[name]; got != "active: " {
			w.t.Errorf("%s is %q", name, got)
		}
	}
	w.same("other", "journal")
}

// zoned matches what a target prints after a time in addition.
var zoned = regexp.MustCompile(`(?m)(:\d\d)(\.000000|\+00)$`)

// same compares tables by the output of both servers.
func (w *way) same(tables ...string) {
	w.t.Helper()
	for _, name := range tables {
		sql := "SELECT id, v FROM " + name + " ORDER BY id"
		if name == "journal" {
			sql = "SELECT n FROM journal ORDER BY n"
		}
		if a, b := testdb.Query(w.t, w.src, sql), zoned.ReplaceAllString(testdb.Query(w.t, w.tgt, sql), "$1"); a != b {
			w.t.Errorf("%s has\n%s\nat the source and\n%s\non the target", name, a, b)
		}
	}
}

var hinted = regexp.MustCompile(`Then run tidemark (sub reload \S+ --name \S+)\.`)

// heal removes the causes, runs the commands from the hints, and requires everything to be equal.
func (w *way) heal(said string) {
	w.t.Helper()
	commands := map[string][]string{}
	for _, m := range hinted.FindAllStringSubmatch(said, -1) {
		args := strings.Fields(m[1])
		_, table, _ := strings.Cut(args[2], ".")
		commands[table] = args
	}
	var all []string
	for _, r := range w.rows {
		if r.heal != "" {
			testdb.Query(w.t, w.src, r.heal)
		}
		if r.widen != "" {
			testdb.Query(w.t, w.tgt, r.widen)
		}
		if commands[r.table] == nil {
			w.t.Fatalf("no hint names the command for %s", r.table)
		}
		testdb.Must(w.t, commands[r.table]...)
		all = append(all, r.table)
	}
	if w.apply == nil {
		w.flow()
	} else {
		w.live(all)
	}
	w.same(append(all, "other", "journal")...)
}

// live runs both halves in parallel until no table is loading.
func (w *way) live(tables []string) {
	var both []*exec.Cmd
	for _, args := range [][]string{w.stream, w.apply} {
		cmd := testdb.Command(w.t, append(append([]string{}, args[:5]...), args[7:]...)...)
		if err := cmd.Start(); err != nil {
			w.t.Fatal(err)
		}
		both = append(both, cmd)
	}
	for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		list := testdb.Must(w.t, "sub", "--name", w.name)
		if !strings.Contains(list, "loading") && !strings.Contains(list, "stopped") {
			break
		}
		if time.Since(begun) > 5*time.Minute {
			w.t.Errorf("not all are loaded:\n%s", list)
			break
		}
	}
	for _, cmd := range both {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed on purpose
	}
	w.flow()
}

// TestValuesKilled kills the stream each time it reports that it has stopped a table, which is
// before the transaction with the bad row is committed.
func TestValuesKilled(t *testing.T) {
	for _, x := range []struct {
		name     string
		from, to open
		rows     []refusal
	}{
		{"postgres-mariadb", postgres, testdb.MariaDB, fromPostgres[:3]},
		{"mariadb-postgres", testdb.MariaDB, postgres, []refusal{fromMySQL[0], fromMySQL[4], fromMySQL[8]}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			w := begin(t, x.from(t), x.to(t), x.rows, false)
			said := ""
			for i := range x.rows {
				w.change(&x.rows[i], i)
				w.change(nil, 20+i)
				said += w.killedAt("stopped: ")
			}
			w.change(nil, 100)
			w.flow()
			w.judge(said)
			w.heal(said)
		})
	}
}

// killedAt runs the stream until it prints text, kills it then, and returns that line.
func (w *way) killedAt(text string) string {
	w.t.Helper()
	cmd := testdb.Command(w.t, append(append([]string{}, w.stream[:5]...), w.stream[7:]...)...)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	late := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	said := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), text) {
			_ = cmd.Process.Kill()
			break
		}
	}
	_ = cmd.Wait() // it was killed on purpose
	if !strings.Contains(said, text) {
		w.t.Fatalf("it never said %q:\n%s", text, said)
	}
	return said
}
