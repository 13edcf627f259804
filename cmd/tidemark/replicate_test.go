package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// bank has typical pitfalls for a stream: hot parents, a unique value besides the key, a trigger
// whose rows are in the log too, a cascade, partitions, out-of-line values, a table whose rows only
// differ across all columns, generated and identity columns.
const bank = `
CREATE TABLE branch (id int PRIMARY KEY, total int NOT NULL DEFAULT 0, twice int GENERATED ALWAYS AS (total * 2) STORED);
CREATE TABLE account (id int PRIMARY KEY, branch int NOT NULL REFERENCES branch ON DELETE CASCADE, email text UNIQUE, balance int NOT NULL DEFAULT 0, big text);
CREATE TABLE history (id bigint GENERATED ALWAYS AS IDENTITY, account int, delta int, at timestamptz DEFAULT now());
ALTER TABLE history REPLICA IDENTITY FULL;
CREATE TABLE audit (id serial PRIMARY KEY, account int, was int, is_now int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit (account, was, is_now) VALUES (NEW.id, OLD.balance, NEW.balance); RETURN NULL; END $$;
CREATE TRIGGER note AFTER UPDATE OF balance ON account FOR EACH ROW EXECUTE FUNCTION note();
CREATE TABLE event (day date, id int, what text, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
INSERT INTO branch SELECT i FROM generate_series(1, 5) i;
INSERT INTO account SELECT i, i % 5 + 1, 'e' || i, 100, repeat(md5(i::text), 200) FROM generate_series(1, 500) i;
`

// busy changes the bank until stop is closed.
func busy(t *testing.T, url string, seed uint64, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	traffic(t, url, stop, func() string {
		a, b, n := 1+rnd.IntN(500), 1+rnd.IntN(5), rnd.IntN(1000)
		return []string{
			fmt.Sprintf("UPDATE account SET balance = balance + 1 WHERE id = %d; UPDATE branch SET total = total + 1 WHERE id = %d; INSERT INTO history (account, delta) VALUES (%d, 1)", a, b, a),
			fmt.Sprintf("UPDATE account SET email = NULL WHERE id = %d; UPDATE account SET email = 'e%d' WHERE id = %d AND NOT EXISTS (SELECT FROM account WHERE email = 'e%d')", a, n, a, n),
			fmt.Sprintf("DELETE FROM account WHERE id = %d; INSERT INTO account (id, branch, big) VALUES (%d, %d, repeat('x', %d))", a, a, b, n*20),
			fmt.Sprintf("DELETE FROM history WHERE id = (SELECT min(id) FROM history WHERE account = %d)", a),
			fmt.Sprintf("DELETE FROM event WHERE id = %[1]d AND day >= '2026-02-01'; UPDATE event SET day = day + 28 WHERE id = %[1]d; INSERT INTO event VALUES ('2026-01-%02[2]d', %[1]d, 'x')", n%60, 4+n%20), // into another partition
			fmt.Sprintf("DELETE FROM branch WHERE id = %d; INSERT INTO branch VALUES (%d)", 5+n%3, 5+n%3),
		}[rnd.IntN(6)]
	})
}

// nothingOfAStream checks that a source keeps nothing for a stream.
func nothingOfAStream(t *testing.T, url string) {
	t.Helper()
	if left := testdb.Query(t, url, "SELECT slot_name FROM pg_replication_slots WHERE database = current_database() UNION ALL SELECT pubname FROM pg_publication"); left != "" {
		t.Errorf("left on the source: %s", left)
	}
}

// streamName keeps tests on one server apart: slots belong to the whole server.
func streamName() string { return testdb.StreamName("t") }

// TestReplicate copies and follows a source under load, is killed and disconnected at any moment,
// and ends with equal rows.
func TestReplicate(t *testing.T) {
	t.Parallel()
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			srv := testdb.Postgres(t, major)
			src, dst, name := srv.NewDatabase(t, "src"), srv.NewDatabase(t, "dst"), streamName()
			testdb.Load(t, src, strings.NewReader(bank))
			args := []string{"replicate", src, dst, "--name", name, "--monitor-interval", "1s"}
			metrics := testdb.FreeAddress(t)
			seed := testdb.Seed(t)
			rnd, stop := rand.New(rand.NewPCG(seed, 99)), make(chan struct{})
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() { busy(t, src, seed+uint64(i), stop) })
			}
			for round := range 8 {
				cmd := process(t, append(args, "--metrics", metrics)...)
				var errOut bytes.Buffer
				cmd.Stderr = &errOut
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if round == 0 {
					awaitStream(t, cmd, &errOut, name)
					awaitMetric(t, metrics, "tidemark_stream_rows_applied_total{stream=\""+name+"\"}")
				}
				time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
				if round%3 == 1 {
					for _, url := range []string{src, dst} {
						testdb.Query(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemark' AND datname = current_database() AND random() < 0.7")
					}
					time.Sleep(time.Second)
				}
				if round%3 == 2 {
					_ = cmd.Process.Signal(syscall.SIGINT)
				} else {
					_ = cmd.Process.Kill()
				}
				if code := interrupted(cmd, &errOut); round%3 == 2 && code != 130 {
					t.Errorf("stopped: exit %d\n%s", code, &errOut)
				}
			}
			close(stop)
			wg.Wait()
			testdb.Query(t, src, "INSERT INTO audit (account) SELECT 1 FROM generate_series(1, 10)")
			o := must(t, "cutover", src, dst, "--name", name, "--fence", "--progress", "lines")
			if !strings.Contains(o.out, "Both sides are equal") || !strings.Contains(o.out, "sequences: 2 sequences advanced") {
				t.Errorf("cutover says\n%s", o.out)
			}
			if a, b := testdb.Query(t, src, "SELECT last_value FROM audit_id_seq"), testdb.Query(t, dst, "SELECT last_value FROM audit_id_seq"); a != b {
				t.Errorf("the sequence is at %s on the source, at %s on the target", a, b)
			}
			if _, err := testdb.TryQuery(src, "DELETE FROM audit"); err == nil || !strings.Contains(err.Error(), "read-only") {
				t.Errorf("the source can be written to: %v", err)
			}
			if o := must(t, "report", "last"); !strings.Contains(o.out, "end to end") {
				t.Errorf("no latency in\n%s", o.out)
			}
			if o := must(t, "status", "--name", name); !strings.Contains(o.out, name+": cut over, both sides were equal (the source keeps its log") {
				t.Errorf("status says\n%s", o.out)
			}
			must(t, append(args, "--remove")...)
			nothingOfAStream(t, src)
			nothingOfOurs(t, dst)
		})
	}
}

// interrupted returns the exit code of a process that got SIGINT or SIGKILL at any moment. Before
// main starts, SIGINT just ends a process silently, which a shell reports as 130 as well.
func interrupted(cmd *exec.Cmd, errOut fmt.Stringer) int {
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }) // prints its stacks
	defer late.Stop()
	_ = cmd.Wait() // its state tells more
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() && ws.Signal() == syscall.SIGINT && errOut.String() == "" {
		return 130
	}
	return cmd.ProcessState.ExitCode()
}

// awaitMetric waits until a metric is present and above zero.
func awaitMetric(t *testing.T, addr, name string) {
	t.Helper()
	var text []byte
	for w := (waiting{t: t, what: name}); !w.over(); time.Sleep(200 * time.Millisecond) {
		res, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			continue
		}
		text, _ = io.ReadAll(res.Body)
		res.Body.Close()
		for line := range strings.Lines(string(text)) {
			if v, ok := strings.CutPrefix(line, name+" "); ok && strings.TrimSpace(v) != "0" {
				return
			}
		}
	}
	t.Errorf("no %s above 0 in\n%s", name, text)
}

// awaitStream waits until a replicating process has finished its copy.
func awaitStream(t *testing.T, cmd *exec.Cmd, errOut *bytes.Buffer, name string) {
	t.Helper()
	for w := (waiting{t: t, what: "the stream " + name}); !w.over(); time.Sleep(100 * time.Millisecond) {
		if o := cli(t, "status", "--name", name); o.code == 0 && strings.Contains(o.out, name+": following") {
			return
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it only has to be gone
	t.Fatalf("it does not follow\n%s", errOut)
}

// TestReplicateTypes sends every type through the log, since the copy would transfer it in its own
// way, and finds the same values.
func TestReplicateTypes(t *testing.T) {
	t.Parallel()
	srv := testdb.Postgres(t, 15)
	src, dst, name := filled(t, srv, "types-zoo/pg.sql"), srv.NewDatabase(t, "dst"), streamName()
	const ordinary = `SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relkind = 'r' AND relpersistence = 'p' AND nspname NOT IN ('pg_catalog', 'information_schema') AND `
	const keyed = `EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND indisprimary)`
	for _, table := range strings.Split(testdb.Query(t, src, ordinary+"NOT "+keyed), "\n") {
		testdb.Query(t, src, "ALTER TABLE "+table+" REPLICA IDENTITY FULL")
	}
	tables := strings.Split(testdb.Query(t, src, ordinary+keyed+" AND NOT relispartition"), "\n")
	args := []string{"replicate", src, dst, "--name", name, "--exclude", "keep.*", "--exclude", "*.unlogged_t", "--until", "now"}
	testdb.Query(t, src, "CREATE SCHEMA keep")
	for i, table := range tables {
		testdb.Query(t, src, fmt.Sprintf("CREATE TABLE keep.t%d AS TABLE %s", i, table))
	}
	must(t, args...)
	testdb.Query(t, src, "TRUNCATE "+strings.Join(tables, ", ")+" CASCADE")
	must(t, args...)
	for i, table := range tables {
		columns := testdb.Query(t, src, "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '"+table+"'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''")
		testdb.Query(t, src, fmt.Sprintf("SET session_replication_role = replica; INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM keep.t%d", table, columns, columns, i))
	}
	o := must(t, args...)
	if strings.Contains(o.out, "\n0 transactions") {
		t.Errorf("nothing went through the log:\n%s", o.out)
	}
	must(t, "diff", src, dst, "--exclude", "keep.*", "--exclude", "*.unlogged_t")
	must(t, append(args[:5:5], "--remove")...)
}

// TestReplicateRefuses names what is impossible, and leaves nothing behind.
func TestReplicateRefuses(t *testing.T) {
	t.Parallel()
	srv := testdb.Postgres(t, 15)
	name := streamName()
	src, dst := srv.NewDatabase(t, "src"), srv.NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (x int); INSERT INTO a VALUES (1)")
	refused := func(code int, text string, args ...string) {
		t.Helper()
		o := cli(t, append([]string{"replicate", src, dst, "--name", name, "--until", "now"}, args...)...)
		if o.code != code || !strings.Contains(o.errOut, text) {
			t.Errorf("exit %d, want %d and %q in\n%s", o.code, code, text, o.errOut)
		}
	}
	refused(7, `replica identity of public.b: none, and no primary key`)
	refused(7, "ALTER TABLE public.b REPLICA IDENTITY FULL")
	nothingOfAStream(t, src)
	refused(2, "is not a valid name of a stream", "--name", "No Name")
	refused(2, "batches do not keep the order of commits", "--apply-mode", "batch", "--commit-order", "source")
	refused(2, "cannot handle conflicts of single changes", "--apply-mode", "batch", "--conflict", "ignore")
	testdb.Query(t, src, "DROP TABLE b")

	// A failed copy leaves no slot.
	testdb.Query(t, dst, "CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (7)")
	refused(8, "")
	nothingOfAStream(t, src)
	testdb.Query(t, dst, "DROP TABLE a")

	o := must(t, "replicate", src, dst, "--name", name, "--until", "now")
	if strings.Contains(o.errOut, "publication") || testdb.Query(t, dst, "SELECT count(*) FROM pg_publication") != "0" {
		t.Errorf("the stream's own publication was copied\n%s", o.errOut)
	}
	// Another catalogue does not know the stream.
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"replicate", src, dst, "--name", name, "--until", "now", "--state", t.TempDir() + "/other.db"}, &out, &errOut); code != 17 || !strings.Contains(errOut.String(), "which this catalogue does not know") {
		t.Errorf("exit %d\n%s", code, &errOut)
	}
	// The source has a row that the target rejects.
	testdb.Query(t, dst, "INSERT INTO a VALUES (2)")
	testdb.Query(t, src, "INSERT INTO a VALUES (2)")
	refused(14, "duplicate key")
	testdb.Query(t, dst, "DELETE FROM a WHERE id = 2")
	refused(0, "")
	// Columns that the target lacks: one that can be added, one whose values in existing rows are
	// unknown, and one that was renamed.
	testdb.Query(t, src, "ALTER TABLE a ADD x int DEFAULT 7; UPDATE a SET x = id WHERE id = 1")
	refused(0, "ADD COLUMN IF NOT EXISTS x integer DEFAULT 7")
	must(t, "diff", src, dst)
	testdb.Query(t, src, "ALTER TABLE a ADD y timestamptz DEFAULT now()")
	refused(0, "stopped: public.a: has no column y on the target, but the source's table has it. Add the column y to the target. Then run tidemark sub reload public.a --name "+name+".")
	testdb.Query(t, dst, "ALTER TABLE a ADD y timestamptz")
	must(t, "sub", "start", "a", "--no-load", "--name", name)
	testdb.Query(t, src, "UPDATE a SET y = 'epoch'")
	refused(0, "")
	must(t, "sub", "loaddone", "a", "--name", name)
	refused(0, "")
	must(t, "diff", src, dst)
	// The slot is gone.
	testdb.Query(t, src, "SELECT pg_drop_replication_slot('tidemark_"+name+"')")
	refused(11, "copy again")
	must(t, "replicate", src, dst, "--name", name, "--until", "now", "--anew", "--prep", "truncate")
	must(t, "diff", src, dst)
	must(t, "replicate", src, dst, "--name", name, "--remove")
	nothingOfAStream(t, src)
}

// TestReplicateAsOrdinaryUser warns of triggers that fire because the target's user may not disable
// them, and yields the right rows once the user may.
func TestReplicateAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	srv := testdb.Postgres(t, 15)
	src, dst, name := srv.NewDatabase(t, "src"), srv.NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(bank))
	user := "u_" + name
	to := role(t, srv, dst, user, "GRANT CREATE ON DATABASE "+testdb.Query(t, dst, "SELECT current_database()")+" TO r; GRANT CREATE ON SCHEMA public TO r")
	args := []string{"replicate", src, to, "--name", name, "--until", "now"}
	if o := must(t, args...); !strings.Contains(o.errOut, "warning: triggers: the target's triggers fire") || !strings.Contains(o.errOut, "public.account. As a superuser") {
		t.Errorf("no warning in\n%s", o.errOut)
	}
	testdb.Query(t, dst, "GRANT SET ON PARAMETER session_replication_role TO "+user)
	t.Cleanup(func() { testdb.Query(t, dst, "REVOKE SET ON PARAMETER session_replication_role FROM "+user) })
	testdb.Query(t, src, "UPDATE account SET balance = 7 WHERE id < 4; DELETE FROM branch WHERE id = 2")
	if o := must(t, args...); strings.Contains(o.errOut, "warning: triggers") {
		t.Errorf("a warning of what does not fire:\n%s", o.errOut)
	}
	must(t, "diff", src, dst)
	must(t, append(args[:5:5], "--remove")...)
}
