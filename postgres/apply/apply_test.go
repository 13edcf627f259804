package apply

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
)

const applySchema = `CREATE TYPE mood AS ENUM ('sad', 'ok');
	CREATE TABLE item (id int PRIMARY KEY, name text UNIQUE, body text, at timestamptz DEFAULT now(), price numeric(9,2), blob bytea, doc jsonb, m mood, tags text[], twice int GENERATED ALWAYS AS (id * 2) STORED);
	ALTER TABLE item ALTER body SET STORAGE external;
	CREATE TABLE pair (a bigint, b char(4), note varchar(20), PRIMARY KEY (a, b));
	CREATE TABLE loose (x int, y json, z point); ALTER TABLE loose REPLICA IDENTITY FULL;
	CREATE TABLE whole (id uuid PRIMARY KEY, v double precision); ALTER TABLE whole REPLICA IDENTITY FULL;
	CREATE TABLE "Odd ""Name" ("a b" int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "select" text);`

// traffic makes transactions of all kinds of statements.
func traffic(t *testing.T, url string, rnd *rand.Rand, n int) {
	t.Helper()
	for range n {
		var sql []string
		for range 1 + rnd.IntN(6) {
			id := rnd.IntN(40)
			sql = append(sql, []string{
				fmt.Sprintf("INSERT INTO item (id, name, body, price, blob, doc, m, tags) VALUES (%[1]d, 'n%[1]d', repeat('b', %[2]d), %[1]d.5, '\\x00ff', '{\"a\": [1, null]}', 'ok', '{a,NULL,\"b c\"}') ON CONFLICT DO NOTHING", id, rnd.IntN(2)*5000),
				fmt.Sprintf("UPDATE item SET price = price + 1, m = NULL WHERE id = %d", id),
				fmt.Sprintf("UPDATE item SET id = id + 100 WHERE id = %d AND NOT EXISTS (SELECT FROM item WHERE id = %d + 100)", id, id),
				fmt.Sprintf("DELETE FROM item WHERE id %% 100 = %d", id),
				fmt.Sprintf("INSERT INTO pair VALUES (%d, '%d', E'tab\\there') ON CONFLICT (a, b) DO UPDATE SET note = NULL", id%5, id%3),
				fmt.Sprintf("UPDATE pair SET b = 'x%[1]d' WHERE a = %[2]d AND b = '1' AND NOT EXISTS (SELECT FROM pair WHERE a = %[2]d AND b = 'x%[1]d')", rnd.IntN(1000), id%5),
				fmt.Sprintf("INSERT INTO loose VALUES (%d, '{\"k\" :1}', '(1,2)'), (%d, NULL, NULL)", id%4, id%4),
				fmt.Sprintf("UPDATE loose SET x = x + 1 WHERE ctid = (SELECT ctid FROM loose WHERE x = %d LIMIT 1)", id%4),
				fmt.Sprintf("DELETE FROM loose WHERE ctid = (SELECT ctid FROM loose WHERE x = %d LIMIT 1)", id%4),
				"INSERT INTO whole VALUES (gen_random_uuid(), 'NaN'), (gen_random_uuid(), -0.1)",
				"UPDATE whole SET v = v * 2 WHERE id = (SELECT id FROM whole ORDER BY id LIMIT 1)",
				"DELETE FROM whole WHERE id = (SELECT id FROM whole ORDER BY id LIMIT 1)",
				fmt.Sprintf(`INSERT INTO "Odd ""Name" ("select") VALUES ('%d')`, id),
				fmt.Sprintf(`UPDATE "Odd ""Name" SET "select" = NULL WHERE "a b" = %d`, id),
				"SAVEPOINT s; DELETE FROM pair; ROLLBACK TO SAVEPOINT s",
			}[rnd.IntN(15)])
		}
		if rnd.IntN(40) == 0 {
			sql = append(sql, "TRUNCATE loose")
		}
		testdb.Query(t, url, "BEGIN; "+strings.Join(sql, "; ")+"; COMMIT")
	}
}

// contents returns all rows of all tables, in a stable order.
func contents(t *testing.T, url string) string {
	t.Helper()
	var out []string
	for _, table := range []string{"item", "pair", "loose", "whole", `"Odd ""Name"`} {
		out = append(out, table, testdb.Query(t, url, "SELECT t::text FROM "+table+" t ORDER BY t::text COLLATE \"C\""))
	}
	return strings.Join(out, "\n")
}

// The target repeats what was done on the source, transaction by transaction, and the progress row
// records how far.
func TestApply(t *testing.T) {
	versions := []int{13, 15, 18}
	if testing.Short() {
		versions = []int{15}
	}
	for _, version := range versions {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			src, dst := testdb.Postgres(t, version).NewDatabase(t, "src"), testdb.Postgres(t, 15).NewDatabase(t, "dst")
			testdb.Query(t, src, applySchema)
			testdb.Query(t, dst, applySchema)
			from, to := open(t, src), open(t, dst)
			if version != 15 {
				to.Target.distant = 1
			}
			slot := slotOf(t, from, src, fmt.Sprint("apply_", version))
			traffic(t, src, rand.New(rand.NewPCG(seed, 1)), 150)
			testdb.Query(t, src, "INSERT INTO loose (x, y) VALUES (0, '\"end\"'); SELECT 'end'")
			testdb.Query(t, src, "INSERT INTO pair VALUES (999, 'z', 'end')")
			bind := pgtest.NewBindAll(t, to.Schema)
			p, err := to.BeginApply(t.Context(), "q", 2)
			if err != nil || p.Epoch < 1<<50 || p.Low != 0 {
				t.Fatal(p, err)
			}
			var last uint64
			for i, tx := range take(t, from, slot, 0, false) {
				g := &change.Group{Queue: "q", Agent: i % 2, Epoch: p.Epoch, Txs: []*change.Tx{tx}, Bounds: []map[uint32]*change.Bound{bind.Take(t, tx)}, Low: last, Done: []uint64{tx.Place}}
				if err := to.Apply(t.Context(), g); err != nil {
					t.Fatalf("transaction %d: %v\n%s", i, err, strings.Join(pgtest.Lines(t, tx, map[uint32]change.Relation{}), "\n"))
				}
				last = tx.Place
			}
			if a, b := contents(t, src), contents(t, dst); a != b {
				t.Errorf("the source has\n%s\nthe target\n%s", a, b)
			}
			again, err := to.BeginApply(t.Context(), "q", 1)
			if err != nil || again.Epoch != p.Epoch+1 || again.Low >= last || len(again.Done) == 0 || again.Done[len(again.Done)-1] != last {
				t.Errorf("got %+v, %v; the last transaction was %d", again, err, last)
			}
		})
	}
}

// A group is on the target with its progress, or not at all.
func TestApplyIsWholeOrNothing(t *testing.T) { nearAndFar(t, applyIsWholeOrNothing) }

func applyIsWholeOrNothing(t *testing.T) {
	src, dst := testdb.Postgres(t, 15).NewDatabase(t, "src"), testdb.Postgres(t, 15).NewDatabase(t, "dst")
	testdb.Query(t, src, applySchema)
	testdb.Query(t, dst, applySchema)
	from, to := open(t, src), open(t, dst)
	slot := slotOf(t, from, src, "nothing")
	testdb.Query(t, src, "INSERT INTO item (id, name) SELECT i, 'n' || i FROM generate_series(1, 3000) i")
	testdb.Query(t, src, "UPDATE item SET name = 'other' WHERE id = 3000")
	testdb.Query(t, src, "INSERT INTO pair VALUES (1, 'e', 'end')")
	txs := take(t, from, slot, 0, false)
	bind := pgtest.NewBindAll(t, to.Schema)
	p, err := to.BeginApply(t.Context(), "q", 1)
	if err != nil {
		t.Fatal(err)
	}
	var places []uint64
	g := &change.Group{Queue: "q", Epoch: p.Epoch, Txs: txs}
	for _, tx := range txs {
		g.Bounds = append(g.Bounds, bind.Take(t, tx))
		places = append(places, tx.Place)
	}
	g.Done = places
	state := func() string {
		return testdb.Query(t, dst, "SELECT count(*) FROM item") + " " + testdb.Query(t, dst, "SELECT done::text FROM tidemark.applied WHERE agent = 0")
	}
	fails := func(want tidemark.Kind, text string) {
		t.Helper()
		before := state()
		err := to.Apply(t.Context(), g)
		if tidemark.KindOf(err) != want || !strings.Contains(err.Error(), text) || tidemark.HintOf(err) == "" && want != tidemark.Transient {
			t.Errorf("%v: %v (%s)", tidemark.KindOf(err), err, tidemark.HintOf(err))
		}
		if after := state(); after != before {
			t.Errorf("before: %s, after: %s", before, after)
		}
	}
	// A row that is in the way, and one that is missing.
	testdb.Query(t, dst, "INSERT INTO item (id, name) VALUES (2999, 'mine')")
	fails(tidemark.BadRow, "item_pkey")
	testdb.Query(t, dst, "DELETE FROM item")
	insert := g.Txs[0]
	g.Txs[0] = &change.Tx{Place: insert.Place, End: insert.End}
	fails(tidemark.BadRow, "an update matched 0 rows")
	g.Txs[0] = insert
	// A later apply has taken over.
	if _, err := to.BeginApply(t.Context(), "q", 1); err != nil {
		t.Fatal(err)
	}
	fails(tidemark.Lost, "another apply")
	g.Epoch++
	if err := to.Apply(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if got := testdb.Query(t, dst, "SELECT count(*) FROM item"); got != "3000" {
		t.Errorf("%s rows", got)
	}
	// Its session is terminated: the group is applied by a new one, or the error is transient.
	testdb.Query(t, dst, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	g.Txs, g.Bounds = g.Txs[2:], g.Bounds[2:]
	testdb.Query(t, dst, "DELETE FROM pair")
	if err := to.Apply(t.Context(), g); err != nil && tidemark.KindOf(err) != tidemark.Transient {
		t.Errorf("%v: %v", tidemark.KindOf(err), err)
	}
}
