package ha

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
)

// String formats the group as the calculator prints it.
func (g Db2Group) String() string {
	return fmt.Sprintf("%7.3f MB/s@ %3.0f pg/f %.6f s/f", g.Rate, math.Trunc(g.Pages), g.Seconds)
}

// String formats the line of a mode.
func (f Db2Forecast) String() string {
	return fmt.Sprintf("%10s %3s %s, min %s, max %s", f.Mode, f.Marker, f.Target, f.Min, f.Max)
}

// Annotate copies the text of scans. After each rate line it adds the result of each mode, after
// the first distribution of each scan how fast a standby would catch up, and at the end the largest
// flushes of all.
func (c Db2) Annotate(w io.Writer, texts ...string) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "Network: %.3f MB/s of 1048576 bytes, round trip %.6f s\n", c.Network.Rate/MiB, c.Network.RTT)
	rate := "any rate"
	if c.Disk.Rate > 0 {
		rate = fmt.Sprintf("%.3f MB/s of 1048576 bytes", c.Disk.Rate/MiB)
	}
	fmt.Fprintf(out, "Disk: %s, overhead %.6f s a write\n", rate, c.Disk.Overhead)
	var lines []RateLine
	for _, text := range texts {
		lines = append(lines, c.annotate(out, text)...)
	}
	fmt.Fprintln(out)
	for _, m := range c.MaxFlush(lines) {
		fmt.Fprintf(out, "%10s largest flush: predicted %d pages, the workload's at most %d pages\n", m.Mode, int64(m.Predicted), int64(m.Workload))
	}
	return out.Flush()
}

// annotate annotates one scan, and returns its rate lines.
func (c Db2) annotate(out io.Writer, text string) []RateLine {
	r := textReader{p: &Profile{}, block: -1}
	caughtUp := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if r.ended == 1 && !caughtUp && !r.inBlock(line) {
			c.catchup(out, blocks[0].at(&r.p.Distributions).Mean)
			caughtUp = true
		}
		fmt.Fprintln(out, line)
		r.line(line)
		if l, ok := ParseLine(line); ok {
			c.line(out, l)
		}
	}
	if r.ended == 1 && !caughtUp {
		c.catchup(out, blocks[0].at(&r.p.Distributions).Mean)
	}
	return r.p.lines
}

func (c Db2) line(w io.Writer, l RateLine) {
	forecasts := c.Forecast(l)
	if forecasts == nil {
		fmt.Fprintf(w, "%10s     no flushes: no figures\n", "actual")
		return
	}
	fmt.Fprintf(w, "%10s     %s\n", "actual", Db2Group{Rate: l.Rate, Pages: l.FlushPages, Seconds: l.FlushSeconds})
	for _, f := range forecasts {
		fmt.Fprintln(w, f)
	}
}

func (c Db2) catchup(w io.Writer, average float64) {
	g, marker := c.Catchup(average)
	fmt.Fprintf(w, "Average rate %.3f MB/s\nREMOTE CATCHUP %3s %s\n", average, marker, g)
}
