package ddl_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestReferencedIsNotEmptied gives the stream reasons to load a table again whose load is refused,
// since another table references it with CASCADE or SET NULL: it stops with its definition and its
// rows on the target, and what its hint names lets it continue.
func TestReferencedIsNotEmptied(t *testing.T) {
	reload := []string{"--on-ddl", "reload"}
	const odd = "SET sql_mode = 'PIPES_AS_CONCAT'; " // a statement that no other session repeats
	drop := []string{odd + "ALTER TABLE p DROP COLUMN w"}
	swap := []string{"SET foreign_key_checks = 0; CREATE TABLE q LIKE p; ALTER TABLE q DROP COLUMN w; INSERT INTO q SELECT id, v FROM p; DROP TABLE p; RENAME TABLE q TO p"}
	back := []string{"RENAME TABLE p TO away", "RENAME TABLE away TO p; " + odd + "ALTER TABLE p DROP COLUMN w"}
	for _, w := range []struct {
		name   string
		src    server
		more   []string
		do     []string
		action string
		runs   bool // the stream, meanwhile
	}{
		{"reload", mariadb, reload, drop, "CASCADE", true},
		{"behind", mysql, reload, drop, "SET NULL", false},
		{"swap", mariadb, nil, swap, "CASCADE", true},
		{"swap-behind", mariadb, nil, swap, "CASCADE", false},
		{"stop", mariadb, nil, drop, "CASCADE", false},
		{"back", mariadb, reload, back, "CASCADE", false},
		{"asked", mariadb, nil, nil, "CASCADE", false},
	} {
		for _, tgt := range []server{postgres, mariadb} {
			t.Run(w.name+"/"+w.src.name+"-"+tgt.name, func(t *testing.T) {
				t.Parallel()
				s := newStreamWith(t, w.src, tgt, append(slices.Clone(w.more), "--exclude", "*away"), "CREATE TABLE p (id int PRIMARY KEY, v varchar(10), w int)",
					"CREATE TABLE c (id int PRIMARY KEY, pid int, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE "+w.action+")",
					"INSERT INTO p VALUES (1, 'a', 1), (2, 'b', 2)", "INSERT INTO c VALUES (1, 1), (2, 2)")
				names := columns(t, tgt, s.to, "p")
				rows := func() string {
					return dump(t, tgt, s.to, "p", names) + "\n" + dump(t, tgt, s.to, "c", []string{"id", "pid"})
				}
				before := rows()
				if w.runs {
					s.while(func(until func(func() bool)) {
						s.do(append(w.do, "INSERT INTO p (id, v) VALUES (3, 'c')")...)
						until(func() bool { return s.states()["p"].State == "stopped" })
					})
				} else {
					for _, sql := range w.do {
						s.do(sql)
						if w.name == "back" {
							s.flow()
						}
					}
					s.do("INSERT INTO p (id, v) VALUES (3, 'c')")
				}
				if w.do == nil {
					s.flow()
					before = rows()
					testdb.Must(t, "sub", "reload", "p", "--name", s.name)
				}
				said := s.flow()
				start := "tidemark sub start " + s.states()["p"].Table.Schema + ".p --no-load --name " + s.name
				st := s.whole("p")
				if st.State != "stopped" || w.name != "stop" && !strings.Contains(st.Reason+st.Hint, "is referenced by") || !strings.Contains(st.Hint, start) || strings.Contains(st.Hint, "sub reload") {
					t.Errorf("p is %+v\n%s", st, said)
				}
				if is := columns(t, tgt, s.to, "p"); !slices.Equal(is, names) {
					t.Fatalf("the target's p has the columns %v, and had %v", is, names)
				}
				if is := rows(); is != before {
					t.Errorf("the target has\n%s\nand had\n%s\n%s", is, before, said)
				}
				if strings.Contains(said, "loaded again\n") || strings.Contains(said, "is taken over") {
					t.Errorf("it says\n%s", said)
				}
				// A child of a row that p lacks on the target stops too; then what the hints say.
				s.do("INSERT INTO p (id, v) VALUES (4, 'd')", "INSERT INTO c VALUES (4, 4)")
				s.flow()
				again := "tidemark sub reload " + st.Table.Schema + ".c --name " + s.name
				if st := s.states()["c"]; st.State != "stopped" || !strings.Contains(st.Hint, start) || !strings.Contains(st.Hint, again) {
					t.Errorf("c is %+v", st)
				}
				if w.do != nil {
					testdb.Query(t, s.to, "ALTER TABLE p DROP COLUMN w")
				}
				testdb.Must(t, strings.Fields(start)[1:]...)
				s.flow()
				testdb.Query(t, s.to, "INSERT INTO p (id, v) VALUES (4, 'd')")
				if w.do != nil {
					testdb.Query(t, s.to, "INSERT INTO p (id, v) VALUES (3, 'c')")
				}
				testdb.Must(t, "sub", "loaddone", "p", "--name", s.name)
				s.flow()
				testdb.Must(t, strings.Fields(again)[1:]...)
				s.do("UPDATE p SET v = 'z' WHERE id = 2", "DELETE FROM p WHERE id = 1")
				s.flow()
				for _, table := range []string{"p", "c"} {
					if st := s.whole(table); st.State != "active" {
						t.Errorf("%s is %+v", table, st)
					}
				}
			})
		}
	}
}

// TestNewAndReferenced lets the stream find a new table that another one references with CASCADE,
// and that the target has already, with other rows and a column less: it is left as it is there.
func TestNewAndReferenced(t *testing.T) {
	for _, tgt := range []server{postgres, mariadb} {
		t.Run(tgt.name, func(t *testing.T) {
			t.Parallel()
			s := newStreamWith(t, mariadb, tgt, []string{"--new-tables", "follow"}, "CREATE TABLE other (id int PRIMARY KEY)")
			p := map[bool]string{true: "public.p", false: "p"}[tgt.isPostgres()]
			testdb.Query(t, s.to, "CREATE TABLE "+p+" (id int PRIMARY KEY, v varchar(10)); INSERT INTO "+p+" VALUES (7, 'mine')")
			s.do("CREATE TABLE p (id int PRIMARY KEY, v varchar(10), w int); INSERT INTO p VALUES (1, 'a', 1)",
				"CREATE TABLE c (id int PRIMARY KEY, pid int, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE)")
			said := s.flow()
			if st := s.whole("p"); st.State != "stopped" || !strings.Contains(st.Reason, "is referenced by") || !strings.Contains(st.Hint, ".p --no-load --name "+s.name) {
				t.Errorf("p is %+v\n%s", st, said)
			}
			if is := columns(t, tgt, s.to, "p"); !slices.Equal(is, []string{"id", "v"}) {
				t.Errorf("the target's p has the columns %v\n%s", is, said)
			}
			if is := dump(t, tgt, s.to, "p", []string{"id", "v"}); is != "7|mine" {
				t.Errorf("the target's p has %s\n%s", is, said)
			}
		})
	}
}
