package catalog

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
)

func open(t *testing.T, path string) *Catalog {
	t.Helper()
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func fresh(t *testing.T) *Catalog {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "a folder", "cat?log #1.db"))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError requires an Error of a kind with a hint, on one line.
func wantError(t *testing.T, err error, kind tidemark.Kind, text string) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatalf("no error; want %v with %q", kind, text)
	case tidemark.KindOf(err) != kind:
		t.Errorf("%v is %v, want %v", err, tidemark.KindOf(err), kind)
	case !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n"):
		t.Errorf("got %q, want one line with %q", err, text)
	case tidemark.HintOf(err) == "":
		t.Errorf("%v: no hint", err)
	}
}

func someRun() Run {
	at := time.Date(2026, 11, 21, 3, 4, 5, 678901000, time.UTC)
	return Run{ID: NewRunID(), Verb: "copy", Source: "postgres://u@a/x", Target: "mysql://u@b/y", Started: at, Ended: at.Add(time.Hour),
		State: Incomplete, Error: "3 indexes failed", Hint: "look at them", Position: tidemark.Position{Engine: "postgres", Text: "0/1949A28", Stamp: "7"},
		Options: json.RawMessage(`{"lanes":4}`), Plan: json.RawMessage(`[1,2]`), Report: json.RawMessage(`{}`), PID: 42, Host: "h"}
}

func TestRunRoundTrip(t *testing.T) {
	ctx := t.Context()
	c := fresh(t)
	r := someRun()
	must(t, c.Begin(ctx, r))
	got, err := c.Run(ctx, r.ID)
	must(t, err)
	if d := cmp.Diff(r, got); d != "" {
		t.Error(d)
	}
	r.State, r.Ended, r.Report, r.Error = Running, time.Time{}, nil, ""
	r.Source = "postgres://u:secret@a/x?sslpassword=hidden"
	must(t, c.Update(ctx, r))
	got, err = c.Run(ctx, "last")
	must(t, err)
	r.Source = tidemark.MaskURL(r.Source)
	if d := cmp.Diff(r, got); d != "" {
		t.Error(d)
	}
	if strings.Contains(got.Source, "secret") || strings.Contains(got.Source, "hidden") {
		t.Errorf("a password is in the catalog: %s", got.Source)
	}
	r.ID = NewRunID()
	wantError(t, c.Update(ctx, r), tidemark.NotFound, r.ID)
	if err := c.Begin(ctx, got); err == nil {
		t.Error("a run began twice")
	}
}

func TestRunByPrefix(t *testing.T) {
	ctx := t.Context()
	c := fresh(t)
	_, err := c.Run(ctx, "last")
	wantError(t, err, tidemark.NotFound, "no runs")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, id := range []string{"01AAAB", "01AAAC", "01AB", "01ABC"} {
		must(t, c.Begin(ctx, Run{ID: id, State: Done, Started: at.Add(time.Duration(i) * time.Microsecond)}))
	}
	for in, want := range map[string]string{"01aaab": "01AAAB", "01AAAC": "01AAAC", "01AB": "01AB", "01abc": "01ABC", "last": "01ABC"} {
		r, err := c.Run(ctx, in)
		must(t, err)
		if r.ID != want {
			t.Errorf("%s gives %s, want %s", in, r.ID, want)
		}
	}
	for in, kind := range map[string]tidemark.Kind{"01AAA": tidemark.Invalid, "0": tidemark.Invalid, "": tidemark.NotFound, "9": tidemark.NotFound, "01AAAB1": tidemark.NotFound, "%": tidemark.NotFound} {
		_, err := c.Run(ctx, in)
		wantError(t, err, kind, strings.TrimSpace("find run "+in))
	}
	runs, err := c.Runs(ctx, 2)
	must(t, err)
	if len(runs) != 2 || runs[0].ID != "01ABC" || runs[1].ID != "01AB" {
		t.Errorf("newest two: %+v", runs)
	}
	if runs, _ := c.Runs(ctx, 0); len(runs) != 4 {
		t.Errorf("%d runs", len(runs))
	}
}

func TestRunIDsSortByTimeAndDoNotRepeat(t *testing.T) {
	at := time.UnixMilli(1469922850259) // the example of the ULID specification
	if id := runID(at); !strings.HasPrefix(id, "01ARZ3NDEK") || len(id) != 26 {
		t.Errorf("got %s", id)
	}
	if a, b := runID(at), runID(at.Add(time.Millisecond)); a >= b {
		t.Errorf("%s is not before %s", a, b)
	}
	seen := map[string]bool{}
	for range 1000 {
		seen[runID(at)] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d different names of 1000", len(seen))
	}
	last := map[byte]bool{}
	for id := range seen {
		last[id[25]] = true
	}
	if len(last) < 32 { // the last character carries five random bits
		t.Errorf("the last character has %d values", len(last))
	}
}

func TestTables(t *testing.T) {
	ctx := t.Context()
	c := fresh(t)
	r := someRun()
	must(t, c.Begin(ctx, r))
	at := r.Started
	want := []TableStat{
		{Run: r.ID, Schema: "z", Name: "first", TargetSchema: "y", TargetName: "first", State: FullLoad, FullLoadRows: 1 << 40, Ranges: 9, Start: at},
		{Run: r.ID, Schema: "a", Name: "second", State: BeforeLoad},
	}
	must(t, c.PutTables(ctx, r.ID, want))
	want[0].State, want[0].RangesDone, want[0].End, want[0].Method, want[0].Error = TableCompleted, 9, at.Add(time.Second), "COPY", "é'\n"
	must(t, c.PutTables(ctx, r.ID, want[:1]))
	got, err := c.Tables(ctx, r.ID)
	must(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := c.PutTables(ctx, "no such run", want); err == nil {
		t.Error("tables of a run that does not exist")
	}
}

// parts are those of a plan, whose writing ends with err.
func parts(err error, all ...string) Parts {
	return func(put func([]byte) error) error {
		for _, p := range all {
			if err := put([]byte(p)); err != nil {
				return err
			}
		}
		return err
	}
}

// TestPlanParts: a plan is written with its run or not at all, and replaced as a whole.
func TestPlanParts(t *testing.T) {
	ctx := t.Context()
	c := fresh(t)
	r := someRun()
	check := func(want ...string) {
		t.Helper()
		var got []string
		must(t, c.PlanParts(ctx, r.ID, func(p []byte) error { got = append(got, string(p)); return nil }))
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	r.Parts = parts(errors.New("no more"), "{}")
	if err := c.Begin(ctx, r); err == nil {
		t.Error("a run begins whose plan could not be written")
	}
	if _, err := c.Run(ctx, r.ID); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("a run without its plan: %v", err)
	}
	long := `["` + strings.Repeat("table public.orders, ", 100_000) + `"]`
	r.Parts = parts(nil, long, `{"é": 1}`)
	must(t, c.Begin(ctx, r))
	check(long, `{"é": 1}`)
	r.Parts = nil
	must(t, c.Update(ctx, r)) // leaves them
	check(long, `{"é": 1}`)
	r.Parts = parts(errors.New("no more"), "{}")
	if err := c.Update(ctx, r); err == nil {
		t.Error("half a plan is written")
	}
	check(long, `{"é": 1}`)
	r.Parts = parts(nil, "[]")
	must(t, c.Update(ctx, r))
	check("[]")
}

func TestBuilt(t *testing.T) {
	ctx := t.Context()
	c := fresh(t)
	r := someRun()
	must(t, c.Begin(ctx, r))
	must(t, c.PutBuilt(ctx, r.ID, []string{"index z", `key "a, b"`}))
	must(t, c.PutBuilt(ctx, r.ID, nil))
	must(t, c.PutBuilt(ctx, r.ID, []string{"index é'"}))
	got, err := c.Built(ctx, r.ID)
	must(t, err)
	if want := map[string]bool{"index z": true, `key "a, b"`: true, "index é'": true}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if err := c.PutBuilt(ctx, "no such run", []string{"x"}); err == nil {
		t.Error("objects of a run that does not exist")
	}
}

// TestCatalogBeforePlanParts opens a catalogue as a tidemark wrote it that had a row for each range
// and object: what is built is still known.
func TestCatalogBeforePlanParts(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "c.db")
	old := fstest.MapFS{}
	names, err := fs.Glob(migrations, "migrations/*.sql")
	must(t, err)
	for _, name := range names[:10] {
		text, err := fs.ReadFile(migrations, name)
		must(t, err)
		old[name] = &fstest.MapFile{Data: text}
	}
	must(t, os.WriteFile(path, nil, 0o600))
	db, err := sql.Open("sqlite", "file:"+path)
	must(t, err)
	must(t, (&Catalog{db: db, path: path}).migrate(ctx, old))
	for _, q := range []string{`INSERT INTO run VALUES ('R', 'copy', 'a', 'b', '', '', 'failed', '', '', '{}', NULL, '{"moves": []}', NULL, 1, 'h')`,
		`INSERT INTO range VALUES ('R', 1, '{}', 5)`, `INSERT INTO object VALUES ('R', 1, 'index "a"', 'done', '', 1, '[]'), ('R', 2, 'index b', 'failed', 'no', 1, '[]'), ('R', 3, 'key c', 'done', '', 1, '[]')`} {
		_, err := db.Exec(q)
		must(t, err)
	}
	must(t, db.Close())
	c := open(t, path)
	got, err := c.Built(ctx, "R")
	must(t, err)
	if want := map[string]bool{`index "a"`: true, "key c": true}; !reflect.DeepEqual(got, want) {
		t.Errorf("built are %v", got)
	}
	r, err := c.Run(ctx, "R")
	must(t, err)
	if string(r.Plan) != `{"moves": []}` {
		t.Errorf("the plan is %s", r.Plan)
	}
	must(t, c.PlanParts(ctx, "R", func(p []byte) error { return fmt.Errorf("a part %s", p) }))
}

func TestFolderAndFileArePrivate(t *testing.T) {
	c := fresh(t)
	for path, want := range map[string]os.FileMode{filepath.Dir(c.Path()): 0o700, c.Path(): 0o600} {
		st, err := os.Stat(path)
		must(t, err)
		if st.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, st.Mode().Perm(), want)
		}
	}
}

func TestMigration(t *testing.T) {
	ctx := context.Background()
	one := fstest.MapFS{"migrations/0001_a.sql": {Data: []byte("CREATE TABLE a (x); INSERT INTO a VALUES (1);")}}
	two := fstest.MapFS{"migrations/0001_a.sql": {Data: []byte("this was run long ago")},
		"migrations/0002_b.sql": {Data: []byte("ALTER TABLE a ADD COLUMN y DEFAULT 2; CREATE TABLE b (z);")}}
	broken := fstest.MapFS{"migrations/0001_a.sql": {Data: []byte("CREATE TABLE c (x); CREATE TABLE c (x);")}}
	path := filepath.Join(t.TempDir(), "c.db")
	db := rawOpen(t, path)
	if err := db.migrate(ctx, broken); err == nil || !strings.Contains(err.Error(), "0001_a.sql") {
		t.Errorf("a broken migration: %v", err)
	}
	must(t, db.migrate(ctx, one)) // nothing of the broken one remained
	must(t, db.migrate(ctx, one))
	must(t, db.migrate(ctx, two))
	var x, y, version, tables int
	must(t, db.db.QueryRow("SELECT x, y FROM a").Scan(&x, &y))
	must(t, db.db.QueryRow("PRAGMA user_version").Scan(&version))
	must(t, db.db.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name IN ('a', 'b', 'c')").Scan(&tables))
	if x != 1 || y != 2 || version != 2 || tables != 2 {
		t.Errorf("x=%d y=%d version=%d tables=%d", x, y, version, tables)
	}
	wantError(t, db.migrate(ctx, one), tidemark.Unsupported, "newer tidemark")
}

// rawOpen opens a catalog without our tables.
func rawOpen(t *testing.T, path string) *Catalog {
	t.Helper()
	c := open(t, path)
	for _, q := range []string{"PRAGMA foreign_keys = off", "DROP TABLE built", "DROP TABLE plan_part", "DROP TABLE table_stat", "DROP TABLE run", "PRAGMA user_version = 0"} {
		_, err := c.db.Exec(q)
		must(t, err)
	}
	return c
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	noise := filepath.Join(dir, "noise.db")
	must(t, os.WriteFile(noise, bytes.Repeat([]byte("not a database, surely. "), 100), 0o600))
	_, err := Open(noise)
	wantError(t, err, tidemark.BadInput, noise)

	torn := filepath.Join(dir, "torn.db")
	c := open(t, torn)
	must(t, c.Begin(t.Context(), someRun()))
	must(t, c.Close())
	text, err := os.ReadFile(torn)
	must(t, err)
	for i := 4096; i < len(text); i++ {
		text[i] = 0xa5
	}
	must(t, os.WriteFile(torn, text, 0o600))
	c, err = Open(torn)
	if err == nil {
		_, err = c.Runs(t.Context(), 0)
		c.Close()
	}
	wantError(t, err, tidemark.BadInput, torn)

	_, err = Open(filepath.Join(noise, "sub", "c.db")) // a file is in place of a folder
	wantError(t, err, tidemark.Invalid, "not a directory")
	_, err = Open(dir)
	wantError(t, err, tidemark.Invalid, "is a directory")
	if _, err = Open(""); tidemark.KindOf(err) != tidemark.Invalid {
		t.Errorf("no name: %v", err)
	}
}

func TestReadOnlyCatalog(t *testing.T) {
	c := fresh(t)
	_, err := c.db.Exec("PRAGMA query_only = on")
	must(t, err)
	wantError(t, c.Begin(t.Context(), someRun()), tidemark.Forbidden, "readonly")
}

func TestCancelled(t *testing.T) {
	c := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Begin(ctx, someRun()); tidemark.KindOf(err) != tidemark.Cancelled {
		t.Errorf("got %v", err)
	}
	if _, err := c.Runs(t.Context(), 0); err != nil {
		t.Errorf("the catalog is of no use after a cancelled call: %v", err)
	}
}

// Several processes open one new catalog concurrently, and each writes runs.
func TestManyProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	const processes, each = 4, 10
	var wg sync.WaitGroup
	for range processes {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
		cmd.Env = append(os.Environ(), "CATALOG_CHILD=write", "CATALOG_PATH="+path, fmt.Sprint("CATALOG_EACH=", each))
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	c := open(t, path)
	runs, err := c.Runs(t.Context(), 0)
	must(t, err)
	if len(runs) != processes*each {
		t.Errorf("%d runs, want %d", len(runs), processes*each)
	}
	for _, r := range runs {
		if tables, err := c.Tables(t.Context(), r.ID); err != nil || len(tables) != 20 {
			t.Errorf("run %s has %d tables: %v", r.ID, len(tables), err)
		}
	}
}

func TestManyHandles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	var wg sync.WaitGroup
	for range 3 {
		c := open(t, path)
		for range 2 {
			wg.Go(func() {
				for range 10 {
					r := someRun()
					if err := errors.Join(c.Begin(t.Context(), r), c.PutTables(t.Context(), r.ID, manyTables()), c.Update(t.Context(), r)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if runs, err := open(t, path).Runs(t.Context(), 0); err != nil || len(runs) != 60 {
		t.Errorf("%d runs: %v", len(runs), err)
	}
}

func manyTables() []TableStat {
	out := make([]TableStat, 20)
	for i := range out {
		out[i] = TableStat{Schema: "s", Name: fmt.Sprint("t", i), State: BeforeLoad}
	}
	return out
}

// TestChild is the other process of the tests above and below; on its own it does nothing.
func TestChild(t *testing.T) {
	switch os.Getenv("CATALOG_CHILD") {
	case "write":
		c := open(t, os.Getenv("CATALOG_PATH"))
		var n int
		fmt.Sscan(os.Getenv("CATALOG_EACH"), &n)
		for range n {
			r := someRun()
			must(t, c.Begin(t.Context(), r))
			must(t, c.PutTables(t.Context(), r.ID, manyTables()))
		}
	case "lock":
		c := open(t, os.Getenv("CATALOG_PATH"))
		_, err := c.Lock("R")
		must(t, err)
		fmt.Println("locked")
		time.Sleep(10 * time.Minute) // killed long before
	}
}

func TestLock(t *testing.T) {
	a := fresh(t)
	b := open(t, a.Path())
	if a.Alive("R") {
		t.Error("alive before anybody has locked it")
	}
	lock, err := a.Lock("R")
	must(t, err)
	_, err = b.Lock("R")
	wantError(t, err, tidemark.Invalid, fmt.Sprintf("process %d on ", os.Getpid()))
	if !b.Alive("R") || b.Alive("S") {
		t.Error("who is alive?")
	}
	other, err := b.Lock("S")
	must(t, err)
	defer other.Unlock()
	lock.Unlock()
	lock.Unlock()
	if b.Alive("R") {
		t.Error("alive after it was unlocked")
	}
	again, err := b.Lock("R")
	must(t, err)
	again.Unlock()
	_, err = a.Lock("../R")
	if tidemark.KindOf(err) != tidemark.Invalid {
		t.Errorf("got %v", err)
	}
}

// A lock is free as soon as the process that holds it is killed.
func TestLockOfAKilledProcess(t *testing.T) {
	c := fresh(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), "CATALOG_CHILD=lock", "CATALOG_PATH="+c.Path())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "locked" {
		t.Fatalf("%q %v", line, err)
	}
	_, err = c.Lock("R")
	wantError(t, err, tidemark.Invalid, fmt.Sprintf("process %d on ", cmd.Process.Pid))
	must(t, cmd.Process.Kill())
	cmd.Wait()
	if c.Alive("R") {
		t.Error("alive after it was killed")
	}
	lock, err := c.Lock("R")
	must(t, err)
	lock.Unlock()
}

// Many compete for one lock: two never hold it at once.
func TestLockIsExclusive(t *testing.T) {
	c := fresh(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	inside, turns := 0, 0
	for range 8 {
		wg.Go(func() {
			for range 20 {
				lock, err := c.Lock("R")
				if err != nil {
					continue
				}
				mu.Lock()
				inside++
				turns++
				if inside != 1 {
					t.Errorf("%d have the lock", inside)
				}
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				inside--
				mu.Unlock()
				lock.Unlock()
			}
		})
	}
	wg.Wait()
	if turns == 0 {
		t.Error("nobody got it")
	}
}

func TestStreams(t *testing.T) {
	c, ctx := fresh(t), t.Context()
	started := time.Date(2026, 11, 21, 1, 2, 3, 456000, time.UTC)
	s := Stream{Name: "shop", Source: "postgres://me:secret@a/x", Target: "mysql://b/y", State: StreamCopying, Place: 1<<63 + 7, Queue: "direct", Copy: "C", Started: started, Identity: 1<<32 - 1}
	must(t, c.PutStream(ctx, s))
	s.State, s.Run = StreamFollowing, "R"
	must(t, c.PutStream(ctx, s))
	got, err := c.Stream(ctx, "shop")
	must(t, err)
	s.Source = "postgres://me@a/x"
	if got != s {
		t.Errorf("got %+v, want %+v", got, s)
	}
	if err := c.BeginStream(ctx, Stream{Name: "new", State: StreamCopying, Started: started}, "none", "shop"); tidemark.KindOf(err) != tidemark.Exists || !strings.Contains(err.Error(), "from postgres://me@a/x to mysql://b/y") {
		t.Errorf("beside another one: %v", err)
	}
	if _, err := c.Stream(ctx, "new"); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("a stream that was refused: %v", err)
	}
	if _, err := c.Stream(ctx, "other"); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("a stream that is not there: %v", err)
	}
	for i := range 3 {
		must(t, c.PutSample(ctx, "shop", started.Add(time.Duration(i)*time.Second), map[string]int{"n": i}))
	}
	must(t, c.PutSample(ctx, "shop", started.Add(keepSamples+time.Second), map[string]int{"n": 3}))
	samples, err := c.Samples(ctx, "shop", 10)
	must(t, err)
	if text := fmt.Sprintf("%s", samples); text != `[{"n":3} {"n":2} {"n":1}]` {
		t.Errorf("samples %s", text)
	}
	must(t, c.DropStream(ctx, "shop"))
	if left, err := c.Samples(ctx, "shop", 10); err != nil || len(left) != 0 {
		t.Errorf("%d samples are left, %v", len(left), err)
	}
}
