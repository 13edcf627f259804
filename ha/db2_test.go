package ha

import (
	"bufio"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// rows reads a file of published values: its rows by column name.
func rows(t *testing.T, name string) []map[string]string {
	t.Helper()
	f := testdb.Sample(t, "hadr/"+name)
	defer f.Close()
	var header []string
	var out []map[string]string
	for in := bufio.NewScanner(f); in.Scan(); {
		if strings.HasPrefix(in.Text(), "#") {
			continue
		}
		cells := strings.Split(in.Text(), "\t")
		if header == nil {
			header = cells
			continue
		}
		row := map[string]string{}
		for i, name := range header {
			if i < len(cells) {
				row[name] = cells[i]
			}
		}
		out = append(out, row)
	}
	return out
}

func num(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func lineOf(t *testing.T, r map[string]string) RateLine {
	t.Helper()
	return RateLine{At: r["at"], Rate: num(t, r["rate_mb_s"]), Seconds: num(t, r["sec"]), FlushPages: num(t, r["pg_f"]), FlushSeconds: num(t, r["sec_f"]),
		TxPages: num(t, r["pg_tr"]), TxSeconds: num(t, r["sec_tr"]), CommitSeconds: num(t, r["sec_cmt"]), Open: num(t, r["open"])}
}

func db2Of(t *testing.T, r map[string]string) Db2 {
	t.Helper()
	c := Db2{Disk: Disk{Rate: 200 * MiB, Overhead: 0.001}, Network: Network{Rate: num(t, r["net_mb_s"]) * MiB}}
	if r["rtt_s"] != "" {
		c.Network.RTT = num(t, r["rtt_s"])
	}
	if r["disk_mb_s"] != "" {
		c.Disk = Disk{Rate: num(t, r["disk_mb_s"]) * MiB, Overhead: num(t, r["disk_ovh_s"])}
	}
	return c
}

// TestPublishedCalculator: every line of IBM's page, digit for digit.
func TestPublishedCalculator(t *testing.T) {
	all := rows(t, "calculator.tsv")
	if len(all) != 36 {
		t.Fatalf("%d rows", len(all))
	}
	for _, r := range all {
		t.Run(strings.Join([]string{r["net"], r["at"], r["mode"]}, " "), func(t *testing.T) {
			c := db2Of(t, r)
			c.Modes = []Db2Mode{Db2Mode(r["mode"])}
			got := c.Forecast(lineOf(t, r))[0]
			marker := strings.Trim(r["marker"], "-")
			group := func(name string) string {
				return fmt.Sprintf("%7s MB/s@ %3s pg/f %s s/f", r[name+"_mb_s"], r[name+"_pg"], r[name+"_sec"])
			}
			want := fmt.Sprintf("%10s %3s %s, min %s, max %s", r["mode"], marker, group("tgt"), group("min"), group("max"))
			if got.String() != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestPublishedMaxFlush(t *testing.T) {
	var lines []RateLine
	for _, r := range rows(t, "scan-intervals.tsv") {
		lines = append(lines, lineOf(t, r))
	}
	all := rows(t, "max-flush.tsv")
	if len(lines) != 17 || len(all) != 9 {
		t.Fatalf("%d lines, %d rows", len(lines), len(all))
	}
	for _, r := range all {
		c := db2Of(t, r)
		c.Modes = []Db2Mode{Db2Mode(r["mode"])}
		got := c.MaxFlush(lines)[0]
		if p, w := fmt.Sprint(int64(got.Predicted)), fmt.Sprint(int64(got.Workload)); p != r["predicted_pg"] || w != r["workload_max_pg"] {
			t.Errorf("%s %s: %s and %s, want %s and %s", r["net"], r["mode"], p, w, r["predicted_pg"], r["workload_max_pg"])
		}
	}
}

func TestPublishedCatchup(t *testing.T) {
	all := rows(t, "remote-catchup.tsv")
	if len(all) != 4 {
		t.Fatalf("%d rows", len(all))
	}
	for _, r := range all {
		g, marker := db2Of(t, r).Catchup(num(t, r["avg_mb_s"]))
		want := fmt.Sprintf("%7s MB/s@ %3s pg/f %s s/f", r["catchup_mb_s"], r["pg"], r["sec"])
		if g.String() != want || marker != strings.Trim(r["marker"], "-") {
			t.Errorf("%q %s, want %q %s", marker, g, r["marker"], want)
		}
	}
}

// TestSuperAsync: it is ASYNC with the unit of catch-up as its smallest flush.
func TestSuperAsync(t *testing.T) {
	c := Db2{Disk: Disk{Rate: 200 * MiB, Overhead: 0.001}, Network: Network{Rate: 10 * MiB, RTT: 0.1}, Modes: []Db2Mode{SuperAsync}}
	f := c.Forecast(RateLine{Rate: 1.363, FlushPages: 3.5, TxPages: 4.3, Open: 32.4, FlushSeconds: 0.01})[0]
	if f.Min.Pages != 16 || math.Abs(f.Min.Seconds-0.00625) > 1e-9 || f.Target.Pages != 3.5 || f.Marker != "" {
		t.Errorf("%+v", f)
	}
}

// TestTargetCarriesTheRate: for any line, the flush that is found carries the rate, and one that is
// a page smaller does not.
func TestTargetCarriesTheRate(t *testing.T) {
	for _, rate := range []float64{0.2, 0.5, 1, 2, 3} {
		for _, mode := range Db2Modes[:2] {
			c := Db2{Disk: Disk{Rate: 200 * MiB, Overhead: 0.001}, Network: Network{Rate: 10 * MiB, RTT: 0.1}, Modes: []Db2Mode{mode}}
			l := RateLine{Rate: rate, FlushPages: 3.5, TxPages: 4.3, Open: 32.4}
			f := c.Forecast(l)[0]
			if f.Target.Rate < rate || c.group(mode, f.Target.Pages-1.01).Rate >= rate {
				t.Errorf("%s, %v MB/s: %+v", mode, rate, f)
			}
		}
	}
}

func TestModeNames(t *testing.T) {
	got, bad := ParseDb2Modes("sync, NearSync,superasync")
	if bad != "" || len(got) != 3 || got[2] != SuperAsync {
		t.Errorf("%v %q", got, bad)
	}
	if _, bad := ParseDb2Modes("SYNC,semi"); bad != "semi" {
		t.Errorf("%q", bad)
	}
}
