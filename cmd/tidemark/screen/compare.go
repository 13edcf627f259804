package screen

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream"
)

// Diff shows a comparison of rows.
//
// whole: with all equal tables, of which otherwise only the largest are listed, and the times of
// each worker.
func Diff(w io.Writer, result diff.Result, findings []tidemark.Finding, whole bool) {
	for _, f := range findings {
		Finding(w, f)
	}
	defer func() {
		for _, line := range advisor.RoundTrips(result.Report) {
			fmt.Fprintln(w, line)
		}
	}()
	if len(result.Tables) == 0 {
		fmt.Fprintln(w, "no tables were compared")
		return
	}
	if whole {
		fmt.Fprintf(w, "%s\n%s", result, result.Report)
		return
	}
	var equal []int64 // rows of the equal tables, the most first
	for _, t := range result.Tables {
		if t.Equal {
			equal = append(equal, t.SourceRows)
		}
	}
	slices.SortFunc(equal, func(a, b int64) int { return cmp.Compare(b, a) })
	left := 0
	for _, t := range result.Tables {
		if t.Equal && len(equal) > slowest+1 && t.SourceRows <= equal[slowest] { // one would take no less room
			left++
			continue
		}
		fmt.Fprint(w, t)
	}
	if left > 0 {
		fmt.Fprintf(w, "%s more, all equal\n", Count(left, "smaller table"))
	}
	fmt.Fprint(w, result.Summary())
}

// Repair shows what was done; without --execute out is only for the statements.
func Repair(errOut, out io.Writer, r *job.Repaired) {
	if !r.Execute {
		out = errOut
	}
	for _, f := range r.Findings {
		Finding(out, f)
	}
	for _, t := range r.Found.Tables {
		if !t.Equal {
			fmt.Fprint(out, t.String())
		}
	}
	Repairs(out, r)
}

// Repairs says how many rows were changed, or would be.
func Repairs(w io.Writer, r *job.Repaired) {
	if !r.Execute {
		fmt.Fprintf(w, "would insert %s, update %s, delete %s; add --execute to make these changes\n", Commas(r.Inserted), Commas(r.Updated), Commas(r.Deleted))
		return
	}
	for _, f := range r.Failed {
		fmt.Fprintf(w, "rejected: %s\n  %s\n", oneLine(f.Error), SQL(f.SQL))
	}
	fmt.Fprintf(w, "inserted %s, updated %s, deleted %s\n", Commas(r.Inserted), Commas(r.Updated), Commas(r.Deleted))
	if r.Unequal > 0 {
		fmt.Fprintf(w, "still different: %s, though written: the target stores other values than it is given (numbers in JSON, triggers); repairing again does not help\n", Count(int(r.Unequal), "row"))
	}
	if r.Changed > 0 || r.Locked > 0 {
		fmt.Fprintf(w, "skipped: %s changed meanwhile, %s locked by others; run repair again\n", Commas(r.Changed), Commas(r.Locked))
	}
	fmt.Fprintf(w, "log: %s\n", r.Log)
}

// Proof shows what a cutover has proved.
func Proof(w io.Writer, p *stream.Proof) {
	if p.Fenced {
		fmt.Fprintln(w, "the source is read-only, and all other sessions were ended")
	}
	fmt.Fprintf(w, "applied:   everything in the source's log (%s transactions, %s rows)\n", Commas(p.Applied.Transactions), Commas(p.Applied.Rows))
	fmt.Fprintf(w, "sequences: %s advanced on the target\n", Count(len(p.Sequences), "sequence"))
	for _, f := range p.Findings {
		Finding(w, f)
	}
	fmt.Fprintf(w, "compared:\n%s\n", p.Compared.String())
	if p.Definitions != nil {
		Definitions(w, p.Definitions)
	}
	switch {
	case !p.Compared.Equal && !slices.ContainsFunc(p.Compared.Tables, func(t diff.TableResult) bool { return !t.Equal }):
		fmt.Fprintln(w, "The rows that were compared are equal, but the target cannot be used as it is: see above.")
	case !p.Compared.Equal:
		fmt.Fprintln(w, "The two sides are not equal: something still writes to the source (stop it, or use --fence), the target was changed, or it stores some values otherwise (tidemark check names them).")
	case !p.Equal():
		fmt.Fprintln(w, "The rows of both sides are equal, but their definitions are not: run the SQL above on the target and cut over again, or accept the differences (--definitions=accept).")
	case p.Definitions == nil:
		fmt.Fprintf(w, "The rows of both sides are equal; definitions were not compared; it took %.1f s. Point the applications at the target now.\n", p.Seconds)
	case !p.Definitions.Equal:
		fmt.Fprintf(w, "The rows of both sides are equal, and the differences of their definitions are accepted; it took %.1f s. Point the applications at the target now.\n", p.Seconds)
	default:
		fmt.Fprintf(w, "Both sides are equal; it took %.1f s. Point the applications at the target now.\n", p.Seconds)
	}
	if p.Equal() {
		fmt.Fprintln(w, "To remove the stream, for which the source may keep its log:")
		for _, line := range p.Remove {
			fmt.Fprintln(w, "  "+line)
		}
	}
	if p.Unfence != "" {
		fmt.Fprintf(w, "To let the source be written again:\n  %s\n", p.Unfence)
	}
}
