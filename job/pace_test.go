package job

import (
	"strings"
	"testing"
	"time"
)

// A plant is a copy and the users of its source, for the controller: each lane moves rate bytes a
// second, and adds a share to the p99 of the source.
type plant struct {
	rate, load  float64
	done, total float64
	base        time.Duration
}

// paced runs the controller in virtual time until the copy is done; most is when to give up.
func paced(p *pacer, x *plant, start time.Time, most time.Duration) (took time.Duration, lanes []int, p99s []float64, said string) {
	lane := 0
	for took < most && x.done < x.total {
		p99 := time.Duration(float64(x.base) * (1 + x.load*float64(lane)))
		var say string
		lane, say = p.decide(start.Add(took), int64(x.done), int64(x.total), p99)
		said += say
		lanes, p99s = append(lanes, lane), append(p99s, x.load*float64(lane))
		x.done += x.rate * float64(lane) * paceEvery.Seconds()
		took += paceEvery
	}
	return took, lanes, p99s, said
}

func share(lanes []int, is func(int) bool) float64 {
	n := 0
	for _, l := range lanes[len(lanes)/4:] { // once it has settled
		if is(l) {
			n++
		}
	}
	return float64(n) / float64(len(lanes)-len(lanes)/4)
}

// With time enough one lane works; with less as many as are needed, and the deadline is kept; with
// too little all of them, and that is said once.
func TestPaceOfADeadline(t *testing.T) {
	start := time.Date(2026, 11, 25, 22, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		room  time.Duration
		lanes int
		kept  bool
	}{{"time enough", 2000 * time.Second, 1, true}, {"three lanes needed", 400 * time.Second, 3, true}, {"not to be had", 60 * time.Second, 8, false}} {
		p := &pacer{deadline: start.Add(c.room), most: 8}
		took, lanes, _, said := paced(p, &plant{rate: 1, total: 1000, base: time.Millisecond}, start, time.Hour)
		if kept := took <= c.room+paceEvery; kept != c.kept || (said == "") != c.kept || strings.Count(said, "cannot be kept") > 1 {
			t.Errorf("%s: took %s of %s, said %q", c.name, took, c.room, said)
		}
		if got := share(lanes, func(l int) bool { return l >= c.lanes-1 && l <= c.lanes+1 }); got < 0.7 {
			t.Errorf("%s: about %d lanes for %.0f%% of the time only: %v", c.name, c.lanes, 100*got, lanes)
		}
	}
}

// The p99 of the source stays within what was asked for: each lane adds 4%, so two are as much as
// +10% allows; where one is too much, none works for a while.
func TestPaceOfP99(t *testing.T) {
	start := time.Date(2026, 11, 25, 22, 0, 0, 0, time.UTC)
	for _, load := range []float64{0.04, 0.02} {
		p := &pacer{allow: 0.10, most: 8, base: time.Millisecond}
		took, lanes, p99s, _ := paced(p, &plant{rate: 1, load: load, total: 500, base: time.Millisecond}, start, time.Hour)
		over := 0
		for _, x := range p99s {
			if x > 0.15 {
				over++
			}
		}
		if over > len(p99s)/10 || took >= time.Hour {
			t.Errorf("load %.2f: above +15%% in %d of %d, took %s: %v", load, over, len(p99s), took, lanes)
		}
	}
	p := &pacer{allow: 0.10, most: 8, base: time.Millisecond}
	if _, lanes, _, _ := paced(p, &plant{rate: 1, load: 0.5, total: 500, base: time.Millisecond}, start, 10*time.Minute); share(lanes, func(l int) bool { return l == 0 }) < 0.4 || share(lanes, func(l int) bool { return l > 1 }) > 0 {
		t.Errorf("one lane is too much, and yet: %v", lanes)
	}
	// Both cannot be had: it is said that the p99 is why.
	p = &pacer{deadline: start.Add(100 * time.Second), allow: 0.10, most: 8, base: time.Millisecond}
	if _, _, _, said := paced(p, &plant{rate: 1, load: 0.04, total: 1000, base: time.Millisecond}, start, time.Hour); !strings.Contains(said, "within --source-p99 +10%") {
		t.Errorf("said %q", said)
	}
}

func TestP99Of(t *testing.T) {
	var looks []look
	for i := range 100 {
		looks = append(looks, look{took: time.Duration(100 - i)})
	}
	if p99Of(looks) != 99 || p99Of(nil) != 0 || p99Of(looks[:1]) != 100 {
		t.Errorf("%d, %d, %d", p99Of(looks), p99Of(nil), p99Of(looks[:1]))
	}
}
