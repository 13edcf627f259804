package screen

import (
	"fmt"
	"io"
	"math"

	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/sampled"
)

// printStream shows what a stream did, with the latency split by stage.
func printStream(w io.Writer, r *job.Report) {
	s := r.Stream
	if s.Half == "capture" {
		fmt.Fprintf(w, "\n%s transactions, %s rows captured in %.1f s (%s trans/s, %s rows/s); peak memory %s\n", Commas(s.Transactions), Commas(s.Rows), s.Seconds,
			Commas(int64(s.PerSecond+0.5)), Commas(int64(s.RowsSecond+0.5)), Bytes(r.PeakRSS))
		if s.Transactions > 0 {
			fmt.Fprintf(w, "from commit to queue: mean %s, p50 %s, p99 %s, max %s\n", millis(s.Capture.Mean), millis(s.Capture.P50), millis(s.Capture.P99), millis(s.Capture.Max))
		}
		printMeasures(w, r)
		return
	}
	fmt.Fprintf(w, "\n%s transactions, %s rows applied in %.1f s (%s trans/s, %s rows/s); peak memory %s\n", Commas(s.Transactions), Commas(s.Rows), s.Seconds,
		Commas(int64(s.PerSecond+0.5)), Commas(int64(s.RowsSecond+0.5)), Bytes(r.PeakRSS))
	waited := ""
	if s.Waited > 0 { // one may have waited for several
		waited = fmt.Sprintf(" (%s for the same row, %s for a unique value, %s for a foreign key, %s for a whole table)", Commas(s.ByKey), Commas(s.ByUnique), Commas(s.ByReference), Commas(s.ByTable))
	}
	fmt.Fprintf(w, "%s had to wait for others%s, %s came too early and were retried, %s were retried after a deadlock or similar error\n",
		Commas(s.Waited), waited, Commas(s.Held), Commas(s.Retried))
	if s.Giants > 0 {
		fmt.Fprintf(w, "%s too large for memory: spilled to a file, and applied alone\n", Count(int(s.Giants), "transaction"))
	}
	fmt.Fprintln(w)
	if s.Batches > 0 {
		fmt.Fprintf(w, "%s batches with %s net changes; %s were rejected, and applied one transaction at a time\n\n", Commas(s.Batches), Commas(s.Net), Commas(s.Refused))
	}
	if s.Exceptions > 0 {
		fmt.Fprintf(w, "%s changes did not fit the target: list them with tidemark exceptions\n\n", Commas(s.Exceptions))
	}
	if s.Transactions == 0 {
		return
	}
	fmt.Fprintln(w, "Latency            mean         p50         p99         max")
	for _, x := range []struct {
		name string
		l    sampled.Latency
	}{{"end to end", s.EndToEnd}, {"  capture", s.Capture}, {"  queue", s.Queue}, {"  apply", s.Apply}} {
		fmt.Fprintf(w, "%-12s%11s %11s %11s %11s\n", x.name, millis(x.l.Mean), millis(x.l.P50), millis(x.l.P99), millis(x.l.Max))
	}
	if s.CommitStep > 0 {
		fmt.Fprintf(w, "End to end and capture are up to %g s too large: the source's log has whole seconds.\n", s.CommitStep)
	}
	if s.Skewed > 0 {
		fmt.Fprintf(w, "The clocks differ: %s transactions appear to be applied before they were committed.\n", Commas(s.Skewed))
	}
	printClocks(w, s.Status)
	fmt.Fprintln(w)
	printMeasures(w, r)
}

// printClocks shows which server's clock differs from this machine's: latencies depend on both.
func printClocks(w io.Writer, s sampled.Status) {
	for _, c := range []struct {
		whose string
		ahead float64
	}{{"source", s.SourceClock}, {"target", s.TargetClock}} {
		if by := math.Abs(c.ahead); by >= 0.02 {
			way := "ahead of"
			if c.ahead < 0 {
				way = "behind"
			}
			fmt.Fprintf(w, "The %s's clock is %.3f s %s this machine's; latencies that start or end there are off by as much.\n", c.whose, by, way)
		}
	}
}

// streamLines is a sample in lines of which all but the first are indented.
func streamLines(s sampled.Status) []string {
	line := fmt.Sprintf("%s  %s trans/s  %s rows/s", s.Time.Local().Format("15:04:05"), Commas(int64(s.PerSecond+0.5)), Commas(int64(s.RowsSecond+0.5)))
	if s.Half == "capture" {
		line += "  captured"
		if s.PerSecond > 0 {
			line += fmt.Sprintf(", in the queue after %s (p99 %s%s)", millis(s.Capture.Mean), millis(s.Capture.P99), within(s))
		}
		line += fmt.Sprintf("  queue: %s messages, %s", Commas(s.QueueMessages), Bytes(s.QueueBytes))
		return []string{line + standing(s)}
	}
	out := []string{line + standing(s)}
	if s.PerSecond > 0 {
		out = append(out, fmt.Sprintf("  end to end %s (p99 %s%s) = capture %s + queue %s + apply %s", millis(s.EndToEnd.Mean), millis(s.EndToEnd.P99), within(s),
			millis(s.Capture.Mean), millis(s.Queue.Mean), millis(s.Apply.Mean)))
	}
	if s.State == sampled.Applying || s.State == sampled.OneAlone {
		line := fmt.Sprintf("  %s in flight", Commas(int64(s.InFlight)))
		if s.Mode == sampled.InBatches {
			line += ", batches"
		} else {
			line += fmt.Sprintf(", agents %.1f/%d", s.Busy, s.Agents)
		}
		out = append(out, line)
	}
	return out
}

// followLine is a sample in a line that fits 80 columns; status and the report have all of it. A
// latency is shown once the stream has caught up: before that it is the age of what was waiting.
func followLine(s sampled.Status) string {
	if s.Half == "capture" {
		return streamLines(s)[0]
	}
	line := fmt.Sprintf("%s  %s trans/s  %s rows/s", s.Time.Local().Format("15:04:05"), Commas(int64(s.PerSecond+0.5)), Commas(int64(s.RowsSecond+0.5)))
	if s.PerSecond > 0 && s.Lag < 1 && s.EndToEnd.Mean < 1000 && s.State != sampled.OneAlone {
		return line + fmt.Sprintf("  end to end %s, p99 %s%s", millis(s.EndToEnd.Mean), millis(s.EndToEnd.P99), within(s))
	}
	return line + standing(s)
}

// within tells how exact latencies are, if that matters.
func within(s sampled.Status) string {
	if s.CommitStep == 0 {
		return ""
	}
	return fmt.Sprintf("; +-%g s", s.CommitStep)
}

// standing is what a stream is doing and how far it is behind, as the end of a line.
func standing(s sampled.Status) string {
	line := "  " + s.Doing
	if s.State != sampled.Idle && s.State != sampled.Connecting {
		line += fmt.Sprintf(", %.1f s behind", s.Lag)
	}
	return line
}

func millis(ms float64) string {
	if ms >= 10_000 {
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return fmt.Sprintf("%.1f ms", ms)
}
