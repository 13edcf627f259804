package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/load"
)

// ruled are tables for rules; every fifth row of orders has no region.
const ruled = `
CREATE TABLE orders (id int PRIMARY KEY, region varchar(9), total decimal(10,2), secret varchar(20), invoice_id int);
INSERT INTO orders SELECT %[1]s, CASE %[1]s %% 5 WHEN 0 THEN NULL WHEN 1 THEN 'AS' WHEN 2 THEN 'EU' WHEN 3 THEN 'UK' ELSE 'US' END, %[1]s * 1.5, 'hush', %[1]s FROM %[2]s;
CREATE INDEX orders_region ON orders (region);
CREATE TABLE invoice (id int PRIMARY KEY, issued date);
INSERT INTO invoice VALUES (1, '2023-12-31'), (2, '2024-01-01'), (3, NULL), (4, '2025-06-01');
CREATE TABLE item (id int PRIMARY KEY, price decimal(10,2) NOT NULL, descr text);
INSERT INTO item VALUES (1, 9.99, 'one'), (2, 19.5, 'two');
CREATE TABLE tmp_a (id int);
INSERT INTO tmp_a VALUES (1);
CREATE TABLE tmp_keep (id int);
`

func ruledOn(t *testing.T, srv *testdb.Server) string {
	t.Helper()
	if srv.Engine == "postgres" {
		return sqlOn(t, srv, fmt.Sprintf(ruled, "i", "generate_series(1, 1000) i"))
	}
	return sqlOn(t, srv, fmt.Sprintf(ruled, "seq", "seq_1_to_1000"))
}

const ruledYAML = `
include: "S.*"
exclude: "S.tmp_*"
rename:
  schemas: {S: T}
  tables: {S.item: product}
  columns: {S.item.price: cost}
tables:
  S.orders: {drop: [secret], split: {columns: [region, id], bounds: [[EU, 500], [UK, 0]]}, order: 9}
  S.invoice: {where: "issued >= '2024-01-01' or issued is null"}
  S.item: {types: {price: "numeric(18,4)"}}
options:
  lanes: 2
`

const ruledDMS = `{"rules": [
  {"rule-type": "selection", "rule-id": "1", "rule-name": "1", "rule-action": "include", "object-locator": {"schema-name": "S", "table-name": "%"}},
  {"rule-type": "selection", "rule-id": "2", "rule-name": "2", "rule-action": "exclude", "object-locator": {"schema-name": "S", "table-name": "tmp%"}},
  {"rule-type": "selection", "rule-id": "3", "rule-name": "3", "rule-action": "include", "object-locator": {"schema-name": "S", "table-name": "invoice"},
   "filters": [{"filter-type": "source", "column-name": "issued", "filter-conditions": [{"filter-operator": "gte", "value": "2024-01-01"}, {"filter-operator": "null"}]}]},
  {"rule-type": "selection", "rule-id": "4", "rule-name": "4", "rule-action": "include", "load-order": "9", "object-locator": {"schema-name": "S", "table-name": "orders"}},
  {"rule-type": "transformation", "rule-id": "5", "rule-name": "5", "rule-target": "schema", "rule-action": "rename", "object-locator": {"schema-name": "S"}, "value": "T"},
  {"rule-type": "transformation", "rule-id": "6", "rule-name": "6", "rule-target": "table", "rule-action": "rename", "object-locator": {"schema-name": "S", "table-name": "item"}, "value": "product"},
  {"rule-type": "transformation", "rule-id": "7", "rule-name": "7", "rule-target": "column", "rule-action": "rename", "object-locator": {"schema-name": "S", "table-name": "item", "column-name": "price"}, "value": "cost"},
  {"rule-type": "transformation", "rule-id": "8", "rule-name": "8", "rule-target": "column", "rule-action": "change-data-type", "object-locator": {"schema-name": "S", "table-name": "item", "column-name": "price"},
   "data-type": {"type": "numeric", "precision": 18, "scale": 4}},
  {"rule-type": "transformation", "rule-id": "9", "rule-name": "9", "rule-target": "column", "rule-action": "remove-column", "object-locator": {"schema-name": "S", "table-name": "orders", "column-name": "secret"}},
  {"rule-type": "table-settings", "rule-id": "10", "rule-name": "10", "object-locator": {"schema-name": "S", "table-name": "orders"},
   "parallel-load": {"type": "ranges", "columns": ["region", "id"], "boundaries": [["EU", 500], ["UK", 0]]}}
]}`

// schemaOf returns the schema name that rules use for the tables.
func schemaOf(db string) string {
	if strings.HasPrefix(db, "postgres") {
		return "public"
	}
	u, _ := url.Parse(db)
	return strings.Trim(u.Path, "/")
}

// TestRules copies by rules of both formats, and compares by the same.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{{"postgres to postgres", pg15, pg15}, {"mariadb to postgres", maria, pg15}, {"postgres to mariadb", pg15, maria}, {"mariadb to mariadb", maria, maria}} {
		for _, form := range []string{"yaml", "dms"} {
			t.Run(p.name+" "+form, func(t *testing.T) {
				t.Parallel()
				src, dst := ruledOn(t, p.src(t)), p.dst(t).NewDatabase(t, "dst")
				into := "store" // created by the copy
				if p.dst(t).Engine != "postgres" {
					into = schemaOf(dst)
				}
				var args []string
				if form == "yaml" {
					text := strings.NewReplacer("S.", schemaOf(src)+".", "{S:", "{"+schemaOf(src)+":", "T}", into+"}").Replace(ruledYAML)
					args = []string{"--config", testdb.Written(t, "task.yaml", "source: "+src+"\ntarget: "+dst+"\n"+text)}
				} else {
					text := strings.NewReplacer(`"S"`, `"`+schemaOf(src)+`"`, `"T"`, `"`+into+`"`).Replace(ruledDMS)
					args = []string{src, dst, "--table-mappings", testdb.Written(t, "mappings.json", text)}
				}
				must(t, append([]string{"copy"}, args...)...)
				must(t, append([]string{"diff"}, args...)...)
				checkRuled(t, dst, into)
			})
		}
	}
}

func checkRuled(t *testing.T, dst, schema string) {
	t.Helper()
	for sql, want := range map[string]string{
		"SELECT table_name FROM information_schema.tables WHERE table_schema = '" + schema + "' ORDER BY 1":                                                                       "invoice\norders\nproduct",
		"SELECT column_name FROM information_schema.columns WHERE table_schema = '" + schema + "' AND table_name = 'orders' ORDER BY ordinal_position":                            "id\nregion\ntotal\ninvoice_id",
		"SELECT numeric_precision, numeric_scale FROM information_schema.columns WHERE table_schema = '" + schema + "' AND table_name = 'product' AND column_name = 'cost'":       "18\t4",
		"SELECT count(*), count(region), count(DISTINCT id) FROM " + schema + ".orders":                                                                                           "1000\t800\t1000",
		"SELECT id FROM " + schema + ".invoice ORDER BY id":                                                                                                                       "2\n3\n4",
		"SELECT id, cost FROM " + schema + ".product ORDER BY id":                                                                                                                 "1\t9.9900\n2\t19.5000",
		"SELECT count(*) FROM information_schema.table_constraints WHERE table_schema = '" + schema + "' AND constraint_type = 'PRIMARY KEY' AND table_name NOT LIKE 'tidemark%'": "3",
	} {
		if got := testdb.Query(t, dst, sql); got != want {
			t.Errorf("%s\ngives\n%s\nnot\n%s", sql, got, want)
		}
	}
	var report struct {
		Tables []catalog.TableStat `json:"tables"`
	}
	decode(t, must(t, "report", "--json").out, &report)
	for _, s := range report.Tables {
		if s.Name == "orders" && (s.Ranges != 3 || s.RangesDone != 3 || s.FullLoadRows != 1000) {
			t.Errorf("orders went in %+v, not in the 3 ranges of the rule", s)
		}
	}
}

// decode parses one document. What takes longer than a second prints its progress before it, an
// object a line.
func decode(t *testing.T, text string, into any) {
	t.Helper()
	for {
		line, rest, more := strings.Cut(text, "\n")
		if !more || strings.TrimSpace(rest) == "" || !json.Valid([]byte(line)) {
			break
		}
		text = rest
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// TestPartitionRules copies only some partitions, and all of them one by one.
func TestPartitionRules(t *testing.T) {
	t.Parallel()
	mappings := func(t *testing.T, schema, load string) string {
		return testdb.Written(t, "mappings.json", `{"rules": [
			{"rule-type": "selection", "rule-id": 1, "rule-name": "1", "rule-action": "include", "object-locator": {"schema-name": "`+schema+`", "table-name": "%"}},
			{"rule-type": "table-settings", "rule-id": 2, "rule-name": "2", "object-locator": {"schema-name": "`+schema+`", "table-name": "sale"}, "parallel-load": `+load+`}]}`)
	}
	my := "CREATE TABLE sale (id int NOT NULL, y int NOT NULL, PRIMARY KEY (id, y)) PARTITION BY RANGE (y) (PARTITION p22 VALUES LESS THAN (2023), PARTITION p23 VALUES LESS THAN (2024), PARTITION pmax VALUES LESS THAN MAXVALUE); INSERT INTO sale SELECT seq, 2022 + seq % 4 FROM seq_1_to_400;"
	pg := "CREATE TABLE sale (id int NOT NULL, y int, PRIMARY KEY (id, y)) PARTITION BY RANGE (y); CREATE TABLE sale_22 PARTITION OF sale FOR VALUES FROM (MINVALUE) TO (2023); CREATE TABLE sale_23 PARTITION OF sale FOR VALUES FROM (2023) TO (2024); CREATE TABLE sale_rest PARTITION OF sale DEFAULT; INSERT INTO sale SELECT i, 2022 + i % 4 FROM generate_series(1, 400) i;"
	for _, c := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
		sql      string
		load     string
		rows     string
		ranges   int
	}{
		{"mariadb list", maria, pg15, my, `{"type": "partitions-list", "partitions": ["p23", "pmax"]}`, "300", 2},
		{"mariadb list to mariadb", maria, maria, my, `{"type": "partitions-list", "partitions": ["p22"]}`, "100", 1},
		{"mariadb auto", maria, mysql8, my, `{"type": "partitions-auto"}`, "400", 3},
		{"postgres auto", pg15, pg15, pg, `{"type": "partitions-auto"}`, "400", 3},
		{"postgres auto to mariadb", pg15, maria, pg, `{"type": "partitions-auto"}`, "400", 3},
		{"postgres list", pg15, pg15, pg, `{"type": "partitions-list", "partitions": ["sale_22", "sale_rest"]}`, "300", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, dst := sqlOn(t, c.src(t), c.sql), c.dst(t).NewDatabase(t, "dst")
			file := mappings(t, schemaOf(src), c.load)
			must(t, "copy", src, dst, "--table-mappings", file)
			if got := testdb.Query(t, dst, "SELECT count(*) FROM sale"); got != c.rows {
				t.Errorf("%s rows, want %s", got, c.rows)
			}
			var report struct {
				Tables []catalog.TableStat `json:"tables"`
			}
			decode(t, must(t, "report", "--json").out, &report)
			if len(report.Tables) != 1 || report.Tables[0].Ranges != c.ranges {
				t.Errorf("%+v, want %d ranges", report.Tables, c.ranges)
			}
			must(t, "diff", src, dst, "--table-mappings", file)
		})
	}
}

// TestTaskSettings reads DMS's task settings: they apply, and unknown ones are listed.
func TestTaskSettings(t *testing.T) {
	t.Parallel()
	src, dst := ruledOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
	settings := testdb.Written(t, "settings.json", `{"FullLoadSettings": {"MaxFullLoadSubTasks": 3, "CommitRate": 10000, "TargetTablePrepMode": "DROP_AND_CREATE", "CreatePkAfterFullLoad": true, "Unheard": 1},
		"TargetMetadata": {"TargetSchema": "landing", "SupportLobs": true, "LimitedSizeLobMode": true, "LobMaxSize": 1, "FullLobMode": false}}`)
	testdb.Query(t, dst, "CREATE SCHEMA landing; CREATE TABLE landing.item (x int); INSERT INTO landing.item VALUES (1)")
	testdb.Query(t, src, "UPDATE item SET descr = repeat('x', 3000) WHERE id = 2")
	o := must(t, "copy", src, dst, "--task-settings", settings)
	if !strings.Contains(o.errOut+o.out, "Unheard") {
		t.Errorf("the unknown key is not listed:\n%s%s", o.errOut, o.out)
	}
	if got := testdb.Query(t, dst, "SELECT id, length(descr) FROM landing.item ORDER BY id"); got != "1\t3\n2\t1024" {
		t.Errorf("landing.item has %s", got)
	}
	if got := jsonLines[map[string]any](t, fileOf(t, "truncated")); len(got) != 1 {
		t.Errorf("cut: %v", got)
	}
	// The command line overrides them.
	must(t, "copy", src, dst, "--task-settings", settings, "--lob-max", "0", "--target-schema", "other")
	if got := testdb.Query(t, dst, "SELECT max(length(descr)) FROM other.item"); got != "3000" {
		t.Errorf("other.item has %s", got)
	}
}

// TestPlanTouchesNothing prints what would happen.
func TestPlanTouchesNothing(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			src := shopOn(t, p.src(t))
			dst := p.dst(t).NewDatabase(t, "dst")
			testdb.Query(t, dst, "CREATE TABLE other (a int)")
			before, beforeSrc := fingerprint(t, dst), fingerprint(t, src)
			text := must(t, "copy", src, dst, "--plan").out
			for _, want := range []string{"FROM ", "customer", "COPY text", "CREATE TABLE", "decimal(10,2)", "As soon as its table is full", "PRIMARY KEY", "FOREIGN KEY", "2 tables in 2 ranges"} {
				if want == "COPY text" && strings.Fields(p.name)[0] == strings.Fields(p.name)[2] || want == "COPY text" && !strings.Contains(p.name, "postgres") {
					continue // another format
				}
				if want == "decimal(10,2)" && p.dst(t).Engine == "postgres" {
					want = "numeric(10,2)"
				}
				if !strings.Contains(text, want) {
					t.Errorf("the plan lacks %q:\n%s", want, text)
				}
			}
			var plan load.Plan
			decode(t, must(t, "copy", src, dst, "--plan", "--json").out, &plan)
			if len(plan.Moves) != 2 || len(plan.Ranges) != 2 || len(plan.Objects) < 4 {
				t.Errorf("the plan in JSON has %d moves, %d ranges, %d objects", len(plan.Moves), len(plan.Ranges), len(plan.Objects))
			}
			if fingerprint(t, dst) != before || fingerprint(t, src) != beforeSrc {
				t.Error("something has changed")
			}
			if strings.Contains(must(t, "runs").out, "copy") {
				t.Error("the plan is among the runs")
			}
		})
	}
}

// TestJSON parses everything that is printed with --json.
func TestJSON(t *testing.T) {
	t.Parallel()
	src, dst := shopOn(t, maria(t)), pg15(t).NewDatabase(t, "dst")
	kinds := map[string]int{}
	o := must(t, "copy", src, dst, "--json")
	var last map[string]any
	for line := range strings.Lines(o.out) {
		last = nil
		decode(t, line, &last)
		kinds[fmt.Sprint(last["event"])]++
	}
	if kinds["plan"] != 1 || kinds["table"] != 2 || kinds["range"] != 2 || kinds["object"] < 4 || kinds["report"] != 1 || last["event"] != "report" {
		t.Errorf("events: %v", kinds)
	}
	if rep, _ := last["report"].(map[string]any); rep["rows"] != 5.0 || last["run"] != lastRun(t) {
		t.Errorf("the last line is %v", last)
	}
	var runs []catalog.Run
	decode(t, must(t, "runs", "--json").out, &runs)
	if len(runs) != 1 || runs[0].State != "done" || runs[0].Verb != "copy" {
		t.Errorf("runs: %+v", runs)
	}
	var report struct {
		Run    catalog.Run         `json:"run"`
		Tables []catalog.TableStat `json:"tables"`
	}
	decode(t, must(t, "report", "--json").out, &report)
	if report.Run.ID != runs[0].ID || len(report.Tables) != 2 || report.Tables[0].State != "Table completed" {
		t.Errorf("report: %+v", report)
	}
	var check struct {
		Tables   int              `json:"tables"`
		Findings []map[string]any `json:"findings"`
	}
	o = cli(t, "check", src, dst, "--json")
	decode(t, o.out, &check)
	if o.code != 1 || check.Tables != 2 || len(check.Findings) == 0 { // the tables have rows now
		t.Errorf("check: exit %d, %+v", o.code, check)
	}
	var result map[string]any
	decode(t, must(t, "diff", src, dst, "--json").out, &result)
	if result["equal"] != true {
		t.Errorf("diff: %v", result)
	}
	testdb.Query(t, dst, "UPDATE item SET price = 1 WHERE id = 2")
	o = cli(t, "diff", src, dst, "--json")
	decode(t, o.out, &result)
	if o.code != 1 || result["equal"] != false {
		t.Errorf("diff: exit %d, %v", o.code, result)
	}
	var matrix []map[string]any
	decode(t, must(t, "engines", "--json").out, &matrix)
	if len(matrix) < 5 {
		t.Errorf("engines: %v", matrix)
	}
}

// TestRunsAndReports shows runs again.
func TestRunsAndReports(t *testing.T) {
	t.Parallel()
	src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
	o := must(t, "copy", src, dst, "-v")
	id := lastRun(t)
	for _, want := range []string{"TABLE ", "FULL LOAD ROWS", "public.item", "Table completed", "Reader", "Writer", "Finisher", "5 rows", "run " + id} {
		if !strings.Contains(o.out, want) {
			t.Errorf("the report lacks %q:\n%s", want, o.out)
		}
	}
	again := must(t, "report", id[:22]).out
	body := o.out[:strings.LastIndex(o.out, "\nrun ")]
	if !strings.Contains(again, strings.TrimSpace(body)) {
		t.Errorf("the report is another one later:\n%s\nnot\n%s", again, body)
	}
	cli(t, "copy", src, dst) // is refused, and recorded as no run
	runs := must(t, "runs").out
	if strings.Count(runs, "\n") != 2 || !strings.Contains(runs, id) || !strings.Contains(runs, "done") {
		t.Errorf("runs:\n%s", runs)
	}
	if o := must(t, "check", src, pg15(t).NewDatabase(t, "empty")); !strings.Contains(o.out, "postgres 15") || !strings.Contains(o.out, "2 tables") {
		t.Errorf("check:\n%s", o.out)
	}
	if o := must(t, "engines"); !strings.Contains(o.out, "PostgreSQL") || strings.Count(o.out, "\n") < 5 {
		t.Errorf("engines:\n%s", o.out)
	}
}

// TestShellCompletion offers completions.
func TestShellCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out, errOut strings.Builder
		if code := run(t.Context(), []string{"completion", shell}, &out, &errOut); code != 0 || !strings.Contains(out.String(), "tidemark") {
			t.Errorf("%s: exit %d\n%s", shell, code, errOut.String())
		}
	}
	var out, errOut strings.Builder
	run(t.Context(), []string{"__complete", "copy", "--prep", ""}, &out, &errOut)
	if !strings.Contains(out.String(), "truncate") {
		t.Errorf("--prep completes to\n%s", out.String())
	}
}
