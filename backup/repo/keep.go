package repo

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Keep tells which backups stay. A backup stays for any of the reasons, and with it those it needs.
// The newest one of each server always stays, and so does the newest logical one of each database:
// neither form replaces the other.
type Keep struct {
	Last                                   int           // the newest ones
	Within                                 time.Duration // those that began at most this long ago
	Hourly, Daily, Weekly, Monthly, Yearly int           // the newest of each of this many periods that have one, by UTC
	// Logs is how far back the log is kept without a gap: from the oldest kept backup that began at
	// most this long ago, or the newest one. Older backups keep only the log that makes them
	// consistent, so they can be restored as they were, but to no later moment. 0: from the oldest
	// kept one.
	Logs time.Duration
}

// ParseKeep parses parts such as last=7, within=30d, daily=14, weekly=8, monthly=12, yearly=3,
// hourly=24, logs=60d, separated by commas.
func ParseKeep(text string) (Keep, error) {
	var k Keep
	fail := func(part, cause string) (Keep, error) {
		return Keep{}, &tidemark.Error{Kind: tidemark.Invalid, Op: "keep", Object: part, Err: errors.New(cause), Hint: "Write, for example, last=7,daily=14,weekly=8,monthly=12,yearly=3,within=30d,logs=60d."}
	}
	counts := map[string]*int{"last": &k.Last, "hourly": &k.Hourly, "daily": &k.Daily, "weekly": &k.Weekly, "monthly": &k.Monthly, "yearly": &k.Yearly}
	spans := map[string]*time.Duration{"within": &k.Within, "logs": &k.Logs}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if at := counts[name]; at != nil {
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 1_000_000 {
				return fail(part, "must be a number of at least 1")
			}
			*at = n
			continue
		}
		at := spans[name]
		if at == nil {
			return fail(part, "is not a retention rule")
		}
		d, err := parseSpan(value)
		if err != nil || d <= 0 {
			return fail(part, "must be a time such as 36h or 30d")
		}
		*at = d
	}
	if k == (Keep{Logs: k.Logs}) {
		return fail(text, "keeps no backup")
	}
	return k, nil
}

func parseSpan(s string) (time.Duration, error) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if n, ok := strings.CutSuffix(s, suffix); ok {
			v, err := strconv.ParseUint(n, 10, 16)
			return time.Duration(v) * unit, err
		}
	}
	return time.ParseDuration(s)
}

// Kept is a backup that stays, and why.
type Kept struct {
	*Manifest
	Why []string
}

// choose divides backups into those to keep and those to remove, each newest first. used are
// backups that are in use or can be resumed, with the reason; pinned ones stay until they are
// unpinned. The rules of k do not keep those of kind Partial.
func (k Keep) choose(all []*Manifest, used map[string]string, pinned map[string]bool, now time.Time) (stay []Kept, gone []*Manifest) {
	all = slices.Clone(all)
	SortByAge(all)
	slices.Reverse(all)
	why := map[string][]string{}
	byID := map[string]*Manifest{}
	clusters := map[string][]*Manifest{}
	for _, m := range all {
		byID[m.ID] = m
		if m.Kind != Partial {
			c := series(m)
			clusters[c] = append(clusters[c], m)
		}
		if reason := used[m.ID]; reason != "" {
			why[m.ID] = append(why[m.ID], reason)
		}
		if pinned[m.ID] {
			why[m.ID] = append(why[m.ID], "pinned")
		}
	}
	for _, cluster := range clusters {
		k.cluster(cluster, now, why)
	}
	for _, m := range all {
		if len(why[m.ID]) == 0 {
			continue
		}
		for up := byID[m.Parent]; up != nil; up = byID[up.Parent] {
			if reason := "needed by " + m.ID; !slices.Contains(why[up.ID], reason) {
				why[up.ID] = append(why[up.ID], reason)
			} else {
				break // a cycle, in manifests that are not ours
			}
		}
	}
	for _, m := range all {
		if reasons := why[m.ID]; len(reasons) > 0 {
			stay = append(stay, Kept{m, reasons})
		} else {
			gone = append(gone, m)
		}
	}
	return stay, gone
}

// series identifies backups that can replace each other: those of one form, one server and, if
// logical, one database.
func series(m *Manifest) string {
	if m.Form != Logical {
		return m.Engine + "/" + m.SystemID
	}
	return m.Engine + "/" + m.Cluster() + "/" + m.Form + "/" + m.Database
}

// cluster records why backups of one cluster, newest first, stay.
func (k Keep) cluster(backups []*Manifest, now time.Time, why map[string][]string) {
	note := func(m *Manifest, format string, args ...any) {
		why[m.ID] = append(why[m.ID], fmt.Sprintf(format, args...))
	}
	note(backups[0], "newest")
	for i, m := range backups {
		if i < k.Last {
			note(m, "last %d", i+1)
		}
		if k.Within > 0 && now.Sub(m.Started) <= k.Within {
			note(m, "within")
		}
	}
	for _, p := range []struct {
		name  string
		count int
		of    func(time.Time) string
	}{
		{"hourly", k.Hourly, func(t time.Time) string { return t.Format("2006-01-02 15") }},
		{"daily", k.Daily, func(t time.Time) string { return t.Format(time.DateOnly) }},
		{"weekly", k.Weekly, func(t time.Time) string {
			year, week := t.ISOWeek()
			return fmt.Sprintf("%d-W%02d", year, week)
		}},
		{"monthly", k.Monthly, func(t time.Time) string { return t.Format("2006-01") }},
		{"yearly", k.Yearly, func(t time.Time) string { return t.Format("2006") }},
	} {
		last, n := "", 0
		for _, m := range backups {
			period := p.of(m.Started.UTC())
			if period == last {
				continue
			}
			if last = period; n == p.count {
				break
			}
			n++
			note(m, "%s %s", p.name, period)
		}
	}
}

// needed reports which logs, in the order of their names, are needed by the backups that stay, and
// by those that can be resumed: since has the first log of each. Logs of no timeline are needed,
// and so are all logs if a backup does not record which it needs.
func (k Keep) needed(logs []Log, stay []Kept, since []string, now time.Time) []bool {
	out := make([]bool, len(logs))
	all := func() []bool {
		for i := range out {
			out[i] = true
		}
		return out
	}
	// From this log on all are kept, on its timeline and those after it: the first log of the
	// oldest backup to be recovered beyond its end.
	from := ""
	for i, b := range stay {
		if b.Form == Logical || b.Kind == Partial {
			continue // it needs none
		}
		if len(b.Ranges) == 0 {
			return all()
		}
		for _, g := range b.Ranges {
			if !strings.Contains(g.First, "/") || !strings.Contains(g.Last, "/") {
				return all()
			}
			at, _ := slices.BinarySearchFunc(logs, g.First, func(l Log, name string) int { return strings.Compare(l.Name, name) })
			for ; at < len(logs) && logs[at].Name <= g.Last; at++ {
				out[at] = true
			}
		}
		newest := !slices.ContainsFunc(stay[:i], func(x Kept) bool { return x.Kind != Partial && series(x.Manifest) == series(b.Manifest) })
		first := b.Ranges[0].First
		if (k.Logs == 0 || newest || now.Sub(b.Started) <= k.Logs) && (from == "" || first < from) {
			from = first
		}
	}
	for _, first := range since {
		if !strings.Contains(first, "/") {
			return all()
		}
		if from != "" {
			from = min(from, first)
		}
	}
	if from == "" {
		return all() // no backup stays: nothing shows what the log is for
	}
	for i, l := range logs {
		if l.Name >= from || !strings.Contains(l.Name, "/") {
			out[i] = true
		}
	}
	return out
}
