package bulk

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
	"github.com/tidemarkdb/tidemark/postgres/schema"
)

func TestLedger(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "ledger")
	e, ctx := open(t, db), t.Context()
	if marks, err := e.Marks(ctx, "a"); err != nil || marks != nil {
		t.Errorf("marks before the table: %v, %v", marks, err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(e.Forget(ctx, "a", nil))
	check(e.Begin(ctx, "a"))
	check(e.Begin(ctx, "a"))
	check(e.Begin(ctx, "b'\\"))
	testdb.Query(t, db, "INSERT INTO tidemark.copied SELECT 'a', g, g * 10 FROM generate_series(1, 4) g")
	check(e.Forget(ctx, "a", []int{2, 3, 99}))
	check(e.Forget(ctx, "a", []int{}))
	marks, err := e.Marks(ctx, "a")
	if want := []tidemark.Mark{{Range: 1, Rows: 10}, {Range: 4, Rows: 40}}; err != nil || !slices.Equal(marks, want) {
		t.Errorf("marks %v, %v, want %v", marks, err, want)
	}
	check(e.Forget(ctx, "a", nil))
	if got := testdb.Query(t, db, "SELECT to_regclass('tidemark.copied') IS NOT NULL"); got != "t" {
		t.Error("the other run's marker table is gone")
	}
	check(e.Forget(ctx, "b'\\", nil))
	if got := testdb.Query(t, db, "SELECT to_regnamespace('tidemark') IS NULL"); got != "t" {
		t.Error("the schema is still there")
	}
	check(e.Begin(ctx, "a"))
	testdb.Query(t, db, "CREATE TABLE tidemark.other (id int)")
	check(e.Forget(ctx, "a", nil))
	if got := testdb.Query(t, db, "SELECT to_regclass('tidemark.other') IS NOT NULL, to_regclass('tidemark.copied') IS NULL"); got != "t\tt" {
		t.Errorf("other table kept, ours gone: %s", got)
	}
}

func TestInspectAndClear(t *testing.T) {
	db := testdb.Postgres(t, 18).NewDatabase(t, "inspect")
	testdb.Query(t, db, `CREATE TABLE "Full" (id int PRIMARY KEY); INSERT INTO "Full" VALUES (1); CREATE TABLE empty (id int); CREATE TABLE parent (id int);
		CREATE TABLE child () INHERITS (parent); INSERT INTO child VALUES (1); CREATE TABLE root (id int) PARTITION BY RANGE (id);
		CREATE TABLE leaf PARTITION OF root DEFAULT; INSERT INTO root VALUES (1); CREATE TABLE fk (id int REFERENCES "Full"); INSERT INTO fk VALUES (1);
		CREATE VIEW v AS SELECT * FROM child; CREATE SEQUENCE seq; SELECT lo_from_bytea(0, 'x')`)
	id := func(name string) tidemark.TableID { return tidemark.TableID{Schema: "public", Name: name} }
	e := open(t, db)
	var ids []tidemark.TableID
	for _, name := range strings.Fields("Full full empty parent child root leaf fk seq") {
		ids = append(ids, id(name))
	}
	ids = append(ids, schema.LargeObjects)
	for i := range 450 {
		ids = append(ids, id(fmt.Sprintf("t%d", i)))
	}
	testdb.Query(t, db, "DO $$BEGIN FOR i IN 0..449 LOOP EXECUTE format('CREATE TABLE t%s AS SELECT 1 WHERE %s %% 3 = 0', i, i); END LOOP; END$$")
	states, err := e.Inspect(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Full": "rows", "full": "none", "empty": "empty", "parent": "empty", "child": "rows", "root": "rows", "leaf": "rows", "fk": "rows", "seq": "empty", "pg_largeobject": "rows"}
	for i, s := range states {
		got := map[[2]bool]string{{true, true}: "rows", {true, false}: "empty", {}: "none"}[[2]bool{s.Exists, s.Rows}]
		w := want[s.Table.Name]
		if w == "" {
			w = map[bool]string{true: "rows", false: "empty"}[(i-10)%3 == 0]
		}
		if s.Table != ids[i] || got != w {
			t.Errorf("%v is %s, want %s", s.Table, got, w)
		}
	}

	mustBe(t, e.Clear(t.Context(), []tidemark.TableID{id("Full")}, false), tidemark.NotEmpty,
		`truncate public."Full": cannot truncate a table referenced in a foreign key constraint (Table "fk" references "Full")`,
		"Something that is not part of the copy depends on these tables: drop it first, or copy it too.")
	mustBe(t, e.Clear(t.Context(), []tidemark.TableID{id("child")}, true), tidemark.NotEmpty,
		"drop public.child: cannot drop table public.child because other objects depend on it (view public.v depends on table public.child)",
		"Views, or tables that are not part of the copy, depend on these tables: drop them first, or choose --prep truncate.")
	all := append(slices.Clone(ids), id("nowhere"))
	if err := e.Clear(t.Context(), all, false); err != nil {
		t.Fatal(err)
	}
	states, err = e.Inspect(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		if s.Rows {
			t.Errorf("%v holds rows after Clear", s.Table)
		}
	}
	testdb.Query(t, db, "DROP VIEW v; ALTER TABLE child NO INHERIT parent")
	if err := e.Clear(t.Context(), all, true); err != nil {
		t.Fatal(err)
	}
	if got := testdb.Query(t, db, "SELECT string_agg(relname, ',') FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"); got != "NULL" {
		t.Errorf("left: %s", got)
	}
}

func TestExec(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "exec")
	e := open(t, db)
	run := func(sql ...string) error { return e.Exec(t.Context(), 0, sql) }
	if err := run("CREATE TABLE public.t (id int)", "CREATE TABLE public.u (id int)"); err != nil {
		t.Fatal(err)
	}
	mustBe(t, run("CREATE TABLE public.w (id int)", "CREATE TABLE public.t (id int)"), tidemark.Exists, `run CREATE TABLE public.t (id int): relation "t" already exists`, "")
	if got := testdb.Query(t, db, "SELECT to_regclass('public.w')"); got != "NULL" {
		t.Error("half of it was done")
	}
	if err := run("ALTER TABLE public.t ADD CONSTRAINT t_pkey PRIMARY KEY (id)"); err != nil {
		t.Error(err)
	}
	if err := run("ALTER TABLE public.t ADD CONSTRAINT t_pkey PRIMARY KEY (id)"); tidemark.KindOf(err) != tidemark.Exists {
		t.Errorf("a second primary key: %v: %v", tidemark.KindOf(err), err)
	}
	if err := run("VACUUM public.t", "CREATE INDEX CONCURRENTLY i ON public.t (id)", "ANALYZE public.t"); err != nil {
		t.Error(err)
	}
	if err := run("DO $$BEGIN IF current_setting('maintenance_work_mem') <> '256MB' THEN RAISE 'maintenance_work_mem is %', current_setting('maintenance_work_mem'); END IF; END$$"); err != nil {
		t.Error(err)
	}
	mustBe(t, run("CREATE TABLE nowhere.t (id int)"), tidemark.NotFound, `run CREATE TABLE nowhere.t (id int): schema "nowhere" does not exist`, "")
	if err := run("SELECT pg_terminate_backend(pg_backend_pid())"); tidemark.KindOf(err) != tidemark.Transient {
		t.Errorf("%v: %v", tidemark.KindOf(err), err)
	}
	if err := run("SELECT 1"); err != nil {
		t.Errorf("the lane did not come back: %v", err)
	}
}

// TestExecEach: each of several objects is made completely or not at all, and those that fail, or
// cannot be sent ahead, do not affect the others.
func TestExecEach(t *testing.T) {
	db := testdb.Postgres(t, 16).NewDatabase(t, "each")
	e, ctx := open(t, db), t.Context()
	objects := [][]string{
		{"CREATE TABLE public.a (id int)"},
		{"CREATE TABLE public.b (id int) -- no end of a line", "CREATE INDEX b_id ON public.b (id)"},
		{"CREATE TABLE public.a (id int)"},                                   // exists already
		{"CREATE TABLE public.c (id int)", "CREATE TABLE public.c (id int)"}, // the first half would succeed
		nil,
		{"VACUUM public.a", "VACUUM public.b"}, // cannot run in a transaction
		{"CREATE TABL d ()"},
		{"DO $$ BEGIN RAISE WARNING 'a word; and %', repeat('another', 2000); END $$"},
		{"CREATE TABLE public.e (id int)"},
	}
	for range 40 { // exceeds a socket's buffer
		objects = append(objects, []string{"COMMENT ON TABLE public.e IS '" + strings.Repeat("x", 100_000) + "'"})
	}
	var made []int
	e.ExecEach(ctx, 3, objects, func(i int, _ time.Duration) { made = append(made, i) })
	want := []int{0, 1, 7}
	for i := 8; i < len(objects); i++ {
		want = append(want, i)
	}
	if !slices.Equal(made, want) {
		t.Errorf("made %v, want %v", made, want)
	}
	if got := testdb.Query(t, db, "SELECT to_regclass('public.b_id') IS NOT NULL, to_regclass('public.c') IS NULL, length(obj_description('public.e'::regclass))"); got != "t\tt\t100000" {
		t.Errorf("got %s", got)
	}
	if err := e.Exec(ctx, 3, objects[5]); err != nil {
		t.Errorf("the session is of use: %v", err)
	}
	// The session is terminated before its last answer: that object's outcome is unknown.
	made = nil
	e.ExecEach(ctx, 3, [][]string{{"CREATE TABLE public.f (id int)"}, {"SELECT pg_terminate_backend(pg_backend_pid())"}, {"CREATE TABLE public.g (id int)"}}, func(i int, _ time.Duration) { made = append(made, i) })
	if made != nil {
		t.Errorf("made %v, which nothing has written to disk", made)
	}
	if err := e.Exec(ctx, 3, []string{"CREATE TABLE public.f (id int)"}); tidemark.KindOf(err) != tidemark.Exists {
		t.Errorf("an object of unknown outcome: %v", err)
	}
	if err := e.Exec(ctx, 3, []string{"CREATE TABLE public.g (id int)"}); err != nil {
		t.Errorf("another session is opened: %v", err)
	}
	if got := testdb.Query(t, db, "SELECT to_regclass('public.f') IS NOT NULL, to_regclass('public.g') IS NOT NULL"); got != "t\tt" {
		t.Errorf("got %s", got)
	}
	if d, err := e.RoundTrip(ctx); err != nil || d <= 0 || d >= time.Hour {
		t.Errorf("%s, %v", d, err)
	}
}

// TestExecEachIsOnDisk: what is reported as made is there after a crash of the server.
func TestExecEachIsOnDisk(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgres(t, 16, "-c", "wal_writer_delay=10s", "-c", "autovacuum=off")
	db := srv.NewDatabase(t, "crash")
	e := open(t, db)
	var objects [][]string
	for i := range 10 {
		objects = append(objects, []string{fmt.Sprintf("CREATE TABLE public.t%d (id int PRIMARY KEY)", i)})
	}
	made := 0
	e.ExecEach(t.Context(), 0, objects, func(int, time.Duration) { made++ })
	srv.Kill(t)
	srv.Restart(t)
	if got := testdb.Query(t, db, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); made != 10 || got != "10" {
		t.Errorf("%d are reported as made, and %s are there after a crash", made, got)
	}
}

// Large objects are copied with all bytes, holes and empty ones, in any number of ranges; also when
// read by a user who is not a superuser.
func TestLargeObjects(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	src := srv.NewDatabase(t, "lob")
	testdb.Query(t, src, `SELECT lo_from_bytea(g::oid, decode(repeat('00ff10' || lpad(to_hex(g), 4, '0'), 1000), 'hex')) FROM generate_series(20001, 20100) g;
		SELECT lo_from_bytea(30001, ''), lo_from_bytea(30002, 'x'), lo_put(30002, 10000, 'far');
		DROP ROLE IF EXISTS lobreader; CREATE ROLE lobreader LOGIN PASSWORD 'x'`)
	defer testdb.Query(t, src, "DROP OWNED BY lobreader; DROP ROLE lobreader")
	m := &tidemark.Move{Direct: true, Source: []string{"loid", "pageno", "data"}, Split: tidemark.Split{Target: 16 << 10, Max: 4},
		From: &tidemark.Table{TableID: schema.LargeObjects, Form: tidemark.LargeObjects, Columns: []tidemark.Column{
			{Name: "loid", Type: tidemark.Type{Native: "oid"}}, {Name: "pageno", Type: tidemark.Type{Native: "integer"}}, {Name: "data", Type: tidemark.Type{Native: "bytea"}}}}}
	m.To = m.From
	const sum = "SELECT count(*), md5(string_agg(oid || ':' || md5(lo_get(oid)) || length(lo_get(oid)), ',' ORDER BY oid)) FROM pg_largeobject_metadata"
	user := with(t, src, func(u *url.URL) { u.User = url.UserPassword("lobreader", "x") })
	for _, from := range []string{src, user} {
		for _, f := range []tidemark.Format{tidemark.CopyText, tidemark.CopyBinary} {
			e := frozen(t, from, 1)
			dst := srv.NewDatabase(t, "lob")
			into := open(t, dst)
			ranges, err := e.Split(t.Context(), m)
			if err != nil || len(ranges) != 4 {
				t.Fatalf("%d ranges, %v", len(ranges), err)
			}
			for i := range ranges {
				_, err := pipe(t.Context(), e, into, 0, tidemark.Read{Move: m, Range: &ranges[i], Format: f}, tidemark.Write{Move: m, Range: &ranges[i], Format: f})
				if from == user && testdb.Query(t, src, "SELECT lomacl IS NULL FROM pg_largeobject_metadata WHERE oid = 20001") == "t" {
					mustBe(t, err, tidemark.Forbidden, "read large objects: permission denied for large object 20001",
						"Run this as the owner: GRANT SELECT ON LARGE OBJECT 20001 TO lobreader;")
					testdb.Query(t, src, "DO $$DECLARE o oid; BEGIN FOR o IN SELECT oid FROM pg_largeobject_metadata LOOP EXECUTE format('GRANT SELECT ON LARGE OBJECT %s TO lobreader', o); END LOOP; END$$")
					e = frozen(t, from, 1)
					_, err = pipe(t.Context(), e, into, 0, tidemark.Read{Move: m, Range: &ranges[i], Format: f}, tidemark.Write{Move: m, Range: &ranges[i], Format: f})
				}
				if err != nil {
					t.Fatalf("%v (%s)", err, tidemark.HintOf(err))
				}
			}
			if a, b := testdb.Query(t, src, sum), testdb.Query(t, dst, sum); a != b {
				t.Errorf("%v: the target has %s, the source %s", f, b, a)
			}
		}
	}
}

// Limited LOB mode cuts at whole characters, and reports each value.
func TestLimitedLobs(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "cut")
	testdb.Query(t, db, `CREATE TABLE t (a int, b text, v text, d bytea, j jsonb, s varchar(50), PRIMARY KEY (a, b));
		INSERT INTO t VALUES (1, 'x', 'short', '\x00', '1', repeat('s', 50)), (2, 'y', repeat('é', 10), '\x000102030405060708090a0b', '"12345678901"', ''),
			(3, 'z', 'abc😀😀😀😀😀😀', NULL, NULL, NULL), (4, 'w', '0123456789', '\x00010203040506070809', NULL, NULL)`)
	e := frozen(t, db, 1)
	m := move(pgtest.Table(t, db, "t"))
	for max, want := range map[int64]string{
		10: "1\tx\tshort\t\\\\x00\t1\t" + strings.Repeat("s", 50) + "\n2\ty\tééééé\t\\\\x00010203040506070809\t\"123456789\t\n3\tz\tabc😀\t\\N\t\\N\t\\N\n4\tw\t0123456789\t\\\\x00010203040506070809\t\\N\t\\N\n",
		3:  "1\tx\tsho\t\\\\x00\t1\t" + strings.Repeat("s", 50) + "\n2\ty\té\t\\\\x000102\t\"12\t\n3\tz\tabc\t\\N\t\\N\t\\N\n4\tw\t012\t\\\\x000102\t\\N\t\\N\n",
	} {
		m.Lob = tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: max}
		var data []byte
		var cuts []string
		err := e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{}, Cut: func(key, column string, n int64) {
			cuts = append(cuts, fmt.Sprintf("%s %s %d", key, column, n))
		}}, func(b *tidemark.Batch) error { data = append(data, b.Data...); b.Release(); return nil })
		if err != nil || string(data) != want {
			t.Errorf("max %d: %v\n%q, want\n%q", max, err, data, want)
		}
		if want := []string{"2, y v 20", "2, y d 12", "2, y j 13", "3, z v 27"}; max == 10 && !slices.Equal(cuts, want) {
			t.Errorf("told of %q, want %q", cuts, want)
		}
	}
}

// Values whose kinds differ are converted, even if a row arrives in pieces.
func TestConversions(t *testing.T) {
	db := testdb.Postgres(t, 15).NewDatabase(t, "convert")
	testdb.Query(t, db, "CREATE TABLE t (a boolean, b int, c int, d bytea, e uuid, f text)")
	to := pgtest.Table(t, db, "t")
	from := &tidemark.Table{TableID: tidemark.TableID{Schema: "my", Name: "t"}}
	kinds := []tidemark.Type{{Kind: tidemark.Int}, {Kind: tidemark.Bool}, {Kind: tidemark.Bit}, {Kind: tidemark.Geometry}, {Kind: tidemark.Binary}, {Kind: tidemark.Text}}
	m := &tidemark.Move{From: from, To: to}
	for i, k := range kinds {
		name := string(rune('A' + i))
		from.Columns = append(from.Columns, tidemark.Column{Name: name, Type: k})
		m.Source = append(m.Source, name)
	}
	in := "0\tt\t00001010\t0101000000\t\\\\xa0eebc999c0b4ef8bb6d6bb9bd380a11\ttab\\there\n" +
		"-3\tf\t0\t\\N\t\\N\t\\N\n\\N\t\\N\t\\N\t00\t\\N\t\n1\t\\N\t1\t\\N\t\\N\tx\n"
	want := "f\t1\t10\t\\x0101000000\ta0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\ttab\there\nt\t0\t0\tNULL\tNULL\tNULL\nNULL\tNULL\tNULL\t\\x00\tNULL\t\nt\tNULL\t1\tNULL\tNULL\tx"
	e := open(t, db)
	for size := 1; size <= len(in); size += 7 {
		testdb.Query(t, db, "TRUNCATE t")
		at := 0
		out, err := e.Write(t.Context(), 0, tidemark.Write{Move: m, Range: &tidemark.Range{}}, func() (*tidemark.Batch, error) {
			b := tidemark.NewBatch(nil, tidemark.CopyText)
			b.Data = append(b.Data, in[at:min(at+size, len(in))]...)
			b.Rows = bytes.Count(b.Data, []byte("\n"))
			at += size
			b.Last, b.More = at >= len(in), at < len(in) && in[at-1] != '\n'
			return b, nil
		})
		if err != nil || out.Rows != 4 {
			t.Fatalf("in pieces of %d: %+v, %v (%s)", size, out, err, tidemark.HintOf(err))
		}
		if got := testdb.Query(t, db, "SELECT * FROM t"); got != want {
			t.Fatalf("in pieces of %d:\n%s\nwant\n%s", size, got, want)
		}
	}
}

// Triggers and foreign keys of existing tables do not fire.
func TestTriggersStayQuiet(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	db := srv.NewDatabase(t, "trigger")
	testdb.Query(t, db, `CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, p int REFERENCES p);
		CREATE FUNCTION drop_odd() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF NEW.id % 2 = 1 THEN RETURN NULL; END IF; RETURN NEW; END$$;
		CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION drop_odd();
		DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN PASSWORD 'x'; GRANT INSERT, SELECT ON t, p TO plain; INSERT INTO p VALUES (7)`)
	defer testdb.Query(t, db, "DROP OWNED BY plain; DROP ROLE plain")
	w := tidemark.Write{Move: move(pgtest.Table(t, db, "t")), Range: &tidemark.Range{}}
	out, err := open(t, db).Write(t.Context(), 0, w, rowBatches("1\t7\n2\t8\n3\t9\n"))
	if err != nil || out.Rows != 3 {
		t.Errorf("%+v, %v", out, err)
	}
	// Without the privilege they do fire, and the server's count is used.
	plain := open(t, with(t, db, func(u *url.URL) { u.User = url.UserPassword("plain", "x") }))
	out, err = plain.Write(t.Context(), 0, w, rowBatches("4\t7\n5\t7\n"))
	if err != nil || out.Rows != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = plain.Write(t.Context(), 0, w, rowBatches("6\t1\n"))
	mustBe(t, err, tidemark.BadRow, `write public.t: insert or update on table "t" violates foreign key constraint "t_p_fkey" (Key (p)=(1) is not present in table "p")`,
		"Correct it at the source, or have bad rows rejected.")
	if got := testdb.Query(t, db, "SELECT string_agg(id::text, ',' ORDER BY id) FROM t"); got != "1,2,3,4" {
		t.Errorf("rows %s", got)
	}
}

// A fresh table is frozen as it is filled, and a leaf is written directly, not through its root.
func TestFreshAndDirect(t *testing.T) {
	db := testdb.Postgres(t, 18).NewDatabase(t, "fresh")
	testdb.Query(t, db, `CREATE TABLE t (id int, v text); CREATE TABLE root (id int, v text) PARTITION BY RANGE (id); CREATE TABLE leaf PARTITION OF root DEFAULT`)
	e := open(t, db)
	row := "1\t" + strings.Repeat("x", 1000) + "\n"
	w := tidemark.Write{Move: move(pgtest.Table(t, db, "t")), Range: &tidemark.Range{}, Fresh: true}
	for _, tt := range []struct {
		rows int
		want string
	}{{10, "COPY"}, {1000, "COPY FREEZE"}} {
		out, err := e.Write(t.Context(), 0, w, rowBatches(strings.Repeat(row, tt.rows)))
		if err != nil || out.Method != tt.want {
			t.Errorf("%d rows: %+v, %v", tt.rows, out, err)
		}
	}
	testdb.Query(t, db, "CREATE EXTENSION pg_visibility")
	if got := testdb.Query(t, db, "SELECT count(*) FILTER (WHERE all_frozen) * 10 > 9 * count(*) FROM pg_visibility_map('t')"); got != "t" {
		t.Errorf("frozen: %s", got)
	}
	m := move(pgtest.Table(t, db, "root"))
	for _, tt := range []struct {
		r    tidemark.Range
		want string
	}{{tidemark.Range{Part: &m.From.Partitions[0]}, "COPY FREEZE"}, {tidemark.Range{}, "COPY"}} {
		out, err := e.Write(t.Context(), 0, tidemark.Write{Move: m, Range: &tt.r, Fresh: true}, rowBatches(strings.Repeat(row, 1000)))
		if err != nil || out.Method != tt.want {
			t.Errorf("%+v, %v, want %s", out, err, tt.want)
		}
	}
	if got := testdb.Query(t, db, "SELECT count(*) FROM leaf"); got != "2000" {
		t.Errorf("%s rows in the leaf", got)
	}
}
