package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/backup/logs"
)

// A malformed time or LSN is never taken for the name of a restore point.
func TestRecoveryTargets(t *testing.T) {
	for v, kind := range map[string]string{
		"end": logs.AtEnd, "immediate": logs.AtOnce, "2/5F0A3B8": logs.AtPlace, "xid:77": logs.AtTx,
		"2026-11-21 19:30:00": logs.AtTime, "2026-11-21": logs.AtTime, "2026-11-21T19:30:00+01:00": logs.AtTime, "2026-11-21 19:30:00 UTC": logs.AtTime,
		"before_upgrade": logs.AtRestorePt, "marker": logs.AtRestorePt, "month_end": logs.AtRestorePt, "name:2026-11-21": logs.AtRestorePt, "name:end": logs.AtRestorePt, "v2": logs.AtRestorePt, "decade": logs.AtRestorePt,
	} {
		o := new(recoveryOptions)
		if err := o.recoveryTarget(v); err != nil || o.target.Kind != kind || kind == logs.AtRestorePt && o.target.Name != strings.TrimPrefix(v, "name:") {
			t.Errorf("%q: %+v, %v", v, o.target, err)
		}
	}
	now := time.Date(2026, 11, 21, 19, 30, 0, 0, time.UTC)
	for _, layout := range []string{time.ANSIC, time.UnixDate, time.RFC822, time.RFC850, time.RFC1123, time.Kitchen, time.Stamp, "02.01.2006 15:04", "2006-01-02 15.04", "01/02/2006", "15:04", "2006/01/02 15:04:05", "20060102T150405Z"} {
		for _, v := range []string{now.Format(layout), now.Format(layout) + "x"} {
			if err := new(recoveryOptions).recoveryTarget(v); err == nil || !strings.Contains(err.Error(), "name:") {
				t.Errorf("%q is taken: %v", v, err)
			}
		}
	}
	for _, v := range []string{"2026-11-31 10:00:00", "2026-13-01", "2026-11-21 25:00:00", "2026-11-2", "2026-11-21 19:30:0O", "2026-11-21 19:30:00 +25", "0/5G00", "2/", "yesterday", "now", "-1h", "xid:x", "xid:-1", ""} {
		o := new(recoveryOptions)
		if err := o.recoveryTarget(v); err == nil {
			t.Errorf("%q is taken for %+v", v, o.target)
		}
	}
}
