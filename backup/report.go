package backup

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// Names of the roles.
const (
	readerRole   = "Reader"
	writerRole   = "Writer"
	governorRole = "Governor"
)

// A Report shows where the time of a backup or a restore went.
type Report struct {
	Restore     bool        `json:"restore,omitempty"`
	Logical     bool        `json:"logical,omitempty"`     // of rows: each reader has a writer, which compresses
	LanesTried  bool        `json:"lanes_tried,omitempty"` // logical: one more pair gained too little
	Workers     flow.Report `json:"workers"`
	Phases      []Phase     `json:"phases"`
	Parallelism int         `json:"parallelism"`
	Sessions    int         `json:"sessions"`
	Buffers     int         `json:"buffers"`
	BufferSize  int64       `json:"buffer_size"`
	Codec       string      `json:"codec,omitempty"`
	Space       *Space      `json:"space,omitempty"` // free space within what was read
	Forecasts   []Forecast  `json:"forecasts,omitempty"`
}

// In returns the time of a phase.
func (r Report) In(phase string) (took time.Duration) {
	for _, p := range r.Phases {
		if p.Name == phase {
			took += p.Took
		}
	}
	return took
}

// Took returns the time of all phases.
func (r Report) Took() time.Duration {
	var sum time.Duration
	for _, p := range r.Phases {
		sum += p.Took
	}
	return sum
}

// String formats the table that Db2 prints for a backup: BM are the workers on the server's side,
// MC those on the repository's side, RC those that receive what a server sends. The times of a line
// add up to its Total.
func (r Report) String() string {
	if r.Logical {
		return r.logical()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Parallelism = %d    Sessions = %d    Number of buffers = %d    Buffer size = %d\n\n", r.Parallelism, r.Sessions, r.Buffers, r.BufferSize)
	server, place := readerRole, writerRole
	work := "Compr"
	if r.Restore {
		server, place, work = writerRole, readerRole, "Decompr"
	}
	if role, ok := r.role(receiverRole); ok {
		fmt.Fprintf(&b, "RC# %9s %9s %9s %9s %9s %9s %12s\n", "Total", "I/O", "", "MsgQ", "WaitQ", "Buffers", "kBytes")
		for n, t := range append(role.Workers, role.Sum()) {
			fmt.Fprintf(&b, "%s %9.2f %9.2f %9s %9.2f %9.2f %9d %12d\n", lineName(n, len(role.Workers)), t.Total.Seconds(), (t.IO + t.Working).Seconds(), "", t.WaitBuffer.Seconds(), t.WaitWork.Seconds(), t.Batches, t.Bytes>>10)
		}
		b.WriteByte('\n')
	}
	if role, ok := r.role(server); ok {
		fmt.Fprintf(&b, "BM# %9s %9s %9s %9s %9s %9s %12s\n", "Total", "I/O", work, "MsgQ", "WaitQ", "Buffers", "kBytes")
		for n, t := range append(role.Workers, role.Sum()) {
			queue, idle := t.WaitBuffer, t.WaitWork
			if r.Restore { // these wait at the queue of full buffers
				queue, idle = t.WaitWork, t.WaitBuffer
			}
			fmt.Fprintf(&b, "%s %9.2f %9.2f %9.2f %9.2f %9.2f %9d %12d\n", lineName(n, len(role.Workers)), t.Total.Seconds(), t.IO.Seconds(), t.Working.Seconds(), queue.Seconds(), idle.Seconds(), t.Batches, t.Bytes>>10)
		}
		b.WriteByte('\n')
	}
	if role, ok := r.role(place); ok {
		fmt.Fprintf(&b, "MC# %9s %9s %9s %9s %9s %9s %12s\n", "Total", "I/O", "", "MsgQ", "WaitQ", "Buffers", "kBytes")
		for n, t := range append(role.Workers, role.Sum()) {
			queue, idle := t.WaitWork, t.WaitBuffer
			if r.Restore {
				queue, idle = t.WaitBuffer, t.WaitWork
			}
			fmt.Fprintf(&b, "%s %9.2f %9.2f %9s %9.2f %9.2f %9d %12d\n", lineName(n, len(role.Workers)), t.Total.Seconds(), (t.IO + t.Working).Seconds(), "", queue.Seconds(), idle.Seconds(), t.Batches, t.Bytes>>10)
		}
		b.WriteByte('\n')
	}
	return b.String() + r.phases()
}

func (r Report) role(name string) (flow.Role, bool) {
	for _, role := range r.Workers.Roles {
		if role.Name == name {
			return role, true
		}
	}
	return flow.Role{}, false
}

func lineName(n, workers int) string {
	if n == workers {
		return "TOT"
	}
	return fmt.Sprintf("%03d", n)
}

// of fills in what the workers recorded.
func (r *Report) of(w *crew, t tuned) {
	now := t.begin
	if w != nil {
		now, r.Workers = w.sizes(), w.report()
	}
	r.Parallelism, r.Sessions, r.Buffers, r.BufferSize = now.parallelism, now.sessions, now.buffers, t.buffer
}
