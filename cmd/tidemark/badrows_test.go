package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/job"
)

// sqlOn creates a new database with this SQL.
func sqlOn(t *testing.T, srv *testdb.Server, sql string) string {
	t.Helper()
	db := srv.NewDatabase(t, "src")
	testdb.Load(t, db, strings.NewReader(sql))
	return db
}

// shopDump returns a dump as mysqldump writes it, with n items.
func shopDump(n int) string {
	var b strings.Builder
	b.WriteString("-- MariaDB dump 10.19  Distrib 10.11.6-MariaDB\n/*!40101 SET NAMES utf8mb4 */;\n\nCREATE TABLE `item` (\n  `id` int(11) NOT NULL,\n  `name` varchar(40) DEFAULT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n\n")
	for i := range n {
		fmt.Fprintf(&b, "INSERT INTO `item` VALUES (%d,'item %d');\n", i+1, i+1)
	}
	b.WriteString("-- Dump completed\n")
	return b.String()
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	w.Close()
	return b.String()
}

const twoToOne = `{"rules": [
  {"rule-type": "selection", "rule-id": "1", "rule-name": "1", "object-locator": {"schema-name": "%", "table-name": "%"}, "rule-action": "include"},
  {"rule-type": "transformation", "rule-id": "2", "rule-name": "2", "rule-target": "table", "object-locator": {"schema-name": "%", "table-name": "%"},
   "rule-action": "rename", "value": "everything"}
]}`

var inputs = []bad{
	{"two tables to one yaml", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		task := testdb.Written(t, "task.yaml", "source: "+src+"\ntarget: "+dst+"\nrename:\n  tables:\n    public.*: everything\n")
		return []string{"copy", src, dst, "--config", task}, []string{src, dst}
	}, 13},
	{"two tables to one dms", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, maria(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", src, dst, "--table-mappings", testdb.Written(t, "dms.json", twoToOne)}, []string{src, dst}
	}, 13},
	{"broken dms json", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", src, dst, "--table-mappings", testdb.Written(t, "dms.json", "{\"rules\": [\n  {\"rule-type\": \"selection\",\n   \"rule-id\" \"1\"}]}")}, []string{src, dst}
	}, 15},
	{"cut dms json", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", src, dst, "--table-mappings", testdb.Written(t, "dms.json", twoToOne[:300])}, []string{src, dst}
	}, 15},
	{"dms rule that cannot be honoured", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", src, dst, "--table-mappings", testdb.Written(t, "dms.json", strings.Replace(twoToOne, `"rename", "value": "everything"`, `"add-before-image-columns"`, 1))}, []string{src, dst}
	}, 7},
	{"no table selected", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", src, dst, "--include", "sales.*"}, []string{src, dst}
	}, 20},
	{"missing task file", func(t *testing.T) ([]string, []string) {
		return []string{"copy", "--config", filepath.Join(t.TempDir(), "none.yaml")}, nil
	}, 6},
	{"unknown option in a task file", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", "--config", testdb.Written(t, "task.yaml", "source: "+src+"\ntarget: "+dst+"\noptions:\n  lane: 4\n")}, []string{src, dst}
	}, 2},
	{"bad option in a task file", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", "--config", testdb.Written(t, "task.yaml", "source: "+src+"\ntarget: "+dst+"\noptions:\n  lanes: 100\n")}, []string{src, dst}
	}, 2},
	{"unknown key in a task file", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", "--config", testdb.Written(t, "task.yaml", "source: "+src+"\ntarget: "+dst+"\nsorce: x\n")}, []string{src, dst}
	}, 2},
	{"broken yaml", func(t *testing.T) ([]string, []string) {
		return []string{"copy", "--config", testdb.Written(t, "task.yaml", "source: postgres://u:s3cret-tide@h/db\ntarget: [\n")}, nil
	}, 15},
	{"no variable", func(t *testing.T) ([]string, []string) {
		return []string{"copy", "--config", testdb.Written(t, "task.yaml", "source: postgres://u:${NO_SUCH_VARIABLE}@h/db\ntarget: mysql://h/db\n")}, nil
	}, 2},
	{"no columns for mysql", func(t *testing.T) ([]string, []string) {
		src, dst := sqlOn(t, pg15(t), "CREATE TABLE nothing (); INSERT INTO nothing DEFAULT VALUES;"), maria(t).NewDatabase(t, "dst")
		return []string{"copy", src, dst}, []string{src, dst}
	}, 12},
	{"no dump", func(t *testing.T) ([]string, []string) {
		dst := maria(t).NewDatabase(t, "dst")
		return []string{"copy", "file:" + filepath.Join(t.TempDir(), "none.sql"), dst}, []string{dst}
	}, 6},
	{"cut dump planned", func(t *testing.T) ([]string, []string) {
		text, dst := shopDump(100), maria(t).NewDatabase(t, "dst")
		return []string{"copy", "file:" + testdb.Written(t, "shop.sql", text[:len(text)-40]), dst, "--plan"}, []string{dst}
	}, 15},
	{"cut dump", func(t *testing.T) ([]string, []string) {
		text := shopDump(100)
		return []string{"copy", "file:" + testdb.Written(t, "shop.sql", text[:len(text)-40]), maria(t).NewDatabase(t, "dst")}, nil
	}, 15},
	{"cut dump to postgres", func(t *testing.T) ([]string, []string) {
		text := shopDump(100)
		return []string{"copy", "file:" + testdb.Written(t, "shop.sql", text[:len(text)-40]), pg15(t).NewDatabase(t, "dst")}, nil
	}, 15},
	{"cut gzip", func(t *testing.T) ([]string, []string) {
		text := gzipped(shopDump(1000))
		return []string{"copy", "file:" + testdb.Written(t, "shop.sql.gz", text[:len(text)-100]), maria(t).NewDatabase(t, "dst")}, nil
	}, 15},
	{"damaged gzip", func(t *testing.T) ([]string, []string) {
		text := gzipped(shopDump(1000))
		return []string{"copy", "file:" + testdb.Written(t, "shop.sql.gz", text[:1000]+"xxxxxxxxxx"+text[1010:]), maria(t).NewDatabase(t, "dst")}, nil
	}, 15},
	{"wrong column count in a dump", func(t *testing.T) ([]string, []string) {
		text := strings.Replace(shopDump(10), "(7,'item 7')", "(7,'item 7',NULL)", 1)
		return []string{"copy", "file:" + testdb.Written(t, "shop.sql", text), maria(t).NewDatabase(t, "dst")}, nil
	}, 15},
	{"wrong column count in a dump to postgres", func(t *testing.T) ([]string, []string) {
		text := strings.Replace(shopDump(10), "(7,'item 7')", "(7)", 1)
		return []string{"copy", "file:" + testdb.Written(t, "shop.sql", text), pg15(t).NewDatabase(t, "dst")}, nil
	}, 15},
	{"postgres dump", func(t *testing.T) ([]string, []string) {
		dst := maria(t).NewDatabase(t, "dst")
		return []string{"copy", "file:" + testdb.Written(t, "pg.sql", "--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\nSELECT pg_catalog.set_config('search_path', '', false);\nCREATE TABLE public.t (a integer);\nCOPY public.t (a) FROM stdin;\n1\n\\.\n"), dst}, nil
	}, 7},
	{"nan to mysql", func(t *testing.T) ([]string, []string) {
		src := sqlOn(t, pg15(t), "CREATE TABLE m (id int PRIMARY KEY, v double precision); INSERT INTO m VALUES (1, 1.5), (2, 'NaN'), (3, 2.5);")
		return []string{"copy", src, maria(t).NewDatabase(t, "dst")}, []string{src}
	}, 14},
	{"zero date to postgres", func(t *testing.T) ([]string, []string) {
		src := sqlOn(t, maria(t), "SET sql_mode=''; CREATE TABLE d (id int PRIMARY KEY, v date); INSERT INTO d VALUES (1, '2024-02-29'), (2, '0000-00-00');")
		return []string{"copy", src, pg15(t).NewDatabase(t, "dst")}, []string{src}
	}, 14},
	{"too many bad rows", func(t *testing.T) ([]string, []string) {
		src := sqlOn(t, pg15(t), "CREATE TABLE m (id int PRIMARY KEY, v text); INSERT INTO m SELECT i, 'x' FROM generate_series(1, 10) i;")
		dst := sqlOn(t, pg15(t), "CREATE TABLE m (id int PRIMARY KEY, v text CHECK (id <> 3 AND id <> 7));")
		return []string{"copy", src, dst, "--reject-limit", "1"}, []string{src}
	}, 14},
}

// TestBadInputs covers errors in files, rules and rows.
func TestBadInputs(t *testing.T) {
	for _, b := range inputs {
		t.Run(b.name, b.check)
	}
}

// jsonLines reads a file of JSON objects, one per line.
func jsonLines[T any](t *testing.T, path string) []T {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	for line := range strings.Lines(string(text)) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		out = append(out, v)
	}
	return out
}

// fileOf finds the only file of that kind from this test's last run.
func fileOf(t *testing.T, kind string) string {
	t.Helper()
	return filepath.Join(filepath.Dir(statePath(t)), "rows", lastRun(t)+"-"+kind+".jsonl")
}

// TestRejectedRows rejects bad rows; the reject file has each, and the rest is copied.
func TestRejectedRows(t *testing.T) {
	rows := "INSERT INTO m SELECT i, concat('row ', i) FROM %s;"
	pgRows, myRows := fmt.Sprintf(rows, "generate_series(1, 1000) i"), fmt.Sprintf(strings.Replace(rows, "i,", "seq,", 1), "seq_1_to_1000")
	myRows = strings.Replace(myRows, "'row ', i", "'row ', seq", 1)
	for _, c := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
		rows     string
		reason   string
	}{
		{"postgres to postgres", pg15, pg15, pgRows, "violates check constraint"},
		{"mariadb to postgres", maria, pg15, myRows, "violates check constraint"},
		{"postgres to mariadb", pg15, maria, pgRows, "CONSTRAINT"},
		{"mariadb to mariadb", maria, maria, myRows, "CONSTRAINT"},
		{"mariadb to mysql", maria, mysql8, myRows, "heck constraint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src := sqlOn(t, c.src(t), "CREATE TABLE m (id int PRIMARY KEY, v varchar(40));"+c.rows)
			dst := sqlOn(t, c.dst(t), "CREATE TABLE m (id int PRIMARY KEY, v varchar(40), CONSTRAINT odd CHECK (id <> 3 AND id <> 700));")
			o := must(t, "copy", src, dst, "--reject-limit", "5")
			if !strings.Contains(o.out, "2 rows rejected") {
				t.Errorf("the report does not say so:\n%s", o.out)
			}
			got := jsonLines[job.RejectedRow](t, fileOf(t, "rejects"))
			if len(got) != 2 {
				t.Fatalf("%d rows in the file: %+v", len(got), got)
			}
			for i, id := range []string{"3", "700"} {
				if r := got[i]; r.Row != id+"\trow "+id || !strings.Contains(r.Reason, c.reason) || !strings.HasSuffix(r.Table, ".m") {
					t.Errorf("the file has %+v", r)
				}
			}
			if n := testdb.Query(t, dst, "SELECT count(*), min(id), max(id) FROM m"); n != "998\t1\t1000" {
				t.Errorf("the target has %s", n)
			}
			if o := cli(t, "diff", src, dst); o.code != 1 || !strings.Contains(o.out, "700") {
				t.Errorf("diff: exit %d\n%s", o.code, o.out)
			}
			var tables struct {
				Tables []struct {
					ErrorRows int64 `json:"full_load_error_rows"`
				} `json:"tables"`
			}
			if err := json.Unmarshal([]byte(must(t, "report", "last", "--json").out), &tables); err != nil || len(tables.Tables) != 1 || tables.Tables[0].ErrorRows != 2 {
				t.Errorf("report: %v %+v", err, tables)
			}
		})
	}
}

// TestRejectedByTheReader rejects rows that the source's reader refuses, together with those that
// the target refuses, up to one shared limit.
func TestRejectedByTheReader(t *testing.T) {
	t.Parallel()
	src := sqlOn(t, maria(t), `SET sql_mode=''; CREATE TABLE d (id int PRIMARY KEY, v date, w varchar(20), b blob);
		INSERT INTO d SELECT seq, '2024-02-29', 'good', NULL FROM seq_1_to_1000;
		UPDATE d SET v = '0000-00-00', w = 'a\tb', b = x'ff00' WHERE id = 7; UPDATE d SET v = '2023-00-10', w = NULL WHERE id = 900;`)
	dst := sqlOn(t, pg15(t), "CREATE TABLE d (id int PRIMARY KEY, v date CHECK (id <> 50), w varchar(20), b bytea);")
	args := []string{"copy", src, dst, "--prep", "truncate", "--reject-limit", "3"}
	if o := must(t, args...); !strings.Contains(o.out, "3 rows rejected") {
		t.Errorf("the report does not say so:\n%s", o.out)
	}
	reasons := map[string]string{}
	for _, r := range jsonLines[job.RejectedRow](t, fileOf(t, "rejects")) {
		reasons[r.Row+string(r.Bytes)] = r.Reason
	}
	for row, want := range map[string]string{
		"7\t0000-00-00\ta\\tb\t\xff\x00": `column v holds "0000-00-00", which is not a valid date elsewhere`,
		"50\t2024-02-29\tgood\t\\N":      "violates check constraint",
		"900\t2023-00-10\t\\N\t\\N":      `column v holds "2023-00-10", which is not a valid date elsewhere`,
	} {
		if got := reasons[row]; len(reasons) != 3 || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q of %q", row, got, want, reasons)
		}
	}
	if n := testdb.Query(t, dst, "SELECT count(*), min(id), max(id) FROM d"); n != "997\t1\t1000" {
		t.Errorf("the target has %s", n)
	}
	if o := must(t, "report", "last", "--json"); !strings.Contains(o.out, `"full_load_error_rows": 3`) {
		t.Errorf("report: %s", o.out)
	}
	args[len(args)-1] = "1"
	if o := cli(t, args...); o.code != 14 || !strings.Contains(o.errOut, "rejected rows exceed --reject-limit 1") {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
	if o := cli(t, "copy", src, dst, "--prep", "drop"); o.code != 14 || !strings.Contains(o.errOut, `row id="7": column v holds "0000-00-00"`) {
		t.Errorf("exit %d\n%s", o.code, o.errOut)
	}
}

// TestForeignLeaves copies partitioned tables, some or all of whose partitions are foreign tables
// that cannot be read: these are named, and the rest is copied.
func TestForeignLeaves(t *testing.T) {
	t.Parallel()
	src := sqlOn(t, pg15(t), `CREATE EXTENSION file_fdw; CREATE SERVER f FOREIGN DATA WRAPPER file_fdw;
		CREATE TABLE away (id int) PARTITION BY LIST (id);
		CREATE FOREIGN TABLE away_1 PARTITION OF away FOR VALUES IN (1) SERVER f OPTIONS (filename '/nowhere/1');
		CREATE TABLE mixed (id int) PARTITION BY LIST (id);
		CREATE TABLE here PARTITION OF mixed FOR VALUES IN (1); INSERT INTO mixed VALUES (1);
		CREATE FOREIGN TABLE there PARTITION OF mixed FOR VALUES IN (2) SERVER f OPTIONS (filename '/nowhere/2');
		CREATE TABLE empty (id int) PARTITION BY LIST (id);`)
	for _, dst := range []string{pg15(t).NewDatabase(t, "dst"), maria(t).NewDatabase(t, "dst")} {
		o := must(t, "copy", src, dst, "-v")
		for _, leaf := range []string{"away_1", "there"} {
			if !strings.Contains(o.errOut, "table public."+leaf+": its rows are on another server and are not copied") {
				t.Errorf("%s is not named:\n%s", leaf, o.errOut)
			}
		}
		if strings.HasPrefix(dst, "mysql") || strings.HasPrefix(dst, "mariadb") {
			if n := testdb.Query(t, dst, "SELECT (SELECT count(*) FROM away), (SELECT count(*) FROM mixed), (SELECT count(*) FROM empty)"); n != "0\t1\t0" {
				t.Errorf("the target has %s", n)
			}
		} else if n := testdb.Query(t, dst, "SELECT (SELECT count(*) FROM here), (SELECT count(*) FROM pg_foreign_table), (SELECT count(*) FROM empty)"); n != "1\t2\t0" {
			t.Errorf("the target has %s", n)
		}
		if o := must(t, "report", "last"); strings.Contains(o.out, "Before load") {
			t.Errorf("a table is not done:\n%s", o.out)
		}
		must(t, "diff", src, dst)
	}
}

// TestCopyLimitsLobs truncates values that are too long, and reports the key of each row.
func TestCopyLimitsLobs(t *testing.T) {
	for _, c := range []struct {
		name, sql string
		src, dst  func(*testing.T) *testdb.Server
	}{
		{"postgres to postgres", "CREATE TABLE lob (a int, b varchar(9), v text, w bytea, PRIMARY KEY (a, b)); INSERT INTO lob VALUES (1, 'x', repeat('é', 100), '\\x00'), (2, 'y', 'short', decode(repeat('ff', 100), 'hex')), (3, 'z', NULL, NULL);", pg15, pg15},
		{"mariadb to postgres", "CREATE TABLE lob (a int, b varchar(9), v longtext, w longblob, PRIMARY KEY (a, b)); INSERT INTO lob VALUES (1, 'x', repeat('é', 100), x'00'), (2, 'y', 'short', repeat(x'ff', 100)), (3, 'z', NULL, NULL);", maria, pg15},
		{"mysql to mariadb", "CREATE TABLE lob (a int, b varchar(9), v longtext, w longblob, PRIMARY KEY (a, b)); INSERT INTO lob VALUES (1, 'x', repeat('é', 100), x'00'), (2, 'y', 'short', repeat(x'ff', 100)), (3, 'z', NULL, NULL);", mysql8, maria},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, dst := sqlOn(t, c.src(t), c.sql), c.dst(t).NewDatabase(t, "dst")
			o := must(t, "copy", src, dst, "--lob-max", "51")
			if !strings.Contains(o.out, "2 values truncated") {
				t.Errorf("the report does not say so:\n%s", o.out)
			}
			cuts := map[string]job.CutValue{}
			for _, v := range jsonLines[job.CutValue](t, fileOf(t, "truncated")) {
				cuts[v.Column] = v
			}
			if v := cuts["v"]; len(cuts) != 2 || !strings.Contains(v.Key, "1") || !strings.Contains(v.Key, "x") || v.Bytes != 200 {
				t.Errorf("the file has %+v", cuts)
			}
			if w := cuts["w"]; !strings.Contains(w.Key, "2") || !strings.Contains(w.Key, "y") || w.Bytes != 100 {
				t.Errorf("the file has %+v", cuts)
			}
			// 51 bytes are 25 two-byte characters: no character is split.
			if got := testdb.Query(t, dst, "SELECT sum(char_length(v)), sum(octet_length(w)) FROM lob"); got != "30\t52" {
				t.Errorf("the target has %s", got)
			}
		})
	}
}
