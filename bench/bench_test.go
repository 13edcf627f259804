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

// Every workload that a job names exists, and no number in braces remains.
func TestWorkloads(t *testing.T) {
	b := &bench{options: options{scale: 0.5}}
	for _, name := range []string{"shop.pg.sql", "shop.mysql.sql", "big.pg.sql", "repl.pg.sql", "repl.mysql.sql"} {
		text, err := b.workload(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "CREATE TABLE") || regexp.MustCompile(`\(1,\{`).MatchString(text) {
			t.Errorf("%s: %.300s", name, text)
		}
	}
}

// A dump is identical each time, has complete statements of at most a megabyte, and distinct
// titles.
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

// Goals are measured against the best rival; a failed rival does not count.
func TestBestRival(t *testing.T) {
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
	want := []string{"time, of that of fast: 0.600, goal <= 0.70: met", "peak RSS of tidemark: 300 MB, goal < 256 MB: NOT met", "its part of all CPU: 10.0%, goal < 15%: met"}
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

// A goal limits one figure of one tool, possibly as a multiple of another's; it yields no verdict
// if one of them failed.
func TestGoals(t *testing.T) {
	row := func(name string, seconds int, figures ...map[string]float64) *toolRow {
		r := &toolRow{Tool: name}
		for _, f := range figures {
			r.Samples = append(r.Samples, sample{Wall: time.Duration(seconds) * time.Second, Own: time.Second, Figures: f})
		}
		return r
	}
	late := func(ms float64) map[string]float64 { return map[string]float64{"late": ms} }
	broken := row("broken", 1, late(1))
	broken.Failed = "no"
	r := &result{Rows: 1_000_000, Scale: 1, rows: []*toolRow{row("a", 10, late(4), late(30), late(5)), row("b", 20, late(50)), broken}}
	for _, x := range []struct {
		goal
		want string
	}{
		{goal{tool: "a", figure: "late", most: 5}, "a, late: 5, goal <= 5: met"},
		{goal{tool: "b", figure: "late", most: 5}, "b, late: 50, goal <= 5: NOT met"},
		{goal{tool: "b", figure: "late", of: "a", least: 10}, "b, late, of that of a: 10, goal >= 10: met"},
		{goal{tool: "a", figure: rate, least: 43_300}, "a, rows/s: 100000, goal >= 43300: met"},
		{goal{tool: "b", figure: rate, of: "a", least: 0.9}, "b, rows/s, of that of a: 0.5, goal >= 0.9: NOT met"},
		{goal{tool: "a", figure: rowCPU, most: 4}, "a, own CPU, us a row: 1, goal <= 4: met"},
		{goal{tool: "broken", figure: rate, least: 1}, ""},
		{goal{tool: "a", figure: rate, of: "broken", least: 1}, ""},
		{goal{tool: "a", figure: "unknown", least: 1}, ""},
	} {
		v, ok := r.judge(x.goal)
		if got := v.String(); ok != (x.want != "") || ok && got != x.want {
			t.Errorf("%+v: %v, %q, want %q", x.goal, ok, got, x.want)
		}
	}
	var out strings.Builder
	r.print(&out)
	if want := "a b broken late 5 50"; !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
		t.Errorf("%s, want %s", out.String(), want)
	}
}

// The figures of a tool are parsed from its log.
func TestFigures(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	text := "{\"event\":\"stream\",\"rows_per_second\":1}\n{\"event\":\"report\",\"run\":\"x\",\"report\":{\"stream\":{\"rows_per_second\":4711.5}}}\nfigures: {\"late\": 7}\nbye\n"
	if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := streamFigures(log); err != nil || got[streamRate] != 4711.5 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := printedFigures(log); err != nil || got["late"] != 7 {
		t.Errorf("%v, %v", got, err)
	}
	said := `{"run":{"report":{"seconds":8,"objects":[{"id":"index i","seconds":3},{"id":"comparison of the target's definitions with the plan","seconds":2}]}}}`
	if got, err := proofFigures([]byte(said)); err != nil || got[proofShare] != 25 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := proofFigures([]byte(`{"run":{}}`)); err == nil {
		t.Error("a proof was found where there is none")
	}
	if err := os.WriteFile(log, []byte("nothing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := streamFigures(log); err == nil {
		t.Error("a report was found where there is none")
	}
	if _, err := printedFigures(log); err == nil {
		t.Error("figures were found where there are none")
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

// The folder of a running bench stays, that of a killed bench is removed.
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
