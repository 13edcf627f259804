package job

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/store"
)

// A place of a stripe that is much slower than another is named, and trivial amounts are ignored.
func TestTheSlowPlaceOfAStripe(t *testing.T) {
	share := func(place string, bytes int64, io, wait time.Duration) store.Share {
		return store.Share{Place: place, Written: bytes, IO: io, Wait: wait, Life: io + wait}
	}
	fast, slow := share("fast", 80e6, time.Second, time.Second), share("slow", 20e6, 4*time.Second, time.Second)
	for what, c := range map[string]struct {
		shares  []store.Share
		logical bool
		want    string
	}{
		"slow":     {[]store.Share{share("idle", 0, time.Second, 0), fast, slow}, false, "slow is the slowest of the places: a session writes 5.0 MB/s there, and 80.0 MB/s to fast. It got 20% of the bytes; packs go"},
		"logical":  {[]store.Share{slow, fast}, true, "so the others wait for it"},
		"alike":    {[]store.Share{fast, share("slow", 50e6, time.Second, 0)}, false, ""},
		"idle":     {[]store.Share{fast, share("slow", 20e6, 4*time.Second, 5*time.Second)}, false, ""},
		"little":   {[]store.Share{fast, share("slow", 20e3, 400*time.Millisecond, 0)}, false, ""},
		"no bytes": {[]store.Share{share("a", 0, time.Second, 0), share("b", 0, time.Second, 0)}, false, ""},
	} {
		rep := new(StorageReport)
		rep.Report.Logical = c.logical
		rep.striped(c.shares)
		if len(rep.Targets) != len(c.shares) || !strings.Contains(rep.slowest, c.want) || (c.want == "") != (rep.slowest == "") {
			t.Errorf("%s: %q", what, rep.slowest)
		}
	}
}
