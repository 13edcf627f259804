package advisor

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

func TestExplainStorage(t *testing.T) {
	// worker spent seconds on I/O, working, waiting for a buffer, waiting for work.
	worker := func(io, working, buffer, work float64) flow.Times {
		s := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
		return flow.Times{Total: s(io + working + buffer + work), IO: s(io), Working: s(working), WaitBuffer: s(buffer), WaitWork: s(work)}
	}
	report := func(writer flow.Times, readers ...flow.Times) flow.Report {
		return flow.Report{Roles: []flow.Role{{Name: "Reader", Workers: readers}, {Name: "Writer", Workers: []flow.Times{writer}}}}
	}
	facts := StorageFacts{Parallelism: 2, Sessions: 1, Buffers: 5, Codec: "zstd:3", Took: 10 * time.Second}
	plain, back, slow := facts, facts, facts
	plain.Codec = "none"
	back.Restore = true
	slow.Restore, slow.Prepare = true, 6*time.Second
	for _, c := range []struct {
		name          string
		rep           flow.Report
		facts         StorageFacts
		limit, advice string
	}{
		{"slow target", report(worker(9.5, 0, 0, 0.5), worker(1, 2, 7, 0), worker(1, 2, 7, 0)), facts,
			"Target bound: the workers at the server's files waited for an empty buffer 70% of their time, those that write the repository were busy 95%.", "Raise --sessions from 1"},
		{"slow target, not compressed", report(worker(9.5, 0, 0, 0.5), worker(1, 2, 7, 0), worker(1, 2, 7, 0)), plain, "Target bound", "Compress (--compress lz4"},
		{"slow source", report(worker(1, 0, 0, 9), worker(9, 1, 0, 0), worker(9, 1, 0, 0)), facts,
			"Source bound: the workers at the server's files spent 90% of their time reading, those that write the repository waited for them 90%.", "Raise --parallelism from 2"},
		{"compression", report(worker(1, 0, 0, 9), worker(1, 9, 0, 0), worker(1, 9, 0, 0)), facts, "Compression bound: the workers at the server's files spent 90%", "Raise --parallelism from 2"},
		{"one worker has it all", report(worker(1, 0, 0, 9), worker(8, 2, 0, 0), worker(0, 1, 0, 9)), facts, "The work is uneven", "--buffer-size"},
		{"few buffers", report(worker(5, 0, 0, 5), worker(2, 3, 5, 0), worker(2, 3, 5, 0)), facts, "Too few buffers limit", "Raise --buffers from 5 to 10"},
		{"slow repository", report(worker(2, 1, 0, 7), worker(9, 0, 1, 0)), back, "Reading the repository limits: the workers that write files waited for data 70% of their time, those that read it were busy 90%.", "Raise --sessions"},
		{"slow disk", report(worker(9, 1, 0, 0), worker(1, 0, 9, 0)), back, "Writing the files limits: 90%", "Raise --parallelism"},
		{"unpacking", report(worker(1, 9, 0, 0), worker(1, 0, 9, 0)), back, "Unpacking limits: the workers that write files spent 90%", "Raise --parallelism"},
		{"files are made", report(worker(1, 1, 0, 2), worker(1, 0, 3, 0)), slow, "Making the files at their full size limits: it took 6.0 s of 10.0 s", "ext4"},
		{"nothing ran", flow.Report{}, facts, "The job was too short", ""},
	} {
		limit, advice := ExplainStorage(c.rep, c.facts)
		if !strings.HasPrefix(limit, c.limit) || !strings.Contains(strings.Join(advice, " "), c.advice) {
			t.Errorf("%s: got %q, %q", c.name, limit, advice)
		}
	}
}
