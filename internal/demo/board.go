package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A board holds what the tour has measured.
type board struct {
	from, to          string
	counted           count // after the cutover
	repaired, damaged int   // rows that differed before and after the repair
	kills             int
	transactions      int64
	latency, cutover  time.Duration
	moment, back      string
	copy, stream      string // what limited each of them
}

// limits reads the reports of the runs for what limited them.
func (t *tour) limits(ctx context.Context) error {
	out, err := t.asked(ctx, "runs", "--json")
	if err != nil {
		return err
	}
	var runs []struct {
		ID   string `json:"id"`
		Verb string `json:"verb"`
	}
	if err := json.Unmarshal(out, &runs); err != nil {
		return err
	}
	for _, r := range runs {
		if r.Verb != "copy" && r.Verb != "replicate" {
			continue
		}
		if out, err = t.asked(ctx, "report", r.ID, "--json"); err != nil {
			return err
		}
		var report struct {
			Run struct {
				Report struct {
					Limit  string `json:"limit"`
					Stream struct {
						Transactions int64 `json:"trans_applied"`
					} `json:"stream"`
				} `json:"report"`
			} `json:"run"`
		}
		if err := json.Unmarshal(out, &report); err != nil {
			return err
		}
		switch limit := report.Run.Report.Limit; {
		case r.Verb == "copy" && t.board.copy == "":
			t.board.copy = limit
		case r.Verb == "replicate" && t.board.stream == "" && report.Run.Report.Stream.Transactions > 0:
			t.board.stream = limit
		}
	}
	return nil
}

func (b *board) print(took time.Duration) {
	line := fmt.Sprintf("== %s to %s ", b.from, b.to)
	fmt.Printf("\n%s%s\n\n", line, strings.Repeat("=", 78-len(line)))
	for _, x := range [][2]string{
		{"rows moved", fmt.Sprintf("%s, while %s transactions changed them", grouped(b.counted.rows), grouped(int(b.transactions)))},
		{"kill -9", fmt.Sprintf("%d times: in the copy and in the stream", b.kills)},
		{"lost", grouped(b.counted.lost)},
		{"doubled", grouped(b.counted.doubled)},
		{"latency", fmt.Sprintf("%.1f ms from a commit on %s until it is seen on %s", milliseconds(b.latency), b.from, b.to)},
		{"cutover", fmt.Sprintf("%.1f s from the last change to the proof of %s equal rows", b.cutover.Seconds(), grouped(b.counted.rows))},
		{"repaired", fmt.Sprintf("%d rows; %d differ now", b.repaired, b.damaged)},
		{"restored", fmt.Sprintf("%s deleted rows, as of %s", b.back, b.moment)},
		{"limit", "copy: " + b.copy},
		{"", "stream: " + b.stream},
		{"time", fmt.Sprintf("%.0f s", took.Seconds())},
	} {
		fmt.Printf("%-12s%s\n", x[0], wrapped(x[1], 12))
	}
}
