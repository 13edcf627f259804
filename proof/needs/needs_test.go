// Package needs proves that tidemark check --replicate names each thing that a stream lacks, and
// that its printed statements supply it: each is removed from fully equipped servers, the printed
// statements are run, and a stream starts.
package needs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A lack is something removed from the servers.
type lack struct {
	need  string   // part of the need's name
	end   string   // the end that needs it
	take  []string // as the server's superuser, in the source's database or the target's
	give  []string // what a person does if no statement is printed
	holds func(t *testing.T) (release func())
	args  []string
	early bool // replicate finds it in another way, or not under this name
}

type ends struct {
	root           *testdb.Server
	src, dst       string // as the user of the stream
	srcAll, dstAll string // as the superuser
	refused        int    // lacks that made replicate refuse
}

func (e *ends) of(end string) string {
	if end == "target" {
		return e.dstAll
	}
	return e.srcAll
}

// A need is one line of check --replicate's output.
type need struct {
	End, Name, Have, Want, Hint string
	Met, Restart                bool
	Severity                    int
	Change                      []string
}

const blocker = 2 // Severity

type checked struct {
	Needs []need
	Lobs  []struct {
		Column string
		Bytes  int64
	}
}

// check returns what a stream lacks, and whether that blocks it.
func (e *ends) check(t *testing.T, args ...string) (missing []need, blocked bool) {
	t.Helper()
	o := testdb.Run(t, append([]string{"check", e.src, e.dst, "--replicate", "--json"}, args...)...)
	var c checked
	if err := json.Unmarshal([]byte(o.Out), &c); err != nil || len(c.Needs) < 5 || o.Code > 1 {
		t.Fatalf("exit %d: %v\n%s%s", o.Code, err, o.Out, o.ErrOut)
	}
	for _, n := range c.Needs {
		if !n.Met {
			missing = append(missing, n)
			blocked = blocked || n.Severity == blocker
			if n.Hint == "" && len(n.Change) == 0 || n.Have == "" || n.Want == "" {
				t.Errorf("%+v does not say what is there, what is wanted, and what to do", n)
			}
		}
	}
	if blocked && o.Code != 1 {
		t.Errorf("exit %d, and %v", o.Code, missing)
	}
	return missing, blocked
}

// suffers removes one thing, follows the check's advice, and checks again.
func (e *ends) suffers(t *testing.T, l lack) {
	t.Helper()
	for _, sql := range l.take {
		testdb.Query(t, e.of(l.end), sql)
	}
	release := func() {}
	if l.holds != nil {
		release = l.holds(t)
	}
	missing, blocked := e.check(t, l.args...)
	named := false
	for _, n := range missing {
		named = named || n.End == l.end && strings.Contains(n.Name, l.need)
	}
	if !named {
		t.Errorf("%v took away %q of the %s, and the check says %+v", l.take, l.need, l.end, missing)
	}
	if blocked && !l.early && l.holds == nil {
		e.refused++
	}
	if blocked && !l.early && l.holds == nil && (testdb.Long() || e.refused%3 == 1) {
		o := testdb.Run(t, append([]string{"replicate", e.src, e.dst, "--until", "now", "--name", "refused"}, l.args...)...)
		if o.Code == 0 || !strings.Contains(o.ErrOut, l.need) {
			t.Errorf("%s: replicate ends with %d and says\n%s", l.need, o.Code, o.ErrOut)
		}
	}
	release()
	e.follow(t, missing)
	for _, sql := range l.give {
		testdb.Query(t, e.of(l.end), sql)
	}
	if missing, _ := e.check(t, l.args...); len(missing) > 0 {
		t.Errorf("after %q of %s was brought back as the check says, it says %+v", l.need, l.end, missing)
	}
}

// follow runs the statements that a check printed.
func (e *ends) follow(t *testing.T, missing []need) {
	t.Helper()
	restart := false
	for _, n := range missing {
		for _, sql := range n.Change {
			testdb.Query(t, e.of(n.End), sql)
		}
		restart = restart || n.Restart
	}
	if restart {
		e.root.Kill(t)
		e.root.Restart(t)
	}
}

// begins runs a stream, which copies and ends.
func (e *ends) begins(t *testing.T) {
	t.Helper()
	if missing, _ := e.check(t); len(missing) > 0 {
		t.Errorf("lacks %+v", missing)
	}
	testdb.Must(t, "replicate", e.src, e.dst, "--until", "now", "--progress", "none")
	testdb.Must(t, "diff", e.src, e.dst)
	testdb.Must(t, "replicate", e.src, e.dst, "--remove")
}

func as(url, user string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	_, host, _ := strings.Cut(rest, "@")
	return fmt.Sprintf("%s://%s:x@%s", scheme, user, host)
}

// base returns the database that a URL names.
func base(url string) string {
	name, _, _ := strings.Cut(url[strings.LastIndexByte(url, '/')+1:], "?")
	return name
}

// clear drops what a stream has copied.
func clear(t *testing.T, url string) {
	t.Helper()
	testdb.Query(t, url, "DROP TABLE IF EXISTS loose, item")
}

func TestNeedsOfPostgres(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgres(t, 15)
	e := &ends{root: srv, srcAll: srv.NewDatabase(t, "src"), dstAll: srv.NewDatabase(t, "dst")}
	e.src, e.dst = as(e.srcAll, "streamer"), as(e.dstAll, "streamer")
	testdb.Query(t, e.srcAll, "CREATE ROLE streamer LOGIN REPLICATION PASSWORD 'x'; CREATE ROLE boss; GRANT SET ON PARAMETER session_replication_role TO streamer")
	testdb.Query(t, e.srcAll, "GRANT CREATE ON DATABASE "+base(e.srcAll)+" TO streamer; GRANT CREATE ON DATABASE "+base(e.dstAll)+" TO streamer; GRANT CREATE, USAGE ON SCHEMA public TO streamer")
	testdb.Query(t, e.dstAll, "GRANT CREATE, USAGE ON SCHEMA public TO streamer")
	testdb.Query(t, e.srcAll, "CREATE TABLE item (id int PRIMARY KEY, note text); ALTER TABLE item OWNER TO streamer; INSERT INTO item SELECT i, repeat('n', i) FROM generate_series(1, 100) i")
	e.begins(t)
	clear(t, e.dstAll)

	// Settings that need a restart share one.
	for _, sql := range []string{"SELECT pg_create_physical_replication_slot('idle')", "ALTER SYSTEM SET wal_level = replica", "ALTER SYSTEM SET max_replication_slots = 1", "ALTER SYSTEM SET max_wal_senders = 0"} {
		testdb.Query(t, e.srcAll, sql)
	}
	srv.Kill(t)
	srv.Restart(t)
	missing, _ := e.check(t)
	for _, name := range []string{"wal_level", "max_replication_slots", "max_wal_senders"} {
		if !strings.Contains(fmt.Sprintf("%+v", missing), "Name:"+name+" ") {
			t.Errorf("%s was taken away, and the check says %+v", name, missing)
		}
	}
	if !strings.Contains(fmt.Sprintf("%+v", missing), "not in use now: idle.") {
		t.Errorf("nothing of the slot that nobody uses: %+v", missing)
	}
	e.follow(t, missing)
	e.begins(t)
	clear(t, e.dstAll)

	there := "CREATE TABLE item (id int PRIMARY KEY, note text)"
	for _, l := range []lack{
		{need: "REPLICATION", end: "source", take: []string{"ALTER ROLE streamer NOREPLICATION"}},
		{need: "CREATE on the database", end: "source", take: []string{"REVOKE CREATE ON DATABASE " + base(e.srcAll) + " FROM streamer"}},
		{need: "owner of public.item", end: "source", take: []string{"ALTER TABLE item OWNER TO boss", "GRANT SELECT ON item TO streamer"}},
		{need: "replica identity of public.loose", end: "source", take: []string{"CREATE TABLE loose (x int)", "ALTER TABLE loose OWNER TO streamer"}},
		{need: "max_slot_wal_keep_size", end: "source", take: []string{"ALTER SYSTEM SET max_slot_wal_keep_size = '64MB'", "SELECT pg_reload_conf()"}},
		{need: "slot tidemark_main", early: true, end: "source", take: []string{"SELECT pg_create_logical_replication_slot('tidemark_main', 'pgoutput')"}, give: []string{"SELECT pg_drop_replication_slot('tidemark_main')"}},
		{need: "CREATE on the database", end: "target", take: []string{"DROP SCHEMA IF EXISTS tidemark CASCADE", "REVOKE CREATE ON DATABASE " + base(e.dstAll) + " FROM streamer"}},
		{need: "CREATE and USAGE on schema tidemark", early: true, end: "target", take: []string{"DROP SCHEMA IF EXISTS tidemark CASCADE", "CREATE SCHEMA tidemark"}},
		{need: "rights on tidemark.applied", early: true, end: "target", take: []string{"CREATE TABLE tidemark.applied (queue text, agent int)"}},
		{need: "name main", early: true, end: "target", take: []string{"INSERT INTO tidemark.applied VALUES ('main', 1)"}, give: []string{"DROP SCHEMA tidemark CASCADE"}},
		{need: "rights on table public.item", end: "target", args: []string{"--no-copy"}, take: []string{there, "CREATE TABLE loose (x int)", "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON loose TO streamer", "GRANT SELECT, INSERT ON item TO streamer"}},
		{need: "SET on session_replication_role", end: "target", args: []string{"--no-copy"}, take: []string{"REVOKE SET ON PARAMETER session_replication_role FROM streamer"}},
	} {
		e.suffers(t, l)
	}
	clear(t, e.dstAll)
	e.begins(t)
}

func TestNeedsOfMySQL(t *testing.T) {
	t.Parallel()
	testMySQL(t, testdb.OwnMySQL(t))
}

func TestNeedsOfMariaDB(t *testing.T) {
	t.Parallel()
	testMySQL(t, testdb.OwnMariaDB(t))
}

func testMySQL(t *testing.T, srv *testdb.Server) {
	e := &ends{root: srv, srcAll: srv.NewDatabase(t, "src"), dstAll: srv.NewDatabase(t, "dst")}
	e.src, e.dst = as(e.srcAll, "streamer"), as(e.dstAll, "streamer")
	source, target := base(e.srcAll), base(e.dstAll)
	state, user := map[string]string{"mysql": "REPLICATION CLIENT", "mariadb": "BINLOG MONITOR"}[srv.Engine], " TO streamer@'127.0.0.1'"
	for _, sql := range []string{"CREATE USER streamer@'127.0.0.1' IDENTIFIED BY 'x'", "GRANT REPLICATION SLAVE, RELOAD, " + state + " ON *.*" + user, "GRANT SELECT, LOCK TABLES, SHOW VIEW, TRIGGER, EVENT ON " + source + ".*" + user,
		"GRANT ALL ON " + target + ".*" + user, "CREATE TABLE item (id int PRIMARY KEY, note text)", "INSERT INTO item VALUES (1, 'a'), (2, REPEAT('b', 3000))"} {
		testdb.Query(t, e.srcAll, sql)
	}
	e.begins(t)
	clear(t, e.dstAll)
	lacks := []lack{
		{need: "user 'streamer'", end: "source", take: []string{"REVOKE REPLICATION SLAVE, " + state + " ON *.* FROM streamer@'127.0.0.1'"}},
		{need: "binlog_format", end: "source", take: []string{"SET GLOBAL binlog_format = 'MIXED'"}},
		{need: "binlog_row_image", end: "source", take: []string{"SET GLOBAL binlog_row_image = 'MINIMAL'"}},
		{need: "binlog_row_metadata", end: "source", take: []string{"SET GLOBAL binlog_row_metadata = 'MINIMAL'"}},
		{need: "binlog_expire_logs_seconds", end: "source", take: []string{"SET GLOBAL binlog_expire_logs_seconds = 600"}},
		{need: "name main", end: "source", holds: func(t *testing.T) func() {
			s := testdb.NewSession(e.srcAll)
			if out, err := s.Try("SELECT GET_LOCK('tidemark follow 69185110e1757277b806e95baf5ffd98', 1)"); err != nil || out != "1" {
				t.Fatal(out, err)
			}
			return s.Close
		}},
		{need: "user 'streamer'", end: "target", take: []string{"REVOKE ALL ON " + target + ".* FROM streamer@'127.0.0.1'", "GRANT SELECT, INSERT, CREATE, ALTER, INDEX, REFERENCES, DROP, TRIGGER ON " + target + ".*" + user}},
		{need: "read_only", end: "target", take: []string{"SET GLOBAL read_only = 1"}},
		{need: "max_allowed_packet", end: "target", take: []string{"SET GLOBAL max_allowed_packet = 1048576"}},
		{need: "triggers of the target's tables", end: "target", args: []string{"--no-copy"}, take: []string{"CREATE TABLE item (id int PRIMARY KEY, note text)", "CREATE TRIGGER tr BEFORE INSERT ON item FOR EACH ROW SET NEW.note = 'x'"}, give: []string{"DROP TRIGGER tr", "DROP TABLE item"}},
	}
	if srv.Engine == "mysql" {
		lacks = append(lacks, lack{need: "gtid_mode", end: "source", take: []string{"SET GLOBAL gtid_mode = ON_PERMISSIVE", "SET GLOBAL gtid_mode = OFF_PERMISSIVE", "SET GLOBAL gtid_mode = OFF"}},
			lack{need: "binlog_row_value_options", end: "source", take: []string{"SET GLOBAL binlog_row_value_options = PARTIAL_JSON", "SET GLOBAL binlog_row_image = 'MINIMAL'"}})
	}
	for _, l := range lacks {
		e.suffers(t, l)
	}
	e.begins(t)
}

// TestLobs: the largest values of columns are found, and values that the target would truncate or
// refuse are reported.
func TestLobs(t *testing.T) {
	t.Parallel()
	pg, my := testdb.Postgres(t, 15), testdb.MySQL(t)
	src, dst := pg.NewDatabase(t, "src"), my.NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE doc (id int PRIMARY KEY, body text, raw bytea, j jsonb, name varchar(20)); INSERT INTO doc SELECT i, repeat('é', i), NULL, '{}' FROM generate_series(1, 9000) i")
	testdb.Query(t, src, "INSERT INTO doc VALUES (0, '', decode(repeat('ab', 70000), 'hex'), to_jsonb(repeat('x', 5000))); ANALYZE doc")
	largest := func(from, to string, args ...string) (map[string]int64, string) {
		t.Helper()
		o := testdb.Run(t, append([]string{"check", from, to, "--json"}, args...)...)
		var c checked
		if err := json.Unmarshal([]byte(o.Out), &c); err != nil {
			t.Fatalf("exit %d: %v\n%s%s", o.Code, err, o.Out, o.ErrOut)
		}
		out := map[string]int64{}
		for _, l := range c.Lobs {
			out[l.Column] = l.Bytes
		}
		return out, o.Out
	}
	want := "map[body:18000 j:5002 raw:70000]"
	got, said := largest(src, dst, "--lobs", "whole", "--lob-max", "32kB")
	if fmt.Sprint(got) != want || !strings.Contains(said, "has values of 70000 bytes, and those above 32768 are truncated") || strings.Count(said, "are truncated") != 1 {
		t.Errorf("%v, want %s; said %s", got, want, said)
	}
	if got, _ = largest(src, dst); got["body"] == 0 || got["body"] > 18000 || len(got) != 3 {
		t.Errorf("a sample finds %v", got)
	}
	testdb.Must(t, "copy", src, dst)
	back := pg.NewDatabase(t, "back")
	if got, _ = largest(dst, back, "--lobs", "whole"); fmt.Sprint(got) != want {
		t.Errorf("of the copy: %v, want %s", got, want)
	}
	if got, _ = largest(dst, back); len(got) != 3 || got["body"] != 18000 { // the last one by key is the largest
		t.Errorf("a sample of the copy finds %v", got)
	}
	if got, _ = largest(dst, back, "--lobs", "none"); len(got) != 0 {
		t.Errorf("%v, though nothing was to be looked at", got)
	}
}
