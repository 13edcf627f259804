package screen

import (
	"fmt"
	"io"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream"
)

// Diff shows a comparison of rows.
func Diff(w io.Writer, result diff.Result, findings []tidemark.Finding) {
	for _, f := range findings {
		Finding(w, f)
	}
	if len(result.Tables) == 0 {
		fmt.Fprintln(w, "no table was compared")
		return
	}
	fmt.Fprint(w, result.String())
	fmt.Fprintf(w, "\n%s", result.Report.String())
}

// Repair tells what was done; without --execute out is for the statements alone.
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
		fmt.Fprintf(w, "would insert %s, update %s, delete %s; --execute does it\n", Commas(r.Inserted), Commas(r.Updated), Commas(r.Deleted))
		return
	}
	for _, f := range r.Failed {
		fmt.Fprintf(w, "refused: %s\n  %s\n", f.Error, f.SQL)
	}
	fmt.Fprintf(w, "inserted %s, updated %s, deleted %s\n", Commas(r.Inserted), Commas(r.Updated), Commas(r.Deleted))
	if r.Changed > 0 || r.Locked > 0 {
		fmt.Fprintf(w, "left for another turn: %s changed meanwhile, %s locked by others\n", Commas(r.Changed), Commas(r.Locked))
	}
	fmt.Fprintf(w, "log: %s\n", r.Log)
}

// Proof shows what a cutover has proved.
func Proof(w io.Writer, p *stream.Proof) {
	if p.Fenced {
		fmt.Fprintln(w, "the source is read-only, and all sessions of others are ended")
	}
	fmt.Fprintf(w, "applied:   all that the source's log held (%s transactions, %s rows)\n", Commas(p.Applied.Transactions), Commas(p.Applied.Rows))
	fmt.Fprintf(w, "sequences: %s advanced on the target\n", Count(len(p.Sequences), "sequence"))
	for _, f := range p.Findings {
		Finding(w, f)
	}
	fmt.Fprintf(w, "compared:\n%s\n", p.Compared.String())
	if p.Definitions != nil {
		Definitions(w, p.Definitions)
	}
	switch {
	case !p.Compared.Equal:
		fmt.Fprintln(w, "Both sides are not equal: either something still writes to the source (--fence), or the target was changed.")
	case !p.Equal():
		fmt.Fprintln(w, "The rows of both sides are equal, their definitions are not: run the SQL above on the target and cut over again, or accept the differences (--definitions=accept).")
	case p.Definitions == nil:
		fmt.Fprintf(w, "The rows of both sides are equal; definitions were not compared; it took %.1f s. Point the applications to the target now.\n", p.Seconds)
	case !p.Definitions.Equal:
		fmt.Fprintf(w, "The rows of both sides are equal, and the differences of their definitions are accepted; it took %.1f s. Point the applications to the target now.\n", p.Seconds)
	default:
		fmt.Fprintf(w, "Both sides are equal; it took %.1f s. Point the applications to the target now.\n", p.Seconds)
	}
}
