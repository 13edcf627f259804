package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/job/stream"
)

// A StreamState is a stream with its last sample.
type StreamState struct {
	catalog.Stream
	Running bool                  `json:"running"`
	CutOver bool                  `json:"cut_over,omitempty"` // its last run found both sides equal
	Last    *sampled.Status       `json:"last,omitempty"`
	Error   string                `json:"error,omitempty"`
	Hint    string                `json:"hint,omitempty"`
	Tables  []catalog.StreamTable `json:"tables"`
}

// States shows streams, each with its last sample.
func States(w io.Writer, all []StreamState) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no streams; set one up with tidemark replicate")
	}
	for _, x := range all {
		state := x.State
		if !x.Running {
			keeps := stream.KeepsLog(x.Source)
			state = "stopped (" + strings.ToLower(keeps[:1]) + keeps[1:] + ")"
			if strings.HasSuffix(x.Name, "-apply") {
				state = "stopped (the queue keeps new changes)"
			}
			if x.CutOver {
				state = "cut over, both sides were equal" + strings.TrimPrefix(state, "stopped")
			}
		}
		Printf(w, "%s: %s\n  %s\n  -> %s, since %s\n", x.Name, state, x.Source, x.Target, x.Started.Local().Format("2006-01-02 15:04:05"))
		if x.Last != nil {
			done := "applied"
			if x.Last.Half == "capture" {
				done = "captured"
			}
			if x.Running {
				for _, line := range streamLines(*x.Last) {
					Printf(w, "  %s\n", line)
				}
			} else {
				Printf(w, "  last seen %s: %s\n", x.Last.Time.Local().Format("2006-01-02 15:04:05"), strings.TrimSpace(standing(*x.Last)))
			}
			Printf(w, "  %s transactions, %s rows %s\n", Commas(x.Last.Transactions), Commas(x.Last.Rows), done)
			printKept(w, x)
		}
		printStreamTables(w, x)
		if x.Last != nil {
			for _, table := range x.Last.TablesNew {
				Printf(w, "    %s is new on the source and not in the stream\n      hint: tidemark sub start %s --name %s\n", table, table, x.Name)
			}
		}
		if x.Error != "" {
			Printf(w, "  %s\n", x.Error)
			if x.Hint != "" {
				Printf(w, "    hint: %s\n", x.Hint)
			}
		}
	}
}

// hangs is the age of the last sample from which a running stream is reported as hanging.
const hangs = time.Minute

// printKept shows what limits a running stream, when both servers answered last, and how much log
// is kept for it.
func printKept(w io.Writer, x StreamState) {
	s := x.Last
	if !x.Running {
		return
	}
	if age := time.Since(s.Time); age > hangs {
		Printf(w, "  no figures for %s: the process hangs, or cannot write to its catalogue\n", age.Round(time.Second))
	}
	if s.Limit != "" {
		Printf(w, "  %s\n", s.Limit)
	}
	var heard []string
	for _, c := range []struct {
		end string
		at  time.Time
	}{{"source", s.SourceContact}, {"target", s.TargetContact}} {
		if !c.at.IsZero() {
			heard = append(heard, c.end+" "+c.at.Local().Format("15:04:05"))
		}
	}
	if len(heard) > 0 {
		Printf(w, "  last answer: %s\n", strings.Join(heard, ", "))
	}
	if s.Half == "apply" {
		return
	}
	line := "  the source keeps " + Bytes(s.LogKept) + " of its log for it"
	if !engine.OfURL(x.Source).KeepsLog {
		line = "  " + Bytes(s.LogKept) + " of the source's log is behind it"
	}
	if s.LogRoom >= 0 {
		line += ", room for " + Bytes(s.LogRoom) + " more"
		if s.LogGrowth >= 1 {
			line += fmt.Sprintf(" (full in %s at %s/s)", Clock(time.Duration(float64(s.LogRoom)/s.LogGrowth*float64(time.Second))), Bytes(int64(s.LogGrowth)))
		}
	}
	if s.LogExpiry > 0 {
		line += ", removed after " + (time.Duration(s.LogExpiry) * time.Second).String()
	}
	fmt.Fprintln(w, line)
	printOpen(w, "  ", *s)
}

// shownTables is how many tables that are not active are named.
const shownTables = 10

// printStreamTables shows how many tables a stream has in each state, and which are not active.
func printStreamTables(w io.Writer, x StreamState) {
	if len(x.Tables) == 0 {
		return
	}
	counts := map[string]int{}
	var others []catalog.StreamTable
	for _, t := range x.Tables {
		if counts[t.State]++; t.State != catalog.TableActive {
			others = append(others, t)
		}
	}
	line := "  tables: " + Commas(int64(counts[catalog.TableActive])) + " active"
	for _, state := range []string{catalog.TableLoading, catalog.TableStopped} {
		if counts[state] > 0 {
			line += ", " + Commas(int64(counts[state])) + " " + state
		}
	}
	fmt.Fprintln(w, line)
	for i, t := range others {
		if i == shownTables {
			Printf(w, "    and %d more: tidemark sub --name %s\n", len(others)-i, x.Name)
			break
		}
		line := fmt.Sprintf("    %s %s since %s", t.Table, t.State, t.Since.Local().Format("2006-01-02 15:04:05"))
		if t.Reason != "" {
			line += ": " + t.Reason
		}
		fmt.Fprintln(w, line)
		hint := t.Hint
		if t.State == catalog.TableStopped {
			hint = catalog.Remedy(t.Table, hint, x.Name)
		}
		if hint != "" {
			Printf(w, "      hint: %s\n", hint)
		}
	}
}

// Subscriptions lists the tables of a stream.
func Subscriptions(out io.Writer, known []catalog.StreamTable) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TABLE\tSTATE\tSINCE\tROWS LOADED\tREASON")
	for _, t := range known {
		loaded := ""
		if t.Load != nil {
			var l struct {
				Rows int64 `json:"rows"`
			}
			if json.Unmarshal(t.Load, &l) == nil {
				loaded = Commas(l.Rows)
			}
		}
		reason := t.Reason
		if t.Hint != "" {
			reason += ". " + t.Hint
		}
		Printf(w, "%s\t%s\t%s\t%s\t%s\n", t.Table, t.State, t.Since.Local().Format("2006-01-02 15:04:05"), loaded, reason)
	}
	w.Flush()
}
