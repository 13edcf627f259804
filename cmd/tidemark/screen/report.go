package screen

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// Plan shows what a copy would do.
func Plan(w io.Writer, p *load.Plan) {
	fmt.Fprintf(w, "%s to %s: %s in %s, %s\n\n", p.Source, p.Target, Count(len(p.Moves), "table"), Count(len(p.Ranges), "range"), Count(len(p.Objects), "object"))
	ranges := map[int]int{}
	for _, r := range p.Ranges {
		ranges[r.Move]++
	}
	out := bufio.NewWriterSize(w, 64<<10) // there may be hundreds of thousands of lines
	defer out.Flush()
	w = out
	line := func(i int) [7]string {
		if i < 0 {
			return [...]string{"FROM", "TO", "ROWS", "SIZE", "RANGES", "FORMAT", "COLUMNS"}
		}
		m := &p.Moves[i]
		format := ""
		if i < len(p.Formats) {
			format = p.Formats[i].String()
		}
		rows := "?"
		if m.From.Rows >= 0 {
			rows = "~" + Commas(m.From.Rows)
		}
		return [...]string{Line(m.From.String()), Line(m.To.String()), rows, Bytes(m.From.Bytes), strconv.Itoa(ranges[i]), format, strconv.Itoa(len(m.Source))}
	}
	var width [7]int
	for i := -1; i < len(p.Moves); i++ {
		for k, cell := range line(i) {
			width[k] = max(width[k], utf8.RuneCountInString(cell))
		}
	}
	for i := -1; i < len(p.Moves); i++ {
		cells := line(i)
		for k, cell := range cells[:6] {
			fmt.Fprintf(w, "%-*s", width[k]+2, cell)
		}
		fmt.Fprintln(w, cells[6])
	}
	printObjects(w, p, tidemark.BeforeRows, "Before the rows")
	printObjects(w, p, tidemark.AfterTable, "As soon as its table is full")
	printObjects(w, p, tidemark.AfterRows, "After all rows")
	if len(p.Clear) > 0 {
		verb, first := "Emptied first", p.Clear
		if p.Prep == load.DropTables {
			verb, first = "Dropped first", append(slices.Clip(first), p.Views()...)
		}
		fmt.Fprintf(w, "\n%s:\n", verb)
		for _, id := range first {
			fmt.Fprintf(w, "  %s\n", Line(id.String()))
		}
	}
	Findings(w, p.Findings, true)
}

func printObjects(w io.Writer, p *load.Plan, phase tidemark.Phase, title string) {
	first := true
	for _, o := range p.Objects {
		if o.Phase != phase {
			continue
		}
		if first {
			fmt.Fprintf(w, "\n%s:\n", title)
			first = false
		}
		for _, sql := range o.SQL {
			fmt.Fprintf(w, "  %s;\n", strings.TrimRight(strings.ReplaceAll(SQL(sql), "\n", "\n  "), "; \n"))
		}
	}
}

// Warn prints a finding beside a command's output; as an event if JSON is requested.
func Warn(w io.Writer, asJSON bool, f tidemark.Finding) {
	if !asJSON {
		Finding(w, f)
		return
	}
	Event(w, struct {
		Event   string `json:"event"`
		Level   string `json:"level"`
		Object  string `json:"object,omitempty"`
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
	}{"warning", f.Severity.String(), f.Object, tidemark.MaskText(f.Text), tidemark.MaskText(f.Hint)})
}

// slowest is how many tables a short report lists.
const slowest = 5

// ShortTables shows the tables that took longest, and all that are not complete, in lines that fit
// 80 columns unless names are long.
func ShortTables(w io.Writer, tables []catalog.TableStat) {
	some := slices.Clone(tables)
	slices.SortStableFunc(some, func(a, b catalog.TableStat) int { return cmp.Compare(took(b), took(a)) })
	for i, t := range slices.Backward(some) {
		if i >= slowest && t.State == load.TableCompleted && t.FullLoadErrorRows == 0 {
			some = slices.Delete(some, i, i+1)
		}
	}
	if len(some) == len(tables) {
		some = tables // in their own order
	}
	incomplete := slices.ContainsFunc(some, func(t catalog.TableStat) bool { return t.State != load.TableCompleted })
	rejected := slices.ContainsFunc(some, func(t catalog.TableStat) bool { return t.FullLoadErrorRows > 0 })
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, rows, size, time, errors, state string) {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s", name, rows, size, time)
		if rejected {
			fmt.Fprintf(out, "\t%s", errors)
		}
		if incomplete {
			fmt.Fprintf(out, "\t%s", state)
		}
		fmt.Fprintln(out)
	}
	row("TABLE", "ROWS", "SIZE", "TIME", "ERROR ROWS", "STATE")
	for _, t := range some {
		row(named(t), Commas(t.FullLoadRows), Bytes(t.FullLoadBytes), elapsed(t), Commas(t.FullLoadErrorRows), t.State)
	}
	out.Flush()
	if left := len(tables) - len(some); left > 0 {
		fmt.Fprintf(w, "%s more, all complete, took less time\n", Count(left, "table"))
	}
}

func took(t catalog.TableStat) time.Duration {
	if t.End.IsZero() {
		return 0
	}
	return t.End.Sub(t.Start)
}

// elapsed is how long a table took; "" if it is not complete.
func elapsed(t catalog.TableStat) string {
	if t.Start.IsZero() || t.End.IsZero() {
		return ""
	}
	return fmt.Sprintf("%.2f s", took(t).Seconds())
}

// named is a table's name, and that on the target if it differs.
func named(t catalog.TableStat) string {
	name := t.Schema + "." + t.Name
	if t.TargetSchema != t.Schema || t.TargetName != t.Name {
		name += " -> " + t.TargetSchema + "." + t.TargetName
	}
	return Line(name)
}

// Tables shows table statistics in the terms of DMS.
func Tables(w io.Writer, tables []catalog.TableStat) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tSTATE\tFULL LOAD ROWS\tERROR ROWS\tSIZE\tRANGES\tSTART\tEND\tELAPSED\tWRITTEN BY")
	for _, x := range tables {
		start, end := "", ""
		if !x.Start.IsZero() {
			start = x.Start.Local().Format("15:04:05")
		}
		if !x.End.IsZero() {
			end = x.End.Local().Format("15:04:05")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\t%s\t%s\n", named(x), x.State, Commas(x.FullLoadRows), Commas(x.FullLoadErrorRows),
			Bytes(x.FullLoadBytes), x.RangesDone, x.Ranges, start, end, elapsed(x), x.Method)
	}
	t.Flush()
}

// printRows shows how much was moved, and how fast.
func printRows(w io.Writer, r *job.Report) {
	before := ""
	if r.EarlierRows > 0 {
		before = fmt.Sprintf(", after %s rows in earlier attempts", Commas(r.EarlierRows))
	}
	rows, bytes := r.Rows-r.EarlierRows, r.Bytes-r.EarlierBytes
	fmt.Fprintf(w, "\n%s rows, %s in %.2f s (%s/s, %s rows/s)%s; peak memory %s\n\n", Commas(rows), Bytes(bytes), r.Seconds,
		Bytes(perSecond(bytes, r.Seconds)), Commas(perSecond(rows, r.Seconds)), before, Bytes(r.PeakRSS))
}

// Report shows what limits, and what to do about it; whole: with the times of each worker.
func Report(w io.Writer, r *job.Report, whole bool) {
	if r.Stream != nil {
		printStream(w, r)
	} else {
		printRows(w, r)
		printForeseen(w, r.Foreseen)
	}
	if whole {
		fmt.Fprint(w, r.Workers.String())
	}
	Servers(w, r.Servers, whole)
	if whole && r.Limit != "" {
		fmt.Fprintln(w)
	}
	for _, line := range advisor.RoundTrips(r.Workers) {
		fmt.Fprintln(w, line)
	}
	if r.Limit != "" {
		fmt.Fprintf(w, "%s\n", r.Limit)
	}
	for _, a := range r.Advice {
		fmt.Fprintf(w, "%s\n", a)
	}
	experiments(w, r.Experiments)
	if len(r.Objects) > 0 && r.Objects[0].Seconds >= 0.1 {
		fmt.Fprintln(w, "\nSlowest apart from the rows:")
		for i, o := range r.Objects {
			if i == 5 || o.Seconds < 0.1 {
				break
			}
			fmt.Fprintf(w, "  %7.2f s  %s\n", o.Seconds, Line(o.ID))
		}
	}
	if r.Position.Text != "" {
		fmt.Fprintf(w, "\nThe copy shows the source at log position %s", r.Position.Text)
		if r.Position.GTID != "" {
			fmt.Fprintf(w, " (GTID %s)", r.Position.GTID)
		}
		fmt.Fprintln(w, ".")
	}
	if r.Rejected > 0 || r.Cut > 0 {
		fmt.Fprintf(w, "\n%s rejected, %s truncated; see %s\n", Count(int(r.Rejected), "row"), Count(int(r.Cut), "value"), strings.Join(r.Files, ", "))
	}
	Findings(w, r.Findings, whole)
	printFailed(w, printRejected(w, printUnproved(w, r.Failed)))
}

// printUnproved prints what the target lacks though no statement failed, and returns the rest.
func printUnproved(w io.Writer, failed []load.Failed) (rest []load.Failed) {
	title := "\nNot on the target as planned, though no statement failed:\n"
	for _, f := range failed {
		if !f.Unproved {
			rest = append(rest, f)
			continue
		}
		fmt.Fprintf(w, "%s  %s: %s\n", title, Line(f.Object.ID), oneLine(f.Error))
		statements(w, f.Object.SQL)
		title = ""
	}
	return rest
}

// printFailed prints what was not created: what the target has rejected, with the reason and the
// statements as they were tried, and then what was not tried, because it depends on these.
func printFailed(w io.Writer, failed []load.Failed) {
	for _, skipped := range []bool{false, true} {
		title := "\nRejected by the target; these statements were tried:\n"
		if skipped {
			title = "\nNot tried, because they depend on a rejected statement; run them once that one has succeeded:\n"
		}
		for _, f := range failed {
			if f.Skipped != skipped {
				continue
			}
			fmt.Fprintf(w, "%s  -- %s\n", title, oneLine(f.Error))
			statements(w, f.Object.SQL)
			title = ""
		}
	}
}

// statements prints SQL, ready to be run.
func statements(w io.Writer, all []string) {
	for _, sql := range all {
		fmt.Fprintln(w, SQL(terminated(strings.TrimRight(sql, "; \n"))))
	}
}

// printRejected prints the tables among the failures, and gives the rest.
func printRejected(w io.Writer, failed []load.Failed) (rest []load.Failed) {
	title := "\nRejected:\n"
	for _, f := range failed {
		if f.Object.Kind != "table" {
			rest = append(rest, f)
			continue
		}
		fmt.Fprintf(w, "%s  %s: %s\n", title, Line(f.Object.ID), oneLine(f.Error))
		title = ""
	}
	return rest
}

// Runs lists runs.
func Runs(w io.Writer, runs []catalog.Run) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tVERB\tSTARTED\tTOOK\tSTATE\tSOURCE\tTARGET")
	for _, r := range runs {
		took := ""
		if !r.Ended.IsZero() {
			took = r.Ended.Sub(r.Started).Round(10 * time.Millisecond).String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Verb, r.Started.Local().Format("2006-01-02 15:04:05"), took, r.State, r.Source, r.Target)
	}
	return t.Flush()
}
