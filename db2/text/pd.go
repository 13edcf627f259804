package text

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An EDU is a thread of db2pd -edus that has to do with a backup, a restore or a load.
type EDU struct {
	ID           int
	Name         string // "db2bm.17686.4 (SAMPLE) 0"
	Kind         string // "db2bm"
	Agent        int    // the EDU that it works for: db2bm and db2med
	DB           string
	User, System float64 // seconds of processor; -1: the text does not have them
}

// An Agent is one of db2pd -agents: it ties an EDU to an application.
type Agent struct {
	Handle int // of the application
	EDU    int
}

// pdTable reads a table of db2pd by its headings.
type pdTable struct {
	columns []string // in the order of their headings
	listing Listing
	agents  bool
}

// pdColumns are headings that may have several words.
var pdColumns = []string{"EDU ID", "Kernel TID", "TID", "EDU Name", "USR (s)", "SYS (s)"}

// pdTableHead gives the table that a line begins; nil if it begins none.
func pdTableHead(s string) *pdTable {
	if strings.Contains(s, "AppHandl") && strings.Contains(s, "AgentEDUID") {
		t := &pdTable{agents: true}
		for _, w := range words(s) {
			t.columns = append(t.columns, w.text)
		}
		return t
	}
	if !strings.Contains(s, "EDU ID") || !strings.Contains(s, "EDU Name") {
		return nil
	}
	type at struct {
		place int
		name  string
	}
	var found []at
	for _, name := range pdColumns {
		i := strings.Index(s, name)
		if name == "TID" { // not the one of "Kernel TID"
			i = strings.Index(strings.Replace(s, "Kernel TID", "Kernel ___", 1), name)
		}
		if i >= 0 {
			found = append(found, at{i, name})
		}
	}
	slices.SortFunc(found, func(a, b at) int { return a.place - b.place })
	t := &pdTable{}
	for _, f := range found {
		t.columns = append(t.columns, f.name)
	}
	return t
}

// eduName is a name, its database, and the number of the member.
var eduName = regexp.MustCompile(`\b(db2[a-z0-9]+)((?:\.[0-9]+)*)(?: [a-zA-Z]+)?(?: \(([^)]*)\))?(?: (\d+)\b)?`)

// line reads a row, and reports whether the table continues.
func (t *pdTable) line(s string) bool {
	if strings.Contains(s, "=") && !isRule(strings.TrimSpace(s)) || pdTableHead(s) != nil {
		return false
	}
	for _, other := range []string{" -- ", "LEVEL", "BM#", "MC#", "HeartBeatsMissed"} {
		if strings.Contains(s, other) {
			return false
		}
	}
	if t.agents {
		t.agent(s)
		return true
	}
	return t.edu(s)
}

func (t *pdTable) edu(s string) bool {
	at := eduName.FindStringSubmatchIndex(s)
	if at == nil {
		return true
	}
	m := eduName.FindStringSubmatch(s)
	e := EDU{Name: strings.TrimSpace(m[0]), Kind: strings.TrimRight(m[1], "0123456789"), DB: m[3], User: -1, System: -1}
	if m[1] == "db2" {
		return true
	}
	if parts := strings.Split(strings.TrimPrefix(m[2], "."), "."); parts[0] != "" {
		e.Agent, _ = strconv.Atoi(parts[0])
	}
	// The name is one value; the others are one word each, before and behind it.
	values := strings.Fields(s[:at[0]])
	name := len(values)
	values = append(append(values, m[0]), strings.Fields(s[at[1]:])...)
	place := slices.Index(t.columns, "EDU Name")
	for i, column := range t.columns {
		k := name + i - place
		if k < 0 || k >= len(values) {
			continue
		}
		f, ok := number(values[k])
		if !ok {
			continue
		}
		switch column {
		case "EDU ID":
			e.ID = int(min(f, 1<<52))
		case "USR (s)":
			e.User = f
		case "SYS (s)":
			e.System = f
		}
	}
	if ofUtility(e.Kind) && len(t.listing.EDUs) < maxEntries {
		t.listing.EDUs = append(t.listing.EDUs, e)
	}
	return true
}

// ofUtility reports whether an EDU is of a kind that is kept: of backups, restores and loads, and
// the agents that run them.
func ofUtility(kind string) bool {
	switch kind {
	case "db2bm", "db2med", "db2vend", "db2agent", "db2lbm", "db2lbs", "db2lfr", "db2lfrm", "db2lmr", "db2lmw", "db2lrid", "db2ltsc", "db2linit", "db2load":
		return kind != "db2lfr" // reads log files, and has nothing to do with loads
	}
	return false
}

func (t *pdTable) agent(s string) {
	values := strings.Fields(s)
	get := func(column string) (int, bool) {
		i := slices.Index(t.columns, column)
		if i < 0 || i >= len(values) {
			return 0, false
		}
		f, ok := number(values[i])
		return int(min(f, 1<<52)), ok
	}
	handle, ok := get("AppHandl")
	edu, is := get("AgentEDUID")
	if ok && is && len(t.listing.Agents) < maxEntries {
		t.listing.Agents = append(t.listing.Agents, Agent{handle, edu})
	}
}

// hadrTable reads db2pd -hadr of 9.7: headings, and values in the line after them.
type hadrTable struct {
	listing Listing
	head    string
}

func newHADRTable(head string, at Listing) *hadrTable {
	at.HADR = &HADR{Values: map[string]string{}}
	return &hadrTable{listing: at, head: head}
}

func (t *hadrTable) line(s string) bool {
	if strings.Contains(s, " -- ") || strings.Contains(s, "LEVEL:") {
		return false
	}
	head := strings.Fields(t.head)
	values := strings.Fields(s)
	v := t.listing.HADR.Values
	heading := len(head) > 0 && !slices.ContainsFunc(values, func(w string) bool { return w[0] < 'A' })
	switch {
	case strings.Contains(t.head, "SyncMode") && len(values) >= 5:
		// A state may have several words; the others have one.
		at := func(name string) int { return slices.Index(head, name) }
		if at("Role") != 0 || at("State") != 1 || at("SyncMode") != 2 {
			break
		}
		n := len(values)
		v["HADR_ROLE"] = strings.ToUpper(values[0])
		v["HADR_STATE"] = strings.ToUpper(strings.Join(values[1:n-3], "_"))
		v["HADR_SYNCMODE"] = strings.ToUpper(values[n-3])
		v["HEARTBEAT_MISSED"], v["HADR_LOG_GAP"] = values[n-2], values[n-1]
	case strings.Contains(t.head, "ConnectStatus") && len(values) >= 2:
		v["HADR_CONNECT_STATUS"] = strings.ToUpper(values[0])
		if head[len(head)-1] == "Timeout" {
			v["HADR_TIMEOUT"] = values[len(values)-1]
		}
	}
	t.head = ""
	if heading || strings.Contains(s, "ConnectStatus") {
		t.head = s
	}
	return true
}
