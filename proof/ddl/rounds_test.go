package ddl_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A round is a stream whose source is written to and altered while the process is killed, stopped
// and cut off from its servers.
type round struct {
	*stream
	rnd    *rand.Rand
	wires  [2]*testdb.Wire // to the source, to the target
	made   int             // tables made during the round
	follow bool            // new tables are to be in the stream
	proc   *exec.Cmd
	said   *strings.Builder
}

// roundTables are there from the beginning. Programs write to them, and to those that take their
// places, as long as they find the columns that they know.
var roundTables = []string{"a", "b", "c", "d"}

var roundSetup = []string{
	"CREATE TABLE a (id int PRIMARY KEY, x int, s varchar(40), d decimal(10,2))",
	"CREATE TABLE b (id int NOT NULL, k varchar(10) NOT NULL, x int, s varchar(40), d decimal(10,2), PRIMARY KEY (id, k))",
	"CREATE TABLE c (id int PRIMARY KEY, x int, s varchar(40), d decimal(10,2), UNIQUE (x))",
	"CREATE TABLE d (id int PRIMARY KEY, x int, s varchar(40), d decimal(10,2))",
}

// TestRounds runs rounds of random load, definitions and faults over all pairs of engines. In the
// end each table equals the source's, or it is stopped, and what the status then says makes it
// equal. TIDEMARK_ROUNDS is how many rounds there are; the gate has none, since what they find
// depends on chance.
func TestRounds(t *testing.T) {
	rounds := 0
	if testdb.Long() {
		rounds = 9
	}
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_ROUNDS")); err == nil {
		rounds = n
	}
	seed := testdb.Seed(t)
	for n := range rounds {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		src, tgt := randomSources[rnd.IntN(3)], randomSources[rnd.IntN(3)]
		t.Run(fmt.Sprintf("%d/%s-%s", n, src.name, tgt.name), func(t *testing.T) {
			t.Parallel()
			newRound(t, rnd, src, tgt).run()
		})
	}
}

func newRound(t *testing.T, rnd *rand.Rand, src, tgt server) *round {
	r := &round{rnd: rnd}
	var more []string
	chance := func(options ...string) bool {
		if r.rnd.IntN(2) == 0 {
			return false
		}
		more = append(more, options...)
		return true
	}
	chance("--on-ddl", "reload")
	r.follow = chance("--new-tables", "follow")
	chance("--queue", "durable")
	chance("--agents", fmt.Sprint(1+r.rnd.IntN(4)))
	if src.isPostgres() && tgt.isPostgres() {
		chance("--follow-ddl")
	}
	for _, left := range []string{"*_old", "*_gho", "*_ghc", "*_del", "*_new", "*_x"} {
		more = append(more, "--exclude", left)
	}
	t.Log(strings.Join(more, " "))
	r.stream = &stream{t: t, src: src, tgt: tgt, from: src.open(t).NewDatabase(t, "ddl_s"), to: tgt.open(t).NewDatabase(t, "ddl_t")}
	r.do(roundSetup...)
	var ends [2]string
	for i, db := range []string{r.from, r.to} {
		ends[i], r.wires[i] = testdb.Through(t, db, 0)
	}
	r.begin(ends[0], ends[1], more)
	return r
}

// run does the round.
func (r *round) run() {
	var programs sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		rnd := rand.New(rand.NewPCG(r.rnd.Uint64(), 1))
		programs.Go(func() { program(rnd, r.from, stop) })
	}
	r.start()
	for range 8 + r.rnd.IntN(8) {
		if r.rnd.IntN(3) > 0 {
			r.alter()
		} else {
			r.disturb()
		}
		r.nap(700)
	}
	close(stop)
	programs.Wait()
	r.end(os.Interrupt)
	r.judge()
}

func (r *round) nap(most int) { time.Sleep(time.Duration(r.rnd.IntN(most)) * time.Millisecond) }

// program writes transactions of its own until stop is closed. What the tables no longer accept is
// its own problem.
func program(rnd *rand.Rand, to string, stop chan struct{}) {
	s := testdb.NewSession(to)
	defer s.Close()
	for {
		select {
		case <-stop:
			return
		default:
		}
		statements := []string{"BEGIN"}
		for range 1 + rnd.IntN(4) {
			statements = append(statements, write(rnd, roundTables[rnd.IntN(len(roundTables))]))
		}
		statements = append(statements, []string{"COMMIT", "COMMIT", "COMMIT", "ROLLBACK"}[rnd.IntN(4)])
		_, _ = s.Try(strings.Join(statements, "; ")) // a table may be missing, or be another one
		time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
	}
}

// texts are values that are easily mangled.
var texts = []string{"''", "NULL", "' '", "'a''b'", "'x''\"%s'", "'ß€😀'", "'null'", "'NULL'", "'0'", "'long long long long long long long long'"}

// write is a statement that changes rows of a table.
func write(rnd *rand.Rand, table string) string {
	id := rnd.IntN(200)
	text := texts[rnd.IntN(len(texts))]
	key, k := "id", fmt.Sprint(id)
	if table == "b" {
		key, k = "id, k", fmt.Sprintf("%d, 'k%d'", id, rnd.IntN(3))
	}
	switch rnd.IntN(7) {
	case 0, 1, 2:
		return fmt.Sprintf("INSERT INTO %s (%s, x, s, d) SELECT %s, %d, %s, %d.%02d WHERE NOT EXISTS (SELECT 1 FROM %s WHERE id = %d OR x = %d)",
			table, key, k, rnd.IntN(5000), text, rnd.IntN(1000), rnd.IntN(100), table, id, id)
	case 3:
		return fmt.Sprintf("UPDATE %s SET s = %s, d = d + 1 WHERE id BETWEEN %d AND %d", table, text, id, id+rnd.IntN(20))
	case 4:
		return fmt.Sprintf("UPDATE %s SET x = NULL WHERE id = %d", table, id)
	case 5:
		return fmt.Sprintf("UPDATE %s SET id = id + 1000 WHERE id = %d", table, id)
	default:
		return fmt.Sprintf("DELETE FROM %s WHERE id BETWEEN %d AND %d", table, id, id+rnd.IntN(5))
	}
}

// alter changes definitions of the source, in the steps of a person or of a tool.
func (r *round) alter() {
	table := roundTables[r.rnd.IntN(len(roundTables))]
	other := roundTables[r.rnd.IntN(len(roundTables))]
	ways := [][]string{
		{"ALTER TABLE T ADD COLUMN y int DEFAULT 7"}, {"ALTER TABLE T ADD COLUMN z varchar(20)"},
		{"ALTER TABLE T DROP COLUMN y"}, {"ALTER TABLE T DROP COLUMN z"},
		{"ALTER TABLE T RENAME COLUMN y TO z"}, {"ALTER TABLE T RENAME COLUMN z TO y"},
		{"ALTER TABLE T RENAME COLUMN s TO q", "ALTER TABLE T RENAME COLUMN q TO s"},
		{"TRUNCATE TABLE T"}, {"CREATE INDEX T_d ON T (d)"}, {"DELETE FROM T"},
		{"DROP TABLE T", r.setupOf(table)},
		{"ALTER TABLE T RENAME TO T_x", "ALTER TABLE T_x RENAME TO T"},
	}
	if r.src.isPostgres() {
		ways = append(ways,
			[]string{"BEGIN; CREATE TABLE T_new (LIKE T INCLUDING ALL); INSERT INTO T_new SELECT * FROM T; ALTER TABLE T RENAME TO T_old; ALTER TABLE T_new RENAME TO T; COMMIT", "DROP TABLE T_old"},
			[]string{"BEGIN; DROP TABLE T; " + r.setupOf(table) + "; COMMIT"},
			[]string{"BEGIN; ALTER TABLE T RENAME TO T_x; ALTER TABLE O RENAME TO T; ALTER TABLE T_x RENAME TO O; COMMIT"},
			[]string{"ALTER TABLE T ALTER d TYPE decimal(12,2)"}, []string{"ALTER TABLE T ALTER s TYPE varchar(60)"},
			[]string{"BEGIN; ALTER TABLE T ADD y int; UPDATE T SET y = x; COMMIT"}, []string{"VACUUM FULL T"})
	} else {
		ways = append(ways,
			[]string{"CREATE TABLE T_gho LIKE T; CREATE TABLE T_ghc (id int PRIMARY KEY); ALTER TABLE T_gho MODIFY x bigint", "INSERT INTO T_gho SELECT * FROM T", "RENAME TABLE T TO T_del, T_gho TO T", "DROP TABLE T_del; DROP TABLE T_ghc"},
			[]string{"CREATE TABLE T_new LIKE T; ALTER TABLE T_new MODIFY s varchar(60)",
				"CREATE TRIGGER T_ins AFTER INSERT ON T FOR EACH ROW REPLACE INTO T_new (KEYS, x, s, d) VALUES (NEWS, NEW.x, NEW.s, NEW.d)",
				"INSERT IGNORE INTO T_new SELECT * FROM T", "RENAME TABLE T TO T_old, T_new TO T", "DROP TABLE T_old"},
			[]string{"RENAME TABLE T TO T_x, O TO T, T_x TO O"}, []string{"ALTER TABLE T MODIFY x bigint"}, []string{"ALTER TABLE T MODIFY s varchar(60)"},
			[]string{"ALTER TABLE T MODIFY d decimal(12,2) FIRST"}, []string{"ALTER TABLE T ENGINE = InnoDB"}, []string{"OPTIMIZE TABLE T"})
	}
	if r.rnd.IntN(8) == 0 && r.made < 3 {
		r.made++
		fresh := fmt.Sprintf("n%d", r.made)
		ways = [][]string{{strings.Replace(r.setupOf("a"), " a ", " "+fresh+" ", 1), "INSERT INTO " + fresh + " (id, x, s) VALUES (1, 1, 'a'), (2, NULL, NULL)"}}
	}
	keys, news := "id", "NEW.id"
	if table == "b" {
		keys, news = "id, k", "NEW.id, NEW.k"
	}
	if table == other {
		other = roundTables[(slices.Index(roundTables, table)+1)%len(roundTables)]
	}
	into := strings.NewReplacer("KEYS", keys, "NEWS", news)
	for _, sql := range ways[r.rnd.IntN(len(ways))] {
		var words []string
		for word := range strings.FieldsSeq(into.Replace(sql)) {
			bare := strings.TrimRight(word, ";,")
			switch {
			case bare == "T" || strings.HasPrefix(bare, "T_"):
				word = table + word[1:]
			case bare == "O":
				word = other + word[1:]
			}
			words = append(words, word)
		}
		sql := strings.Join(words, " ")
		_, err := testdb.TryQuery(r.from, sql)
		r.t.Logf("%s: %v", sql, err)
		r.nap(150)
	}
}

// setupOf is the statement that creates one of the tables.
func (r *round) setupOf(table string) string { return roundSetup[slices.Index(roundTables, table)] }

// disturb does something to the process, or to its connections.
func (r *round) disturb() {
	switch n := r.rnd.IntN(6); n {
	case 0, 1:
		r.t.Log("killed")
		r.end(syscall.SIGKILL)
		r.nap(400)
		r.start()
	case 2:
		r.t.Log("stopped")
		r.end(os.Interrupt)
		r.nap(1000)
		r.start()
	case 3:
		r.t.Log("held")
		_ = r.proc.Process.Signal(syscall.SIGSTOP) // if it has ended, end says so
		r.nap(1000)
		_ = r.proc.Process.Signal(syscall.SIGCONT)
	default:
		w := r.wires[n-4]
		r.t.Logf("cut from the %s", []string{"source", "target"}[n-4])
		w.CutNext()
		r.nap(300)
		w.Spare()
		if r.rnd.IntN(2) == 0 {
			w.Deliver()
		} else {
			w.Lose()
		}
	}
}

func (r *round) start() {
	r.t.Helper()
	r.proc, r.said = testdb.Command(r.t, r.args[:len(r.args)-2]...), &strings.Builder{}
	r.proc.Stderr = r.said
	if err := r.proc.Start(); err != nil {
		r.t.Fatal(err)
	}
}

// end ends the process by a signal. It must not have ended before.
func (r *round) end(by os.Signal) {
	r.t.Helper()
	_ = r.proc.Process.Signal(by) // Wait tells
	err := r.proc.Wait()
	code := r.proc.ProcessState.ExitCode()
	if code == 10 && strings.Contains(r.said.String(), "the server closed the connection") || code == -1 && r.said.Len() == 0 {
		return // cut off before its first connection, or interrupted before it could listen
	}
	if by == os.Interrupt && code != 130 || by == syscall.SIGKILL && code != -1 {
		r.t.Errorf("the stream ended with %v:\n%s", err, r.said)
	}
}

// judge lets the stream catch up, compares all tables, does what the status says about those that
// are stopped, and compares them again.
func (r *round) judge() {
	r.t.Helper()
	r.catchUp()
	for table := range r.states() {
		if len(columns(r.t, r.src, r.from, table)) > 0 {
			r.t.Logf("%s: %+v", table, r.whole(table))
		}
	}
	for i := range 3 { // a remedy may show the next reason
		for table, st := range r.states() {
			if i == 2 && st.State == "stopped" && len(columns(r.t, r.src, r.from, table)) > 0 { // what a person does who does not want to alter it
				r.t.Logf("made anew: %+v", st)
				testdb.Query(r.t, r.to, "DROP TABLE IF EXISTS "+table)
				testdb.Must(r.t, "sub", "reload", table, "--name", r.name)
			}
		}
		for _, m := range remedy.FindAllStringSubmatch(testdb.Must(r.t, "status", "--name", r.name), -1) {
			testdb.Must(r.t, strings.Fields(m[1])...)
		}
		r.catchUp()
	}
	for table, st := range r.states() {
		if len(columns(r.t, r.src, r.from, table)) == 0 {
			continue // it is gone from the source
		}
		if r.whole(table); st.State != "active" {
			r.t.Errorf("no remedy helped: %s is %+v", table, st)
		}
	}
	for _, table := range slices.Concat(roundTables, []string{"n1", "n2", "n3"}) {
		if _, ok := r.states()[table]; !ok && (r.follow || slices.Contains(roundTables, table)) && len(columns(r.t, r.src, r.from, table)) > 0 {
			r.t.Errorf("%s is on the source, and not in the stream", table)
		}
	}
}

// catchUp is flow, and shows what the process does if it does not end.
func (r *round) catchUp() {
	r.t.Helper()
	p, said := testdb.Command(r.t, r.args...), &strings.Builder{}
	p.Stdout, p.Stderr = said, said
	if err := p.Start(); err != nil {
		r.t.Fatal(err)
	}
	late := time.AfterFunc(2*time.Minute, func() { _ = p.Process.Signal(syscall.SIGQUIT) })
	defer late.Stop()
	if err := p.Wait(); err != nil {
		r.t.Fatalf("the stream ended with %v:\n%s\n%s", err, said, testdb.Run(r.t, "status", "--name", r.name).Out)
	}
}
