package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/archiving"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/metrics"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMetricsAddress(t *testing.T) {
	for addr, all := range map[string]bool{":9187": true, "0.0.0.0:9187": true, "[::]:9187": true, "127.0.0.1:9187": false, "localhost:9187": false, "[::1]:9187": false} {
		if f, is := metrics.WarnIfPublic(addr); is != all || is && !strings.Contains(f.Hint, "127.0.0.1:9187") {
			t.Errorf("%s: %v %+v", addr, is, f)
		}
	}
	addr := testdb.FreeAddress(t)
	stop, err := metrics.Serve(addr, prometheus.NewRegistry(), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	r, err := http.Get("http://" + addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, _ := io.ReadAll(r.Body); r.StatusCode != 200 || string(text) != "ok\n" {
		t.Errorf("%d %q", r.StatusCode, text)
	}
}

// archive warns as the streams do, before it tries to listen.
func TestArchiveMetricsAddress(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		for addr, all := range map[string]bool{":99999": true, "0.0.0.0:99999": true, "127.0.0.1:99999": false} { // invalid ports
			var said bytes.Buffer
			w := &archiving.Watch{View: screen.View{JSON: asJSON, Progress: "none"}, To: &said}
			if _, err := w.Start(addr); err == nil {
				t.Errorf("%s: no error", addr)
			}
			if warned := strings.Contains(said.String(), "all addresses of this machine") && strings.Contains(said.String(), "Write 127.0.0.1:99999"); warned != all || asJSON && all && !json.Valid(said.Bytes()) {
				t.Errorf("%s, JSON %v: %q", addr, asJSON, said.String())
			}
		}
	}
}

// A worker's panic ends with exit code 70, and its location.
func TestPanicIsReported(t *testing.T) {
	g := flow.NewGroup(t.Context())
	g.Go("reader", func(context.Context, *flow.Clock) error { return panics() })
	var out bytes.Buffer
	if code := finish(g.Wait(), false, &out); code != 70 {
		t.Errorf("exit %d", code)
	}
	if text := out.String(); !strings.Contains(text, "reader 000 panicked") || !strings.Contains(text, "hint: ") || !strings.Contains(text, "panics") {
		t.Error(text)
	}
}

func panics() error {
	var none []byte
	return errors.New(string(none[len(none)]))
}
