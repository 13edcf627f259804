package screen

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tidemarkdb/tidemark/backup/repo"
)

// Pruned is the printed form of what was removed.
type Pruned struct {
	DryRun  bool          `json:"dry_run"`
	Backups []PrunedItem  `json:"backups"` // newest first
	Orphans []repo.Orphan `json:"unfinished"`
	Logs    []string      `json:"logs"`
	Locks   []string      `json:"locks"`
	Left    []string      `json:"left"`
	Notes   []string      `json:"notes"`
	Bytes   int64         `json:"bytes"`
}

type PrunedItem struct {
	ID      string   `json:"id"`
	Kind    string   `json:"kind"`
	Started string   `json:"started"`
	Stored  int64    `json:"stored"`
	Stays   bool     `json:"stays"`
	Why     []string `json:"why,omitempty"`
}

// PrunedAs combines what was removed, or would be, with what stays.
func PrunedAs(rep *repo.PruneReport, dry bool) Pruned {
	item := func(m *repo.Manifest) PrunedItem {
		return PrunedItem{ID: m.ID, Kind: m.Called(), Started: m.Started.Local().Format("2006-01-02 15:04:05"), Stored: m.Stored}
	}
	p := Pruned{DryRun: dry, Orphans: rep.Orphans, Left: rep.Left, Notes: rep.Notes, Bytes: rep.Bytes}
	stay, gone := rep.Stay, rep.Gone
	for len(stay)+len(gone) > 0 {
		if len(gone) == 0 || len(stay) > 0 && stay[0].Started.After(gone[0].Started) {
			i := item(stay[0].Manifest)
			i.Stays, i.Why = true, stay[0].Why
			p.Backups, stay = append(p.Backups, i), stay[1:]
		} else {
			p.Backups, gone = append(p.Backups, item(gone[0])), gone[1:]
		}
	}
	for _, l := range rep.Logs {
		p.Logs = append(p.Logs, l.Name)
	}
	for _, l := range rep.Locks {
		p.Locks = append(p.Locks, l.String())
	}
	return p
}

// Prune shows what was removed, and why the rest stays.
func Prune(w io.Writer, p Pruned) {
	verb := "removed"
	if p.DryRun {
		verb = "would be removed"
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "BACKUP\tKIND\tSTARTED\tSTORED\tSTAYS")
	for _, b := range p.Backups {
		why := "no"
		if b.Stays {
			why = strings.Join(b.Why, ", ")
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\n", b.ID, b.Kind, b.Started, Bytes(b.Stored), why)
	}
	t.Flush()
	fmt.Fprintln(w)
	for _, o := range p.Orphans {
		Printf(w, "unfinished backup %s, %s in %s: %s\n", o.ID, Bytes(o.Bytes), Count(o.Packs, "pack"), verb)
	}
	if n := len(p.Logs); n > 0 {
		Printf(w, "%s of the log, %s to %s: %s\n", Count(n, "file"), p.Logs[0], p.Logs[n-1], verb)
	}
	for _, l := range p.Locks {
		Printf(w, "stale lock of %s: %s\n", l, verb)
	}
	for _, l := range p.Left {
		Printf(w, "%s, an incomplete write: %s\n", l, verb)
	}
	for _, n := range p.Notes {
		fmt.Fprintln(w, n)
	}
	gone := 0
	for _, b := range p.Backups {
		if !b.Stays {
			gone++
		}
	}
	Printf(w, "%s of %s, %s in all: %s\n", Commas(int64(gone)), Count(len(p.Backups), "backup"), Bytes(p.Bytes), verb)
}
