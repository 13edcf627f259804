package misuse

import (
	"fmt"
	"regexp"
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

// TestCutoverBesideTheStream: a cutover beside the running stream names the process to stop, before
// the fence; afterwards it prints how to remove the stream and to undo the fence, and both work.
func TestCutoverBesideTheStream(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	src, dst, name := full(t, s), s.NewDatabase(t, "dst"), streamName()
	p := testdb.Start(t, "replicate", src, dst, "--name", name)
	p.Says("copied (run")
	o := run(t, "cutover", src, dst, "--fence", "--name", name)
	_, hint, _ := strings.Cut(o.ErrOut, "hint: ")
	if want := fmt.Sprintf("kill -INT %d", p.Cmd.Process.Pid); o.Code != 2 || !strings.Contains(hint, want) || !strings.Contains(o.ErrOut, "runs it now") {
		t.Errorf("exit %d, want 2 and a hint with %q\n%s", o.Code, want, o.ErrOut)
	}
	if got := testdb.Query(t, src, "SHOW default_transaction_read_only"); got != "off" {
		t.Error("the source was fenced all the same")
	}
	p.Interrupt()
	out := testdb.Must(t, "cutover", src, dst, "--fence", "--name", name)
	states := func(want string) {
		t.Helper()
		if o := testdb.Must(t, "status", "--name", name); !strings.Contains(o, name+": "+want) {
			t.Errorf("status says\n%s\nand not %q", o, want)
		}
	}
	states("cut over")
	undo := regexp.MustCompile(`BEGIN READ WRITE; .*;`).FindString(out)
	if _, err := testdb.TryQuery(src, "INSERT INTO orders VALUES (4, 'four')"); err == nil || undo == "" {
		t.Fatalf("the source can be written, or it is not said how to undo that: %v\n%s", err, out)
	}
	// The old source, by mistake the target of a copy: nothing is written.
	elsewhere := s.NewDatabase(t, "elsewhere")
	testdb.Query(t, elsewhere, "CREATE TABLE late (id int PRIMARY KEY)")
	dump := testdb.Written(t, "dump.sql", "CREATE TABLE `late` (`id` int NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;\nINSERT INTO `late` VALUES (1);\n")
	before := tables(t, src)
	for _, args := range [][]string{{"copy", elsewhere, src}, {"copy", elsewhere, src, "--prep", "drop"}, {"copy", dst, src, "--prep", "truncate"}, {"copy", dump, src}, {"replicate", elsewhere, src, "--name", name + "b"}} {
		o := run(t, args...)
		_, hint, _ := strings.Cut(o.ErrOut, "hint: ")
		if o.Code != 2 || !strings.Contains(o.ErrOut, "is read-only") || !strings.Contains(hint, undo) || tables(t, src) != before {
			t.Errorf("%q: exit %d, want 2 and the hint %q\n%s\ntables before: %s, and now: %s", args, o.Code, undo, o.ErrOut, before, tables(t, src))
		}
	}
	if o := run(t, "check", elsewhere, src); o.Code != 1 || !strings.Contains(o.Out, "is read-only") {
		t.Errorf("check: exit %d, want 1\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if got := testdb.Query(t, src, allOrders); got != "1\tone\n2\ttwo\n3\tthree" {
		t.Errorf("the old source has\n%s", got)
	}
	testdb.Query(t, src, undo)
	testdb.Query(t, src, "INSERT INTO orders VALUES (4, 'four')")
	testdb.Must(t, "replicate", src, dst, "--name", name, "--until", "now") // back to following
	states("stopped")
	out = testdb.Must(t, "cutover", src, dst, "--name", name)
	line := regexp.MustCompile(`tidemark replicate (\S+) (\S+) (--name \S+ --remove)`).FindStringSubmatch(out)
	if line == nil || strings.Contains(out, "ALTER DATABASE") {
		t.Fatalf("it is not said how to remove the stream, or to undo a fence that is not there\n%s", out)
	}
	testdb.Must(t, append([]string{"replicate", src, dst}, strings.Fields(line[3])...)...) // the printed URLs lack the password
	if got := testdb.Query(t, src, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'tidemark_"+name+"'"); got != "0" {
		t.Error("the slot is still there")
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
			f := testdb.Start(t, "copy", src, dst, "--prep", "truncate")
			f.Says("waiting: ")
			holder.Close()
			if code := f.Wait(); code != 0 || strings.Contains(f.Text(), "pg_terminate_backend") != end {
				t.Errorf("exit %d\n%s", code, f.Text())
			}
		})
	}
}
