package ddl_test

import (
	"os"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestLoggedPartitions covers changes of partitions that TestLogged does not.
func TestLoggedPartitions(t *testing.T) {
	const free = "CREATE TABLE q (LIKE p INCLUDING ALL)"
	for _, k := range []struct {
		name   string
		setup  string
		do     []string
		reason string
	}{
		{"attach and detach in one transaction", free, []string{"BEGIN; ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (20) TO (30); INSERT INTO p VALUES (21, 1); DELETE FROM p WHERE id = 21; COMMIT",
			"BEGIN; ALTER TABLE p DETACH PARTITION q; ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (20) TO (40); COMMIT", "INSERT INTO p VALUES (33, 1)"}, ""},
		{"attach and detach within a second", free, []string{"ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (20) TO (30); INSERT INTO p VALUES (22, 1)", "ALTER TABLE p DETACH PARTITION q; INSERT INTO p VALUES (3, 3)"}, ""},
		{"attach a table of the stream", free + "; INSERT INTO q VALUES (25, 1)", []string{"INSERT INTO q VALUES (26, 1)", "ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (20) TO (30)", "INSERT INTO p VALUES (27, 1)", "UPDATE p SET n = 9 WHERE id > 20"}, ""},
		{"detach concurrently", "", []string{"INSERT INTO p VALUES (4, 4)", "ALTER TABLE p DETACH PARTITION p2 CONCURRENTLY", "INSERT INTO p VALUES (5, 5)"}, ""},
		{"drop a schema with a partition", "CREATE SCHEMA x; CREATE TABLE x.p3 PARTITION OF p FOR VALUES FROM (20) TO (30)", []string{"INSERT INTO p VALUES (23, 1)", "DROP SCHEMA x CASCADE", "INSERT INTO p VALUES (6, 6)"}, ""},
		{"detach behind rows of its transaction", "", []string{"BEGIN; INSERT INTO p VALUES (12, 1); ALTER TABLE p DETACH PARTITION p2; COMMIT"}, "already changed its rows"},
		{"rename behind rows of its transaction", "", []string{"BEGIN; INSERT INTO p VALUES (12, 1); ALTER TABLE p RENAME n TO m; COMMIT"}, "already changed its rows"},
		{"not null behind an update", "", []string{"INSERT INTO p VALUES (7)", "BEGIN; UPDATE p SET n = 0 WHERE n IS NULL; ALTER TABLE p ALTER n SET NOT NULL; COMMIT"}, ""},
		{"what a function does", "CREATE FUNCTION part() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30); ALTER TABLE p RENAME n TO m; INSERT INTO p VALUES (24, 1); END $$", []string{"SELECT part()", "INSERT INTO p (id, m) VALUES (25, 2)"}, ""},
	} {
		t.Run(strings.ReplaceAll(k.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := newStreamWith(t, postgres, postgres, []string{"--follow-ddl"}, "CREATE TABLE other (id int PRIMARY KEY); "+parted, k.setup)
			s.logged(t, "p", k.reason, k.reason != "", k.do, true)
		})
	}
}

// TestLoggedApart runs two processes; the one that reads the log cannot reach the target.
func TestLoggedApart(t *testing.T) {
	t.Parallel()
	nats, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	go nats.Start()
	t.Cleanup(func() { nats.Shutdown(); nats.WaitForShutdown() })
	if !nats.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	s := &stream{t: t, src: postgres, tgt: postgres, from: postgres.open(t).NewDatabase(t, "ddl_s"), to: postgres.open(t).NewDatabase(t, "ddl_t")}
	s.name = s.from[strings.LastIndexByte(s.from, '/')+1:]
	s.name, _, _ = strings.Cut(s.name, "?")
	s.do(parted)
	both := []string{s.from, s.to, "--name", s.name, "--queue", nats.ClientURL()}
	capture := testdb.Command(t, append([]string{"capture", "--follow-ddl"}, both...)...)
	apply := testdb.Command(t, append([]string{"apply"}, both...)...)
	for _, p := range []interface{ Start() error }{capture, apply} {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		_, _ = capture.Process.Signal(os.Interrupt), apply.Process.Signal(os.Interrupt)
		_, _ = capture.Wait(), apply.Wait() // they were interrupted
	}()
	s.arrives("1|1")
	s.do("ALTER TABLE p DETACH PARTITION p2", "INSERT INTO p VALUES (2, 2)", "CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30)", "INSERT INTO p VALUES (22, 22)",
		"ALTER TABLE p RENAME n TO m", "ALTER TABLE p ADD x int DEFAULT 7", "INSERT INTO p VALUES (23, 23)", "DROP TABLE p3", "INSERT INTO p VALUES (3, 3)")
	s.arrives("3|7|3") // in jsonb's order
	if text := s.differs("p"); text != "" {
		t.Error(text)
	}
	if want, have := schema(t, s.from, "p"), schema(t, s.to, "p"); want != have {
		t.Errorf("pg_dump of the source is\n%s\nand of the target\n%s", want, have)
	}
}

// arrives waits until the target's p has a row.
func (s *stream) arrives(row string) {
	s.t.Helper()
	q := "SELECT string_agg(concat_ws('|', VARIADIC ARRAY(SELECT value FROM jsonb_each_text(to_jsonb(p)) j)), ' ') FROM p"
	out := ""
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if out, _ = testdb.TryQuery(s.to, q); strings.Contains(" "+out+" ", " "+row+" ") {
			return
		}
	}
	s.t.Fatalf("no row %s in %s; the states are %+v", row, out, s.states())
}

// TestLoggedLeave checks that users of the source notice nothing, whatever their privileges, that
// the stream leaves nothing behind, and that a copy does not carry the stream's objects to another
// database.
func TestLoggedLeave(t *testing.T) {
	t.Parallel()
	s := newStreamWith(t, postgres, postgres, []string{"--follow-ddl"}, parted)
	user := s.name + "_user"
	s.do("CREATE ROLE "+user, "GRANT CREATE ON SCHEMA public TO "+user, "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(bool, text, text) FROM PUBLIC", "ALTER TABLE p OWNER TO "+user, "ALTER TABLE p2 OWNER TO "+user)
	t.Cleanup(func() { testdb.Query(t, s.from, "DROP OWNED BY "+user+"; DROP ROLE "+user) })
	s.do("SET ROLE "+user+"; CREATE TABLE mine (id int PRIMARY KEY); CREATE TEMP TABLE t (i int); ALTER TABLE t ADD j int; DROP TABLE t; ALTER TABLE p DETACH PARTITION p2; DROP TABLE mine", "INSERT INTO p VALUES (3, 3)")
	s.flow()
	if st := s.whole("p"); st.State != "stopped" || !strings.Contains(st.Reason, "it is missing in the log") {
		t.Errorf("it is %+v", st)
	}
	copied := postgres.open(t).NewDatabase(t, "ddl_c")
	testdb.Must(t, "copy", s.from, copied)
	const left = "SELECT (SELECT count(*) FROM pg_event_trigger) + (SELECT count(*) FROM pg_namespace WHERE nspname = 'tidemark_ddl')"
	if n := testdb.Query(t, copied, left); n != "0" {
		t.Errorf("a copy has %s of the stream's objects", n)
	}
	if out := testdb.Must(t, "diff", "--definitions", s.from, copied); strings.Contains(out, "tidemark_ddl") {
		t.Error(out)
	}
	testdb.Must(t, "replicate", s.from, s.to, "--name", s.name, "--remove")
	if n := testdb.Query(t, s.from, left); n != "0" {
		t.Errorf("%s objects are left", n)
	}
}
