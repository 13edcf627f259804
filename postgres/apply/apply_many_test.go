package apply

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// applyAll applies transactions in groups of at most the given number. It returns how many
// multi-row statements there are.
func applyAll(t *testing.T, e *Engine, bind *pgtest.BindAll, txs []*change.Tx, rnd *rand.Rand, most int) (many int) {
	t.Helper()
	p, err := e.BeginApply(t.Context(), "q", 1)
	if err != nil {
		t.Fatal(err)
	}
	for len(txs) > 0 {
		g := &change.Group{Queue: "q", Epoch: p.Epoch}
		n := min(1+rnd.IntN(most), len(txs))
		for _, tx := range txs[:n] {
			relations := bind.Take(t, tx)
			bounds := map[uint32]*change.Bound{}
			for id, b := range relations {
				bounds[id] = b
			}
			g.Txs, g.Bounds, g.Done = append(g.Txs, tx), append(g.Bounds, bounds), append(g.Done, tx.Place)
		}
		if err := e.Apply(t.Context(), g); err != nil {
			for _, tx := range g.Txs {
				t.Log(strings.Join(pgtest.Lines(t, tx, map[uint32]change.Relation{}), "\n"))
			}
			t.Fatalf("%v (%s)", err, tidemark.HintOf(err))
		}
		txs = txs[n:]
	}
	for _, d := range e.appliers[0].tables {
		for _, s := range d.shapes {
			if s.many != nil && s.many.known || s.sureMany != nil && s.sureMany.known {
				many++
			}
		}
	}
	return many
}

// Transactions applied together leave the same rows as applied one by one, both as a replica and as
// a user for whom foreign keys and triggers act.
func TestApplyTogether(t *testing.T) {
	const schema = applySchema + `
		CREATE TABLE parent (id int PRIMARY KEY, name text UNIQUE);
		CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE, name text UNIQUE);
		CREATE TABLE few (id int, at int, v text, PRIMARY KEY (id, at)) PARTITION BY LIST (at);
		CREATE TABLE lots (id int, at int, v text, PRIMARY KEY (id, at)) PARTITION BY LIST (at);
		DO $$BEGIN FOR i IN 0..19 LOOP EXECUTE format('CREATE TABLE lots_%s PARTITION OF lots FOR VALUES IN (%s)', i, i);
			IF i < 3 THEN EXECUTE format('CREATE TABLE few_%s PARTITION OF few FOR VALUES IN (%s)', i, i); END IF; END LOOP; END$$;
		CREATE TABLE log (id int, was text); ALTER TABLE log REPLICA IDENTITY FULL;
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.name := NEW.name || '.'; RETURN NEW; END$$;`
	for _, x := range []struct {
		version int
		replica bool
	}{{13, true}, {15, true}, {18, true}, {15, false}} {
		t.Run(fmt.Sprint(x.version, x.replica), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 1))
			src, dst := testdb.Postgres(t, x.version).NewDatabase(t, "src"), testdb.Postgres(t, x.version).NewDatabase(t, "dst")
			testdb.Query(t, src, schema)
			testdb.Query(t, dst, schema)
			as := dst
			if !x.replica {
				testdb.Query(t, dst, "CREATE ROLE together LOGIN PASSWORD 'x'; GRANT CREATE ON DATABASE "+testdb.Query(t, dst, "SELECT quote_ident(current_database())")+" TO together; GRANT ALL ON ALL TABLES IN SCHEMA public TO together; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO together")
				t.Cleanup(func() { testdb.Query(t, dst, "DROP OWNED BY together; DROP ROLE together") })
				as = strings.Replace(dst, "//"+strings.SplitN(dst[strings.Index(dst, "//")+2:], "@", 2)[0]+"@", "//together:x@", 1)
				// A trigger that acts only where the stream is not applied as a replica.
				testdb.Query(t, dst, "CREATE TRIGGER note BEFORE INSERT ON pair FOR EACH ROW WHEN (NEW.a < 0) EXECUTE FUNCTION note()")
			}
			from, to := open(t, src), open(t, as)
			if x.version == 13 || !x.replica {
				to.Target.distant = 1
			}
			slot := slotOf(t, from, src, fmt.Sprintf("together_%d_%v", x.version, x.replica))
			for range 15 {
				traffic(t, src, rnd, 4)
				families(t, src, rnd, 6)
			}
			testdb.Query(t, src, "INSERT INTO log VALUES (0, 'end')")
			many := applyAll(t, to, pgtest.NewBindAll(t, to.Schema), take(t, from, slot, 0, false), rnd, 30)
			if x.replica && many < 5 {
				t.Errorf("%d statements for many rows", many)
			}
			if to.appliers[0].replica != x.replica {
				t.Errorf("a replica: %v", to.appliers[0].replica)
			}
			for _, table := range []string{"item", "pair", "loose", "whole", `"Odd ""Name"`, "parent", "child", "log", "few", "lots"} {
				sql := "SELECT t::text FROM " + table + " t ORDER BY t::text COLLATE \"C\""
				if a, b := testdb.Query(t, src, sql), testdb.Query(t, dst, sql); a != b {
					t.Errorf("table %s: the source has\n%s\nthe target\n%s", table, a, b)
				}
			}
		})
	}
}

// families makes transactions in which parents and children come and go, and unique
// names change hands.
func families(t *testing.T, url string, rnd *rand.Rand, n int) {
	t.Helper()
	for range n {
		var sql []string
		for range 1 + rnd.IntN(5) {
			p, c, parts := rnd.IntN(5), rnd.IntN(20), []string{"few", "lots"}[rnd.IntN(2)]
			sql = append(sql, []string{
				fmt.Sprintf("INSERT INTO parent VALUES (%d, 'p%d') ON CONFLICT DO NOTHING", p, rnd.IntN(6)),
				fmt.Sprintf("INSERT INTO child SELECT %d + i * 100, id, 'c%d ' || i FROM parent, generate_series(1, 5) i WHERE id = %d ON CONFLICT DO NOTHING", c, rnd.IntN(20), p),
				fmt.Sprintf("DELETE FROM parent WHERE id = %d", p),
				fmt.Sprintf("DELETE FROM child WHERE id %% 100 = %d", c),
				fmt.Sprintf("UPDATE child SET name = NULL WHERE id %% 100 = %d", c),
				fmt.Sprintf("WITH a AS (SELECT id, name FROM child WHERE id %% 100 = %d AND name IS NOT NULL ORDER BY id LIMIT 1) INSERT INTO log SELECT * FROM a", c),
				fmt.Sprintf("UPDATE child c SET parent = p.id FROM parent p WHERE c.id %% 100 = %d AND p.id = %d", c, p),
				fmt.Sprintf("UPDATE child SET id = id + 1000 WHERE id = %d AND NOT EXISTS (SELECT FROM child WHERE id = %d)", c+100, c+1100),
				fmt.Sprintf("DO $$DECLARE a text; BEGIN SELECT name INTO a FROM child WHERE id = %[1]d; UPDATE child SET name = 'x%[2]d' WHERE id = %[1]d; UPDATE child SET name = a WHERE id = %[1]d + 100; END$$", c+100, rnd.IntN(1e9)),
				fmt.Sprintf("INSERT INTO %[1]s SELECT %[2]d, i, 'x' FROM generate_series(0, 2) i ON CONFLICT DO NOTHING", parts, c),
				fmt.Sprintf("UPDATE %s SET v = v || '.' WHERE id %% 3 = %d", parts, c%3),
				fmt.Sprintf("UPDATE %[1]s SET at = 2 WHERE id = %[2]d AND at = 1 AND NOT EXISTS (SELECT FROM %[1]s WHERE id = %[2]d AND at = 2)", parts, c),
				fmt.Sprintf("DELETE FROM %s WHERE id %% 4 = %d", parts, c%4),
			}[rnd.IntN(13)])
		}
		testdb.Query(t, url, "BEGIN; "+strings.Join(sql, "; ")+"; COMMIT")
	}
}

// Values of all types arrive as they are, by statements for one row and for many.
func TestApplyZoo(t *testing.T) {
	for _, version := range []int{15, 18} {
		src := testdb.Postgres(t, version).NewDatabase(t, "src")
		from := open(t, src)
		slot := slotOf(t, from, src, fmt.Sprint("zoo_", version))
		testdb.Load(t, src, testdb.SamplePostgres(t, version, "types-zoo/pg.sql"))
		testdb.Query(t, src, "CREATE TABLE public.finish (t text); INSERT INTO finish VALUES ('begin')")
		names := pgtest.Split(testdb.Query(t, src, strings.Replace(pgtest.ZooTables, "WHERE", "WHERE relpersistence = 'p' AND", 1)))
		for _, name := range names {
			// A table without a key is identified by all its values.
			if testdb.Query(t, src, "SELECT EXISTS (SELECT FROM pg_index WHERE indisprimary AND indrelid = "+server.QuoteLiteral(name)+"::regclass)") == "f" {
				testdb.Query(t, src, "ALTER TABLE "+name+" REPLICA IDENTITY FULL")
			}
			column := testdb.Query(t, src, "SELECT format('%I', attname) FROM pg_attribute WHERE attrelid = "+server.QuoteLiteral(name)+"::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity <> 'a' ORDER BY attnum LIMIT 1")
			if column == "" {
				continue
			}
			testdb.Query(t, src, "SET session_replication_role = replica; UPDATE "+name+" SET "+column+" = "+column)
		}
		testdb.Query(t, src, "INSERT INTO finish VALUES ('end')")
		txs := take(t, from, slot, 0, false)
		for _, many := range []int{1, 1 << 30} {
			t.Run(fmt.Sprint(version, many), func(t *testing.T) {
				dst := testdb.Postgres(t, version).NewDatabase(t, "dst")
				testdb.Load(t, dst, testdb.SamplePostgres(t, version, "types-zoo/pg.sql"))
				empty := "SET session_replication_role = replica; CREATE TABLE public.finish (t text)"
				for _, name := range names {
					empty += "; DELETE FROM " + name
				}
				testdb.Query(t, dst, "DROP RULE IF EXISTS r_nodel ON zoo.parent; "+empty)
				to := open(t, dst)
				to.fromMany = many
				if version == 18 {
					to.Target.distant = 1
				}
				statements := applyAll(t, to, pgtest.NewBindAll(t, to.Schema), txs, rand.New(rand.NewPCG(1, 1)), 20)
				if (statements > 0) != (many == 1) || many == 1 && statements < len(names)/2 {
					t.Errorf("%d statements for many rows, of %d tables", statements, len(names))
				}
				for _, name := range names {
					sql := "SELECT t::text FROM " + name + " t ORDER BY t::text COLLATE \"C\""
					if a, b := testdb.Query(t, src, sql), testdb.Query(t, dst, sql); a != b {
						t.Errorf("table %s: the source has\n%s\nthe target\n%s", name, a, b)
					}
				}
			})
		}
	}
}

// If a table's columns change while it is applied to, no value lands in a wrong column.
func TestApplyToAlteredTable(t *testing.T) { nearAndFar(t, applyToAlteredTable) }

func applyToAlteredTable(t *testing.T) {
	src, dst := testdb.Postgres(t, 15).NewDatabase(t, "src"), testdb.Postgres(t, 15).NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, a text, b text)")
	testdb.Query(t, dst, "CREATE TABLE t (id int PRIMARY KEY, own text, a text, b text)")
	from, to := open(t, src), open(t, dst)
	slot := slotOf(t, from, src, "altered")
	testdb.Query(t, src, "INSERT INTO t SELECT i, 'a' || i, 'b' || i FROM generate_series(1, 10) i")
	for range 5 {
		testdb.Query(t, src, "UPDATE t SET a = a || '.'")
	}
	testdb.Query(t, src, "INSERT INTO t VALUES (0, 'end', '')")
	txs := take(t, from, slot, 0, false)
	bind := pgtest.NewBindAll(t, to.Schema)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i, alter := range []string{"", "ALTER TABLE t ADD more text DEFAULT 'x'", "ALTER TABLE t DROP own", "ALTER TABLE t DROP more, ADD other int DEFAULT 3", "ALTER TABLE t ALTER b TYPE varchar(100)"} {
		if alter != "" {
			testdb.Query(t, dst, alter)
		}
		if many := applyAll(t, to, bind, txs[i:i+1], rnd, 1); i == 0 && many == 0 {
			t.Error("no statement for many rows")
		}
		want := "10 " + strings.Repeat(".", i)
		if got := testdb.Query(t, dst, "SELECT count(*) || ' ' || max(right(a, "+fmt.Sprint(i)+")) FROM t WHERE a = 'a' || id || "+server.QuoteLiteral(strings.Repeat(".", i))+" AND b = 'b' || id"); got != want {
			t.Errorf("%s: %s rows\n%s", alter, got, testdb.Query(t, dst, "TABLE t"))
		}
	}
	if many := applyAll(t, to, bind, txs[5:6], rnd, 1); many == 0 {
		t.Error("no statement for many rows at last")
	}
}

// What cannot be applied by a multi-row statement is applied row by row, and the error names the
// row.
func TestApplyFallsBackToRows(t *testing.T) { nearAndFar(t, applyFallsBackToRows) }

func applyFallsBackToRows(t *testing.T) {
	src, dst := testdb.Postgres(t, 15).NewDatabase(t, "src"), testdb.Postgres(t, 15).NewDatabase(t, "dst")
	for _, url := range []string{src, dst} {
		testdb.Query(t, url, "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, v text); CREATE TABLE f (t text)")
	}
	from, to := open(t, src), open(t, dst)
	slot := slotOf(t, from, src, "fallback")
	testdb.Query(t, src, "INSERT INTO t SELECT i, i, '' FROM generate_series(1, 9) i")
	testdb.Query(t, src, "UPDATE t SET v = 'x'")
	testdb.Query(t, src, "INSERT INTO f VALUES ('end')")
	txs := take(t, from, slot, 0, false)
	bind := pgtest.NewBindAll(t, to.Schema)
	rnd := rand.New(rand.NewPCG(1, 1))
	applyAll(t, to, bind, txs[:1], rnd, 1)
	testdb.Query(t, dst, "DELETE FROM t WHERE id = 5")
	p, err := to.BeginApply(t.Context(), "q", 1)
	if err != nil {
		t.Fatal(err)
	}
	g := &change.Group{Queue: "q", Epoch: p.Epoch, Txs: txs[1:2], Bounds: []map[uint32]*change.Bound{bind.Bounds}, Done: []uint64{txs[1].Place}}
	err = to.Apply(t.Context(), g)
	if tidemark.KindOf(err) != tidemark.BadRow || !strings.Contains(err.Error(), "an update matched 0 rows, not one") {
		t.Errorf("%v", err)
	}
	session := to.appliers[0].conn
	testdb.Query(t, dst, "INSERT INTO t VALUES (5, 5)")
	if err := to.Apply(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if to.appliers[0].conn != session {
		t.Error("the session was not kept")
	}
	if got := testdb.Query(t, dst, "SELECT count(*) FROM t WHERE v = 'x'"); got != "9" {
		t.Errorf("%s rows", got)
	}
	// A relation that is sent again needs nothing new.
	statements := to.appliers[0].names
	for range 150 {
		again := map[uint32]*change.Bound{}
		for id, b := range bind.Bounds {
			copied := *b
			copied.Relation.Columns = slices.Clone(b.Relation.Columns)
			again[id] = &copied
		}
		g.Bounds = []map[uint32]*change.Bound{again}
		if err := to.Apply(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	if a := to.appliers[0]; a.names != statements || len(a.tables) > 110 {
		t.Errorf("%d statements, and then %d; %d tables", statements, a.names, len(a.tables))
	}
}
