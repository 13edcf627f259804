// Package holdings tells what a repository of backups holds: which backups, which of them a name
// means (Choice), to which moments they can be recovered (Windows), and all of it as a List.
package holdings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
)

// Readable gives the backups whose manifests can be read, oldest first, and as damaged the
// error of the first one that cannot.
func Readable(ctx context.Context, r *repo.Repo) (all []*repo.Manifest, damaged, err error) {
	ids, err := r.IDs(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		m, err := r.Brief(ctx, id)
		switch kind := tidemark.KindOf(err); {
		case err == nil:
			all = append(all, m)
		case kind == tidemark.NotFound: // removed
		case kind == tidemark.Corrupt || kind == tidemark.Unsupported:
			damaged = errors.Join(damaged, err)
		default:
			return nil, nil, err
		}
	}
	repo.SortByAge(all)
	return all, damaged, nil
}

// List is what --json prints.
type List struct {
	Repository string           `json:"repository"`
	Encrypted  bool             `json:"encrypted"`
	Places     []string         `json:"places,omitempty"` // over which it is striped
	Backups    []*repo.Manifest `json:"backups"`
	Pinned     []string         `json:"pinned,omitempty"`
	Archive    *archiveList     `json:"archive,omitempty"`    // of the log
	Windows    []windowList     `json:"windows,omitempty"`    // moments that can be recovered with it
	Gaps       []repo.Gap       `json:"gaps,omitempty"`       // of the log, where files were dropped
	Unfinished []*repo.Manifest `json:"unfinished,omitempty"` // that can be resumed, the newest first
}

func Listed(r *repo.Repo, all []*repo.Manifest, pins map[string]bool, gaps []repo.Gap) List {
	return List{Repository: r.ID(), Encrypted: r.Encrypted(), Places: Places(r), Backups: all, Pinned: slices.Sorted(maps.Keys(pins)), Gaps: gaps}
}

// Places gives the places over which a repository is striped.
func Places(r *repo.Repo) (out []string) {
	if s := r.Stripe(); s != nil {
		for _, p := range s.Places() {
			out = append(out, p.String())
		}
	}
	return out
}

func Print(w io.Writer, all []*repo.Manifest, pins map[string]bool) {
	if len(all) == 0 {
		fmt.Fprintln(w, "there is no backup")
		return
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "BACKUP\tKIND\tSTARTED\tTOOK\tFILES\tSIZE\tSTORED\tTIMELINE\tLOG\tSERVER\tLABEL")
	for _, m := range all {
		kind, of := m.Called(), m.Engine+" "+m.Version
		if m.Server != "" {
			of = m.Server + ", " + of
		}
		if m.Form == repo.Logical {
			of += " " + m.Database + ", " + screen.Count(m.Tables, "table") + ", " + screen.Commas(m.Rows) + " rows"
		}
		if m.Parent != "" {
			kind += " on " + m.Parent
		}
		if pins[m.ID] {
			kind += ", pinned"
		}
		timeline, log := "-", "-"
		if n := len(m.Ranges); n > 0 {
			timeline, log = fmt.Sprint(m.Ranges[n-1].Timeline), m.Ranges[0].Start+" to "+m.Ranges[n-1].End
			if first := m.Ranges[0].Timeline; n > 1 {
				timeline = fmt.Sprint(first, " to ", timeline)
			}
		} else if m.Form == repo.Logical && m.Position.Text != "" {
			log = m.Position.Text
		}
		screen.Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.ID, kind, m.Started.Local().Format("2006-01-02 15:04:05"), m.Ended.Sub(m.Started).Round(10*time.Millisecond),
			screen.Commas(m.Count), screen.Bytes(m.Bytes), screen.Bytes(m.Stored), timeline, log, of, m.Label)
	}
	t.Flush()
	for _, m := range all {
		for _, note := range m.Notes {
			screen.Printf(w, "%s: %s\n", m.ID, note)
		}
	}
}
