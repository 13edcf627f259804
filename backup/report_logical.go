package backup

import (
	"fmt"
	"strings"
)

// logical formats the table of a logical backup: each reader is a session of the server, and has a
// writer, which compresses what it has read and writes it to the repository. The times of a line
// add up to its Total.
func (r Report) logical() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Lanes = %d    Compression = %s\n\n", r.Parallelism, r.Codec)
	for _, half := range []struct{ role, sign, work string }{{readerRole, "R", "Working"}, {writerRole, "W", "Compr"}} {
		role, ok := r.role(half.role)
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "%s#  %9s %9s %9s %9s %9s %9s %12s %12s\n", half.sign, "Total", "I/O", half.work, "MsgQ", "WaitQ", "Batches", "Rows", "kBytes")
		for n, t := range append(role.Workers, role.Sum()) {
			queue, idle := t.WaitBuffer, t.WaitWork
			if half.role == writerRole { // these wait for batches that were read
				queue, idle = t.WaitWork, t.WaitBuffer
			}
			fmt.Fprintf(&b, "%s %9.2f %9.2f %9.2f %9.2f %9.2f %9d %12d %12d\n", lineName(n, len(role.Workers)), t.Total.Seconds(), t.IO.Seconds(), t.Working.Seconds(), queue.Seconds(), idle.Seconds(), t.Batches, t.Rows, t.Bytes>>10)
		}
		b.WriteByte('\n')
	}
	return b.String() + r.phases()
}

// phases returns the line of all phases.
func (r Report) phases() string {
	texts := make([]string, len(r.Phases))
	for i, p := range r.Phases {
		texts[i] = fmt.Sprintf("%s %.2f s", p.Name, p.Took.Seconds())
	}
	return strings.Join(texts, ", ") + "\n"
}
