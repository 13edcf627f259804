// Package advisor reads a report of workers' times and tells, in sentences, which stage limits,
// which setting would help, and how much that would gain. It is pure: the same report gives the
// same advice.
//
// Start reading at Explain.
package advisor

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/sample"
)

// Facts are what the times alone do not show.
type Facts struct {
	Source, Target string          // engines
	Lanes          int             // lanes that were used at the end
	LanesTried     bool            // one more lane was tried, and gained less than a tenth
	LanesFixed     bool            // the user chose their number
	Finishers      int             // 0: the default
	Methods        map[string]int  // tables by writing method ("COPY", "LOAD DATA", "INSERT")
	ObjectSeconds  float64         // sum over objects of the time to build them
	Servers        *sample.Account // what the workers' I/O consisted of; nil if it was not looked at
	Volumes        []Volume        // those of the user, beside the table
}

// shape is the summary of a report.
type shape struct {
	reader, writer, finisher flow.Times
	scanner                  flow.Times // of a dump file
	readers, writers, fins   int
	rows, total              time.Duration // until the last row; until the end
}

func measure(rep flow.Report) shape {
	var s shape
	for _, role := range rep.Roles {
		sum := role.Sum()
		for _, t := range role.Workers {
			s.total = max(s.total, t.Total)
			if role.Name == "Writer" {
				s.rows = max(s.rows, t.Total)
			}
		}
		switch role.Name {
		case "Reader":
			s.reader, s.readers = sum, len(role.Workers)
		case "Scanner":
			s.scanner = sum
		case "Writer":
			s.writer, s.writers = sum, len(role.Workers)
		case "Finisher":
			s.finisher, s.fins = sum, len(role.Workers)
		}
	}
	return s
}

// limiting returns the role that limits.
func (s shape) limiting() string {
	scanning, reading, writing := share(s.scanner.Busy(), s.scanner.Total), share(s.reader.Busy(), s.reader.Total), share(s.writer.Busy(), s.writer.Total)
	switch {
	case s.total-s.rows > s.total*4/10:
		return "Finisher"
	case scanning > 0 && scanning >= max(reading, writing):
		return "Scanner"
	case reading >= writing:
		return "Reader"
	}
	return "Writer"
}

// of returns the times of a role, how many workers it has, and the option for their number.
func (s shape) of(role string, f Facts) (times flow.Times, workers int, option string) {
	switch role {
	case "Finisher":
		return s.finisher, s.fins, "--finishers"
	case "Scanner":
		return s.scanner, 1, ""
	case "Reader":
		return s.reader, f.Lanes, "--lanes"
	}
	return s.writer, f.Lanes, "--lanes"
}

// Reasons returns what the servers show about the role that limits, the most costly first; none if
// they were not looked at, or show nothing.
func Reasons(rep flow.Report, f Facts) []Advice {
	s := measure(rep)
	if s.total < tooShort || s.writers == 0 {
		return nil
	}
	role, wall := s.limiting(), s.rows
	if role == "Finisher" {
		wall = s.total - s.rows
	}
	if times, _, _ := s.of(role, f); waitsFar(times) {
		return nil // the servers only wait for us
	}
	return serverAdvice(rep, f, role, wall)
}

// tooShort is the length of a job below which there is no advice: its start and end outweigh
// everything else.
const tooShort = time.Second

// Explain gives one sentence on what limits the job, and advice on what to change, the most useful
// first.
func Explain(rep flow.Report, f Facts) (limit string, advice []string) {
	s := measure(rep)
	if s.total < tooShort || s.writers == 0 {
		return "The job was too short for its limit to be measured.", nil
	}
	tail := s.total - s.rows
	starved, full := share(s.writer.WaitWork, s.writer.Total), share(s.reader.WaitBuffer, s.reader.Total)
	reading, writing := share(s.reader.Busy(), s.reader.Total), share(s.writer.Busy(), s.writer.Total)
	role := s.limiting()
	times, workers, option := s.of(role, f)
	switch {
	case role == "Scanner":
		limit, advice = scanLimit(times, starved)
	case waitsFar(times):
		limit, advice = farLimit(role, asks[role], times, workers, option, s.total)
	case role == "Finisher":
		limit = fmt.Sprintf("Building keys and indexes limits: %s of %s passed after the last row was written.", secs(tail), secs(s.total))
		advice = append(advice, buildAdvice(s, f, tail)...)
	case role == "Reader":
		limit = fmt.Sprintf("Reading the source limits: the readers were busy %.0f%% of their time, the writers %.0f%%; the writers waited for rows %.0f%%.", reading*100, writing*100, starved*100)
		advice = append(advice, laneAdvice(s, f, starved, "the source")...)
	default:
		limit = fmt.Sprintf("Writing the target limits: the writers were busy %.0f%% of their time, the readers %.0f%%; the readers waited for a buffer %.0f%%.", writing*100, reading*100, full*100)
		advice = append(advice, laneAdvice(s, f, full, "the target")...)
	}
	if reasons := Reasons(rep, f); len(reasons) > 0 { // none if round trips limit
		// What the servers tell is more than what the times alone can.
		advice = nil
		for _, a := range reasons {
			advice = append(advice, a.String())
		}
	}
	if n := f.Methods["INSERT"]; n > 0 {
		advice = append(advice, fmt.Sprintf("%d tables were written by multi-row INSERT because the target does not allow LOAD DATA LOCAL: SET GLOBAL local_infile=1 there makes writing several times faster.", n))
	}
	return limit, advice
}

// scanLimit is the verdict on a dump file whose scanner limits: it parses the file, and makes the
// tables before it reads their rows.
func scanLimit(t flow.Times, starved float64) (limit string, advice []string) {
	if t.Working >= t.IO {
		return fmt.Sprintf("Parsing the file limits: its scanner worked %.0f%% of its time; the writers waited for rows %.0f%%.", 100*share(t.Working, t.Total), 100*starved), nil
	}
	limit = fmt.Sprintf("Making the tables of the file limits: its scanner waited for the target %.0f%% of its time; the writers waited for rows %.0f%%.", 100*share(t.IO, t.Total), 100*starved)
	if waitsFar(t) {
		advice = append(advice, fmt.Sprintf("Run tidemark nearer to the target: it would gain at most %s.", secs(t.RoundTripTime)))
	}
	return limit, advice
}

// laneAdvice estimates what one more lane gains: at best the other side waits less, by the new
// lane's part of the work.
func laneAdvice(s shape, f Facts, wait float64, where string) []string {
	n := max(f.Lanes, 1)
	gain := time.Duration(float64(s.rows) * wait / float64(n+1))
	switch {
	case f.LanesTried:
		return []string{fmt.Sprintf("With %s in use, one more gained less than a tenth: more hardware for %s would help, not more lanes. --lanes N fixes their number.", plural(n, "lane"), where)}
	case f.LanesFixed || s.total > 5*time.Second:
		return []string{fmt.Sprintf("Raise --lanes from %d to %d: it would gain at most %s of %s, if %s has spare CPU and disk.", n, n+1, secs(gain), secs(s.total), where)}
	}
	return nil // too short to try, and too short to matter
}

func buildAdvice(s shape, f Facts, tail time.Duration) []string {
	n := max(s.fins, 1)
	idle := share(s.finisher.WaitWork, s.finisher.Total)
	ideal := time.Duration(f.ObjectSeconds / float64(n+1) * float64(time.Second))
	if gain := tail - ideal; gain > 0 && idle < 0.6 {
		return []string{fmt.Sprintf("Raise --finishers from %d to %d: it would gain at most %s, if the target has spare CPU.", n, n+1, secs(gain))}
	}
	return []string{"One index takes most of that time: " + cmp.Or(indexHelp[engine.Family(f.Target)], "more memory for sorting on the server") + " would shorten it."}
}

// indexHelp is what builds an index sooner, by the family of the target.
var indexHelp = map[string]string{
	engine.Postgres: "more memory for it (--index-memory) or more parallel workers (--index-workers)",
	engine.MySQL:    "more memory for sorting on the server (innodb_sort_buffer_size; on MySQL 8 innodb_ddl_buffer_size and innodb_ddl_threads)",
}

func share(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func secs(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
