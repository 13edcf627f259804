package schema

import (
	"fmt"

	"github.com/tidemarkdb/tidemark"
)

// rendered is the result of rendering: objects, and findings about them.
type rendered struct {
	objects  []tidemark.Object
	findings []tidemark.Finding

	done   map[string]bool       // IDs of objects
	counts map[sharedFinding]int // findings that are reported once
	order  []sharedFinding
	losses []typeLoss

	prefixed []string // indexes that hold the beginning of a text, with how many characters
}

// A sharedFinding is reported once, with the number of its occurrences.
type sharedFinding struct {
	severity tidemark.Severity
	text     string
}

// A typeLoss is a column whose type cannot hold all its values.
type typeLoss struct {
	rule   *TypeRule
	column string
}

func newRendered() rendered {
	return rendered{done: map[string]bool{}, counts: map[sharedFinding]int{}}
}

func (r *rendered) add(o tidemark.Object) {
	for r.done[o.ID] {
		o.ID += "'"
	}
	r.done[o.ID] = true
	r.objects = append(r.objects, o)
}

func (r *rendered) find(severity tidemark.Severity, object, text, hint string) {
	r.findings = append(r.findings, finding(severity, object, text, hint))
}

// once counts one occurrence of a finding that many columns may share.
func (r *rendered) once(severity tidemark.Severity, text string) {
	key := sharedFinding{severity, text}
	if r.counts[key]++; r.counts[key] == 1 {
		r.order = append(r.order, key)
	}
}

// sumUp reports the counted findings.
func (r *rendered) sumUp() {
	r.tellLosses()
	for _, key := range r.order {
		where := "in one place"
		if n := r.counts[key]; n > 1 {
			where = fmt.Sprintf("in %d places", n)
		}
		r.find(key.severity, "", key.text+" ("+where+")", "")
	}
	if len(r.prefixed) > 0 {
		r.find(tidemark.Note, "", "indexes on long texts hold their first characters only: "+tidemark.Some(r.prefixed, 3), "")
	}
}

func (r *rendered) loses(rule *TypeRule, column string) {
	r.losses = append(r.losses, typeLoss{rule, column})
}

// tellLosses creates one finding for each rule that changes values, and one for all rules that
// refuse values.
func (r *rendered) tellLosses() {
	var refused []string
	for i := range typeMap {
		rule := &typeMap[i]
		var columns []string
		for _, l := range r.losses {
			if l.rule == rule {
				columns = append(columns, l.column)
			}
		}
		switch {
		case len(columns) == 0:
		case rule.Silent:
			change := rule.From
			if rule.From != rule.To {
				change += " becomes " + rule.To
			}
			r.find(tidemark.Warning, "", change+": "+rule.Loses+" ("+tidemark.Some(columns, 3)+")", "A transformation that changes the data type to text keeps such values as they are.")
		default:
			refused = append(refused, columns...)
		}
	}
	if len(refused) > 0 {
		r.find(tidemark.Note, "", "NaN, infinities and dates outside of the years 1 to 9999 have no place here; a row with one is refused ("+tidemark.Some(refused, 3)+")", "")
	}
}
