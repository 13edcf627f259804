package screen

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/advisor"
)

// Diagnoses prints what texts of Db2 tell, and what to change.
func Diagnoses(w io.Writer, all []advisor.Diagnosis) {
	for i, d := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, d.Title)
		fmt.Fprintf(w, "  %s\n", whence(d))
		for _, f := range d.Facts {
			fmt.Fprintf(w, "  %s\n", f)
		}
		fmt.Fprintf(w, "\n  Limit: %s\n", d.Limit)
		for _, n := range d.Notes {
			fmt.Fprintf(w, "  Note: %s\n", n)
		}
		for k, a := range d.Advice {
			fmt.Fprintf(w, "\n  %d. %s\n", k+1, a.Do)
			advice(w, a)
		}
	}
}

// whence is where a listing is, and of what.
func whence(d advisor.Diagnosis) string {
	var of []string
	if d.Database != "" {
		of = append(of, "database "+d.Database)
	}
	if !d.Time.IsZero() {
		of = append(of, d.Time.Format(time.DateTime))
	}
	return strings.Join(append(of, fmt.Sprintf("%s line %d", d.File, d.Line)), ", ")
}

func advice(w io.Writer, a advisor.Advice) {
	label := func(name string, lines ...string) {
		for _, l := range lines {
			if l != "" {
				fmt.Fprintf(w, "     %-9s %s\n", name, l)
			}
			name = ""
		}
	}
	label("evidence", a.Evidence...)
	var settings []string
	for _, s := range a.Settings {
		settings = append(settings, fmt.Sprintf("%s: %s -> %s", s.Name, s.Now, s.Propose))
		if s.Run != "" {
			settings = append(settings, "  "+s.Run)
		}
	}
	label("setting", settings...)
	label("gain", a.Gain)
	sure := string(a.Sure)
	if a.If != "" {
		sure += ", if " + a.If
	}
	label("sure", sure)
	label("cost", a.Cost)
}
