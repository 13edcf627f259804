package screen

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/tidemarkdb/tidemark/job"
)

// span is a time for people, of the size that matters.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", seconds)
	}
	return fmt.Sprintf("%.1f s", seconds)
}

// Forecast shows how long a copy will take.
func Forecast(w io.Writer, f *job.Forecast) {
	rows := ""
	if f.Rows >= 0 {
		rows = ", about " + Commas(f.Rows) + " rows"
	}
	fmt.Fprintf(w, "%s (%s to %s), in four of five cases, for %s%s, %s, %s\n\n", span(f.Expected), span(f.Low), span(f.High), Count(f.Tables, "table"), rows, Bytes(f.Bytes), Count(f.Objects, "object"))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "PHASE\tTIME\tLIMIT")
	for _, p := range f.Phases {
		fmt.Fprintf(t, "%s\t%s\t%s\n", p.Name, span(p.Seconds), p.Limit)
	}
	t.Flush()
	if f.Best.Seconds < f.Expected*job.WorthIt {
		fmt.Fprintf(w, "\nBest settings: --lanes %d --finishers %d: %s\n", f.Best.Lanes, f.Best.Finishers, span(f.Best.Seconds))
	} else {
		fmt.Fprintf(w, "\nBest settings: these (%s, %s); others gain nothing\n", Count(f.Best.Lanes, "lane"), Count(f.Best.Finishers, "finisher"))
	}
	for _, s := range f.Speed {
		fmt.Fprintf(w, "Measured: %s move %s/s\n", Count(s.Lanes, "lane"), Bytes(int64(s.Rate)))
	}
	for _, b := range f.Basis {
		fmt.Fprintf(w, "It rests on %s.\n", b)
	}
	for _, n := range f.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

// printForeseen compares a run with its forecast.
func printForeseen(w io.Writer, f *job.Foreseen) {
	if f == nil {
		return
	}
	how := "within"
	switch {
	case f.Took < f.Low:
		how = "less than"
	case f.Took > f.High:
		how = "more than"
	}
	fmt.Fprintf(w, "Forecast %s (%s to %s); it took %s, %s the interval\n", span(f.Expected), span(f.Low), span(f.High), span(f.Took), how)
}
