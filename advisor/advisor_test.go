package advisor

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
)

// times is a worker of total seconds that worked, waited for a buffer and for work.
func times(total, io, buffer, work float64) flow.Times {
	s := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
	return flow.Times{Total: s(total), IO: s(io), WaitBuffer: s(buffer), WaitWork: s(work)}
}

func report(reader, writer, finisher flow.Times) flow.Report {
	return flow.Report{Roles: []flow.Role{
		{Name: "Reader", Workers: []flow.Times{reader, reader}},
		{Name: "Writer", Workers: []flow.Times{writer, writer}},
		{Name: "Finisher", Workers: []flow.Times{finisher, finisher}},
	}}
}

// scanned is the report of a dump file, whose readers and writers have little to do.
func scanned(scanner flow.Times) flow.Report {
	rep := report(times(10, 2, 0, 8), times(10, 1, 0, 9), times(10, 1, 0, 9))
	rep.Roles = append(rep.Roles, flow.Role{Name: "Scanner", Workers: []flow.Times{scanner}})
	return rep
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name          string
		rep           flow.Report
		facts         Facts
		limit, advice string
	}{
		{"slow target", report(times(10, 3, 7, 0), times(10, 9.5, 0, 0.5), times(11, 2, 0, 9)), Facts{Lanes: 2, LanesFixed: true},
			"Writing the target limits: the writers were busy 95% of their time, the readers 30%; the readers waited for a buffer 70%.",
			"Raise --lanes from 2 to 3: it would gain at most 2.3 s of 11.0 s"},
		{"slow source", report(times(10, 9, 0.5, 0.5), times(10, 4, 0, 6), times(11, 2, 0, 9)), Facts{Lanes: 2, LanesFixed: true},
			"Reading the source limits: the readers were busy 90% of their time, the writers 40%; the writers waited for rows 60%.",
			"if the source has spare CPU and disk"},
		{"lanes were tried", report(times(10, 3, 7, 0), times(10, 9.5, 0, 0.5), times(11, 2, 0, 9)), Facts{Lanes: 2, LanesTried: true},
			"Writing the target limits", "one more gained less than a tenth"},
		{"many indexes", report(times(4, 3, 1, 0), times(4, 4, 0, 0), times(10, 9, 0, 1)), Facts{Lanes: 2, ObjectSeconds: 12},
			"Building keys and indexes limits: 6.0 s of 10.0 s passed after the last row was written.",
			"Raise --finishers from 2 to 3: it would gain at most 2.0 s"},
		{"one big index", report(times(4, 3, 1, 0), times(4, 4, 0, 0), times(10, 3, 0, 7)), Facts{Lanes: 2, ObjectSeconds: 6, Target: "postgres"},
			"Building keys and indexes limits", "--index-memory"},
		{"one big index on MySQL", report(times(4, 3, 1, 0), times(4, 4, 0, 0), times(10, 3, 0, 7)), Facts{Lanes: 2, ObjectSeconds: 6, Target: "mysql"},
			"Building keys and indexes limits", "innodb_sort_buffer_size"},
		{"refused LOAD DATA", report(times(10, 3, 7, 0), times(10, 9.5, 0, 0.5), times(11, 2, 0, 9)), Facts{Lanes: 2, Methods: map[string]int{"INSERT": 3}},
			"Writing the target limits", "3 tables were written by multi-row INSERT"},
		{"a file of many tables", scanned(times(10, 9, 0, 1)), Facts{Lanes: 2, LanesFixed: true},
			"Making the tables of the file limits: its scanner waited for the target 90% of its time; the writers waited for rows 90%.", ""},
		{"a file that is far from its target", scanned(withTrips(times(10, 9, 0, 1), 400, 20)), Facts{Lanes: 2, LanesFixed: true},
			"Making the tables of the file limits", "Run tidemark nearer to the target: it would gain at most 8.0 s."},
		{"a file of much SQL", scanned(withTrips(times(10, 1, 0, 1), 0, 0)), Facts{Lanes: 2, LanesFixed: true},
			"Parsing the file limits: its scanner worked 80% of its time; the writers waited for rows 90%.", ""},
		{"a file of large tables", scanned(times(10, 1, 8, 1)), Facts{Lanes: 2, LanesFixed: true},
			"Reading the source limits", ""},
		{"nothing to see", flow.Report{}, Facts{}, "The job was too short for its limit to be measured.", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit, advice := Explain(c.rep, c.facts)
			if !strings.Contains(limit, c.limit) {
				t.Errorf("limit %q, want %q", limit, c.limit)
			}
			if all := strings.Join(advice, "\n"); !strings.Contains(all, c.advice) {
				t.Errorf("advice %q, want %q", all, c.advice)
			}
		})
	}
}

// withTrips adds n round trips of ms milliseconds to a worker's times.
func withTrips(t flow.Times, n int64, ms float64) flow.Times {
	t.RoundTrips, t.RoundTripTime = n, time.Duration(float64(n)*ms*float64(time.Millisecond))
	t.Working = t.Total - t.IO - t.WaitBuffer - t.WaitWork
	return t
}

func TestExplainRoundTrips(t *testing.T) {
	for _, c := range []struct {
		name                 string
		rep                  flow.Report
		facts                Facts
		limit, advice, lines string
	}{
		{"a far target", report(withTrips(times(5, 1, 4, 0), 0, 0), withTrips(times(5, 4.8, 0, 0.2), 200, 20), times(6, 1, 0, 5)), Facts{Lanes: 2, LanesFixed: true},
			"Round trips to the target limit: 80% of the time of each writer was waiting for one.",
			"Raise --lanes from 2 to 4: more round trips run side by side, which would gain at most 2.0 s of 6.0 s.",
			"Writer I/O 9.6 s, of which 8.0 s are 400 round trips of 20.0 ms to the target."},
		{"a far source", report(withTrips(times(5, 4.8, 0.2, 0), 200, 20), withTrips(times(5, 1, 0, 4), 0, 0), times(6, 1, 0, 5)), Facts{Lanes: 2, LanesTried: true},
			"Round trips to the source limit", "Or run tidemark nearer to the source", "Reader I/O 9.6 s, of which 8.0 s are 400 round trips of 20.0 ms to the source."},
		{"many small objects", report(times(4, 3, 1, 0), times(4, 4, 0, 0), withTrips(times(10, 9, 0, 1), 400, 20)), Facts{Lanes: 2, ObjectSeconds: 12},
			"Round trips to the target limit", "Raise --finishers from 2 to 4", "Finisher I/O 18.0 s, of which 16.0 s are 800 round trips"},
		{"large indexes far away", report(times(4, 3, 1, 0), times(4, 4, 0, 0), withTrips(times(10, 9, 0, 1), 40, 20)), Facts{Lanes: 2, ObjectSeconds: 12},
			"Building keys and indexes limits", "--finishers", "Finisher I/O 18.0 s, of which 1.6 s are 80 round trips of 20.0 ms"},
		{"large tables do not mind", report(times(10, 3, 7, 0), withTrips(times(10, 9.5, 0, 0.5), 10, 20), times(11, 2, 0, 9)), Facts{Lanes: 2, LanesFixed: true},
			"Writing the target limits", "Raise --lanes from 2 to 3", ""},
		{"one machine", report(times(10, 3, 7, 0), withTrips(times(10, 9.5, 0, 0.5), 90000, 0.1), times(11, 2, 0, 9)), Facts{Lanes: 2, LanesFixed: true},
			"Writing the target limits", "Raise --lanes from 2 to 3", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit, advice := Explain(c.rep, c.facts)
			lines := RoundTrips(c.rep)
			if !strings.Contains(limit, c.limit) || !strings.Contains(strings.Join(advice, "\n"), c.advice) {
				t.Errorf("limit %q, advice %q", limit, advice)
			}
			if all := strings.Join(lines, "\n"); !strings.HasPrefix(all, c.lines) || (c.lines == "") != (all == "") {
				t.Errorf("lines %q, want %q", all, c.lines)
			}
		})
	}
}
