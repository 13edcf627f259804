package mapping

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// ParseDMS reads AWS DMS table mappings: {"rules": [...]}. It accepts what real files contain
// (numbers as strings, empty strings for missing ones, comments, typographic quotation marks, keys
// that are null) and reports unknown keys as Findings. A rule that cannot be honoured, or is wrong,
// is an Error of Kind Unsupported or Invalid that names its rule-id and the reason; one error lists
// all such rules. Broken JSON is an Error of Kind BadInput.
func ParseDMS(text []byte) (*Rules, []tidemark.Finding, error) {
	p := &problems{op: "read table mappings"}
	root, err := parseJSON(text, p)
	if err != nil {
		return nil, p.findings, err
	}
	duplicates(root, p)
	if root.kind != object {
		return nil, p.findings, &tidemark.Error{Kind: tidemark.BadInput, Op: p.op, Err: errors.New("the text is not an object with the key rules"), Hint: `Table mappings look like {"rules": [ ... ]}.`}
	}
	top := newReader(root, "table mappings", "", p)
	rules := top.list("rules")
	top.warnUnknown()
	if len(rules) == 0 && len(p.errs) == 0 {
		p.fail(tidemark.Invalid, "", `Table mappings look like {"rules": [ ... ]} and need a selection rule.`, "there are no rules")
	}
	d := &dmsReader{p: p, out: &Rules{}, ids: map[int64]place{}, names: map[string]string{}}
	for _, n := range rules {
		d.rule(n)
	}
	takes := slices.ContainsFunc(d.out.selections, func(s selection) bool { return !s.exclude })
	if len(rules) > 0 && !takes && len(p.errs) == 0 {
		p.fail(tidemark.Invalid, "", "Add a selection rule with rule-action include.", "no selection rule includes a table")
	}
	if err := p.err(); err != nil {
		return nil, p.findings, err
	}
	d.out.sort()
	return d.out, p.findings, nil
}

type dmsReader struct {
	p     *problems
	out   *Rules
	ids   map[int64]place
	names map[string]string // rule-name to the rule that has it
}

// A dmsRule is a rule being read: the parts common to all rules are done.
type dmsRule struct {
	*reader
	rule
}

// fail records an error of the rule.
func (r *dmsRule) fail(kind tidemark.Kind, hint, format string, args ...any) {
	r.p.fail(kind, r.who, hint, format, args...)
}

func (d *dmsReader) rule(n *node) {
	if n.kind != object {
		d.p.fail(tidemark.Invalid, fmt.Sprintf("line %d", n.line), "", "a rule must be an object, not %s", n.kind)
		return
	}
	r := &dmsRule{reader: newReader(n, fmt.Sprintf("the rule at line %d", n.line), "", d.p)}
	id, ok := r.number("rule-id", 0, math.MaxInt64)
	if !ok {
		r.required("rule-id")
		return
	}
	r.who = fmt.Sprintf("rule-id %d", id)
	r.rule = rule{id, r.who}
	if first, twice := d.ids[id]; twice {
		r.fail(tidemark.Invalid, "Give every rule a rule-id of its own.", "the rule at line %d has the same rule-id as the one at line %d", n.line, first.line)
		return
	}
	d.ids[id] = n.place
	if name := r.text("rule-name"); name != "" {
		if first, twice := d.names[name]; twice {
			r.fail(tidemark.Invalid, "Give every rule a rule-name of its own.", "its rule-name %q is already that of %s", name, first)
		}
		d.names[name] = r.who
	} else {
		d.p.find(tidemark.Note, r.who, "", "it has no rule-name")
	}
	switch kind := r.text("rule-type"); kind {
	case "selection":
		d.selection(r)
	case "transformation":
		d.transformation(r)
	case "table-settings":
		d.tableSettings(r)
	case "validation":
		r.fail(tidemark.Unsupported, "Remove the rule, and compare with tidemark diff, which has no functions per column.",
			"validation rules change how a column is compared, which diff cannot do")
	case "object-mapping":
		r.fail(tidemark.Unsupported, "Remove the rule.", "object-mapping rules are for Kinesis, Kafka and DynamoDB targets, which Tidemark does not have")
	case "post-processing":
		r.fail(tidemark.Unsupported, "Remove the rule.", "post-processing rules are for S3 targets, which Tidemark does not have")
	case "":
		r.fail(tidemark.Invalid, "", "rule-type is missing")
	default:
		r.fail(tidemark.Invalid, "", "the rule-type %q is not known%s", kind, didYouMean(kind, []string{"selection", "transformation", "table-settings"}))
	}
}

// locator reads the schema-name and table-name of a rule's object-locator. exact means that they
// are names, not patterns, so that % in them is an error.
func (d *dmsReader) locator(r *dmsRule, needTable, exact bool) (where, *reader) {
	loc := r.object("object-locator")
	if loc == nil {
		r.fail(tidemark.Invalid, "", "object-locator is missing")
		return where{}, nil
	}
	w := where{schema: d.pattern(r, loc, "schema-name", exact), table: anything(dmsWildcards)}
	if needTable {
		w.table = d.pattern(r, loc, "table-name", exact)
	}
	return w, loc
}

func (d *dmsReader) pattern(r *dmsRule, loc *reader, key string, exact bool) pattern {
	s := loc.required(key)
	if exact {
		if strings.Contains(s, "%") {
			r.fail(tidemark.Invalid, "Write one such rule for each table.", "%s is %q, but this kind of rule takes no wildcards", key, s)
		}
		return literal(s)
	}
	p, err := dmsWildcards.parse(s)
	if err != nil {
		r.fail(tidemark.Invalid, "", "%s: %v", key, err)
	}
	return p
}

func (d *dmsReader) selection(r *dmsRule) {
	action := r.text("rule-action")
	s := selection{rule: r.rule, exclude: action == "exclude"}
	switch action {
	case "include", "exclude", "explicit":
	default:
		r.fail(tidemark.Invalid, "", "rule-action is %q, not include, exclude or explicit", action)
		return
	}
	w, loc := d.locator(r, true, action == "explicit")
	if loc == nil {
		return
	}
	s.where = w
	switch form := loc.text("table-type"); form {
	case "table", "":
		s.forms = tables
	case "view":
		s.forms = views
	case "all":
		s.forms = tables | views
	default:
		r.fail(tidemark.Invalid, "", "table-type is %q, not table, view or all", form)
	}
	loc.warnUnknown()
	set := setting{rule: r.rule, where: s.where}
	if order, ok := r.number("load-order", 0, math.MaxInt32); ok {
		set.order = int(order)
	}
	for _, n := range r.list("filters") {
		if f, ok := d.filter(r, n); ok {
			set.filters = append(set.filters, f)
		}
	}
	r.warnUnknown()
	switch {
	case s.exclude && len(set.filters) > 0:
		r.fail(tidemark.Invalid, "Put the filters into the rule that includes the table.", "filters in an exclude rule: it leaves whole tables out, not rows")
	case s.exclude && set.order > 0:
		d.p.warn(r.who, "", "load-order has no effect in an exclude rule")
	case !s.exclude && (len(set.filters) > 0 || set.order > 0):
		d.out.settings = append(d.out.settings, set)
	}
	if action == "explicit" && len(set.filters) > 0 {
		d.p.warn(r.who, "", "DMS ignores the filters of an explicit rule; here they apply")
	}
	d.out.selections = append(d.out.selections, s)
}

// filter reads one filter: conditions on one column, joined by OR.
func (d *dmsReader) filter(r *dmsRule, n *node) (tidemark.Filter, bool) {
	if n.kind != object {
		r.fail(tidemark.Invalid, "", "a filter must be an object, not %s", n.kind)
		return tidemark.Filter{}, false
	}
	fr := newReader(n, r.who, "filters.", d.p)
	if kind := fr.text("filter-type"); kind != "source" && kind != "" {
		r.fail(tidemark.Invalid, "", "filter-type is %q, and only source is known", kind)
	}
	f := tidemark.Filter{Column: fr.required("column-name")}
	negative := 0
	for _, c := range fr.list("filter-conditions") {
		if c.kind != object {
			r.fail(tidemark.Invalid, "", "a filter condition must be an object, not %s", c.kind)
			continue
		}
		cond := d.condition(r, newReader(c, r.who, "filter-conditions.", d.p))
		if slices.Contains([]string{"noteq", "notbetween", "notnull"}, cond.Op) {
			negative++
		}
		f.Conditions = append(f.Conditions, cond)
	}
	fr.warnUnknown()
	if len(f.Conditions) == 0 {
		r.fail(tidemark.Invalid, "", "the filter of column %q has no filter-conditions", f.Column)
	}
	if negative > 1 {
		r.fail(tidemark.Invalid, "Put each negative condition into a filter of its own; filters are joined by AND.",
			"the filter of column %q has %d negative conditions, which joined by OR would let every row through", f.Column, negative)
	}
	return f, true
}

func (d *dmsReader) condition(r *dmsRule, cr *reader) tidemark.Condition {
	c := tidemark.Condition{Op: cr.text("filter-operator")}
	value, start, end := cr.has("value"), cr.has("start-value"), cr.has("end-value")
	c.Value, c.Start, c.End = cr.text("value"), cr.text("start-value"), cr.text("end-value")
	cr.warnUnknown()
	switch c.Op {
	case "lte":
		c.Op = "ste"
		fallthrough
	case "eq", "noteq", "gte", "ste":
		if !value {
			r.fail(tidemark.Invalid, "", "the condition %s needs a value", c.Op)
		}
		c.Start, c.End = "", ""
	case "between", "notbetween":
		if !start || !end {
			r.fail(tidemark.Invalid, "", "the condition %s needs start-value and end-value", c.Op)
		}
		c.Value = ""
	case "null", "notnull":
		c.Value, c.Start, c.End = "", "", ""
	default:
		r.fail(tidemark.Invalid, "Use eq, noteq, gte, lte, ste, between, notbetween, null or notnull.",
			"the filter-operator %q is not known", c.Op)
	}
	return c
}
