package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/ha"
)

// Charts are drawn in a box of these units, which a page scales. On a desktop two are side by side,
// on a phone one fills the width: letters are readable in both.
const (
	chartWidth  = 480.0
	chartHeight = 300.0
	chartLeft   = 68.0
	chartRight  = 12.0
	chartTop    = 12.0
	chartBottom = 46.0
)

// A chart is the input of the page's drawing.
type chart struct {
	ID, Title  string
	Desc       string // describes the chart in words, for readers who cannot see it
	Note       string // below it
	Width      float64
	Height     float64
	Left, Top  float64 // of the plot
	Right, Low float64
	X, Y       axis
	Curves     []curve
	Rules      []rule
	Bars       []bar
	Keys       []key
}

// An axis has ticks at positions in the box.
type axis struct {
	Title string
	Ticks []tick
}

type tick struct {
	At    float64
	Label string
}

// A curve is a line; its class sets its colour, by mode.
type curve struct {
	Class string
	Path  string // of SVG
	Area  string // below it; "" none
	Dots  []dot
}

type dot struct {
	X, Y float64
	Text string // shown on hover
}

// A rule is a named vertical line across the plot. Horizontal lines are named by keys: a name
// beside one of several close lines would be beside the wrong one.
type rule struct {
	Class          string
	X, Y1, Y2      float64
	LabelX, LabelY float64
	Label, Anchor  string
}

// A bar extends from the axis to Mid, and in a paler colour from there to End.
type bar struct {
	Class          string
	X, Y, H        float64
	Mid, End       float64 // widths
	Label, Value   string
	LabelY, ValueX float64
	Head           string // title of a group that begins here
	HeadY          float64
}

type key struct{ Class, Label string }

// A scale maps values to positions, linearly or logarithmically.
type scale struct {
	lo, hi   float64
	log      bool
	from, to float64
}

func (s scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log(max(v, s.lo)), math.Log(lo), math.Log(hi)
	}
	if hi == lo {
		return s.from
	}
	return s.from + (min(max(v, lo), hi)-lo)/(hi-lo)*(s.to-s.from)
}

// ticks returns round values within the scale: powers of ten, or 1, 2, 5 times these if there are
// few.
func (s scale) ticks(most int) (out []float64) {
	steps := [][]float64{{1, 2, 5}, {1}}
	if s.log {
		for _, of := range steps {
			out = out[:0]
			for e := math.Floor(math.Log10(s.lo)); e <= math.Ceil(math.Log10(s.hi)); e++ {
				for _, n := range of {
					if v := n * math.Pow(10, e); v >= s.lo*0.999 && v <= s.hi*1.001 {
						out = append(out, v)
					}
				}
			}
			if len(out) <= most {
				return out
			}
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10((s.hi-s.lo)/float64(most))))
	for _, n := range []float64{1, 2, 5} {
		if (s.hi-s.lo)/(n*step) <= float64(most) {
			return s.multiples(n * step)
		}
	}
	return s.multiples(10 * step)
}

// multiples returns the multiples of a step within the scale, which is linear.
func (s scale) multiples(step float64) (out []float64) {
	for v := math.Ceil(s.lo/step) * step; v <= s.hi*1.0001; v += step {
		out = append(out, v)
	}
	return out
}

// times returns round times within the scale, which is linear and in seconds.
func (s scale) times(most int) []float64 {
	steps := []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600, 7 * 24 * 3600}
	if i := slices.IndexFunc(steps, func(step float64) bool { return (s.hi-s.lo)/step <= float64(most) }); i >= 0 {
		if out := s.multiples(steps[i]); len(out) >= 3 { // otherwise a scale of less than a few seconds
			return out
		}
	}
	return s.ticks(most)
}

// xScale and yScale return scales of the plot.
func xScale(lo, hi float64, log bool) scale {
	return scale{lo, hi, log, chartLeft, chartWidth - chartRight}
}

func yScale(lo, hi float64, log bool) scale {
	return scale{lo, hi, log, chartHeight - chartBottom, chartTop}
}

func newChart(id, title string) *chart {
	return &chart{ID: id, Title: title, Width: chartWidth, Height: chartHeight, Left: chartLeft, Top: chartTop, Right: chartWidth - chartRight, Low: chartHeight - chartBottom}
}

// label adds ticks to an axis at values.
func (a *axis) label(s scale, at []float64, text func(float64) string) {
	for _, v := range at {
		a.Ticks = append(a.Ticks, tick{s.at(v), text(v)})
	}
}

// path returns a line through dots.
func path(dots []dot) string {
	var b strings.Builder
	for i, d := range dots {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", letter, d.X, d.Y)
	}
	return b.String()
}

// filled returns a line through dots, and the area below it.
func (c *chart) filled(class string, dots []dot) curve {
	line := path(dots)
	return curve{Class: class, Path: line, Area: fmt.Sprintf("%sL%.1f %.1fL%.1f %.1fZ", line, dots[len(dots)-1].X, c.Low, dots[0].X, c.Low)}
}

// A row is a bar, in seconds, in a group of bars.
type row struct {
	group, class, label, value string
	mid, end                   float64
}

// draw makes the chart a bar chart, with so much room for words on both sides; false if there is
// nothing to draw.
func (c *chart) draw(rows []row, left, right, thick, gap float64) bool {
	most := 0.0
	for _, r := range rows {
		most = max(most, r.end)
	}
	if most == 0 {
		return false
	}
	x := scale{0, most, false, left, chartWidth - right}
	at, group := c.Top, ""
	for _, r := range rows {
		b := bar{Class: r.class, X: x.from, H: thick, Mid: x.at(r.mid) - x.from, End: x.at(r.end) - x.from, Label: r.label, Value: r.value}
		if r.group != group {
			group, b.Head, b.HeadY = r.group, r.group, at+12
			at += 19
		}
		b.Y, b.LabelY, b.ValueX = at, at+thick/2+4, x.from+b.End+5
		at += thick + gap
		c.Bars = append(c.Bars, b)
	}
	c.Left, c.Right, c.Low = x.from, x.to, at-gap+max(gap, 8)
	c.Height = c.Low + 36
	c.X.label(x, x.ticks(4), ha.ShortTime)
	return true
}

// across adds a horizontal line, named in the keys.
func (c *chart) across(class, name string, y float64) {
	c.Curves = append(c.Curves, curve{Class: class, Path: path([]dot{{X: c.Left, Y: y}, {X: c.Right, Y: y}})})
	c.Keys = append(c.Keys, key{class, name})
}

// down adds a vertical line, named at the foot, or at the head if curves are low.
func (c *chart) down(class, label string, x float64, head bool) {
	r := rule{Class: class, X: x, Y1: c.Top, Y2: c.Low, LabelX: x + 4, LabelY: c.Low - 8, Label: label, Anchor: "start"}
	if x > (c.Left+c.Right)/2 {
		r.LabelX, r.Anchor = x-4, "end"
	}
	if head {
		r.LabelY = c.Top + 10
	}
	c.Rules = append(c.Rules, r)
}

// modeClass returns the colour of a mode, the same in all charts.
func (p plan) modeClass(mode string) string {
	return fmt.Sprintf("m%d", slices.Index(ha.Modes(p.Engine), mode))
}
