package screen

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

// Verified shows what was found in a repository.
func Verified(w io.Writer, rep *repo.VerifyReport, took time.Duration) {
	for _, d := range rep.Damages {
		Printf(w, "damage: %s: %s\n", d.Object, d.Text)
		if len(d.Backups) > 0 {
			Printf(w, "    needed by %s\n", strings.Join(d.Backups, ", "))
		}
	}
	for _, d := range rep.Left {
		Printf(w, "left over: %s: %s\n", d.Object, d.Text)
	}
	result := "no faults"
	if n := len(rep.Damages); n > 0 {
		result = Count(n, "fault")
	}
	packs := Count(rep.Packs, "pack")
	if rep.Objects > 0 {
		packs += " and " + Count(rep.Objects, "plain object")
	}
	Printf(w, "%s with %s in %s, %s of the log: %s read in %.2f s (%s uncompressed); %s\n", Count(rep.Backups, "backup"), Count(int(rep.Files), "file"), packs, Count(rep.Logs, "file"),
		Bytes(rep.Stored), took.Seconds(), Bytes(rep.Plain), result)
}

// A StartedBackup was restored into a temporary folder, and a server started on it.
type StartedBackup struct {
	Backup   string        `json:"backup"`
	Bytes    int64         `json:"bytes"` // of the restored files
	Restored time.Duration `json:"restore_ns"`
	*physical.TrialReport
	Took time.Duration `json:"took_ns"` // all of it
}

// Started shows the results of a server that was started on a restored backup.
func Started(w io.Writer, st *StartedBackup) {
	Printf(w, "%s restored: %s in %.2f s\n", st.Backup, Bytes(st.Bytes), st.Restored.Seconds())
	for _, d := range st.Damages {
		Printf(w, "damage: %s\n", d)
	}
	Printf(w, "started with %s (%s): ", st.Program, st.Version)
	if st.Recovered == "" && st.Databases+st.Files == 0 {
		fmt.Fprintln(w, "it ended before anything could be checked")
	} else {
		Printf(w, "recovered up to %s in %.2f s; %s B-tree indexes and %s of %s checked by amcheck, %s pages of %s by their checksums\n", strings.TrimSpace(st.Recovered), st.Recovery.Seconds(),
			Commas(int64(st.Indexes)), Count(st.Tables, "table"), Count(st.Databases, "database"), Commas(st.Pages), Count(st.Files, "file"))
	}
	for _, n := range st.Notes {
		Printf(w, "not checked: %s\n", n)
	}
	result := "no faults"
	if n := len(st.Damages); n > 0 {
		result = Count(n, "fault")
	}
	Printf(w, "%s; %.2f s in all\n", result, st.Took.Seconds())
}
