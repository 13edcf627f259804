package limit

import (
	"cmp"
	"slices"

	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/sample"
)

// Sum makes one sample of several in order: rates are means over their time, latencies those of
// their transactions, counters and states the last ones.
func Sum(all []sampled.Status) sampled.Status {
	out := all[len(all)-1]
	out.Seconds, out.Servers, out.RoundTrips, out.Tables, out.HotRow = 0, nil, 0, nil, nil
	var trans, rows, busy, behind, transit, trips, waits float64
	var latencies [4][2]float64 // sums of means, and p50
	for _, s := range all {
		out.Seconds += s.Seconds
		n := s.PerSecond * s.Seconds
		trans, rows, busy = trans+n, rows+s.RowsSecond*s.Seconds, busy+s.Busy*s.Seconds
		transit, waits = transit+s.InTransit*s.Seconds, waits+s.CaptureWaits*s.Seconds
		behind = max(behind, s.Lag)
		trips += s.RoundTrip * float64(s.RoundTrips)
		out.RoundTrips += s.RoundTrips
		for i, l := range latencyList(&s) {
			latencies[i][0] += l.Mean * n
			latencies[i][1] += l.P50 * n
			to := latencyList(&out)[i]
			to.P99, to.Max = max(to.P99, l.P99), max(to.Max, l.Max)
		}
		out.Servers = add(out.Servers, s.Servers)
		out.Tables = addTables(out.Tables, s.Tables)
		if out.HotRow == nil || s.HotRow != nil && s.HotRow.Share > out.HotRow.Share {
			out.HotRow = s.HotRow
		}
	}
	if out.Seconds > 0 {
		out.PerSecond, out.RowsSecond, out.Busy = trans/out.Seconds, rows/out.Seconds, busy/out.Seconds
		out.InTransit, out.CaptureWaits = transit/out.Seconds, waits/out.Seconds
	}
	if out.RoundTrips > 0 {
		out.RoundTrip = trips / float64(out.RoundTrips)
	}
	for i, l := range latencyList(&out) {
		if trans > 0 {
			l.Mean, l.P50 = latencies[i][0]/trans, latencies[i][1]/trans
		}
	}
	out.Lag = behind
	return out
}

func latencyList(s *sampled.Status) []*sampled.Latency {
	return []*sampled.Latency{&s.EndToEnd, &s.Capture, &s.Queue, &s.Apply}
}

// add adds splits, role by role and kind by kind.
func add(to, some []sample.Split) []sample.Split {
	for _, s := range some {
		i := slices.IndexFunc(to, func(x sample.Split) bool { return x.Role == s.Role })
		if i < 0 {
			s.Parts = slices.Clone(s.Parts)
			to = append(to, s)
			continue
		}
		x := &to[i]
		x.IO += s.IO
		x.Here = x.Here || s.Here
		for _, p := range s.Parts {
			k := slices.IndexFunc(x.Parts, func(y sample.Part) bool { return y.Kind == p.Kind })
			if k < 0 {
				x.Parts = append(x.Parts, p)
				continue
			}
			if x.Parts[k].Event == "" {
				x.Parts[k].Event, x.Parts[k].Of = p.Event, p.Of
			}
			x.Parts[k].Time += p.Time
		}
		slices.SortStableFunc(x.Parts, func(a, b sample.Part) int { return cmp.Compare(b.Time, a.Time) })
	}
	return to
}

// Recent reports what samples say, in order.
func Recent(verb string, all []sampled.Status) *job.Report {
	s := Sum(all)
	s.Transactions, s.Rows = int64(s.PerSecond*s.Seconds+0.5), int64(s.RowsSecond*s.Seconds+0.5)
	return &job.Report{Verb: verb, Seconds: s.Seconds, Rows: s.Rows, Limit: s.Limit, Advice: advisor.Sentences(s.Reasons), Reasons: s.Reasons,
		Servers: &sample.Account{Roles: s.Servers, Machine: s.Machine}, Stream: &sampled.Report{Status: s, Sessions: 1, Tables: s.Tables}}
}

// addTables adds the changes of tables, and puts the most first.
func addTables(to, some []capture.TableChanges) []capture.TableChanges {
	to = slices.Clone(to)
	for _, x := range some {
		i := slices.IndexFunc(to, func(y capture.TableChanges) bool { return y.Table == x.Table })
		if i < 0 {
			to = append(to, x)
			continue
		}
		to[i].Inserts, to[i].Updates, to[i].Deletes = to[i].Inserts+x.Inserts, to[i].Updates+x.Updates, to[i].Deletes+x.Deletes
	}
	slices.SortStableFunc(to, func(a, b capture.TableChanges) int { return cmp.Compare(b.All(), a.All()) })
	return to
}
