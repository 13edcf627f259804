package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/tidemarkdb/tidemark/ha"
)

//go:embed page.css
var pageStyle string

// WritePlan writes a plan as one self-contained HTML page: no script, no other file.
func WritePlan(w io.Writer, of *ha.Plan) error {
	p := page{plan: plan{of}}
	p.head()
	p.answer()
	p.modes()
	p.put("<section class=\"charting\">\n<h2>Charts</h2>\n<div class=\"charts\">\n")
	for _, c := range p.charts() {
		p.chart(c)
	}
	p.put("</div>\n</section>\n")
	p.checks()
	p.outages()
	p.settings()
	p.basis()
	p.put("</main>\n<footer class=\"soft\">1 KiB is 1024 bytes, 1 MB is a million bytes; p50 is the median; one commit in a hundred takes longer than p99. The formulas: ha-models in tidemark's manual.</footer>\n</div>\n</body>\n</html>\n")
	_, err := io.WriteString(w, p.out.String())
	return err
}

// A page is the HTML of a plan. It is written without html/template: that package calls methods by
// name, so the linker keeps every exported method of the program, which adds 10 MB to the binary.
type page struct {
	plan
	out strings.Builder
}

// put writes markup, which is constant, with values, which it escapes for text and for attributes
// in double quotes. Values must not appear elsewhere in markup.
func (p *page) put(markup string, values ...any) {
	for i, v := range values {
		switch v.(type) {
		case int, float64:
		default:
			values[i] = html.EscapeString(fmt.Sprint(v))
		}
	}
	fmt.Fprintf(&p.out, markup, values...)
}

func (p *page) head() {
	p.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>%s</title>
<style>
`, p.Title())
	p.out.WriteString(pageStyle)
	p.put(`</style>
</head>
<body>
<div class="page">
<header>
<p class="soft">Synchronous replication: what it would cost</p>
<h1>%s</h1>
<p class="soft">%s %s; made %s UTC by tidemark ha plan</p>
</header>
<main>
`, p.Title(), map[string]string{"postgres": "PostgreSQL", "mysql": "MySQL", "mariadb": "MariaDB"}[p.Engine], p.Version, p.Made.Format("2006-01-02 15:04"))
}

// answerClass returns the colour of the answer.
func (p *page) answerClass() string {
	a := p.Mode(p.Chosen)
	switch {
	case !ha.Waits(p.Engine, p.Chosen) && p.Reference != p.Chosen && p.Reference != "" || a.Verdict == ha.TooSlow:
		return "slow"
	case a.Verdict == ha.Tight:
		return "tight"
	}
	return ""
}

func (p *page) answer() {
	p.put("<section class=\"answer %s\" aria-label=\"The answer\">\n", p.answerClass())
	for _, s := range p.Answer {
		p.put("<p>%s</p>\n", s)
	}
	p.put("</section>\n")
	if a := p.Mode(p.Reference); a != nil {
		p.put("<dl class=\"figures\">\n")
		p.put("<div><dt>%s adds, p50</dt><dd>%s</dd></div>\n", a.Mode, ha.TimeText(a.Added.P50))
		p.put("<div><dt>%s adds, p99</dt><dd>%s</dd></div>\n", a.Mode, ha.TimeText(a.Added.P99))
		p.put("<div><dt>carries, times the peak</dt><dd>%s</dd></div>\n", ha.FactorText(a.Headroom))
		p.put("<div><dt>round trip</dt><dd>%s</dd></div>\n", ha.TimeText(p.Forecast.Sites.Standbys[0].Network.RTT))
		p.put("</dl>\n")
	}
	p.list("Why", p.Why)
}

// list writes a section of sentences.
func (p *page) list(title string, of []string) {
	p.put("<section>\n<h2>%s</h2>\n<ul>", title)
	for _, s := range of {
		p.put("<li>%s</li>\n", s)
	}
	p.put("</ul>\n</section>\n")
}

// beginTable begins a section whose table scrolls on a narrow screen.
func (p *page) beginTable(id, title, note, class string) {
	p.put("<section>\n<h2 id=\"%s\">%s</h2>\n", id, title)
	if note != "" {
		p.put("<p class=\"soft\">%s</p>\n", note)
	}
	p.put("<div class=\"wide\" role=\"region\" aria-labelledby=\"%s\" tabindex=\"0\">\n<table class=\"%s\">\n", id, class)
}

func (p *page) modes() {
	p.beginTable("modes", "Modes", "", "stack")
	p.put(`<thead><tr><th scope="col">mode</th><th scope="col" class="n">adds p50</th><th scope="col" class="n">adds p99</th><th scope="col" class="n">carries</th><th scope="col" class="n">times the peak</th><th scope="col">verdict</th><th scope="col">protects from</th><th scope="col">if the standby is away</th></tr></thead>
<tbody>
`)
	for _, a := range p.Modes {
		row, mark := "<tr>", ""
		if a.Mode == p.Chosen {
			row, mark = `<tr class="chosen">`, `<br><span class="soft">recommended</span>`
		}
		p.put(row+`<th scope="row">%s`+mark+`</th><td class="n" data-label="adds at p50">%s</td><td class="n" data-label="adds at p99">%s</td>`, a.Mode, ha.TimeText(a.Added.P50), ha.TimeText(a.Added.P99))
		p.put(`<td class="n" data-label="carries">%s<br><span class="soft">%s</span></td><td class="n" data-label="times the peak">%s</td>`, ha.RateText(a.Sustainable), a.Limit, ha.FactorText(a.Headroom))
		p.put(`<td data-label="verdict"><span class="verdict v %s">%s %s</span></td>`, map[ha.Verdict]string{ha.Roomy: "ok", ha.Tight: "tight", ha.TooSlow: "slow"}[a.Verdict], a.Verdict, a.Marker)
		p.put(`<td data-label="protects from"><p>%s</p></td><td data-label="if the standby is away"><p>%s</p></td></tr>`+"\n", a.Protects, a.Outage)
	}
	p.put("</tbody>\n</table>\n</div>\n<p class=\"soft\">%s</p>\n</section>\n", markLegend)
}

func (p *page) checks() {
	if len(p.Checks) == 0 {
		return
	}
	p.beginTable("checks", "Predicted and simulated", "Sessions commit without a pause, with commits as large as in the scan. Error: the prediction's, in percent of the simulation; below 0, the prediction was too low.", "stack pairs")
	p.put(`<thead><tr><th scope="col" rowspan="2">mode</th><th scope="col" rowspan="2" class="n">sessions</th><th scope="colgroup" colspan="3" class="group">commits/s</th><th scope="colgroup" colspan="3" class="group">p50</th><th scope="colgroup" colspan="3" class="group">p99</th></tr>
<tr>`)
	for range 3 {
		p.put(`<th scope="col" class="n edge">predicted</th><th scope="col" class="n">simulated</th><th scope="col" class="n">error</th>`)
	}
	p.put("</tr></thead>\n<tbody>\n")
	for _, c := range p.Checks {
		three := func(label, predicted, simulated string, err float64) {
			p.put(`<td class="n edge" data-label="%s">%s</td><td class="n seen">%s</td><td class="n error">%+.0f%%</td>`, label, predicted, simulated, 100*err)
		}
		p.put(`<tr><th scope="row">%s</th><td class="n" data-label="sessions">%d</td>`, c.Mode, c.Clients)
		three("commits/s", fmt.Sprintf("%.0f", c.Predicted.Rate), fmt.Sprintf("%.0f", c.Simulated.Rate), c.RateError)
		three("p50", ha.TimeText(c.Predicted.P50), ha.TimeText(c.Simulated.P50), c.P50Error)
		three("p99", ha.TimeText(c.Predicted.P99), ha.TimeText(c.Simulated.P99), c.P99Error)
		p.put("</tr>\n")
	}
	p.put("</tbody>\n</table>\n</div>\n</section>\n")
}

func (p *page) outages() {
	p.beginTable("away", "Standby away, primary commits without it", "", "away")
	p.put(`<thead><tr><th scope="col">for</th><th scope="col" class="n">log it lacks, kept by the primary</th><th scope="col" class="n">catches up in</th><th scope="col" class="n">primary's disk is full after</th></tr></thead>
<tbody>
`)
	for _, o := range p.Outages {
		p.put("<tr><th scope=\"row\">%s</th><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n", ha.TimeText(o.Seconds), ha.SizeText(o.Gap), catchUpText(o), fullText(o))
	}
	p.put("</tbody>\n</table>\n</div>\n")
	if note := p.ReplayNote(); note != "" {
		p.put("<p class=\"soft\">%s</p>\n", note)
	}
	p.put("</section>\n")
}

// settings writes those of the reference mode, and those of the others collapsed.
func (p *page) settings() {
	a := p.Mode(p.Reference)
	if a == nil {
		return
	}
	each := func(a *ha.Advice) {
		p.put("<div class=\"settings\">\n")
		for _, s := range a.Settings {
			p.put("<div><h3>%s</h3><pre>%s</pre></div>\n", s.Where, s.Text)
		}
		p.put("</div>")
	}
	p.put("<section>\n<h2>Settings for %s</h2>\n", a.Set)
	each(a)
	p.put("\n")
	for _, b := range p.Forecast.Buffer {
		p.put("<p class=\"soft\">%s</p>\n", bufferText(b))
	}
	for i := range p.Modes {
		if other := &p.Modes[i]; other.Mode != p.Reference && len(other.Settings) > 0 {
			p.put("<details><summary>Settings for %s</summary>", other.Set)
			each(other)
			p.put("</details>\n")
		}
	}
	p.put("</section>\n")
}

func (p *page) basis() {
	p.beginTable("basis", "What this is based on", "", "")
	p.put("<tbody>\n")
	for _, b := range p.Basis {
		p.put("<tr><th scope=\"row\">%s</th><td>%s</td><td>%s</td></tr>\n", b.What, b.Source, b.Text)
	}
	p.put("</tbody>\n</table>\n</div>\n</section>\n")
	if len(p.Caveats) > 0 {
		p.list("Caveats", p.Caveats)
	}
}
