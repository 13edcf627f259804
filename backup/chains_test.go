package backup_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

// A churn is concurrent sessions that do everything that moves pages: they change, add and remove
// rows, and truncate, rewrite, move, drop and create tables, indexes and databases.
type churn struct {
	url   func(db string) string
	major int
	pause sync.RWMutex // read-locked by active sessions
	// apart separates backups from operations that no backup of PostgreSQL's files made at the same
	// moment survives. A move of a database is replayed by copying the files again from their old
	// location; a backup that began earlier and reached that location later does not have them.
	apart sync.RWMutex
	stop  context.CancelFunc
	wg    sync.WaitGroup
	did   atomic.Int64
	kinds [churnKinds]atomic.Int64
}

const churnTables = 5

func churnTable(name string) string {
	return fmt.Sprintf(`CREATE TABLE %[1]s (id bigserial PRIMARY KEY, n int NOT NULL, pad text NOT NULL, arr int[] NOT NULL) WITH (fillfactor = 80);
		CREATE INDEX ON %[1]s (n); CREATE INDEX ON %[1]s USING gin (arr); CREATE INDEX ON %[1]s USING hash (pad); CREATE INDEX ON %[1]s USING brin (id);
		INSERT INTO %[1]s (n, pad, arr) SELECT g, md5(g::text), ARRAY[g %% 7, g] FROM generate_series(1, 3000) g`, name)
}

func startChurn(t *testing.T, s *testdb.Server, major int, seed uint64, sessions int) *churn {
	t.Helper()
	c := &churn{url: s.URL, major: major}
	testdb.Query(t, s.URL("postgres"), "CREATE TABLESPACE aside LOCATION '"+s.TempDir(t)+"'")
	testdb.Query(t, s.URL("postgres"), "CREATE TABLESPACE inside LOCATION ''")
	for _, db := range []string{"busy", "model"} {
		testdb.Query(t, s.URL("postgres"), "CREATE DATABASE "+db)
		testdb.Query(t, s.URL(db), "CREATE EXTENSION amcheck")
		for i := range churnTables {
			testdb.Query(t, s.URL(db), churnTable(fmt.Sprint("t", i)))
		}
	}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(t.Context())
	for i := range sessions {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		c.wg.Go(func() { c.session(ctx, r) })
	}
	t.Cleanup(c.end)
	return c
}

func (c *churn) end() { c.stop(); c.wg.Wait() }

// session executes one operation after the other. Failures are fine, since two sessions can hinder
// each other.
func (c *churn) session(ctx context.Context, r *rand.Rand) {
	var conn *pgx.Conn
	for ctx.Err() == nil {
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = pgx.Connect(ctx, c.url("busy")); err != nil {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			defer conn.Close(context.WithoutCancel(ctx))
			_, _ = conn.Exec(ctx, "SET lock_timeout = '2s'; SET client_min_messages = error")
		}
		c.pause.RLock()
		kind, statements := c.something(r)
		if kind == moveDatabase && !c.apart.TryRLock() {
			c.pause.RUnlock()
			continue
		}
		ok := true
		for _, sql := range statements {
			_, err := conn.Exec(ctx, sql)
			ok = ok && err == nil
		}
		if ok {
			c.did.Add(1)
			c.kinds[kind].Add(1)
		}
		if kind == moveDatabase {
			c.apart.RUnlock()
		}
		c.pause.RUnlock()
	}
}

const (
	churnKinds   = 20
	moveDatabase = 10
)

// something chooses an operation.
func (c *churn) something(r *rand.Rand) (kind int, statements []string) {
	t := fmt.Sprint("t", r.IntN(churnTables))
	kind = r.IntN(churnKinds + 20)
	add := fmt.Sprintf("INSERT INTO %s (n, pad, arr) SELECT g, md5((g * %d)::text), ARRAY[g %% 7, g] FROM generate_series(1, %d) g", t, r.IntN(1000), 1+r.IntN(2000))
	database, space := fmt.Sprint("copy", r.IntN(3)), []string{"pg_default", "aside", "inside"}[r.IntN(3)]
	switch kind {
	case 0:
		return kind, []string{"DELETE FROM " + t + " WHERE id > (SELECT max(id) - (max(id) - min(id)) * random() FROM " + t + ")", "VACUUM " + t}
	case 1:
		return kind, []string{"TRUNCATE " + t, add}
	case 2:
		return kind, []string{"DROP TABLE IF EXISTS " + t + "; " + churnTable(t)}
	case 3:
		return kind, []string{"VACUUM FULL " + t}
	case 4:
		return kind, []string{"ALTER TABLE " + t + " SET UNLOGGED"}
	case 5, 6:
		return kind, []string{"ALTER TABLE " + t + " SET LOGGED"}
	case 7:
		return kind, []string{"ALTER TABLE " + t + " SET TABLESPACE " + space}
	case 8:
		strategy := ""
		if c.major >= 15 {
			strategy = " STRATEGY " + []string{"wal_log", "file_copy"}[r.IntN(2)]
		}
		return kind, []string{"CREATE DATABASE " + database + " TEMPLATE model" + strategy + " TABLESPACE " + space}
	case 9:
		return kind, []string{"DROP DATABASE IF EXISTS " + database}
	case moveDatabase:
		return kind, []string{"ALTER DATABASE " + database + " SET TABLESPACE " + space}
	case 11:
		return kind, []string{"CHECKPOINT"}
	case 12:
		return kind, []string{"REINDEX TABLE " + t}
	case 13:
		return kind, []string{"ALTER TABLE " + t + " ALTER n TYPE " + []string{"int", "bigint"}[r.IntN(2)]}
	case 14:
		return kind, []string{"VACUUM (FREEZE) " + t}
	case 15: // values that are TOASTed
		return kind, []string{"INSERT INTO " + t + " (n, pad, arr) SELECT g, (SELECT string_agg(md5((g + h)::text || random()::text), '') FROM generate_series(1, 300) h), '{1}' FROM generate_series(1, 20) g"}
	case 16:
		return kind, []string{"CREATE TEMP TABLE mine AS SELECT * FROM " + t, "DROP TABLE mine"}
	case 17:
		return kind, []string{"BEGIN; " + add + "; ROLLBACK"}
	case 18:
		return kind, []string{"DELETE FROM " + t, "VACUUM " + t}
	case 19:
		return kind, []string{"CLUSTER " + t + " USING " + t + "_pkey"}
	}
	kind = 0
	if r.IntN(3) == 0 {
		return kind, []string{add}
	}
	return kind, []string{fmt.Sprintf("UPDATE %s SET n = n + 1, pad = md5(pad) WHERE id %% %d = %d", t, 50+r.IntN(500), r.IntN(50))}
}

// contents returns what databases have: all rows of all tables that survive a crash, read in
// physical order or by index.
func contents(t *testing.T, url func(string) string, byIndex bool) string {
	t.Helper()
	set := "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; "
	if byIndex {
		set = "SET enable_seqscan = off; "
	}
	var b strings.Builder
	for _, db := range strings.Fields(testdb.Query(t, url("postgres"), "SELECT datname FROM pg_database WHERE datallowconn AND datname NOT IN ('template1', 'postgres') ORDER BY 1")) {
		conn, err := pgx.Connect(t.Context(), url(db))
		if err != nil {
			t.Fatalf("database %s: %v", db, err)
		}
		_, err = conn.Exec(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Query(t.Context(), "SELECT relname FROM pg_class WHERE relkind = 'r' AND relpersistence = 'p' AND relnamespace = 'public'::regnamespace ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			var text string
			err := conn.QueryRow(t.Context(), fmt.Sprintf(`SELECT concat_ws(' ', (SELECT count(*) || ' ' || coalesce(sum(hashtextextended(x::text, 0)), 0) FROM (SELECT id, n, pad, arr FROM %[1]s) x),
				(SELECT count(id) FROM %[1]s WHERE id >= 0), (SELECT coalesce(sum(id), 0) FROM %[1]s WHERE n BETWEEN 5 AND 500), (SELECT coalesce(sum(id), 0) FROM %[1]s WHERE arr @> ARRAY[3]),
				(SELECT count(*) FROM %[1]s WHERE pad = md5('1000')))`, name)).Scan(&text)
			if err != nil {
				t.Errorf("%s.%s: %v", db, name, err)
			}
			fmt.Fprintf(&b, "%s.%s %s\n", db, name, text)
		}
		conn.Close(t.Context())
	}
	return b.String()
}

// sound checks all tables and indexes with amcheck, and then uses them; not unlogged ones:
// PostgreSQL 15 itself loses the first page of their sequences in a recovery. And after ALTER TABLE
// SET LOGGED, it does not at first log a sequence's values, so that a crash reverts them.
func sound(t *testing.T, url func(string) string, major int) {
	t.Helper()
	for _, db := range strings.Fields(testdb.Query(t, url("postgres"), "SELECT datname FROM pg_database WHERE datallowconn AND datname NOT IN ('template1', 'postgres')")) {
		conn, err := pgx.Connect(t.Context(), url(db))
		if err != nil {
			t.Fatal(err)
		}
		do := func(sql string) {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Errorf("%s: %s: %v", db, sql, err)
			}
		}
		do(`SELECT bt_index_check(i.indexrelid, true) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
			WHERE a.amname = 'btree' AND c.relpersistence = 'p' AND i.indisvalid`)
		if major >= 14 {
			var bad *string
			if err := conn.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', c.oid::regclass, v.*), E'\n') FROM pg_class c, verify_heapam(c.oid) v
				WHERE c.relkind IN ('r', 't', 'm') AND c.relpersistence = 'p'`).Scan(&bad); err != nil || bad != nil {
				t.Errorf("%s: amcheck finds: %v, %v", db, bad, err)
			}
		}
		for i := range churnTables {
			do(fmt.Sprintf(`DO $$ BEGIN IF EXISTS (SELECT FROM pg_class WHERE relname = 't%[1]d' AND relpersistence = 'p') THEN
				PERFORM setval('t%[1]d_id_seq', (SELECT coalesce(max(id), 1) FROM t%[1]d));
				INSERT INTO t%[1]d (n, pad, arr) SELECT g, 'after', '{0}' FROM generate_series(1, 500) g; DELETE FROM t%[1]d WHERE pad = 'after'; END IF; END $$`, i))
		}
		do("VACUUM")
		conn.Close(t.Context())
	}
}

// A chained server is backed up repeatedly under a churn.
type chained struct {
	t     *testing.T
	srv   *testdb.Server
	major int
	churn *churn
	repo  *repo.Repo
	place string // its place
	r     *rand.Rand
	way   string // requested
	took  string // used
	over  string // a folder into which an earlier backup was restored, and that has been used since
	n     int
	tally *tally
}

// tally counts what was compared, by way.
type tally struct {
	mu    sync.Mutex
	count map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	t.count[what]++
	t.mu.Unlock()
}

// TestRandomChains backs up servers in random chains while everything that can happen to their
// files happens. It restores each backup, replays the log up to a quiet moment, and compares the
// result with the server at that moment.
//
// TIDEMARK_CHAINS=100 makes that many chains of each of TIDEMARK_CHAIN_VERSIONS=13,15,17,18, in
// each of TIDEMARK_CHAIN_WAYS=log,pages,summaries, and keeps the files of a failure in
// TIDEMARK_CHAIN_KEEP=FOLDER.
func TestRandomChains(t *testing.T) {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("TIDEMARK_CHAINS"), "1"))
	if err != nil {
		t.Fatal(err)
	}
	versions := strings.Split(cmp.Or(os.Getenv("TIDEMARK_CHAIN_VERSIONS"), "15"), ",")
	seed := rand.Uint64()
	done := &tally{count: map[string]int{}}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			major, err := strconv.Atoi(version)
			if err != nil {
				t.Fatal(err)
			}
			aServer(t, major, rounds, seed, done)
		})
	}
	t.Logf("seed %d: %v", seed, done.count)
}

func aServer(t *testing.T, major, rounds int, seed uint64, done *tally) {
	options := []string{"-c", "wal_keep_size=8GB", "-c", "max_wal_size=200MB", "-c", "autovacuum_naptime=2s", "-c", "shared_buffers=16MB", "-c", "allow_in_place_tablespaces=on"}
	ways := []string{"log", "pages"}
	if major >= 17 {
		options, ways = append(options, "-c", "summarize_wal=on"), append(ways, "summaries")
	}
	if text := os.Getenv("TIDEMARK_CHAIN_WAYS"); text != "" {
		ways = strings.Split(text, ",")
	}
	s := testdb.OwnPostgres(t, major, options...)
	if seed%2 == 0 && major == 15 {
		s.Offline(t, func() {
			if _, err := s.Tool(t, "pg_checksums", "--enable", "--no-sync", "-D", s.Dir); err != nil {
				t.Fatal(err)
			}
		})
	}
	c := &chained{t: t, srv: s, major: major, r: rand.New(rand.NewPCG(seed, uint64(major))), tally: done}
	c.churn = startChurn(t, s, major, seed, 3)
	for round := range rounds {
		c.way = ways[(round+int(seed%uint64(len(ways))))%len(ways)]
		t.Run(fmt.Sprint(round, c.way), func(t *testing.T) {
			c.place = t.TempDir()
			c.repo = newRepoIn(t, c.place)
			c.chain(t, 2+c.r.IntN(2+min(rounds-1, 3)))
		})
		if t.Failed() {
			break
		}
	}
	c.churn.end()
	kinds := ""
	for i := range c.churn.kinds {
		kinds += fmt.Sprint(" ", c.churn.kinds[i].Load())
	}
	t.Logf("%d things happened, by kind:%s", c.churn.did.Load(), kinds)
}

// chain makes a chain of length backups, and restores those that are not full ones.
func (c *chained) chain(t *testing.T, length int) {
	for i := range length {
		basis := []backup.Basis{backup.LastFull, backup.LastAny, backup.LastAny}[c.r.IntN(3)]
		if i == 0 {
			basis = backup.Nothing
		}
		c.wait()
		var result *backup.Result
		for result = c.backUp(t, basis, c.r.IntN(2) == 0); result == nil; result = c.backUp(t, basis, c.r.IntN(3) == 0) {
			c.wait()
		}
		if result.Increment != nil && result.Increment.Resumed {
			c.tally.add("resumed, " + result.Manifest.Kind)
		}
		if i > 0 {
			if result.Manifest.Kind != repo.Incremental {
				t.Fatalf("a full backup: %v", result.Findings)
			}
			if c.took = wayOf(result.Increment.Way); c.took != c.way && c.way != "summaries" { // summaries do not exist immediately
				t.Errorf("by %s: what has changed was found by %s: %v", c.way, result.Increment.Way, result.Findings)
			}
			t.Logf("%s", result.Increment)
		}
		if i > 0 || length == 1 {
			c.check(t, result.Manifest)
		}
	}
}

// wait waits until more has happened.
func (c *chained) wait() {
	seen := c.churn.did.Load() + int64(c.r.IntN(40))
	for deadline := time.Now().Add(time.Minute); c.churn.did.Load() < seen && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
}

// A stopping server stops its backup when one of its files is opened.
type stopping struct {
	*physical.Backup
	opens atomic.Int64
	stop  func()
}

func (s *stopping) Open(f *tidemark.DataFile) (*os.File, error) {
	if s.opens.Add(-1) == 0 {
		s.stop()
	}
	time.Sleep(time.Millisecond) // so that a checkpoint is written
	return s.Backup.Open(f)
}

// notedSoon makes a backup write checkpoints all the time.
func notedSoon(opt backup.Options) backup.Options {
	opt.BufferSize, opt.Sessions, opt.NoteEvery = 64<<10, 1, time.Millisecond
	return opt
}

// stopBackup stops a backup at the last of opens opened files, once a checkpoint was written.
func stopBackup(t *testing.T, s *testdb.Server, r *repo.Repo, opt backup.Options, opens int64) {
	t.Helper()
	e, err := postgres.Open(t.Context(), s.URL("postgres"), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	src := &stopping{Backup: e.Backup(physical.BackupOptions{})}
	defer src.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	src.stop = func() {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if open, err := r.Unfinished(ctx); err != nil || len(open) > 0 {
				break
			}
		}
		cancel()
	}
	src.opens.Store(opens)
	if _, err := backUpFrom(ctx, t, src, r, notedSoon(opt)); err == nil {
		t.Fatal("it was not stopped")
	}
	if open, err := r.Unfinished(t.Context()); err != nil || len(open) != 1 {
		t.Fatalf("%d can be resumed: %v", len(open), err)
	}
}

// backUp makes a backup, and resumes the last one if that was stopped. nil: this one was stopped.
func (c *chained) backUp(t *testing.T, basis backup.Basis, stop bool) *backup.Result {
	t.Helper()
	e, err := postgres.Open(t.Context(), c.srv.URL("postgres"), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c.churn.apart.Lock()
	defer c.churn.apart.Unlock()
	src := e.Backup(physical.BackupOptions{Way: physical.Way(c.way)})
	defer src.Close()
	opt := backup.Options{Basis: basis}
	var server backup.Server = src
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if open, err := c.repo.Unfinished(ctx); err != nil {
		t.Fatal(err)
	} else if len(open) > 0 {
		opt.Resume = backup.ResumeLast
	}
	if stop {
		s := &stopping{Backup: src, stop: cancel}
		s.opens.Store(1 + c.r.Int64N(400))
		server, opt = s, notedSoon(opt)
	}
	job, err := backup.New(server, c.repo, opt)
	if err != nil {
		t.Fatal(err)
	}
	result, err := job.Run(ctx)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err == nil && (opt.Resume != "") != (result.Increment != nil && result.Increment.Resumed) {
		t.Errorf("nothing was resumed: %v", result.Findings)
	}
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// wayOf returns the way that a report mentions.
func wayOf(text string) string {
	for _, w := range [][2]string{{"summaries", "summaries"}, {"of each page", "pages"}} {
		if strings.Contains(text, w[0]) {
			return w[1]
		}
	}
	return "log"
}

// check restores a backup, into a new folder or over an older one, and compares the content.
func (c *chained) check(t *testing.T, m *repo.Manifest) {
	c.churn.pause.Lock()
	defer c.churn.pause.Unlock()
	c.n++
	point := fmt.Sprint("point", c.n)
	want := contents(t, c.srv.URL, false)
	testdb.Query(t, c.srv.URL("postgres"), "SELECT pg_create_restore_point('"+point+"'), txid_current()") // with a commit, which flushes it to disk
	t.Run(fmt.Sprint(c.n), func(t *testing.T) {
		spaces := map[string]string{}
		over := c.over != "" && c.r.IntN(2) == 0
		dir := c.over
		if !over {
			owner := t
			if c.over == "" {
				owner = c.t // it is kept, to be restored over
			}
			dir = filepath.Join(c.srv.TempDir(owner), "data")
			for _, s := range m.Tablespaces {
				spaces[s.Path] = c.srv.TempDir(owner)
			}
			c.over = cmp.Or(c.over, dir)
		} else if err := os.Remove(filepath.Join(dir, "postmaster.pid")); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		opt := backup.RestoreOptions{Dir: dir, Spaces: spaces, Delta: over, System: physical.SystemOf, Manifest: manifestOf}
		x, err := backup.NewRestore(c.repo, m, opt)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.major == 15 {
			verify(t, c.srv, dir)
		}
		t.Cleanup(func() { c.keep(t, dir, spaces) })
		rec := physical.Recovery{Command: "cp " + filepath.Join(c.srv.Dir, "pg_wal", "%f") + " %p", Target: "name", Value: point}
		if err := rec.Write(dir); err != nil {
			t.Fatal(err)
		}
		copied := c.srv.Beside(t, dir)
		for tries := 0; ; time.Sleep(20 * time.Millisecond) { // counted, so that hours in which the machine is suspended do not matter
			if state, err := testdb.TryQuery(copied.URL("postgres"), "SELECT pg_is_in_recovery()::int"); err == nil && state == "0" {
				break
			} else if tries++; tries > 6000 {
				text, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), "log"))
				t.Fatalf("the recovery does not end: %s, %v\n%s", state, err, text)
			}
		}
		for _, byIndex := range []bool{false, true} {
			if got := contents(t, copied.URL, byIndex); got != want {
				t.Errorf("backup %s, by index %v: the restored server has\n%sand the other had\n%s", m.ID, byIndex, got, want)
			}
		}
		sound(t, copied.URL, c.major)
		c.tally.add(fmt.Sprintf("%d %s", c.major, c.took))
		if over {
			c.tally.add("over what was there")
		}
	})
}

// keep copies what helps to examine a wrong restore to TIDEMARK_CHAIN_KEEP.
func (c *chained) keep(t *testing.T, restored string, spaces map[string]string) {
	dir := os.Getenv("TIDEMARK_CHAIN_KEEP")
	if dir == "" || !t.Failed() {
		return
	}
	dir = filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-"))
	from := []string{filepath.Dir(restored), filepath.Dir(c.srv.Dir), c.place}
	for _, s := range spaces {
		from = append(from, s)
	}
	for i, folder := range from {
		to := filepath.Join(dir, fmt.Sprint(i))
		if out, err := exec.Command("sh", "-c", `mkdir -p "$2" && cp -a "$1" "$2"`, "sh", folder, to).CombinedOutput(); err != nil {
			t.Logf("%s is kept in part: %v: %s", folder, err, out)
		}
	}
	t.Logf("kept in %s", dir)
}

// manifestOf makes a chain's backup_manifest, as the program does.
func manifestOf(m *repo.Manifest) (string, func(io.Writer) backup.FileList) {
	return physical.ManifestPath, func(w io.Writer) backup.FileList {
		return fileList{physical.NewManifestWriter(w, m.VersionNum/10000, m.SystemID), m}
	}
}

type fileList struct {
	*physical.ManifestWriter
	m *repo.Manifest
}

func (l fileList) Close() error {
	var ranges []tidemark.DataLog
	for _, r := range l.m.Ranges {
		ranges = append(ranges, tidemark.DataLog{Timeline: r.Timeline, From: r.Start, To: r.End})
	}
	return l.ManifestWriter.Close(ranges)
}
