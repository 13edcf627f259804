package bulk

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// TestExecEach: objects that fail, or cannot be sent ahead, do not affect the others.
func TestExecEach(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		db := srv.NewDatabase(t, "each")
		e, ctx := open(t, db, server.Options{}), t.Context()
		name := testdb.Query(t, db, "SELECT DATABASE()")
		in := func(sql string) string { return strings.ReplaceAll(sql, "@", server.Quote(name)+".") }
		objects := [][]string{
			{in("CREATE TABLE @a (id int PRIMARY KEY)")},
			{in("CREATE TABLE @a (id int)")},                                     // exists already
			{in("CREATE TABLE @b (id int)"), in("CREATE INDEX b_id ON @b (id)")}, // two statements
			nil,
			{"CREATE TABL d ()"},
			{in("CREATE TABLE @c (id int, CONSTRAINT c_a FOREIGN KEY (id) REFERENCES @a (id))")},
			{in("ANALYZE TABLE @a")}, // answers with rows
			{in("ANALYZE TABLE @nothing")},
		}
		for range 40 { // exceeds a socket's buffer
			objects = append(objects, []string{in("ALTER TABLE @c COMMENT '" + strings.Repeat("x", 2000) + "' /* " + strings.Repeat("y", 100_000) + " */")})
		}
		var made []int
		each := func(objects [][]string) []int {
			made = nil
			e.ExecEach(ctx, 3, objects, func(i int, _ time.Duration) { made = append(made, i) })
			return made
		}
		want := []int{0, 5}
		for i := 6; i < len(objects); i++ {
			want = append(want, i)
		}
		if got := each(objects); !slices.Equal(got, want) {
			t.Errorf("made %v, want %v", got, want)
		}
		if got := testdb.Query(t, db, "SHOW TABLES"); got != "a\nc" {
			t.Errorf("tables %q", got)
		}
		if err := e.Exec(ctx, 3, objects[2]); err != nil {
			t.Errorf("the session is of use: %v", err)
		}
		// The session is terminated before its last answer: that object's outcome is unknown.
		if got := each([][]string{{in("CREATE TABLE @f (id int)")}, {"KILL CONNECTION_ID()"}, {in("CREATE TABLE @g (id int)")}}); !slices.Equal(got, []int{0}) {
			t.Errorf("made %v", got)
		}
		if err := e.Exec(ctx, 3, []string{in("CREATE TABLE IF NOT EXISTS @g (id int)")}); err != nil {
			t.Errorf("another session is opened: %v", err)
		}
		if got := testdb.Query(t, db, "SHOW TABLES"); got != "a\nb\nc\nf\ng" {
			t.Errorf("tables %q", got)
		}
	})
}
