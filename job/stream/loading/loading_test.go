package loading

import (
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
)

// A load that was requested is heeded unless its rows are skipped.
func TestHeeds(t *testing.T) {
	at := time.UnixMicro(7)
	for _, x := range []struct {
		state string
		load  Load
		asked int64
		want  bool
	}{
		{"", Load{}, 7, false},
		{catalog.TableStopped, Load{}, 7, false},
		{catalog.TableActive, Load{}, 6, true},
		{catalog.TableLoading, Load{}, 7, true},
		{catalog.TableLoading, Load{}, 6, false}, // another one was asked for since
		{catalog.TableLoading, Load{Place: 5}, 6, true},
		{catalog.TableLoading, Load{Manual: true}, 6, true},
	} {
		row := &catalog.StreamTable{State: x.state, Since: at, Load: x.load.Text()}
		if got := x.load.Heeds(row, x.asked); got != x.want {
			t.Errorf("%s %+v, asked by %d: %v", x.state, x.load, x.asked, got)
		}
	}
}
