package screen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// TestFrameFits lays a job out for windows from very narrow to wide: no line may wrap, the bar and
// the ETA of the whole job are always there, and so is the phase that is under way.
func TestFrameFits(t *testing.T) {
	now := time.Now()
	name := func(int) string { return "a_schema_with_a_long_name.表の名前\x1b[2J_with_more_behind_it" }
	tables := []load.TableStatus{{State: load.FullLoad, Rows: 123_456_789, Bytes: 5 << 30, Expected: 10 << 30}, {State: load.FullLoad, Rows: 1}}
	rows := tally{Tables: 3, TablesDone: 1, Rows: 123_456_790, Bytes: 5 << 30, Done: 5 << 30, Total: 11 << 30, Phases: []phase{{Name: "indexes", Total: 40}}}
	objects := tally{Tables: 3, TablesDone: 3, Rows: 223_456_790, Done: 11 << 30, Total: 11 << 30,
		Phases: []phase{{Name: "indexes", Done: 12, Total: 40, running: 2}, {Name: "keys", Done: 3, Total: 3}, {Name: "foreign keys", Total: 17}, {Name: "others", Total: 4}},
		heavy:  load.HeavyBuild{Bytes: 40 << 30, Done: 12 << 30, Took: time.Minute, Running: []load.Building{{ID: "index a.b_c_idx", Bytes: 1 << 30, Since: now.Add(-3 * time.Second)}}}}
	for _, columns := range []int{1, 10, 20, 40, 60, 80, 120, 500} {
		for _, height := range []int{1, 3, 10, 24} {
			for _, x := range []struct {
				t     tally
				phase string
			}{{rows, "123,456,790 rows"}, {objects, "indexes 12/40"}} {
				f := forecast{share: 0.42, left: 83 * time.Second, elapsed: time.Minute, speed: 1 << 26, lanes: 2}
				lines := frame(columns, height, x.t, tables, name, f, now)
				for _, l := range lines {
					if n := columnsIn(l); n > max(columns-1, 0) {
						t.Errorf("%d columns in a window of %d: %q", n, columns, l)
					}
					if strings.Contains(l, "\x1b") {
						t.Errorf("a name of a table reaches the terminal: %q", l)
					}
				}
				if len(lines) > max(2, height-2) {
					t.Errorf("%d lines in a window of %d", len(lines), height)
				}
				text := strings.Join(lines, "\n")
				for _, want := range []string{"42%", "ETA 01:23", "=", x.phase} {
					if columns >= 40 && !strings.Contains(text, want) {
						t.Errorf("%d columns: no %q in\n%s", columns, want, text)
					}
				}
				if strings.Count(text, "ETA") > 1 || strings.Contains(text, "0 B/s") {
					t.Errorf("%d columns:\n%s", columns, text)
				}
			}
		}
	}
}

// columnsIn counts without the program's own functions: only 表の名前 is wide here.
func columnsIn(s string) (n int) {
	for _, r := range s {
		n++
		if r > 0x3000 {
			n++
		}
	}
	return n
}

// TestForecast follows a job with rows and indexes: the share only grows, there is an ETA from the
// second look on, and at half time it is not far off.
func TestForecast(t *testing.T) {
	const size, count = 1000 << 20, 8 // 10 s of rows, then 8 indexes of 5 s each, two at once: 30 s
	start := time.Now()
	var f forecast
	last := -1.0
	for s := 1; s < 30; s++ {
		now := start.Add(time.Duration(s) * time.Second)
		x := tally{Tables: 1, Total: size, Done: min(int64(s)*size/10, size), Objects: count}
		x.Bytes = x.Done
		x.heavy = load.HeavyBuild{Bytes: count * size, Largest: size}
		if s >= 10 {
			x.TablesDone = 1
			pair := (s - 10) / 5
			x.heavy.Done, x.heavy.Took = int64(pair)*2*size, time.Duration(pair)*10*time.Second
			for i := range 2 {
				x.heavy.Running = append(x.heavy.Running, load.Building{ID: fmt.Sprint(i), Bytes: size, Since: start.Add(time.Duration(10+5*pair) * time.Second)})
			}
			if pair == count/2-1 {
				x.heavy.Largest = 0
			}
		}
		f.update(x, time.Duration(s)*time.Second, now)
		if f.share < last-0.02 || f.share > 1 {
			t.Errorf("after %d s: share %.3f, and %.3f before", s, f.share, last)
		}
		last = f.share
		if s > 1 && f.left <= 0 {
			t.Errorf("after %d s: no ETA", s)
		}
		if left := f.left.Seconds(); s == 15 && (left < 8 || left > 40) {
			t.Errorf("after %d s, 15 s before the end: ETA %.1f s", s, left)
		}
	}
}

// TestForecastOfManyTables follows a copy whose bytes say little: definitions, then tables with
// their keys, at the same pace.
func TestForecastOfManyTables(t *testing.T) {
	const tables, pace = 10_000, 1000 // 10 s of definitions, then 30 s
	start := time.Now()
	var f forecast
	last := -1.0
	for s := 1; s < 40; s++ {
		x := tally{Tables: tables, Define: tables, Objects: 2 * tables, Total: 8192 * tables, Defined: min(s*pace, tables)}
		elapsed := s
		if s >= 10 {
			elapsed = s - 10
			done := (s - 10) * pace
			x.TablesDone, x.Built = done/3, done/3*2
			x.Done = int64(x.TablesDone) * 8192
			x.Bytes = x.Done
		}
		f.update(x, time.Duration(elapsed)*time.Second, start.Add(time.Duration(s)*time.Second))
		if f.share < last || f.share <= 0 || f.share > 1 {
			t.Errorf("after %d s: share %.3f, and %.3f before", s, f.share, last)
		}
		last = f.share
		left, want := f.left.Seconds(), float64(40-s)
		if s != 10 && s != 11 && (left < want*0.8 || left > want*1.2+1) { // there is no pace yet
			t.Errorf("after %d s: ETA %.1f s, want %.0f", s, left, want)
		}
		if detail := detailLine(100, x, f); s < 10 && !strings.Contains(detail, fmt.Sprintf("definitions %d/10000", s*pace)) {
			t.Errorf("after %d s: %q", s, detail)
		}
	}
}

// TestPhases: what is done before the rows is shown from the first moment, and ends with the job.
func TestPhases(t *testing.T) {
	for _, mode := range []string{"bars", "lines", "none"} {
		var out bytes.Buffer
		w := Watch(View{Progress: mode}, &out, &out)
		w.Event(job.Event{Kind: "phase", Text: "reading"})
		time.Sleep(2300 * time.Millisecond)
		w.Event(job.Event{Kind: "phase", Text: "planning"})
		w.Stop()
		if got := strings.Contains(out.String(), "  reading"); got != (mode != "none") {
			t.Errorf("%s: %q", mode, out.String())
		}
	}
}

// TestTerminal draws into a little terminal of its own: text goes above the lines, which are drawn
// in their place, and go without a trace.
func TestTerminal(t *testing.T) {
	var out bytes.Buffer
	term := &Terminal{out: &out, size: func() (int, int) { return 40, 10 }}
	fmt.Fprintln(term, "first")
	term.Show([]string{"a 1", "b 1"})
	term.Show([]string{"a 2", "b 2", "c 2"})
	fmt.Fprint(term, "second, without an end")
	term.Show([]string{"a 3"})
	if got := shown(t, out.String()); got != "first\nsecond, without an end\na 3" {
		t.Errorf("shown:\n%s", got)
	}
	fmt.Fprintln(term, "third")
	if got := shown(t, out.String()); got != "first\nsecond, without an end\nthird\na 3" {
		t.Errorf("shown:\n%s", got)
	}
	term.Show(nil)
	if got := shown(t, out.String()); got != "first\nsecond, without an end\nthird" {
		t.Errorf("shown:\n%s", got)
	}
}

// shown is what a terminal that is large enough shows in the end.
func shown(t *testing.T, s string) string {
	screen := []string{""}
	y, x := 0, 0
	for len(s) > 0 {
		if rest, is := strings.CutPrefix(s, "\x1b["); is {
			end := strings.IndexAny(rest, "AJKhl")
			switch arg := rest[:end]; rest[end] {
			case 'A':
				n := 0
				fmt.Sscan(arg, &n)
				if y -= n; y < 0 {
					t.Fatalf("the cursor goes above the screen")
				}
			case 'J':
				screen = screen[:y+1]
				screen[y] = screen[y][:min(x, len(screen[y]))]
			case 'K':
				screen[y] = screen[y][:min(x, len(screen[y]))]
			}
			s = rest[end+1:]
			continue
		}
		switch s[0] {
		case '\r':
			x = 0
		case '\n':
			x = 0
			if y++; y == len(screen) {
				screen = append(screen, "")
			}
		default:
			screen[y] = screen[y][:min(x, len(screen[y]))] + s[:1] + screen[y][min(x+1, len(screen[y])):]
			x++
		}
		s = s[1:]
	}
	return strings.TrimRight(strings.Join(screen, "\n"), "\n")
}
