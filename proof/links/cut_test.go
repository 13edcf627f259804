package links

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// The delays of each direction in these tests. Streams into PostgreSQL then have several
// transactions on their way in a session.
const (
	far       = 2 * time.Millisecond // of copies, which ask more questions
	streamFar = 10 * time.Millisecond
)

// small is how many small tables the copies have.
const small = 40

// shop makes small tables with indexes and foreign keys, one larger table, and one without a key,
// in which a row that comes twice is seen.
func shop(t *testing.T, s *testdb.Server) string {
	t.Helper()
	db := s.NewDatabase(t, "src")
	var b strings.Builder
	b.WriteString("CREATE TABLE parent (id int PRIMARY KEY, v varchar(80));\nCREATE TABLE loose (id int, v varchar(80));\n")
	for i := range small {
		fmt.Fprintf(&b, "CREATE TABLE t%d (id int PRIMARY KEY, v varchar(80), p int, CONSTRAINT f%[1]d FOREIGN KEY (p) REFERENCES parent (id));\nCREATE INDEX i%[1]d ON t%[1]d (v);\n", i)
	}
	for i := range 20 {
		fmt.Fprintf(&b, "INSERT INTO parent VALUES (%d, 'parent %[1]d');\n", i)
	}
	b.WriteString("INSERT INTO loose SELECT a.id * 400 + b.id * 20 + c.id, concat(a.v, b.v, c.v) FROM parent a, parent b, parent c;\n")
	for i := range small {
		fmt.Fprintf(&b, "INSERT INTO t%d SELECT id, v, id FROM parent;\n", i)
	}
	testdb.Load(t, db, strings.NewReader(b.String()))
	return db
}

func compareShop(t *testing.T, src, dst string) {
	t.Helper()
	same(t, src, dst, "SELECT id, v FROM parent ORDER BY id", "SELECT id, v FROM loose ORDER BY id, v")
	for i := range small {
		same(t, src, dst, fmt.Sprintf("SELECT id, v, p FROM t%d ORDER BY id", i))
	}
	keys := "SELECT constraint_type, count(*) FROM information_schema.table_constraints WHERE constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY') AND table_name NOT LIKE 'tidemark%%' AND table_schema = '%s' GROUP BY 1 ORDER BY 1"
	if a, b := testdb.Query(t, src, fmt.Sprintf(keys, schema(src))), testdb.Query(t, dst, fmt.Sprintf(keys, schema(dst))); a != b {
		t.Errorf("keys of the source:\n%s\nof the target:\n%s", a, b)
	}
}

// TestCutCopies ends connections of a copy at random moments, at both ends. What is tried again
// continues by itself; where the copy stops, --resume continues it.
func TestCutCopies(t *testing.T) {
	t.Parallel()
	all := pairs()
	for _, i := range testdb.Draw(t, len(all), 2) {
		from, to := all[i].from(t), all[i].to(t)
		t.Run(from.Engine+" to "+to.Engine, func(t *testing.T) {
			t.Parallel()
			from, to := shop(t, from), to.NewDatabase(t, "dst")
			src, a := testdb.Through(t, from, far)
			dst, b := testdb.Through(t, to, far)
			seed := testdb.Seed(t)
			args := []string{"copy", src, dst, "--target-schema", schema(to), "--lanes", "4", "--range-size", "64kB"}
			for try := uint64(1); ; try++ {
				o := testdb.Start(t, args...)
				stop := make(chan struct{})
				if try < 8 {
					go cut(seed+try, []*testdb.Wire{a, b}, 12, stop)
				}
				code := o.Wait()
				close(stop)
				a.Spare()
				b.Spare()
				if code == 0 {
					break
				}
				t.Logf("exit %d\n%s", code, o.Text())
				if code != 10 && code != 3 || try == 20 {
					t.Fatal("a cut is to be tried again")
				}
				if strings.Contains(o.Text(), "run 01") {
					args = append(args[:9:9], "--resume", "last")
				}
			}
			compareShop(t, from, to)
		})
	}
}

// TestCutStreams ends connections of a stream at random moments, at both ends, while programs
// write. Everything arrives, once.
func TestCutStreams(t *testing.T) {
	t.Parallel()
	all := pairs()
	for _, i := range testdb.Draw(t, len(all), 2) {
		from, to := all[i].from(t), all[i].to(t)
		t.Run(from.Engine+" to "+to.Engine, func(t *testing.T) {
			t.Parallel()
			from, to := from.NewDatabase(t, "src"), to.NewDatabase(t, "dst")
			testdb.Load(t, from, strings.NewReader(`CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL);
CREATE TABLE history (account int, n int);
INSERT INTO account VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0);`))
			if strings.HasPrefix(from, "postgres") {
				testdb.Query(t, from, "ALTER TABLE history REPLICA IDENTITY FULL")
			}
			src, a := testdb.Through(t, from, streamFar)
			dst, b := testdb.Through(t, to, streamFar)
			args := []string{"replicate", src, dst, "--name", streamName(), "--target-schema", schema(to)}
			first := testdb.Start(t, append(args, "--until", "now")...)
			if code := first.Wait(); code != 0 {
				t.Fatalf("exit %d\n%s", code, first.Text())
			}
			seed, stop, done := testdb.Seed(t), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				cut(seed, []*testdb.Wire{a, b}, 40, stop)
			}()
			j := testdb.Start(t, args...)
			trade(t, from, seed, done)
			close(stop)
			again := false
			for end := time.Now().Add(patience); testdb.Query(t, from, "SELECT sum(n), count(*) FROM history") != testdb.Query(t, to, "SELECT sum(n), count(*) FROM history"); time.Sleep(100 * time.Millisecond) {
				select {
				case <-j.Ended: // it stops where nothing can be tried again; the next start continues
					t.Logf("exit %d\n%s", j.Cmd.ProcessState.ExitCode(), j.Text())
					if again {
						t.Fatal("it ended without a cut")
					}
					j, again = testdb.Start(t, args...), true
				default:
				}
				if time.Now().After(end) {
					testdb.OnClock(t)
					t.Fatalf("not all has arrived\n%s", j.Text())
				}
			}
			j.Interrupt()
			same(t, from, to, "SELECT id, n FROM account ORDER BY id", "SELECT account, n FROM history ORDER BY 1, 2")
			last := testdb.Start(t, append(args, "--remove")...)
			if code := last.Wait(); code != 0 {
				t.Errorf("exit %d\n%s", code, last.Text())
			}
		})
	}
}

// trade writes transactions until done is closed. Each n of history is of one transaction.
func trade(t *testing.T, db string, seed uint64, done chan struct{}) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 5))
	s := testdb.NewSession(db)
	defer s.Close()
	for n := 1; ; n++ {
		select {
		case <-done:
			return
		case <-time.After(2 * time.Millisecond):
		}
		id := rnd.IntN(10)
		for _, sql := range []string{"BEGIN", fmt.Sprintf("UPDATE account SET n = n + 1 WHERE id = %d", id), fmt.Sprintf("INSERT INTO history VALUES (%d, %d)", id, n), fmt.Sprintf("DELETE FROM history WHERE n = %d", n-1000), "COMMIT"} {
			if _, err := s.Try(sql); err != nil {
				t.Error(err)
				return
			}
		}
	}
}
