package misuse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestBothEndsTheSame: no verb touches a database that is its own source, whatever names lead to
// it. One schema of a server can be copied into another.
func TestBothEndsTheSame(t *testing.T) {
	t.Parallel()
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e.server(t)
			if e.name == "postgres" {
				s = testdb.OwnPostgres(t, 15, "-c", "unix_socket_directories=/tmp")
			}
			db := full(t, s)
			for by, other := range routes(t, s, db) {
				t.Run(by, func(t *testing.T) {
					verbs := [][]string{{"copy", "--prep", "drop"}, {"copy", "--prep", "truncate"}, {"copy", "--prep", "keep"}, {"copy", "--plan"}, {"diff"}, {"diff", "--live"},
						{"repair", "--execute"}, {"repair", "--live", "--execute"}, {"replicate", "--prep", "drop"}, {"replicate", "--no-copy"}}
					if by != "localhost" && !testdb.Long() {
						verbs = [][]string{verbs[0], verbs[4], verbs[6], verbs[8]}
					}
					for _, v := range verbs {
						args := append([]string{v[0], db, other}, v[1:]...)
						if v[0] == "replicate" {
							args = append(args, "--name", streamName())
						}
						o := run(t, args...)
						if o.Code != 2 || !strings.Contains(o.ErrOut, "source and target are the same table") {
							t.Errorf("%s: exit %d, want 2\n%s%s", v, o.Code, o.ErrOut, o.Out)
						}
						if got := testdb.Query(t, db, allOrders); got != "1\tone\n2\ttwo\n3\tthree" {
							t.Fatalf("%s has left\n%s", v, got)
						}
					}
					if o := run(t, "check", db, other); o.Code != 1 || !strings.Contains(o.Out, "source and target are the same table") {
						t.Errorf("check: exit %d\n%s%s", o.Code, o.ErrOut, o.Out)
					}
				})
			}
			if got := tables(t, db); got != "orders" {
				t.Errorf("there is more than before: %s", got)
			}
			if e.name == "postgres" {
				if got := testdb.Query(t, db, "SELECT count(*) FROM pg_replication_slots"); got != "0" {
					t.Errorf("%s slots were left", got)
				}
				testdb.Must(t, "copy", db, db, "--target-schema", "archive")
				testdb.Must(t, "diff", db, db, "--target-schema", "archive", "--include", "public.*")
				if got := testdb.Query(t, db, strings.Replace(allOrders, "orders", "archive.orders", 1)); got != "1\tone\n2\ttwo\n3\tthree" {
					t.Errorf("the other schema has\n%s", got)
				}
				return
			}
			into := s.NewDatabase(t, "archive")
			testdb.Must(t, "copy", db, into)
			testdb.Must(t, "diff", db, into)
		})
	}
}

// TestStandbyOfItself: a server's standby receives what is written to the server, so it is no
// source for it.
func TestStandbyOfItself(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 15)
	db := full(t, s)
	standby := s.Standby(t, "postgres")
	source := testdb.At(t, db, fmt.Sprintf("%s:%d", standby.Host, standby.Port))
	soon(t, "the standby has the rows", func() bool {
		got, err := testdb.TryQuery(source, allOrders)
		return err == nil && got != ""
	})
	for _, v := range [][]string{{"copy", "--prep", "drop"}, {"repair", "--execute"}} {
		o := run(t, append([]string{v[0], source, db}, v[1:]...)...)
		if o.Code != 2 || !strings.Contains(o.ErrOut, "standby") {
			t.Errorf("%s: exit %d, want 2\n%s%s", v, o.Code, o.ErrOut, o.Out)
		}
		if got := testdb.Query(t, db, allOrders); got != "1\tone\n2\ttwo\n3\tthree" {
			t.Fatalf("%s has left\n%s", v, got)
		}
	}
	testdb.Must(t, "diff", source, db)
}

// TestCutoverOfTheWrongStream: the fence comes only after all checks that can fail without it.
func TestCutoverOfTheWrongStream(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	src, dst, name := full(t, s), s.NewDatabase(t, "dst"), streamName()
	o := run(t, "cutover", src, dst, "--fence", "--name", name)
	if o.Code != 6 {
		t.Errorf("a cutover without a stream: exit %d, want 6\n%s", o.Code, o.ErrOut)
	}
	testdb.Must(t, "replicate", src, dst, "--name", name, "--until", "now")
	t.Cleanup(func() { testdb.Must(t, "replicate", src, dst, "--name", name, "--remove") })
	o = run(t, "cutover", dst, src, "--fence", "--name", name)
	if o.Code != 2 {
		t.Errorf("a cutover of swapped ends: exit %d, want 2\n%s", o.Code, o.ErrOut)
	}
	for _, db := range []string{src, dst} {
		if got := testdb.Query(t, db, "SHOW default_transaction_read_only"); got != "off" {
			t.Errorf("%s is read-only", db)
		}
	}
}

// TestNoHintEndsOurSessions: a copy that waits for a lock names its holder, and suggests ending
// that session only if it is not one of Tidemark's.
func TestNoHintEndsOurSessions(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	for who, end := range map[string]bool{"tidemark": false, "an-application": true} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			src, dst := full(t, s), full(t, s)
			holder := testdb.NewSession(dst + "&application_name=" + who)
			defer holder.Close()
			if _, err := holder.Try("BEGIN; LOCK TABLE orders IN SHARE MODE"); err != nil {
				t.Fatal(err)
			}
			f := start(t, "copy", src, dst, "--prep", "truncate")
			f.says("waiting: ")
			holder.Close()
			if code := f.wait(); code != 0 || strings.Contains(f.text(), "pg_terminate_backend") != end {
				t.Errorf("exit %d\n%s", code, f.text())
			}
		})
	}
}
