package job

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/store"
)

// A Target is one of several places that received a backup, or a part of it.
type Target struct {
	store.Share
	Error string `json:"error,omitempty"` // why it failed: it does not have the backup
}

// mirrored reports what the places of a mirror have done, and which of them failed. Kind
// Incomplete: the backup exists, but not everywhere.
func (rep *StorageReport) mirrored(r *repo.Repo, err error) (*StorageReport, error) {
	if s := r.Stripe(); s != nil {
		rep.striped(s.Shares())
	}
	m := r.Mirror()
	if m == nil {
		return rep, err
	}
	lost, slowest := 0, store.Share{}
	for _, s := range m.Shares() {
		t := Target{Share: s}
		if s.Lost != nil {
			lost++
			t.Error = s.Lost.Error()
			if rep.Backup != "" {
				rep.Findings = append(rep.Findings, tidemark.Finding{Severity: tidemark.Warning, Kind: tidemark.KindOf(s.Lost), Object: "target " + s.Place,
					Text: "it failed, and does not have this backup: " + s.Lost.Error(), Hint: "Run tidemark prune on that place to remove the partial data. The next backup goes there again."})
			}
		}
		if s.IO > slowest.IO && s.Lost == nil {
			slowest = s
		}
		rep.Targets = append(rep.Targets, t)
	}
	if slowest.Life > 0 && slowest.IO > slowest.Life/2 && len(rep.Targets)-lost > 1 {
		rep.slowest = slowest.Place + " is the slowest of the targets: " + percentOf(slowest.IO.Seconds()/slowest.Life.Seconds()) + " of the time it was being written to. The others wait for it."
	}
	if err == nil && lost > 0 {
		err = &tidemark.Error{Kind: tidemark.Incomplete, Op: "back up", Object: rep.Backup, Err: errors.New("the backup is only in some of the targets"), Hint: "The report names the targets that failed."}
	}
	return rep, err
}

// striped reports what the places of a stripe have done, and whether one of them is much slower
// than another.
func (rep *StorageReport) striped(shares []store.Share) {
	rate := func(s store.Share) float64 { return float64(s.Written) / max(s.IO, 1).Seconds() }
	slow, fast, all := store.Share{}, shares[0], int64(0)
	for _, s := range shares {
		rep.Targets = append(rep.Targets, Target{Share: s})
		all += s.Written
		if s.Written > 0 && (slow.Written == 0 || rate(s) < rate(slow)) {
			slow = s
		}
		if rate(s) > rate(fast) {
			fast = s
		}
	}
	if slow.IO < time.Second/2 || slow.IO <= slow.Life/2 || 2*rate(slow) > rate(fast) {
		return
	}
	why := "packs go to whichever place is ready first, so the others do not wait for it"
	if rep.Report.Logical {
		why = "objects of a logical backup are spread evenly over the places, so the others wait for it"
	}
	rep.slowest = fmt.Sprintf("%s is the slowest of the places: a session writes %.1f MB/s there, and %.1f MB/s to %s. It got %s of the bytes; %s.",
		slow.Place, rate(slow)/1e6, rate(fast)/1e6, fast.Place, percentOf(float64(slow.Written)/float64(max(all, 1))), why)
}

func percentOf(part float64) string { return strconv.Itoa(int(100*part)) + "%" }
