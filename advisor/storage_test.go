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
	sent := report(worker(1, 0, 0, 9), worker(0, 1, 0, 9), worker(0, 1, 0, 9))
	sent.Roles = append(sent.Roles, flow.Role{Name: "Receiver", Workers: []flow.Times{worker(9, 0, 1, 0), worker(10, 0, 0, 0)}})
	waits, spread, loose := facts, facts, facts
	waits.Server, spread.Server, spread.Spread = 7*time.Second, 7*time.Second, true
	loose.Free = FreeSpace{Bytes: 30 << 20, Of: 40 << 20, Most: []string{"shop.public.a (20 of 22 MB)", "shop.public.b (8 of 9 MB)"}}
	for _, c := range []struct {
		name          string
		rep           flow.Report
		facts         StorageFacts
		limit, advice string
	}{
		{"slow target", report(worker(9.5, 0, 0, 0.5), worker(1, 2, 7, 0), worker(1, 2, 7, 0)), facts,
			"Target bound: the workers on the server's files waited for an empty buffer 70% of their time, those that write the repository were busy 95%.", "Raise --sessions from 1"},
		{"slow target, not compressed", report(worker(9.5, 0, 0, 0.5), worker(1, 2, 7, 0), worker(1, 2, 7, 0)), plain, "Target bound", "Compress (--compress s2"},
		{"slow source", report(worker(1, 0, 0, 9), worker(9, 1, 0, 0), worker(9, 1, 0, 0)), facts,
			"Source bound: the workers on the server's files spent 90% of their time reading, those that write the repository waited for them 90%.", "Raise --parallelism from 2"},
		{"compression", report(worker(1, 0, 0, 9), worker(1, 9, 0, 0), worker(1, 9, 0, 0)), facts, "Compression bound: the workers on the server's files spent 90%", "Raise --parallelism from 2"},
		{"one worker has it all", report(worker(1, 0, 0, 9), worker(8, 2, 0, 0), worker(0, 1, 0, 9)), facts, "The work is uneven", "--buffer-size"},
		{"one worker has it all on the way back", flow.Report{Roles: []flow.Role{{Name: "Reader", Workers: []flow.Times{worker(1, 0, 0, 9)}}, {Name: "Writer", Workers: []flow.Times{worker(8, 1, 0, 1), worker(0, 1, 0, 9)}}}},
			back, "The work is uneven: of the 2 workers", "--buffer-size for the backup"},
		{"few buffers", report(worker(5, 0, 0, 5), worker(2, 3, 5, 0), worker(2, 3, 5, 0)), facts, "Too few buffers limit", "Raise --buffers from 5 to 10"},
		{"slow repository", report(worker(2, 1, 0, 7), worker(9, 0, 1, 0)), back, "Reading the repository limits: the workers that write files waited for data 70% of their time, those that read the repository were busy 90%.", "Raise --sessions"},
		{"slow disk", report(worker(9, 1, 0, 0), worker(1, 0, 9, 0)), back, "Writing the files limits: the workers that write them spent 90%", "Raise --parallelism"},
		{"unpacking", report(worker(1, 9, 0, 0), worker(1, 0, 9, 0)), back, "Decompression bound: the workers that write files spent 90%", "Raise --parallelism"},
		{"files are made", report(worker(1, 1, 0, 2), worker(1, 0, 3, 0)), slow, "Preallocating the files limits: it took 6.0 s of 10.0 s", "ext4"},
		{"the server sends", sent, facts, "Source bound: the server sends its files in one stream, and receiving them took 90% of the time.", "--via files"},
		{"few buffers on the way back", report(worker(2, 3, 0, 5), worker(2, 0, 5, 0)), back, "Too few buffers limit: the workers on the server's files waited for a full one 50% of their time, and those on the repository for an empty one 71%.", "Raise --buffers"},
		{"the server takes its time", report(worker(1, 0, 0, 2), worker(1, 1, 0, 1)), waits, "The server limits: it took 7.0 s of 10.0 s to start and to end", "quieter time"},
		{"a spread checkpoint", report(worker(1, 0, 0, 2), worker(1, 1, 0, 1)), spread, "The server limits", "--checkpoint fast"},
		{"free space, slow source", report(worker(1, 0, 0, 9), worker(9, 1, 0, 0), worker(9, 1, 0, 0)), loose,
			"Source bound: the workers on the server's files spent 90% of their time reading, those that write the repository waited for them 90%. Of what they read of large tables and indexes, 75% was free space.",
			"30 of 40 MB that were read of large tables and indexes are free space (75%): shop.public.a (20 of 22 MB), shop.public.b (8 of 9 MB). VACUUM FULL"},
		{"free space, something else limits", report(worker(1, 0, 0, 9), worker(1, 9, 0, 0), worker(1, 9, 0, 0)), loose, "Compression bound: the workers on the server's files spent 90% of their time checking and compressing, those that write the repository waited for them 90%.", "30 of 40 MB"},
		{"a far repository", report(withTrips(times(10, 9.5, 0, 0.5), 200, 30), worker(1, 2, 7, 0), worker(1, 2, 7, 0)), facts,
			"Round trips to the repository limit: 60% of the time of each writer was waiting for one.", "Raise --sessions from 1 to 2: more round trips run side by side, which would gain at most 3.0 s of 10.0 s."},
		{"a far repository on the way back", report(worker(2, 1, 0, 7), withTrips(times(10, 9, 1, 0), 200, 30)), back, "Round trips to the repository limit: 60% of the time of each reader", "Raise --sessions from 1 to 2"},
		{"a far repository that has much to store", report(withTrips(times(10, 9.5, 0, 0.5), 20, 30), worker(1, 2, 7, 0), worker(1, 2, 7, 0)), facts, "Target bound", "Raise --sessions from 1, if the repository"},
		{"nothing ran", flow.Report{}, facts, "The job was too short", ""},
	} {
		limit, advice := ExplainStorage(c.rep, c.facts)
		if !strings.HasPrefix(limit, c.limit) || !strings.Contains(strings.Join(advice, " "), c.advice) {
			t.Errorf("%s: got %q, %q", c.name, limit, advice)
		}
	}
}

func TestStorageTrips(t *testing.T) {
	near, distant := times(10, 9, 1, 0), withTrips(times(10, 9, 1, 0), 100, 30)
	both := flow.Report{Roles: []flow.Role{{Name: "Reader", Workers: []flow.Times{distant, distant}}, {Name: "Writer", Workers: []flow.Times{distant}}}}
	for _, c := range []struct {
		name             string
		rep              flow.Report
		restore, logical bool
		want             string
	}{
		{"a backup of files", both, false, false, "Writer I/O 9.0 s, of which 3.0 s are 100 round trips of 30.0 ms to the repository."},
		{"a restore", both, true, false, "Reader I/O 18.0 s, of which 6.0 s are 200 round trips of 30.0 ms to the repository."},
		{"a logical backup", both, false, true, "Reader I/O 18.0 s, of which 6.0 s are 200 round trips of 30.0 ms to the source.\nWriter I/O 9.0 s, of which 3.0 s are 100 round trips of 30.0 ms to the repository."},
		{"a folder", flow.Report{Roles: []flow.Role{{Name: "Reader", Workers: []flow.Times{near}}, {Name: "Writer", Workers: []flow.Times{near}}}}, false, false, ""},
	} {
		if got := strings.Join(StorageTrips(c.rep, c.restore, c.logical), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
