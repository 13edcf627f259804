package bundle

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/load"
)

// hidden stands for what may be a value of a row.
const hidden = "[hidden]"

// A veil hides what may be values of rows in texts that servers have written. Servers put values
// into quotes and parentheses ("Duplicate entry 'x'", "Key (a)=(x)", "Failing row contains (...)"),
// as they do with names: so only what is known to be a name stays.
type veil struct {
	names map[string]bool
}

func newVeil(p *load.Plan, tables []catalog.TableStat) *veil {
	v := &veil{names: map[string]bool{}}
	for _, t := range tables {
		v.know(tidemark.TableID{Schema: t.Schema, Name: t.Name})
		v.know(tidemark.TableID{Schema: t.TargetSchema, Name: t.TargetName})
	}
	if p == nil {
		return v
	}
	for _, m := range p.Moves {
		for _, t := range []*tidemark.Table{m.From, m.To} {
			v.know(t.TableID)
			for _, c := range t.Columns {
				v.names[c.Name] = true
			}
			for _, x := range t.Indexes {
				v.names[x.Name] = true
			}
		}
	}
	for _, o := range p.Objects {
		_, name, _ := strings.Cut(o.ID, " ")
		v.names[name] = true
		v.names[name[strings.LastIndex(name, ".")+1:]] = true
	}
	return v
}

func (v *veil) know(t tidemark.TableID) {
	v.names[t.Schema], v.names[t.Name], v.names[t.String()] = true, true, true
}

var (
	// quoted are texts in quotes of any kind, with doubled ones in them; an opening quote without
	// an end hides the rest.
	quoted = regexp.MustCompile(`(?s)'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|` + "`[^`]*(?:`|$)")
	// inside are parentheses with values. A value may have parentheses of its own, so all to the
	// last one of the line is hidden.
	inside = regexp.MustCompile(`(?i)(=|contains|values?:?|row|entry)(\s*)\(.*\)`)
	// after are values without quotes, as servers and we write them at the end of a line.
	after = regexp.MustCompile(`(?im)\b(column \S+?|values?|keys?|entry|input|row|near|type \w+)(: ?|=)(\S.*)$`)
	// named are rows that we name by their key.
	named = regexp.MustCompile(`(?i)\b(row) [^\n]*?(: )`)
	long  = regexp.MustCompile(`\b\d[\d.,:-]{4,}\d\b`)
	code  = regexp.MustCompile(`(?i)\(?(SQLSTATE |error |#)\d+( \([0-9A-Z]{5}\))?\)?`)
)

// over returns a text without what may be values of rows, and without secrets.
func (v *veil) over(text string) string {
	if text == "" {
		return ""
	}
	codes := code.FindAllString(text, -1)
	text = code.ReplaceAllString(text, "\x00")
	text = inside.ReplaceAllString(text, "${1}${2}("+hidden+")")
	text = quoted.ReplaceAllStringFunc(text, func(q string) string {
		if name := strings.Trim(q, "'\"`"); v.names[name] || v.names[name[strings.LastIndex(name, ".")+1:]] {
			return q
		}
		return q[:1] + hidden + q[:1]
	})
	text = after.ReplaceAllStringFunc(text, func(s string) string {
		m := after.FindStringSubmatch(s)
		if strings.ContainsAny(m[3][:1], "'\"`(") { // what was in quotes or parentheses is hidden
			return s
		}
		return m[1] + m[2] + hidden
	})
	text = named.ReplaceAllString(text, "${1} "+hidden+"${2}")
	text = long.ReplaceAllString(text, hidden)
	for _, c := range codes {
		text = strings.Replace(text, "\x00", c, 1)
	}
	return tidemark.MaskText(text)
}

// said are the keys of documents whose texts may have values in them, and dropped those that are
// left out as a whole.
var (
	said    = map[string]bool{"error": true, "text": true, "hint": true, "reason": true, "queue_stopped": true, "message": true}
	dropped = map[string]bool{"sql": true, "filter": true, "older": true, "lower": true, "upper": true, "values": true, "bounds": true, "default": true, "plan": true}
)

// overJSON does the same in a document.
func (v *veil) overJSON(text json.RawMessage) (json.RawMessage, error) {
	if len(text) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	return json.Marshal(v.walk("", doc))
}

func (v *veil) walk(key string, doc any) any {
	switch x := doc.(type) {
	case map[string]any:
		for k, of := range x {
			if dropped[k] {
				delete(x, k)
				continue
			}
			x[k] = v.walk(k, of)
		}
	case []any:
		for i := range x {
			x[i] = v.walk(key, x[i])
		}
	case string:
		if said[key] {
			return v.over(x)
		}
		return tidemark.MaskText(x)
	}
	return doc
}

// A planned is what a bundle has of a plan.
type planned struct {
	Source   string             `json:"source"`
	Target   string             `json:"target"`
	Ranges   int                `json:"ranges"`
	Tables   []plannedTable     `json:"tables"`
	Objects  []plannedObject    `json:"objects"`
	Findings []tidemark.Finding `json:"findings"`
}

type plannedTable struct {
	From    tidemark.TableID  `json:"from"`
	To      tidemark.TableID  `json:"to"`
	Rows    int64             `json:"rows"`
	Bytes   int64             `json:"bytes"`
	Ranges  int               `json:"ranges"`
	Format  string            `json:"format,omitempty"`
	Columns map[string]string `json:"columns"` // their types on the source
	Indexes int               `json:"indexes"`
}

type plannedObject struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Bytes int64  `json:"bytes,omitempty"`
}

// outline is a plan without SQL, filters, defaults and bounds of ranges.
func outline(p *load.Plan, v *veil) planned {
	out := planned{Source: p.Source, Target: p.Target, Ranges: len(p.Ranges)}
	ranges := map[int]int{}
	for _, r := range p.Ranges {
		ranges[r.Move]++
	}
	for i, m := range p.Moves {
		t := plannedTable{From: m.From.TableID, To: m.To.TableID, Rows: m.From.Rows, Bytes: m.From.Bytes, Ranges: ranges[i], Columns: map[string]string{}, Indexes: len(m.From.Indexes)}
		if i < len(p.Formats) {
			t.Format = p.Formats[i].String()
		}
		for _, c := range m.From.Columns {
			t.Columns[c.Name] = typeName(c.Type.Native)
		}
		out.Tables = append(out.Tables, t)
	}
	for _, o := range p.Objects {
		out.Objects = append(out.Objects, plannedObject{o.ID, o.Kind, o.Bytes})
	}
	for _, f := range p.Findings {
		f.Text, f.Hint = v.over(f.Text), v.over(f.Hint)
		out.Findings = append(out.Findings, f)
	}
	return out
}

// typeName is a type without the labels of an ENUM or SET, which are values of rows.
func typeName(native string) string {
	if name, _, ok := strings.Cut(native, "'"); ok {
		return name + hidden + ")"
	}
	return native
}
