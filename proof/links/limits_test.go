package links

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTimeoutsOfSessions gives sessions short timeouts, by their user, that a stream exceeds while
// it waits for a lock. Jobs turn them off in their own sessions.
func TestTimeoutsOfSessions(t *testing.T) {
	t.Parallel()
	for _, s := range []*testdb.Server{postgres(t), testdb.MariaDB(t)} {
		t.Run(s.Engine, func(t *testing.T) {
			t.Parallel()
			own, to := shop(t, s), s.NewDatabase(t, "dst")
			src, _ := testdb.Through(t, hurried(t, own), far)
			dst, _ := testdb.Through(t, hurried(t, to), far)
			must(t, "copy", src, dst)
			compareShop(t, own, to)
			must(t, "diff", src, dst)
			keyless(t, own)
			stream := []string{"replicate", src, dst, "--name", streamName()}
			must(t, append(stream[:5:5], "--until", "now", "--prep", "truncate")...)
			for i := range small {
				testdb.Query(t, own, fmt.Sprintf("UPDATE t%d SET v = concat(v, '!')", i))
			}
			held := testdb.NewSession(to)
			defer held.Close()
			for _, sql := range []string{"BEGIN", "UPDATE t1 SET v = v WHERE id = 2"} {
				if _, err := held.Try(sql); err != nil {
					t.Fatal(err)
				}
			}
			time.AfterFunc(3*time.Second, func() { _, _ = held.Try("ROLLBACK") }) // the stream waits for it
			must(t, append(stream[:5:5], "--until", "now")...)
			compareShop(t, own, to)
			must(t, append(stream[:5:5], "--remove")...)
		})
	}
}

// hurried returns a database's URL with a user whose sessions have short timeouts.
func hurried(t *testing.T, db string) string {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(db, "postgres") {
		testdb.Query(t, db, "DROP ROLE IF EXISTS hurried")
		testdb.Query(t, db, "CREATE ROLE hurried SUPERUSER LOGIN PASSWORD 'hurried'")
		for _, name := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_timeout"} {
			testdb.Query(t, db, "ALTER ROLE hurried SET "+name+" = '1s'")
		}
	} else {
		testdb.Query(t, db, "CREATE USER IF NOT EXISTS hurried IDENTIFIED BY 'hurried'")
		testdb.Query(t, db, "GRANT ALL ON *.* TO hurried WITH GRANT OPTION MAX_STATEMENT_TIME 0.001")
	}
	u.User = url.UserPassword("hurried", "hurried")
	return u.String()
}

// TestFewLocks copies to a server whose lock table holds few locks. Batches of definitions take
// them one after another. What needs more at once, an index of many partitions, fails, and the
// message names the setting.
func TestFewLocks(t *testing.T) {
	t.Parallel()
	s := testdb.OwnPostgres(t, 17, "-c", "max_locks_per_transaction=10", "-c", "max_connections=20", "-c", "max_wal_senders=0", "-c", "max_worker_processes=2", "-c", "autovacuum=off")
	from := shop(t, postgres(t))
	testdb.Load(t, from, strings.NewReader("DO $$ BEGIN FOR i IN 1 .. 600 LOOP EXECUTE format('CREATE TABLE more%s (id int PRIMARY KEY, v text UNIQUE)', i); END LOOP; END $$;"))
	to := s.NewDatabase(t, "dst")
	src, _ := testdb.Through(t, from, far)
	dst, _ := testdb.Through(t, to, far)
	must(t, "copy", src, dst)
	compareShop(t, from, to)
	same(t, from, to, "SELECT count(*) FROM pg_class WHERE relname LIKE 'more%'")
	// 150 locks are left: fewer than a round trip of check would take of its source.
	held := testdb.NewSession(to)
	for _, sql := range []string{"DO $$ BEGIN FOR i IN 1 .. 1000000 LOOP PERFORM pg_advisory_lock(i); END LOOP; EXCEPTION WHEN out_of_memory THEN END $$", "SELECT count(pg_advisory_unlock(i)) FROM generate_series(1, 150) i"} {
		if _, err := held.Try(sql); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "check", to, postgres(t).NewDatabase(t, "dst"))
	held.Close()

	testdb.Load(t, from, strings.NewReader(`CREATE TABLE wide (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
DO $$ BEGIN FOR i IN 1 .. 1000 LOOP EXECUTE format('CREATE TABLE wide_%s PARTITION OF wide FOR VALUES FROM (%s) TO (%s)', i, i, i + 1); END LOOP; END $$;
CREATE INDEX ON wide (v); INSERT INTO wide SELECT i, i FROM generate_series(1, 1000) i;`))
	code, out := run(t, "copy", src, dst, "--include", "public.wide*", "--retry-for", "2s")
	if code != 10 || !strings.Contains(out, "max_locks_per_transaction") {
		t.Errorf("exit %d, want 10\n%s", code, out)
	}
}

// TestNoTemporaryFiles builds an index as a user who may not sort on disk: that does not pass, and
// the message has the setting.
func TestNoTemporaryFiles(t *testing.T) {
	t.Parallel()
	s := postgres(t)
	from, to := shop(t, s), s.NewDatabase(t, "dst")
	testdb.Query(t, from, "INSERT INTO loose SELECT i, md5(i::text) || md5(i::text) FROM generate_series(1, 30000) i")
	testdb.Query(t, from, "CREATE INDEX loose_v ON loose (v, id)")
	as := few(t, to)
	u, err := url.Parse(as)
	if err != nil {
		t.Fatal(err)
	}
	testdb.Query(t, to, "ALTER ROLE "+u.User.Username()+" CONNECTION LIMIT -1")
	testdb.Query(t, to, "ALTER ROLE "+u.User.Username()+" SET temp_file_limit = 0")
	code, out := run(t, "copy", from, as, "--include", "public.loose", "--index-memory", "1MB", "--index-workers", "0", "--retry-for", "2s", "-v")
	if code != 16 || !strings.Contains(out, "temporary file size exceeds temp_file_limit") || strings.Contains(out, "retrying") {
		t.Errorf("exit %d, want 16 and the server's reason, without another try\n%s", code, out)
	}
	same(t, from, to, "SELECT id, v FROM loose ORDER BY id, v")
}

// TestPoolers streams into a database behind a pgbouncer. Session pooling works as the server does,
// the other modes are refused by each job before it writes, or sets anything in a session that
// other programs get next, also if the pool gives its sessions in turn.
func TestPoolers(t *testing.T) {
	t.Parallel()
	s := postgres(t)
	from := shop(t, s)
	t.Run("session", func(t *testing.T) {
		t.Parallel()
		to := s.NewDatabase(t, "dst")
		keyless(t, from)
		dst, _ := testdb.Through(t, s.Pooled(t, "session")(to), far)
		stream := []string{"replicate", from, dst, "--name", streamName(), "--until", "now"}
		must(t, stream...)
		testdb.Query(t, from, "UPDATE t1 SET v = 'changed'")
		must(t, stream...)
		compareShop(t, from, to)
		must(t, append(stream[:5:5], "--remove")...)
	})
	for name, settings := range map[string][]string{"transaction": nil, "statement": nil, "transaction in turn": {"server_round_robin = 1"}, "statement in turn": {"server_round_robin = 1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := s.NewDatabase(t, "dst")
			before := testdb.Query(t, to, "SELECT count(*) FROM pg_class")
			mode, _, _ := strings.Cut(name, " ")
			dst := s.Pooled(t, mode, settings...)(to)
			inPool(t, to, dst, 4)
			for _, verb := range []string{"copy", "replicate", "check", "diff", "repair"} {
				code, out := run(t, verb, from, dst)
				if want := "a pooler in between gives each transaction another session of the server"; code != 7 || !strings.Contains(out, want) {
					t.Errorf("%s: exit %d, want 7\n%s", verb, code, out)
				}
			}
			if now := testdb.Query(t, to, "SELECT count(*) FROM pg_class"); now != before {
				t.Errorf("the target has %s relations, had %s", now, before)
			}
			for i := range 8 { // the sessions are those of other programs
				if got := testdb.Query(t, dst, "SHOW search_path"); got != `"$user", public` {
					t.Errorf("%d: the next program's search_path is %s", i, got)
				}
			}
		})
	}
}

// inPool has a pooler open sessions to a database, and leaves them free.
func inPool(t *testing.T, db, pooled string, n int) {
	t.Helper()
	const waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
	held := testdb.NewSession(db)
	defer held.Close()
	if _, err := held.Try("SELECT pg_advisory_lock(16)"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if _, err := testdb.TryQuery(pooled, "SELECT pg_advisory_xact_lock_shared(16)"); err != nil {
				t.Error(err)
			}
		})
	}
	testdb.Within(t, "sessions of the pool are in use", func() bool { return testdb.Query(t, db, waiting) == fmt.Sprint(n) })
	held.Close()
	all.Wait()
}

// TestSmallPool copies through a pooler that has fewer sessions than the job wants. pgbouncer lets
// the others wait, and ends them after query_wait_timeout: the copy continues with those it has, or
// stops in time if it has none for its rows.
func TestSmallPool(t *testing.T) {
	t.Parallel()
	s := postgres(t)
	from, to := shop(t, s), s.NewDatabase(t, "dst")
	dst := s.Pooled(t, "session", "default_pool_size = 5", "query_wait_timeout = 2")(to)
	if code, out := run(t, "copy", from, dst); code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	compareShop(t, from, to)

	for _, sessions := range []int{1, 3} {
		t.Run(fmt.Sprint(sessions), func(t *testing.T) {
			t.Parallel()
			dst := s.Pooled(t, "session", fmt.Sprint("default_pool_size = ", sessions), "query_wait_timeout = 1")(s.NewDatabase(t, "dst"))
			code, out := run(t, "copy", from, dst, "--retry-for", "1s")
			if code != 10 || !strings.Contains(out, "no connection") || !strings.Contains(out, "default_pool_size") {
				t.Errorf("exit %d\n%s", code, out)
			}
		})
	}
}

// TestManyObjectsFewSessions copies many objects into servers that have fewer sessions left than
// those that build small objects alone would take, and through a pooler that lets the others wait
// for longer than a login may take.
func TestManyObjectsFewSessions(t *testing.T) {
	t.Parallel()
	s, maria := postgres(t), testdb.MariaDB(t)
	var load strings.Builder
	var rows []string
	for i := range 260 {
		fmt.Fprintf(&load, "CREATE TABLE t%d (id int PRIMARY KEY, v int); CREATE INDEX i%[1]d ON t%[1]d (v); INSERT INTO t%[1]d VALUES (1, 1), (2, %[1]d);\n", i)
		rows = append(rows, fmt.Sprintf("SELECT %d AS t, v FROM t%[1]d", i))
	}
	from := s.NewDatabase(t, "src")
	testdb.Load(t, from, strings.NewReader(load.String()))
	a, b, c := s.NewDatabase(t, "few"), maria.NewDatabase(t, "few"), s.NewDatabase(t, "few")
	for name, to := range map[string][2]string{
		"PostgreSQL": {a, few(t, a)},
		"MariaDB":    {b, few(t, b)},
		"pgbouncer":  {c, s.Pooled(t, "session", "default_pool_size = 7")(c) + "&connect_timeout=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out := run(t, "copy", from, to[1], "--target-schema", schema(to[0]))
			if code != 0 || !strings.Contains(out, "a server has none left") {
				t.Fatalf("exit %d\n%s", code, out)
			}
			same(t, from, to[0], strings.Join(rows, " UNION ALL ")+" ORDER BY 1, 2")
		})
	}
}

// few returns a database's URL with a user who may have six sessions.
func few(t *testing.T, db string) string {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	create := "CREATE ROLE few_DB LOGIN PASSWORD 'few' CONNECTION LIMIT 6;GRANT ALL ON SCHEMA public TO few_DB;GRANT ALL ON DATABASE DB TO few_DB"
	if !strings.HasPrefix(db, "postgres") {
		create = "CREATE USER few_DB@'%' IDENTIFIED BY 'few' WITH MAX_USER_CONNECTIONS 6;GRANT ALL ON DB.* TO few_DB@'%'"
	}
	name := strings.TrimPrefix(u.Path, "/")
	for _, sql := range strings.Split(strings.ReplaceAll(create, "DB", name), ";") {
		testdb.Query(t, db, sql)
	}
	u.User = url.UserPassword("few_"+name, "few")
	return u.String()
}

// TestStreamWithFewSessions streams into servers that have fewer sessions left than the stream has
// agents. It continues with fewer agents, and not from failure to failure.
func TestStreamWithFewSessions(t *testing.T) {
	t.Parallel()
	for _, s := range []*testdb.Server{postgres(t), testdb.MariaDB(t)} {
		t.Run(s.Engine, func(t *testing.T) {
			t.Parallel()
			from, to := shop(t, postgres(t)), s.NewDatabase(t, "few")
			keyless(t, from)
			stream := []string{"replicate", from, few(t, to), "--name", streamName(), "--target-schema", schema(to), "--until", "now"}
			must(t, stream...)
			for i := range small {
				testdb.Query(t, from, fmt.Sprintf("UPDATE t%d SET v = concat(v, '!')", i))
			}
			code, out := run(t, stream...)
			if code != 0 || !strings.Contains(out, "no connection is left: continues with --agents 8") {
				t.Errorf("exit %d\n%s", code, out)
			}
			compareShop(t, from, to)
			must(t, append(stream[:7:7], "--remove")...)
		})
	}
}

// keyless lets a stream take the table that has no key.
func keyless(t *testing.T, db string) {
	t.Helper()
	if strings.HasPrefix(db, "postgres") {
		testdb.Query(t, db, "ALTER TABLE loose REPLICA IDENTITY FULL")
	}
}

// TestSmallPackets copies to servers that take packets of 128 kB at most: they close connections
// that send them more.
func TestSmallPackets(t *testing.T) {
	t.Parallel()
	from := shop(t, postgres(t))
	testdb.Query(t, from, "INSERT INTO loose SELECT i, md5(i::text) || md5(i::text) FROM generate_series(1, 30000) i")
	servers := []func(testing.TB, ...string) *testdb.Server{testdb.OwnMariaDB, testdb.OwnMySQL}
	for _, i := range testdb.Draw(t, len(servers), 1) {
		to := servers[i](t, "--max-allowed-packet=131072")
		dst := to.NewDatabase(t, "dst")
		if code, out := run(t, "copy", from, dst, "--target-schema", schema(dst), "--retry-for", "2s"); code != 0 {
			t.Fatalf("%s: exit %d\n%s", to.Engine, code, out)
		}
		compareShop(t, from, dst)
	}
}
