package ha

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// ibmText returns the published values in the form of Db2's scanner: rate lines, and the eight
// distributions.
func ibmText(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, r := range rows(t, "scan-intervals.tsv")[9:] {
		fmt.Fprintf(&b, "%s  %s MB/s, %s sec, %s pg/f, %s sec/f, %s pg/tr, %s sec/tr, %s sec/cmt, nOpenTrans %s\n",
			r["at"], r["rate_mb_s"], r["sec"], r["pg_f"], r["sec_f"], r["pg_tr"], r["sec_tr"], r["sec_cmt"], r["open"])
	}
	for _, r := range rows(t, "distributions.tsv") {
		switch r["kind"] {
		case "total":
			fmt.Fprintf(&b, "\nDistribution of %s (unit %s)\nTotal %s numbers, Sum %s, Min %s, Max %s, Avg %s\n", r["name"], r["unit"], r["v1"], r["v2"], r["v3"], r["v4"], r["v5"])
		case "exactly":
			fmt.Fprintf(&b, "Exactly %s %s numbers %s%%\n", r["v1"], r["v3"], r["v4"])
		case "zero":
			fmt.Fprintf(&b, "Zero %s numbers %s%%\n", r["v3"], r["v4"])
		case "range":
			fmt.Fprintf(&b, "From %s to %s %s numbers %s%%\n", r["v1"], r["v2"], r["v3"], r["v4"])
		}
	}
	return b.String()
}

// squeeze collapses runs of spaces, and drops empty lines, titles and percentiles.
func squeeze(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		for _, p := range []string{"20", "Total", "Exactly", "From", "Zero"} {
			if strings.HasPrefix(line, p) {
				out = append(out, line)
				break
			}
		}
	}
	return out
}

// TestReadDb2Text reads what Db2's scanner has printed and prints it again: the same lines,
// with percentages and averages of our own.
func TestReadDb2Text(t *testing.T) {
	text := ibmText(t)
	p, err := ReadProfile([]byte(text), "db2.scan")
	if err != nil {
		t.Fatal(err)
	}
	if p.Engine != "db2" || len(p.Intervals) != 8 || p.Distributions.RecordSize.Count != 9077093 {
		t.Fatalf("%s, %d intervals, %+v", p.Engine, len(p.Intervals), p.Distributions.RecordSize)
	}
	var out bytes.Buffer
	if err := p.WriteText(&out, time.Second); err != nil {
		t.Fatal(err)
	}
	got, want := squeeze(out.String()), squeeze(text)
	if len(got) != len(want) {
		t.Errorf("%d lines, want %d\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

// TestLineRoundTrip: a line survives conversion to an interval and back.
func TestLineRoundTrip(t *testing.T) {
	for _, r := range rows(t, "scan-intervals.tsv") {
		l := lineOf(t, r)
		i := l.interval()
		back := i.Line()
		if back.At != l.At || i.Ended == 0 {
			t.Errorf("%+v", back)
		}
		for _, x := range [][2]float64{{back.Rate, l.Rate}, {back.TxPages, l.TxPages}, {back.FlushSeconds, l.FlushSeconds}} {
			if d := x[0]/x[1] - 1; d > 1e-3 || d < -1e-3 {
				t.Errorf("%v, want %v", x[0], x[1])
			}
		}
		// IBM's flush size is consistent with its rate and its time.
		if d := back.FlushPages - l.FlushPages; d > 0.2 || d < -0.2 {
			t.Errorf("%s: %v pages, want %v", l.At, back.FlushPages, l.FlushPages)
		}
	}
}

// TestTitlesOfOthers: in a text with unknown titles the blocks are taken in order.
func TestTitlesOfOthers(t *testing.T) {
	text := "2026-11-21 10:00:00  1.000 MB/s, 60 sec, 2.0 pg/f, 0.010000 sec/f, 1.0 pg/tr, 0.001000 sec/tr, 0.002000 sec/cmt, nOpenTrans 1.0\n"
	for i := range blocks {
		text += fmt.Sprintf("\nTitle\nTotal 1 numbers, Sum %d, Min %d, Max %d, Avg %d\nExactly %d 1 numbers 100%%\n", i, i, i, i, i)
	}
	p, err := ReadProfile([]byte(text), "x")
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range blocks {
		if d := b.at(&p.Distributions); d.Max != float64(i) || len(d.Buckets) != 1 || d.P50 != float64(i) {
			t.Errorf("%s: %+v", b.title, d)
		}
	}
}

// TestProfileAsText: our own text and our JSON have the same forecasts.
func TestProfileAsText(t *testing.T) {
	p := steady(t, 3000, 20*time.Millisecond, Options{Interval: 10 * time.Second})
	var text bytes.Buffer
	if err := p.WriteText(&text, time.Second); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	a, err := ReadProfile(text.Bytes(), "text")
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	b, err := ReadProfile(data, "json")
	if err != nil {
		t.Fatal(err)
	}
	if a.Engine != "postgres" || a.Version != "15" || a.Flushes.Basis != EstimatedFlushes {
		t.Errorf("%s %s %+v", a.Engine, a.Version, a.Flushes)
	}
	if len(a.Lines()) != len(b.Lines()) || len(a.Lines()) < 5 {
		t.Fatalf("%d and %d lines", len(a.Lines()), len(b.Lines()))
	}
	for i, l := range a.Lines() {
		if l.String() != b.Lines()[i].String() {
			t.Errorf("%s\n%s", l, b.Lines()[i])
		}
	}
	for i, block := range blocks {
		x, y := block.at(&a.Distributions), block.at(&b.Distributions)
		if x.Count != y.Count || len(x.Buckets) != len(y.Buckets) || x.P99 != y.P99 {
			t.Errorf("%d: %+v\n%+v", i, x, y)
		}
	}
}

func TestAnnotate(t *testing.T) {
	c := Db2{Disk: Disk{Rate: 200 * MiB, Overhead: 0.001}, Network: Network{Rate: 5 * MiB, RTT: 0.1}}
	text := ibmText(t)
	var out bytes.Buffer
	if err := c.Annotate(&out, text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	at := func(prefix string) int {
		for i, l := range lines {
			if strings.HasPrefix(strings.TrimSpace(l), prefix) {
				return i
			}
		}
		t.Fatalf("no line %q in\n%s", prefix, out.String())
		return 0
	}
	if at("Network") != 0 || at("Disk") != 1 || at("2013-02-26 15:32:09") != 2 || at("actual") != 3 || at("SYNC") != 4 || at("NEARSYNC") != 5 || at("ASYNC") != 6 {
		t.Errorf("order of lines:\n%s", out.String())
	}
	if i := at("REMOTE CATCHUP"); i < at("Distribution of log write rate") || i > at("Distribution of flush size") || !strings.Contains(lines[i], " ??   5.000 MB/s@  16 pg/f 0.012500 s/f") {
		t.Errorf("line %d: %q", i, lines[i])
	}
	if !strings.Contains(lines[at("SYNC largest")], "the workload's at most 679 pages") {
		t.Errorf("%q", lines[at("SYNC largest")])
	}
	kept := 0
	for _, l := range lines {
		if strings.Contains(text, l+"\n") && l != "" {
			kept++
		}
	}
	if want := len(strings.Split(strings.ReplaceAll(text, "\n\n", "\n"), "\n")) - 1; kept < want {
		t.Errorf("%d of %d lines of the input", kept, want)
	}
}

// TestBadScans: input that is not a scan is rejected with a sentence and a hint.
func TestBadScans(t *testing.T) {
	line := "2026-11-21 10:00:00  0.000 MB/s, 60 sec, 0.0 pg/f, 0.000000 sec/f, 0.0 pg/tr, 0.000000 sec/tr, 0.000000 sec/cmt, nOpenTrans 0.0\n"
	for name, x := range map[string]struct{ text, want string }{
		"empty":             {"", "no rate line"},
		"foreign text":      {"Dear all,\nthis is a letter: From 1 to 2, 3 numbers.\n", "no rate line"},
		"binary":            {"\x7fELF\x00\x01\xff\xfe", "no rate line"},
		"a log":             {"\xfebin\x00", "no rate line"},
		"no commits":        {line, "no commits"},
		"broken JSON":       {`{"format": 1, "intervals": [`, "is not a scan in JSON"},
		"other JSON":        {`{"name": "x"}`, "is not a scan"},
		"list":              {`{"format": 1, "intervals": "many"}`, "is not a scan in JSON"},
		"JSON without scan": {`{"format": 1}`, "no commits"},
		"negative JSON":     {`{"format": 1, "intervals": [{"seconds": -1}]}`, "negative"},
	} {
		_, err := ReadProfile([]byte(x.text), "f")
		kind := tidemark.BadInput
		if x.want == "no commits" {
			kind = tidemark.Empty // the file is as it has to be
		}
		if err == nil || !strings.Contains(err.Error(), x.want) || tidemark.KindOf(err) != kind || tidemark.HintOf(err) == "" {
			t.Errorf("%s: %v (%v)", name, err, tidemark.HintOf(err))
		}
	}
}

// A log without commits is said to be one, not shown as distributions without values; where it ends
// and what was found is shown all the same.
func TestNoCommits(t *testing.T) {
	p := &Profile{Format: ProfileFormat, Engine: "postgres", EndOfLog: "a record is cut", Findings: []string{"a gap"}}
	var out strings.Builder
	if err := p.WriteText(&out, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadProfile([]byte(out.String()), "f"); tidemark.KindOf(err) != tidemark.Empty {
		t.Errorf("read again: %v", err)
	}
	for want, n := range map[string]int{"\nNo commits in this log: nothing to plan for.\n": 1, "Total ": 0, "a record is cut": 1, "Note: a gap": 1} {
		if strings.Count(out.String(), want) != n {
			t.Errorf("%q is not there %d times:\n%s", want, n, out.String())
		}
	}
}

// FuzzReadProfile: every file has a result or an error.
func FuzzReadProfile(f *testing.F) {
	f.Add([]byte("2026-11-21 10:00:00  1.000 MB/s, 60 sec, 2.0 pg/f, 0.010000 sec/f, 1.0 pg/tr, 0.001000 sec/tr, 0.002000 sec/cmt, nOpenTrans 1.0\nTotal 1 numbers, Sum 1, Min 1, Max 1, Avg 1\nExactly 1 1 numbers 100%\n"))
	f.Add([]byte(`{"format": 1, "intervals": [{"end": "2026-11-21T10:00:00Z", "seconds": 1, "bytes": 1, "flushes": 1, "transactions": 1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadProfile(data, "f")
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := p.WriteText(&b, time.Second); err != nil {
			t.Fatal(err)
		}
		c := Db2{Disk: Disk{Rate: MiB}, Network: Network{Rate: MiB}}
		if err := c.Annotate(&b, string(data)); err != nil {
			t.Fatal(err)
		}
	})
}
