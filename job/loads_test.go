package job

import (
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
)

// An apply goes on from a place before, within or behind a load: what a table is there
// follows from the places alone.
func TestRewind(t *testing.T) {
	id := tidemark.TableID{Schema: "s", Name: "t"}
	for _, x := range []struct {
		state          string
		load           tableLoad
		low            uint64
		wants, loading bool
	}{
		{catalog.TableActive, tableLoad{}, 0, true, false},
		{catalog.TableStopped, tableLoad{Heard: 10}, 20, false, false},
		{catalog.TableLoading, tableLoad{}, 20, false, true}, // asked for
		{catalog.TableLoading, tableLoad{Manual: true}, 20, true, true},
		{catalog.TableLoading, tableLoad{Place: 10}, 9, false, true},
		{catalog.TableLoading, tableLoad{Place: 10}, 10, true, true},
		{catalog.TableActive, tableLoad{Place: 10, End: 20}, 9, false, true},
		{catalog.TableActive, tableLoad{Place: 10, End: 20}, 19, true, true},
		{catalog.TableActive, tableLoad{Place: 10, End: 20}, 20, true, false},
	} {
		s := &subscriptions{of: map[tidemark.TableID]*catalog.StreamTable{id: {Table: id, State: x.state, Load: x.load.text()}},
			begun: map[tidemark.TableID]bool{}, behind: map[tidemark.TableID]bool{}}
		s.rewind(x.low)
		if s.wants(id) != x.wants || s.loading(id) != x.loading {
			t.Errorf("%s %+v from %d on: wanted %v, loading %v", x.state, x.load, x.low, s.wants(id), s.loading(id))
		}
	}
}

// A load that was asked for is heeded unless its rows are passed over.
func TestHeeds(t *testing.T) {
	at := time.UnixMicro(7)
	for _, x := range []struct {
		state string
		load  tableLoad
		asked int64
		want  bool
	}{
		{"", tableLoad{}, 7, false},
		{catalog.TableStopped, tableLoad{}, 7, false},
		{catalog.TableActive, tableLoad{}, 6, true},
		{catalog.TableLoading, tableLoad{}, 7, true},
		{catalog.TableLoading, tableLoad{}, 6, false}, // another one was asked for since
		{catalog.TableLoading, tableLoad{Place: 5}, 6, true},
		{catalog.TableLoading, tableLoad{Manual: true}, 6, true},
	} {
		row := &catalog.StreamTable{State: x.state, Since: at, Load: x.load.text()}
		if got := x.load.heeds(row, x.asked); got != x.want {
			t.Errorf("%s %+v, asked by %d: %v", x.state, x.load, x.asked, got)
		}
	}
}
