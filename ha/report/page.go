package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/tidemarkdb/tidemark/ha"
)

//go:embed page.html
var planPage string

// A page is what the template sees.
type page struct {
	plan
	Charts []*chart
	Legend string
}

// AnswerClass is the colour of the answer.
func (p page) AnswerClass() string {
	a := p.Mode(p.Chosen)
	switch {
	case !ha.Waits(p.Engine, p.Chosen) && p.Reference != p.Chosen && p.Reference != "" || a.Verdict == ha.TooSlow:
		return "slow"
	case a.Verdict == ha.Tight:
		return "tight"
	}
	return ""
}

// Three are the groups of columns of what was predicted and simulated.
func (p page) Three() []int { return []int{0, 1, 2} }

// Ref is the mode that settings and figures are told of; nil: none that waits.
func (p page) Ref() *ha.Advice { return p.Mode(p.Reference) }

// Others are the other modes that have settings.
func (p page) Others() (out []ha.Advice) {
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
	"time": ha.TimeText, "rate": ha.RateText, "size": ha.SizeText, "bits": ha.SpeedText, "factor": ha.FactorText, "catchUp": catchUpText, "full": fullText,
	"signed": func(v float64) string { return fmt.Sprintf("%+.0f%%", 100*v) },
	"px":     func(v float64) string { return fmt.Sprintf("%.1f", v) },
	"more":   func(a, b float64) float64 { return a + b },
	"less":   func(a, b float64) float64 { return a - b },
	"middle": func(a, b float64) float64 { return (a + b) / 2 },
	"verdict": func(v ha.Verdict) string {
		return map[ha.Verdict]string{ha.Roomy: "ok", ha.Tight: "tight", ha.TooSlow: "slow"}[v]
	},
	"engine": func(e string) string {
		return map[string]string{"postgres": "PostgreSQL", "mysql": "MySQL", "mariadb": "MariaDB"}[e]
	},
}).Parse(planPage))

// WritePlan writes a plan as one page that needs nothing else: no script, no other file.
func WritePlan(w io.Writer, of *ha.Plan) error {
	p := plan{of}
	return planTemplate.Execute(w, page{plan: p, Charts: p.charts(), Legend: markLegend})
}
