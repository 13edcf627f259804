package text

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Space is a table space of LIST TABLESPACES SHOW DETAIL. Numbers that do not apply are -1.
type Space struct {
	ID         int
	Name       string
	Type       string // "Database managed space", "System managed space"
	Contents   string
	State      string // "0x0000"
	States     []string
	Total      int64 // pages
	Usable     int64
	Used       int64
	Free       int64
	HighWater  int64
	PageSize   int64 // bytes
	Extent     int64 // pages
	Prefetch   int64
	Containers int64
}

// Temporary reports whether backups leave it out.
func (s *Space) Temporary() bool { return strings.Contains(strings.ToLower(s.Contents), "temporary") }

// A Utility is one of LIST UTILITIES SHOW DETAIL.
type Utility struct {
	ID          string
	Type        string // "BACKUP", "RESTORE", "LOAD", "REORG", "RUNSTATS", ...
	DB          string
	Member      string
	Description string
	Start       time.Time
	State       string
	Invocation  string
	Priority    string // "Unthrottled" or a number
	Percent     int    // -1: the text has none
	Phases      []Phase
}

// A Phase is a step of a utility.
type Phase struct {
	Number      int
	Current     bool
	Description string
	Total, Done int64 // -1: not known
	Unit        string
	Start       time.Time
}

// HADR is what db2pd -hadr prints of one standby, by its own names, without units.
type HADR struct{ Values map[string]string }

// Get is a value; "" if the text does not have it, or has NULL.
func (h *HADR) Get(name string) string {
	if v := h.Values[name]; v != "NULL" {
		return v
	}
	return ""
}

// Number is a value as a number: of several, such as requested and actual sizes, the last.
func (h *HADR) Number(name string) (float64, bool) {
	v := h.Get(name)
	if i := strings.LastIndex(v, ", "); i >= 0 {
		v = v[i+2:]
	}
	return number(v)
}

func (h *HADR) ok() bool {
	return h != nil && (h.Get("HADR_STATE") != "" || h.Get("HADR_CONNECT_STATUS") != "")
}

// pairs reads listings of lines "Key = value".
type pairs struct {
	at      Listing
	space   *Space
	utility *Utility
	hadr    *HADR
	phases  bool // progress began
	states  bool // the lines after "Detailed explanation:"
	detail  bool // the listing has figures
}

// keys are those that are read, in lower case, without what is in parentheses.
var keys = []string{
	"parallelism", "number of buffers", "buffer size",
	"tablespace id", "table space id", "name", "type", "contents", "state", "total pages", "useable pages", "usable pages", "used pages", "free pages", "high water mark", "page size", "extent size", "prefetch size", "number of containers",
	"id", "database name", "partition number", "member number", "description", "start time", "invocation type", "priority", "estimated percentage complete", "total work", "total work units", "completed work", "completed work units", "phase number", "phase number [current]",
}

// byLength has the longest first: "Invocation Type" ends with "Type".
var byLength = slices.SortedFunc(slices.Values(keys), func(a, b string) int { return cmp.Compare(len(b), len(a)) })

// hadrPrefixes begin the names of db2pd -hadr.
var hadrPrefixes = []string{"HADR_", "STANDBY_", "PRIMARY_", "LOG_HADR_", "LOG_STREAM", "SOCK_", "PEER_", "HEARTBEAT_", "TIME_SINCE_", "REPLAY_TYPE", "READS_ON_"}

// keyOf finds the key in what stands before an equals sign, behind any prefix.
func keyOf(left string) string {
	if len(left) > 300 {
		return ""
	}
	left = strings.ToLower(left)
	for i := strings.IndexByte(left, '('); i >= 0; i = strings.IndexByte(left, '(') { // the unit
		j := strings.IndexByte(left[i:], ')')
		if j < 0 {
			break
		}
		left = left[:i] + left[i+j+1:]
	}
	left = strings.Join(strings.Fields(left), " ")
	for _, k := range byLength {
		if rest, is := strings.CutSuffix(left, k); is && (rest == "" || !word1(rest[len(rest)-1])) {
			return k
		}
	}
	return ""
}

func word1(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c >= 0x80
}

// hadrKey finds a name of db2pd -hadr: the last word, without its unit.
func hadrKey(left string) string {
	fields := strings.Fields(left)
	if len(fields) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(fields[len(fields)-1], "(")
	name = strings.TrimPrefix(name, "<b>")
	for _, p := range hadrPrefixes {
		if strings.HasPrefix(name, p) {
			return name
		}
	}
	return ""
}

// pair reads a line with an equals sign.
func (p *parser) pair(s string) {
	left, value, _ := strings.Cut(s, "=")
	value = strings.TrimSpace(strings.TrimSuffix(strings.TrimRight(value, " |"), "</b>"))
	if name := hadrKey(left); name != "" {
		p.hadrPair(name, value)
		return
	}
	if foreign(left) {
		p.seen.Language = true
		return
	}
	key := keyOf(left)
	if key == "" {
		if p.context.record {
			p.diagField(s)
		}
		return
	}
	switch key {
	case "parallelism", "number of buffers", "buffer size":
		p.statsFact(key, value)
		return
	case "tablespace id", "table space id":
		p.open(&pairs{space: &Space{ID: int(whole(value)), Total: -1, Usable: -1, Used: -1, Free: -1, HighWater: -1, PageSize: -1, Extent: -1, Prefetch: -1, Containers: -1}})
		return
	case "id":
		p.open(&pairs{utility: &Utility{ID: value, Percent: -1}})
		return
	}
	if p.pairs == nil {
		return
	}
	p.pairs.states = false
	switch {
	case p.pairs.space != nil:
		p.pairs.spacePair(key, value)
	case p.pairs.utility != nil:
		p.pairs.utilityPair(key, value)
	}
}

// open begins a listing. Table spaces are one listing together.
func (p *parser) open(next *pairs) {
	next.at = Listing{Line: p.seen.Lines, Taken: p.context.time, DB: p.context.db}
	if now := p.pairs; now != nil && now.space != nil && next.space != nil && !slices.ContainsFunc(now.at.Spaces, func(s Space) bool { return s.ID == next.space.ID }) && now.space.ID != next.space.ID {
		now.endSpace(p)
		next.at = now.at
		p.pairs = next
		return
	}
	p.flush()
	p.pairs = next
}

func (s *pairs) endSpace(p *parser) {
	switch {
	case s.space.Name == "" || len(s.at.Spaces) >= maxEntries:
	case !s.detail:
		p.seen.Brief = true
	default:
		s.at.Spaces = append(s.at.Spaces, *s.space)
	}
}

// flush gives the listing, if it has what is needed.
func (s *pairs) flush(p *parser) {
	switch {
	case s.space != nil:
		if s.endSpace(p); len(s.at.Spaces) > 0 {
			p.found(s.at)
		}
	case s.utility != nil:
		if u := s.utility; u.Type != "" && !u.Start.IsZero() {
			if !s.detail {
				p.seen.Brief = true
				return
			}
			s.at.Utility, s.at.DB = u, cmp.Or(u.DB, s.at.DB)
			p.found(s.at)
		}
	case s.hadr.ok():
		s.at.HADR = s.hadr
		p.found(s.at)
	}
}

// plain reads a line without an equals sign.
func (s *pairs) plain(line string) {
	text := strings.TrimSpace(line)
	switch {
	case strings.HasSuffix(text, "Detailed explanation:"):
		s.states = true
	case strings.HasSuffix(text, "Progress Monitoring:"):
		s.phases = true
	case s.states && s.space != nil && len(s.space.States) < 20:
		s.space.States = append(s.space.States, text)
	}
}

// statsFact reads a line before the tables of statistics.
func (p *parser) statsFact(key, value string) {
	if p.stats != nil && len(p.stats.stats.BM)+len(p.stats.stats.MC) > 0 || p.pairs != nil {
		p.flush()
	}
	st := &p.statsOpen().stats
	n, _ := number(strings.SplitN(value, " ", 2)[0])
	switch key {
	case "parallelism":
		st.Parallelism = int(min(max(n, 0), 1<<20))
	case "number of buffers":
		st.Buffers = int(min(max(n, 0), 1<<30))
	case "buffer size":
		st.BufferSize = int64(max(n, 0))
	}
}

// maxPages is more than a table space can have, so that sums of sizes are not too large.
const maxPages = 1 << 40

// whole is a count; -1 if there is none.
func whole(value string) int64 {
	f, ok := number(strings.SplitN(value, " ", 2)[0])
	if !ok || f < 0 || f > maxPages {
		return -1
	}
	return int64(f)
}

func (s *pairs) spacePair(key, value string) {
	sp := s.space
	switch key {
	case "name":
		sp.Name = value
	case "type":
		sp.Type = value
	case "contents":
		sp.Contents = value
	case "state":
		sp.State = value
	}
	field := map[string]*int64{"total pages": &sp.Total, "useable pages": &sp.Usable, "usable pages": &sp.Usable, "used pages": &sp.Used, "free pages": &sp.Free, "high water mark": &sp.HighWater,
		"page size": &sp.PageSize, "extent size": &sp.Extent, "prefetch size": &sp.Prefetch, "number of containers": &sp.Containers}[key]
	if field != nil {
		*field = whole(value)
		s.detail = true
	}
}

func (s *pairs) utilityPair(key, value string) {
	u := s.utility
	phase := func() *Phase {
		if len(u.Phases) == 0 {
			u.Phases = append(u.Phases, Phase{Number: 1, Current: true, Total: -1, Done: -1})
		}
		return &u.Phases[len(u.Phases)-1]
	}
	switch key {
	case "type":
		u.Type = strings.ToUpper(value)
	case "database name":
		u.DB = value
	case "partition number", "member number":
		u.Member = value
	case "state":
		u.State = value
	case "invocation type":
		u.Invocation = value
	case "priority":
		u.Priority = value
	case "estimated percentage complete":
		u.Percent, s.phases, s.detail = int(min(whole(value), 100)), true, true
	case "phase number", "phase number [current]":
		s.phases, s.detail = true, true
		if len(u.Phases) < 1000 {
			u.Phases = append(u.Phases, Phase{Number: int(whole(value)), Current: strings.HasSuffix(key, "]"), Total: -1, Done: -1})
		}
	case "total work", "total work units":
		s.phases, s.detail = true, true
		ph := phase()
		ph.Total = ph.amount(value)
	case "completed work", "completed work units":
		s.phases, s.detail = true, true
		ph := phase()
		ph.Done = ph.amount(value)
	case "description":
		if s.phases {
			phase().Description = value
		} else {
			u.Description = value
		}
	case "start time":
		t, _ := moment(value)
		if s.phases && !u.Start.IsZero() {
			phase().Start = t
		} else {
			u.Start = t
		}
	}
}

// amount reads work such as "1187160686 bytes" or "2 indexes"; larger units become bytes.
func (ph *Phase) amount(value string) int64 {
	n, unit, _ := strings.Cut(value, " ")
	f, ok := number(n)
	if !ok || f < 0 {
		return -1
	}
	unit, _, _ = strings.Cut(unit, "(")
	unit = strings.TrimSpace(unit)
	if by := unitsOf[strings.ToLower(unit)]; by > 0 {
		f, unit = f*by, "bytes"
	}
	if ph.Unit == "" {
		ph.Unit = unit
	}
	return int64(min(f, 1<<60))
}

// hadrPair reads a line of db2pd -hadr. HADR_ROLE begins a standby's.
func (p *parser) hadrPair(name, value string) {
	if name == "HADR_ROLE" || p.pairs == nil || p.pairs.hadr == nil {
		p.open(&pairs{hadr: &HADR{Values: map[string]string{}}})
	}
	if v := p.pairs.hadr.Values; len(v) < 200 {
		v[name] = value
	}
}
