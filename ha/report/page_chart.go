package report

// chart writes a figure: its title, its keys, and the drawing, with a description for readers who
// cannot see it.
func (p *page) chart(c *chart) {
	p.put("<figure>\n<figcaption><h3 id=\"%s-title\">%s</h3></figcaption>\n", c.ID, c.Title)
	if len(c.Keys) > 0 {
		p.put(`<ul class="keys" aria-hidden="true">`)
		for _, k := range c.Keys {
			p.put(`<li class="%s"><svg viewBox="0 0 24 8"><path class="curve ink" d="M0 4L24 4"/></svg>%s</li>`, k.Class, k.Label)
		}
		p.put("</ul>")
	}
	p.put("\n<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-labelledby=\"%s-title %s-desc\">\n<desc id=\"%s-desc\">%s</desc>\n", c.Width, c.Height, c.ID, c.ID, c.ID, c.Desc)
	p.axes(c)
	for _, line := range c.Curves {
		p.curve(line)
	}
	for _, b := range c.Bars {
		p.bar(b)
	}
	for _, r := range c.Rules {
		p.put(`<g class="%s"><line class="rule ink" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, r.Class, r.X, r.X, r.Y1, r.Y2)
		p.put("<text class=\"small paint\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text></g>\n", r.LabelX, r.LabelY, r.Anchor, r.Label)
	}
	p.put("</svg>\n")
	if c.Note != "" {
		p.put(`<p class="soft">%s</p>`, c.Note)
	}
	p.put("\n</figure>\n")
}

// axes writes the grid, its labels and the titles of both axes.
func (p *page) axes(c *chart) {
	for _, t := range c.Y.Ticks {
		p.put(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, c.Left, c.Right, t.At, t.At)
		p.put("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", c.Left-6, t.At+4, t.Label)
	}
	for _, t := range c.X.Ticks {
		p.put(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, t.At, t.At, c.Top, c.Low)
		p.put("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", t.At, c.Low+16, t.Label)
	}
	p.put("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" class=\"small\">%s</text>\n", (c.Left+c.Right)/2, c.Low+34, c.X.Title)
	if c.Y.Title != "" {
		p.put(`<text transform="translate(10 %.1f) rotate(-90)" text-anchor="middle" class="small">%s</text>`, (c.Top+c.Low)/2, c.Y.Title)
	}
	p.put("\n")
}

func (p *page) curve(line curve) {
	p.put(`<g class="%s">`, line.Class)
	if line.Area != "" {
		p.put(`<path class="area paint" d="%s"/>`, line.Area)
	}
	if line.Path != "" {
		p.put(`<path class="curve ink" d="%s"/>`, line.Path)
	}
	for _, d := range line.Dots {
		p.put(`<circle class="dot paint ink" cx="%.1f" cy="%.1f" r="3"><title>%s</title></circle>`, d.X, d.Y, d.Text)
	}
	p.put("</g>\n")
}

func (p *page) bar(b bar) {
	p.put(`<g class="%s">`, b.Class)
	if b.Head != "" {
		p.put(`<text class="strong" x="0" y="%.1f">%s</text>`, b.HeadY, b.Head)
	}
	p.put(`<text class="small" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, b.X-6, b.LabelY, b.Label)
	p.put(`<rect class="tail paint" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, b.X, b.Y, b.End, b.H)
	p.put(`<rect class="bar paint" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, b.X, b.Y, b.Mid, b.H)
	p.put("<text class=\"value\" x=\"%.1f\" y=\"%.1f\">%s</text></g>\n", b.ValueX, b.LabelY, b.Value)
}
