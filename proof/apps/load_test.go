package apps

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestApplicationsAreFollowedUnderLoad follows each application between two engines drawn at
// random while sessions write transactions of many tables, from before the copy on, with options
// and kills drawn at random; or has two processes and a relay between them do so; or has both sides
// follow each other, each written in tables of its own. In the end both are compared, and the
// target is changed and repaired. TIDEMARK_ROUNDS is how many rounds of an application there are.
// It runs in make prove only.
func TestApplicationsAreFollowedUnderLoad(t *testing.T) {
	if !testdb.Long() {
		return
	}
	if _, err := installed(); err != nil {
		t.Fatal(err)
	}
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_ROUNDS")); err == nil {
		rounds = n
	}
	servers := []*testdb.Server{testdb.Postgres(t, 15), testdb.MySQL(t), testdb.MariaDB(t)}
	r := rand.New(rand.NewPCG(7, testdb.Seed(t)))
	for i := range apps {
		a := &apps[i]
		for n := range rounds {
			l := underLoad{app: a, r: rand.New(rand.NewPCG(r.Uint64(), 1))}
			from, to := servers[r.IntN(3)], servers[r.IntN(3)]
			if a.memory || !a.there() || slices.Contains(a.keep, "*") {
				continue
			}
			if a.alone != nil {
				from, to = servers[1+r.IntN(2)], servers[1+r.IntN(2)]
			}
			t.Run(fmt.Sprintf("%s, %s to %s, %d", a.name, from.Engine, to.Engine, n+1), func(t *testing.T) { l.test(t, from, to) })
		}
	}
}

// An underLoad is a round of that test.
type underLoad struct {
	*app
	r        *rand.Rand
	src, dst string
	streams  [][]string // their commands
	relay    []string   // the command of the relay between two halves; nil: none
	queue    string     // there
	running  []*testdb.Process
}

func (l *underLoad) test(t *testing.T, from, to *testdb.Server) {
	l.src, l.dst = from.NewDatabase(t, "src"), to.NewDatabase(t, "dst")
	options, both, kills, cutover := l.options(), l.r.IntN(3) == 0, l.r.IntN(4), l.r.IntN(3) == 0
	halves := !both && l.r.IntN(2) == 0
	t.Logf("%q, both ways %v, in halves %v, %d kills, cutover %v", options, both, halves, kills, cutover)
	l.create(t, l.src)
	whole := slices.Contains(options, "--conflict-rule")
	identify(t, l.src, whole)
	fill(t, l.src, 1, l.keep)
	name, catalogs := testdb.StreamName("load"), t.TempDir()
	stream := func(from, to, name string, more ...string) []string {
		return slices.Concat([]string{"replicate", from, to, "--name", name, "--state", catalogs + "/" + name}, more, options)
	}
	columns, keys := shape(t, l.src)
	here := &writers{url: l.src, columns: columns, keys: keys}
	for table := range columns {
		if !kept(l.keep, table) {
			here.tables = append(here.tables, table)
		}
	}
	slices.Sort(here.tables)
	l.streams = [][]string{stream(l.src, l.dst, name)}
	stop := func() int64 { return 0 }
	if halves {
		l.divided(t, l.streams[0])
	}
	if both {
		dropTriggers(t, l.src) // they would fire for what comes back
		l.streams = [][]string{stream(l.src, l.dst, name, "--bidirectional"), stream(l.dst, l.src, name+"_back", "--bidirectional", "--no-copy")}
		testdb.Must(t, append(l.streams[0], "--until", "now")...)
		dropLostKeys(t, l.src, l.dst)
		identify(t, l.dst, whole)
		testdb.Must(t, append(l.streams[1], "--until", "now")...)
		stop = here.divide(l.r, l.dst).start(t, l.r.Uint64())
	}
	stopHere := here.start(t, l.r.Uint64())
	l.run(t, kills)
	if o := testdb.Run(t, append([]string{"diff", l.src, l.dst, "--live", "--live-timeout", "20s"}, l.streams[0][3:7]...)...); o.Code != 0 && o.Code != 19 && !both {
		t.Errorf("diff --live: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	t.Logf("%d transactions, %d on the other side", stopHere(), stop())
	l.end(t, cutover && !both)
	l.same(t)
	if t.Failed() {
		return
	}
	change(t, l.dst, l.keep, l.r.Uint64())
	o := testdb.Run(t, "repair", l.src, l.dst, "--execute")
	if unkeyed := strings.Contains(o.Out, "has no key to re-check"); o.Code != 0 && !unkeyed {
		t.Errorf("repair: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	} else if !unkeyed {
		l.same(t)
	}
}

// divided replaces a stream by its halves, and a relay between them.
func (l *underLoad) divided(t *testing.T, whole []string) {
	addr, secret := testdb.FreeAddress(t), testdb.Written(t, "relay.secret", "5d1f0a7bfe9b4c6d")
	l.relay = []string{"relay", "--listen", addr, "--dir", t.TempDir(), "--secret-file", secret}
	capture, apply := append([]string{"capture"}, whole[1:7]...), append([]string{"apply"}, whole[1:7]...)
	l.queue = "relay:" + addr + "?secret-file=" + secret
	capture, apply = append(capture, "--queue", l.queue), append(apply, "--queue", l.queue)
	for options := whole[7:]; len(options) > 0; {
		n := 2
		if options[0] == "--changed-columns" {
			n = 1
		}
		switch options[0] {
		case "--queue":
		case "--changed-columns", "--capture-memory", "--trans-batch":
			capture = append(capture, options[:n]...)
		case "--conflict-rule":
			capture, apply = append(capture, options[:n]...), append(apply, options[:n]...)
		default:
			apply = append(apply, options[:n]...)
		}
		options = options[n:]
	}
	l.streams = [][]string{capture, apply}
}

func dropTriggers(t *testing.T, url string) {
	if family(url) == "postgres" {
		testdb.Query(t, url, `DO $$ DECLARE g record; BEGIN
			FOR g IN SELECT tgname, tgrelid::regclass AS t FROM pg_trigger WHERE NOT tgisinternal
			LOOP EXECUTE format('DROP TRIGGER %I ON %s', g.tgname, g.t); END LOOP; END $$`)
		return
	}
	for _, f := range lines(testdb.Query(t, url, "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()")) {
		testdb.Query(t, url, "DROP TRIGGER "+quote(url, f[0]))
	}
}

// dropLostKeys drops the foreign keys that the other side cannot have, where somebody is going to
// write what violates them.
func dropLostKeys(t *testing.T, url, other string) {
	if family(url) != "postgres" {
		return
	}
	_, kept := shape(t, other)
	for dropped := true; dropped; { // Kea has some twice, under two names
		dropped = false
		_, keys := shape(t, url)
		for table, list := range keys {
			for key, name := range list {
				if _, _, ok := foreign(key); ok && kept[table][key] == "" {
					testdb.Query(t, url, "ALTER TABLE "+quote(url, table)+" DROP CONSTRAINT "+quote(url, name))
					dropped = true
				}
			}
		}
	}
}

// options returns some options of a stream.
func (l *underLoad) options() (out []string) {
	some := func(n int, options ...string) {
		if l.r.IntN(n) == 0 {
			out = append(out, options...)
		}
	}
	some(2, "--queue", "durable")
	some(3, "--apply-mode", []string{"transactional", "batch"}[l.r.IntN(2)])
	if !slices.Contains(out, "batch") {
		some(4, "--commit-order", "source")
		some(6, "--conflict-rule", []string{"changed", "all"}[l.r.IntN(2)])
		some(6, "--changed-columns")
	}
	some(3, "--agents", "1")
	some(6, "--commit-count", "10")
	some(6, "--capture-memory", "64kB")
	some(6, "--apply-memory", "100kB")
	some(4, "--trans-batch", "3")
	return out
}

// run starts the streams, kills one of them so many times, and returns when all follow.
func (l *underLoad) run(t *testing.T, kills int) {
	commands := l.streams
	if l.relay != nil {
		commands = append([][]string{l.relay}, commands...)
	}
	for i, args := range commands {
		l.running = append(l.running, testdb.Start(t, args...))
		if i == 0 && l.relay != nil { // the halves do not begin without it
			l.running[0].Says("listening on")
		}
	}
	for range kills {
		time.Sleep(time.Duration(300+l.r.IntN(2500)) * time.Millisecond)
		i := l.r.IntN(len(l.running))
		l.running[i].Kill()
		l.running[i] = testdb.Start(t, commands[i]...)
	}
	l.running = l.running[len(commands)-len(l.streams):]
	for _, p := range l.running {
		p.Says("following")
	}
}

// end stops the streams, lets them apply what is left, and removes them.
func (l *underLoad) end(t *testing.T, cutover bool) {
	for _, p := range l.running {
		if code := p.Interrupt(); code != 0 && code != 130 {
			t.Errorf("the stream: exit %d\n%s", code, p.Text())
		}
	}
	if cutover {
		args := append([]string{"cutover", l.src, l.dst, "--definitions=accept"}, l.streams[0][3:7]...)
		if l.relay != nil {
			args = append(args, "--queue", l.queue)
		}
		if o := testdb.Run(t, args...); o.Code != 0 {
			t.Errorf("cutover: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
		}
	} else {
		for range len(l.streams) {
			for _, args := range l.streams {
				if out := testdb.Must(t, append(args, "--until", "now")...); strings.Contains(out, "stopped") {
					t.Error(out)
				}
			}
		}
	}
	for _, args := range l.streams {
		testdb.Must(t, append(args, "--remove")...)
	}
}

// same compares both sides, by diff and by what the servers print.
func (l *underLoad) same(t *testing.T) {
	if o := testdb.Run(t, "diff", l.src, l.dst); o.Code != 0 {
		t.Errorf("diff: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	sameValues(t, l.src, l.dst)
}

// divide leaves some tables to writers of another database with the same tables. Those that foreign
// keys connect stay together.
func (w *writers) divide(r *rand.Rand, url string) *writers {
	of := map[string]string{}
	root := func(table string) string {
		for of[table] != "" {
			table = of[table]
		}
		return table
	}
	for table, list := range w.keys {
		for key := range list {
			if _, there, ok := foreign(key); ok {
				parent, _, _ := strings.Cut(there, "(")
				if x, y := root(table), root(parent); x != y {
					of[x] = y
				}
			}
		}
	}
	other := &writers{url: url, columns: map[string][]column{}, keys: w.keys}
	for table, list := range w.columns {
		for _, c := range list { // with the source's limits
			c.postgres = family(url) == "postgres"
			other.columns[table] = append(other.columns[table], c)
		}
	}
	theirs := map[string]bool{}
	for _, table := range slices.Sorted(maps.Keys(w.columns)) {
		if g := root(table); g == table {
			theirs[g] = r.IntN(2) == 0
		}
	}
	var ours []string
	for _, table := range w.tables {
		if theirs[root(table)] {
			other.tables = append(other.tables, table)
		} else {
			ours = append(ours, table)
		}
	}
	w.tables = ours
	return other
}
