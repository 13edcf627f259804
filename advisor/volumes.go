package advisor

import (
	_ "embed" // for the table
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sample"
)

// A Volume is a kind of disk with its ceilings; 0: none of its own.
type Volume struct {
	Name     string
	Requests float64 // a second
	Bytes    float64 // a second
	Source   string  // where the ceilings are documented
}

//go:embed volumes.txt
var volumesText string

// volumes are those of the table.
var volumes = mustVolumes(volumesText)

func mustVolumes(text string) []Volume {
	all, err := ParseVolumes(text)
	if err != nil {
		panic(err) // a test reads the table
	}
	return all
}

// ParseVolumes reads a table of volumes: lines of name, requests a second, MB/s and source,
// separated by tabs. Lines that begin with # are comments. An error names the line.
func ParseVolumes(text string) (all []Volume, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("line %d is not name, requests a second, MB/s and source, with tabs between: %q", n, line)
		}
		v := Volume{Name: f[0], Source: f[3]}
		if v.Requests, err = ceiling(f[1]); err == nil {
			v.Bytes, err = ceiling(f[2])
			v.Bytes *= 1e6
		}
		if err == nil && v.Requests == 0 && v.Bytes == 0 {
			err = errors.New("has no ceiling")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %q %w", n, f[0], err)
		}
		all = append(all, v)
	}
	return all, nil
}

// ceiling reads one; 0: none.
func ceiling(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= 1e9) {
		return 0, fmt.Errorf("has a ceiling of %q, which is not a number from 0 to a billion", text)
	}
	return x, nil
}

// near reports whether a rate is at a ceiling: such limits are kept within a few percent.
func near(rate, ceiling float64) bool {
	return ceiling > 0 && rate >= 0.92*ceiling && rate <= 1.05*ceiling
}

// ceilings says whether rates of a disk are those at which volumes are held: "" if none is. The
// user's come first.
func (c *serverCase) ceilings(requests, bytes float64) string {
	var some []string
	for _, v := range slices.Concat(c.facts.Volumes, volumes) {
		switch {
		case near(requests, v.Requests):
			some = append(some, fmt.Sprintf("%s (%s requests a second)", v.Name, grouped(int64(v.Requests))))
		case near(bytes, v.Bytes):
			some = append(some, fmt.Sprintf("%s (%.0f MB/s)", v.Name, v.Bytes/1e6))
		}
	}
	if len(some) == 0 {
		return ""
	}
	return "; that is the ceiling of " + strings.Join(some, ", ")
}

// A fall is a rate that was higher at first, and then went down to a base and stayed there.
type fall struct {
	from, to float64 // a second
	at       time.Duration
}

// minFall and steady define one: at least half of the rate is lost, and what it was before and
// after varies little.
const (
	minFall    = 2.0
	steady     = 0.15
	shortTrace = 16
)

// fallOf looks for one in the history of a counter.
func fallOf(history []sample.Moment, on string, g tidemark.Gauge) (f fall, ok bool) {
	var rates []float64
	var ends []time.Duration
	last := time.Duration(0)
	for _, m := range history {
		if took := m.At - last; took > 0 {
			rates, ends = append(rates, m.Counted[on][g]/took.Seconds()), append(ends, m.At)
		}
		last = m.At
	}
	// The end of a job has less to do, and the beginning may have: a twentieth of each is left out.
	cut := len(rates) / 20
	rates, ends = rates[cut:len(rates)-cut], ends[cut:len(ends)-cut]
	if len(rates) < shortTrace {
		return f, false
	}
	best := 2 * steady
	for k := len(rates) / 8; k <= len(rates)*7/8; k++ { // where both sides vary least
		a, b := median(rates[:k]), median(rates[k:])
		if b <= 0 || a/b < minFall {
			continue
		}
		if x, y := spread(rates[:k], a), spread(rates[k:], b); x <= steady && y <= steady && x+y < best {
			best, f, ok = x+y, fall{a, b, ends[k-1]}, true
		}
	}
	return f, ok
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

// spread is the mean distance of values from their median, relative to it.
func spread(values []float64, median float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += max(v-median, median-v)
	}
	return sum / float64(len(values)) / median
}

// burst: the disk was faster at first, until its credit was used up.
func burst(c *serverCase) *reason {
	if c.split.Share(tidemark.WaitDataRead, tidemark.WaitDataWrite, tidemark.WaitDisk, tidemark.WaitLogSync, tidemark.WaitLogWrite) < 0.3 {
		return nil
	}
	for _, g := range []tidemark.Gauge{tidemark.Writes, tidemark.WriteBytes, tidemark.Reads, tidemark.ReadBytes} {
		f, ok := fallOf(c.history, c.split.On, g)
		if !ok {
			continue
		}
		r := &reason{conclusion: fmt.Sprintf("The %s's disk became slower while the job ran: its burst credit is used up.", c.split.On), owner: "hardware", sure: Possible,
			setting: "Use a volume whose base is the rate at first", cost: "a faster volume"}
		name := strings.ReplaceAll(string(g), "_", " ")
		r.evidence = fmt.Sprintf("%.0f %s a second until %s, and %.0f from then on", f.from, name, f.at.Round(time.Second), f.to)
		switch g {
		case tidemark.Writes, tidemark.Reads:
			r.evidence += c.ceilings(f.to, 0)
		default:
			r.evidence = fmt.Sprintf("%.1f MB/s %s until %s, and %.1f from then on", f.from/1e6, strings.TrimSuffix(name, " bytes"), f.at.Round(time.Second), f.to/1e6) + c.ceilings(0, f.to)
		}
		r.gain = time.Duration(float64(max(0, c.server.Took-f.at)) * (1 - f.to/f.from))
		r.arithmetic = fmt.Sprintf("the %s after it, times 1 - %.1f / %.1f", secs(max(0, c.server.Took-f.at)), f.to, f.from)
		return r
	}
	return nil
}
