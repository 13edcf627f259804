package screen

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/sample"
)

// smallPart is the share of a worker's I/O below which a part is summed up with others, unless all
// are to be shown.
const smallPart = 0.02

// Servers shows what the workers' I/O consisted of.
func Servers(w io.Writer, a *sample.Account, whole bool) {
	if a == nil {
		return
	}
	if whole && len(a.Roles) > 0 {
		fmt.Fprintln(w)
	}
	for _, s := range a.Roles {
		if s.IO < 100*time.Millisecond && !whole {
			continue
		}
		var parts []string
		rest := time.Duration(0)
		for _, p := range s.Parts {
			if !whole && float64(p.Time) < smallPart*float64(s.IO) {
				rest += p.Time
				continue
			}
			text := fmt.Sprintf("%s %.1f", p.Kind, p.Time.Seconds())
			if whole && p.Event != "" {
				text += fmt.Sprintf(" (%s)", p.Event)
			}
			parts = append(parts, text)
		}
		if rest >= 50*time.Millisecond {
			parts = append(parts, fmt.Sprintf("other %.1f", rest.Seconds()))
		}
		fmt.Fprintf(w, "%s I/O %.1f s on the %s = %s\n", s.Role, s.IO.Seconds(), s.On, strings.Join(parts, " + "))
	}
	if m := a.Machine; m != nil && (whole || anyHere(a)) {
		fmt.Fprintf(w, "This machine: %d processors, %.0f%% busy (tidemark %.0f%%), %.0f%% idle while a disk was waited for\n", m.Processors, 100*m.Busy, 100*m.Own, 100*m.IOWait)
	}
	for _, note := range a.Notes {
		fmt.Fprintln(w, note)
	}
	if !whole && len(a.Roles) > 0 {
		fmt.Fprintln(w)
	}
}

// anyHere reports whether a server is on this machine.
func anyHere(a *sample.Account) bool {
	for _, s := range a.Roles {
		if s.Here {
			return true
		}
	}
	return false
}
