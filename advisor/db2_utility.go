package advisor

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/db2/text"
)

// explainUtility tells how far a utility is, how fast it is, and when it ends.
func explainUtility(d *Diagnosis, u *text.Utility, around surroundings) {
	d.Of = "utility"
	d.Title = fmt.Sprintf("%s %s of %s (%s), since %s, %s", u.Type, u.ID, u.DB, u.Description, clock(u.Start), strings.ToLower(u.State))
	if u.DB == "" {
		d.Title = strings.Replace(d.Title, " of  (", " (", 1)
	}
	now, guess := d.Time, false
	if now.IsZero() {
		now = around.facts.At
	}
	if now.IsZero() {
		now, guess = around.all[around.at].Written, true
	}
	if !now.IsZero() && (now.Before(u.Start) || now.Sub(u.Start) > 60*24*time.Hour) {
		d.note("It cannot have been printed at %s: rates need --at with the time at which it was.", clock(now))
		now = time.Time{}
	}
	if guess && !now.IsZero() {
		d.note("Rates assume that it was printed at %s, when the text was written; --at TIME corrects that.", clock(now))
	}
	for i := range u.Phases {
		phaseFact(d, u, i, now)
	}
	if len(u.Phases) == 0 {
		d.Limit = "The text has no progress of it."
		return
	}
	p := current(u)
	before := around.sampleBefore(u)
	switch still := before != nil && p.Done >= 0 && current(before).Done == p.Done && current(before).Number == p.Number; {
	case u.Type == "RESTORE" && (p.Done == 0 || still):
		d.Limit = "It moves no data yet: Db2 creates the containers at their full size first."
		d.Advice = append(d.Advice, creating(p, u, now))
	case still:
		d.Limit = fmt.Sprintf("It stands still: between two listings its completed work stayed at %s.", amount(p.Done, p.Unit))
		d.Advice = append(d.Advice, Advice{Do: "Look what its threads wait for.", Evidence: []string{d.Limit}, Settings: []Setting{{Name: "stacks", Now: "-", Propose: "two, a minute apart", Run: "db2pd -edus, db2pd -agents, then db2pd -stack apphdl=<handle> -rep 60 2"}}, Gain: "to know what limits", Sure: Certain, Cost: "none"})
	case p.Total > 0 && p.Done >= 0:
		progress(d, p, now)
	default:
		d.Limit = "Its total work is not known, so neither is its end."
	}
	if u.Type == "LOAD" {
		loadPhases(d, u, now)
	}
	if throttled(u) {
		a := Advice{
			Do:       "Take the throttle off, if it is in a hurry.",
			Evidence: []string{"Priority = " + u.Priority + "."},
			Settings: []Setting{{Name: "UTIL_IMPACT_PRIORITY", Now: u.Priority, Propose: "0 (unthrottled)", Run: fmt.Sprintf("SET UTIL_IMPACT_PRIORITY FOR %s TO 0", u.ID)}},
			Gain:     "not in the text: up to the share that UTIL_IMPACT_LIM takes away",
			Sure:     Likely, If: "UTIL_IMPACT_LIM is below 100", Cost: "applications feel it more",
		}
		d.Advice = append(d.Advice, a)
	}
}

func throttled(u *text.Utility) bool {
	return u.Priority != "" && u.Priority != "0" && !strings.EqualFold(u.Priority, "Unthrottled")
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.Format(time.DateTime)
}

func amount(n int64, unit string) string {
	if n < 0 {
		return "unknown"
	}
	return strings.TrimSpace(grouped(n) + " " + unit)
}

// current is the phase that runs: the one that the text marks, else the last one that has begun.
func current(u *text.Utility) text.Phase {
	last := u.Phases[0]
	for _, p := range u.Phases {
		if p.Current && len(u.Phases) > 1 {
			return p
		}
		if !p.Start.IsZero() {
			last = p
		}
	}
	return last
}

// phaseFact tells what is known of a phase.
func phaseFact(d *Diagnosis, u *text.Utility, i int, now time.Time) {
	p := u.Phases[i]
	name := ""
	if len(u.Phases) > 1 {
		name = strings.TrimSpace(fmt.Sprintf("Phase %d %s", p.Number, p.Description)) + ": "
	}
	if p.Start.IsZero() && len(u.Phases) > 1 {
		d.fact("%snot started, %s to do.", name, amount(p.Total, p.Unit))
		return
	}
	end := now
	if i+1 < len(u.Phases) && !u.Phases[i+1].Start.IsZero() {
		end = u.Phases[i+1].Start
	}
	took := ""
	if !end.IsZero() && end.After(p.Start) && !p.Start.IsZero() {
		took = fmt.Sprintf(" in %s", secs(end.Sub(p.Start)))
		if p.Done > 0 {
			took += ", " + pace(p, end.Sub(p.Start))
		}
	}
	share := ""
	if p.Total > 0 && p.Done >= 0 {
		share = " (" + percent(float64(p.Done), float64(p.Total)) + ")"
	}
	d.fact("%s%s of %s%s%s.", name, amount(p.Done, p.Unit), amount(p.Total, p.Unit), share, took)
	if share != "" && len(u.Phases) == 1 && u.Percent >= 0 && (100*float64(p.Done)/float64(p.Total) > float64(u.Percent)+5 || 100*float64(p.Done)/float64(p.Total) < float64(u.Percent)-5) {
		d.note("The text says %d%%, and its own figures %s.", u.Percent, percent(float64(p.Done), float64(p.Total)))
	}
}

// progress gives the end of the phase that runs.
func progress(d *Diagnosis, p text.Phase, now time.Time) {
	left := max(p.Total-p.Done, 0)
	d.Limit = fmt.Sprintf("%s is done, and %s remain.", percent(float64(p.Done), float64(p.Total)), amount(left, p.Unit))
	if now.IsZero() || p.Start.IsZero() || !now.After(p.Start) || p.Done <= 0 {
		return
	}
	took := now.Sub(p.Start)
	remains := time.Duration(float64(took) * float64(left) / float64(p.Done)).Round(time.Second)
	d.Limit = fmt.Sprintf("%s is done (%s); at that pace the rest takes %s, until %s.", percent(float64(p.Done), float64(p.Total)), pace(p, took), remains, clock(now.Add(remains)))
}

func pace(p text.Phase, took time.Duration) string {
	if p.Unit == "bytes" {
		return rate(p.Done, took)
	}
	if each := took.Seconds() / float64(p.Done); each > 1 {
		return fmt.Sprintf("%.1f s for each of %s", each, p.Unit)
	}
	return grouped(int64(float64(p.Done)/took.Seconds())) + " " + p.Unit + "/s"
}

// creating is the advice for a restore that has not begun to move data.
func creating(p text.Phase, u *text.Utility, now time.Time) Advice {
	a := Advice{
		Do:       "Let it work, and see that file systems fill meanwhile; next time restore to one that allocates without writing (ext4, XFS, GPFS, JFS2, VxFS; not ext3), and reduce table spaces before the backup.",
		Evidence: []string{fmt.Sprintf("Completed work is %s since %s.", amount(p.Done, p.Unit), clock(u.Start))},
		Settings: []Setting{
			{Name: "DB2_USE_FAST_PREALLOCATION", Now: "not in the text", Propose: "ON", Run: "db2set DB2_USE_FAST_PREALLOCATION=ON"},
			{Name: "table spaces", Now: "containers at their full size", Propose: "reduced to what they hold", Run: "ALTER TABLESPACE ... LOWER HIGH WATER MARK, then REDUCE"},
		},
		Gain: "all of the time until data flows", Sure: Likely,
		If:   "stacks of db2bm (db2pd -stack) show sqloSetFileSize or DMSAddContainerRequest",
		Cost: "another file system",
	}
	if !now.IsZero() && now.After(u.Start) {
		a.Seconds = now.Sub(u.Start).Seconds()
		a.Gain = fmt.Sprintf("the %s until now, and what is still to come before data flows", secs(now.Sub(u.Start)))
	}
	return a
}

// sampleBefore is the listing before this one of the same utility.
func (s surroundings) sampleBefore(u *text.Utility) *text.Utility {
	for i := s.at - 1; i >= 0; i-- {
		if o := s.all[i].Utility; o != nil && o.ID == u.ID && o.Type == u.Type && o.DB == u.DB && o.Start.Equal(u.Start) && len(o.Phases) > 0 {
			return o
		}
	}
	return nil
}

// loadPhases compares the time to load rows with that to build indexes.
func loadPhases(d *Diagnosis, u *text.Utility, now time.Time) {
	var load, build time.Duration
	var indexes int64
	for i, p := range u.Phases {
		end := now
		if i+1 < len(u.Phases) && !u.Phases[i+1].Start.IsZero() {
			end = u.Phases[i+1].Start
		}
		if p.Start.IsZero() || !end.After(p.Start) {
			continue
		}
		switch strings.ToUpper(p.Description) {
		case "LOAD":
			load = end.Sub(p.Start)
		case "BUILD":
			build, indexes = end.Sub(p.Start), p.Total
		}
	}
	if build <= tooShort || build*10 < load*4 {
		return
	}
	a := Advice{
		Do:       "Give index builds more memory, or build the indexes later and in parallel.",
		Evidence: []string{fmt.Sprintf("BUILD runs since %s, after %s of LOAD.", secs(build), secs(load))},
		Settings: []Setting{
			{Name: "SORTHEAP and SHEAPTHRES_SHR", Now: "not in the text", Propose: "enough for the keys of one index"},
			{Name: "INDEXING MODE", Now: mode(u.Description), Propose: "DEFERRED, and CREATE INDEX or a first access afterwards, where queries can wait"},
		},
		Gain: fmt.Sprintf("part of the %s of BUILD", secs(build)), Seconds: build.Seconds(), Sure: Possible, If: "sorts overflow: sort_overflows of the database grow meanwhile",
		Cost: "memory; with DEFERRED, the first access waits for the indexes",
	}
	if indexes > 0 {
		a.Evidence = append(a.Evidence, fmt.Sprintf("Indexes to build: %s.", grouped(indexes)))
	}
	d.Advice = append(d.Advice, a)
}

func mode(description string) string {
	for _, m := range []string{"AUTOMATIC", "REBUILD", "INCREMENTAL", "DEFERRED"} {
		if strings.Contains(strings.ToUpper(description), m+" INDEXING") {
			return m
		}
	}
	return "not in the text"
}
