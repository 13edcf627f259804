package flow

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A Report shows where the time of a job's workers went. Roles are in the order of their first use,
// which is the order in which rows pass through them.
type Report struct {
	Roles []Role `json:"roles"`
}

// A Role is a stage with the times of its workers, by number.
type Role struct {
	Name    string  `json:"name"`
	Workers []Times `json:"workers"`
}

// Sum returns the sums of the times of the role's workers.
func (r Role) Sum() Times {
	var sum Times
	for _, t := range r.Workers {
		sum = sum.Add(t)
	}
	return sum
}

// Merge joins the reports of several groups, or of several runs of one job: workers of roles of the
// same name follow each other.
func Merge(reports ...Report) Report {
	var out Report
	for _, rep := range reports {
		for _, role := range rep.Roles {
			i := slices.IndexFunc(out.Roles, func(r Role) bool { return r.Name == role.Name })
			if i < 0 {
				i = len(out.Roles)
				out.Roles = append(out.Roles, Role{Name: role.Name})
			}
			out.Roles[i].Workers = append(out.Roles[i].Workers, role.Workers...)
		}
	}
	return out
}

// String prints a table per role, with a line per worker and a TOT line, like the table that Db2
// prints for a backup. Times are in seconds, kBytes are 1024 bytes.
func (r Report) String() string {
	var b strings.Builder
	width := 8
	for _, role := range r.Roles {
		width = max(width, utf8.RuneCountInString(role.Name))
	}
	for i, role := range r.Roles {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%-*s %9s %9s %9s %9s %9s %10s %12s %13s\n", width, role.Name,
			"Total", "I/O", "Working", "WaitBuf", "WaitWork", "Batches", "kBytes", "Rows")
		for n, t := range role.Workers {
			printTimes(&b, width, fmt.Sprintf("%03d", n), t)
		}
		printTimes(&b, width, "TOT", role.Sum())
	}
	return b.String()
}

func printTimes(b *strings.Builder, width int, name string, t Times) {
	fmt.Fprintf(b, "%-*s %9.2f %9.2f %9.2f %9.2f %9.2f %10d %12d %13d\n", width, name,
		t.Total.Seconds(), t.IO.Seconds(), t.Working.Seconds(), t.WaitBuffer.Seconds(), t.WaitWork.Seconds(),
		t.Batches, t.Bytes/1024, t.Rows)
}

// Limiting returns the role that limits the job, the share of the job's time that its workers were
// busy on average (0 to 1), and what they were busy with: IO or Working. With no workers the role
// is empty.
//
// The stage that limits is busy all the time, while the stages before it wait for buffers and the
// stages after it for work. So a role's score is its busy share, plus half of what the others'
// waiting indicates: the mean share of WaitBuffer before it and of WaitWork after it. Busy shares
// alone would not do: a database session blocked by another one's locks looks as busy as the other.
func (r Report) Limiting() (role string, share float64, why State) {
	var longest time.Duration
	for _, ro := range r.Roles {
		for _, t := range ro.Workers {
			longest = max(longest, t.Total)
		}
	}
	if longest == 0 {
		return "", 0, Working
	}
	best := -1.0
	for i, ro := range r.Roles {
		sum := ro.Sum()
		// A role that existed only for a moment cannot limit the job, however busy it was then: its
		// share is of the job's time.
		busy := ratio(sum.Busy(), max(sum.Total, longest))
		if score := busy + r.waitingFor(i)/2; score > best {
			best, role, share, why = score, ro.Name, busy, Working
			if sum.IO > sum.Working {
				why = IO
			}
		}
	}
	return role, share, why
}

// waitingFor returns the mean share of their time that the other roles wait in i's direction.
func (r Report) waitingFor(i int) float64 {
	if len(r.Roles) < 2 {
		return 0
	}
	var total float64
	for k, ro := range r.Roles {
		sum := ro.Sum()
		switch {
		case k < i:
			total += ratio(sum.WaitBuffer, sum.Total)
		case k > i:
			total += ratio(sum.WaitWork, sum.Total)
		}
	}
	return total / float64(len(r.Roles)-1)
}

func ratio(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}
