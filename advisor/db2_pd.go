package advisor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/db2/text"
)

// explainEDUs tells which backups, restores and loads run, with how many threads.
func explainEDUs(d *Diagnosis, all []text.EDU, handles map[int]int) {
	d.Of = "threads"
	bms, meds := map[int][]text.EDU{}, map[int][]text.EDU{}
	var agents []int
	kinds := map[string]int{}
	cpu := map[string]float64{}
	for _, e := range all {
		switch e.Kind {
		case "db2bm":
			bms[e.Agent] = append(bms[e.Agent], e)
		case "db2med":
			meds[e.Agent] = append(meds[e.Agent], e)
		case "db2agent":
			continue
		}
		if e.Agent > 0 && !slices.Contains(agents, e.Agent) {
			agents = append(agents, e.Agent)
		}
		kinds[e.Kind]++
		cpu[e.Kind] += max(e.User, 0) + max(e.System, 0)
	}
	slices.Sort(agents)
	loads := kinds["db2lfrm"] + kinds["db2lmr"] + kinds["db2lbm"] + kinds["db2lrid"]
	d.Title = fmt.Sprintf("%s of backups or restores, %s of loads", plural(len(agents), "job"), plural(loads, "thread"))
	d.Limit = "No backup, restore or load runs."
	if len(agents)+loads > 0 {
		d.Limit = "Which of them limits, these threads alone do not say: statistics in db2diag.log do, when it has ended."
	}
	for _, agent := range agents {
		barThreads(d, agent, bms[agent], meds[agent], handles)
	}
	if loads > 0 {
		loadThreads(d, kinds, cpu)
	}
}

// barThreads tells what a backup or restore runs with, and whether its processor time is uneven.
func barThreads(d *Diagnosis, agent int, bms, meds []text.EDU, handles map[int]int) {
	db := ""
	for _, e := range append(slices.Clone(bms), meds...) {
		db = cmp.Or(db, e.DB)
	}
	handle := "db2pd -agents tells its application"
	run := fmt.Sprintf("db2pd -agents, where AgentEDUID is %d, then db2pd -stack apphdl=<AppHandl> -rep 60 2", agent)
	if h, ok := handles[agent]; ok {
		handle = fmt.Sprintf("application %d", h)
		run = fmt.Sprintf("db2pd -stack apphdl=%d -rep 60 2", h)
	}
	d.fact("EDU %d (%s) backs up or restores %s: PARALLELISM %d, %s.", agent, handle, cmp.Or(db, "a database"), len(bms), plural(len(meds), "target or session"))
	d.Database = cmp.Or(d.Database, db)
	var sum float64
	var most text.EDU
	for _, e := range bms {
		used := max(e.User, 0) + max(e.System, 0)
		if sum += used; used > max(most.User, 0)+max(most.System, 0) {
			most = e
		}
	}
	if own := most.User + most.System; len(bms) > 1 && sum > 1 && own > sum*0.7 {
		d.Limit = fmt.Sprintf("One table space seems to dominate: %s has used %.1f of the %.1f s of processor of all %d BMs.", most.Name, own, sum, len(bms))
	}
	d.Advice = append(d.Advice, Advice{
		Do: "If it seems to hang, take stacks of this job only.", Settings: []Setting{{Name: "stacks", Now: "-", Propose: "two, a minute apart", Run: run}},
		Evidence: []string{fmt.Sprintf("db2bm and db2med of EDU %d.", agent)}, Gain: "to know what it waits for", Sure: Certain, Cost: "none",
	})
}

// loadThreads tells which step of loads uses most processor time.
func loadThreads(d *Diagnosis, kinds map[string]int, cpu map[string]float64) {
	steps := map[string]string{"db2lmr": "reading the input", "db2lfrm": "formatting rows", "db2lbm": "writing pages", "db2lrid": "indexes"}
	var names []string
	for kind := range steps {
		if kinds[kind] > 0 {
			names = append(names, kind)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(cpu[b], cpu[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, n := range names {
		parts = append(parts, fmt.Sprintf("%s %d (%s, %.1f s)", n, kinds[n], steps[n], cpu[n]))
	}
	d.fact("Threads of loads, with their processor time: %s.", strings.Join(parts, ", "))
	if len(names) == 0 || names[0] != "db2lfrm" || cpu["db2lfrm"] < 1 {
		return
	}
	n := kinds["db2lfrm"]
	d.Advice = append(d.Advice, Advice{
		Do:       "Format rows with more threads.",
		Evidence: []string{fmt.Sprintf("The formatters used %.1f s of processor, more than any other step.", cpu["db2lfrm"])},
		Settings: []Setting{{Name: "CPU_PARALLELISM", Now: fmt.Sprint(n), Propose: fmt.Sprint(2 * n)}, {Name: "DATA BUFFER and UTIL_HEAP_SZ", Now: "not in the text", Propose: "larger: formatters share it"}},
		Gain:     "up to half of the LOAD phase", Sure: Possible, If: "processors are free", Cost: "memory of the utility heap, which reduces parallelism where it lacks",
	})
}

// Limits of waits, from the field: above them users notice.
const (
	longWait = 5.0   // seconds of one wait
	meanWait = 0.020 // seconds, of all
	goodWait = 0.010 // what HADR should add at most
)

// explainHADR tells whether commits wait for a standby, and what to do.
func explainHADR(d *Diagnosis, h *text.HADR, around surroundings) {
	d.Of = "HADR"
	standby := cmp.Or(h.Get("STANDBY_MEMBER_HOST"), "the standby")
	modeOf, state, status := h.Get("HADR_SYNCMODE"), h.Get("HADR_STATE"), h.Get("HADR_CONNECT_STATUS")
	d.Title = strings.TrimSpace(fmt.Sprintf("%s of %s: %s, %s, %s", strings.ToLower(cmp.Or(h.Get("HADR_ROLE"), "HADR")), cmp.Or(d.Database, "a database"), modeOf, state, strings.ToLower(status)))
	num := func(name string) float64 { f, _ := h.Number(name); return max(f, 0) }
	wait, count, sum, now := num("LOG_HADR_WAIT_RECENT_AVG"), num("LOG_HADR_WAIT_COUNT"), num("LOG_HADR_WAIT_ACCUMULATED"), num("LOG_HADR_WAIT_CUR")
	mean := wait
	if count > 0 {
		d.fact("Log writes waited %.3f s in all, %s times: %.6f s each; lately %.6f s.", sum, grouped(int64(count)), sum/count, wait)
		if wait == 0 {
			mean = sum / count
		}
	}
	mean = hadrBetween(d, h, around, mean)
	gap, replay := num("HADR_LOG_GAP"), num("STANDBY_RECV_REPLAY_GAP")
	d.fact("The standby lacks %s of log, and has %s that it has not replayed.", size(int64(gap)), size(int64(replay)))
	flags := h.Get("HADR_FLAGS")
	full := num("STANDBY_RECV_BUF_PERCENT")
	spool, spoolFull := num("STANDBY_SPOOL_LIMIT"), num("STANDBY_SPOOL_PERCENT")
	blocked := strings.Contains(flags, "STANDBY_RECV_BLOCKED") || full >= 90 && (spool == 0 || spoolFull >= 90)
	switch {
	case status == "DISCONNECTED":
		d.Limit = fmt.Sprintf("%s is not connected: nothing is protected, and its log grows behind by what is written.", standby)
	case blocked:
		d.Limit = fmt.Sprintf("Replay on %s limits: its receive buffer is %.0f%% full, and it can take no more log.", standby, full)
		d.Advice = append(d.Advice, slowReplay(h, flags, full, spool, spoolFull))
	case status == "CONGESTED":
		d.Limit = fmt.Sprintf("The network to %s limits: the connection is congested, and the standby's receive buffer is only %.0f%% full.", standby, full)
		d.Advice = append(d.Advice, sockets(h, mean, modeOf))
	case state != "PEER" && modeOf != "SUPERASYNC" && state != "":
		d.Limit = fmt.Sprintf("It is not in peer state (%s): commits do not wait, and what is written is not protected in %s mode.", state, modeOf)
	case now > longWait:
		d.Limit = fmt.Sprintf("A log write waits for %s since %.1f s.", standby, now)
		d.Advice = append(d.Advice, sockets(h, mean, modeOf))
	case mean > meanWait:
		d.Limit = fmt.Sprintf("Each log write waits %.1f ms for %s, which users notice.", mean*1000, standby)
		d.Advice = append(d.Advice, sockets(h, mean, modeOf))
	default:
		d.Limit = fmt.Sprintf("It is in order: a log write waits %.1f ms for %s (up to %.0f ms is usual).", mean*1000, standby, goodWait*1000)
	}
	if missed := num("HEARTBEAT_MISSED"); missed > 0 {
		of := ""
		if expected := num("HEARTBEAT_EXPECTED"); expected > 0 {
			of = " of " + grouped(int64(expected))
		}
		d.note("%s%s heartbeats were missed: the network, or a standby that has no time.", grouped(int64(missed)), of)
	}
}

// hadrBetween works out what happened since the listing before of the same standby.
func hadrBetween(d *Diagnosis, h *text.HADR, around surroundings, mean float64) float64 {
	for i := around.at - 1; i >= 0; i-- {
		l := around.all[i]
		if l.HADR == nil || l.DB != d.Database || l.HADR.Get("STANDBY_MEMBER_HOST") != h.Get("STANDBY_MEMBER_HOST") || l.HADR.Get("HADR_ROLE") != h.Get("HADR_ROLE") || l.HADR.Get("LOG_STREAM_ID") != h.Get("LOG_STREAM_ID") {
			continue
		}
		diff := func(name string) (float64, bool) {
			a, is := l.HADR.Number(name)
			b, ok := h.Number(name)
			return b - a, is && ok && b >= a
		}
		if n, ok := diff("LOG_HADR_WAIT_COUNT"); ok && n > 0 {
			if w, ok := diff("LOG_HADR_WAIT_ACCUMULATED"); ok {
				mean = w / n
				d.fact("Since the listing before: %s waits of %.6f s each.", grouped(int64(n)), mean)
			}
		}
		if n, ok := diff("PRIMARY_LOG_FILE,PAGE,POS"); ok && d.Time.After(l.Taken) && !l.Taken.IsZero() {
			d.fact("Since the listing before: %s of log, %s.", size(int64(n)), rate(int64(n), d.Time.Sub(l.Taken)))
		}
		break
	}
	return mean
}

func slowReplay(h *text.HADR, flags string, full, spool, spoolFull float64) Advice {
	a := Advice{
		Do:       "Let the standby store log that it has not replayed, and find out what slows its replay (reads on it, its disks).",
		Evidence: []string{fmt.Sprintf("Receive buffer %.0f%% full, spool %.0f%% of %s pages full. %s", full, spoolFull, grouped(int64(spool)), flags)},
		Settings: []Setting{{Name: "HADR_SPOOL_LIMIT", Now: cmp.Or(h.Get("STANDBY_SPOOL_LIMIT"), "0") + " pages", Propose: "AUTOMATIC", Run: "UPDATE DB CFG USING HADR_SPOOL_LIMIT AUTOMATIC"}, {Name: "DB2_HADR_BUF_SIZE", Now: cmp.Or(h.Get("STANDBY_RECV_BUF_SIZE"), "unknown") + " pages", Propose: "2 x LOGBUFSZ or more"}},
		Gain:     "commits no longer wait for replay, as long as the spool has room",
		Sure:     Likely, Cost: "a takeover replays what is spooled first",
	}
	if strings.Contains(flags, "STANDBY_LOG_DEVICE_FULL") {
		a.Do, a.Sure = "Give the standby's log path more space: it is full.", Certain
	}
	return a
}

// sockets is the advice for a network that limits.
func sockets(h *text.HADR, mean float64, modeOf string) Advice {
	send, _ := h.Number("SOCK_SEND_BUF_REQUESTED,ACTUAL")
	a := Advice{
		Do:       "Measure the network, and size the socket buffers for it: rate x round trip.",
		Evidence: []string{fmt.Sprintf("A log write waits %.1f ms.", mean*1000)},
		Settings: []Setting{{Name: "DB2_HADR_SOSNDBUF and DB2_HADR_SORCVBUF", Now: grouped(int64(max(send, 0))) + " bytes", Propose: "what tidemark ha measure network finds", Run: "tidemark ha measure network, then tidemark ha calculate --engine db2"}},
		Gain:     "not in the text: ha calculate forecasts it", Sure: Possible, If: "the network, and not the standby's log disk, is slow",
		Cost: "memory of sockets; Db2 has to restart HADR",
	}
	if send > 0 && mean > 0 {
		a.Evidence = append(a.Evidence, fmt.Sprintf("A send buffer of %s bytes fills once a round trip: if the wait is the round trip, at most %.1f MB/s.", grouped(int64(send)), send/(1<<20)/mean))
	}
	if modeOf == "SYNC" || modeOf == "NEARSYNC" {
		a.Settings = append(a.Settings, Setting{Name: "HADR_SYNCMODE", Now: modeOf, Propose: map[string]string{"SYNC": "NEARSYNC", "NEARSYNC": "ASYNC"}[modeOf] + ", if its loss is acceptable"})
	}
	return a
}
