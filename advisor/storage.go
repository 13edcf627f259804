package advisor

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// StorageFacts are what the times of a backup or a restore alone do not show.
type StorageFacts struct {
	Restore     bool
	Parallelism int           // workers on the server's side
	Sessions    int           // workers on the repository's side
	Buffers     int           // between them
	Codec       string        // "zstd:3"; of a backup
	Prepare     time.Duration // of a restore: time to preallocate files
	Server      time.Duration // of a backup: time of the server to start and to end it
	Spread      bool          // its first checkpoint was spread over time
	Took        time.Duration // all phases
	Free        FreeSpace     // of a backup
	// Writing and Committing are times of calls to the repository: of writes, and of syncs and ends
	// of uploads; 0: not known.
	Writing, Committing time.Duration
	Commits             int64
}

// FreeSpace is what a backup has read of large tables and indexes that holds no rows: free pages
// within files.
type FreeSpace struct {
	Bytes, Of int64
	Most      []string // the relations with most of it, in the form for the report
}

// much reports whether free space is worth mentioning: below a quarter it is normal for pages that
// are written to.
func (f FreeSpace) much() bool { return f.Bytes >= 8<<20 && f.Bytes*4 >= f.Of }

// Sides of the pipeline: workers on the server's files, and on the repository.
type sides struct {
	server, place           flow.Times
	stream                  flow.Times    // of the worker that receives what the server sends; zero if files are read here
	serverQueue, placeQueue time.Duration // waiting for the other side
	workers                 []flow.Times  // on the server's files
}

func sidesOf(rep flow.Report, restore bool) (s sides, ok bool) {
	names := [2]string{"Reader", "Writer"}
	if restore {
		names = [2]string{"Writer", "Reader"}
	}
	for _, role := range rep.Roles {
		switch role.Name {
		case names[0]:
			s.server, s.workers = role.Sum(), role.Workers
		case names[1]:
			s.place = role.Sum()
		case "Receiver":
			s.stream = role.Workers[0] // the other one receives the log
		}
	}
	if restore {
		s.serverQueue, s.placeQueue = s.server.WaitWork, s.place.WaitBuffer
	} else {
		s.serverQueue, s.placeQueue = s.server.WaitBuffer, s.place.WaitWork
	}
	return s, s.server.Total > 0 && s.place.Total > 0
}

// ExplainStorage gives one sentence on what limits a backup or a restore, and advice on
// what to change, the most useful first.
func ExplainStorage(rep flow.Report, f StorageFacts) (limit string, advice []string) {
	s, ok := sidesOf(rep, f.Restore)
	if !ok || f.Took < tooShort {
		return "The job was too short for its limit to be measured.", nil
	}
	limit, advice = s.explain(f)
	if f.Free.much() {
		share := 100 * f.Free.Bytes / f.Free.Of
		if strings.HasPrefix(limit, sourceBound) {
			limit += fmt.Sprintf(" Of what they read of large tables and indexes, %d%% was free space.", share)
		}
		free := fmt.Sprintf("%d of %d MB that were read of large tables and indexes are free space (%d%%): %s. VACUUM FULL, REINDEX or pg_repack reclaims it.",
			f.Free.Bytes>>20, f.Free.Of>>20, share, strings.Join(f.Free.Most, ", "))
		advice = append([]string{free}, advice...)
	}
	return limit, advice
}

// A verdict is what limits a backup or a restore, whichever program made it.
type verdict int

const (
	sourceLimits verdict = iota // of a restore: writing the files
	cpuLimits                   // compression
	placeLimits                 // the side that writes the backup, or reads it
	buffersLimit                // both sides wait for the other's buffers
	workIsUneven                // some workers have all the work
	serverLimits                // it starts, ends, or waits
	filesAreMade                // of a restore, before data flow
	streamLimits                // the server sends its files in one stream
)

// verdict compares the times of both sides.
func (s *sides) verdict(f StorageFacts) verdict {
	io, cpu := share(s.server.IO, s.server.Total), share(s.server.Working, s.server.Total)
	queue, placeQueue := share(s.serverQueue, s.server.Total), share(s.placeQueue, s.place.Total)
	busy, idle := s.uneven()
	switch {
	case share(s.stream.IO, s.stream.Total) > 0.5:
		return streamLimits
	case f.Restore && f.Prepare > f.Took*4/10:
		return filesAreMade
	case f.Server > f.Took*6/10:
		return serverLimits
	case busy > 0 && idle*2 >= len(s.workers):
		return workIsUneven
	case queue > 0.25 && placeQueue > 0.25: // more buffers would gain the smaller of the two
		return buffersLimit
	case queue >= io && queue >= cpu:
		return placeLimits
	case cpu >= io:
		return cpuLimits
	}
	return sourceLimits
}

// explain puts the verdict into words.
func (s *sides) explain(f StorageFacts) (limit string, advice []string) {
	io, cpu := share(s.server.IO, s.server.Total), share(s.server.Working, s.server.Total)
	queue, placeIO, placeQueue := share(s.serverQueue, s.server.Total), share(s.place.Busy(), s.place.Total), share(s.placeQueue, s.place.Total)
	switch s.verdict(f) {
	case streamLimits:
		return fmt.Sprintf("Source bound: the server sends its files in one stream, and receiving them took %.0f%% of the time.", share(s.stream.IO, s.stream.Total)*100),
			[]string{"Back up on the server's own host, as its user (--via files): many workers can read there in parallel."}
	case filesAreMade:
		return fmt.Sprintf("Preallocating the files limits: it took %s of %s, before any data flowed.", secs(f.Prepare), secs(f.Took)),
			[]string{"Use a file system that allocates without writing (ext4, XFS, Btrfs)."}
	case serverLimits:
		advice := []string{"It writes what has changed since its last checkpoint, and waits for its log: back up at a quieter time."}
		if f.Spread {
			advice = []string{"Use --checkpoint fast to make the first checkpoint immediate."}
		}
		return fmt.Sprintf("The server limits: it took %s of %s to start and to end the backup, while nothing could be read.", secs(f.Server), secs(f.Took)), advice
	case workIsUneven:
		idle := "all but one"
		if _, n := s.uneven(); n < len(s.workers)-1 {
			idle = fmt.Sprint(n)
		}
		return fmt.Sprintf("The work is uneven: of the %d workers on the server's files, %s were idle most of the time.", len(s.workers), idle),
			[]string{"Most of the data is in one or a few buffers: a smaller --buffer-size for the backup spreads a large file over all workers."}
	case buffersLimit:
		server, place := "an empty", "a full"
		if f.Restore {
			server, place = place, server
		}
		return fmt.Sprintf("Too few buffers limit: the workers on the server's files waited for %s one %.0f%% of their time, and those on the repository for %s one %.0f%%.", server, queue*100, place, placeQueue*100),
			[]string{fmt.Sprintf("Raise --buffers from %d to %d.", f.Buffers, enoughBuffers(f.Parallelism, f.Sessions))}
	case placeLimits:
		if waitsFar(s.place) {
			worker := "Writer"
			if f.Restore {
				worker = "Reader"
			}
			return farLimit(worker, repository, s.place, f.Sessions, "--sessions", f.Took)
		}
		return placeBound(f, queue, placeIO)
	case cpuLimits:
		return cpuBound(f, cpu, placeQueue)
	}
	return serverBound(f, io, placeQueue)
}

// enoughBuffers is twice the least that keeps all workers busy.
func enoughBuffers(parallelism, sessions int) int { return 2 * (parallelism + sessions + 2) }

// uneven counts the workers that had work most of the time and those that had none, although all
// could share it.
func (s *sides) uneven() (busy, idle int) {
	if len(s.workers) < 2 || s.stream.Total > 0 {
		return 0, 0
	}
	for _, t := range s.workers {
		switch {
		case share(t.WaitWork, t.Total) > 0.6:
			idle++
		case share(t.Busy(), t.Total) > 0.5:
			busy++
		}
	}
	return busy, idle
}

func placeBound(f StorageFacts, queue, busy float64) (string, []string) {
	if f.Restore {
		return fmt.Sprintf("Reading the repository limits: the workers that write files waited for data %.0f%% of their time, those that read the repository were busy %.0f%%.", queue*100, busy*100),
			[]string{fmt.Sprintf("Raise --sessions from %d, if the repository and the network to it have spare capacity.", f.Sessions)}
	}
	advice := []string{fmt.Sprintf("Raise --sessions from %d, if the repository can take more in parallel; otherwise use faster storage for it.", f.Sessions)}
	if f.Codec == "none" {
		advice = append([]string{"Compress (--compress s2, or zstd:1) to write less."}, advice...)
	}
	if all := f.Writing + f.Committing; f.Commits > 0 && f.Committing*10 >= all*3 {
		advice = append(advice, fmt.Sprintf("%.0f%% of the time at the repository went into %d syncs or ends of uploads of %.0f ms, not into writes: storage with faster syncs would gain more than bandwidth.",
			100*share(f.Committing, all), f.Commits, f.Committing.Seconds()*1000/float64(f.Commits)))
	}
	return fmt.Sprintf("Target bound: the workers on the server's files waited for an empty buffer %.0f%% of their time, those that write the repository were busy %.0f%%.", queue*100, busy*100), advice
}

func cpuBound(f StorageFacts, cpu, waited float64) (string, []string) {
	if f.Restore {
		return fmt.Sprintf("Decompression bound: the workers that write files spent %.0f%% of their time on it.", cpu*100),
			[]string{fmt.Sprintf("Raise --parallelism from %d, if this machine has more processors.", f.Parallelism)}
	}
	advice := []string{fmt.Sprintf("Raise --parallelism from %d, if this machine has spare CPU.", f.Parallelism)}
	if f.Codec != "none" && f.Codec != "s2" {
		advice = append(advice, "--compress s2 needs less CPU.")
	}
	return fmt.Sprintf("Compression bound: the workers on the server's files spent %.0f%% of their time checking and compressing, those that write the repository waited for them %.0f%%.", cpu*100, waited*100), advice
}

// sourceBound begins the sentence on a source that limits.
const sourceBound = "Source bound:"

func serverBound(f StorageFacts, io, waited float64) (string, []string) {
	if f.Restore {
		return fmt.Sprintf("Writing the files limits: the workers that write them spent %.0f%% of their time on it.", io*100),
			[]string{fmt.Sprintf("Raise --parallelism from %d, if the disk can take more in parallel.", f.Parallelism)}
	}
	return fmt.Sprintf(sourceBound+" the workers on the server's files spent %.0f%% of their time reading, those that write the repository waited for them %.0f%%.", io*100, waited*100),
		[]string{fmt.Sprintf("Raise --parallelism from %d, if the server's disk can read more in parallel.", f.Parallelism)}
}
