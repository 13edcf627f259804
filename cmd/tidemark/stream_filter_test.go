package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// filterTables are filtered by a key, by all columns, and where the partitions define how a row is
// identified; one is unfiltered.
const filterTables = `
CREATE TABLE tenant (region text, id int, name text, secret text, big text, PRIMARY KEY (region, id));
CREATE TABLE note (id int PRIMARY KEY, kind int, big text, secret text); ALTER TABLE note REPLICA IDENTITY FULL, ALTER big SET STORAGE EXTERNAL;
CREATE TABLE day (id int, on_day date, n int, secret int, PRIMARY KEY (on_day, id)) PARTITION BY RANGE (on_day);
CREATE TABLE day_1 PARTITION OF day FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE day_2 PARTITION OF day FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE plain (id int PRIMARY KEY, secret text, v int);
INSERT INTO tenant SELECT CASE WHEN i % 2 = 0 THEN 'EU' ELSE 'US' END, i, 'n' || i, 's', 'b' FROM generate_series(1, 20) i;
INSERT INTO note SELECT i, i % 4, repeat('x', 5000), 's' FROM generate_series(1, 20) i;
INSERT INTO day SELECT i, date '2026-01-20' + i, i, 1 FROM generate_series(1, 20) i;
INSERT INTO plain SELECT i, 's', 1 FROM generate_series(1, 5) i;
`

const filterRules = `
tables:
  tenant: {where: "region <> 'US' -- not theirs", drop: [secret]}
  note: {where: kind = 1 or kind is null, drop: [secret]}
  day: {where: on_day >= '2026-01-28' and id < 18, drop: [secret]}
  plain: {drop: [secret]}
`

// TestStreamFilters moves rows into and out of the filters of a stream in all ways, and excludes
// columns: their values do not leave the source, if it can filter columns.
func TestStreamFilters(t *testing.T) {
	t.Parallel()
	for _, x := range []pair{{"15 to 15", pg15, pg15}, {"18 to mariadb", func(t *testing.T) *testdb.Server { return testdb.Postgres(t, 18) }, maria}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			testdb.Load(t, src, strings.NewReader(filterTables))
			rules := testdb.Written(t, "rules.yaml", filterRules)
			if x.dst(t).Engine != "postgres" { // texts cannot be keys there
				rules = testdb.Written(t, "rules.yaml", strings.Replace(filterRules, "drop: [secret]}", "drop: [secret], types: {region: varchar(20)}}", 1))
			}
			args := []string{"replicate", src, dst, "--config", rules, "--name", name, "--until", "now"}
			must(t, args...)
			must(t, "diff", src, dst, "--config", rules)
			if got := testdb.Query(t, src, "SELECT tablename, attnames::text FROM pg_publication_tables ORDER BY 1"); got != "day\t{id,on_day,n}\nnote\t{id,kind,big,secret}\nplain\t{id,v}\ntenant\t{region,id,name,big}" {
				t.Errorf("published are\n%s", got)
			}
			testdb.Load(t, src, strings.NewReader(`
				UPDATE tenant SET name = 'x' WHERE id < 5; UPDATE tenant SET region = 'US' WHERE id = 2; UPDATE tenant SET region = 'EU' WHERE id = 3;
				UPDATE tenant SET id = id + 100 WHERE id > 16; DELETE FROM tenant WHERE id IN (5, 6); INSERT INTO tenant VALUES ('EU', 50, 'new'), ('US', 51, 'new');
				BEGIN; UPDATE tenant SET region = 'EU' WHERE id = 51; UPDATE tenant SET region = 'US' WHERE id = 51; COMMIT;
				UPDATE note SET kind = 1 WHERE kind = 0; UPDATE note SET kind = 3 WHERE kind = 1 AND id > 10; UPDATE note SET kind = NULL WHERE id < 4; DELETE FROM note WHERE id = 7;
				UPDATE day SET n = n + 1; UPDATE day SET on_day = on_day + 5; UPDATE day SET on_day = on_day - 9 WHERE id > 9; UPDATE day SET id = 17 WHERE id = 20; DELETE FROM day WHERE id = 12;
				UPDATE plain SET v = 2, secret = 't' WHERE id < 3; TRUNCATE plain; INSERT INTO plain VALUES (9, 's', 9)`))
			must(t, args...)
			must(t, "diff", src, dst, "--config", rules)
			if got := testdb.Query(t, dst, "SELECT count(*) FROM tenant WHERE region = 'US'"); got != "0" {
				t.Errorf("%s rows are there that the filter leaves out", got)
			}
			// The rules it started with apply to the end.
			other := testdb.Written(t, "other.yaml", strings.Replace(filterRules, "kind = 1", "kind = 2", 1))
			o := cli(t, "replicate", src, dst, "--config", other, "--name", name, "--until", "now")
			if o.code == 0 || !strings.Contains(o.errOut, "public.note: its row filter has changed since the stream started") {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
			testdb.Query(t, src, "ALTER TABLE plain ADD late int")
			if o := cli(t, args...); o.code == 0 || !strings.Contains(o.errOut, "public.plain: its column late is not in the stream") {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
			must(t, append(args, "--remove")...)
		})
	}
}

// TestStreamFiltersRefused names invalid filters before anything is done, and a row that is not in
// the log.
func TestStreamFiltersRefused(t *testing.T) {
	t.Parallel()
	src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(filterTables))
	testdb.Query(t, src, "ALTER TABLE tenant ALTER big SET STORAGE EXTERNAL; UPDATE tenant SET big = repeat('y', 9000)")
	for where, want := range map[string]string{
		"tenant: {where: name = 'x'}":               "public.tenant: its row filter uses name, which the replica identity does not have",
		"day: {where: n + id > 3}":                  "public.day: its row filter uses n, which the replica identity does not have",
		"note: {where: random() < 0.5}":             "public.note: the server does not take its row filter for a publication",
		"note: {where: id in (select id from day)}": "public.note: the server does not take its row filter for a publication",
	} {
		o := cli(t, "replicate", src, dst, "--config", testdb.Written(t, "rules.yaml", "tables:\n  "+where+"\n"), "--name", name, "--until", "now")
		if o.code == 0 || !strings.Contains(o.errOut, want) || !strings.Contains(o.errOut, "hint: ") {
			t.Errorf("%s: exit %d\n%s", where, o.code, o.errOut)
		}
		nothingOfAStream(t, src)
		if got := testdb.Query(t, dst, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"); got != "0" {
			t.Errorf("%s: the target has %s tables", where, got)
		}
	}
	args := []string{"replicate", src, dst, "--config", testdb.Written(t, "rules.yaml", "tables:\n  tenant: {where: region <> 'US'}\n"), "--name", name, "--until", "now"}
	must(t, args...)
	testdb.Query(t, src, "UPDATE tenant SET region = 'EU' WHERE id = 3")
	if o := cli(t, args...); o.code == 0 || !strings.Contains(o.errOut, "public.tenant: an update moved a row into the row filter") || !strings.Contains(o.errOut, "REPLICA IDENTITY FULL") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	testdb.Query(t, src, "ALTER TABLE tenant REPLICA IDENTITY FULL")
	must(t, append(args, "--anew", "--prep", "truncate")...)
	testdb.Query(t, src, "UPDATE tenant SET region = 'EU' WHERE id = 5")
	must(t, args...)
	must(t, append([]string{"diff", src, dst}, args[3:5]...)...)
	must(t, append(args, "--remove")...)
}

// soughtTables are filtered where the log is captured: by changing columns, by part of the key, and
// by values of several types.
const soughtTables = `
CREATE TABLE item (id int PRIMARY KEY, region varchar(8), n int, big text, v int)%[1]s;
CREATE TABLE tenant (region varchar(8) NOT NULL, id int NOT NULL, v int, PRIMARY KEY (region, id))%[1]s;
CREATE TABLE sale (id int PRIMARY KEY, on_day date, price decimal(10,2), note text)%[1]s;
CREATE TABLE whole (id int PRIMARY KEY, v int)%[1]s;
`

const soughtRules = `{"rules": [
  {"rule-type": "selection", "rule-id": "1", "rule-name": "all", "rule-action": "include", "object-locator": {"schema-name": "%", "table-name": "%"}},
  {"rule-type": "selection", "rule-id": "2", "rule-name": "item", "rule-action": "include", "object-locator": {"schema-name": "%", "table-name": "item"}, "filters": [
    {"filter-type": "source", "column-name": "region", "filter-conditions": [{"filter-operator": "eq", "value": "EU"}, {"filter-operator": "eq", "value": "CH"}]},
    {"filter-type": "source", "column-name": "n", "filter-conditions": [{"filter-operator": "between", "start-value": "10", "end-value": "60"}]}]},
  {"rule-type": "selection", "rule-id": "3", "rule-name": "tenant", "rule-action": "include", "object-locator": {"schema-name": "%", "table-name": "tenant"}, "filters": [
    {"filter-type": "source", "column-name": "region", "filter-conditions": [{"filter-operator": "noteq", "value": "US"}]}]},
  {"rule-type": "selection", "rule-id": "4", "rule-name": "sale", "rule-action": "include", "object-locator": {"schema-name": "%", "table-name": "sale"}, "filters": [
    {"filter-type": "source", "column-name": "on_day", "filter-conditions": [{"filter-operator": "gte", "value": "2026-01-10"}, {"filter-operator": "null"}]},
    {"filter-type": "source", "column-name": "price", "filter-conditions": [{"filter-operator": "ste", "value": "49.95"}]}]}]}`

// outsideOf counts rows that the rules exclude.
const outsideOf = `SELECT (SELECT count(*) FROM item WHERE region NOT IN ('EU', 'CH') OR region IS NULL OR n NOT BETWEEN 10 AND 60 OR n IS NULL) +
	(SELECT count(*) FROM tenant WHERE region = 'US') + (SELECT count(*) FROM sale WHERE on_day < '2026-01-10' OR price > 49.95 OR price IS NULL)`

// seek moves rows into and out of the filters until stop is closed.
func seek(t *testing.T, url string, seed uint64, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	region := func() string { return []string{"'EU'", "'US'", "'CH'", "'JP'"}[rnd.IntN(4)] }
	s := testdb.NewSession(url)
	defer s.Close()
	for n := 0; goesOn(stop); {
		var script strings.Builder
		for range 10 {
			n++
			id := 1 + rnd.IntN(200)
			own := 1000 + int(seed%1000)*100_000 + n
			sql := []string{
				fmt.Sprintf("UPDATE item SET region = %s, v = %d WHERE id = %d", region(), n, id),
				fmt.Sprintf("UPDATE item SET n = %d WHERE id %% 50 = %d", rnd.IntN(80), id%50),
				fmt.Sprintf("UPDATE item SET v = v + 1 WHERE id = %d", id),
				fmt.Sprintf("UPDATE item SET id = id + 100000000 WHERE id = %d; DELETE FROM item WHERE id = %d", id, id+100_000_000),
				fmt.Sprintf("INSERT INTO item VALUES (%d, %s, %d, '%s', 0)", own, region(), rnd.IntN(80), strings.Repeat(fmt.Sprint(n), 900)),
				fmt.Sprintf("DELETE FROM item WHERE id %% 200 = %d", id),
				fmt.Sprintf("UPDATE tenant SET region = %s WHERE id = %d", region(), id),
				fmt.Sprintf("INSERT INTO tenant VALUES (%s, %d, 1); UPDATE tenant SET region = %s, v = 2 WHERE id = %d", region(), own, region(), own),
				fmt.Sprintf("DELETE FROM tenant WHERE id %% 100 = %d", id%100),
				fmt.Sprintf("INSERT INTO sale VALUES (%d, '2026-01-%02d', %d.%02d, 'x')", own, 1+rnd.IntN(20), rnd.IntN(90), rnd.IntN(100)),
				fmt.Sprintf("UPDATE sale SET on_day = NULL WHERE id %% 30 = %d; UPDATE sale SET price = 49.95 + %d WHERE id %% 30 = %d", id%30, rnd.IntN(2), id%30+1),
				fmt.Sprintf("UPDATE sale SET on_day = '2026-01-%02d' WHERE id %% 20 = %d", 5+rnd.IntN(10), id%20),
				fmt.Sprintf("INSERT INTO whole VALUES (%d, 1); UPDATE whole SET v = v + 1 WHERE id %% 30 = %d", own, id%30),
			}[rnd.IntN(13)]
			fmt.Fprintf(&script, "BEGIN; %s; COMMIT;\n", sql)
		}
		if _, err := s.Try(script.String()); err != nil {
			t.Error(err)
			return
		}
	}
}

// TestStreamFiltersHere filters the rows of sources that cannot filter them, in a stream and in two
// halves of one, while rows enter and leave the filter.
func TestStreamFiltersHere(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
		halves   bool
	}{
		{"mariadb to postgres", maria, pg15, true},
		{"mysql to mysql", mysql8, mysql8, false},
		{"postgres 14 to 15", func(t *testing.T) *testdb.Server { return testdb.Postgres(t, 14) }, pg15, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			if x.src(t).Engine == "postgres" {
				testdb.Load(t, src, strings.NewReader(fmt.Sprintf(soughtTables, "")+"ALTER TABLE item REPLICA IDENTITY FULL, ALTER big SET STORAGE EXTERNAL; ALTER TABLE sale REPLICA IDENTITY FULL"))
			} else {
				testdb.Load(t, src, strings.NewReader(fmt.Sprintf(soughtTables, " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")))
			}
			rules := []string{"--table-mappings", testdb.Written(t, "rules.json", soughtRules)}
			verbs, args := []string{"replicate"}, []string{src, dst, "--name", name, "--until", "now"}
			if x.halves {
				verbs, args = []string{"capture", "apply"}, append(args, "--queue", natsServer(t))
			}
			catchUp := func() {
				t.Helper()
				for _, verb := range verbs {
					must(t, slices.Concat([]string{verb}, args, rules)...)
				}
			}
			seed, stop := testdb.Seed(t), make(chan struct{})
			insert := ""
			for id := 1; id <= 200; id++ {
				insert += fmt.Sprintf("INSERT INTO item VALUES (%d, '%s', %d, '%s', 0); INSERT INTO tenant VALUES ('%[2]s', %[1]d, 0);\n", id, []string{"EU", "US", "CH", "JP"}[id%4], id%80, strings.Repeat("b", 4000))
			}
			testdb.Load(t, src, strings.NewReader(insert))
			var wg sync.WaitGroup
			wg.Go(func() { seek(t, src, seed, stop) })
			halt := sync.OnceFunc(func() { close(stop); wg.Wait() })
			t.Cleanup(halt)
			for round := range 3 {
				if round == 2 && x.src(t).Engine == "postgres" {
					must(t, "sub", "reload", "public.item", "--name", name)
				}
				catchUp()
			}
			halt()
			testdb.Load(t, src, strings.NewReader("TRUNCATE TABLE whole; INSERT INTO whole VALUES (1, 1)"))
			catchUp()
			must(t, append([]string{"diff", src, dst}, rules...)...)
			if n := testdb.Query(t, dst, outsideOf); n != "0" {
				t.Errorf("the target has %s rows that the rules leave out", n)
			}
			for _, table := range []string{"item", "tenant", "sale", "whole"} {
				if n := testdb.Query(t, dst, "SELECT count(*) > 0 FROM "+table); n != "t" && n != "1" {
					t.Errorf("nothing is in %s", table)
				}
			}
			// The rules it started with apply to the end.
			other := testdb.Written(t, "other.json", strings.Replace(soughtRules, `"US"`, `"JP"`, 1))
			if o := cli(t, slices.Concat(verbs[:1], args, []string{"--table-mappings", other})...); o.code != 7 || !strings.Contains(o.errOut, ".tenant: its row filter has changed since the stream started") {
				t.Errorf("exit %d\n%s", o.code, o.errOut)
			}
		})
	}
}

// TestStreamFiltersHereRefused reports filters that are impossible, before anything is done.
func TestStreamFiltersHereRefused(t *testing.T) {
	t.Parallel()
	pg14 := func(t *testing.T) *testdb.Server { return testdb.Postgres(t, 14) }
	sql := `tables: {item: {where: n > 1}}`
	for _, x := range []struct {
		name, table, rules string
		srv                func(*testing.T) *testdb.Server
	}{
		{"filter-in-sql-mariadb", "", sql, maria},
		{"filter-in-sql-postgres", "", sql, pg14},
		{"filter-by-collation-mysql", " COLLATE utf8mb4_general_ci", soughtRules, mysql8},
		{"filter-by-other-than-key-postgres", "", soughtRules, pg14},
		{"filter-by-zero-dates-mariadb", " COLLATE utf8mb4_bin", soughtRules, maria},
		{"filter-without-images-mariadb", " COLLATE utf8mb4_bin", soughtRules, func(t *testing.T) *testdb.Server { return testdb.OwnMariaDB(t, "--binlog-row-image=MINIMAL") }},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			srv := x.srv(t)
			src, dst := srv.NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst")
			testdb.Load(t, src, strings.NewReader(fmt.Sprintf(soughtTables, x.table)))
			args := []string{"replicate", src, dst, "--name", streamName(), "--table-mappings", testdb.Written(t, "rules.json", x.rules)}
			if x.rules == sql {
				args[5], args[6] = "--config", testdb.Written(t, "rules.yaml", x.rules)
			}
			if strings.Contains(x.name, "zero-dates") {
				args = append(args, "--zero-dates", "null")
			}
			sameText(t, cli(t, args...), 7, args)
			if srv.Engine == "postgres" {
				nothingOfAStream(t, src)
			}
			if got := testdb.Query(t, dst, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"); got != "0" {
				t.Errorf("the target has %s tables", got)
			}
		})
	}
}
