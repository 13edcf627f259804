package ha

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPublishedDistributions counts numbers that match IBM's buckets and IBM's sum, and prints
// them: the same blocks, digit for digit.
func TestPublishedDistributions(t *testing.T) {
	byName := map[string][]map[string]string{}
	for _, r := range rows(t, "distributions.tsv") {
		byName[r["name"]] = append(byName[r["name"]], r)
	}
	if len(byName) != len(blocks) {
		t.Fatalf("%d blocks", len(byName))
	}
	names := map[string]string{"Open transactions": "number of open transactions"}
	for _, b := range blocks {
		name := names[b.title]
		if name == "" {
			name = strings.ToLower(b.title)
		}
		t.Run(name, func(t *testing.T) {
			rs := byName[name]
			if len(rs) == 0 {
				t.Fatal("not published")
			}
			decimals := 0
			if _, after, ok := strings.Cut(rs[0]["v3"], "."); ok {
				decimals = len(after)
			}
			c := counter{decimals: decimals}
			fill(t, &c, rs)
			d := c.distribution()
			var out strings.Builder
			b.write(&out, &d)
			lines := squeeze(out.String())
			for i, r := range rs {
				var want string
				switch r["kind"] {
				case "total":
					want = fmt.Sprintf("Total %s numbers, Sum %s, Min %s, Max %s, Avg %s", r["v1"], r["v2"], r["v3"], r["v4"], r["v5"])
				case "exactly":
					want = fmt.Sprintf("Exactly %s %s numbers %s%%", r["v1"], r["v3"], r["v4"])
				case "zero":
					want = fmt.Sprintf("Zero %s numbers %s%%", r["v3"], r["v4"])
				default:
					want = fmt.Sprintf("From %s to %s %s numbers %s%%", r["v1"], r["v2"], r["v3"], r["v4"])
				}
				if i >= len(lines) || lines[i] != want {
					t.Errorf("line %d: %q, want %q", i, lines[min(i, len(lines)-1)], want)
				}
			}
			if len(lines) != len(rs) {
				t.Errorf("%d lines, want %d", len(lines), len(rs))
			}
		})
	}
}

// fill counts numbers of a published block: the smallest and the largest once, and the others of
// each bucket as large as the sum requires.
func fill(t *testing.T, c *counter, rs []map[string]string) {
	t.Helper()
	total := rs[0]
	if rs[1]["kind"] == "exactly" {
		for _, r := range rs[1:] {
			n, _ := strconv.ParseInt(r["v3"], 10, 64)
			c.addTimes(c.hold(num(t, r["v1"])), n)
		}
		return
	}
	lo, hi, sum := c.hold(num(t, total["v3"])), c.hold(num(t, total["v4"])), c.hold(num(t, total["v2"]))
	type group struct{ from, to, n int64 }
	var groups []group
	for i, r := range rs[1:] {
		n, _ := strconv.ParseInt(r["v3"], 10, 64)
		g := group{int64(num(t, r["v1"])), int64(num(t, r["v2"])), n}
		if i == 0 && g.from < lo {
			c.add(lo)
			sum, g.from, g.n = sum-lo, lo, n-1
		}
		if i == len(rs)-2 && g.n > 0 {
			c.add(hi)
			sum, g.to, g.n = sum-hi, hi, g.n-1
		}
		groups = append(groups, g)
		sum -= g.n * g.from
	}
	for _, g := range groups {
		if g.n <= 0 {
			continue
		}
		more := min(sum, g.n*(g.to-g.from))
		each := more / g.n
		c.addTimes(g.from+each, g.n-(more-each*g.n))
		c.addTimes(g.from+each+1, more-each*g.n)
		sum -= more
	}
	if sum != 0 {
		t.Fatalf("%d are left of the sum", sum)
	}
}

// TestTruncation: a distribution truncates what a rate line rounds.
func TestTruncation(t *testing.T) {
	c := counter{decimals: 3}
	c.seconds(1.3629)
	c.seconds(7.3068)
	if d := c.distribution(); d.Min != 1.362 || d.Max != 7.306 || d.Sum != 8.668 {
		t.Errorf("%+v", d)
	}
	for _, x := range []float64{0.29, 0.57, 1.005, 4.35, 8.2, 1.1} { // 1000 times these is slightly less in a float64
		c := counter{decimals: 3}
		if got := fmt.Sprint(float64(c.hold(x)) / 1000); got != fmt.Sprint(x) {
			t.Errorf("%v is held as %s", x, got)
		}
	}
}

// TestPercentiles: for any numbers, no percentile is below the true one, nor above it by more than
// the stated error.
func TestPercentiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var c counter
		scale := math.Exp(r.Float64() * 30)
		all := make([]int64, 1+r.IntN(3000))
		for i := range all {
			all[i] = int64(r.ExpFloat64() * scale)
			c.add(all[i])
		}
		slices.Sort(all)
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
			want := all[int(math.Ceil(q*float64(len(all))))-1]
			got := c.quantile(q)
			if got < want || float64(got-want) > PercentileError*float64(want) {
				t.Errorf("%v of %d numbers up to %.0f: %d, want %d", q, len(all), scale, got, want)
			}
		}
	}
}

// TestBuckets compares with counting each number individually.
func TestBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		var c counter
		most := 1 << r.IntN(40)
		seen := map[int64]int64{}
		for range 1 + r.IntN(200) {
			v := r.Int64N(int64(most) + 1)
			seen[v]++
			c.add(v)
		}
		want := map[int64]int64{}
		for v, n := range seen {
			from := v
			if len(seen) > maxValues {
				from = 0
				for p := int64(1); p <= v; p *= 2 {
					from = p
				}
			}
			want[from] += n
		}
		got := c.buckets()
		if len(got) != len(want) {
			t.Fatalf("%d buckets, want %d", len(got), len(want))
		}
		for _, b := range got {
			if want[b.from] != b.n {
				t.Errorf("from %d: %d, want %d", b.from, b.n, want[b.from])
			}
		}
	}
}
