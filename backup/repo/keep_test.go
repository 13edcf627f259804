package repo

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// at returns a backup that began this long before noon, and whose log begins at that hour.
func at(age time.Duration, parent string) *Manifest {
	started := noon.Add(-age)
	n := int(started.Unix() / 3600)
	return &Manifest{ID: started.Format("20060102-150405") + "-0", Started: started, Ended: started.Add(time.Minute), Parent: parent, Engine: "postgres", SystemID: "1",
		Ranges: []LogRange{{Timeline: 1, First: logName(n), Last: logName(n + 1)}}}
}

func ids(list []Kept) (out []string) {
	for _, k := range list {
		out = append(out, k.Started.Format("01-02 15")+": "+strings.Join(k.Why, ", "))
	}
	return out
}

const day = 24 * time.Hour

// Logical backups do not replace physical ones, nor those of another database, and need no log.
func TestKeepForms(t *testing.T) {
	logical := func(age time.Duration, database string) *Manifest {
		m := at(age, "")
		m.Form, m.Database, m.Ranges = Logical, database, nil
		m.ID += database
		return m
	}
	all := []*Manifest{at(5*day, ""), at(4*day, ""), logical(3*day, "shop"), logical(2*day, "shop"), logical(day, "crm"), logical(0, "crm")}
	k, err := ParseKeep("last=1")
	if err != nil {
		t.Fatal(err)
	}
	stay, _ := k.choose(all, nil, nil, noon)
	if diff := cmp.Diff([]string{"11-22 12: newest, last 1", "11-20 12: newest, last 1", "11-18 12: newest, last 1"}, ids(stay)); diff != "" {
		t.Error(diff)
	}
	hour := int(all[1].Started.Unix() / 3600)
	var logs []Log
	for n := hour - 2; n < hour+4; n++ {
		logs = append(logs, Log{Name: logName(n)})
	}
	if got := k.needed(logs, stay, nil, noon); fmt.Sprint(got) != "[false false true true true true]" {
		t.Errorf("of the log %v is needed", got)
	}
	partial := at(3*day, "") // it does not count as a newer backup
	partial.Kind = Partial
	newest := []Kept{{Manifest: partial}, {Manifest: all[1]}}
	if got := (Keep{Last: 1, Logs: time.Hour}).needed(logs, newest, []string{logName(hour + 3)}, noon); fmt.Sprint(got) != "[false false true true true true]" {
		t.Errorf("with one that is not finished, of the log %v is needed", got)
	}
}

func TestKeep(t *testing.T) {
	var daily []*Manifest // at 12:00 and 6:00 of each day
	for i := range 40 {
		daily = append(daily, at(time.Duration(i)*day, ""), at(time.Duration(i)*day+6*time.Hour, ""))
	}
	for keep, want := range map[string][]string{
		"last=2":              {"11-22 12: newest, last 1", "11-22 06: last 2"},
		"daily=3":             {"11-22 12: newest, daily 2026-11-22", "11-21 12: daily 2026-11-21", "11-20 12: daily 2026-11-20"},
		"within=25h":          {"11-22 12: newest, within", "11-22 06: within", "11-21 12: within"},
		"weekly=2":            {"11-22 12: newest, weekly 2026-W47", "11-15 12: weekly 2026-W46"},
		"monthly=5":           {"11-22 12: newest, monthly 2026-11", "10-31 12: monthly 2026-10"},
		"yearly=1,hourly=2":   {"11-22 12: newest, hourly 2026-11-22 12, yearly 2026", "11-22 06: hourly 2026-11-22 06"},
		"last=1,within=1h":    {"11-22 12: newest, last 1, within"},
		"daily=1,logs=2w":     {"11-22 12: newest, daily 2026-11-22"},
		" last=1 , monthly=1": {"11-22 12: newest, last 1, monthly 2026-11"},
	} {
		k, err := ParseKeep(keep)
		if err != nil {
			t.Errorf("%s: %v", keep, err)
			continue
		}
		stay, gone := k.choose(daily, nil, nil, noon)
		if diff := cmp.Diff(want, ids(stay)); diff != "" {
			t.Errorf("%s:\n%s", keep, diff)
		}
		if len(stay)+len(gone) != len(daily) {
			t.Errorf("%s: %d stay and %d go", keep, len(stay), len(gone))
		}
	}
	for _, bad := range []string{"", "last", "last=0", "last=-1", "last=x", "all=1", "within=1", "within=0d", "within=-5h", "logs=3d", "last=1,,", "last=1;daily=2"} {
		_, err := ParseKeep(bad)
		if err == nil || tidemark.KindOf(err) != tidemark.Invalid || tidemark.HintOf(err) == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Whatever exists and is requested: the chain of a backup that stays, stays; what is used stays;
// the newest of each server stays; what stays for no reason goes; and backups keep the log they
// need.
func TestKeepNeverTakesWhatIsNeeded(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var all []*Manifest
		used, pinned := map[string]string{}, map[string]bool{}
		for i := range 1 + rnd.IntN(12) {
			parent := ""
			m := at(time.Duration(100-i)*7*time.Hour, "")
			if i > 0 && rnd.IntN(2) == 0 {
				p := all[rnd.IntN(i)]
				m.SystemID, parent = p.SystemID, p.ID
			} else {
				m.SystemID = fmt.Sprint(rnd.IntN(2))
			}
			m.Parent = parent
			if line := rnd.IntN(3); line > 0 && i > 6 { // promoted meanwhile
				m.Ranges[0].First = strings.Replace(m.Ranges[0].First, "00000001/", "00000002/", 1)
				m.Ranges[0].Last = strings.Replace(m.Ranges[0].Last, "00000001/", "00000002/", 1)
			}
			if rnd.IntN(8) == 0 {
				used[m.ID] = "test"
			}
			if rnd.IntN(8) == 0 {
				pinned[m.ID] = true
			}
			all = append(all, m)
		}
		k := Keep{Last: rnd.IntN(3), Daily: rnd.IntN(3), Weekly: rnd.IntN(2), Within: time.Duration(rnd.IntN(100)) * time.Hour}
		if rnd.IntN(2) == 0 {
			k.Logs = time.Duration(1+rnd.IntN(300)) * time.Hour
		}
		stay, gone := k.choose(all, used, pinned, noon)
		stays := map[string]bool{}
		for _, s := range stay {
			stays[s.ID] = true
		}
		newest := map[string]*Manifest{}
		for _, m := range all {
			if n := newest[m.SystemID]; n == nil || m.Started.After(n.Started) {
				newest[m.SystemID] = m
			}
		}
		for _, n := range newest {
			if !stays[n.ID] {
				t.Fatalf("%+v: the newest goes", k)
			}
		}
		for _, s := range stay {
			if s.Parent != "" && !stays[s.Parent] {
				t.Fatalf("%+v: %s stays, and its parent goes", k, s.ID)
			}
		}
		for id := range used {
			if !stays[id] {
				t.Fatalf("%+v: %s is used and goes", k, id)
			}
		}
		for id := range pinned {
			if !stays[id] {
				t.Fatalf("%+v: %s is pinned and goes", k, id)
			}
		}
		for i, g := range gone {
			if i > 0 && g.ID > gone[i-1].ID {
				t.Fatal("an older one goes before a newer one, which may need it")
			}
		}
		checkLogs(t, k, all, stay)
	}
}

// checkLogs compares with the definition: a file is needed by a backup that stays if it is in its
// range, or after its beginning if that backup is not older than Logs.
func checkLogs(t *testing.T, k Keep, all []*Manifest, stay []Kept) {
	t.Helper()
	var logs []Log
	for _, m := range all {
		logs = append(logs, Log{Name: m.Ranges[0].First}, Log{Name: m.Ranges[0].Last})
	}
	logs = append(logs, Log{Name: "00000002.history"}, Log{Name: "server"}, Log{Name: logName(0)}, Log{Name: "00000003/000000030000000000000001"})
	slices.SortFunc(logs, func(a, b Log) int { return strings.Compare(a.Name, b.Name) })
	logs = slices.Compact(logs)
	newest := map[string]string{}
	for _, s := range slices.Backward(stay) {
		newest[s.SystemID] = s.ID
	}
	for i, needed := range k.needed(logs, stay, nil, noon) {
		name := logs[i].Name
		want := !strings.Contains(name, "/")
		for _, s := range stay {
			g := s.Ranges[0]
			if g.First <= name && name <= g.Last {
				want = true
			}
			whole := k.Logs == 0 || noon.Sub(s.Started) <= k.Logs || newest[s.SystemID] == s.ID
			line := name[:min(8, len(name))]
			if whole && strings.Contains(name, "/") && (line == g.First[:8] && name >= g.First || line > g.First[:8]) {
				want = true
			}
		}
		if needed != want {
			t.Fatalf("%+v: %s is needed: %v, and said to be: %v", k, name, want, needed)
		}
	}
}

// If a backup does not record which log it needs, all log stays.
func TestKeepAllLogOfSilentBackups(t *testing.T) {
	logs := []Log{{Name: logName(1)}, {Name: logName(2)}}
	for name, stay := range map[string][]Kept{"none": nil, "silent": {{Manifest: &Manifest{}}}, "nameless": {{Manifest: &Manifest{Ranges: []LogRange{{}}}}}} {
		if got := (Keep{Last: 1}).needed(logs, stay, nil, noon); !slices.Equal(got, []bool{true, true}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
