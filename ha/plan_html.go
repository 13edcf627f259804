package ha

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed plan.html
var planPage string

// A page is what the template sees.
type page struct {
	*Plan
	Charts []*chart
	Legend string
}

// AnswerClass is the colour of the answer.
func (p page) AnswerClass() string {
	m, _ := modeOf(p.Engine, p.Chosen)
	a := p.mode(p.Chosen)
	switch {
	case m.rule == nobodyWaits && p.Reference != p.Chosen && p.Reference != "" || a.Verdict == TooSlow:
		return "slow"
	case a.Verdict == Tight:
		return "tight"
	}
	return ""
}

// Three are the groups of columns of what was predicted and simulated.
func (p page) Three() []int { return []int{0, 1, 2} }

// Ref is the mode that settings and figures are told of; nil: none that waits.
func (p page) Ref() *Advice { return p.mode(p.Reference) }

// Others are the other modes that have settings.
func (p page) Others() (out []Advice) {
	for _, a := range p.Modes {
		if a.Mode != p.Reference && len(a.Settings) > 0 {
			out = append(out, a)
		}
	}
	return out
}

// RTT is the round trip to the standby.
func (p page) RTT() float64 { return p.Forecast.Sites.Standbys[0].Network.RTT }

var planTemplate = template.Must(template.New("plan").Funcs(template.FuncMap{
	"time": timeText, "rate": rateText, "size": volumeText, "bits": bitsText, "factor": factorText,
	"signed": func(v float64) string { return fmt.Sprintf("%+.0f%%", 100*v) },
	"px":     func(v float64) string { return fmt.Sprintf("%.1f", v) },
	"more":   func(a, b float64) float64 { return a + b },
	"less":   func(a, b float64) float64 { return a - b },
	"middle": func(a, b float64) float64 { return (a + b) / 2 },
	"verdict": func(v Verdict) string {
		return map[Verdict]string{Roomy: "ok", Tight: "tight", TooSlow: "slow"}[v]
	},
	"engine": func(e string) string {
		return map[string]string{"postgres": "PostgreSQL", "mysql": "MySQL", "mariadb": "MariaDB"}[e]
	},
}).Parse(planPage))

// WriteHTML writes the plan as one page that needs nothing else: no script, no other file.
func (p *Plan) WriteHTML(w io.Writer) error {
	return planTemplate.Execute(w, page{Plan: p, Charts: p.charts(), Legend: MarkLegend})
}
