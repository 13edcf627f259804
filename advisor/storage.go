package advisor

import (
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// StorageFacts are what the times of a backup or a restore alone do not tell.
type StorageFacts struct {
	Restore     bool
	Parallelism int           // workers on the server's side
	Sessions    int           // workers on the repository's side
	Buffers     int           // between them
	Codec       string        // "zstd:3"; of a backup
	Prepare     time.Duration // of a restore: making files at their full size
	Took        time.Duration // all phases
}

// Sides of the pipeline: those at the server's files, and those at the repository.
type sides struct {
	server, place           flow.Times
	serverQueue, placeQueue time.Duration // waiting for the other side
	idle                    []time.Duration
}

func sidesOf(rep flow.Report, restore bool) (s sides, ok bool) {
	names := [2]string{"Reader", "Writer"}
	if restore {
		names = [2]string{"Writer", "Reader"}
	}
	for _, role := range rep.Roles {
		switch role.Name {
		case names[0]:
			s.server = role.Sum()
			for _, t := range role.Workers {
				s.idle = append(s.idle, t.WaitWork)
			}
		case names[1]:
			s.place = role.Sum()
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
	if !ok || f.Took < 100*time.Millisecond {
		return "The job was too short for its limit to be measured.", nil
	}
	io, cpu := share(s.server.IO, s.server.Total), share(s.server.Working, s.server.Total)
	queue, placeIO, placeQueue := share(s.serverQueue, s.server.Total), share(s.place.Busy(), s.place.Total), share(s.placeQueue, s.place.Total)
	switch {
	case f.Restore && f.Prepare > f.Took*4/10:
		return fmt.Sprintf("Making the files at their full size limits: it took %s of %s, before any data flowed.", secs(f.Prepare), secs(f.Took)),
			[]string{"A file system that allocates without writing (ext4, XFS, Btrfs) does this in no time."}
	case uneven(s, f):
		return fmt.Sprintf("The work is uneven: of the %d workers at the server's files all but one had nothing to do most of the time.", len(s.idle)),
			[]string{"One file has most of the data and is smaller than what a worker takes at a time: a smaller --buffer-size spreads it over more workers."}
	case queue > 0.3 && placeQueue > 0.3:
		return fmt.Sprintf("Too few buffers limit: the workers at the server's files waited for a buffer %.0f%% of their time, and those at the repository for a full one %.0f%%.", queue*100, placeQueue*100),
			[]string{fmt.Sprintf("Raise --buffers from %d to %d.", f.Buffers, 2*(f.Parallelism+f.Sessions+2))}
	case queue >= io && queue >= cpu:
		return placeBound(f, queue, placeIO)
	case cpu >= io:
		return cpuBound(f, cpu, placeQueue)
	}
	return serverBound(f, io, placeQueue)
}

// uneven says whether one worker had nearly all of the work.
func uneven(s sides, f StorageFacts) bool {
	if f.Restore || len(s.idle) < 2 {
		return false
	}
	each := s.server.Total / time.Duration(len(s.idle))
	waiting := 0
	for _, idle := range s.idle {
		if idle > each*6/10 {
			waiting++
		}
	}
	return waiting == len(s.idle)-1
}

func placeBound(f StorageFacts, queue, busy float64) (string, []string) {
	if f.Restore {
		return fmt.Sprintf("Reading the repository limits: the workers that write files waited for data %.0f%% of their time, those that read it were busy %.0f%%.", queue*100, busy*100),
			[]string{fmt.Sprintf("Raise --sessions from %d, if the repository and the way to it have more to give.", f.Sessions)}
	}
	advice := []string{fmt.Sprintf("Raise --sessions from %d, if the repository can take more at once; else a faster place for it is what helps.", f.Sessions)}
	if f.Codec == "none" {
		advice = append([]string{"Compress (--compress lz4, or zstd:1): less is to be written then."}, advice...)
	}
	return fmt.Sprintf("Target bound: the workers at the server's files waited for an empty buffer %.0f%% of their time, those that write the repository were busy %.0f%%.", queue*100, busy*100), advice
}

func cpuBound(f StorageFacts, cpu, waited float64) (string, []string) {
	if f.Restore {
		return fmt.Sprintf("Unpacking limits: the workers that write files spent %.0f%% of their time on it.", cpu*100),
			[]string{fmt.Sprintf("Raise --parallelism from %d, if this machine has more processors.", f.Parallelism)}
	}
	advice := []string{fmt.Sprintf("Raise --parallelism from %d, if this machine has processors to spare.", f.Parallelism)}
	if f.Codec != "none" && f.Codec != "lz4" && f.Codec != "s2" {
		advice = append(advice, "A cheaper way to compress is --compress lz4.")
	}
	return fmt.Sprintf("Compression bound: the workers at the server's files spent %.0f%% of their time checking and compressing, those that write the repository waited for them %.0f%%.", cpu*100, waited*100), advice
}

func serverBound(f StorageFacts, io, waited float64) (string, []string) {
	if f.Restore {
		return fmt.Sprintf("Writing the files limits: %.0f%% of their time the workers that write them spent on that.", io*100),
			[]string{fmt.Sprintf("Raise --parallelism from %d, if the disk can take more at once.", f.Parallelism)}
	}
	return fmt.Sprintf("Source bound: the workers at the server's files spent %.0f%% of their time reading, those that write the repository waited for them %.0f%%.", io*100, waited*100),
		[]string{fmt.Sprintf("Raise --parallelism from %d, if the server's disk can read more at once.", f.Parallelism)}
}
