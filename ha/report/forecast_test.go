package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/ha"
)

// The text contains everything in the forecast.
func TestForecastText(t *testing.T) {
	sites := ha.Sites{Engine: "postgres", Primary: ha.Disk{Rate: 1e9, Overhead: 1e-4}, Free: 10 << 30, Unlisted: true,
		Standbys: []ha.Standby{{Name: "b", Network: ha.Network{Rate: 1e8, RTT: 0.010, Hop: 2e-4}, Disk: ha.Disk{Rate: 1e9, Overhead: 1e-4}}}}
	f, err := ha.Predict(ha.Load{Clients: 20, Think: 0.1, Bytes: 4000, LogRates: []float64{1e6, 5e7, 2e8, 1e6}, Step: 60}, sites)
	if err != nil {
		t.Fatal(err)
	}
	text := ForecastText(f)
	for _, want := range []string{"20 clients, each committing 3.9 KiB of log, with a think time of 100.00 ms", "remote_apply", "max_slot_wal_keep_size = 8192MB", `synchronous_standby_names = 'FIRST 1 ("b")'`,
		"synchronous_commit = remote_write", "synchronous_standby_names is empty", "they wait forever", "commits stop until it is back", "half the round trip", "net.core.wmem_max", "max_standby_streaming_delay",
		"less than the log's peaks", "Switching from asynchronous"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// A table over an axis has a row for each value.
func TestDb2Text(t *testing.T) {
	p, err := ha.ReadProfile([]byte("2026-11-20 08:00:00  1.363 MB/s, 60 sec, 3.5 pg/f, 0.010 sec/f, 4.3 pg/tr, 0.020 sec/tr, 0.002 sec/cmt, nOpenTrans 32.4\n"), "a")
	if err != nil {
		t.Fatal(err)
	}
	c := ha.Db2{Disk: ha.Disk{Rate: 200 * ha.MiB, Overhead: 0.001}, Network: ha.Network{Rate: 10 * ha.MiB, RTT: 0.1}, Modes: ha.Db2Modes[:1]}
	r := c.Report(ha.Scanned{Name: "a", Profile: p})
	for _, by := range ha.Db2Axes() {
		if err := r.Sweep(c, by); err != nil {
			t.Error(err)
		}
	}
	var b bytes.Buffer
	if err := WriteDb2(&b, &r); err != nil || strings.Count(b.String(), "\n") < 25 || !strings.Contains(b.String(), "a write 50 us ") || strings.Contains(b.String(), "NaN") {
		t.Errorf("%v: %s", err, b.String())
	}
}
