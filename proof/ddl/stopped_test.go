package ddl_test

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestChildOfAStoppedTable stops a table whose rows another one references: that one stops too,
// names the table whose rows it lacks, and is loaded again once that is. From PostgreSQL it goes
// along, since its sessions check no foreign keys.
func TestChildOfAStoppedTable(t *testing.T) {
	pairs := [][2]server{{mysql, mariadb}, {postgres, mysql}, {mariadb, mysql}}
	for _, i := range testdb.Draw(t, len(pairs), 1) {
		x := pairs[i]
		t.Run(x[0].name+"-"+x[1].name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, x[0], x[1], "CREATE TABLE p (id int PRIMARY KEY)", "CREATE TABLE c (id int PRIMARY KEY, p int, n int, FOREIGN KEY (p) REFERENCES p (id))", "CREATE TABLE d (id int PRIMARY KEY, c int, n int, FOREIGN KEY (c) REFERENCES c (id))", "INSERT INTO p VALUES (1)")
			testdb.Must(t, "sub", "stop", "p", "--name", s.name)
			s.do("INSERT INTO p VALUES (2)", "INSERT INTO c VALUES (1, 1, 1), (2, 2, 2)", "INSERT INTO d VALUES (1, 1, 1), (2, 2, 2)")
			s.flow()
			of := s.states()
			for child, parent := range map[string]string{"c": "p", "d": "c"} {
				stops := of[child].State == "stopped" && strings.Contains(of[child].Hint, "parent "+of[parent].Table.Schema+"."+parent+" is stopped") && !strings.Contains(of[child].Hint, "Correct the row")
				if goesAlong := x[0].name == postgres.name; goesAlong && of[child].State != "active" || !goesAlong && !stops {
					t.Errorf("%s is %+v", child, of[child])
				}
			}
			testdb.Must(t, "sub", "reload", "p", "--name", s.name)
			s.flow()
			s.remedied([]string{"c", "d"})
			s.whole("p")
		})
	}
}

// TestDroppedOnBothSides drops a table on the source, and then on the target, as the status says:
// the stream forgets it, and says so once.
func TestDroppedOnBothSides(t *testing.T) {
	for _, x := range [][2]server{{postgres, mysql}, {mysql, postgres}} {
		t.Run(x[0].name+"-"+x[1].name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, x[0], x[1], "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
			s.do("DROP TABLE t", "INSERT INTO other VALUES (1)")
			for range 2 {
				s.flow()
				if st := s.states()["t"]; st.State != "stopped" {
					t.Fatalf("t is %+v", st)
				}
			}
			testdb.Query(t, s.to, "DROP TABLE t")
			s.while(func(until func(func() bool)) {
				until(func() bool { return s.states()["t"].State == "" })
			})
			if said := s.flow(); strings.Contains(said, "neither") || strings.Contains(said, "t is stopped") {
				t.Errorf("it says\n%s", said)
			}
			s.do("CREATE TABLE t (id int PRIMARY KEY)")
			s.shown("is new on the source and not in the stream")
			s.whole("other")
		})
	}
}
