package ddl_test

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// meddler is an event trigger of the target that does something after each statement with this tag.
func meddler(tag, do string) string {
	return "CREATE FUNCTION meddle() RETURNS event_trigger LANGUAGE plpgsql AS $$ DECLARE o record; BEGIN " +
		"FOR o IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE schema_name = 'public' LOOP " + do + " END LOOP; END $$; " +
		"CREATE EVENT TRIGGER meddler ON ddl_command_end WHEN TAG IN ('" + tag + "') EXECUTE FUNCTION meddle()"
}

// An otherwise is a target on which statements that make a table of a running stream succeed, and
// the table is not as planned.
type otherwise struct {
	name   string
	src    server
	meddle string
	do     []string // makes or replaces the table t2
	says   string   // what the reason names
	amend  string   // removes what was in the way
	is     string   // is 1 once the table is as planned
}

// unindexed drops an index as it is created.
var unindexed = meddler("CREATE INDEX", "IF o.object_identity LIKE '%t2_n%' THEN EXECUTE 'DROP INDEX ' || o.object_identity; END IF;")

const indexed = "SELECT count(*) FROM pg_indexes WHERE tablename = 't2' AND indexname LIKE '%t2_n%'"

var otherwises = []otherwise{
	{"an index of a new table is dropped", postgres, unindexed,
		[]string{"CREATE TABLE t2 (id int PRIMARY KEY, n int); CREATE INDEX t2_n ON t2 (n); INSERT INTO t2 VALUES (1, 1)"},
		"index public.t2_n: is missing", "DROP EVENT TRIGGER meddler", indexed},
	{"a new unique key is dropped", mysql, meddler("ALTER TABLE", "IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'public.t2'::regclass AND conname = 't2_n') THEN ALTER TABLE public.t2 DROP CONSTRAINT t2_n; END IF;"),
		[]string{"CREATE TABLE t2 (id int PRIMARY KEY, n int, UNIQUE KEY t2_n (n))", "INSERT INTO t2 VALUES (1, 1)"},
		"constraint t2_n ON public.t2: is missing", "DROP EVENT TRIGGER meddler", indexed},
	{"a new column loses its default", mariadb, meddler("CREATE TABLE", "EXECUTE 'ALTER TABLE ' || o.object_identity || ' ALTER n DROP DEFAULT';"),
		[]string{"CREATE TABLE t2 (id int PRIMARY KEY, n int DEFAULT 5)", "INSERT INTO t2 VALUES (1, 1)"},
		"table public.t2: ", "DROP EVENT TRIGGER meddler", "SELECT count(*) FROM information_schema.columns WHERE table_name = 't2' AND column_default = '5'"},
	{"a new column becomes nullable", postgres, meddler("CREATE TABLE", "EXECUTE 'ALTER TABLE ' || o.object_identity || ' ALTER n DROP NOT NULL';"),
		[]string{"CREATE TABLE t2 (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t2 VALUES (1, 1)"},
		"table public.t2: ", "DROP EVENT TRIGGER meddler", "SELECT count(*) FROM information_schema.columns WHERE table_name = 't2' AND column_name = 'n' AND is_nullable = 'NO'"},
	{"a type has other labels", postgres, "CREATE TYPE public.mood AS ENUM ('glad', 'sad')",
		[]string{"CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TABLE t2 (id int PRIMARY KEY, n int, m mood); INSERT INTO t2 VALUES (1, 1, 'sad')"},
		"type public.mood: ", "DROP TABLE t2; DROP TYPE public.mood", "SELECT count(*) FROM pg_enum WHERE enumlabel = 'sad' AND enumsortorder = 1"},
	{"an index of a replaced table is dropped", postgres, unindexed,
		[]string{"BEGIN; CREATE TABLE t_new (id int PRIMARY KEY, n int); CREATE UNIQUE INDEX t2_n ON t_new (n); INSERT INTO t_new VALUES (1, 1); ALTER TABLE t2 RENAME TO t_old; ALTER TABLE t_new RENAME TO t2; COMMIT"},
		"index public.t2_n: is missing", "DROP EVENT TRIGGER meddler", indexed},
	{"a replaced table loses its default", mysql, meddler("ALTER TABLE", "IF EXISTS (SELECT FROM pg_attrdef WHERE adrelid = o.objid) THEN EXECUTE 'ALTER TABLE ' || o.object_identity || ' ALTER n DROP DEFAULT'; END IF;"),
		[]string{"CREATE TABLE t_new (id int PRIMARY KEY, n int DEFAULT 5)", "INSERT INTO t_new VALUES (1, 1)", "RENAME TABLE t2 TO t_old, t_new TO t2"},
		"table public.t2: ", "DROP EVENT TRIGGER meddler", "SELECT count(*) FROM information_schema.columns WHERE table_name = 't2' AND column_default = '5'"},
}

// replaces reports whether the stream has the table from its beginning.
func (o *otherwise) replaces() bool { return strings.Contains(o.name, "replaced") }

// TestPlanned makes and replaces tables of a running stream whose target does something else with
// them: they stop, and are as planned after what the status says.
func TestPlanned(t *testing.T) {
	for _, i := range testdb.Draw(t, len(otherwises), 3) {
		o := otherwises[i]
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			setup := []string{"CREATE TABLE t (id int PRIMARY KEY)"}
			if o.replaces() {
				setup = append(setup, "CREATE TABLE t2 (id int PRIMARY KEY, n int)")
			}
			s := newStreamWith(t, o.src, postgres, []string{"--new-tables", "follow", "--exclude", "*t_old", "--exclude", "*t_new"}, setup...)
			testdb.Query(t, s.to, o.meddle)
			s.do(o.do...)
			for range 2 { // the second time it is not active either
				s.flow()
				if st := s.states()["t2"]; st.State != "stopped" || !strings.Contains(st.Reason, o.says) {
					t.Fatalf("it is %+v", st)
				}
			}
			testdb.Query(t, s.to, o.amend)
			s.remedied([]string{"t2"})
			if got := testdb.Query(t, s.to, o.is); got != "1" {
				t.Errorf("it is active, and not as planned: %s", got)
			}
		})
	}
}

// TestExistsOtherwise adds a table by itself of which the target has one already, with a column
// that would round values: it stops, and its user decides.
func TestExistsOtherwise(t *testing.T) {
	for _, command := range []string{"start", "reload"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := newStreamWith(t, postgres, postgres, []string{"--new-tables", "follow"}, "CREATE TABLE t (id int PRIMARY KEY)")
			testdb.Query(t, s.to, "CREATE TABLE public.t2 (id int PRIMARY KEY, n numeric(10,2)); CREATE TABLE public.t3 (n numeric(10,4), id int PRIMARY KEY)")
			s.do("CREATE TABLE t2 (id int PRIMARY KEY, n numeric(10,4)); INSERT INTO t2 VALUES (1, 0.1234); CREATE TABLE t3 (id int PRIMARY KEY, n numeric(10,4))")
			for range 2 {
				s.flow()
				if st := s.states()["t2"]; st.State != "stopped" || !strings.Contains(st.Reason, "its column n is numeric(10,2), not numeric(10,4)") {
					t.Fatalf("it is %+v", st)
				}
			}
			if st := s.whole("t3"); st.State != "active" {
				t.Errorf("one with the same columns is %+v", st)
			}
			testdb.Must(t, "sub", command, "t2", "--name", s.name)
			s.flow()
			want := map[string]string{"start": "0.12", "reload": "0.1234"}[command]
			if st, got := s.states()["t2"], testdb.Query(t, s.to, "SELECT n FROM public.t2"); st.State != "active" || got != want {
				t.Errorf("it is %+v with %s, want %s", st, got, want)
			}
		})
	}
}

// TestKilledWhileATableIsMade kills the stream between two statements that make a table.
func TestKilledWhileATableIsMade(t *testing.T) {
	t.Parallel()
	s := newStreamWith(t, postgres, postgres, []string{"--new-tables", "follow"}, "CREATE TABLE t (id int PRIMARY KEY)")
	testdb.Query(t, s.to, "CREATE TABLE public.gate (x int); "+meddler("CREATE INDEX", "IF o.object_identity LIKE '%t2_n%' THEN INSERT INTO public.gate VALUES (1); END IF;"))
	gate := testdb.NewSession(s.to)
	defer gate.Close()
	if _, err := gate.Try("BEGIN; LOCK TABLE public.gate IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	s.do("CREATE TABLE t2 (id int PRIMARY KEY, n int); CREATE INDEX t2_n ON t2 (n); INSERT INTO t2 VALUES (1, 1)")
	p := testdb.Command(t, s.args...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	const waits = " FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%t2_n%'"
	await(t, s.to, "SELECT count(*)"+waits, "1")
	_ = p.Process.Kill()
	_ = p.Wait() // it was killed
	testdb.Query(t, s.to, "SELECT pg_terminate_backend(pid)"+waits)
	gate.Close()
	testdb.Query(t, s.to, "DROP EVENT TRIGGER meddler")
	s.flow()
	if st := s.whole("t2"); st.State != "active" || testdb.Query(t, s.to, indexed) != "1" {
		t.Errorf("it is %+v, and lacks its index", st)
	}
}
