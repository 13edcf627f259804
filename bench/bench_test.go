package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestScaled(t *testing.T) {
	for scale, want := range map[float64]string{1: "(1,300000)", 0.05: "(1,15000)", 1e-6: "(1,10)"} {
		if got := scaled("(1,{300000})", scale); got != want {
			t.Errorf("scale %g: %s, want %s", scale, got, want)
		}
	}
}

// Every workload that a job names is there, and no number in braces stays.
func TestWorkloads(t *testing.T) {
	b := &bench{options: options{scale: 0.5}}
	for _, name := range []string{"shop.pg.sql", "shop.mysql.sql", "big.pg.sql"} {
		text, err := b.workload(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "CREATE TABLE") || regexp.MustCompile(`\(1,\{`).MatchString(text) {
			t.Errorf("%s: %.300s", name, text)
		}
	}
}

// A dump is the same each time, whole statements of at most a megabyte, and its titles differ.
func TestWiki(t *testing.T) {
	const rows = 20_000
	dir := t.TempDir()
	var texts [2][]byte
	for i, name := range []string{"a.sql", "b.sql"} {
		if err := writeWiki(filepath.Join(dir, name), rows); err != nil {
			t.Fatal(err)
		}
		var err error
		if texts[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("two dumps differ")
	}
	tuple := regexp.MustCompile(`\((\d+),(\d+),'((?:[^'\\]|\\.)*)',[01],[01],0\.\d{12},'20\d{12}',(?:'20\d{12}'|NULL),\d+,\d+,(?:'\w+'|NULL),NULL\)[,;]`)
	titles, escaped, statements := map[string]bool{}, 0, 0
	for line := range strings.Lines(string(texts[0])) {
		if !strings.HasPrefix(line, "INSERT INTO `page` VALUES (") {
			continue
		}
		statements++
		if len(line) > statementSize {
			t.Errorf("a statement of %d bytes", len(line))
		}
		rest := strings.TrimPrefix(line, "INSERT INTO `page` VALUES ")
		found := tuple.FindAllStringSubmatch(rest, -1)
		if left := strings.TrimSpace(tuple.ReplaceAllString(rest, "")); left != "" {
			t.Fatalf("no tuple: %.200s", left)
		}
		for _, m := range found {
			titles[m[2]+" "+m[3]] = true
			if strings.Contains(m[3], `\`) {
				escaped++
			}
		}
	}
	if len(titles) != rows || statements < 2 || escaped < rows/100 {
		t.Errorf("%d titles of %d, %d with an escape, in %d statements", len(titles), rows, escaped, statements)
	}
}

func TestDifferences(t *testing.T) {
	want := map[string]fact{"a": {Rows: 5, Indexes: 2, Sum: "7"}, "b": {Rows: 1, ForeignKeys: 1}, "c": {Rows: 3, Sum: "9"}, "d": {Rows: 4}}
	got := map[string]fact{"a": {Rows: 5, Indexes: 2, Sum: "8"}, "b": {Rows: 1}, "c": {Rows: 2, Sum: "9"}, "d": {Rows: 4, Sum: "1"}}
	bad := strings.Join(differences(want, got), "\n")
	if bad != "table b has 0 indexes and 0 foreign keys, not 0 and 1\ntable c has 2 rows, not 3\nthe rows of table a have other values" {
		t.Error(bad)
	}
	if bad := differences(want, want); bad != nil {
		t.Error(bad)
	}
}

// The best rival is the one that a goal is measured against; a failed one is none.
func TestVerdicts(t *testing.T) {
	row := func(name string, rival bool, seconds ...int) *toolRow {
		r := &toolRow{Tool: name, Rival: rival}
		for _, s := range seconds {
			r.Samples = append(r.Samples, sample{Wall: time.Duration(s) * time.Second, Own: time.Second, Servers: 9 * time.Second, RSS: 300 << 20})
		}
		return r
	}
	broken := row("broken", true, 1)
	broken.Failed = "rows are missing"
	r := &result{Goal: 0.7, Scale: 1, ownCPU: 0.15, rows: []*toolRow{row("tidemark", false, 9, 6, 1), row("slow", true, 30, 20), row("fast", true, 9, 11, 10), broken}}
	var got []string
	for _, v := range r.verdicts() {
		got = append(got, v.String())
	}
	want := []string{"time, of that of fast: 0.600, goal <= 0.70: met", "peak RSS: 300 MB, goal < 256 MB: NOT met", "its part of all CPU: 10.0%, goal < 15%: met"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", got)
	}
	r.rows[0].Failed = "exit status 2"
	if got := r.verdicts(); len(got) != 1 || got[0].Met {
		t.Errorf("tidemark failed, and the verdict is %v", got)
	}
	var out strings.Builder
	r.print(&out)
	if !strings.Contains(out.String(), "tidemark failed: exit status 2") || !strings.Contains(out.String(), "broken failed: rows are missing") {
		t.Error(out.String())
	}
}

func TestUsage(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"list"}, &out); err != nil || strings.Count(out.String(), "\n") != len(jobs) {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, bad := range []string{"no-such-job", "pg-shop --rounds 0", "pg-shop --scale -1", "profile", "profile all", "pg-shop extra --rounds 1", "pg-shop --rounds 1 extra"} {
		if err := run(t.Context(), strings.Fields(bad), &out); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// The folder of a bench that lives stays, the one of a killed bench goes.
func TestWorkFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	mine, err := workFolder("")
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(os.TempDir(), folderPattern+"left")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := workFolder(""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", left, err)
	}
	if _, err := workFolder(mine); err == nil {
		t.Error("two work in one folder")
	}
}
