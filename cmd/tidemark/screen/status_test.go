package screen

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job/sampled"
)

// A sample has lines of its own in the status of streams, whatever the stream does.
func TestSamplesHaveTheirLines(t *testing.T) {
	for _, state := range []sampled.State{sampled.Idle, sampled.Applying, sampled.OneAlone, sampled.Connecting} {
		for _, half := range []string{"", "capture", "apply"} {
			s := sampled.Status{Half: half, Agents: 2}
			s.State, s.Doing, s.PerSecond, s.RowsSecond = state, string(state), 3, 4
			var out strings.Builder
			States(&out, []StreamState{{Stream: catalog.Stream{Name: "main", Source: "postgres://a/b", Target: "postgres://c/d"}, Running: true, Last: &s}})
			if text := out.String(); strings.Contains(text, `\n`) || half == "" && !strings.Contains(text, "\n    end to end ") {
				t.Errorf("%s %s:\n%s", state, half, text)
			}
		}
	}
}
