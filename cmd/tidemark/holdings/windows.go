package holdings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/logs"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// Windows tells to which moments backups can be recovered.
func Windows(ctx context.Context, r *repo.Repo, all []*repo.Manifest) ([]logs.Window, error) {
	var bases []logs.Base
	for _, m := range all {
		if m.Form == repo.Logical || m.Kind == repo.Partial {
			continue
		}
		if need, err := Span(m); err == nil { // others are restored without recovery
			bases = append(bases, logs.Base{ID: m.ID, Need: need, Ended: m.Ended})
		}
	}
	return logs.New(r, repo.Codec{}).Windows(ctx, bases)
}

// PrintServers tells for each server in the repository what can be restored.
func PrintServers(w io.Writer, l *List) {
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
		screen.Printf(w, "%s of %s\n", screen.Count(counts[id], "backup"), newest[id].Origin())
		if a := l.Archive; a != nil && a.System == id {
			printArchive(w, l)
		}
	}
	if a := l.Archive; a != nil && newest[a.System] == nil {
		screen.Printf(w, "the log of the server with the system identifier %s is archived, but there is no backup of it\n", a.System)
		printArchive(w, l)
	}
}

// printArchive tells what is archived, and what can be recovered with it.
func printArchive(w io.Writer, l *List) {
	screen.Printf(w, "    log archived: %s, %s stored; ", screen.Count(l.Archive.Files, "file"), screen.Bytes(l.Archive.Stored))
	for i, e := range l.Archive.Spans {
		if i > 0 {
			fmt.Fprint(w, ", ")
		}
		screen.Printf(w, "timeline %d from %s to %s", e.Timeline, e.From, e.To)
	}
	fmt.Fprintln(w)
	local := func(t time.Time) string { return t.Local().Format(time.DateTime) }
	for _, v := range l.Windows {
		until := "with no commit at its end"
		if !v.Until.IsZero() {
			until = "with the last commit at " + local(v.Until)
		}
		screen.Printf(w, "    timeline %d can be recovered from %s (%s, the end of %s) to %s, %s\n", v.Timeline, local(v.Since), v.From, v.Backups[0], v.To, until)
		if v.Missing != "" {
			screen.Printf(w, "        %s is missing there, but later log is archived\n", v.Missing)
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

func ListWindows(all []logs.Window) (out []windowList) {
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

// ArchiveOf describes the archive; nil: there is none.
func ArchiveOf(ctx context.Context, r *repo.Repo) (*archiveList, error) {
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

// Span is the log that a backup of a server's files needs.
func Span(m *repo.Manifest) (logs.Span, error) {
	if len(m.Ranges) == 0 {
		return logs.Span{}, &tidemark.Error{Kind: tidemark.Unsupported, Op: "restore", Object: m.ID, Err: errors.New("the backup does not say which log it needs"), Hint: "Restore it without --to."}
	}
	last := m.Ranges[len(m.Ranges)-1]
	need := logs.Span{System: m.SystemID, Timeline: last.Timeline, Own: last.Count == 0, Cut: m.Standby}
	var err, err2 error
	need.Start, err = wal.ParseLSN(last.Start)
	need.End, err2 = wal.ParseLSN(last.End)
	if err := errors.Join(err, err2); err != nil {
		return need, &tidemark.Error{Kind: tidemark.Corrupt, Op: "restore", Object: m.ID, Err: err, Hint: "tidemark verify says what else is damaged."}
	}
	return need, nil
}

// NextLog gives the name of the next WAL file, for an archive whose files have the size that it
// records, or else the newest backup.
func NextLog(ctx context.Context, r *repo.Repo, all []*repo.Manifest) func(string) string {
	var size int64
	for _, m := range all {
		if m.LogSize > 0 {
			size = m.LogSize
		}
	}
	if of, err := r.LogServer(ctx); err == nil {
		size = int64(of.Segment)
	}
	if size == 0 {
		return nil
	}
	return func(name string) string {
		line, file, ok := strings.Cut(name, "/")
		at, isSegment := wal.ParseName(file, int(size))
		if !ok || !isSegment || len(file) != 24 {
			return ""
		}
		return line + "/" + wal.SegmentName(at.Timeline, at.Place+uint64(size), uint32(size))
	}
}
