package screen

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
)

// A Utility is a run in progress, or one that was killed.
type Utility struct {
	ID      string    `json:"id"` // of its run
	Type    string    `json:"type"`
	Source  string    `json:"source"`
	Target  string    `json:"target"`
	Stream  string    `json:"stream,omitempty"`
	Started time.Time `json:"started"`
	State   string    `json:"state"` // running, dead
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Heard   time.Time `json:"heard,omitzero"` // when it last reported progress
	*catalog.Work
	Percent *float64 `json:"percent,omitempty"` // if the total is known
	Limit   string   `json:"limit,omitempty"`   // of a stream
}

// heardLately is the age from which the time of the last report is shown.
const heardLately = 10 * time.Second

// Utilities shows what is running now.
func Utilities(w io.Writer, all []Utility) {
	if len(all) == 0 {
		fmt.Fprintln(w, "nothing is running with this catalogue; tidemark runs lists what has ended")
	}
	for i, u := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		line := func(name, format string, a ...any) { fmt.Fprintf(w, "%-15s = %s\n", name, fmt.Sprintf(format, a...)) }
		line("ID", "%s", u.ID)
		line("Type", "%s", u.Type)
		description := u.Source + " -> " + u.Target
		if u.Stream != "" {
			description = "stream " + u.Stream + ": " + description
		}
		line("Description", "%s", description)
		line("Start time", "%s", u.Started.Local().Format("2006-01-02 15:04:05"))
		state := u.State
		if u.State == "dead" {
			state = "dead: its process disappeared before it ended"
		}
		line("State", "%s", state)
		line("Process", "%d on %s", u.PID, u.Host)
		u.printWork(line)
	}
}

func (u *Utility) printWork(line func(name, format string, a ...any)) {
	if u.Work == nil {
		line("Completed work", "not reported yet")
		return
	}
	amount := func(n int64) string {
		if u.Unit == "bytes" {
			return Bytes(n)
		}
		return Commas(n) + " " + u.Unit
	}
	if ago := time.Since(u.Heard); u.State == "dead" || ago > heardLately {
		line("Last report", "%s", u.Heard.Local().Format("2006-01-02 15:04:05"))
	}
	line("Phase", "%s", cmp.Or(u.Phase, "starting"))
	if u.Percent != nil {
		line("Total work", "%s", amount(u.Total))
		line("Completed work", "%s (%.1f%%)", amount(u.Done), *u.Percent)
	} else {
		line("Completed work", "%s", amount(u.Done))
	}
	if u.State == "dead" {
		return
	}
	line("Rate", "%s/s", amount(int64(u.Rate)))
	if u.Left >= 0 && u.Percent != nil {
		line("Time remaining", "about %s", Clock(u.Left))
	}
	if u.Limit != "" {
		line("Limit", "%s", u.Limit)
	}
}
