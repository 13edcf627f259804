package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/store"
)

// Storage shows what a backup or a restore has moved, and what limits it; whole: with the times of
// each worker.
func Storage(w io.Writer, rep *job.StorageReport, whole bool) {
	took := rep.Report.Took()
	what := "backup " + rep.Backup
	if rep.Verb == "restore" {
		what = "restored backup " + rep.Backup
	}
	of := Count(int(rep.Files), "file")
	if rep.Report.Logical {
		of = fmt.Sprintf("%s of %s", Count(int(rep.Rows), "row"), Count(rep.Tables, "table"))
	}
	if rep.Origin != "" {
		what += " of " + rep.Origin
	}
	fmt.Fprintf(w, "%s: %s in %s, %s in %.2f s, %s/s", what, Bytes(rep.Bytes), of, Bytes(rep.Stored)+" stored", took.Seconds(), Bytes(rate64(rep.Bytes, took)))
	if rep.Gone > 0 {
		fmt.Fprintf(w, "; %s disappeared meanwhile", Count(int(rep.Gone), "file"))
	}
	if rep.Increment != nil {
		fmt.Fprintf(w, "\n%s", rep.Increment)
	}
	if o := rep.Over; o != nil {
		fmt.Fprintf(w, "\nover existing files: %s compared, %s fetched, %s written, %s removed", Bytes(o.Looked), Bytes(o.Fetched), Bytes(o.Written), Count(int(o.Removed), "file"))
	}
	fmt.Fprint(w, "\n\n")
	if whole {
		fmt.Fprintf(w, "%s\n", rep.Report)
	}
	if whole {
		printSpent(w, rep.Store)
	}
	Servers(w, rep.Servers, whole)
	for _, line := range advisor.StorageTrips(rep.Report.Workers, rep.Report.Restore, rep.Report.Logical) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w, rep.Limit)
	for _, a := range rep.Advice {
		fmt.Fprintln(w, a)
	}
	printTargets(w, rep)
	if rep.PeakRSS > 0 {
		fmt.Fprintf(w, "Peak memory of this process: %s.\n", Bytes(rep.PeakRSS))
	}
	Findings(w, rep.Findings, whole)
	for _, d := range rep.Damaged {
		fmt.Fprintf(w, "damaged: %s\n", d)
	}
}

// printSpent tells apart what calls to the repository were.
func printSpent(w io.Writer, s store.Spent) {
	if s.Calls > 0 {
		fmt.Fprintf(w, "At the repository: %s, %.1f s = writes %.1f + %s (syncs, ends of uploads) %.1f + reads %.1f\n", Count(int(s.Calls), "call"), (s.Reading + s.Writing + s.Committing).Seconds(),
			s.Writing.Seconds(), Count(int(s.Commits), "commit"), s.Committing.Seconds(), s.Reading.Seconds())
	}
}

// explainStorage shows what limited a backup or a restore, the evidence, and what to change.
func explainStorage(w io.Writer, run catalog.Run, rep *job.StorageReport) {
	fmt.Fprintf(w, "run %s: %s of %s, %s, %.1f s\n\n%s\n", run.ID, run.Verb, run.Source, run.State, rep.Report.Took().Seconds(), rep.Limit)
	for i, a := range rep.Advice {
		fmt.Fprintf(w, "\n%d. %s\n", i+1, a)
	}
	fmt.Fprintf(w, "\n%s\n", rep.Report)
	printSpent(w, rep.Store)
	Servers(w, rep.Servers, true)
	if rep.Servers != nil {
		printCounted(w, rep.Servers.Servers)
	}
}

// storageOf returns the report of a run that was a backup or a restore; nil if it was another.
func storageOf(run catalog.Run) *job.StorageReport {
	var rep job.StorageReport
	if run.Verb != "backup" && (run.Verb != "restore" || len(run.Plan) > 0) || len(run.Report) == 0 || json.Unmarshal(run.Report, &rep) != nil {
		return nil // a restore into a database is a copy, and has a plan
	}
	return &rep
}

// printTargets shows the times of each place of a mirror: sums over the objects that were being
// written there.
func printTargets(w io.Writer, rep *job.StorageReport) {
	if len(rep.Targets) == 0 {
		return
	}
	fmt.Fprintf(w, "\nTARGET %9s %9s %9s %12s\n", "Total", "I/O", "MsgQ", "kBytes")
	for n, t := range rep.Targets {
		lost := ""
		if t.Error != "" {
			lost = "  LOST"
		}
		fmt.Fprintf(w, "%03d    %9.2f %9.2f %9.2f %12d  %s%s\n", n, t.Life.Seconds(), t.IO.Seconds(), t.Wait.Seconds(), t.Written>>10, t.Place, lost)
	}
	fmt.Fprintln(w)
}

func rate64(bytes int64, took time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(bytes) / took.Seconds())
}

// A StorageWatch prints the progress of a backup or a restore, in lines.
type StorageWatch struct {
	v    View
	out  io.Writer
	done chan struct{}
	gone chan struct{}
}

// WatchStorage makes a display of a backup or a restore.
func WatchStorage(v View, out io.Writer) *StorageWatch {
	return &StorageWatch{v: v, out: out, done: make(chan struct{}), gone: make(chan struct{})}
}

// Watch begins to print. It shows a phase when it begins, and every two seconds; as JSON at least
// once.
func (w *StorageWatch) Watch(of interface{ Status() backup.Status }) {
	crash.Go(func() {
		defer close(w.gone)
		phase, said := "", time.Now()
		every(100*time.Millisecond, w.done, func() {
			now := of.Status()
			if w.v.Progress == "none" || now.Phase == "" || now.Phase == phase && time.Since(said) < 2*time.Second {
				return
			}
			phase, said = now.Phase, time.Now()
			w.print(now)
		})
		if phase == "" && w.v.JSON && w.v.Progress != "none" {
			w.print(of.Status()) // one that took less than a look
		}
	})
}

func (w *StorageWatch) print(now backup.Status) {
	if w.v.JSON {
		Event(w.out, struct {
			Event string `json:"event"`
			backup.Status
		}{"progress", now})
		return
	}
	line := now.Phase
	if now.Phase == "prepare" {
		if now.ToAside > 0 {
			line += fmt.Sprintf(": %.1f%% (%s of %s preallocated for large files)", 100*float64(now.Aside)/float64(now.ToAside), Bytes(now.Aside), Bytes(now.ToAside))
		}
	} else if now.Total > 0 {
		line += fmt.Sprintf(": %.1f%% (%s of %s)", now.Percent, Bytes(now.Done), Bytes(now.Total))
	}
	if now.Left > 0 {
		line += ", ETA " + now.Left.Round(time.Second).String()
	}
	fmt.Fprintln(w.out, line)
}

// Stop ends the printing; a second time it does nothing.
func (w *StorageWatch) Stop() {
	select {
	case <-w.done:
		return
	default:
	}
	close(w.done)
	select {
	case <-w.gone:
	case <-time.After(time.Second): // it was never started
	}
}
