package repo

import (
	"bytes"
	"strings"
	"testing"
)

// The record of a gap in the log is verified, and is removed once nothing that stays precedes its
// end.
func TestGaps(t *testing.T) {
	ctx := t.Context()
	s := newMemory()
	r := must(Create(ctx, s, Keys{}))
	for _, n := range []int{1, 4, 5, 8} {
		if err := r.PutLog(ctx, logName(n), bytes.NewReader([]byte{1}), Codec{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []Gap{{First: logName(2), Last: logName(3), Count: 2, Host: "db1", Cause: "full"}, {First: logName(6), Last: logName(7), Count: 2}} {
		if err := r.PutGap(ctx, g); err != nil {
			t.Fatal(err)
		}
		if err := r.PutGap(ctx, g); err != nil {
			t.Fatal(err)
		}
	}
	next := func(name string) string {
		for n := 1; n < 10; n++ {
			if logName(n) == name {
				return logName(n + 1)
			}
		}
		return ""
	}
	v := must(r.Verify(ctx, VerifyOptions{NextLog: next}))
	if len(v.Damages) != 2 || v.Damages[0].Object != logPrefix+logName(2) || !strings.Contains(v.Damages[0].Text, "2 files, were given up from ") || len(v.Left) != 0 {
		t.Errorf("verify says %+v", v)
	}
	w := must(r.Begin(ctx, BeginOptions{}))
	must(w.Publish(ctx, Manifest{Ranges: []LogRange{{First: logName(4), Last: logName(4)}}}))
	if must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}, DryRun: true})); len(must(r.Gaps(ctx))) != 2 {
		t.Error("a dry run has removed a gap")
	}
	must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
	if gaps := must(r.Gaps(ctx)); len(gaps) != 1 || gaps[0].First != logName(6) {
		t.Errorf("left are %v", gaps)
	}
	o := must(s.Create(ctx, gapPrefix+logName(9), 0))
	must(o.Write([]byte("no gap")))
	if err := o.Commit(); err != nil {
		t.Fatal(err)
	}
	if v := must(r.Verify(ctx, VerifyOptions{})); len(v.Damages) != 1 || v.Damages[0].Object != gapPrefix+logName(9) {
		t.Errorf("verify says %+v", v.Damages)
	}
}
