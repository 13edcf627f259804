package main

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// filterTables are filtered by a key, by all columns, and where partitions say what tells
// a row; one is whole.
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

// TestStreamFilters takes rows into and out of the filters of a stream in all ways, and
// leaves out columns: values of these do not leave the source, where it can do that.
func TestStreamFilters(t *testing.T) {
	t.Parallel()
	for _, x := range []pair{{"15 to 15", pg15, pg15}, {"18 to mariadb", func(t *testing.T) *testdb.Server { return testdb.Postgres(t, 18) }, maria}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			testdb.Load(t, src, strings.NewReader(filterTables))
			rules := written(t, "rules.yaml", filterRules)
			if x.dst(t).Engine != "postgres" { // texts cannot be keys there
				rules = written(t, "rules.yaml", strings.Replace(filterRules, "drop: [secret]}", "drop: [secret], types: {region: varchar(20)}}", 1))
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
			// The rules that it began with hold to the end.
			other := written(t, "other.yaml", strings.Replace(filterRules, "kind = 1", "kind = 2", 1))
			o := cli(t, "replicate", src, dst, "--config", other, "--name", name, "--until", "now")
			if o.code == 0 || !strings.Contains(o.errOut, "public.note: its row filter is another than when the stream began") {
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

// TestStreamFiltersRefused names what a filter must not be before anything is done, and a
// row that the log does not tell.
func TestStreamFiltersRefused(t *testing.T) {
	t.Parallel()
	src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	testdb.Load(t, src, strings.NewReader(filterTables))
	testdb.Query(t, src, "ALTER TABLE tenant ALTER big SET STORAGE EXTERNAL; UPDATE tenant SET big = repeat('y', 9000)")
	for where, want := range map[string]string{
		"tenant: {where: name = 'x'}":               "public.tenant: its row filter is by name, which the replica identity does not have",
		"day: {where: n + id > 3}":                  "public.day: its row filter is by n, which the replica identity does not have",
		"note: {where: random() < 0.5}":             "public.note: the server does not take its row filter for a publication",
		"note: {where: id in (select id from day)}": "public.note: the server does not take its row filter for a publication",
	} {
		o := cli(t, "replicate", src, dst, "--config", written(t, "rules.yaml", "tables:\n  "+where+"\n"), "--name", name, "--until", "now")
		if o.code == 0 || !strings.Contains(o.errOut, want) || !strings.Contains(o.errOut, "hint: ") {
			t.Errorf("%s: exit %d\n%s", where, o.code, o.errOut)
		}
		nothingOfAStream(t, src)
		if got := testdb.Query(t, dst, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"); got != "0" {
			t.Errorf("%s: the target has %s tables", where, got)
		}
	}
	args := []string{"replicate", src, dst, "--config", written(t, "rules.yaml", "tables:\n  tenant: {where: region <> 'US'}\n"), "--name", name, "--until", "now"}
	must(t, args...)
	testdb.Query(t, src, "UPDATE tenant SET region = 'EU' WHERE id = 3")
	if o := cli(t, args...); o.code == 0 || !strings.Contains(o.errOut, "public.tenant: an update took a row into the row filter") || !strings.Contains(o.errOut, "REPLICA IDENTITY FULL") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	testdb.Query(t, src, "ALTER TABLE tenant REPLICA IDENTITY FULL")
	must(t, append(args, "--anew", "--prep", "truncate")...)
	testdb.Query(t, src, "UPDATE tenant SET region = 'EU' WHERE id = 5")
	must(t, args...)
	must(t, append([]string{"diff", src, dst}, args[3:5]...)...)
	must(t, append(args, "--remove")...)
}
