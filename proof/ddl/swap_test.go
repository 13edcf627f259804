package ddl_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A tampering makes a table of the stream another one, or its changes stop coming, without a row in
// the log that says so.
type tampering struct {
	name string
	do   string   // on the source; {pub} is the publication's
	more []string // tables beside t
	// touch changes rows afterwards.
	touch string
}

var tamperings = []tampering{
	{name: "removed from the publication", do: "ALTER PUBLICATION {pub} DROP TABLE t"},
	{name: "removed for a while", do: "ALTER PUBLICATION {pub} DROP TABLE t; INSERT INTO t VALUES (50, 50); ALTER PUBLICATION {pub} ADD TABLE t"},
	{name: "given a filter", do: "ALTER PUBLICATION {pub} SET TABLE t WHERE (id > 100), other"},
	{name: "inserts alone", do: "ALTER PUBLICATION {pub} SET (publish = 'insert')"},
	{name: "not by the root", do: "ALTER PUBLICATION {pub} SET (publish_via_partition_root = false)"},
	{name: "replaced by a copy", do: "BEGIN; CREATE TABLE t_new (LIKE t INCLUDING ALL); INSERT INTO t_new SELECT * FROM t; ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t; COMMIT"},
	{name: "dropped and created", do: "BEGIN; DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, n int); COMMIT"},
	{name: "exchanged", more: []string{"u"}, do: "BEGIN; ALTER TABLE t RENAME TO x; ALTER TABLE u RENAME TO t; ALTER TABLE x RENAME TO u; COMMIT", touch: "UPDATE u SET n = n + 1"},
	{name: "exchanged and back", more: []string{"u"}, do: "BEGIN; ALTER TABLE t RENAME TO x; ALTER TABLE u RENAME TO t; ALTER TABLE x RENAME TO u; COMMIT; " +
		"INSERT INTO t VALUES (60, 60); UPDATE t SET n = n + 1; UPDATE u SET n = n + 1; BEGIN; ALTER TABLE t RENAME TO x; ALTER TABLE u RENAME TO t; ALTER TABLE x RENAME TO u; COMMIT", touch: "UPDATE u SET n = n + 1"},
}

// TestTampered replaces tables, exchanges them and changes the publication by hand, while the
// stream does not run and while it runs: each table is equal once the stream has caught up, or it
// is stopped, and what the status then says makes it equal and active.
func TestTampered(t *testing.T) {
	for _, i := range testdb.Draw(t, 2*len(tamperings), 4) {
		w, running := tamperings[i/2], i%2 == 1
		t.Run(strings.ReplaceAll(w.name, " ", "-")+map[bool]string{false: "/away", true: "/running"}[running], func(t *testing.T) {
			t.Parallel()
			w.check(t, postgres, running)
		})
	}
}

func (w tampering) check(t *testing.T, tgt server, running bool) {
	all := append([]string{"t", "other"}, w.more...)
	var setup []string
	for i, table := range all {
		setup = append(setup, "CREATE TABLE "+table+" (id int PRIMARY KEY, n int)", "INSERT INTO "+table+" VALUES "+[]string{"(1, 1), (2, 2)", "(1, 1)", "(11, 11), (12, 12)"}[i])
	}
	s := newStream(t, postgres, tgt, setup...)
	change := func() {
		for _, sql := range strings.Split(strings.ReplaceAll(w.do, "{pub}", "tidemark_"+s.name), "; BEGIN; ") {
			s.do(sql)
		}
		s.do("INSERT INTO t VALUES (3, 3)", "UPDATE t SET n = n + 1", w.touch, "INSERT INTO other VALUES (2, 2)")
	}
	if running {
		s.while(func(until func(func() bool)) {
			change()
			until(func() bool {
				return !slices.ContainsFunc(all, func(table string) bool { return s.states()[table].State != "stopped" && s.differs(table) != "" })
			})
		})
	} else {
		change()
	}
	s.flow()
	for _, table := range all {
		s.whole(table)
	}
	s.remedied(all)
}

// remedied does what the status says about stopped tables, and checks that all are active and equal
// then, and stay so.
func (s *stream) remedied(all []string) {
	s.t.Helper()
	for range 2 {
		for _, m := range remedy.FindAllStringSubmatch(testdb.Must(s.t, "status", "--name", s.name), -1) {
			testdb.Must(s.t, strings.Fields(m[1])...)
		}
		s.flow()
		for _, table := range all {
			if st := s.whole(table); st.State != "active" {
				s.t.Errorf("%s is %+v", table, st)
			}
			s.do("UPDATE "+table+" SET n = n + 1", "INSERT INTO "+table+" (id, n) SELECT max(id) + 1, 7 FROM "+table)
		}
		s.flow()
	}
}

var remedy = regexp.MustCompile(`tidemark (sub reload \S+ --name \S+)\.`)

// while runs the stream until do returns. until waits for something.
func (s *stream) while(do func(until func(func() bool))) {
	s.t.Helper()
	p := testdb.Command(s.t, s.args[:len(s.args)-2]...)
	said := &strings.Builder{}
	p.Stderr = said
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	do(func(yes func() bool) {
		for end := time.Now().Add(2 * time.Minute); !yes(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				_ = p.Process.Kill() // the failure is the news
				_ = p.Wait()
				s.t.Fatalf("it took too long; the stream says\n%s", said)
			}
		}
	})
	_ = p.Process.Signal(os.Interrupt) // Wait tells
	if err := p.Wait(); p.ProcessState.ExitCode() != 130 {
		s.t.Errorf("the stream ended with %v:\n%s", err, said)
	}
}

// TestIdentityNoLongerFull takes the old rows out of a source's log, which a conflict rule needs.
func TestIdentityNoLongerFull(t *testing.T) {
	t.Parallel()
	s := newStreamWith(t, postgres, postgres, []string{"--conflict-rule", "all"}, "CREATE TABLE t (id int PRIMARY KEY, n int); ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1, 1)")
	s.while(func(until func(func() bool)) {
		s.do("INSERT INTO t VALUES (2, 2)")
		until(func() bool { return s.differs("t") == "" })
		s.do("ALTER TABLE t REPLICA IDENTITY DEFAULT", "UPDATE t SET n = n + 1")
		until(func() bool { return s.states()["t"].State == "stopped" })
	})
	_, sql, ok := strings.Cut(s.states()["t"].Hint, "On the source: ")
	if !ok {
		t.Fatalf("it is %+v", s.states()["t"])
	}
	s.do(sql)
	s.remedied([]string{"t"})
}

// A swap replaces t by a table that was filled beside it, in the steps of a tool.
type swap struct {
	name  string
	src   server
	more  []string // options of the stream
	steps []string
}

var swaps = []swap{
	{name: "gh-ost", src: mysql, steps: []string{
		"CREATE TABLE _t_gho LIKE t; CREATE TABLE _t_ghc (id int PRIMARY KEY)", "ALTER TABLE _t_gho ADD x varchar(9) NOT NULL DEFAULT 'q', MODIFY n bigint, ADD UNIQUE KEY x (x)",
		"INSERT INTO t VALUES (3, 3)", "INSERT INTO _t_gho SELECT id, n, concat('x', n) FROM t",
		"RENAME TABLE t TO _t_del, _t_gho TO t", "INSERT INTO t VALUES (4, 5000000000, 'y')", "DROP TABLE _t_ghc"}},
	{name: "pt-online-schema-change", src: mariadb, steps: []string{
		"CREATE TABLE _t_new LIKE t", "ALTER TABLE _t_new ADD x varchar(9) NOT NULL, MODIFY n bigint",
		"INSERT INTO t VALUES (3, 3)", "INSERT INTO _t_new SELECT id, n, concat('x', n) FROM t",
		"RENAME TABLE t TO _t_old, _t_new TO t", "DROP TABLE IF EXISTS _t_old", "INSERT INTO t VALUES (4, 5000000000, 'y')"}},
	{name: "exchanged", src: mariadb, steps: []string{"INSERT INTO t VALUES (3, 3)", "RENAME TABLE t TO x, u TO t, x TO u", "INSERT INTO t VALUES (4, 4)", "INSERT INTO u VALUES (4, 4)"}},
	{name: "dropped and created", src: mysql, steps: []string{"DROP TABLE t", "CREATE TABLE t (id bigint PRIMARY KEY, x text NOT NULL)", "INSERT INTO t VALUES (4, 'y')"}},
	{name: "renamed", src: postgres, steps: pgSwap},
	{name: "renamed, logged", src: postgres, more: []string{"--follow-ddl"}, steps: pgSwap},
}

var pgSwap = []string{"UPDATE t SET n = n + 1", "CREATE TABLE _t_new (id int PRIMARY KEY, n bigint UNIQUE, x text NOT NULL); INSERT INTO _t_new SELECT id, n, 'x' FROM t",
	"BEGIN; ALTER TABLE t RENAME TO _t_old; ALTER TABLE _t_new RENAME TO t; COMMIT", "INSERT INTO t VALUES (4, 5000000000, 'y')", "DROP TABLE _t_old CASCADE"}

// TestSwapped replaces a table as the tools that change large ones do. The target's table gets the
// new definition and rows, beside the stream, and nobody has to do anything.
func TestSwapped(t *testing.T) {
	for _, i := range testdb.Draw(t, 2*len(swaps), 4) {
		w, running := swaps[i/2], i%2 == 1
		t.Run(strings.ReplaceAll(w.name, " ", "-")+"/"+w.src.name+map[bool]string{false: "/away", true: "/running"}[running], func(t *testing.T) {
			t.Parallel()
			tgt := w.src
			if i%4 == 0 && !w.src.isPostgres() {
				tgt = postgres
			}
			s := newStreamWith(t, w.src, tgt, w.more, "CREATE TABLE t (id int PRIMARY KEY, n int)", "CREATE TABLE u (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1), (2, 2)", "INSERT INTO u VALUES (2, 7)")
			equal := func() bool {
				all := s.states()
				return all["t"].State == "active" && all["u"].State == "active" && s.differs("t") == "" && s.differs("u") == ""
			}
			if running {
				s.while(func(until func(func() bool)) {
					s.do(w.steps...)
					until(equal)
				})
			} else {
				s.do(w.steps...)
			}
			if said := s.flow(); strings.Contains(said, "_t_") && strings.Contains(said, "is new on the source") {
				t.Errorf("it says\n%s", said)
			}
			if !equal() {
				t.Errorf("t is %+v, u is %+v; %s; %s", s.states()["t"], s.states()["u"], s.differs("t"), s.differs("u"))
			}
			s.redefined("t")
		})
	}
}
