package screen

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// TestPlanIsShownAmidAPhase: a long plan is announced while the phase before it is still shown. The
// race detector judges.
func TestPlanIsShownAmidAPhase(t *testing.T) {
	for _, progress := range []string{"lines", "bars", "json", "none"} {
		synctest.Test(t, func(t *testing.T) {
			var out, errOut bytes.Buffer
			w := Watch(View{Progress: progress, JSON: progress == "json"}, &out, &errOut)
			w.Event(job.Event{Kind: "phase", Text: "planning the copy"})
			for i := range 5 {
				time.Sleep(2 * time.Second)
				w.Planned(fmt.Sprint("r", i), &load.Plan{Findings: []tidemark.Finding{{Severity: tidemark.Warning, Object: "o", Text: "t"}}})
			}
			w.Stop()
			if !bytes.Contains(append(out.Bytes(), errOut.Bytes()...), []byte("r4")) {
				t.Errorf("%s: no plan in %q, %q", progress, out.String(), errOut.String())
			}
		})
	}
}
