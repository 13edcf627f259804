package text

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// all reads a text.
func all(t testing.TB, text string) []Listing {
	t.Helper()
	var out []Listing
	if _, err := Read(strings.NewReader(text), func(l Listing) { out = append(out, l) }); err != nil {
		t.Fatal(err)
	}
	return out
}

func sample(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// brief is a worker in the form of the table that it was read from.
func brief(w Worker) string {
	return fmt.Sprintf("%s %.2f %.2f %.2f %.2f %.2f %d %d %d", w.ID, w.Total.Seconds(), w.IO.Seconds(), w.Compr.Seconds(), w.MsgQ.Seconds(), w.WaitQ.Seconds(), w.Buffers, w.Bytes>>10, w.ComprBytes>>10)
}

func workers(ws []Worker, sum *Worker) (out []string) {
	for _, w := range ws {
		out = append(out, brief(w))
	}
	if sum != nil {
		out = append(out, brief(*sum))
	}
	return out
}

// skewBM are the rows of skew.txt.
var skewBM = []string{
	"000 140.23 11.29 0.00 0.02 128.72 10 119264 0", "001 140.22 139.54 0.00 0.00 0.18 178 2837632 0",
	"002 140.22 0.42 0.00 0.00 139.79 1 1904 0", "003 140.22 0.38 0.00 0.00 139.83 1 1920 0", "TOT 560.91 151.65 0.00 0.02 408.54 190 2960720 0",
}

func checkSkew(t *testing.T, what string, got []Listing) {
	t.Helper()
	if len(got) != 1 || got[0].Stats == nil {
		t.Fatalf("%s: %d listings", what, len(got))
	}
	s := got[0].Stats
	if s.Parallelism != 4 || s.Buffers != 4 || s.BufferSize != 16388096 {
		t.Errorf("%s: %d, %d buffers of %d", what, s.Parallelism, s.Buffers, s.BufferSize)
	}
	if w := workers(s.BM, s.BMTotal); !reflect.DeepEqual(w, skewBM) {
		t.Errorf("%s: BM %q", what, w)
	}
	if w := workers(s.MC, s.MCTotal); !reflect.DeepEqual(w, []string{"000 140.94 11.64 0.00 128.58 0.01 191 3024788 0", "TOT 140.94 11.64 0.00 128.58 0.01 191 3024788 0"}) {
		t.Errorf("%s: MC %q", what, w)
	}
	if s.Cut {
		t.Errorf("%s: it was taken for a text that is cut", what)
	}
}

// TestStatistics reads the listings of the studies, and what IBM's pages show of versions.
func TestStatistics(t *testing.T) {
	got := all(t, sample(t, "skew"))
	checkSkew(t, "as it is", got)
	if l := got[0]; l.DB != "SAMPLE" || l.Taken.Format(time.DateTime) != "2018-02-28 06:47:20" || l.Line != 11 || l.Stats.EDU != "216" || l.Stats.Member != "000" {
		t.Errorf("around it: %+v", l)
	}
	got = all(t, sample(t, "fragmented"))
	if len(got) != 2 || got[0].Stats.BMTotal.Bytes != 5292368<<10 || got[1].Stats.BMTotal.Bytes != 2703040<<10 || got[1].Stats.MCTotal.IO != 7440*time.Millisecond || got[0].Stats.Cut || got[1].Stats.Cut || got[1].Line != 15 {
		t.Errorf("two records without a beginning: %d, %+v", len(got), got)
	}
	s := all(t, sample(t, "compressed"))[0].Stats
	if w := workers(s.BM, s.BMTotal); w[1] != "001 83.10 10.40 62.15 0.00 10.14 30 1828864 1829138" || w[5] != "TOT 415.78 24.95 145.64 0.00 243.56 92 3943040 3956806" || s.Cut {
		t.Errorf("compressed: %q", w)
	}
	if w := workers(s.MC, s.MCTotal); w[0] != "000 84.07 62.71 0.00 20.65 0.00 94 1491344 0" {
		t.Errorf("compressed: %q", w)
	}
	s = all(t, sample(t, "target"))[0].Stats
	if len(s.BM) != 10 || s.BM[1].Bytes != 16830<<20 || s.BMTotal.MsgQ != 12734140*time.Millisecond || s.Parallelism != 10 || !s.Cut || s.MC != nil {
		t.Errorf("in megabytes, with one blank between values, and cut: %+v", s)
	}
	s = all(t, sample(t, "v12"))[0].Stats
	want := Worker{ID: "001", Total: time.Hour + 2*time.Minute + 3*time.Second, IO: 7 * time.Second, Throttle: 5 * time.Second, LogPhase: 9 * time.Second, Buffers: 6, Bytes: 8960 << 10, LogBytes: 128 << 10}
	if s.BM[1] != want || s.BMTotal.Bytes != 33632<<10 || s.BMTotal.Total != 0 || s.MC[0].MsgQ != time.Hour+2*time.Minute+3*time.Second || s.Cut {
		t.Errorf("12.1: %+v, %+v", s.BM, s.BMTotal)
	}
}

// TestTextsThatWereChanged reads what mail, web pages, editors and logs make of a listing.
func TestTextsThatWereChanged(t *testing.T) {
	plain := sample(t, "skew")
	facts := plain[strings.Index(plain, "Parallelism"):]
	replace := func(old, with string) string { return strings.ReplaceAll(facts, old, with) }
	prefixed := func(prefix func(n int) string) string {
		var out strings.Builder
		n := 98
		for line := range strings.Lines(facts) {
			n++
			out.WriteString(prefix(n) + line)
		}
		return out.String()
	}
	collapsed := strings.Join(strings.Split(strings.Join(strings.FieldsFunc(strings.ReplaceAll(facts, "\n", "\x00"), func(r rune) bool { return r == ' ' }), " "), "\x00"), "\n")
	for name, text := range map[string]string{
		"CRLF":           strings.ReplaceAll(plain, "\n", "\r\n"),
		"mark":           "\ufeff" + plain,
		"em dashes":      replace("--------", "——"),
		"minus signs":    replace("-", "−"),
		"1252 dashes":    replace("--------", "\x97\x97\x97"),
		"one blank":      collapsed,
		"no rules":       strings.ReplaceAll(strings.ReplaceAll(replace("---  --------  --------  --------  --------    --------  --------\n", ""), "--", ""), "---", ""),
		"blank lines":    replace("\n", "\n\n"),
		"hard blanks":    replace("  ", "\u00a0 "),
		"quoted":         prefixed(func(int) string { return "> " }),
		"syslog":         prefixed(func(n int) string { return fmt.Sprintf("Feb 28 06:47:%02d db2a db2[%d]: ", n%60, n) }),
		"grep -n":        prefixed(func(n int) string { return fmt.Sprintf("%d:", n) }),
		"grep -n FILE":   prefixed(func(n int) string { return fmt.Sprintf("db2diag.log-%d-", n) }),
		"brackets":       prefixed(func(n int) string { return fmt.Sprintf("[2018-02-28 06:47:20.%d] ", n) }),
		"thousands":      strings.NewReplacer("2837632", "2,837,632", "2960720", "2,960,720", "3024788", "3,024,788").Replace(facts),
		"commas":         strings.NewReplacer("140.", "140,", "139.54", "139,54", "560.91", "560,91", "408.", "408,").Replace(facts),
		"headings twice": "MC#    Total      I/O\n" + plain,
		"indented":       replace("\n", "\n      "),
		"no last end":    strings.TrimSuffix(plain, "\n"),
	} {
		got := all(t, text)
		if name == "headings twice" && len(got) == 1 {
			checkSkew(t, name, got)
			continue
		}
		checkSkew(t, name, got)
	}
	var wide bytes.Buffer
	wide.Write([]byte{0xff, 0xfe})
	for _, u := range utf16.Encode([]rune(plain)) {
		wide.Write([]byte{byte(u), byte(u >> 8)})
	}
	checkSkew(t, "UTF-16", all(t, wide.String()))
}

// TestColumnsByName reads tables whose columns come in another order, in more lines, and with
// columns that are not known.
func TestColumnsByName(t *testing.T) {
	facts := "Parallelism = 4\nNumber of buffers = 4\nBuffer size = 16388096\n"
	rows := [][]string{
		{"000", "140.23", "11.29", "0.02", "128.72", "10", "119264"}, {"001", "140.22", "139.54", "0.00", "0.18", "178", "2837632"}, {"002", "140.22", "0.42", "0.00", "139.79", "1", "1904"},
		{"003", "140.22", "0.38", "0.00", "139.83", "1", "1920"}, {"TOT", "560.91", "151.65", "0.02", "408.54", "190", "2960720"},
	}
	media := [][]string{{"000", "140.94", "11.64", "128.58", "0.01", "191", "3024788"}, {"TOT", "140.94", "11.64", "128.58", "0.01", "191", "3024788"}}
	names := []string{"Total", "I/O", "MsgQ", "WaitQ", "Buffers", "kBytes"}
	table := func(id string, rows [][]string, order []int, line func([]string) string) string {
		head := []string{id}
		for _, k := range order {
			if k < 0 {
				head = append(head, "Sparse")
			} else {
				head = append(head, names[k])
			}
		}
		out := line(head)
		for _, r := range rows {
			row := []string{r[0]}
			for _, k := range order {
				if k < 0 {
					row = append(row, "7.5")
				} else {
					row = append(row, r[k+1])
				}
			}
			out += line(row)
		}
		return out
	}
	one := func(ws []string) string { return strings.Join(ws, "   ") + "\n" }
	for name, c := range map[string]struct {
		order []int
		line  func([]string) string
	}{
		"reordered":      {[]int{5, 3, 2, 4, 1, 0}, one},
		"a new one":      {[]int{0, 1, -1, 2, 3, 4, 5}, one},
		"wrapped":        {[]int{0, 1, 2, 3, 4, 5}, func(ws []string) string { return one(ws[:5]) + "   " + one(ws[5:]) }},
		"wrapped thrice": {[]int{0, 1, 2, 3, 4, 5}, func(ws []string) string { return one(ws[:3]) + "   " + one(ws[3:5]) + one(ws[5:]) }},
		"bars":           {[]int{0, 1, 2, 3, 4, 5}, func(ws []string) string { return "| " + strings.Join(ws, " | ") + " |\n" }},
		"tabs":           {[]int{0, 1, 2, 3, 4, 5}, func(ws []string) string { return strings.Join(ws, "\t") + "\n" }},
	} {
		checkSkew(t, name, all(t, facts+table("BM#", rows, c.order, c.line)+"\n"+table("MC#", media, c.order, c.line)))
	}
	compr := all(t, "                        Compr\nBM#  Total  Compr     kBytes   kBytes\n000  10.00   2.00         17      100\nTOT  10.00   2.00         17      100\n")[0].Stats.BM[0]
	if compr.Bytes != 100<<10 || compr.ComprBytes != 17<<10 || compr.Compr != 2*time.Second {
		t.Errorf("the compressor's amounts come first: %+v", compr)
	}
	joined := all(t, "BM#  Total  Compr  Buffers  kBytes  Compr kBytes\n000  10.00   2.00   3  100  17\nTOT  10.00   2.00   3   100 17\n")[0].Stats.BM[0]
	if joined.Bytes != 100<<10 || joined.ComprBytes != 17<<10 {
		t.Errorf("headings in one line: %+v", joined)
	}
	logs := all(t, "BM# Total LogPhase Buffers kBytes | Log kBytes\n000 0:00:10 0:00:01 3 100 17\nTOT - - 3 100 17\n")[0].Stats.BM[0]
	if logs.Bytes != 100<<10 || logs.LogBytes != 17<<10 || logs.LogPhase != time.Second {
		t.Errorf("logs: %+v", logs)
	}
}

// TestCutTexts reads every beginning and every end of a text: what is read is true.
func TestCutTexts(t *testing.T) {
	plain := sample(t, "skew")
	for n := range len(plain) {
		for _, text := range []string{plain[:n], plain[n:]} {
			for _, l := range all(t, text) {
				if text != plain && n < len(plain)-60 && !l.Stats.Cut && len(l.Stats.BM) != 4 {
					t.Fatalf("cut at %d: %d rows, and it says that it is whole", n, len(l.Stats.BM))
				}
				for i, w := range l.Stats.BM {
					if n > 1200 && text == plain[:n] && i < len(l.Stats.BM)-1 && brief(w) != skewBM[i] {
						t.Fatalf("cut at %d: %s", n, brief(w))
					}
				}
			}
		}
	}
}

func TestOperations(t *testing.T) {
	record := func(edu, db, message string) string {
		return "2018-02-28-06.40.20.921681-480 I548681E1520          LEVEL: Info\nINSTANCE: inst105              NODE : 000            DB   : " + db +
			"\nEDUID   : " + edu + "                  EDUNAME: db2agent (SAMPLE) 0\nFUNCTION: DB2 UDB, database utilities, x, probe:1\nMESSAGE : " + message + "\n\n"
	}
	stats := sample(t, "skew")
	for text, want := range map[string]Stats{
		stats: {},
		record("216", "SAMPLE", "Starting an online db backup.") + record("9", "SAMPLE", "Starting a full database restore.") + stats: {Operation: Backup, Online: true},
		record("217", "SAMPLE", "Starting a full database restore.") + stats:                                                          {Operation: Restore},
		record("217", "OTHER", "Starting a full database restore.") + stats:                                                           {},
		record("216", "SAMPLE", "Starting an offline db backup.") + stats:                                                             {Operation: Backup},
	} {
		if s := all(t, text)[0].Stats; s.Operation != want.Operation || s.Online != want.Online {
			t.Errorf("got %q %v, want %q %v", s.Operation, s.Online, want.Operation, want.Online)
		}
	}
}

func TestPairs(t *testing.T) {
	u := all(t, sample(t, "utility"))[0].Utility
	if u.ID != "81" || u.Type != "BACKUP" || u.DB != "SAMPLE" || u.Member != "0" || u.Description != "offline db" || u.State != "Executing" || u.Invocation != "User" || u.Priority != "Unthrottled" || u.Percent != 28 {
		t.Errorf("%+v", u)
	}
	if ph := u.Phases; len(ph) != 1 || ph[0].Total != 1187160686 || ph[0].Done != 337194070 || ph[0].Unit != "bytes" || ph[0].Start.Format(time.RFC3339Nano) != "2018-02-28T16:20:08.523349Z" || u.Start.Nanosecond() != 523339000 {
		t.Errorf("%+v", ph)
	}
	sp := all(t, sample(t, "spaces"))[0].Spaces
	if len(sp) != 3 || sp[2].Name != "USERSPACE1" || sp[2].Used != 647416 || sp[2].HighWater != 1294746 || sp[2].Total != 2621440 || sp[2].Extent != 2 || sp[2].PageSize != 4096 || sp[2].Containers != 1 || sp[1].HighWater != -1 || !sp[1].Temporary() || sp[0].Temporary() || sp[2].States[0] != "Normal" {
		t.Errorf("%+v", sp)
	}
	h := all(t, sample(t, "hadr"))[0]
	if n, ok := h.HADR.Number("SOCK_SEND_BUF_REQUESTED,ACTUAL"); !ok || n != 50772 || h.HADR.Get("HADR_STATE") != "PEER" || h.HADR.Get("STANDBY_SPOOL_PERCENT") != "" || h.DB != "HADRDB" || h.Taken.Format(time.DateTime) != "2011-06-08 13:57:23" {
		t.Errorf("%+v", h)
	}
	if n, ok := h.HADR.Number("LOG_HADR_WAIT_RECENT_AVG"); !ok || n != 0.006298 {
		t.Errorf("%v", n)
	}
	two := all(t, sample(t, "hadr")+strings.ReplaceAll(sample(t, "hadr")[120:], "hostS", "hostT"))
	if len(two) != 2 || two[1].HADR.Get("STANDBY_MEMBER_HOST") != "hostT.ibm.com" || two[1].DB != "HADRDB" {
		t.Errorf("two standbys: %d", len(two))
	}
	load := `ID                               = 2
Type                             = LOAD
Database Name                    = SAMPLE
Partition Number                 = 0
Description                      = OFFLINE LOAD DEL AUTOMATIC INDEXING INSERT COPY NO T1
Start Time                       = 06/10/2018 10:00:00.000000
State                            = Executing
Invocation Type                  = User
Progress Monitoring:
   Phase Number                  = 1
      Description                = SETUP
      Total Work                 = 0 bytes
      Completed Work             = 0 bytes
      Start Time                 = 06/10/2018 10:00:00.000000

   Phase Number [Current]        = 2
      Description                = LOAD
      Total Work                 = 38460800 rows
      Completed Work             = 38460800 rows
      Start Time                 = 06/10/2018 10:00:10.000000

   Phase Number                  = 3
      Description                = BUILD
      Total Work                 = 2 indexes
      Completed Work             = 0 indexes
      Start Time                 = Not Started
`
	for name, text := range map[string]string{"as it is": load, "CRLF": strings.ReplaceAll(load, "\n", "\r\n"), "syslog": "Jun 10 host app[3]: " + strings.ReplaceAll(strings.TrimSpace(load), "\n", "\nJun 10 host app[3]: ")} {
		u := all(t, text)[0].Utility
		if len(u.Phases) != 3 || !u.Phases[1].Current || u.Phases[1].Unit != "rows" || u.Phases[1].Done != 38460800 || !u.Phases[2].Start.IsZero() || u.Phases[2].Description != "BUILD" || u.Type != "LOAD" || u.Description != "OFFLINE LOAD DEL AUTOMATIC INDEXING INSERT COPY NO T1" {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

func TestTablesOfPd(t *testing.T) {
	got := all(t, sample(t, "edus"))
	if len(got) != 2 || len(got[0].EDUs) != 7 || got[0].EDUs[1] != (EDU{ID: 18971, Name: "db2bm.17686.4 (SAMPLE) 0", Kind: "db2bm", Agent: 17686, DB: "SAMPLE", User: -1, System: -1}) || got[1].Agents[0] != (Agent{1473, 17686}) {
		t.Errorf("%+v", got)
	}
	cpu := all(t, "EDU ID    TID     Kernel TID   EDU Name      USR (s)   SYS (s)\n=====\n23561  23561  67373307  db2bm.7.1 (XTCUR2) 0    0.232340   0.039394\n5 5 9 db2agent (idle) 0  133.4  19.8\n")
	if e := cpu[0].EDUs[0]; e.ID != 23561 || e.User != 0.23234 || e.System != 0.039394 || e.Agent != 7 {
		t.Errorf("%+v", e)
	}
	other := all(t, "EDU Name      SYS (s)   USR (s)   EDU ID   TID\n=====\ndb2bm.7.1 (XTCUR2) 0    0.039394   0.232340   23561 4\n")
	if e := other[0].EDUs[0]; e.ID != 23561 || e.User != 0.23234 || e.System != 0.039394 {
		t.Errorf("another order: %+v", e)
	}
	old := "Database Partition 0 -- Database XCATDB -- Active -- Up 0 days 01:17:11\nHADR Information:\nRole    State                SyncMode HeartBeatsMissed   LogGapRunAvg (bytes)\nStandby Remote catchup       Nearsync 3                  1234\n\n" +
		"ConnectStatus ConnectTime                           Timeout\nConnected     Thu Aug 5 20:33:00 2010 (1281011580)  30\n\nPeerWindowEnd PeerWindow\nThu Aug 5 21:52:07 2010 (1281016327) 120\n"
	h := all(t, old)[0].HADR
	if h.Get("HADR_ROLE") != "STANDBY" || h.Get("HADR_STATE") != "REMOTE_CATCHUP" || h.Get("HADR_LOG_GAP") != "1234" || h.Get("HADR_CONNECT_STATUS") != "CONNECTED" || h.Get("HADR_TIMEOUT") != "30" {
		t.Errorf("9.7: %+v", h)
	}
}

// TestManyListings reads a file with all of them, in any order.
func TestManyListings(t *testing.T) {
	names := []string{"skew", "hadr", "utility", "spaces", "edus", "compressed", "v12", "fragmented", "utility", "spaces", "target"}
	var text string
	for _, n := range names {
		text += sample(t, n)
	}
	var kinds []string
	for _, l := range all(t, text) {
		switch {
		case l.Stats != nil:
			kinds = append(kinds, fmt.Sprintf("stats %d", len(l.Stats.BM)))
		case l.HADR != nil:
			kinds = append(kinds, "hadr")
		case l.Utility != nil:
			kinds = append(kinds, "utility")
		case l.Spaces != nil:
			kinds = append(kinds, fmt.Sprintf("spaces %d", len(l.Spaces)))
		case l.EDUs != nil:
			kinds = append(kinds, "edus")
		case l.Agents != nil:
			kinds = append(kinds, "agents")
		}
	}
	if got := strings.Join(kinds, ", "); got != "stats 4, hadr, utility, spaces 3, edus, agents, stats 5, stats 2, stats 3, stats 3, utility, spaces 3, stats 10" {
		t.Error(got)
	}
}

func TestNothingToRead(t *testing.T) {
	for text, want := range map[string]Seen{
		"":                            {},
		"hello\nworld = 1\n":          {Lines: 2},
		"PK\x03\x04\x00\x00":          {Binary: true},
		"Tabellenbereichs-ID = 0\n":   {Lines: 1, Language: true},
		"Tablespace ID = 0\nName = X": {Lines: 2, Brief: true},
		"2018-02-28-06.47.20.921681-480 E548681E1520          LEVEL: Info\nMESSAGE : hello\n": {Lines: 2, Records: 1},
	} {
		got, err := Read(strings.NewReader(text), func(l Listing) { t.Errorf("%q: %+v", text, l) })
		got.Bytes = 0
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// FuzzRead: whatever a text has, it is read to its end, and what is found makes sense.
func FuzzRead(f *testing.F) {
	names, _ := filepath.Glob("testdata/*.txt")
	for _, n := range names {
		text, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		seen, err := Read(bytes.NewReader(text), func(l Listing) {
			if l.Line <= 0 {
				t.Errorf("line %d", l.Line)
			}
			if l.Stats != nil {
				for _, w := range append(l.Stats.BM, l.Stats.MC...) {
					if w.Total < 0 || w.IO < 0 || w.Compr < 0 || w.MsgQ < 0 || w.WaitQ < 0 || w.Bytes < 0 || w.Buffers < 0 || w.ComprBytes < 0 {
						t.Errorf("negative: %+v", w)
					}
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
		if !seen.Binary && seen.Lines == 0 && len(text) > 3 {
			t.Errorf("%d bytes without a line", len(text))
		}
	})
}

// TestVersions reads listings as versions print them, and as pages show them.
func TestVersions(t *testing.T) {
	for name, c := range map[string]struct{ text, bm, mc string }{
		"10.5, two targets": {`2012-07-30-15.41.30.012922-240 E15775E1464           LEVEL: Info
PID     : 15882                TID : 46913126656320  KTID : 16001
PROC    : db2sysc
INSTANCE: krodger              NODE : 000            DB   : SAMPLE
APPHDL  : 0-18                 APPID: *LOCAL.krodger.120730194119
EDUID   : 49                   EDUNAME: db2agent (SAMPLE)
FUNCTION: DB2 UDB, database utilities, sqluxLogDataStats, probe:377
MESSAGE : Performance statistics
DATA #1 : String, 951 bytes

Number of buffers = 4
Buffer size       = 16781312 (4097 4kB pages)
                                                                
BM#     Total      I/O      MsgQ      WaitQ     Buffers    kBytes 
---  --------  --------  --------  --------    --------  --------
000      6.30      0.02      0.00      6.18           4       640
001      5.88      4.48      0.00      1.33           9    139536
---  --------  --------  --------  --------    --------  --------
TOT     12.18      4.51      0.00      7.51          13    140176

MC#     Total      I/O      MsgQ      WaitQ     Buffers    kBytes
---  --------  --------  --------  --------    --------  --------
000      6.36      0.34      5.94      0.00           9    114748
001      6.29      0.18      5.60      0.10           6     81944
---  --------  --------  --------  --------    --------  --------
TOT     12.66      0.53     11.55      0.10          15    196692
`, "001 5.88 4.48 0.00 0.00 1.33 9 139536 0|TOT 12.18 4.51 0.00 0.00 7.51 13 140176 0", "001 6.29 0.18 0.00 5.60 0.10 6 81944 0|TOT 12.66 0.53 0.00 11.55 0.10 15 196692 0"},
		"11.5, no times in TOT, blanks lost": {`Parallelism = 2
Number of buffers = 4
Buffer size = 16781312 (4097 4kB pages)
BM# Total I/O MsgQ WaitQ Buffers kBytes
--- -------- -------- -------- -------- -------- --------
000 9.28 8.87 0.00 0.27 6 98328
001 7.56 7.19 0.00 0.37 7 98356
--- -------- -------- -------- -------- -------- --------
TOT - - - - 13 196684
MC# Total I/O MsgQ WaitQ Buffers kBytes
--- -------- -------- -------- -------- -------- --------
000 7.21 0.07 7.08 0.04 14 196688
--- -------- -------- -------- -------- -------- --------
TOT - - - - 14 196688
`, "001 7.56 7.19 0.00 0.00 0.37 7 98356 0|TOT 0.00 0.00 0.00 0.00 0.00 13 196684 0", "000 7.21 0.07 0.00 7.08 0.04 14 196688 0|TOT 0.00 0.00 0.00 0.00 0.00 14 196688 0"},
		"9.7, a blank line after each": {strings.ReplaceAll(`Number of buffers = 5
Buffer size       = 3149824 (769 4kB pages)
BM#    Total      I/O      MsgQ      WaitQ      Buffers   kBytes
---  --------  --------  --------  --------    --------  --------
000      3.59      3.50      0.00      0.00          56    165696
004      3.59      0.10      0.00      3.48           1       864
---  --------  --------  --------  --------    --------  --------
TOT     17.97      4.19      0.00     13.68          69    199072
MC#    Total      I/O      MsgQ      WaitQ      Buffers   kBytes
---  --------  --------  --------  --------    --------  --------
000      3.59      0.00      3.59      0.00          70    209200
---  --------  --------  --------  --------    --------  --------
TOT      3.59      0.00      3.59      0.00          70    209200
`, "\n", "\n \n"), "004 3.59 0.10 0.00 0.00 3.48 1 864 0|TOT 17.97 4.19 0.00 0.00 13.68 69 199072 0", "000 3.59 0.00 0.00 3.59 0.00 70 209200 0|TOT 3.59 0.00 0.00 3.59 0.00 70 209200 0"},
		"12.1, blanks lost, Log over the last column": {`Parallelism = 10
Log
BM# Total I/O MsgQ WaitQ Throttle LogPhase Buffers kBytes kBytes
--- -------- -------- -------- -------- -------- -------- -------- -------- --------
000 0:00:01 0:00:00 0:00:00 0:00:00 0:00:00 0:00:00 19 24672 7
008 0:00:01 0:00:00 0:00:00 0:00:00 0:00:00 0:00:00 0 0 0
TOT - - - - - - 111 157888 7
MC# Total I/O MsgQ WaitQ Buffers kBytes
000 0:00:01 0:00:00 0:00:00 0:00:00 111 157900
TOT - - - - 111 157900
`, "008 1.00 0.00 0.00 0.00 0.00 0 0 0|TOT 0.00 0.00 0.00 0.00 0.00 111 157888 0", "000 1.00 0.00 0.00 0.00 0.00 111 157900 0|TOT 0.00 0.00 0.00 0.00 0.00 111 157900 0"},
	} {
		got := all(t, c.text)
		if len(got) != 1 {
			t.Errorf("%s: %d listings", name, len(got))
			continue
		}
		s := got[0].Stats
		bm, mc := workers(s.BM, s.BMTotal), workers(s.MC, s.MCTotal)
		if b, m := strings.Join(bm[len(bm)-2:], "|"), strings.Join(mc[len(mc)-2:], "|"); b != c.bm || m != c.mc || s.Cut {
			t.Errorf("%s: %s, %s, cut %v", name, b, m, s.Cut)
		}
	}
	u := all(t, `   ID                         = 2
   Type                       = BACKUP
   Database Name              = SAMPLE
   Description                = offline db
   Start Time                 = 10/30/2003 12:55:31.786115
   Throttling:
   Priority                   = Unthrottled
   Progress Monitoring:
   Estimated Percentage Complete    = 41
         Total Work Units     = 20232453 bytes
         Completed Work Units = 230637 bytes
         Start Time           = 10/30/2003 12:55:31.786115
`)[0].Utility
	if u.Percent != 41 || u.Phases[0].Total != 20232453 || u.Phases[0].Done != 230637 {
		t.Errorf("9.7: %+v", u)
	}
}

// TestUnendedRows reads listings whose ends of lines a log has escaped.
func TestUnendedRows(t *testing.T) {
	plain := sample(t, "skew")
	at := strings.Index(plain, "002    140.22")
	for _, n := range []int{2, 20, 40, len("002    140.22      0.42      0.00    139.79           1      19")} {
		s := all(t, plain[:at+n])[0].Stats
		if w := workers(s.BM, s.BMTotal); !reflect.DeepEqual(w, skewBM[:2]) || !s.Cut {
			t.Errorf("cut after %d: %q, cut %v", n, w, s.Cut)
		}
	}
	var wide bytes.Buffer
	for _, u := range utf16.Encode([]rune(plain)) {
		wide.Write([]byte{byte(u >> 8), byte(u)})
	}
	checkSkew(t, "UTF-16 without a mark", all(t, wide.String()))
	checkSkew(t, "binary behind", all(t, plain+strings.Repeat("\x00\x01\xff", 5000)+"\n"))
}

func TestInOneLine(t *testing.T) {
	plain := sample(t, "skew")
	checkSkew(t, "JSON", all(t, `{"time":"2018-02-28","message":"`+strings.ReplaceAll(plain, "\n", `\n`)+`"}`+"\n"))
	checkSkew(t, "JSON on Windows", all(t, strings.ReplaceAll(plain, "\n", `\r\n`)))
	checkSkew(t, "rsyslog", all(t, "Feb 28 06:47:20 db2a db2: "+strings.ReplaceAll(plain, "\n", "#012")+"\n"))
}
