package mapping

import (
	"fmt"
	"math"
	"slices"

	"github.com/tidemarkdb/tidemark"
)

// unsupportedActions are transformations of DMS that we do not have, with the reason.
var unsupportedActions = map[string][2]string{
	"add-column":               {"columns that the source does not have would have no values", "Add the column on the target after the copy, or copy a view that has it (table-type view)."},
	"add-before-image-columns": {"before images are for change streams, and a copy has none", "Remove the rule."},
	"data-masking-digits-mask": {"masking is not supported, and copying values unmasked would expose them", "Copy a view that masks the column (table-type view), or leave the column out with remove-column."},
	"data-masking-digits-randomize": {"masking is not supported, and copying values unmasked would expose them",
		"Copy a view that masks the column (table-type view), or leave the column out with remove-column."},
	"data-masking-hash-mask": {"masking is not supported, and copying values unmasked would expose them",
		"Copy a view that masks the column (table-type view), or leave the column out with remove-column."},
}

// nameActions are the actions that derive a name from a name.
var nameActions = map[string]renameOp{
	"rename": toName, "convert-lowercase": toLower, "convert-uppercase": toUpper,
	"add-prefix": addPrefix, "add-suffix": addSuffix,
	"remove-prefix": newPrefix, "replace-prefix": newPrefix,
	"remove-suffix": newSuffix, "replace-suffix": newSuffix,
}

// otherActions are the other supported actions, with their targets.
var otherActions = map[string]string{
	"remove-column": "column", "include-column": "column", "change-data-type": "column", "define-primary-key": "table",
}

func (d *dmsReader) transformation(r *dmsRule) {
	action, target := r.text("rule-action"), r.text("rule-target")
	if why, no := unsupportedActions[action]; no {
		r.fail(tidemark.Unsupported, why[1], "%s is not supported: %s", action, why[0])
		return
	}
	op, naming := nameActions[action]
	only, other := otherActions[action]
	switch {
	case !naming && !other:
		known := []string{}
		for a := range nameActions {
			known = append(known, a)
		}
		for a := range otherActions {
			known = append(known, a)
		}
		slices.Sort(known)
		r.fail(tidemark.Invalid, "", "the rule-action %q is not known%s", action, didYouMean(action, known))
		return
	case target == "table-tablespace" || target == "index-tablespace":
		r.fail(tidemark.Unsupported, "Remove the rule.", "the rule-target %s is for Oracle tablespaces, which Tidemark does not have", target)
		return
	case target != "schema" && target != "table" && target != "column":
		r.fail(tidemark.Invalid, "", "rule-target is %q, not schema, table or column", target)
		return
	case other && target != only:
		r.fail(tidemark.Invalid, "", "%s needs the rule-target %s, not %s", action, only, target)
		return
	}
	c := change{rule: r.rule, drop: action == "remove-column"}
	w, loc := d.locator(r, target != "schema", action == "define-primary-key")
	if loc == nil {
		return
	}
	c.where = w
	d.rest(r, loc, &c, target)
	switch {
	case naming:
		c.facet = map[string]facet{"schema": schemaName, "table": tableName, "column": columnName}[target]
		c.rename = d.renaming(r, action, op)
	case action == "change-data-type":
		c.facet, c.typ = columnType, d.dataType(r)
	case action == "define-primary-key":
		c.facet, c.key = primaryKey, d.primaryKey(r)
	default:
		c.facet = columnKept
	}
	d.asFilled(r)
	d.out.changes = append(d.out.changes, c)
}

// rest reads the part of the locator below the table, and reports superfluous keys.
func (d *dmsReader) rest(r *dmsRule, loc *reader, c *change, target string) {
	c.column = anything(dmsWildcards)
	if target == "column" {
		if word := loc.text("data-type"); word != "" {
			if _, ok := dmsTypes[word]; !ok {
				r.fail(tidemark.Invalid, "", "the data-type %q of the object-locator is not a type of DMS%s", word, didYouMean(word, dmsTypeWords()))
			}
			c.ofType = &ofType{word: word}
		}
		if c.ofType == nil || loc.has("column-name") {
			c.column = d.pattern(r, loc, "column-name", false)
		}
		loc.warnUnknown()
		return
	}
	for _, key := range []string{"table-name", "column-name", "data-type"} {
		if key == "table-name" && target == "table" {
			continue
		}
		if v := loc.text(key); v != "" && v != "%" {
			d.p.warn(r.who, "", "object-locator.%s is %q, which has no effect with the rule-target %s", key, v, target)
		}
	}
	loc.warnUnknown()
}

// asFilled records the keys that were not read. Consoles write the keys of other actions too, as
// null, and the list of known keys is that of all actions.
func (d *dmsReader) asFilled(r *dmsRule) {
	for _, key := range []string{"value", "old-value", "expression", "data-type", "primary-key-def", "before-image-def"} {
		asked := slices.Contains(r.asks, key)
		n := r.get(key)
		if !asked && n != nil && !(n.kind == quoted && n.text == "") {
			d.p.warn(r.who, "", "the key %s at line %d has no effect with this rule-action", key, n.line)
		}
	}
	r.warnUnknown()
}

func (d *dmsReader) renaming(r *dmsRule, action string, op renameOp) renaming {
	out := renaming{op: op}
	if r.has("expression") {
		r.fail(tidemark.Unsupported, "Write a rule with a value for each name, or use prefix, suffix and case actions.",
			"it computes names by an expression, and expressions (SQLite's) are not supported")
		return out
	}
	switch action {
	case "rename":
		out.value = r.required("value")
	case "add-prefix", "add-suffix":
		out.value = r.required("value")
	case "remove-prefix", "remove-suffix":
		out.old = r.required("value")
	case "replace-prefix", "replace-suffix":
		out.old, out.value = r.required("old-value"), r.text("value")
	}
	return out
}

func (d *dmsReader) dataType(r *dmsRule) tidemark.Type {
	dt := r.object("data-type")
	if dt == nil {
		r.fail(tidemark.Invalid, `Write "data-type": {"type": "string", "length": 20}.`, "data-type is missing")
		return tidemark.Type{}
	}
	word := dt.required("type")
	length, _ := dt.number("length", 0, math.MaxInt32)
	precision, hasPrecision := dt.number("precision", 0, maxDigits)
	scale, hasScale := dt.number("scale", 0, maxDigits)
	dt.warnUnknown()
	if !hasPrecision {
		precision = -1
	}
	if !hasScale {
		scale = -1
	}
	t, ok := dmsTypes[word]
	switch {
	case slices.Contains(streamTypes, word):
		r.fail(tidemark.Unsupported, "", "the data-type %q is for targets that are not relational", word)
	case !ok && word != "":
		r.fail(tidemark.Invalid, "", "the data-type %q is not known%s", word, didYouMean(word, dmsTypeWords()))
	}
	return sized(t, length, precision, scale)
}

func (d *dmsReader) primaryKey(r *dmsRule) keyDef {
	def := r.object("primary-key-def")
	if def == nil {
		r.fail(tidemark.Invalid, "", "primary-key-def is missing")
		return keyDef{}
	}
	k := keyDef{name: def.text("name"), columns: def.texts("columns")}
	switch origin := def.text("origin"); origin {
	case "", "primary-key":
	case "unique-index":
		k.unique = true
	default:
		r.fail(tidemark.Invalid, "", "origin is %q, not primary-key or unique-index", origin)
	}
	def.warnUnknown()
	if len(k.columns) == 0 {
		r.fail(tidemark.Invalid, "", "primary-key-def has no columns")
	}
	for i, c := range k.columns {
		if slices.Contains(k.columns[:i], c) {
			r.fail(tidemark.Invalid, "", "primary-key-def names the column %q twice", c)
		}
	}
	return k
}

// maxRangeColumns is DMS's limit.
const maxRangeColumns = 10

func (d *dmsReader) tableSettings(r *dmsRule) {
	w, loc := d.locator(r, true, true)
	if loc == nil {
		return
	}
	loc.warnUnknown()
	s := setting{rule: r.rule, where: w}
	if pl := r.object("parallel-load"); pl != nil {
		s.split = d.parallelLoad(r, pl)
	}
	if ls := r.object("lob-settings"); ls != nil {
		s.lob = d.lobSettings(r, ls)
	}
	r.warnUnknown()
	if s.split == nil && s.lob == nil {
		d.p.warn(r.who, "", "it sets nothing: neither parallel-load nor lob-settings")
		return
	}
	d.out.settings = append(d.out.settings, s)
}

func (d *dmsReader) parallelLoad(r *dmsRule, pl *reader) *splitWish {
	out := &splitWish{}
	switch kind := pl.required("type"); kind {
	case "none":
		out.Kind = tidemark.SplitNone
	case "partitions-auto":
		out.Kind = tidemark.SplitPartitions
	case "subpartitions-auto":
		out.Kind = tidemark.SplitSubparts
	case "partitions-list", "subpartitions-list":
		out.list = true
		parts, subs := pl.texts("partitions"), pl.texts("subpartitions")
		switch {
		case len(parts) > 0 && len(subs) > 0:
			r.fail(tidemark.Unsupported, "List all as subpartitions.", "partitions and subpartitions of one table cannot be mixed")
		case len(subs) > 0:
			out.Kind, out.Parts = tidemark.SplitSubparts, subs
		case len(parts) > 0 && kind == "partitions-list":
			out.Kind, out.Parts = tidemark.SplitPartitions, parts
		default:
			r.fail(tidemark.Invalid, "", "parallel-load of type %s has no list of %s", kind, kind[:len(kind)-len("-list")])
		}
	case "ranges":
		out.Kind = tidemark.SplitBounds
		out.Columns = pl.texts("columns")
		for _, b := range pl.list("boundaries") {
			if b.kind != list {
				r.fail(tidemark.Invalid, "", "the boundary at line %d must be a list of values, not %s", b.line, b.kind)
				continue
			}
			out.Bounds = append(out.Bounds, d.values(r, b))
		}
		if why := boundsWrong(out.Split); why != "" {
			r.fail(tidemark.Invalid, "", "%s", why)
		}
	case "":
	default:
		r.fail(tidemark.Invalid, "", "the parallel-load type %q is not known%s", kind,
			didYouMean(kind, []string{"none", "partitions-auto", "subpartitions-auto", "partitions-list", "subpartitions-list", "ranges"}))
	}
	for _, key := range []string{"partitions", "subpartitions", "columns", "boundaries"} {
		asked := slices.Contains(pl.asks, key)
		if n := pl.get(key); n != nil && !asked && !(n.kind == list && len(n.items) == 0) {
			d.p.warn(r.who, "", "parallel-load.%s has no effect with this type", key)
		}
	}
	for _, key := range []string{"number-of-partitions", "collection-count-from-metadata", "max-records-skip-per-page", "batch-size"} {
		if pl.has(key) {
			d.p.warn(r.who, "", "parallel-load.%s is for MongoDB sources and has no effect", key)
		}
	}
	pl.warnUnknown()
	return out
}

// values returns the scalars of a boundary.
func (d *dmsReader) values(r *dmsRule, b *node) []string {
	var out []string
	for _, v := range b.items {
		if v.kind > plain {
			r.fail(tidemark.Invalid, "", "the boundary at line %d holds %s; values must be texts or numbers", b.line, v.kind)
		}
		out = append(out, v.text)
	}
	return out
}

// boundsWrong returns why boundaries are invalid for any table; "" if they are not.
func boundsWrong(s tidemark.Split) string {
	switch {
	case len(s.Columns) == 0:
		return "ranges need columns"
	case len(s.Columns) > maxRangeColumns:
		return fmt.Sprintf("ranges have %d columns, and the limit is %d", len(s.Columns), maxRangeColumns)
	case len(s.Bounds) == 0:
		return "ranges need boundaries"
	}
	for i, b := range s.Bounds {
		if len(b) != len(s.Columns) {
			return fmt.Sprintf("boundary %d has %d values for %d columns", i+1, len(b), len(s.Columns))
		}
	}
	for i, c := range s.Columns {
		if slices.Contains(s.Columns[:i], c) {
			return fmt.Sprintf("ranges name the column %q twice", c)
		}
	}
	return ""
}

func (d *dmsReader) lobSettings(r *dmsRule, ls *reader) *tidemark.Lob {
	mode := ls.text("mode")
	size, given := ls.number("bulk-max-size", 0, math.MaxInt32)
	ls.warnUnknown()
	switch mode {
	case "limited":
		if size == 0 {
			r.fail(tidemark.Invalid, `Write "bulk-max-size" in KB, or "mode": "unlimited".`, "lob-settings of mode limited need a bulk-max-size above 0")
		}
		return &tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: size << 10}
	case "unlimited":
		if given && size > 0 {
			d.p.find(tidemark.Note, r.who, "", "bulk-max-size has no effect with the mode unlimited: values of any size go inline")
		}
		return &tidemark.Lob{Mode: tidemark.FullLob}
	case "none", "":
		return nil // as the task says
	}
	r.fail(tidemark.Invalid, "", "the lob-settings mode %q is not limited, unlimited or none", mode)
	return nil
}
