package ddl_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestNewTable creates a table on the source while a stream exists: the output and the status
// announce it with the command that adds it, and the command works; or it is added automatically.
func TestNewTable(t *testing.T) {
	for _, src := range []server{postgres, mysql, mariadb} {
		for _, follow := range []bool{false, true} {
			t.Run(src.name+map[bool]string{false: "/announce", true: "/follow"}[follow], func(t *testing.T) {
				t.Parallel()
				s := newStream(t, src, postgres, "CREATE TABLE t (id int PRIMARY KEY)")
				testdb.Query(t, s.to, "CREATE INDEX fresh_pkey ON t (id); CREATE INDEX uk ON t (id)") // names that a key of the new table would have
				s.do("CREATE TABLE fresh (id int PRIMARY KEY, n int, CONSTRAINT uk UNIQUE (n))", "INSERT INTO fresh VALUES (1, 1)", "CREATE TABLE tidemark_applied (id int PRIMARY KEY)")
				if follow {
					s.args = append(s.args, "--new-tables", "follow")
					s.flow()
				} else {
					said := s.flow()
					_, command, ok := strings.Cut(said, "fresh: is new on the source and not in the stream. Add it: tidemark ")
					if !ok || strings.Contains(said, "tidemark_applied") {
						t.Fatalf("it says\n%s", said)
					}
					s.shown("is new on the source and not in the stream")
					command, _, _ = strings.Cut(command, "\n")
					testdb.Must(t, strings.Fields(command)...)
				}
				s.flow()
				if src.isPostgres() { // its keys keep their names
					if st := s.states()["fresh"]; st.State != "stopped" || !strings.Contains(st.Reason, "index public.uk") || !strings.Contains(st.Reason, "index public.fresh_pkey") {
						t.Errorf("it is %+v", st)
					}
					testdb.Query(t, s.to, "ALTER INDEX fresh_pkey RENAME TO a; ALTER INDEX uk RENAME TO b")
					testdb.Must(t, "sub", "reload", "fresh", "--name", s.name)
					s.flow()
				}
				s.do("INSERT INTO fresh VALUES (2, 2)", "UPDATE fresh SET n = 7 WHERE id = 1")
				if said := s.flow(); strings.Contains(said, "is new on the source") {
					t.Errorf("it says\n%s", said)
				}
				if st := s.whole("fresh"); st.State != "active" {
					t.Errorf("it is %+v", st)
				}
				if keys := testdb.Query(t, s.to, "SELECT count(*) FROM pg_index WHERE indrelid = 'fresh'::regclass AND indisunique"); keys != "2" {
					t.Errorf("of its 2 keys it has %s on the target", keys)
				}
			})
		}
	}
}

// shown runs the stream until its status contains text.
func (s *stream) shown(text string) {
	s.t.Helper()
	p := testdb.Command(s.t, s.args[:len(s.args)-2]...)
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	defer func() {
		_ = p.Process.Signal(os.Interrupt)
		_ = p.Wait() // it was interrupted
	}()
	out := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		if out = testdb.Must(s.t, "status", "--name", s.name); strings.Contains(out, text) {
			return
		}
	}
	s.t.Fatalf("no %q in the status:\n%s", text, out)
}
