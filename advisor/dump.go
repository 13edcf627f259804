package advisor

import (
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// DumpFacts are what the times of a logical backup alone do not show.
type DumpFacts struct {
	Lanes      int           // pairs of a reader and a writer
	LanesTried bool          // one more was tried and gained too little
	Codec      string        // "zstd:3"
	Took       time.Duration // all phases
}

// ExplainDump gives one sentence on what limits a logical backup, in which readers receive rows
// from a server, and writers compress and store them, and advice on what to change.
func ExplainDump(rep flow.Report, f DumpFacts) (limit string, advice []string) {
	var reader, writer flow.Times
	for _, role := range rep.Roles {
		switch role.Name {
		case "Reader":
			reader = role.Sum()
		case "Writer":
			writer = role.Sum()
		}
	}
	if reader.Total == 0 || writer.Total == 0 || f.Took < tooShort {
		return "The job was too short for its limit to be measured.", nil
	}
	read, compress, store := share(reader.Busy(), reader.Total), share(writer.Working, writer.Total), share(writer.IO, writer.Total)
	blocked, starved := share(reader.WaitBuffer, reader.Total), share(writer.WaitWork, writer.Total)
	more := fmt.Sprintf("Raise --parallelism from %d, if this machine and the server have spare CPU.", f.Lanes)
	if f.LanesTried {
		more = fmt.Sprintf("One more lane than %d gained too little: CPU, the server's disk or the repository is saturated.", f.Lanes)
	}
	switch {
	case share(reader.WaitWork, reader.Total) > 0.4:
		return fmt.Sprintf("The work is uneven: readers were idle %.0f%% of their time, while others were still reading.", 100*share(reader.WaitWork, reader.Total)),
			[]string{"Fewer lanes (--parallelism) would be as fast here. Several lanes can read a large table only if it has a primary key."}
	case blocked > starved && compress >= store:
		advice = []string{more}
		if f.Codec != "zstd:1" {
			advice = append(advice, "--compress zstd:1 needs less CPU.")
		}
		return fmt.Sprintf("Compression bound: writers spent %.0f%% of their time compressing, and readers waited for them %.0f%%.", compress*100, blocked*100), advice
	case blocked > starved && waitsFar(writer):
		return farLimit("Writer", repository, writer, f.Lanes, "--parallelism", f.Took)
	case blocked > starved:
		return fmt.Sprintf("Target bound: writers spent %.0f%% of their time writing to the repository, and readers waited for them %.0f%%.", store*100, blocked*100),
			[]string{"Use faster storage for the repository, or a higher level of --compress, which writes less."}
	}
	return fmt.Sprintf("Source bound: readers spent %.0f%% of their time receiving rows from the server, and writers waited for them %.0f%%.", read*100, starved*100), []string{more}
}
