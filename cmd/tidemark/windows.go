package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tidemarkdb/tidemark/backup/logs"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// windowsOf tells to which moments backups can be recovered.
func windowsOf(ctx context.Context, r *repo.Repo, all []*repo.Manifest) ([]logs.Window, error) {
	var bases []logs.Base
	for _, m := range all {
		if m.Form == repo.Logical || m.Kind == repo.Partial {
			continue
		}
		if need, err := spanOf(m); err == nil { // others are restored without recovery
			bases = append(bases, logs.Base{ID: m.ID, Need: need, Ended: m.Ended})
		}
	}
	return logs.New(r, repo.Codec{}).Windows(ctx, bases)
}

// printServers tells for each server in the repository what can be restored.
func printServers(w io.Writer, l *backupsList) {
	var systems []string
	newest, counts := map[string]*repo.Manifest{}, map[string]int{}
	for _, m := range l.Backups {
		id := m.Cluster()
		if newest[id] == nil {
			systems = append(systems, id)
		}
		newest[id], counts[id] = m, counts[id]+1
	}
	for _, id := range systems {
		fmt.Fprintf(w, "%s of %s\n", screen.Count(counts[id], "backup"), newest[id].Origin())
		if a := l.Archive; a != nil && a.System == id {
			printArchive(w, l)
		}
	}
	if a := l.Archive; a != nil && newest[a.System] == nil {
		fmt.Fprintf(w, "the log of the server with the system identifier %s is archived, but there is no backup of it\n", a.System)
		printArchive(w, l)
	}
}

// printArchive tells what is archived, and what can be recovered with it.
func printArchive(w io.Writer, l *backupsList) {
	fmt.Fprintf(w, "    log archived: %s, %s stored; ", screen.Count(l.Archive.Files, "file"), screen.Bytes(l.Archive.Stored))
	for i, e := range l.Archive.Spans {
		if i > 0 {
			fmt.Fprint(w, ", ")
		}
		fmt.Fprintf(w, "timeline %d from %s to %s", e.Timeline, e.From, e.To)
	}
	fmt.Fprintln(w)
	local := func(t time.Time) string { return t.Local().Format(time.DateTime) }
	for _, v := range l.Windows {
		until := "with no commit at its end"
		if !v.Until.IsZero() {
			until = "with the last commit at " + local(v.Until)
		}
		fmt.Fprintf(w, "    timeline %d can be recovered from %s (%s, the end of %s) to %s, %s\n", v.Timeline, local(v.Since), v.From, v.Backups[0], v.To, until)
		if v.Missing != "" {
			fmt.Fprintf(w, "        %s is missing there, but later log is archived\n", v.Missing)
		}
	}
	if len(l.Windows) == 0 {
		fmt.Fprintln(w, "    no log is archived after any backup: a restore ends where the backup ended")
	}
}

// windowList is a window for the list.
type windowList struct {
	Timeline uint32    `json:"timeline"`
	Backups  []string  `json:"backups"` // that reach it, the earliest end first
	From     string    `json:"from_lsn"`
	To       string    `json:"to_lsn"`
	Since    time.Time `json:"from"`        // the first backup's end
	Until    time.Time `json:"to,omitzero"` // of the last commit, if the last segments have one
	Missing  string    `json:"missing,omitempty"`
	Gap      *repo.Gap `json:"gap,omitempty"`
}

func listWindows(all []logs.Window) (out []windowList) {
	for _, w := range all {
		out = append(out, windowList{w.Timeline, w.Backups, wal.FormatLSN(w.From), wal.FormatLSN(w.To), w.Since, w.Until, w.Missing, w.Gap})
	}
	return out
}

// archiveList is the archived log of a server.
type archiveList struct {
	System string        `json:"system_id"`
	Files  int           `json:"files"`
	Stored int64         `json:"stored"`
	Spans  []archiveSpan `json:"timelines"`
}

type archiveSpan struct {
	Timeline uint32 `json:"timeline"`
	From     string `json:"from_lsn"` // without gaps: the windows show them
	To       string `json:"to_lsn"`   // of whole files
}

// archiveOf describes the archive; nil: there is none.
func archiveOf(ctx context.Context, r *repo.Repo) (*archiveList, error) {
	s, err := logs.New(r, repo.Codec{}).State(ctx)
	if err != nil || s.Segment == 0 {
		return nil, err
	}
	out := &archiveList{System: s.System, Files: s.Files, Stored: s.Stored, Spans: []archiveSpan{}}
	for i, e := range s.Ends {
		out.Spans = append(out.Spans, archiveSpan{e.Timeline, wal.FormatLSN(s.Begins[i].Place), wal.FormatLSN(e.Place)})
	}
	return out, nil
}
