package screen

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemarkdb/tidemark"
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
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "FROM\tTO\tROWS\tSIZE\tRANGES\tFORMAT\tCOLUMNS")
	for i, m := range p.Moves {
		format := ""
		if i < len(p.Formats) {
			format = p.Formats[i].String()
		}
		rows := "?"
		if m.From.Rows >= 0 {
			rows = "~" + Commas(m.From.Rows)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%d\n", m.From.TableID, m.To.TableID, rows, Bytes(m.From.Bytes), ranges[i], format, len(m.Source))
	}
	t.Flush()
	printObjects(w, p, tidemark.BeforeRows, "Before the rows")
	printObjects(w, p, tidemark.AfterTable, "As soon as its table is full")
	printObjects(w, p, tidemark.AfterRows, "After all rows")
	if len(p.Clear) > 0 {
		verb := "Emptied first"
		if p.Prep == load.DropTables {
			verb = "Dropped first"
		}
		fmt.Fprintf(w, "\n%s:\n", verb)
		for _, id := range p.Clear {
			fmt.Fprintf(w, "  %s\n", id)
		}
	}
	Findings(w, p.Findings)
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
			fmt.Fprintf(w, "  %s;\n", strings.TrimRight(strings.ReplaceAll(sql, "\n", "\n  "), "; \n"))
		}
	}
}

// Findings lists findings under a title; nothing where there are none.
func Findings(w io.Writer, findings []tidemark.Finding) {
	if len(findings) == 0 {
		return
	}
	fmt.Fprintln(w, "\nFindings:")
	for _, f := range findings {
		Finding(w, f)
	}
}

// Finding prints a finding, and its hint in a line of its own.
func Finding(w io.Writer, f tidemark.Finding) {
	about := ""
	if f.Object != "" {
		about = f.Object + ": "
	}
	fmt.Fprintf(w, "%s: %s%s\n", f.Severity, about, tidemark.MaskText(f.Text))
	if f.Hint != "" {
		fmt.Fprintf(w, "    hint: %s\n", tidemark.MaskText(f.Hint))
	}
}

// slowest is how many tables a short report lists.
const slowest = 5

// ShortTables shows the tables that took longest, and all that are not complete, where there are more than a few.
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
	Tables(w, some)
	if left := len(tables) - len(some); left > 0 {
		fmt.Fprintf(w, "%s more, all complete, that took less time\n", Count(left, "table"))
	}
}

func took(t catalog.TableStat) time.Duration {
	if t.End.IsZero() {
		return 0
	}
	return t.End.Sub(t.Start)
}

// Tables shows table statistics in the words of DMS.
func Tables(w io.Writer, tables []catalog.TableStat) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tSTATE\tFULL LOAD ROWS\tERROR ROWS\tSIZE\tRANGES\tSTART\tEND\tELAPSED\tWRITTEN BY")
	for _, x := range tables {
		name := x.Schema + "." + x.Name
		if x.TargetSchema != x.Schema || x.TargetName != x.Name {
			name += " -> " + x.TargetSchema + "." + x.TargetName
		}
		start, end, elapsed := "", "", ""
		if !x.Start.IsZero() {
			start = x.Start.Local().Format("15:04:05")
			if !x.End.IsZero() {
				end = x.End.Local().Format("15:04:05")
				elapsed = fmt.Sprintf("%.2f s", took(x).Seconds())
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\t%s\t%s\n", name, x.State, Commas(x.FullLoadRows), Commas(x.FullLoadErrorRows),
			Bytes(x.FullLoadBytes), x.RangesDone, x.Ranges, start, end, elapsed, x.Method)
	}
	t.Flush()
}

// printRows says how much was moved, and how fast.
func printRows(w io.Writer, r *job.Report) {
	before := ""
	if r.EarlierRows > 0 {
		before = fmt.Sprintf(" after %s rows of earlier attempts", Commas(r.EarlierRows))
	}
	rows, bytes := r.Rows-r.EarlierRows, r.Bytes-r.EarlierBytes
	fmt.Fprintf(w, "\n%s rows, %s in %.2f s (%s/s, %s rows/s)%s; peak memory %s\n\n", Commas(rows), Bytes(bytes), r.Seconds,
		Bytes(perSecond(bytes, r.Seconds)), Commas(perSecond(rows, r.Seconds)), before, Bytes(r.PeakRSS))
}

// Report shows what limits and what to do about it; whole: with where the time of each worker went.
func Report(w io.Writer, r *job.Report, whole bool) {
	if r.Stream != nil {
		printStream(w, r)
	} else {
		printRows(w, r)
	}
	if whole {
		fmt.Fprint(w, r.Workers.String())
	}
	if whole && r.Limit != "" {
		fmt.Fprintln(w)
	}
	if r.Limit != "" {
		fmt.Fprintf(w, "%s\n", r.Limit)
	}
	for _, a := range r.Advice {
		fmt.Fprintf(w, "%s\n", a)
	}
	if len(r.Objects) > 0 && r.Objects[0].Seconds >= 0.1 {
		fmt.Fprintln(w, "\nSlowest to build:")
		for i, o := range r.Objects {
			if i == 5 || o.Seconds < 0.1 {
				break
			}
			fmt.Fprintf(w, "  %7.2f s  %s\n", o.Seconds, o.ID)
		}
	}
	if r.Position.Text != "" {
		fmt.Fprintf(w, "\nThe copy is of the source at log position %s", r.Position.Text)
		if r.Position.GTID != "" {
			fmt.Fprintf(w, " (GTID %s)", r.Position.GTID)
		}
		fmt.Fprintln(w, ".")
	}
	if r.Rejected > 0 || r.Cut > 0 {
		fmt.Fprintf(w, "\n%s set aside, %s cut; see %s\n", Count(int(r.Rejected), "row"), Count(int(r.Cut), "value"), strings.Join(r.Files, ", "))
	}
	Findings(w, r.Findings)
	printFailed(w, printRejected(w, r.Failed))
}

// printFailed prints what was not made: what the target has refused, with its reason and the statements as they were
// tried, and then what nobody has tried, because it needs something of these.
func printFailed(w io.Writer, failed []load.Failed) {
	for _, skipped := range []bool{false, true} {
		title := "\nRefused by the target, with its reason; these statements were tried:\n"
		if skipped {
			title = "\nNot tried, because they need what was refused; run them once that is there:\n"
		}
		for _, f := range failed {
			if f.Skipped != skipped {
				continue
			}
			fmt.Fprintf(w, "%s  -- %s\n", title, oneLine(f.Error))
			for _, sql := range f.Object.SQL {
				fmt.Fprintf(w, "%s\n", terminated(strings.TrimRight(sql, "; \n")))
			}
			title = ""
		}
	}
}

// printRejected prints the tables among what failed, and gives the rest.
func printRejected(w io.Writer, failed []load.Failed) (rest []load.Failed) {
	title := "\nRejected:\n"
	for _, f := range failed {
		if f.Object.Kind != "table" {
			rest = append(rest, f)
			continue
		}
		fmt.Fprintf(w, "%s  %s: %s\n", title, f.Object.ID, f.Error)
		title = ""
	}
	return rest
}
